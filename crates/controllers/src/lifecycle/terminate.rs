//! Taking a machine away: drained, detached, terminated, gone, and only then forgotten.

use std::time::Duration;

use jiff::Timestamp;
use joiner_core::taints::Taint;
use joiner_providers::MachineId;

use super::drain::{self, Drain};
use super::launch::{never_bought, shorten};
use super::{
    NodeChange, Observed, ProviderAnswer, Step, Wake, set, status_or_wait, with_conditions,
};
use crate::edge::clock;
use crate::record::{MachineRecord, MetadataChange, Truth, annotations, kinds};
use crate::view::nodes::NodeRecord;
use crate::view::pods::DISRUPTED;

/// How often the cloud is asked whether the machine is gone, at first and later on.
const SOON: Duration = Duration::from_secs(1);
const AGAIN: Duration = Duration::from_secs(5);
/// A machine that is gone sooner than this is not worth a word about its going.
const QUICK: Duration = Duration::from_secs(8);
/// How far apart two reads must be that find nothing, where a purchase may still be under way.
const SETTLED: Duration = Duration::from_secs(30);

pub(super) fn step(machine: &MachineRecord, observed: &Observed) -> Step {
    if !machine.finalizer {
        return Step::Wait(Wake::OnChange);
    }
    let node = observed.node(machine);
    let gone = matches!(observed.memory.cloud, Some(ProviderAnswer::Absent { .. }));
    if let Some(node) = node
        && !gone
        && !observed.memory.terminating
    {
        match empty(machine, observed, node) {
            Some(step) => return step,
            None => return remove(machine, observed),
        }
    }
    if !gone {
        return remove(machine, observed);
    }
    if !certain(machine, observed) {
        return look_again(observed);
    }
    match node {
        Some(node) => forget(machine, observed, node),
        None => Step::Release,
    }
}

/// When every pod must be gone.
fn deadline(machine: &MachineRecord) -> Option<Timestamp> {
    let written = machine.annotations.get(annotations::TERMINATION_TIMESTAMP);
    if let Some(at) = written.and_then(|text| text.parse().ok()) {
        return Some(at);
    }
    let grace = machine.termination_grace?;
    machine.deleting?.checked_add(grace).ok()
}

/// Empties the node; `None` once it is empty.
fn empty(machine: &MachineRecord, observed: &Observed, node: &NodeRecord) -> Option<Step> {
    let now = observed.now;
    let deadline = deadline(machine);
    if let Some(at) = deadline
        && !machine
            .annotations
            .contains_key(annotations::TERMINATION_TIMESTAMP)
    {
        let change = MetadataChange::annotation(
            annotations::TERMINATION_TIMESTAMP,
            Some(at.to_string().into()),
        );
        return Some(Step::Metadata(change));
    }
    let mut change = NodeChange::of(node);
    change.ensure_taints(node, &[Taint::no_schedule(DISRUPTED)], &[]);
    change.taint_time = Some(now);
    change.ensure_unbalanced(node);
    // If it was never registered, nothing else tells a later process whose node it was once its machine is gone.
    change.ensure_owned(node, observed);
    change.cordon = observed.cordons && !node.unschedulable;
    if !change.is_empty() {
        return Some(Step::Node(Box::new(change)));
    }
    // An empty node is gone before anybody could read that it is being emptied.
    let worth = observed.shows_phases || observed.pods.iter().any(|pod| pod.awaits_eviction(now));
    let told = machine.status.conditions.get(kinds::DRAINED).is_some();
    if machine.registered() && worth && !told {
        let change = (kinds::DRAINED, Truth::Unknown, "Draining", String::new());
        let status = with_conditions(machine, now, [change]);
        return status.map(|status| Step::Status(Box::new(status)));
    }
    // A node that does not answer may have lost its machine: then nobody is left to stop the pods.
    if !node.ready() && observed.timeouts.is_some() && observed.memory.must_wait(now).is_none() {
        match (observed.memory.next_poll(), known_id(machine, observed)) {
            (Some(at), _) if at > now => {}
            (_, Some(id)) => return Some(Step::Get(id)),
            _ => {}
        }
    }
    match drain::next(observed, node, deadline) {
        Drain::Do(step) => Some(step),
        Drain::Waiting { wake, blocked } => Some(match blocked {
            None => Step::Wait(wake),
            Some(said) => {
                let change = (kinds::DRAINED, Truth::Unknown, "Draining", shorten(&said));
                status_or_wait(with_conditions(machine, now, [change]), wake)
            }
        }),
        Drain::Done => {
            let late = deadline.is_some_and(|at| now >= at);
            if observed.attached.is_empty() || late {
                return None;
            }
            let names: Vec<&str> = observed
                .attached
                .iter()
                .take(5)
                .map(AsRef::as_ref)
                .collect();
            let message = format!("attached: {}", names.join(", "));
            let change = (
                kinds::VOLUMES_DETACHED,
                Truth::Unknown,
                "AwaitingVolumeDetachment",
                message,
            );
            let wake = Wake::At(deadline.unwrap_or_else(|| clock::after(now, AGAIN)));
            Some(status_or_wait(
                with_conditions(machine, now, [change]),
                wake,
            ))
        }
    }
}

fn known_id(machine: &MachineRecord, observed: &Observed) -> Option<MachineId> {
    let heard = observed.memory.machine().map(|one| one.id.clone());
    heard.or_else(|| machine.status.machine_id.clone())
}

/// Tells the cloud until it says that there is no such machine.
fn remove(machine: &MachineRecord, observed: &Observed) -> Step {
    let now = observed.now;
    if observed.timeouts.is_none() {
        if never_bought(machine) {
            return Step::Release;
        }
        let message = format!(
            "node class {} is not there or cannot be used; the machine may still run and cost money",
            machine.class
        );
        let change = (
            kinds::INSTANCE_TERMINATING,
            Truth::False,
            "NodeClassNotReady",
            message,
        );
        return status_or_wait(with_conditions(machine, now, [change]), Wake::OnChange);
    }
    let began = observed.memory.terminating_since.unwrap_or(now);
    let slow = observed.memory.terminating && clock::since(now, began) >= QUICK;
    if (slow || observed.shows_phases)
        && let Some(status) = terminating(machine, now)
    {
        return Step::Status(Box::new(status));
    }
    if let Some(at) = observed.memory.must_wait(now) {
        let said = observed.memory.trouble.as_deref().unwrap_or_default();
        let change = (
            kinds::INSTANCE_TERMINATING,
            Truth::Unknown,
            "TerminationFailed",
            shorten(said),
        );
        return status_or_wait(with_conditions(machine, now, [change]), Wake::At(at));
    }
    if observed.memory.terminating
        && let Some(asked) = observed.memory.asked
    {
        // Most clouds are quick: then so are we. Those that are not are asked less and less often.
        let wait = (clock::since(asked, began) / 2).clamp(SOON, AGAIN);
        if clock::since(now, asked) < wait {
            return Step::Wait(Wake::At(clock::after(asked, wait)));
        }
    }
    known_id(machine, observed).map_or(Step::Find, Step::Terminate)
}

fn terminating(machine: &MachineRecord, now: Timestamp) -> Option<crate::record::MachineStatus> {
    if machine
        .status
        .conditions
        .is_true(kinds::INSTANCE_TERMINATING)
    {
        return None;
    }
    let mut status = machine.status.clone();
    let generation = machine.generation;
    if machine.registered() {
        set(
            &mut status.conditions,
            generation,
            now,
            kinds::DRAINED,
            Truth::True,
            "Drained",
            String::new(),
        );
        set(
            &mut status.conditions,
            generation,
            now,
            kinds::VOLUMES_DETACHED,
            Truth::True,
            "VolumesDetached",
            String::new(),
        );
    }
    set(
        &mut status.conditions,
        generation,
        now,
        kinds::INSTANCE_TERMINATING,
        Truth::True,
        "InstanceTerminating",
        String::new(),
    );
    Some(status)
}

/// Whether "there is none" is the last word. For a machine that the cloud once had, it is. Where no purchase was ever
/// confirmed, one may still be under way: then it takes two reads that are far enough apart.
fn certain(machine: &MachineRecord, observed: &Observed) -> bool {
    let Some(ProviderAnswer::Absent { since, times }) = observed.memory.cloud else {
        return false;
    };
    let confirmed = machine.status.machine_id.is_some();
    let refused_all =
        !machine.offers.is_empty() && machine.offer().is_none() && !observed.memory.undecided;
    confirmed || refused_all || (times >= 2 && clock::since(observed.now, since) >= SETTLED)
}

fn look_again(observed: &Observed) -> Step {
    let Some(ProviderAnswer::Absent { since, .. }) = observed.memory.cloud else {
        return Step::Find;
    };
    let due = clock::after(since, SETTLED);
    match observed.memory.must_wait(observed.now) {
        Some(at) => Step::Wait(Wake::At(at)),
        None if due > observed.now => Step::Wait(Wake::At(due)),
        None => Step::Find,
    }
}

/// The machine is gone: its node goes too.
fn forget(machine: &MachineRecord, observed: &Observed, node: &NodeRecord) -> Step {
    let mut change = NodeChange::of(node);
    if !node.deleting {
        // A node that was never registered is found by its link: it is marked before it is deleted.
        change.ensure_owned(node, observed);
        if !change.is_empty() {
            return Step::Node(Box::new(change));
        }
        return Step::DeleteNode {
            name: node.name.clone(),
            uid: node.uid.clone(),
            version: node.version,
        };
    }
    change.ensure_finalizer(node, observed.finalizer, false);
    if change.is_empty() {
        // The finalizer of another controller holds the node: the object says whose node it is until it is gone.
        //
        // karpenter: pkg/controllers/nodeclaim/lifecycle/controller.go, finalize
        status_or_wait(terminating(machine, observed.now), Wake::OnChange)
    } else {
        Step::Node(Box::new(change))
    }
}
