//! Volumes: which nodes a pod's claims allow, and what must be written before it can be bound there.
//!
//! kubernetes: plugins `volumebinding`, `volumezone`, `volumerestrictions` and `nodevolumelimits`. A claim of a class
//! that waits for its first consumer is either met by an existing volume that the node can reach, or provisioned there:
//! the scheduler writes the node's name on the claim and waits until the volume controller has bound it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::affinity::any_term_matches;
use super::cache::{Cache, NodeInfo, Storage, Volume};
use super::filter::{Plugin, Rejection};
use super::pod::PodInfo;
use crate::cluster::Key;
use crate::cluster::fields::Fields as _;
use crate::cluster::quantity;

/// The annotation that tells the volume controller where a claim's volume must be reachable.
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The provisioner of classes whose volumes are all made by hand.
pub(crate) const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

const ZONE_LABELS: [&str; 4] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
];

/// The claims of a pod, looked up once per attempt.
#[derive(Debug, Default)]
pub(crate) struct Claims<'a> {
    bound: Vec<(&'a Value, Option<&'a Volume>)>,
    unbound: Vec<(&'a Value, &'a Value)>,
}

/// What must be written before a pod can be bound to the node that was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum VolumeStep {
    /// An existing volume is to be kept for the claim.
    Bind { claim: Key, volume: String },
    /// The claim's volume is to be made for this node.
    Provision { claim: Key },
}

impl<'a> Claims<'a> {
    /// Looks the pod's claims up; the sentence says why no node can help.
    pub(crate) fn find(cache: &'a Cache, pod: &PodInfo) -> Result<Self, String> {
        let mut out = Self::default();
        for name in &pod.claims {
            let key = Key::new(&pod.key.namespace, name);
            let Some(claim) = cache.storage.claims.get(&key) else {
                return Err(format!("persistentvolumeclaim \"{name}\" not found"));
            };
            if claim.text(&["status", "phase"]) == "Lost" {
                let volume = claim.text(&["spec", "volumeName"]);
                return Err(format!(
                    "persistentvolumeclaim \"{name}\" bound to non-existent persistentvolume \"{volume}\""
                ));
            }
            if claim.deleting() {
                return Err(format!("persistentvolumeclaim \"{name}\" is being deleted"));
            }
            if is_bound(claim) {
                let volume = cache
                    .storage
                    .volumes
                    .get(claim.text(&["spec", "volumeName"]));
                out.bound.push((claim, volume));
                continue;
            }
            match class_of(&cache.storage, claim) {
                Some(class) if waits_for_consumer(class) => out.unbound.push((claim, class)),
                _ => return Err("pod has unbound immediate PersistentVolumeClaims".to_owned()),
            }
        }
        Ok(out)
    }

    /// Whether there is nothing to check.
    pub(crate) fn is_empty(&self) -> bool {
        self.bound.is_empty() && self.unbound.is_empty()
    }

    /// Whether a node can have all the volumes.
    pub(crate) fn check(
        &self,
        cache: &Cache,
        pod: &PodInfo,
        slot: usize,
        node: &NodeInfo,
    ) -> Result<(), Rejection> {
        let name = &cache.slot(slot).name;
        self.check_exclusive(cache, pod)?;
        self.check_limits(cache, slot)?;
        for (_, volume) in &self.bound {
            let Some(volume) = volume else {
                return Err(Rejection::never(
                    Plugin::VolumeBinding,
                    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
                ));
            };
            if !reachable(volume, name, node) {
                return Err(Rejection::never(
                    Plugin::VolumeBinding,
                    "node(s) didn't match PersistentVolume's node affinity",
                ));
            }
        }
        if self.steps(cache, name, node).is_none() {
            return Err(Rejection::never(
                Plugin::VolumeBinding,
                "node(s) didn't find available persistent volumes to bind",
            ));
        }
        if self
            .bound
            .iter()
            .flat_map(|(_, volume)| volume)
            .any(|volume| !same_zone(volume, node))
        {
            return Err(Rejection::never(
                Plugin::VolumeZone,
                "node(s) had no available volume zone",
            ));
        }
        Ok(())
    }

    /// How the unbound claims would be met on a node; nothing where they cannot be.
    pub(crate) fn steps(
        &self,
        cache: &Cache,
        name: &str,
        node: &NodeInfo,
    ) -> Option<Vec<VolumeStep>> {
        let mut taken = BTreeSet::new();
        let mut steps = Vec::new();
        for (claim, class) in &self.unbound {
            let key = Key::of(claim);
            let found = cache.storage.volumes.iter().find(|(volume_name, volume)| {
                !taken.contains(*volume_name)
                    && volume_suits(&volume.object, claim)
                    && reachable(volume, name, node)
            });
            if let Some((volume_name, _)) = found {
                taken.insert(volume_name);
                steps.push(VolumeStep::Bind {
                    claim: key,
                    volume: volume_name.clone(),
                });
                continue;
            }
            // A claim that was promised to another node is provisioned there and nowhere else.
            let promised = claim
                .annotation(SELECTED_NODE)
                .is_none_or(|promised| promised == name);
            let made = !matches!(class.text(&["provisioner"]), NO_PROVISIONER | "");
            if !promised || !made || !topology_allowed(class, node) {
                return None;
            }
            steps.push(VolumeStep::Provision { claim: key });
        }
        Some(steps)
    }

    /// A claim that only one pod may use must not be in use.
    fn check_exclusive(&self, cache: &Cache, pod: &PodInfo) -> Result<(), Rejection> {
        let exclusive = self.bound.iter().map(|(claim, _)| claim).filter(|claim| {
            claim
                .items(&["spec", "accessModes"])
                .iter()
                .any(|mode| mode.as_str() == Some("ReadWriteOncePod"))
        });
        for claim in exclusive {
            let in_use = cache.nodes().iter().any(|&slot| {
                cache.slot(slot).pods.values().any(|other| {
                    other.key.namespace == pod.key.namespace
                        && other.claims.iter().any(|name| name == claim.name())
                })
            });
            if in_use {
                return Err(Rejection::maybe(
                    Plugin::VolumeRestrictions,
                    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
                ));
            }
        }
        Ok(())
    }

    /// The number of volumes that each CSI driver can attach to the node.
    fn check_limits(&self, cache: &Cache, slot: usize) -> Result<(), Rejection> {
        let here = cache.slot(slot);
        let Some(limits) = cache.storage.csi_nodes.get(&here.name) else {
            return Ok(());
        };
        let drivers = limits
            .items(&["spec", "drivers"])
            .iter()
            .filter_map(|driver| {
                Some((
                    driver.text(&["name"]),
                    driver.int(&["allocatable", "count"])?,
                ))
            });
        let limits: BTreeMap<&str, i64> = drivers.collect();
        if limits.is_empty() {
            return Ok(());
        }
        let mut wanted: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        let claims = self.bound.iter().map(|(claim, _)| claim);
        for claim in claims.chain(self.unbound.iter().map(|(claim, _)| claim)) {
            if let Some((driver, volume)) = attached_as(&cache.storage, claim) {
                wanted.entry(driver).or_default().insert(volume);
            }
        }
        let mut attached: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for pod in here.pods.values() {
            for name in &pod.claims {
                let claim = cache
                    .storage
                    .claims
                    .get(&Key::new(&pod.key.namespace, name));
                let found = claim.and_then(|claim| attached_as(&cache.storage, claim));
                if let Some((driver, volume)) = found {
                    attached.entry(driver).or_default().insert(volume);
                }
            }
        }
        for (driver, volumes) in wanted {
            let Some(limit) = limits.get(driver) else {
                continue;
            };
            let held = attached.entry(driver).or_default();
            let more = volumes
                .iter()
                .filter(|volume| !held.contains(*volume))
                .count();
            if more > 0 && i64::try_from(held.len() + more).unwrap_or(i64::MAX) > *limit {
                return Err(Rejection::maybe(
                    Plugin::NodeVolumeLimits,
                    "node(s) exceed max volume count",
                ));
            }
        }
        Ok(())
    }
}

/// Whether the volume controller has finished with a claim.
pub(crate) fn is_bound(claim: &Value) -> bool {
    !claim.text(&["spec", "volumeName"]).is_empty()
        && claim
            .annotation("pv.kubernetes.io/bind-completed")
            .is_some()
}

/// Whether volumes of a class are bound only when a pod needs them.
pub(crate) fn waits_for_consumer(class: &Value) -> bool {
    class.text(&["volumeBindingMode"]) == "WaitForFirstConsumer"
}

/// Whether a volume that nobody has could meet a claim, leaving aside where it can be reached.
pub(crate) fn volume_suits(volume: &Value, claim: &Value) -> bool {
    let reserved = volume.at(&["spec", "claimRef"]);
    if reserved.is_object() {
        let for_claim = reserved.text(&["namespace"]) == claim.namespace()
            && reserved.text(&["name"]) == claim.name();
        return for_claim
            && (reserved.text(&["uid"]).is_empty() || reserved.text(&["uid"]) == claim.uid());
    }
    let modes = volume.items(&["spec", "accessModes"]);
    let selector = claim.at(&["spec", "selector"]);
    !volume.deleting()
        && matches!(
            volume.text(&["status", "phase"]),
            "" | "Pending" | "Available"
        )
        && volume.text(&["spec", "storageClassName"]) == claim.text(&["spec", "storageClassName"])
        && volume_mode(volume) == volume_mode(claim)
        && claim
            .items(&["spec", "accessModes"])
            .iter()
            .all(|mode| modes.contains(mode))
        && quantity::units(volume.at(&["spec", "capacity", "storage"]))
            >= quantity::units(claim.at(&["spec", "resources", "requests", "storage"]))
        && (selector.is_null()
            || crate::selector::Selector::read(selector).matches(volume.labels()))
}

fn volume_mode(object: &Value) -> &str {
    match object.text(&["spec", "volumeMode"]) {
        "" => "Filesystem",
        mode => mode,
    }
}

fn class_of<'a>(storage: &'a Storage, claim: &Value) -> Option<&'a Value> {
    storage
        .classes
        .get(claim.text(&["spec", "storageClassName"]))
        .map(|class| &**class)
}

fn reachable(volume: &Volume, name: &str, node: &NodeInfo) -> bool {
    volume
        .terms
        .as_ref()
        .is_none_or(|terms| any_term_matches(terms, name, &node.labels))
}

/// Zone labels on a volume confine it; several zones are joined by "__".
fn same_zone(volume: &Volume, node: &NodeInfo) -> bool {
    ZONE_LABELS.iter().all(|label| {
        let Some(allowed) = volume.object.label(label) else {
            return true;
        };
        node.labels
            .get(*label)
            .is_some_and(|zone| allowed.split("__").any(|one| one == zone))
    })
}

fn topology_allowed(class: &Value, node: &NodeInfo) -> bool {
    let terms = class.items(&["allowedTopologies"]);
    terms.is_empty()
        || terms.iter().any(|term| {
            term.items(&["matchLabelExpressions"])
                .iter()
                .all(|expression| {
                    node.labels
                        .get(expression.text(&["key"]))
                        .is_some_and(|value| {
                            expression
                                .items(&["values"])
                                .iter()
                                .any(|one| one.as_str() == Some(value))
                        })
                })
        })
}

/// The driver that attaches a claim's volume, and what it calls the volume.
fn attached_as<'a>(storage: &'a Storage, claim: &Value) -> Option<(&'a str, String)> {
    if let Some(volume) = storage.volumes.get(claim.text(&["spec", "volumeName"])) {
        let driver = volume.object.text(&["spec", "csi", "driver"]);
        let handle = volume.object.text(&["spec", "csi", "volumeHandle"]);
        return (!driver.is_empty()).then(|| (driver, handle.to_owned()));
    }
    let driver = class_of(storage, claim)?.text(&["provisioner"]);
    Some((driver, format!("{}/{}", claim.namespace(), claim.name())))
}
