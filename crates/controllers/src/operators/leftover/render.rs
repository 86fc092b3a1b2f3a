//! What a `LeftoverNodePool` becomes: pure functions.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use joiner_api::aws::{AmiSelectorTerm, SelectorTerm, ami_family, v1, v1beta1};
use joiner_api::leftover::{CapacityType, LeftoverNodePool};
use joiner_core::leftover::{Capacity, Choice, Market, Wanted};
use joiner_core::name::Name;
use kube::ResourceExt as _;
use serde_json::{Value, json};

/// Karpenter asks heavier pools first.
const WEIGHT: i32 = 50;
/// While no spot is viable, on-demand goes first: Karpenter would try the spot pool every three minutes and might never
/// come to a lighter one.
const FALLBACK_WEIGHT: i32 = 60;

/// Role and image of nodes whose pool names none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassDefaults {
    /// IAM role.
    pub role: Option<String>,
    /// IAM instance profile.
    pub instance_profile: Option<String>,
    /// Image, as family and version.
    pub ami_alias: Option<String>,
}

/// Versions of `EC2NodeClass`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClassVersion {
    /// Until Karpenter 1.0.
    V1beta1,
    /// Since Karpenter 1.0.
    #[default]
    V1,
}

impl ClassVersion {
    /// As an API server has it.
    pub fn name(self) -> &'static str {
        match self {
            ClassVersion::V1beta1 => "v1beta1",
            ClassVersion::V1 => "v1",
        }
    }
}

/// Where the nodes' settings come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A class that is rendered for the pool.
    Rendered,
    /// A class of the user's.
    Named(String),
    /// The one class with these labels.
    Selected(BTreeMap<String, String>),
}

impl Source {
    /// What a pool asks for.
    pub fn of(pool: &LeftoverNodePool) -> Source {
        match (&pool.spec.node_class_name, &pool.spec.node_class_selector) {
            (Some(name), _) => Source::Named(name.clone()),
            (None, Some(labels)) => Source::Selected(labels.clone()),
            (None, None) => Source::Rendered,
        }
    }
}

/// Name of the NodePool.
pub fn pool_name(pool: &LeftoverNodePool) -> String {
    format!("leftover-{}", pool.name_any())
}

/// Name of the on-demand NodePool that stands in.
pub fn fallback_name(pool: &LeftoverNodePool) -> String {
    format!("leftover-{}-on-demand", pool.name_any())
}

/// Name of the `EC2NodeClass`.
pub fn class_name(pool: &LeftoverNodePool) -> String {
    format!("leftover-{}-class", pool.name_any())
}

/// What a pool asks the market for.
pub fn wanted(pool: &LeftoverNodePool) -> Wanted {
    let spec = &pool.spec;
    let count = |number: i64| usize::try_from(number.clamp(1, 1000)).unwrap_or(1);
    Wanted {
        families: spec
            .families
            .iter()
            .map(|one| Name::from(one.as_str()))
            .collect(),
        min_gpus: u32::try_from(spec.min_gpus().max(1)).unwrap_or(u32::MAX),
        max_types: count(spec.max_instance_types()),
        max_zones: count(spec.max_zones()),
        min_score: u8::try_from(spec.min_spot_score().clamp(0, 10)).unwrap_or(0),
        capacity: match spec.capacity_type() {
            CapacityType::Spot => Capacity::Spot,
            CapacityType::OnDemand => Capacity::OnDemand,
        },
        fallback: spec.on_demand_fallback(),
    }
}

/// The NodePool that offers a choice.
pub fn node_pool(pool: &LeftoverNodePool, choice: &Choice, market: &Market, class: &str) -> Value {
    let capacity = wanted(pool).capacity;
    shape(
        pool,
        &pool_name(pool),
        choice,
        market,
        class,
        capacity,
        WEIGHT,
    )
}

/// The on-demand NodePool that stands in; closed, it takes no more nodes and keeps those that it has.
pub fn fallback_pool(
    pool: &LeftoverNodePool,
    choice: &Choice,
    market: &Market,
    class: &str,
    open: bool,
) -> Value {
    let name = fallback_name(pool);
    let weight = if open { FALLBACK_WEIGHT } else { 1 };
    let shape = shape(
        pool,
        &name,
        choice,
        market,
        class,
        Capacity::OnDemand,
        weight,
    );
    if open { shape } else { closed(shape) }
}

/// A NodePool that takes no more nodes and keeps those that it has; deleting it would drain them.
pub fn closed(mut pool: Value) -> Value {
    pool["spec"]["limits"] = json!({"cpu": "0"});
    pool
}

fn shape(
    pool: &LeftoverNodePool,
    name: &str,
    choice: &Choice,
    market: &Market,
    class: &str,
    capacity: Capacity,
    weight: i32,
) -> Value {
    let spec = &pool.spec;
    // Sorted: lists are compared as a whole, and another order would be a change for nothing.
    let sorted = |all: &[Name]| -> Vec<String> {
        let all: BTreeSet<String> = all.iter().map(ToString::to_string).collect();
        all.into_iter().collect()
    };
    let known = choice.types.iter().filter_map(|one| market.types.get(one));
    let mut arches: BTreeSet<String> = known.map(|one| one.arch.to_string()).collect();
    if arches.is_empty() {
        arches.insert("amd64".to_owned());
    }
    let within = |key: &str, values: Value| json!({"key": key, "operator": "In", "values": values});
    let taints: Vec<Value> = spec
        .taints
        .iter()
        .filter_map(|text| text.get().ok())
        .map(|taint| {
            let mut shape = json!({"key": &*taint.key, "effect": taint.effect.to_string()});
            if !taint.value.is_empty() {
                shape["value"] = Value::from(&*taint.value);
            }
            shape
        })
        .collect();
    let mut template = json!({
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": class},
            "requirements": [
                within("kubernetes.io/arch", json!(arches)),
                within("karpenter.sh/capacity-type", json!([capacity.to_string()])),
                within("node.kubernetes.io/instance-type", json!(sorted(&choice.types))),
                within("topology.kubernetes.io/zone", json!(sorted(&choice.zones))),
            ],
        },
    });
    if !taints.is_empty() {
        template["spec"]["taints"] = Value::Array(taints);
    }
    if !spec.labels.is_empty() {
        template["metadata"] = json!({"labels": spec.labels});
    }
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": metadata(pool, name),
        "spec": {
            "weight": weight,
            "disruption": {
                "consolidationPolicy": "WhenEmptyOrUnderutilized",
                "consolidateAfter": consolidate_after(pool),
                "budgets": [{"nodes": spec.budgets_nodes().as_str()}],
            },
            "template": template,
        },
    })
}

/// Karpenter reads whole seconds only.
fn consolidate_after(pool: &LeftoverNodePool) -> String {
    let text = pool.spec.consolidate_after();
    let whole = |text: &str| {
        let mut digits = false;
        let fits = text.chars().all(|c| {
            let fine = c.is_ascii_digit() || (digits && matches!(c, 's' | 'm' | 'h'));
            digits = c.is_ascii_digit();
            fine
        });
        fits && text.ends_with(['s', 'm', 'h'])
    };
    match text.get() {
        Ok(None) => "Never".to_owned(),
        Ok(Some(_)) if whole(text.as_str()) => text.as_str().to_owned(),
        Ok(Some(duration)) => format!("{}s", rounded(duration)),
        Err(_) => "2m".to_owned(),
    }
}

fn rounded(duration: SignedDuration) -> i64 {
    let seconds = duration.as_secs();
    if duration.subsec_nanos() > 0 {
        seconds.saturating_add(1)
    } else {
        seconds
    }
}

fn metadata(pool: &LeftoverNodePool, name: &str) -> Value {
    let mut metadata = json!({"name": name, "labels": {"managed-by": "leftover"}});
    // Without a cluster there is nothing to be owned by.
    if let Some(uid) = &pool.metadata.uid {
        metadata["ownerReferences"] = json!([{
            "apiVersion": "gpu.devplatforms.io/v1alpha1",
            "kind": "LeftoverNodePool",
            "name": pool.name_any(),
            "uid": uid,
            "controller": true,
            "blockOwnerDeletion": true,
        }]);
    }
    metadata
}

/// The `EC2NodeClass` of a pool that names none; or what is missing for one.
pub fn node_class(
    pool: &LeftoverNodePool,
    defaults: &ClassDefaults,
    version: ClassVersion,
) -> Result<Value, String> {
    let spec = &pool.spec;
    for (field, tags) in [
        ("subnetSelectorTags", &spec.subnet_selector_tags),
        (
            "securityGroupSelectorTags",
            &spec.security_group_selector_tags,
        ),
    ] {
        if tags.is_empty() {
            return Err(format!(
                "spec.{field} is empty: an EC2NodeClass cannot be rendered without it; write the tags, or name a class of \
                 your own with spec.nodeClassName"
            ));
        }
        if let Some((key, _)) = tags
            .iter()
            .find(|(key, value)| key.is_empty() || value.is_empty())
        {
            return Err(format!(
                "spec.{field} has an empty key or value ({key:?}): write the value that the tag has, or * for any"
            ));
        }
    }
    let role = spec.role.clone();
    let profile = spec.instance_profile.clone();
    let (role, profile) = if role.is_some() || profile.is_some() {
        (role, profile)
    } else if defaults.role.is_some() {
        (defaults.role.clone(), None)
    } else {
        (None, defaults.instance_profile.clone())
    };
    if role.is_none() && profile.is_none() {
        return Err(
            "an IAM role for the nodes is missing: set spec.role or spec.instanceProfile, start the controller with \
             --aws-node-role, or name a class of your own with spec.nodeClassName"
                .to_owned(),
        );
    }
    let alias = spec
        .ami_alias
        .clone()
        .or_else(|| defaults.ami_alias.clone());
    let alias = alias.unwrap_or_else(|| "al2023@latest".to_owned());
    let term = |tags: &BTreeMap<String, String>| vec![SelectorTerm { tags: tags.clone() }];
    let subnets = term(&spec.subnet_selector_tags);
    let groups = term(&spec.security_group_selector_tags);
    let spec = match version {
        ClassVersion::V1 => serde_json::to_value(v1::EC2NodeClassSpec {
            role,
            instance_profile: profile,
            ami_selector_terms: vec![AmiSelectorTerm { alias: Some(alias) }],
            subnet_selector_terms: subnets,
            security_group_selector_terms: groups,
        }),
        ClassVersion::V1beta1 => {
            let family = ami_family(&alias).ok_or_else(|| {
                format!("the image {alias:?} has no name in EC2NodeClass v1beta1: use al2023@latest, or upgrade Karpenter")
            })?;
            serde_json::to_value(v1beta1::EC2NodeClassSpec {
                role,
                instance_profile: profile,
                ami_family: family.to_owned(),
                subnet_selector_terms: subnets,
                security_group_selector_terms: groups,
            })
        }
    };
    let spec = spec.map_err(|error| error.to_string())?;
    Ok(json!({
        "apiVersion": format!("karpenter.k8s.aws/{}", version.name()),
        "kind": "EC2NodeClass",
        "metadata": metadata(pool, &class_name(pool)),
        "spec": spec,
    }))
}
