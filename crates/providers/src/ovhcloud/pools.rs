//! Node pools by shape: machines that are alike share a pool, and its name leads back to the shape.

use std::collections::BTreeMap;

use joiner_core::labels;
use joiner_core::taints::Taint;
use sha2::{Digest as _, Sha256};

use super::auth::hex;
use super::flavors;
use super::types::{NewPool, NodePool, PoolTaint, Template, TemplateMetadata, TemplateSpec};
use crate::{LaunchRequest, MachineId, ProviderError, Uid};

/// Annotation of pools: whose they are.
pub const OWNER_MARK: &str = "joiner.dev/owner";
/// Annotation of pools: digest of their shape.
pub const SHAPE_MARK: &str = "joiner.dev/shape";
/// Annotation of pools whose labels are left to whoever registers the node.
pub const BARE_MARK: &str = "joiner.dev/bare";
/// Zone of regions that have but one, as their nodes and volumes call it.
pub const SINGLE_ZONE: &str = "nova";
/// Most nodes of a pool whose nodes are on different hypervisors.
pub const ANTI_AFFINITY_NODES: u32 = 5;
/// What every pool's name begins with.
const PREFIX: &str = "karpenter-";
/// Longest name before digest and number: node names are made of pool names.
const NAME_HEAD: usize = 29;

/// Labels that the node gets otherwise: from its kubelet, from the cloud, or when it is registered. In a template they
/// would be put back for ever.
const LEFT_OUT: [&str; 9] = [
    labels::INSTANCE_TYPE,
    labels::ZONE,
    labels::REGION,
    labels::HOSTNAME,
    labels::ARCH,
    labels::OS,
    labels::CAPACITY_TYPE,
    labels::REGISTERED,
    labels::INITIALIZED,
];

/// Whose pools: one class of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The cluster's identity.
    pub cluster: String,
    /// Family of custom resources.
    pub family: String,
    /// Name of the class.
    pub class: String,
}

impl Mark {
    fn text(&self) -> String {
        format!("{}/{}/{}", self.cluster, self.family, self.class)
    }

    /// Whether a pool is ours. One that OVHcloud's autoscaler moves is not ours any more: its owner switched that on.
    pub fn owns(&self, pool: &NodePool) -> bool {
        pool.name.starts_with(PREFIX)
            && !pool.autoscale
            && pool.template.metadata.annotations.get(OWNER_MARK) == Some(&self.text())
    }
}

/// What machines must have in common to share a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Flavour.
    pub flavor: String,
    /// Zone; [`SINGLE_ZONE`] where there is but one.
    pub zone: String,
    /// Paid by the month.
    pub monthly: bool,
    /// On different hypervisors.
    pub anti_affinity: bool,
    /// Labels of the template.
    pub labels: BTreeMap<String, String>,
    /// Taints of the nodes; those without a value are not in the template.
    pub taints: Vec<PoolTaint>,
    /// Without the labels of the machines: pools are short, and whoever registers nodes labels them anyway.
    pub bare: bool,
}

impl Shape {
    /// The shape of a request. Startup taints are left to whoever registers the node: the cloud would put them back
    /// for good.
    pub fn of(
        request: &LaunchRequest,
        monthly: bool,
        anti_affinity: bool,
        tags: &BTreeMap<String, String>,
    ) -> Self {
        let mut all: BTreeMap<String, String> = request
            .labels
            .iter()
            .filter(|(key, _)| {
                !LEFT_OUT.contains(&&***key) && !key.starts_with("karpenter.ovhcloud.sh/")
            })
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect();
        all.extend(tags.clone());
        all.insert("managed-by".to_owned(), "karpenter".to_owned());
        let mut taints: Vec<PoolTaint> = request.taints.iter().map(pool_taint).collect();
        taints.sort();
        taints.dedup();
        let flavor = request.purchase.instance_type.to_string();
        Shape {
            monthly: monthly && flavors::is_gen2(&flavor),
            flavor,
            zone: request.purchase.zone.to_string(),
            anti_affinity,
            labels: all,
            taints,
            bare: false,
        }
    }

    /// The same without the labels of the machines.
    #[must_use]
    pub fn bared(&self) -> Self {
        Shape {
            labels: BTreeMap::from([("managed-by".to_owned(), "karpenter".to_owned())]),
            bare: true,
            ..self.clone()
        }
    }

    fn digest(&self, mark: &Mark) -> String {
        let mut hash = Sha256::new();
        let mut part = |text: &str| {
            hash.update(text.as_bytes());
            hash.update([0]);
        };
        part(&mark.text());
        part(&self.flavor);
        part(&self.zone);
        part(if self.monthly { "monthly" } else { "hourly" });
        part(if self.anti_affinity { "apart" } else { "" });
        part(if self.bare { "bare" } else { "" });
        for (key, value) in &self.labels {
            part(key);
            part(value);
        }
        part("");
        for taint in &self.taints {
            part(&taint.key);
            part(&taint.value);
            part(&taint.effect);
        }
        hex(&hash.finalize()).chars().take(6).collect()
    }

    /// The name of the pool with this number, counted from 1.
    pub fn pool_name(&self, mark: &Mark, number: u32) -> String {
        let mut head = format!("{PREFIX}{}", self.flavor);
        if self.zone != SINGLE_ZONE {
            head = format!("{head}-{}", self.zone);
        }
        let head: String = head
            .to_ascii_lowercase()
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .take(NAME_HEAD)
            .collect();
        let head = head.trim_end_matches('-');
        let digest = self.digest(mark);
        if number <= 1 {
            format!("{head}-{digest}")
        } else {
            format!("{head}-{digest}-{number}")
        }
    }

    /// The taints that a template can say. The API takes none without a value, and one with another value would be kept
    /// when the node is registered: pods that tolerate the real one would never run there. Registration adds those that
    /// are missing.
    fn taints_with_values(&self) -> Vec<PoolTaint> {
        let all = self.taints.iter();
        all.filter(|taint| !taint.value.is_empty())
            .cloned()
            .collect()
    }

    /// The pool to be made. `zoned` is whether the cluster wants to hear a zone.
    pub fn pool(&self, mark: &Mark, name: &str, desired: u32, max: u32, zoned: bool) -> NewPool {
        let mut annotations = BTreeMap::from([
            (OWNER_MARK.to_owned(), mark.text()),
            (SHAPE_MARK.to_owned(), self.digest(mark)),
        ]);
        if self.bare {
            annotations.insert(BARE_MARK.to_owned(), "true".to_owned());
        }
        NewPool {
            name: name.to_owned(),
            flavor_name: self.flavor.clone(),
            desired_nodes: desired,
            min_nodes: 0,
            max_nodes: max,
            autoscale: false,
            monthly_billed: self.monthly,
            anti_affinity: self.anti_affinity,
            availability_zones: if zoned && self.zone != SINGLE_ZONE {
                vec![self.zone.clone()]
            } else {
                Vec::new()
            },
            template: Template {
                metadata: TemplateMetadata {
                    labels: self.labels.clone(),
                    annotations,
                    finalizers: Vec::new(),
                },
                spec: TemplateSpec {
                    taints: self.taints_with_values(),
                    unschedulable: false,
                },
            },
        }
    }
}

fn pool_taint(taint: &Taint) -> PoolTaint {
    PoolTaint {
        key: taint.key.to_string(),
        value: taint.value.to_string(),
        effect: taint.effect.to_string(),
    }
}

/// What a machine is called. The server is not known when it is bought, so the name is that of whoever asked for it.
pub fn machine_id(kube: &str, uid: &str) -> MachineId {
    MachineId(format!("ovhcloud://{kube}/{uid}").into())
}

/// Who asked for a machine, if it is one of this cluster.
pub fn parse_id(kube: &str, id: &MachineId) -> Result<Uid, ProviderError> {
    let rest =
        id.0.strip_prefix("ovhcloud://")
            .and_then(|rest| rest.strip_prefix(kube))
            .and_then(|rest| rest.strip_prefix('/'))
            .filter(|uid| !uid.is_empty() && !uid.contains('/'));
    rest.map(|uid| Uid(uid.into())).ok_or_else(|| {
        ProviderError::Invalid(format!(
            "{id} is not a machine of the OVHcloud cluster {kube}"
        ))
    })
}

/// The name under which a node goes that nobody asked for.
pub fn stray_uid(node: &str) -> String {
    format!("node-{node}")
}

/// The node that such a name means.
pub fn stray_node(uid: &str) -> Option<&str> {
    uid.strip_prefix("node-")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mark() -> Mark {
        Mark {
            cluster: "c".into(),
            family: "karpenter".into(),
            class: "default".into(),
        }
    }

    fn shape(flavor: &str, zone: &str) -> Shape {
        Shape {
            flavor: flavor.into(),
            zone: zone.into(),
            monthly: false,
            anti_affinity: false,
            labels: BTreeMap::new(),
            taints: Vec::new(),
            bare: false,
        }
    }

    #[test]
    fn names_say_the_shape_and_tell_shapes_apart() {
        let one = shape("b3-8", "eu-west-par-a");
        let name = one.pool_name(&mark(), 1);
        assert!(name.starts_with("karpenter-b3-8-eu-west-par-a-"), "{name}");
        assert_eq!(one.pool_name(&mark(), 3), format!("{name}-3"));
        let mut other = one.clone();
        other.labels.insert("team".into(), "a".into());
        assert_ne!(other.pool_name(&mark(), 1), name);
        let mut monthly = one.clone();
        monthly.monthly = true;
        assert_ne!(monthly.pool_name(&mark(), 1), name);
        let mut theirs = mark();
        theirs.class = "other".into();
        assert_ne!(one.pool_name(&theirs, 1), name);
    }

    #[test]
    fn a_taint_without_a_value_tells_shapes_apart_and_is_left_to_registration() {
        let plain = shape("b3-8", "nova");
        let mut tainted = plain.clone();
        tainted.taints = vec![pool_taint(&Taint::no_schedule("dedicated"))];
        let name = tainted.pool_name(&mark(), 1);
        assert_ne!(name, plain.pool_name(&mark(), 1));
        let pool = tainted.pool(&mark(), &name, 1, 100, false);
        assert_eq!(pool.template.spec.taints, []);
        let mut taint = Taint::no_schedule("team");
        taint.value = "a".into();
        tainted.taints.push(pool_taint(&taint));
        let pool = tainted.pool(&mark(), &name, 1, 100, false);
        let said: Vec<_> = pool
            .template
            .spec
            .taints
            .iter()
            .map(|one| (&*one.key, &*one.value))
            .collect();
        assert_eq!(said, [("team", "a")]);
    }

    #[test]
    fn a_pool_is_ours_by_its_mark_alone() {
        let new = shape("b3-8", SINGLE_ZONE).pool(&mark(), "karpenter-b3-8-aaaaaa", 1, 100, false);
        assert!(new.availability_zones.is_empty());
        let mut pool = NodePool {
            name: new.name.clone(),
            template: new.template,
            ..NodePool::default()
        };
        assert!(mark().owns(&pool));
        pool.autoscale = true;
        assert!(!mark().owns(&pool), "moved by somebody else");
        pool.autoscale = false;
        pool.template = Template::default();
        assert!(!mark().owns(&pool), "a name alone is not enough");
    }

    #[test]
    fn an_id_leads_back_to_who_asked() {
        let id = machine_id("k", "uid-1");
        assert_eq!(parse_id("k", &id).unwrap().0, "uid-1".into());
        assert!(parse_id("other", &id).is_err());
        for odd in ["", "ovhcloud://k/", "ovhcloud://k/a/b", "openstack:///x"] {
            assert!(parse_id("k", &MachineId(odd.into())).is_err(), "{odd}");
        }
    }

    proptest! {
        #[test]
        fn every_name_is_one_that_the_api_takes(flavor in "[a-z][a-z0-9]{0,8}(-le)?-[0-9.]{1,6}",
            zone in "[a-z][a-z0-9-]{0,20}", number in 1_u32..101) {
            let name = shape(&flavor, &zone).pool_name(&mark(), number);
            prop_assert!(name.len() <= 40, "{}", name);
            prop_assert!(name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'));
        }
    }
}
