//! Taking nodes away that work: because they are empty, drifted, too dear or too old.
//!
//! ```text
//! something changed ──► decide ──► did anything change meanwhile? decide again, keep what both say
//!                                     └─► commands that do not depend on each other, each on its own:
//!                                            taint ──► look again ──► replacements ──► the old go
//! ```
//!
//! What was decided stands on the machine objects (`joiner.dev/disruption`), so that whoever takes over finishes or
//! undoes it. Old machines go only when everything that replaces them is in use.

mod begin;
mod command;
mod drain_slots;
mod drift;
mod guard;
mod measure;
mod moves;
mod places;
mod progress;
mod reasons;
mod recent;
pub(crate) mod reserve;
mod taint;
mod wave;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::name::Name;
use joiner_core::plan::Plan;
use joiner_core::problem::Problem;
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::info;

pub(crate) use drift::run as run_drift;
pub(crate) use recent::RecentDisruptions;

use self::reasons::Reasons;
use self::wave::Wave;
use crate::context::{Context, Decide, Mode};
use crate::edge::clock;
use crate::edge::events::Severity;
use crate::edge::metrics::{Evaluation, Validation, consolidation_type};
use crate::last_decision::LastDecision;
use crate::lifecycle::{RemovalReason, delete};
use crate::record::{Key, MachineRecord};

/// How often disruptions under way are looked at, and how soon after a change.
const PROGRESS: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_millis(250);
/// Deciding takes at most one part in so many of the time: large clusters are looked at less often.
const SHARE: u32 = 5;

/// Looks for nodes to take away when something has changed or its time has come, for ever.
pub(crate) async fn run(context: Arc<Context>, changed: Arc<Notify>) {
    let mut dirty = true;
    let mut earliest = Instant::now();
    let mut due = Instant::now();
    let mut mind = Mind::default();
    loop {
        tokio::select! {
            biased;
            () = changed.notified() => {
                dirty = true;
                tokio::time::sleep(SOON).await;
            }
            () = tokio::time::sleep(PROGRESS) => {}
        }
        if !context.may_act() {
            continue;
        }
        if context.settings.mode == Mode::ObserveOnly {
            if Instant::now() >= due {
                observe(&context, &mut mind).await;
                due = Instant::now() + context.settings.disruption_period;
            }
            continue;
        }
        context
            .guards
            .repeats
            .observe(&context.view.read(), context.now());
        progress::progress(&context).await;
        expire(&context).await;
        mind.reasons.speak(&context);
        let now = Instant::now();
        let wanted = (dirty && now >= earliest) || now >= due;
        if !wanted || context.settings.paused {
            continue;
        }
        dirty = false;
        let looked = look(&context, &mut mind).await;
        let took = now.elapsed();
        earliest = Instant::now() + (took * SHARE).max(context.settings.disruption_pause);
        let soonest = looked.map(|at| clock::until(context.now(), at).max(PROGRESS));
        let period = context.settings.disruption_period;
        due = Instant::now() + soonest.map_or(period, |wait| wait.min(period));
    }
}

/// Machines that are too old go now; what runs on them is provided for as they are drained.
async fn expire(context: &Context) {
    if context.settings.paused {
        return;
    }
    let now = context.now();
    let old: Vec<Arc<MachineRecord>> = {
        let world = context.view.read();
        let expired = |machine: &&Arc<MachineRecord>| {
            let paused = machine
                .pool
                .as_ref()
                .and_then(|pool| world.pool(pool))
                .is_some_and(|pool| world.held(pool).is_some());
            machine.deleting.is_none()
                && !paused
                && machine
                    .expire_after
                    .is_some_and(|age| machine.created.checked_add(age).is_ok_and(|end| end <= now))
        };
        world.machines.iter().filter(expired).cloned().collect()
    };
    for machine in old {
        info!(machine = %machine.key, "expired");
        delete(context, &machine, RemovalReason::Expired).await;
    }
}

/// What is remembered from one look to the next.
#[derive(Default)]
struct Mind {
    /// What users were told.
    reasons: Reasons,
    /// A cluster in which nothing was to be done.
    rest: LastDecision,
    /// The change that is under way.
    wave: Wave,
}

/// The machines behind nodes, by the name of the node.
type Machines = Arc<BTreeMap<Name, Key>>;

/// The problem as it stands, and the machines behind its nodes.
fn snapshot(context: &Context, wave: &mut Wave) -> (Problem, Machines) {
    let now = context.now();
    let world = context.view.read();
    let terms = crate::market::terms::terms(context, &world, now);
    let mut snapshot = world.problem(&terms, now);
    guard::only_canaries(&world, &mut snapshot.problem, &snapshot.machines);
    guard::let_buffers_move(&mut snapshot.problem, &snapshot.pending);
    guard::let_settle(context.settings.settle, &mut snapshot.problem);
    wave.wait_out(context.settings.settle, &mut snapshot.problem);
    (snapshot.problem, Arc::new(snapshot.machines))
}

async fn decide(context: &Context, problem: Problem) -> Option<(Arc<Problem>, Arc<Plan>)> {
    let started = Instant::now();
    let decided = context
        .decide(problem, |decide: &dyn Decide, problem| {
            decide.disrupt(problem)
        })
        .await;
    let everything = Evaluation {
        reason: String::new(),
        consolidation_type: String::new(),
    };
    context
        .edge
        .metrics
        .evaluation
        .get_or_create(&everything)
        .observe(started.elapsed().as_secs_f64());
    decided.map(|(problem, plan)| (Arc::new(problem), Arc::new(plan)))
}

/// When time alone changes what becomes of some node.
fn next_change(plan: &Plan) -> Option<Timestamp> {
    plan.kept.iter().filter_map(|kept| kept.until).min()
}

/// Decides and begins. Says when time alone will change something. A cluster in which nothing was to be done is not
/// thought about again while it stays the same.
async fn look(context: &Context, mind: &mut Mind) -> Option<Timestamp> {
    let (mut problem, machines) = snapshot(context, &mut mind.wave);
    if machines.is_empty() {
        return None;
    }
    if let Some(plan) = mind.rest.recall(&mut problem) {
        return next_change(&plan);
    }
    let (problem, plan) = decide(context, problem).await?;
    context
        .decisions
        .disrupted(context.now(), &problem, &plan, &machines);
    measure::measure(context, &problem, &plan);
    mind.reasons.learn(context, &plan, &machines);
    mind.reasons.speak(context);
    let next = next_change(&plan);
    if plan.removals.is_empty() {
        let period = clock::after(context.now(), context.settings.disruption_period);
        mind.rest.keep(
            problem,
            plan,
            Some(next.map_or(period, |at| at.min(period))),
        );
        return next;
    }
    if !context.may_act() {
        return next;
    }
    let Some((problem, plan, machines)) =
        validate(context, &mut mind.wave, problem, plan, machines).await
    else {
        return Some(context.now());
    };
    let begun = begin::all(context, &problem, &plan, &machines).await;
    [next, begun].into_iter().flatten().min()
}

/// Names what would be removed and launched instead, if it has not been named yet.
async fn observe(context: &Context, mind: &mut Mind) {
    let (problem, machines) = snapshot(context, &mut mind.wave);
    if machines.is_empty() || context.settings.paused {
        return;
    }
    let Some((problem, plan)) = decide(context, problem).await else {
        return;
    };
    context
        .decisions
        .disrupted(context.now(), &problem, &plan, &machines);
    let gone = plan.removals.iter();
    let mut said: Vec<String> = gone.map(|one| one.node.to_string()).collect();
    said.sort();
    if !context
        .last_logs
        .removals
        .news(said.len(), Some(&said.join(" ")))
    {
        return;
    }
    for removal in &plan.removals {
        info!(node = %removal.node, reason = %removal.reason, "observe-only: would remove a node");
    }
    for launch in &plan.launches {
        let launch = format!(
            "pool {}: {}",
            launch.pool,
            crate::provision::sentence(launch)
        );
        info!(%launch, "observe-only: would launch a replacement");
    }
}

/// Whether a decision still stands. If anything has changed while it was made, it is made again, and only what both
/// decisions say counts.
async fn validate(
    context: &Context,
    wave: &mut Wave,
    decided: Arc<Problem>,
    plan: Arc<Plan>,
    machines: Machines,
) -> Option<(Arc<Problem>, Arc<Plan>, Machines)> {
    let (mut fresh, present) = snapshot(context, wave);
    fresh.now = decided.now;
    if fresh == *decided {
        return Some((decided, plan, machines));
    }
    let (fresh, mut again) = decide(context, fresh).await?;
    for removal in &plan.removals {
        let stands = |other: &joiner_core::plan::Removal| {
            other.node == removal.node && other.cause == removal.cause
        };
        if again.removals.iter().any(stands) {
            continue;
        }
        let kind = consolidation_type(removal.cause, plan.removals.len()).to_owned();
        let labels = Validation {
            consolidation_type: kind,
        };
        context
            .edge
            .metrics
            .failed_validations
            .get_or_create(&labels)
            .inc();
        let kept = again.kept.iter().find(|kept| kept.node == removal.node);
        let why = kept.map_or_else(
            || "the cluster has changed since the decision".to_owned(),
            |kept| kept.reason.to_string(),
        );
        info!(node = %removal.node, cause = %removal.cause, %why, "disruption is cancelled after validation");
        let machine = machine(context, &machines, &removal.node);
        if let Some(machine) = machine {
            context.tell_machine(&machine, Severity::Normal, "ConsolidationRejected", &why);
        }
    }
    Arc::make_mut(&mut again).removals.retain(|removal| {
        let mut first = plan.removals.iter();
        first.any(|other| other.node == removal.node && other.cause == removal.cause)
    });
    Some((fresh, again, present))
}

fn machine(
    context: &Context,
    machines: &BTreeMap<Name, Key>,
    node: &Name,
) -> Option<Arc<MachineRecord>> {
    let world = context.view.read();
    world.machines.get(machines.get(node)?).cloned()
}
