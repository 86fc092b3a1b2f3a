//! Beginning commands: as many at once as budgets allow, each looked at again after its nodes keep new pods away.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream;
use jiff::Timestamp;
use joiner_core::name::Name;
use joiner_core::plan::{Launch, Plan, Removal};
use joiner_core::problem::{DisruptionReason, Problem};
use tracing::{info, warn};

use super::command::{Command, IN_TURN, split};
use super::drain_slots::DrainSlots;
use super::moves::{self, Moves};
use super::progress::{obstacle, undo};
use super::taint::{Taintedness, taint};
use super::{guard, recent};
use crate::context::Context;
use crate::edge::clients::WriteError;
use crate::edge::events::Severity;
use crate::edge::metrics::{Decision, PoolDecision, consolidation_type};
use crate::guards::limits;
use crate::lifecycle::{RemovalReason, delete};
use crate::provision::{Purpose, launch, one_more};
use crate::record::{
    Condition, Intent, Key, MachineRecord, MetadataChange, Truth, annotations, kinds,
};

/// How many nodes are let go at once: bounded so that the API server is not swamped.
const AT_ONCE: usize = 20;
/// Of how many nodes a replacement says that it takes their place.
const NAMED: usize = 3;

/// A machine that goes, and why.
type Target<'p> = (Arc<MachineRecord>, &'p Removal);

/// What is begun for one reason.
#[derive(Default)]
struct Commands<'p> {
    deletions: Vec<(Command<'p>, Vec<Target<'p>>)>,
    replacements: Vec<(Command<'p>, Vec<Target<'p>>)>,
    /// Of static pools, which keep their size: each is replaced by another of its pool, whatever its pods need.
    fixed: Vec<Target<'p>>,
}

/// Begins everything that a plan says and nothing speaks against. Says when something that is held back may go.
pub(super) async fn all(
    context: &Context,
    problem: &Problem,
    plan: &Plan,
    machines: &BTreeMap<Name, Key>,
) -> Option<Timestamp> {
    let _buying = context.provision.purchasing.lock().await;
    let mut later: Option<Timestamp> = None;
    let mut commands: BTreeMap<DisruptionReason, Commands<'_>> = BTreeMap::new();
    {
        let world = context.view.read();
        let mut turns = DrainSlots::new(context, &world);
        for command in split(problem, plan) {
            let Some(targets) = targets(&world, &command, machines) else {
                continue;
            };
            let against =
                guard::against(context, &world, problem, &command, machines).or_else(|| {
                    guard::out_of_turn(&mut turns, &command, targets.iter().map(|(one, _)| one))
                });
            if let Some(held) = against {
                later = [later, held.until].into_iter().flatten().min();
                tell_held(context, &targets, &held);
                continue;
            }
            let of_cause = commands.entry(command.cause()).or_default();
            let fixed = |(machine, _): &Target<'_>| {
                let pool = machine.pool.as_ref().and_then(|pool| world.pool(pool));
                pool.is_some_and(|pool| pool.pool.replicas.is_some())
            };
            if targets.iter().any(fixed) {
                of_cause.fixed.extend(targets);
            } else if command.launches.is_empty() {
                of_cause.deletions.push((command, targets));
            } else {
                of_cause.replacements.push((command, targets));
            }
        }
    }
    let moves = &Moves::of(problem, plan, machines);
    for cause in IN_TURN {
        let Some(of_cause) = commands.remove(&cause) else {
            continue;
        };
        stream::iter(of_cause.deletions)
            .for_each_concurrent(AT_ONCE, |(command, targets)| async move {
                take_away(context, &command, &targets, moves).await;
            })
            .await;
        for (command, targets) in of_cause.replacements {
            replace(context, problem, &command, &targets, moves).await;
        }
        for (machine, removal) in of_cause.fixed {
            replace_static(context, &machine, removal, moves).await;
        }
    }
    later
}

fn tell_held(context: &Context, targets: &[Target<'_>], held: &guard::Held) {
    for (machine, removal) in targets {
        info!(machine = %machine.key, cause = %removal.cause, because = held.because, "disruption is blocked");
        if held.until.is_none() {
            context.tell_machine(
                machine,
                Severity::Normal,
                "DisruptionBlocked",
                &held.because,
            );
        }
    }
}

/// The machines of a command, if all of them can still be disrupted.
fn targets<'p>(
    world: &crate::view::World,
    command: &Command<'p>,
    machines: &BTreeMap<Name, Key>,
) -> Option<Vec<Target<'p>>> {
    command
        .removals
        .iter()
        .map(|removal| {
            let machine = world.machines.get(machines.get(&removal.node)?)?;
            let paused = machine
                .pool
                .as_ref()
                .and_then(|pool| world.pool(pool))
                .is_some_and(|pool| world.held(pool).is_some());
            let free = machine.deleting.is_none()
                && machine.intent().is_none()
                && machine.initialized()
                && !paused;
            free.then(|| (machine.clone(), *removal))
        })
        .collect()
}

fn count(context: &Context, command: &Command<'_>, targets: &[Target<'_>]) {
    let cause = command.cause();
    let labels = Decision {
        decision: command.decision().to_owned(),
        reason: cause.to_string().to_lowercase(),
        consolidation_type: consolidation_type(cause, command.removals.len()).to_owned(),
    };
    context.edge.metrics.decisions.get_or_create(&labels).inc();
    let pools: BTreeSet<Name> = {
        let world = context.view.read();
        let owned = targets.iter().filter(|(machine, _)| machine.pool.is_some());
        owned.map(|(machine, _)| world.title_of(machine)).collect()
    };
    for pool in pools {
        let labels = PoolDecision {
            nodepool: pool.to_string(),
            decision: labels.decision.clone(),
            reason: labels.reason.clone(),
            consolidation_type: labels.consolidation_type.clone(),
        };
        context
            .edge
            .metrics
            .pool_decisions
            .get_or_create(&labels)
            .inc();
    }
}

/// Nodes that nothing need be bought for. If the process dies half way, the taint that nobody stands for is taken off.
async fn take_away(
    context: &Context,
    command: &Command<'_>,
    targets: &[Target<'_>],
    moves: &Moves,
) {
    for (machine, removal) in targets {
        let begun = match mark(context, machine, removal).await {
            Ok(()) => obstacle(context, machine, removal.cause).await,
            Err(error) => Some(error.to_string()),
        };
        if let Some(why) = begun {
            info!(machine = %machine.key, %why, "disruption is cancelled");
            context.tell_machine(machine, Severity::Normal, "DisruptionBlocked", &why);
            unmark(context, machine).await;
            continue;
        }
        info!(
            machine = %machine.key, node = %removal.node, cause = %removal.cause,
            reason = %removal.reason, "disrupting node"
        );
        count(context, command, targets);
        moves.promise(context, &removal.node);
        let current = context.view.read().machines.get(&machine.key).cloned();
        if let Some(current) = current {
            delete(context, &current, removal.cause.into()).await;
        }
    }
}

/// Keeps new pods away from a node, and says on its machine why.
async fn mark(
    context: &Context,
    machine: &MachineRecord,
    removal: &Removal,
) -> Result<(), WriteError> {
    let dialect = context
        .dialect(&machine.key)
        .ok_or_else(|| WriteError::Refused("unknown dialect".into()))?;
    keep_away(context, machine, Taintedness::Leaving).await?;
    // The taint is news to the machine's lifecycle too: it may have written meanwhile.
    let current = context.view.read().machines.get(&machine.key).cloned();
    let machine = current.ok_or_else(|| WriteError::Gone("it is gone already".into()))?;
    let mut status = machine.status.clone();
    let reason: &str = removal.cause.into();
    status.conditions.ensure(Condition {
        kind: kinds::DISRUPTION_REASON.into(),
        status: Truth::True,
        reason: reason.into(),
        message: removal.reason.to_string(),
        since: context.now(),
        generation: machine.generation,
    });
    let written = dialect.write_machine_status(&machine, &status).await?;
    context.view.note_machine(written);
    Ok(())
}

/// Takes back what [`mark`] did; the lifecycle takes the condition off once the taint is.
async fn unmark(context: &Context, machine: &MachineRecord) {
    let node = machine
        .status
        .node
        .as_ref()
        .and_then(|name| context.view.read().nodes.get(name).cloned());
    if let Some(node) = node
        && let Err(error) = taint(context, &node, Taintedness::Clean).await
    {
        warn!(machine = %machine.key, %error, "taint could not be removed; it is tried again");
    }
}

async fn keep_away(
    context: &Context,
    machine: &MachineRecord,
    how: Taintedness,
) -> Result<(), WriteError> {
    let node = machine
        .status
        .node
        .as_ref()
        .and_then(|name| context.view.read().nodes.get(name).cloned());
    match node {
        Some(node) => taint(context, &node, how).await,
        None => Err(WriteError::Gone("its node is gone".into())),
    }
}

/// Names of machines that replace others.
fn new_names(context: &Context, launches: &[&Launch], now: Timestamp) -> Vec<Name> {
    let world = context.view.read();
    let name = |one: &&Launch| -> Name {
        let pool = world.pool(&one.pool);
        let prefix = pool.map_or_else(|| "replacement".into(), |pool| pool.key.name.clone());
        context.edge.names.next(&prefix, now)
    };
    launches.iter().map(name).collect()
}

/// Nodes that others must replace first: writes down what is meant, keeps new pods away, looks again, buys.
async fn replace(
    context: &Context,
    problem: &Problem,
    command: &Command<'_>,
    targets: &[Target<'_>],
    moves: &Moves,
) {
    let now = context.now();
    let id = context.edge.names.next("disruption", now);
    let names = new_names(context, &command.launches, now);
    let elsewhere = targets.iter().any(|(_, one)| moves.leave(&one.node));
    let scatters = names.len() + usize::from(elsewhere) > 1;
    for (machine, removal) in targets {
        let intent = Intent {
            id: id.clone(),
            cause: removal.cause,
            replacements: names.clone(),
            scatters,
            since: now,
        };
        let written = match intend(context, machine, &intent).await {
            Ok(()) => keep_away(context, machine, Taintedness::Tainted).await,
            Err(error) => Err(error),
        };
        if let Err(error) = written {
            warn!(machine = %machine.key, %error, "node could not be tainted: the disruption is cancelled");
            undo(context, &id).await;
            return;
        }
    }
    for (machine, removal) in targets {
        if let Some(why) = obstacle(context, machine, removal.cause).await {
            info!(machine = %machine.key, %why, "disruption is cancelled");
            context.tell_machine(machine, Severity::Normal, "DisruptionBlocked", &why);
            undo(context, &id).await;
            return;
        }
    }
    let launches: Vec<Launch> = command.launches.iter().map(|one| (*one).clone()).collect();
    let gone = targets.iter().take(NAMED);
    let mut gone: Vec<String> = gone
        .map(|(_, one)| format!("node {} ({})", one.node, one.cause))
        .collect();
    if let Some(more) = targets.len().checked_sub(NAMED).filter(|more| *more > 0) {
        gone.push(format!("{more} more"));
    }
    let purpose = Purpose {
        names: &names,
        replaces: &id,
        instead: &gone.join(", "),
    };
    let reason = word(command.cause());
    let made = launch(context, problem, &launches, reason, Some(purpose)).await;
    if made.len() < launches.len() {
        warn!(%id, "not all replacements could be requested: the disruption is cancelled");
        undo(context, &id).await;
        return;
    }
    let essence = recent::essence(&context.view.read(), problem, command);
    context.disruptions.note(essence, now);
    count(context, command, targets);
    for (launch, machine) in launches.iter().zip(made.values()) {
        moves::promise_new(context, problem, launch, machine);
        let why = machine.annotations.get(annotations::WHY);
        let name = &machine.key.name;
        context.decisions.launched(now, launch, name, why);
    }
    let successors = successors(&launches, &names);
    for (machine, removal) in targets {
        moves.promise(context, &removal.node);
        info!(
            machine = %machine.key, node = %removal.node, cause = %removal.cause, reason = %removal.reason,
            replacements = names.len(), "disrupting node: its replacement comes first"
        );
        let said = format!("Replaced by {successors}: {}", removal.reason);
        context.tell_machine(machine, Severity::Normal, "DisruptionLaunching", &said);
    }
}

/// The machines that replace others, as events name them.
fn successors(launches: &[Launch], names: &[Name]) -> String {
    let all = launches.iter().zip(names).map(|(launch, name)| {
        let one = &launch.purchase;
        format!(
            "{name} ({} as {} in zone {} at {} an hour)",
            one.instance_type, one.capacity_type, one.zone, one.price
        )
    });
    all.collect::<Vec<_>>().join(", ")
}

/// A node of a static pool: another of its pool comes first, if the pool's limits have room for it, and then it goes.
///
/// karpenter: pkg/controllers/disruption/staticdrift.go
async fn replace_static(
    context: &Context,
    machine: &Arc<MachineRecord>,
    removal: &Removal,
    moves: &Moves,
) {
    let pool = {
        let world = context.view.read();
        let pool = machine.pool.as_ref().and_then(|pool| world.pool(pool));
        let Some(pool) = pool.cloned() else { return };
        let mut usage = limits::usage(&world, pool.id(), None);
        usage.nodes += 1;
        if let Some(limit) = usage.exceeds(&pool.pool.limits) {
            info!(machine = %machine.key, %limit, "not replaced yet: pool limit leaves no room for a replacement");
            return;
        }
        pool
    };
    let Some((problem, launch)) = one_more(context, &pool).await else {
        return;
    };
    let command = Command {
        removals: vec![removal],
        launches: vec![&launch],
    };
    let targets = [(machine.clone(), removal)];
    replace(context, &problem, &command, &targets, moves).await;
}

/// Writes the intent on the machine object.
async fn intend(
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
    let written = dialect.patch_machine(machine, &change).await?;
    context.view.note_machine(written);
    Ok(())
}

/// The word for a cause in metrics and events, as Karpenter has it.
pub(super) fn word(cause: DisruptionReason) -> &'static str {
    RemovalReason::from(cause).word()
}
