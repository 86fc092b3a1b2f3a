//! Nodes, trimmed to what decisions and the lifecycle of machines need.

use jiff::Timestamp;
use joiner_core::name::{Labels, Name};
use joiner_core::resources::Resources;
use joiner_core::taints::{Effect, Taint};
use joiner_providers::{NodeLink, Uid};
use k8s_openapi::api::core::v1 as core;

use super::pods::lower_resources;
use super::store::Stored;
use super::version;
use crate::record::{Mark, annotations};

/// Key of the taint on nodes that are kept for pods that are about to move there.
pub(crate) const RESERVED: &str = "joiner.dev/reserved";

/// A condition of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeCondition {
    /// Type.
    pub kind: Name,
    /// Status, as it stands there.
    pub status: Name,
    /// Since when.
    pub since: Timestamp,
}

/// When a taint was added to a node, where somebody wrote that down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaintTime {
    /// Key of the taint.
    pub key: Name,
    /// Effect of the taint.
    pub effect: Effect,
    /// When.
    pub time: Timestamp,
}

impl TaintTime {
    /// Whether it is about this taint.
    pub fn is_of(&self, taint: &Taint) -> bool {
        self.key == taint.key && self.effect == taint.effect
    }
}

/// A node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeRecord {
    /// Name.
    pub name: Name,
    /// Its identity.
    pub uid: Name,
    /// Version of the object.
    pub version: u64,
    /// When it was made.
    pub created: Timestamp,
    /// It is to go.
    pub deleting: bool,
    /// Labels.
    pub labels: Labels,
    /// Must not be disturbed.
    pub do_not_disrupt: bool,
    /// Taints.
    pub taints: Vec<Taint>,
    /// When taints were added, where that is known: eviction by taint counts from then, and so do drains.
    pub taint_times: Vec<TaintTime>,
    /// Taints with an effect that nobody knows, as they stand there: kept when the list is written.
    pub strange_taints: Vec<(Name, Name, Name)>,
    /// What its cloud calls it.
    pub provider_id: Name,
    /// What its firmware calls it.
    pub system_uuid: Name,
    /// What the machine has.
    pub capacity: Resources,
    /// What of it pods can have.
    pub allocatable: Resources,
    /// Conditions.
    pub conditions: Vec<NodeCondition>,
    /// Whether it is cordoned.
    pub unschedulable: bool,
    /// Identities of its owners, and of the machine object that it is marked as.
    pub owners: Vec<Name>,
    /// Finalizers.
    pub finalizers: Vec<Name>,
    /// Which Joiner it belongs to, and for which machine, if any.
    pub mark: Option<Mark>,
}

impl Stored for NodeRecord {
    type Key = Name;
    fn key(&self) -> Name {
        self.name.clone()
    }
    fn uid(&self) -> &Name {
        &self.uid
    }
    fn version(&self) -> u64 {
        self.version
    }
}

impl NodeRecord {
    /// Whether its kubelet says that it works.
    pub fn ready(&self) -> bool {
        self.conditions
            .iter()
            .any(|one| &*one.kind == "Ready" && &*one.status == "True")
    }

    /// Whether it belongs to this machine: it carries the machine's mark. A node that was registered before there were
    /// marks has only its owner to tell.
    pub fn belongs_to(&self, machine: &Uid) -> bool {
        match &self.mark {
            Some(mark) => mark.machine == machine.0,
            None => self.owners.contains(&machine.0),
        }
    }

    /// Whether nothing says that it belongs to any machine.
    pub fn unclaimed(&self) -> bool {
        self.mark.is_none() && self.owners.is_empty()
    }

    /// Whether the link leads to this node.
    pub fn is(&self, link: &NodeLink) -> bool {
        match link {
            NodeLink::ProviderId(id) => !id.is_empty() && self.provider_id == *id,
            NodeLink::SystemUuid(uuid) => same_uuid(&self.system_uuid, uuid),
            NodeLink::Label { key, value } => self.labels.get(key) == Some(value),
            NodeLink::Name(name) => self.name == *name,
        }
    }

    /// Since when it has this taint, if it has and somebody wrote that down.
    pub fn tainted_since(&self, key: &str, effect: Effect) -> Option<Timestamp> {
        let known = self
            .taint_times
            .iter()
            .find(|one| &*one.key == key && one.effect == effect);
        known
            .filter(|_| self.tainted(key, effect))
            .map(|one| one.time)
    }

    /// Whether it is kept for pods that are about to move there.
    pub fn reserved(&self) -> bool {
        self.tainted(RESERVED, Effect::NoSchedule)
    }

    /// Whether some taint keeps pods away that do not tolerate it.
    pub fn closed(&self) -> bool {
        let keeps_away = |taint: &Taint| taint.effect != Effect::PreferNoSchedule;
        self.taints.iter().any(keeps_away)
    }

    /// Whether it has this taint, whatever its value.
    pub fn tainted(&self, key: &str, effect: Effect) -> bool {
        self.taints
            .iter()
            .any(|taint| &*taint.key == key && taint.effect == effect)
    }
}

/// A node as the engine keeps it.
pub fn lower_node(node: core::Node) -> NodeRecord {
    let metadata = node.metadata;
    let spec = node.spec.unwrap_or_default();
    let status = node.status.unwrap_or_default();
    let given = metadata.annotations.unwrap_or_default();
    let mut taints = Vec::new();
    let mut strange_taints = Vec::new();
    let mut taint_times = Vec::new();
    for taint in spec.taints.into_iter().flatten() {
        let value: Name = taint.value.unwrap_or_default().into();
        match taint.effect.parse() {
            Ok(effect) => {
                let key: Name = taint.key.into();
                taint_times.extend(taint.time_added.map(|time| TaintTime {
                    key: key.clone(),
                    effect,
                    time: time.0,
                }));
                taints.push(Taint { key, value, effect });
            }
            Err(_) => strange_taints.push((taint.key.into(), value, taint.effect.into())),
        }
    }
    NodeRecord {
        name: metadata.name.unwrap_or_default().into(),
        uid: metadata.uid.unwrap_or_default().into(),
        version: version(metadata.resource_version.as_deref()),
        created: metadata
            .creation_timestamp
            .map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        deleting: metadata.deletion_timestamp.is_some(),
        labels: super::labels(metadata.labels),
        do_not_disrupt: given
            .get(annotations::DO_NOT_DISRUPT)
            .is_some_and(|text| text == "true"),
        taints,
        taint_times,
        strange_taints,
        provider_id: spec.provider_id.unwrap_or_default().into(),
        system_uuid: status
            .node_info
            .map(|info| info.system_uuid)
            .unwrap_or_default()
            .into(),
        capacity: lower_resources(status.capacity.as_ref()),
        allocatable: lower_resources(status.allocatable.as_ref()),
        conditions: status
            .conditions
            .into_iter()
            .flatten()
            .map(|one| NodeCondition {
                kind: one.type_.into(),
                status: one.status.into(),
                since: one
                    .last_transition_time
                    .map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            })
            .collect(),
        unschedulable: spec.unschedulable.unwrap_or(false),
        owners: metadata
            .owner_references
            .into_iter()
            .flatten()
            .map(|owner| owner.uid.into())
            .chain(
                given
                    .get(crate::record::MACHINE_UID)
                    .map(|uid| uid.as_str().into()),
            )
            .collect(),
        finalizers: metadata
            .finalizers
            .into_iter()
            .flatten()
            .map(Into::into)
            .collect(),
        mark: Mark::read(|key| given.get(key).map(String::as_str)),
    }
}

/// Firmware reports the first three groups of a UUID in either byte order.
fn same_uuid(one: &str, other: &str) -> bool {
    let hex = |text: &str| -> Option<Vec<u8>> {
        let digits: String = text.chars().filter(|c| *c != '-').collect();
        (digits.len() == 32).then_some(())?;
        (0..16)
            .map(|at| u8::from_str_radix(digits.get(at * 2..at * 2 + 2)?, 16).ok())
            .collect()
    };
    let (Some(one), Some(other)) = (hex(one), hex(other)) else {
        return false;
    };
    let mut swapped = other.clone();
    for group in [0..4, 4..6, 6..8] {
        if let Some(bytes) = swapped.get_mut(group) {
            bytes.reverse();
        }
    }
    one == other || one == swapped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_equal_in_either_byte_order() {
        let uuid = "33221100-5544-7766-8899-aabbccddeeff";
        assert!(same_uuid(uuid, "33221100-5544-7766-8899-AABBCCDDEEFF"));
        assert!(same_uuid(uuid, "00112233-4455-6677-8899-aabbccddeeff"));
        assert!(!same_uuid(uuid, "00112233-4455-6677-8899-aabbccddee00"));
        assert!(!same_uuid("", ""));
    }

    #[test]
    fn a_node_without_provider_id_is_linked_to_nothing_by_it() {
        let node = lower_node(core::Node::default());
        assert!(!node.is(&NodeLink::ProviderId("".into())));
    }
}
