//! Pools that replace many nodes at once, but drain few of them at a time.
//!
//! Where a server takes half an hour to come, a budget that counts from the first bid lets a price pass by before its
//! turn comes. What must not happen at once is that pods move: so that is what is counted. A move is over when the pods
//! are ready elsewhere, not when they have left: the next node waits for those that come in their place.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::name::Name;

use crate::context::Context;
use crate::edge::clock;
use crate::record::{MachineRecord, PoolRecord, kinds};
use crate::view::World;
use crate::view::pods::PodRecord;

/// How long after a drain the pods that come in the place of those that left may take to be created.
const CREATED: Duration = Duration::from_secs(1);
/// How long after a drain the next waits at most, and how old a pod is at most that it waits for: one that never becomes
/// ready does not keep the old nodes.
const READY: Duration = Duration::from_mins(1);

/// What may happen to the nodes of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slots {
    /// How many may begin to be drained now.
    left: usize,
    /// When to look again, if it is time that keeps them.
    until: Option<Timestamp>,
}

/// How many nodes of each pool may begin to be drained now; pools that do not ask are not in it.
pub(super) struct DrainSlots(BTreeMap<Name, Slots>);

impl DrainSlots {
    pub(super) fn new(context: &Context, world: &World) -> Self {
        let now = context.now();
        let asking = world.pools.iter().filter_map(|pool| {
            let percent = pool.drained_at_once?;
            let (most, draining) = counts(world, pool, percent);
            let ended = context.disruptions.draining(pool.id(), draining, now);
            let until = ended.and_then(|ended| {
                let again = clock::after(now, CREATED);
                moving(world, ended, now).then_some(again)
            });
            let left = match until {
                Some(_) => 0,
                None => most.saturating_sub(draining),
            };
            Some((pool.id().clone(), Slots { left, until }))
        });
        DrainSlots(asking.collect())
    }

    /// Whether the machine's pool asks for it.
    pub(super) fn applies(&self, machine: &MachineRecord) -> bool {
        let pool = machine.pool.as_ref();
        pool.is_some_and(|pool| self.0.contains_key(pool))
    }

    /// Whether it is this machine's turn; then it is taken.
    pub(super) fn take(&mut self, machine: &MachineRecord) -> bool {
        let pool = machine.pool.as_ref();
        let Some(turn) = pool.and_then(|pool| self.0.get_mut(pool)) else {
            return true;
        };
        let may = turn.left > 0;
        turn.left = turn.left.saturating_sub(1);
        may
    }

    /// When to look again whether it is this machine's turn, if it is only time that keeps it.
    pub(super) fn until(&self, machine: &MachineRecord) -> Option<Timestamp> {
        let pool = machine.pool.as_ref();
        pool.and_then(|pool| self.0.get(pool))?.until
    }
}

/// How many nodes of a pool may be drained at a time, and how many are.
fn counts(world: &World, pool: &PoolRecord, percent: u8) -> (usize, usize) {
    let own = |one: &&MachineRecord| one.pool.as_ref() == Some(pool.id()) && one.initialized();
    let machines: Vec<&MachineRecord> = world
        .machines
        .iter()
        .map(AsRef::as_ref)
        .filter(own)
        .collect();
    let draining = machines
        .iter()
        .filter(|one| one.deleting.is_some() && !one.status.conditions.is_true(kinds::DRAINED))
        .count();
    let most = (machines.len() * usize::from(percent)).div_ceil(100);
    (most, draining)
}

/// Whether pods that came in the place of those that a drain evicted may still have to become ready.
fn moving(world: &World, ended: Timestamp, now: Timestamp) -> bool {
    let since = clock::since(now, ended);
    since < CREATED || (since < READY && world.pods.iter().any(|pod| awaited(pod, ended, now)))
}

/// Whether a pod was created while nodes were drained and is not ready yet.
fn awaited(pod: &PodRecord, ended: Timestamp, now: Timestamp) -> bool {
    pod.active()
        && pod.reschedulable()
        && pod.ready.is_none()
        && pod.created <= clock::after(ended, CREATED)
        && clock::since(now, pod.created) < READY
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::samples::{at, bound, only};
    use serde_json::json;

    /// A pod that was created at the start and is ready or not.
    fn world(ready: bool) -> World {
        let status = if ready { "True" } else { "False" };
        let ready =
            json!([{"type": "Ready", "status": status, "lastTransitionTime": at(2).to_string()}]);
        only(vec![bound("web", &ready)])
    }

    #[test]
    fn the_next_node_waits_until_the_pods_of_the_one_before_are_ready() {
        assert!(moving(&world(false), at(1), at(3)));
        assert!(!moving(&world(true), at(1), at(3)));
    }

    #[test]
    fn pods_that_come_in_the_place_of_others_have_time_to_be_created() {
        assert!(moving(&World::default(), at(1), at(1)));
        assert!(!moving(&World::default(), at(1), at(2)));
    }

    #[test]
    fn a_pod_that_never_becomes_ready_does_not_keep_nodes() {
        assert!(moving(&world(false), at(1), at(59)));
        assert!(!moving(&world(false), at(1), at(60)));
        assert!(!moving(&world(false), at(50), at(61)));
    }
}
