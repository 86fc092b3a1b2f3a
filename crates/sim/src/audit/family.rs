//! How the auditor reads each family of custom resources: plainly, and not by the code that is judged.

use std::collections::BTreeMap;

use joiner_core::labels;
use joiner_embedded::cluster::fields::Fields as _;
use serde_json::{Value, json};

/// A family of custom resources. A family that the auditor is to judge is a constant of this type.
#[derive(Debug)]
pub struct Family {
    /// As it stands in the mark on nodes and machine objects.
    pub name: &'static str,
    /// Resource of its machine objects.
    pub machines: &'static str,
    /// Resource of its pools.
    pub pools: &'static str,
    /// Whether the spec of a machine object is Joiner's to change.
    pub own_spec: bool,
    /// Key of the pool that a machine object belongs to.
    pub pool: fn(&Value) -> String,
    /// What a machine object is bought from.
    pub class: fn(&Value) -> Class,
    /// What a pool says.
    pub terms: fn(&Value) -> Terms,
}

/// What machines are bought from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class {
    /// API group of its kind.
    pub group: String,
    /// Name.
    pub name: String,
}

/// What the auditor must know of a pool.
#[derive(Debug, Clone)]
pub struct Terms {
    /// What it buys from.
    pub class: Class,
    /// Labels that its nodes bear for sure.
    pub labels: BTreeMap<String, String>,
    /// Taints of its nodes.
    pub taints: Vec<Value>,
    /// For these labels, one of these values.
    pub requirements: Vec<(String, Vec<String>)>,
    /// The most it may have, by resource; `nodes` are machine objects.
    pub limits: serde_json::Map<String, Value>,
    /// Disruption budgets.
    pub budgets: Vec<Value>,
    /// Whether it buys for pods that wait; otherwise it is of a fixed size.
    pub for_pods: bool,
}

/// `NodePools` and `NodeClaims`.
pub static KARPENTER: Family = Family {
    name: "karpenter",
    machines: "nodeclaims.karpenter.sh",
    pools: "nodepools.karpenter.sh",
    own_spec: false,
    pool: |claim| claim.label(labels::NODEPOOL).unwrap_or_default().to_owned(),
    class: |claim| karpenter_class(claim.at(&["spec", "nodeClassRef"])),
    terms: |pool| {
        let template = pool.at(&["spec", "template"]);
        Terms {
            class: karpenter_class(template.at(&["spec", "nodeClassRef"])),
            labels: texts(template.at(&["metadata", "labels"])),
            taints: template.items(&["spec", "taints"]).to_vec(),
            requirements: requirements(template.items(&["spec", "requirements"])),
            limits: object(pool.at(&["spec", "limits"])),
            budgets: pool.items(&["spec", "disruption", "budgets"]).to_vec(),
            for_pods: pool.int(&["spec", "replicas"]).is_none(),
        }
    },
};

fn karpenter_class(reference: &Value) -> Class {
    Class {
        group: reference.text(&["group"]).to_owned(),
        name: reference.text(&["name"]).to_owned(),
    }
}

/// SpotNodePools and SpotNodes.
pub static KARPETRACK: Family = Family {
    name: "karpetrack",
    machines: "spotnodes.karpetrack.io",
    pools: "spotnodepools.karpetrack.io",
    // Whichever server class is tried stands in the spec.
    own_spec: true,
    pool: |node| node.text(&["spec", "nodePoolRef"]).to_owned(),
    class: |_| cloudspace(),
    terms: |pool| {
        let mut limits = object(pool.at(&["spec", "limits"]));
        if let Some(disk) = limits.remove("ephemeralStorage") {
            limits.insert("ephemeral-storage".to_owned(), disk);
        }
        let mut wanted = requirements(pool.items(&["spec", "requirements"]));
        let regions = pool.items(&["spec", "regions"]);
        if !regions.is_empty() {
            wanted.push((labels::ZONE.to_owned(), strings(regions)));
        }
        // Servers on demand are bought only where the pool asks for them.
        if wanted.iter().all(|(key, _)| key != labels::CAPACITY_TYPE) {
            wanted.push((labels::CAPACITY_TYPE.to_owned(), vec!["spot".to_owned()]));
        }
        let mut own = texts(pool.at(&["spec", "labels"]));
        own.insert("karpetrack.io/managed".to_owned(), "true".to_owned());
        own.insert("karpetrack.io/nodepool".to_owned(), pool.name().to_owned());
        Terms {
            class: cloudspace(),
            labels: own,
            taints: pool.items(&["spec", "taints"]).to_vec(),
            requirements: wanted,
            limits,
            // Nodes of this family are drained one after another, whatever is replaced at once.
            budgets: Vec::new(),
            for_pods: true,
        }
    },
};

/// The one class that all SpotNodePools buy from. Which cloudspace it is, is said where Joiner is started.
fn cloudspace() -> Class {
    Class {
        group: "karpetrack.io".to_owned(),
        name: String::new(),
    }
}

/// `NodeSmithPools` and `NodeSmithClaims`.
pub static NODESMITH: Family = Family {
    name: "nodesmith",
    machines: "nodesmithclaims.kubenodesmith.parawell.cloud",
    pools: "nodesmithpools.kubenodesmith.parawell.cloud",
    // The size that is tried stands in the spec.
    own_spec: true,
    pool: |claim| format!("{}/{}", claim.namespace(), claim.text(&["spec", "poolRef"])),
    class: |claim| provider(claim.text(&["status", "providerRef"])),
    terms: |pool| {
        let template = pool.at(&["spec", "machineTemplate"]);
        let mut own = texts(template.at(&["labels"]));
        let key = pool.text(&["spec", "poolLabelKey"]);
        let key = if key.is_empty() {
            "topology.kubenodesmith.io/pool"
        } else {
            key
        };
        own.insert(key.to_owned(), pool.name().to_owned());
        let mut limits = serde_json::Map::new();
        let units = [
            ("maxNodes", "nodes", ""),
            ("cpuCores", "cpu", ""),
            ("memoryMiB", "memory", "Mi"),
        ];
        for (field, resource, unit) in units {
            // Zero is no limit.
            if let Some(most) = pool
                .int(&["spec", "limits", field])
                .filter(|most| *most > 0)
            {
                limits.insert(resource.to_owned(), Value::from(format!("{most}{unit}")));
            }
        }
        Terms {
            class: provider(pool.text(&["spec", "providerRef"])),
            labels: own,
            taints: template.items(&["taints"]).to_vec(),
            requirements: Vec::new(),
            limits,
            // What has drifted is replaced a tenth at a time.
            budgets: vec![json!({"nodes": "10%", "reasons": ["Drifted"]})],
            for_pods: true,
        }
    },
};

/// A `NodeSmithProvider`.
fn provider(name: &str) -> Class {
    Class {
        group: "kubenodesmith.parawell.cloud".to_owned(),
        name: name.to_owned(),
    }
}

fn object(value: &Value) -> serde_json::Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

fn texts(value: &Value) -> BTreeMap<String, String> {
    let all = value.as_object().into_iter().flatten();
    all.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

fn strings(values: &[Value]) -> Vec<String> {
    let all = values.iter().filter_map(Value::as_str);
    all.map(ToOwned::to_owned).collect()
}

/// Requirements of the operator `In`.
fn requirements(all: &[Value]) -> Vec<(String, Vec<String>)> {
    let read = |one: &Value| {
        (
            one.text(&["key"]).to_owned(),
            strings(one.items(&["values"])),
        )
    };
    all.iter().map(read).collect()
}
