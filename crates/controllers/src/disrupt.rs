//! Taking nodes away that work: because they are empty, drifted, too dear or too old.
//!
//! What was decided stands on the machine objects (`joiner.dev/disruption`), so that whoever takes over finishes or
//! undoes it. Old machines go only when everything that replaces them is in use.

mod command;
mod drift;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use joiner_core::name::Name;
use joiner_core::plan::{Plan, Removal};
use joiner_core::problem::{DisruptionReason, Problem};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use tracing::{info, warn};

pub(crate) use drift::run as run_drift;

use crate::clients::WriteError;
use crate::clock;
use crate::context::{Context, Decide, Mode};
use crate::events::Severity;
use crate::lifecycle::NodeChange;
use crate::metrics::{Decision, PoolReason};
use crate::provision::{Purpose, launch};
use crate::record::{Intent, Key, MachineRecord, MetadataChange, annotations};
use crate::view::nodes::{NodeRecord, lower_node};
use crate::view::pods::{DISRUPTED, Owner, PodRecord, Specs, lower_pod};
use joiner_core::taints::{Effect, Taint};

/// How often disruptions under way are looked at.
const PROGRESS: Duration = Duration::from_secs(1);

/// Looks for nodes to take away, for ever.
pub(crate) async fn run(context: Arc<Context>) {
    let mut next_look = tokio::time::Instant::now() + context.settings.disruption_period;
    loop {
        tokio::time::sleep(PROGRESS).await;
        if !context.may_act() || context.settings.mode == Mode::ObserveOnly {
            continue;
        }
        command::progress(&context).await;
        expire(&context).await;
        if tokio::time::Instant::now() < next_look || context.settings.paused {
            continue;
        }
        let busy = look(&context).await;
        let wait = if busy {
            PROGRESS
        } else {
            context.settings.disruption_period
        };
        next_look = tokio::time::Instant::now() + wait;
    }
}

/// Machines that are too old go now; what runs on them is provided for as they are drained.
async fn expire(context: &Context) {
    let now = context.now();
    let old: Vec<Arc<MachineRecord>> = {
        let world = context.view.read();
        let expired = |machine: &&Arc<MachineRecord>| {
            let paused = machine
                .pool
                .as_ref()
                .and_then(|pool| world.pool(pool))
                .is_some_and(|pool| pool.paused);
            machine.deleting.is_none()
                && !paused
                && machine
                    .expire_after
                    .is_some_and(|age| machine.created.checked_add(age).is_ok_and(|end| end <= now))
        };
        world.machines.iter().filter(expired).cloned().collect()
    };
    if context.settings.paused {
        return;
    }
    for machine in old {
        info!(machine = %machine.key, "too old");
        delete(context, &machine, "expired").await;
    }
}

/// Decides and begins. Says whether anything was begun.
async fn look(context: &Context) -> bool {
    let now = context.now();
    let snapshot = {
        let world = context.view.read();
        let terms = crate::terms::terms(context, &world, now);
        world.problem(&terms, now)
    };
    if snapshot.machines.is_empty() {
        return false;
    }
    let machines = snapshot.machines;
    let decided = context
        .decide(snapshot.problem, |decide: &dyn Decide, problem| {
            decide.disrupt(problem)
        })
        .await;
    let Some((problem, plan)) = decided else {
        return false;
    };
    explain(context, &plan, &machines);
    if plan.removals.is_empty() || !context.may_act() {
        return false;
    }
    let (empty, moved): (Vec<&Removal>, Vec<&Removal>) = plan
        .removals
        .iter()
        .partition(|removal| removal.cause == DisruptionReason::Empty);
    let mut begun = false;
    if !empty.is_empty() {
        begun |= begin(context, &problem, &empty, &Plan::default(), &machines).await;
    }
    if !moved.is_empty() {
        begun |= begin(context, &problem, &moved, &plan, &machines).await;
    }
    begun
}

/// Nodes that stay say why.
fn explain(context: &Context, plan: &Plan, machines: &BTreeMap<Name, Key>) {
    for kept in &plan.kept {
        let machine = {
            let world = context.view.read();
            machines
                .get(&kept.node)
                .and_then(|key| world.machines.get(key))
                .cloned()
        };
        if let Some(machine) = machine {
            context.tell_machine(
                &machine,
                Severity::Normal,
                "Unconsolidatable",
                &kept.reason.to_string(),
            );
        }
    }
}

/// Begins one disruption: writes down what is meant, keeps new pods away, looks again, buys replacements.
async fn begin(
    context: &Context,
    problem: &Problem,
    removals: &[&Removal],
    plan: &Plan,
    machines: &BTreeMap<Name, Key>,
) -> bool {
    let _buying = context.purchasing.lock().await;
    let now = context.now();
    let Some(targets) = targets(context, removals, machines) else {
        return false;
    };
    let id = context.names.next("disruption", now);
    let names: Vec<Name> = plan
        .launches
        .iter()
        .map(|one| context.names.next(&one.pool, now))
        .collect();
    for (machine, removal) in &targets {
        let intent = Intent {
            id: id.clone(),
            cause: removal.cause,
            replacements: names.clone(),
            since: now,
        };
        if let Err(error) = mark(context, machine, &intent).await {
            warn!(machine = %machine.key, %error, "could not be marked: the disruption is undone");
            command::undo(context, &id).await;
            return false;
        }
    }
    for (machine, removal) in &targets {
        if let Some(why) = command::obstacle(context, machine, removal.cause).await {
            info!(machine = %machine.key, %why, "the disruption is undone");
            context.tell_machine(machine, Severity::Normal, "DisruptionBlocked", &why);
            command::undo(context, &id).await;
            return false;
        }
    }
    if !plan.launches.is_empty() {
        let purpose = Purpose {
            names: &names,
            replaces: &id,
        };
        let cause: &str = removals.first().map_or("", |one| one.cause.into());
        let reason = match cause {
            "Drifted" => "drifted",
            _ => "underutilized",
        };
        let made = launch(context, problem, &plan.launches, reason, Some(purpose)).await;
        if made.len() < plan.launches.len() {
            warn!(%id, "not all replacements could be asked for: the disruption is undone");
            command::undo(context, &id).await;
            return false;
        }
    }
    for (machine, removal) in &targets {
        info!(
            machine = %machine.key, node = %removal.node, cause = %removal.cause, reason = %removal.reason,
            replacements = names.len(), "disruption begun"
        );
        if !names.is_empty() {
            let said = format!("{} takes its place: {}", names.join(", "), removal.reason);
            context.tell_machine(machine, Severity::Normal, "DisruptionLaunching", &said);
        }
        let decision = Decision {
            decision: if names.is_empty() {
                "delete"
            } else {
                "replace"
            }
            .to_owned(),
            reason: removal.cause.to_string(),
        };
        context.metrics.decisions.get_or_create(&decision).inc();
    }
    true
}

/// The machines behind removals, if all of them can still be disrupted.
fn targets<'a>(
    context: &Context,
    removals: &[&'a Removal],
    machines: &BTreeMap<Name, Key>,
) -> Option<Vec<(Arc<MachineRecord>, &'a Removal)>> {
    let world = context.view.read();
    removals
        .iter()
        .map(|removal| {
            let machine = world.machines.get(machines.get(&removal.node)?)?;
            let paused = machine
                .pool
                .as_ref()
                .and_then(|pool| world.pool(pool))
                .is_some_and(|pool| pool.paused);
            let free = machine.deleting.is_none()
                && machine.intent().is_none()
                && machine.initialized()
                && !paused;
            free.then(|| (machine.clone(), *removal))
        })
        .collect()
}

/// Writes the intent on the machine object and the taint on its node.
async fn mark(
    context: &Context,
    machine: &MachineRecord,
    intent: &Intent,
) -> Result<(), WriteError> {
    let dialect = context
        .dialect(&machine.key)
        .ok_or_else(|| WriteError::Refused("unknown dialect".into()))?;
    let text =
        serde_json::to_string(intent).map_err(|error| WriteError::Refused(error.to_string()))?;
    let change = MetadataChange::annotation(annotations::INTENT, Some(text.into()));
    context
        .view
        .note_machine(dialect.patch_machine(machine, &change).await?);
    let node = machine
        .status
        .node
        .as_ref()
        .and_then(|name| context.view.read().nodes.get(name).cloned());
    match node {
        Some(node) => taint(context, &node, Taintedness::Tainted).await,
        None => Err(WriteError::Gone("its node is gone".into())),
    }
}

/// Whether a node keeps new pods away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taintedness {
    /// It does.
    Tainted,
    /// It does not.
    Clean,
}

/// Puts the disruption taint on a node, or takes it off.
pub(crate) async fn taint(
    context: &Context,
    node: &NodeRecord,
    wanted: Taintedness,
) -> Result<(), WriteError> {
    let mut change = NodeChange::of(node);
    match wanted {
        Taintedness::Tainted => {
            let taint = Taint {
                key: DISRUPTED.into(),
                value: "".into(),
                effect: Effect::NoSchedule,
            };
            change.ensure_taints(node, &[taint], &[]);
        }
        Taintedness::Clean => change.ensure_taints(node, &[], &[(DISRUPTED, Effect::NoSchedule)]),
    }
    if change.is_empty() {
        return Ok(());
    }
    let api: Api<Node> = Api::all(context.clients.writes.clone());
    let patch = Patch::Merge(change.patch(&[]));
    match api.patch(&node.name, &PatchParams::default(), &patch).await {
        Ok(node) => {
            context.view.note_node(lower_node(node));
            Ok(())
        }
        Err(error) => {
            if let Ok(Some(current)) = api.get_opt(&node.name).await {
                context.view.note_node(lower_node(current));
            }
            Err(error.into())
        }
    }
}

/// Pods on a node, read where they cannot be stale: whoever was bound before the taint is among them.
pub(crate) async fn live_pods(context: &Context, node: &str) -> Result<Vec<PodRecord>, WriteError> {
    let api: Api<Pod> = Api::all(context.clients.reads.clone());
    let parameters = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let mut specs = Specs::default();
    let pods = api.list(&parameters).await?;
    Ok(pods
        .items
        .into_iter()
        .map(|pod| lower_pod(pod, &mut specs))
        .collect())
}

/// Whether a pod is work that somebody would miss.
pub(crate) fn is_work(pod: &PodRecord) -> bool {
    pod.active() && !matches!(pod.owner, Owner::DaemonSet | Owner::Node)
}

/// Asks for a machine object to be deleted; its lifecycle does the rest.
pub(crate) async fn delete(
    context: &Context,
    machine: &MachineRecord,
    reason: &'static str,
) -> bool {
    let Some(dialect) = context.dialect(&machine.key) else {
        return false;
    };
    if context.settings.mode == Mode::ObserveOnly {
        info!(machine = %machine.key, reason, "would be taken away, but only observes");
        return false;
    }
    match dialect.delete_machine(machine).await {
        Ok(()) | Err(WriteError::Gone(_)) => {}
        Err(error) => {
            warn!(machine = %machine.key, %error, "could not be deleted");
            return false;
        }
    }
    let labels = PoolReason {
        nodepool: machine.pool.as_deref().unwrap_or_default().to_owned(),
        reason: reason.to_owned(),
    };
    context.metrics.disrupted.get_or_create(&labels).inc();
    context.tell_machine(
        machine,
        Severity::Normal,
        "DisruptionTerminating",
        &format!("Disrupting Node: {reason}"),
    );
    match dialect.get_machine(&machine.key).await {
        Ok(current) if current.uid == machine.uid => context.view.note_machine(current),
        Ok(_) | Err(WriteError::Gone(_)) => context.view.forget_machine(machine),
        Err(_) => {}
    }
    true
}

/// Until when a command may take.
pub(crate) fn deadline(context: &Context, intent: &Intent) -> jiff::Timestamp {
    clock::after(intent.since, context.settings.replacement_timeout)
}
