//! Machines that replace others are kept for the pods that move there.
//!
//! A pod that leaves its node is made anew, and the scheduler likes the emptiest node best, which is the one that was just
//! bought. A plan that has room for all pods, but not for any of them anywhere, comes to nothing that way. So a machine
//! stays shut until those that go elsewhere have found their places and those that it was bought for wait for it; then
//! the scheduler can be told who goes where.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::progress::members;
use crate::context::Context;
use crate::edge::clock;
use crate::record::{MachineRecord, annotations};
use crate::view::World;

/// How long nodes are kept after the first of those that they replace has begun to go.
const LONGEST: Duration = Duration::from_secs(10);
/// A drain that has not moved for so long is held up, and those that have left already should not wait for it.
const HELD_UP: Duration = Duration::from_millis(1500);

/// Whether the time of the pods that a machine is kept for has yet to come.
pub(crate) fn awaits_pods(world: &World, machine: &MachineRecord, now: Timestamp) -> bool {
    let Some(id) = machine.annotations.get(annotations::REPLACES) else {
        return false;
    };
    let part = members(world, id);
    let replaced: Vec<&Arc<MachineRecord>> = part
        .filter(|(intent, _)| intent.scatters)
        .map(|(_, machine)| machine)
        .collect();
    let Some(began) = replaced.iter().filter_map(|one| one.deleting).min() else {
        return !replaced.is_empty();
    };
    if clock::since(now, began) >= LONGEST {
        return false;
    }
    let leaving = replaced.iter().filter(|one| one.deleting.is_some());
    let mut nodes = leaving.filter_map(|one| one.status.node.as_ref());
    let binding = world.has_pods_to_bind();
    nodes.any(|node| {
        let moved = world.last_pod_event(node).unwrap_or(began).max(began);
        let moving = binding || world.pods_on(node).any(|pod| pod.evictable(now));
        moving && clock::since(now, moved) < HELD_UP
    })
}

/// Finds those that a machine was kept for, and for others that open with it, among the pods that wait.
pub(crate) fn fill(context: &Context, machine: &MachineRecord) {
    if let Some(id) = machine.annotations.get(annotations::REPLACES) {
        let world = context.view.read();
        let waiting = world.pods.iter().filter(|pod| pod.provisionable());
        context.provision.served.fill(id, waiting);
    }
}
