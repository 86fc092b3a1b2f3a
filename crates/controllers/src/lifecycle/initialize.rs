//! Waiting until a node can be used, and looking after it from then on.

use std::time::Duration;

use joiner_core::labels;
use joiner_core::name::Name;
use joiner_core::resources;
use joiner_core::taints::{Effect, Taint};

use super::{Cause, NodeChange, Observed, Step, Wake, standing, status_or_wait, with_conditions};
use crate::edge::clock;
use crate::record::{MachineRecord, MachineStatus, Truth, kinds};
use crate::view::nodes::{NodeRecord, RESERVED};

/// How often labels that somebody else changed are put right: a cloud that insists must not make us write for ever.
const REPAIR: Duration = Duration::from_mins(5);
/// How long a node may take to start before everything that holds it up is written down.
const STARTING: Duration = Duration::from_secs(30);

/// How often to look whether a node that is kept may open.
const LOOK: Duration = Duration::from_millis(100);

/// Taints that come and go by themselves while a node starts.
///
/// karpenter: pkg/scheduling/taints.go, `KnownEphemeralTaints`
const EPHEMERAL: [(&str, Effect); 5] = [
    ("node.kubernetes.io/not-ready", Effect::NoSchedule),
    ("node.kubernetes.io/not-ready", Effect::NoExecute),
    ("node.kubernetes.io/unreachable", Effect::NoSchedule),
    (
        "node.cloudprovider.kubernetes.io/uninitialized",
        Effect::NoSchedule,
    ),
    (super::register::UNREGISTERED, Effect::NoExecute),
];

pub(super) fn step(machine: &MachineRecord, observed: &Observed) -> Step {
    let now = observed.now;
    let Some(node) = observed.node(machine) else {
        let message = format!(
            "node {} is gone",
            machine.status.node.as_deref().unwrap_or_default()
        );
        let change = (kinds::INITIALIZED, Truth::Unknown, "NodeNotFound", message);
        return status_or_wait(with_conditions(machine, now, [change]), Wake::OnChange);
    };
    if node.deleting {
        return Step::Delete(Cause::NodeDeleted);
    }
    if let Some((reason, message)) = obstacle(machine, node) {
        // Obstacles come and go while a node starts: only one that lasts is worth another write.
        let known = machine.status.conditions.get(kinds::INITIALIZED);
        let lasting = clock::after(node.created, STARTING);
        if known.is_some() && now < lasting {
            return Step::Wait(Wake::At(lasting));
        }
        let change = (kinds::INITIALIZED, Truth::Unknown, reason, message);
        return status_or_wait(with_conditions(machine, now, [change]), Wake::OnChange);
    }
    let mut change = NodeChange::of(node);
    take_into_use(&mut change, node, observed);
    if !change.is_empty() {
        return Step::Node(Box::new(change));
    }
    let change = (
        kinds::INITIALIZED,
        Truth::True,
        "Initialized",
        String::new(),
    );
    let Some(status) = with_conditions(machine, now, [change]) else {
        return Step::Wait(Wake::OnChange);
    };
    Step::Status(Box::new(in_use(machine, observed, node, status)))
}

/// Says on a node that it can be used. One that is kept is shut with the same write, and not before: what makes a node
/// fit for use may have to run there.
pub(super) fn take_into_use(change: &mut NodeChange, node: &NodeRecord, observed: &Observed) {
    let initialized: (Name, Name) = (labels::INITIALIZED.into(), "true".into());
    change.ensure_labels(node, [(&initialized.0, &initialized.1)]);
    if observed.reserved && change.labels.contains_key(labels::INITIALIZED) {
        change.ensure_taints(node, &[Taint::no_schedule(RESERVED)], &[]);
    }
}

/// The status of a machine that has just come into use: everything that can be said about it, in one write.
pub(super) fn in_use(
    machine: &MachineRecord,
    observed: &Observed,
    node: &NodeRecord,
    status: MachineStatus,
) -> MachineStatus {
    let machine = MachineRecord {
        status,
        ..machine.clone()
    };
    standing::of(&machine, observed, node).0
}

/// What keeps a node from being used.
///
/// karpenter: pkg/controllers/nodeclaim/lifecycle/initialization.go
pub(super) fn obstacle(
    machine: &MachineRecord,
    node: &NodeRecord,
) -> Option<(&'static str, String)> {
    if !node.ready() {
        return Some(("NodeNotReady", format!("node {} is not ready", node.name)));
    }
    if let Some(taint) = machine
        .startup_taints
        .iter()
        .find(|taint| node.tainted(&taint.key, taint.effect))
    {
        let message = format!(
            "startup taint {}:{} is still there",
            taint.key, taint.effect
        );
        return Some(("StartupTaintsExist", message));
    }
    let ephemeral = node.taints.iter().find(|taint| {
        taint.key.starts_with("readiness.k8s.io/")
            || EPHEMERAL
                .iter()
                .any(|(key, effect)| *key == &*taint.key && *effect == taint.effect)
    });
    if let Some(taint) = ephemeral {
        let message = format!(
            "startup taint {}:{} is not removed yet",
            taint.key, taint.effect
        );
        return Some(("KnownEphemeralTaintsExist", message));
    }
    let missing = machine.requests.iter().find(|(name, amount)| {
        *amount > 0 && node.allocatable.get(name) == 0 && &***name != resources::PODS
    });
    missing.map(|(name, _)| {
        (
            "ResourceNotRegistered",
            format!("node does not report resource {name} yet"),
        )
    })
}

/// A machine in use: its node may be deleted by hand, and clouds like to rewrite labels.
pub(super) fn settled(machine: &MachineRecord, observed: &Observed) -> Step {
    let Some(node) = observed.node(machine) else {
        // Whether it is really gone is for the garbage collector to find out, where it cannot be fooled by an old list.
        return Step::Wait(Wake::OnChange);
    };
    if node.deleting {
        return Step::Delete(Cause::NodeDeleted);
    }
    let mut change = NodeChange::of(node);
    if node.reserved() && !observed.reserved {
        change.ensure_taints(node, &[], &[(RESERVED, Effect::NoSchedule)]);
        return Step::Node(Box::new(change));
    }
    let look = node.reserved().then(|| clock::after(observed.now, LOOK));
    change.ensure_labels(node, &observed.node_labels);
    change.ensure_owned(node, observed);
    let ours = [labels::NODEPOOL, labels::CAPACITY_TYPE];
    change.ensure_labels(
        node,
        machine
            .labels
            .iter()
            .filter(|(key, _)| ours.contains(&&***key)),
    );
    let repair_at = match observed.memory.repaired {
        _ if change.is_empty() => None,
        Some(at) if clock::since(observed.now, at) < REPAIR => Some(clock::after(at, REPAIR)),
        _ => return Step::Node(Box::new(change)),
    };
    let (status, next) = standing::of(machine, observed, node);
    if status != machine.status {
        return Step::Status(Box::new(status));
    }
    let wake = [repair_at, next, look].into_iter().flatten().min();
    Step::Wait(wake.map_or(Wake::OnChange, Wake::At))
}
