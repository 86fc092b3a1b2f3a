//! What a machine in use says about itself: whether it may go to save money, whether it is about to, and whether it is
//! what was bought.
//!
//! karpenter: pkg/controllers/nodeclaim/{disruption,podevents,consistency}

use std::time::Duration;

use jiff::Timestamp;

use super::{Observed, set};
use crate::edge::clock;
use crate::record::{MachineRecord, MachineStatus, Truth, kinds};
use crate::view::nodes::NodeRecord;
use crate::view::pods::DISRUPTED;
use joiner_core::taints::Effect;

/// Comings and goings of pods are written down at most this often: jobs that end every second must not become writes
/// every second.
const DEDUPE: Duration = Duration::from_secs(10);
/// The least share of what was bought that a node must have, in percent.
const CONSISTENT: i64 = 90;

/// The status of a machine in use as it should be, and when that changes by time alone.
pub(super) fn of(
    machine: &MachineRecord,
    observed: &Observed,
    node: &NodeRecord,
) -> (MachineStatus, Option<Timestamp>) {
    let mut status = machine.status.clone();
    let consolidatable = consolidatable(machine, observed, &mut status);
    disruption_reason(machine, observed, node, &mut status);
    consistent(machine, observed, node, &mut status);
    let changed = status != machine.status;
    let noted = pod_event(machine, observed, &mut status, changed);
    let next = [consolidatable, noted].into_iter().flatten().min();
    (status, next)
}

/// When a pod last came or went, or the node came into use.
fn quiet_since(machine: &MachineRecord, observed: &Observed) -> Option<Timestamp> {
    let used = machine.status.conditions.true_since(kinds::INITIALIZED);
    let noted = machine.status.last_pod_event;
    [used, noted, observed.last_pod_event]
        .into_iter()
        .flatten()
        .max()
}

/// Writes down when pods came and went, together with whatever else is written, or by itself if that is a while ago.
fn pod_event(
    machine: &MachineRecord,
    observed: &Observed,
    status: &mut MachineStatus,
    writing: bool,
) -> Option<Timestamp> {
    let event = whole(observed.last_pod_event?);
    // Since a node is in use counts as well: the pods that it was bought for need no mention.
    let used = machine.status.conditions.true_since(kinds::INITIALIZED)?;
    let known = machine.status.last_pod_event.unwrap_or(used);
    if event <= known
        || (machine.status.last_pod_event.is_none() && clock::since(event, used) < DEDUPE)
    {
        return None;
    }
    let due = clock::after(known, DEDUPE);
    if writing || due <= observed.now {
        status.last_pod_event = Some(event);
        return None;
    }
    Some(due)
}

/// The API server keeps whole seconds only.
fn whole(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// Whether the node has been quiet for long enough; when it will have been.
fn consolidatable(
    machine: &MachineRecord,
    observed: &Observed,
    status: &mut MachineStatus,
) -> Option<Timestamp> {
    let (Some(wait), Some(since)) = (observed.consolidate_after, quiet_since(machine, observed))
    else {
        status.conditions.ensure_absent(kinds::CONSOLIDATABLE);
        return None;
    };
    let due = since.checked_add(wait).unwrap_or(Timestamp::MAX);
    if due > observed.now {
        status.conditions.ensure_absent(kinds::CONSOLIDATABLE);
        return Some(due);
    }
    set(
        &mut status.conditions,
        machine.generation,
        observed.now,
        kinds::CONSOLIDATABLE,
        Truth::True,
        kinds::CONSOLIDATABLE,
        String::new(),
    );
    None
}

/// Why the machine is to go. One that was never begun for good leaves no trace.
fn disruption_reason(
    machine: &MachineRecord,
    observed: &Observed,
    node: &NodeRecord,
    status: &mut MachineStatus,
) {
    match machine.intent() {
        Some(intent) => {
            let reason: &str = intent.cause.into();
            set(
                &mut status.conditions,
                machine.generation,
                observed.now,
                kinds::DISRUPTION_REASON,
                Truth::True,
                reason,
                String::new(),
            );
        }
        // While the node keeps pods away, whoever put the taint there is still at work.
        None if !node.tainted(DISRUPTED, Effect::NoSchedule) => {
            status.conditions.ensure_absent(kinds::DISRUPTION_REASON);
        }
        None => {}
    }
}

/// Whether the node has what was bought.
fn consistent(
    machine: &MachineRecord,
    observed: &Observed,
    node: &NodeRecord,
    status: &mut MachineStatus,
) {
    let short = machine.requests.iter().find_map(|(name, asked)| {
        let expected = machine.status.capacity.get(name);
        let found = node.capacity.get(name);
        let wrong = asked > 0
            && expected > 0
            && i128::from(found) * 100 < i128::from(expected) * i128::from(CONSISTENT);
        wrong.then(|| {
            let share = i128::from(found) * 100 / i128::from(expected);
            format!(
                "expected {expected} of resource {name}, but found {found} ({share}% of expected)"
            )
        })
    });
    let (truth, reason, message) = match short {
        None => (Truth::True, kinds::CONSISTENT_STATE_FOUND, String::new()),
        Some(said) => (Truth::False, "ConsistencyCheckFailed", said),
    };
    set(
        &mut status.conditions,
        machine.generation,
        observed.now,
        kinds::CONSISTENT_STATE_FOUND,
        truth,
        reason,
        message,
    );
}
