//! Finding the node that a machine became, and making it ours.

use std::time::Duration;

use joiner_core::labels;
use joiner_core::name::Name;
use joiner_core::taints::{Effect, Taint};
use joiner_providers::{MachineState, Timeouts};

use super::launch::{provider_id, shorten};
use super::{
    Cause, NodeChange, Observed, ProviderAnswer, Step, Wake, set, status_or_wait, with_conditions,
};
use crate::edge::clock;
use crate::record::{MachineRecord, Truth, kinds};
use crate::view::nodes::NodeRecord;

/// Taint that a node may come with until it is registered.
pub(crate) const UNREGISTERED: &str = "karpenter.sh/unregistered";
/// Taint of a node that cannot take pods yet.
const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// How long a node that has joined is given to become ready before it is registered as it is.
const ABOUT_TO_BE_READY: Duration = Duration::from_secs(10);
/// Label on a node that wants to keep its taints to itself.
const DO_NOT_SYNC_TAINTS: &str = "karpenter.sh/do-not-sync-taints";

pub(super) fn step(machine: &MachineRecord, observed: &Observed) -> Step {
    let now = observed.now;
    let Some(timeouts) = observed.timeouts else {
        return Step::Wait(Wake::OnChange);
    };
    match &observed.memory.cloud {
        Some(ProviderAnswer::Absent { .. }) => {
            return Step::Delete(Cause::GarbageCollected("it never became a node".into()));
        }
        Some(ProviderAnswer::Here(bought)) => {
            if let MachineState::Failed(said) = &bought.state {
                return Step::Delete(Cause::LaunchFailed(shorten(said)));
            }
        }
        None => {
            if let Some(at) = observed.memory.must_wait(now) {
                return Step::Wait(Wake::At(at));
            }
            return match &machine.status.machine_id {
                Some(id) => Step::Get(id.clone()),
                None => Step::Find,
            };
        }
    }
    match observed.nodes.as_slice() {
        [] => missing(machine, observed, timeouts),
        [node] => match early(machine, observed, node) {
            Some(at) => Step::Wait(Wake::At(at)),
            None => join(machine, observed, node),
        },
        several => {
            let names: Vec<&str> = several.iter().map(|node| &*node.name).collect();
            let message = format!(
                "several nodes claim to be this machine: {}",
                names.join(", ")
            );
            let change = (
                kinds::REGISTERED,
                Truth::False,
                "MultipleNodesFound",
                message,
            );
            let until = machine.registration_deadline(&timeouts);
            if now >= until {
                return Step::Delete(Cause::RegistrationTimeout(change.3));
            }
            status_or_wait(with_conditions(machine, now, [change]), Wake::At(until))
        }
    }
}

/// Until when to wait for a node that is about to be ready: then it is registered and taken into use with one write
/// each instead of two. Nobody is kept waiting, as no pod can run there before; a node that lacks a taint is not waited
/// for.
fn early(
    machine: &MachineRecord,
    observed: &Observed,
    node: &NodeRecord,
) -> Option<jiff::Timestamp> {
    let until = clock::after(node.created, ABOUT_TO_BE_READY);
    let own = machine.taints.iter().chain(&machine.startup_taints);
    let lacking = own
        .clone()
        .any(|taint| !node.tainted(&taint.key, taint.effect));
    let waits = !node.ready()
        && node.tainted(NOT_READY, Effect::NoSchedule)
        && !lacking
        && !node.belongs_to(&machine.uid);
    (waits && observed.now < until).then_some(until)
}

/// What is said while no node has joined.
pub(super) const NO_NODE: &str = "no node has joined that is this machine";

fn missing(machine: &MachineRecord, observed: &Observed, timeouts: Timeouts) -> Step {
    let now = observed.now;
    let said = observed.memory.machine().map(|one| match &one.state {
        MachineState::Pending(said) => format!("waiting for the cloud: {}", shorten(said)),
        MachineState::Stopping => "the cloud is stopping it".to_owned(),
        _ => NO_NODE.to_owned(),
    });
    let said = said.unwrap_or_default();
    let until = machine.registration_deadline(&timeouts);
    if now >= until {
        return Step::Delete(Cause::RegistrationTimeout(said));
    }
    let change = (kinds::REGISTERED, Truth::Unknown, "NodeNotFound", said);
    if let Some(status) = with_conditions(machine, now, [change]) {
        return Step::Status(Box::new(status));
    }
    let wait = observed
        .memory
        .must_wait(now)
        .or_else(|| observed.memory.next_poll());
    match (wait, observed.memory.machine()) {
        (Some(at), _) if at > now => Step::Wait(Wake::At(at.min(until))),
        (_, Some(bought)) => Step::Get(bought.id.clone()),
        _ => Step::Find,
    }
}

fn join(machine: &MachineRecord, observed: &Observed, node: &NodeRecord) -> Step {
    let now = observed.now;
    let mut change = NodeChange::of(node);
    change.ensure_labels(node, &machine.labels);
    change.ensure_labels(node, &observed.node_labels);
    let registered: (Name, Name) = (labels::REGISTERED.into(), "true".into());
    change.ensure_labels(node, [(&registered.0, &registered.1)]);
    change.annotations = machine.node_annotations.clone();
    let keeps = node
        .labels
        .get(DO_NOT_SYNC_TAINTS)
        .is_some_and(|text| &**text == "true");
    let mut add: Vec<Taint> = Vec::new();
    // Whoever takes startup taints off may have done so already if the node was registered once before: they are put
    // on only together with the label that says so.
    let first_time = !node.labels.contains_key(labels::REGISTERED);
    if !keeps && first_time {
        add.extend(
            machine
                .taints
                .iter()
                .chain(&machine.startup_taints)
                .cloned(),
        );
    }
    change.ensure_taints(node, &add, &[(UNREGISTERED, Effect::NoExecute)]);
    change.ensure_finalizer(node, observed.finalizer, true);
    // What is ready already is registered and in use with the same write.
    let mut then = node.clone();
    if let Some(taints) = &change.taints {
        then.taints.clone_from(taints);
    }
    let obstacle = super::initialize::obstacle(machine, &then);
    if obstacle.is_none() {
        super::initialize::take_into_use(&mut change, node, observed);
    }
    change.ensure_owned(node, observed);
    let owned = change.owner.is_none() && node.mark.as_ref() == Some(&observed.mark);
    let kept = change.finalizers.is_none() && change.taints.is_none();
    if !(owned && kept && change.labels.is_empty()) {
        return Step::Node(Box::new(change));
    }
    let mut status = machine.status.clone();
    status.node = Some(node.name.clone());
    if let Some(bought) = observed.memory.machine() {
        status.provider_id = Some(provider_id(bought));
    }
    let generation = machine.generation;
    set(
        &mut status.conditions,
        generation,
        now,
        kinds::REGISTERED,
        Truth::True,
        "Registered",
        String::new(),
    );
    let (truth, reason, message) = match obstacle {
        None => (Truth::True, "Initialized", String::new()),
        Some((reason, message)) => (Truth::Unknown, reason, message),
    };
    set(
        &mut status.conditions,
        generation,
        now,
        kinds::INITIALIZED,
        truth,
        reason,
        message,
    );
    status
        .conditions
        .ensure_ready(&kinds::LIFECYCLE, generation, now);
    if truth == Truth::True {
        status = super::initialize::in_use(machine, observed, node, status);
    }
    Step::Status(Box::new(status))
}
