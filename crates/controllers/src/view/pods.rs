//! Pods, trimmed to what decisions need. Pods of one owner share one spec.

mod lean;
mod lower;
mod requests;

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;
use joiner_core::name::Name;
use joiner_core::problem::PodSpec;

pub use lean::LeanPod;
pub(crate) use lower::lower_node_term;
pub use lower::{DISRUPTED, Limits, daemon_set, labels, lower_pod, lower_selector, lower_template};
pub use requests::{lower_resources, pod_requests, quantity_map};

use super::store::Stored;

/// Under which name we write where a pod should go; what others wrote there is not ours to judge.
pub(crate) const NOMINATOR: &str = "joiner";

/// Namespace and name of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodKey {
    /// Namespace.
    pub namespace: Name,
    /// Name.
    pub name: Name,
}

impl std::fmt::Display for PodKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Who made a pod, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A daemon set: it comes and goes with its node.
    DaemonSet,
    /// A stateful set: its successor has the same name and waits for it.
    StatefulSet,
    /// The node itself.
    Node,
    /// Anything else.
    Other,
}

/// Whether a pod forbids to be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoNotDisrupt {
    /// It does not.
    No,
    /// As long as it lives.
    Always,
    /// Until then.
    Until(Timestamp),
}

impl DoNotDisrupt {
    /// Whether it forbids it now.
    pub fn active(self, now: Timestamp) -> bool {
        match self {
            DoNotDisrupt::No => false,
            DoNotDisrupt::Always => true,
            DoNotDisrupt::Until(end) => now < end,
        }
    }
}

/// Nodes that the scheduler tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tried {
    /// How many.
    pub nodes: usize,
    /// How many of them a taint kept it from.
    pub tainted: usize,
}

/// A pod.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, as observed"
)]
#[derive(Clone, Debug, PartialEq)]
pub struct PodRecord {
    /// Which.
    pub key: PodKey,
    /// Its identity.
    pub uid: Name,
    /// Version of the object.
    pub version: u64,
    /// When it was made.
    pub created: Timestamp,
    /// When it is gone at the latest, once it is being deleted.
    pub deleting: Option<Timestamp>,
    /// How long it takes to end, in seconds.
    pub grace_seconds: u32,
    /// Node that it is bound to.
    pub node: Option<Name>,
    /// What it needs; without volumes.
    pub spec: Arc<PodSpec>,
    /// Names of its volume claims, in its namespace.
    pub claims: Vec<Name>,
    /// It has ended.
    pub terminal: bool,
    /// The scheduler found no place for it.
    pub unschedulable: bool,
    /// The scheduler has yet to come to it.
    pub untried: bool,
    /// What the scheduler tried in vain, if it said.
    pub tried: Option<Tried>,
    /// The scheduler is making room for it.
    pub preempting: bool,
    /// We have told the scheduler where it should go.
    pub nominated: bool,
    /// Who made it.
    pub owner: Owner,
    /// Namespace and name of the daemon set that made it, if one did.
    pub daemon_set: Option<Name>,
    /// Whether it forbids to be moved.
    pub do_not_disrupt: DoNotDisrupt,
    /// Runs but does not answer its readiness probe.
    pub unready: bool,
    /// Since when it is ready, if it is.
    pub ready: Option<Timestamp>,
    /// Its deletion cost.
    pub deletion_cost: i32,
    /// Of a priority class that the system reserves for itself.
    pub critical: bool,
    /// Puts up with nodes that are being drained.
    pub tolerates_disruption: bool,
    /// Asks for devices by resource claim, which is not supported.
    pub resource_claims: bool,
}

impl Stored for PodRecord {
    type Key = PodKey;
    fn key(&self) -> PodKey {
        self.key.clone()
    }
    fn uid(&self) -> &Name {
        &self.uid
    }
    fn version(&self) -> u64 {
        self.version
    }
}

impl PodRecord {
    /// Neither ended nor ending.
    pub fn active(&self) -> bool {
        !self.terminal && self.deleting.is_none()
    }

    /// Should have been gone a minute ago.
    ///
    /// karpenter: pkg/utils/pod/scheduling.go, `IsStuckTerminating`
    pub fn stuck(&self, now: Timestamp) -> bool {
        self.deleting.is_some_and(|end| {
            crate::edge::clock::since(now, end) > std::time::Duration::from_mins(1)
        })
    }

    /// Whether a machine may be bought for it.
    ///
    /// karpenter: pkg/utils/pod/scheduling.go, `IsProvisionable`
    pub fn provisionable(&self) -> bool {
        self.unschedulable && self.waits()
    }

    /// Whether it waits for a place, whatever the scheduler has said about it.
    pub fn waits(&self) -> bool {
        (self.unschedulable || self.untried)
            && self.node.is_none()
            && self.active()
            && !self.preempting
            && matches!(self.owner, Owner::Other | Owner::StatefulSet)
    }

    /// Whether it needs another place when its node goes.
    ///
    /// karpenter: pkg/utils/pod/scheduling.go, `IsReschedulable`
    pub fn reschedulable(&self) -> bool {
        let ending = self.owner == Owner::StatefulSet && self.deleting.is_some();
        (self.active() || (ending && !self.terminal))
            && !matches!(self.owner, Owner::DaemonSet | Owner::Node)
    }

    /// Whether a drain has to wait for it.
    ///
    /// karpenter: pkg/utils/pod/scheduling.go, `IsWaitingEviction`
    pub fn awaits_eviction(&self, now: Timestamp) -> bool {
        !self.terminal
            && !self.tolerates_disruption
            && !self.stuck(now)
            && self.owner != Owner::Node
    }

    /// Whether a drain may evict it.
    ///
    /// karpenter: pkg/utils/pod/scheduling.go, `IsEvictable`
    pub fn evictable(&self, now: Timestamp) -> bool {
        self.active()
            && !self.tolerates_disruption
            && self.owner != Owner::Node
            && !self.do_not_disrupt.active(now)
    }
}

/// Specs that are in use, one of each.
#[derive(Debug, Default)]
pub struct Specs(HashSet<Arc<PodSpec>>);

impl Specs {
    /// The shared copy of a spec.
    pub fn share(&mut self, spec: PodSpec) -> Arc<PodSpec> {
        if let Some(known) = self.0.get(&spec) {
            return known.clone();
        }
        // Nobody says goodbye: those that only this set still holds go when it has grown by half.
        if self.0.len() == self.0.capacity() {
            self.0.retain(|spec| Arc::strong_count(spec) > 1);
        }
        let shared = Arc::new(spec);
        self.0.insert(shared.clone());
        shared
    }

    /// How many different ones there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_specs_are_kept_once_and_forgotten_with_their_last_pod() {
        let mut specs = Specs::default();
        let spec = |name: &str| PodSpec {
            namespace: name.into(),
            ..PodSpec::default()
        };
        let first = specs.share(spec("a"));
        assert!(Arc::ptr_eq(&first, &specs.share(spec("a"))));
        for round in 0..10_000 {
            specs.share(spec(&round.to_string()));
        }
        assert!(specs.len() < 100, "{}", specs.len());
        assert!(Arc::ptr_eq(&first, &specs.share(spec("a"))));
    }
}
