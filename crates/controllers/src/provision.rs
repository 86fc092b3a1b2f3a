//! From pods that wait to machine objects that ask for machines.

mod batch;
mod nominate;
mod offers;
mod reasons;
mod served;
mod spare;
pub(crate) mod standalone;
mod statics;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use joiner_core::name::Name;
use joiner_core::plan::{Launch, Plan, PodRef, Reason};
use joiner_core::problem::{Pod, Problem};
use tokio::sync::{Mutex, RwLock, Semaphore};
use tokio::time::Instant;
use tracing::{info, warn};

pub(crate) use batch::Batch;
pub(crate) use nominate::nominate;
pub(crate) use offers::offers;
use served::Sold;
pub(crate) use served::{Ground, Kind, Reservation, Served};
use standalone::Standalone;
pub(crate) use statics::one_more;

use crate::context::{Context, Mode};
use crate::decisions::Provisioned;
use crate::dialect::Window;
use crate::edge::clients::WriteError;
use crate::edge::clock;
use crate::edge::events::Severity;
use crate::guards::limits;
use crate::last_decision::LastDecision;
use crate::market::terms::suits;
use crate::record::{MANAGED_BY, MachineRecord, NewMachine, PoolRecord, manager};
use crate::view::World;
use crate::view::pods::PodRecord;
use crate::view::problem::Snapshot;

/// Purchases under way.
pub struct Provision {
    /// Pods that machines were bought for.
    pub served: Served,
    /// Machines that Joiner did not write, which wait to be told what to buy.
    pub standalone: Standalone,
    /// Held from looking at limits until the machine objects are written, so that limits are exact.
    pub purchasing: Mutex<()>,
    /// Written while machines are bought until it is remembered for which pods; a node may be quicker than that.
    pub selling: RwLock<()>,
    /// Read while the scheduler is told which pods go to a node; written while that node opens to pods.
    pub opening: RwLock<()>,
    /// Bounds how many pods are written to at once, and with that the connections that are held open.
    pub pod_writes: Semaphore,
}

impl Default for Provision {
    fn default() -> Self {
        Provision {
            served: Served::default(),
            standalone: Standalone::default(),
            purchasing: Mutex::default(),
            selling: RwLock::default(),
            opening: RwLock::default(),
            pod_writes: Semaphore::new(POD_WRITES),
        }
    }
}

/// How many pods are written to at once: the API server takes no more, however many it is asked for.
const POD_WRITES: usize = 20;
/// How many machine objects are written at once.
const WRITES: usize = 20;
/// How often a machine object is asked for whose writing was not answered, and how long apart.
const ASKED: usize = 10;
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// How soon to try again when pods are left that could not be provided for.
const AGAIN: Duration = Duration::from_secs(10);

/// Provides for pods, for ever.
pub(crate) async fn run(context: Arc<Context>, batch: Arc<Batch>) {
    let mut known = LastDecision::default();
    loop {
        batch
            .wait(least_window(&context), || full_window(&context))
            .await;
        if !context.may_act() {
            tokio::time::sleep(Duration::from_secs(1)).await;
            batch.again(Duration::ZERO);
            continue;
        }
        if round(&context, &mut known).await == Outcome::Unfinished {
            batch.again(AGAIN);
        }
        let now = context.now();
        // Pods are left to another controller's machine, or to room that is to become free, only for so long, and
        // nothing happens when that is over.
        let overdue = {
            let world = context.view.read();
            [world.foreign_overdue(now), world.departure_overdue(now)]
        };
        let due = context.provision.served.due(now);
        for wait in overdue.into_iter().chain([due]).flatten() {
            batch.again(wait);
        }
    }
}

/// How a round ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Nothing is left to do until something changes.
    Finished,
    /// Worth another look soon.
    Unfinished,
}

/// The families whose users have pools, and their windows: one without pools has no say.
fn windows(context: &Context, world: &World) -> Vec<(&'static str, Window)> {
    let used = |name: &str| world.pools.iter().any(|pool| pool.key.dialect == name);
    let families = context.dialects.values().filter(|one| used(one.name()));
    families.map(|one| (one.name(), one.window())).collect()
}

/// How long pods are gathered at least: as the most impatient family says.
fn least_window(context: &Context) -> Window {
    let shortest = || {
        let windows = windows(context, &context.view.read());
        let windows = windows.into_iter().map(|(_, window)| window);
        windows.min_by_key(|one| (one.idle, one.max))
    };
    context
        .settings
        .window
        .or_else(shortest)
        .unwrap_or_default()
}

/// How long the pods that wait now are gathered: as long as any family says that may launch machines for one of them. A
/// plan made earlier would buy for some of its pods what is dearer for all of them.
fn full_window(context: &Context) -> Window {
    let least = least_window(context);
    let world = context.view.read();
    let windows = windows(context, &world);
    if context.settings.window.is_some() || windows.iter().all(|(_, window)| *window == least) {
        return least;
    }
    let now = context.now();
    let promises = context.provision.served.promises(now);
    let mut waiting: Vec<&Arc<PodRecord>> = world.pods.iter().filter(|pod| pod.waits()).collect();
    waiting.retain(|pod| !promises.contains_key(&pod.uid));
    let wanted = |family: &str, window: &Window| {
        // A pod that has waited for as long as the family gathers pods at most has been gathered.
        let came = |pod: &&Arc<PodRecord>| clock::since(now, pod.created) < window.max;
        let came: Vec<_> = waiting.iter().copied().filter(came).collect();
        let mut pools = world.pools.iter().filter(|one| one.key.dialect == family);
        pools.any(|pool| {
            let suits = suits(pool);
            came.iter().any(|pod| suits(pod))
        })
    };
    let patient = windows
        .iter()
        .filter(|(family, window)| wanted(family, window));
    patient.fold(least, |longest, (_, window)| longest.longer(*window))
}

/// One plan, carried out. One that bought nothing, `known`, is not made again while everything stays the same.
async fn round(context: &Context, known: &mut LastDecision) -> Outcome {
    let statics = statics::fill(context).await;
    let started = Instant::now();
    let _buying = context.provision.purchasing.lock().await;
    let now = context.now();
    hold_what_does_not_help(context, now);
    if context.settings.mode == Mode::Act {
        nominate::take_back(context, now).await;
    }
    let (snapshot, held) = waiting(context, now);
    let moving = snapshot
        .problem
        .nodes
        .iter()
        .any(|node| node.deleting && !node.pods.is_empty());
    if snapshot.problem.pods.is_empty() && !moving {
        context.edge.metrics.unplaced(0);
        crate::upkeep::buffers::judge(context, &snapshot.problem, &Plan::default()).await;
        context.last_logs.limits(BTreeMap::new());
        return if held { Outcome::Unfinished } else { statics };
    }
    let Snapshot {
        mut problem,
        pending,
        machines,
        ignored,
    } = snapshot;
    let recalled = known.recall(&mut problem);
    let fresh = recalled.is_none();
    let (problem, plan) = if let Some(plan) = recalled {
        (Arc::new(problem), plan)
    } else {
        let Some((problem, mut plan)) = context.provide(problem).await else {
            return Outcome::Unfinished;
        };
        spare::forget(&problem, &mut plan);
        (Arc::new(problem), Arc::new(plan))
    };
    context.edge.metrics.planned(started.elapsed());
    let selling = context.provision.selling.write().await;
    let made = if context.settings.mode == Mode::ObserveOnly {
        would_launch(context, &plan);
        BTreeMap::new()
    } else {
        launch(context, &problem, &plan.launches, "provisioned", None).await
    };
    remember(context, &problem, &plan, &pending, &made);
    drop(selling);
    if fresh {
        let decided = Provisioned {
            problem: &problem,
            plan: &plan,
            pending: &pending,
            made: &made,
            ignored: &ignored,
        };
        context.decisions.provisioned(context.now(), &decided);
    }
    tell(context, &problem, &plan, &pending, &made, &machines);
    crate::upkeep::buffers::judge(context, &problem, &plan).await;
    let complete = made.len() == plan.launches.len() && plan.unplaced.is_empty();
    if plan.launches.is_empty() {
        // Time plays no part in where pods fit.
        known.keep(problem, plan, None);
    }
    if complete && !held {
        statics
    } else {
        Outcome::Unfinished
    }
}

/// The pods that machines may be bought for, as a problem; and whether others are left out for now.
fn waiting(context: &Context, now: jiff::Timestamp) -> (Snapshot, bool) {
    let mut snapshot = {
        let world = context.view.read();
        let mut terms = crate::market::terms::terms(context, &world, now);
        terms.departures = true;
        world.problem(&terms, now)
    };
    let held = leave_out_repeats(context, &mut snapshot, now);
    spare::add(&mut snapshot);
    reasons::ignored(context, &snapshot);
    (snapshot, held)
}

/// A pool whose machines do not help the pods that they were bought for waits before it buys more of them.
fn hold_what_does_not_help(context: &Context, now: jiff::Timestamp) {
    let world = context.view.read();
    let nodes = world.nodes.iter().count();
    let tainted = world.nodes.iter().filter(|node| node.closed()).count();
    let in_vain = |pod: &PodRecord| {
        let tried = pod.tried?;
        (tried.nodes >= nodes && tried.tainted <= tainted).then_some(pod.version)
    };
    let waiting = world.pods.iter().filter(|pod| pod.waits());
    let waiting = waiting.map(|pod| (pod.uid.clone(), in_vain(pod))).collect();
    let leaving = world.leaving().flat_map(|node| world.pods_on(node));
    let leaving = leaving.map(|pod| pod.uid.clone()).collect();
    for miss in context.provision.served.misses(&waiting, &leaving, now) {
        let Some(times) = miss.machines.checked_sub(served::PATIENCE) else {
            continue;
        };
        let pod = world.pods.iter().find(|pod| pod.uid == miss.pod);
        let name = pod.map(|pod| pod.key.to_string()).unwrap_or_default();
        let because = format!(
            "pod {name} still waits although {} machines were bought for it and are in use: their nodes are not what \
             the pool and its node class promise",
            miss.machines
        );
        let subject = crate::market::backoff::Subject::Pool(miss.pool.clone());
        let times = u32::try_from(times).unwrap_or(u32::MAX);
        let until = context.market.backoffs.hold(subject, &because, now, times);
        warn!(pool = %miss.pool, %because, next_try = %until, "pool launches nothing for a while: its nodes did not help pending pods");
    }
}

/// Pods for whose kind machines were bought again and again in vain wait before more are bought. They are told, and so
/// is the pool. Says whether there are such pods.
fn leave_out_repeats(context: &Context, snapshot: &mut Snapshot, now: jiff::Timestamp) -> bool {
    let world = context.view.read();
    context.guards.repeats.observe(&world, now);
    let mut keep = Vec::with_capacity(snapshot.pending.len());
    for key in &snapshot.pending {
        let pod = key.as_ref().and_then(|key| world.pods.get(key));
        let Some(repeated) = pod.and_then(|pod| context.guards.repeats.holds(pod, now)) else {
            keep.push(true);
            continue;
        };
        keep.push(false);
        if let Some(key) = key {
            let why = repeated.because.clone();
            snapshot.ignored.push((key.clone(), why));
        }
        if repeated.news {
            warn!(pool = %repeated.pool, because = repeated.because, "the same machines are bought again and again");
            if let Some(pool) = world.pool(&repeated.pool) {
                let because = &repeated.because;
                context.tell_pool(pool, Severity::Warning, "RepeatedPurchases", because);
            }
        }
    }
    if keep.iter().all(|keep| *keep) {
        return false;
    }
    let mut kept = keep.iter();
    snapshot
        .problem
        .pods
        .retain(|_| kept.next().copied().unwrap_or(true));
    let mut kept = keep.iter();
    snapshot
        .pending
        .retain(|_| kept.next().copied().unwrap_or(true));
    true
}

/// Remembers which pods machines were bought for.
fn remember(
    context: &Context,
    problem: &Problem,
    plan: &Plan,
    pending: &[Option<crate::view::pods::PodKey>],
    made: &BTreeMap<usize, MachineRecord>,
) {
    let world = context.view.read();
    let machines = made.iter().filter_map(|(position, machine)| {
        let launch = plan.launches.get(*position)?;
        let pods = launch.pods.iter().filter_map(|pod| {
            let key = reasons::pod_key(pod, pending)?;
            Some((world.pods.get(&key)?.uid.clone(), key, *pod))
        });
        Some((machine, launch, pods.collect::<Vec<_>>()))
    });
    let mut machines: Vec<_> = machines.collect();
    for (machine, launch, pods) in &machines {
        let pods = pods.iter().filter_map(|(_, key, _)| world.pods.get(key));
        let pods = pods.map(AsRef::as_ref);
        context.guards.repeats.bought(machine, &launch.pool, pods);
    }
    machines.sort_by_key(|(_, _, pods)| Reverse(pods.len()));
    // Pods of one machine go there because all other room is taken. Those of a few may because there is room for more.
    let room = spare::room(problem);
    let free = |rank: usize, pod: &PodRef| match &room {
        Some(room) => rank <= spare::COUNT as usize && problem.pod(*pod).is_some_and(room),
        None => rank == 0,
    };
    let machines = machines.into_iter().enumerate();
    let sold = machines.map(|(rank, (machine, launch, pods))| Sold {
        machine: machine.key.clone(),
        pool: launch.pool.clone(),
        pods: pods.iter().map(|(uid, _, _)| uid.clone()).collect(),
        told: pods
            .into_iter()
            .filter(|(_, _, pod)| !free(rank, pod))
            .map(|(uid, key, _)| (uid, key))
            .collect(),
    });
    context.provision.served.sold(sold.collect());
}

/// Says what was decided where users look for it, and keeps promised nodes from being taken away.
fn tell(
    context: &Context,
    problem: &Problem,
    plan: &Plan,
    pending: &[Option<crate::view::pods::PodKey>],
    made: &BTreeMap<usize, MachineRecord>,
    machines: &BTreeMap<Name, crate::record::Key>,
) {
    let now = context.now();
    let window = least_window(context);
    let until = clock::after(now, (window.max * 2).max(Duration::from_secs(10)));
    let real = |pods: &[PodRef]| {
        pods.iter()
            .any(|pod| reasons::pod_key(pod, pending).is_some())
    };
    let promised = plan
        .placements
        .iter()
        .filter(|one| real(&one.pods))
        .map(|one| one.node.clone());
    context.view.nominate(promised, until);
    context.view.consider(reasons::verdicts(plan, pending));
    reasons::nominations(context, plan, pending, made, machines);
    reasons::unplaced(context, plan, pending);
    let unplaced: usize = plan.unplaced.iter().map(|one| one.pods.len()).sum();
    context.edge.metrics.unplaced(unplaced);
    let limits = plan.unplaced.iter().filter_map(|one| match &one.reason {
        Reason::Limit { pool, limit } if limit.starts_with("limits.") => {
            Some((pool.clone(), limit.clone()))
        }
        _ => None,
    });
    context.last_logs.limits(limits.collect());
    let reason = plan.unplaced.first().map(|one| one.reason.to_string());
    // The same pods without a place for the same reason are no news.
    let news = context.last_logs.unplaced.news(unplaced, reason.as_deref());
    if !made.is_empty() || news {
        info!(
            pods = problem.pods.iter().map(|pod: &Pod| pod.count).sum::<u32>(),
            machines = made.len(),
            unplaced,
            reason,
            cost = plan.cost.dollars(),
            lower_bound = plan.lower_bound.dollars(),
            "planned for pending pods"
        );
    }
}

/// What a machine object is written for.
pub(crate) struct Purpose<'a> {
    /// Names chosen beforehand, in the order of the launches.
    pub(crate) names: &'a [Name],
    /// Disruption that they are for.
    pub(crate) replaces: &'a Name,
    /// What they take the place of, in words.
    pub(crate) instead: &'a str,
}

/// Writes machine objects for launches, as far as the pools' limits go. The caller holds the purchasing lock. Returns
/// what was written, by position.
pub(crate) async fn launch(
    context: &Context,
    problem: &Problem,
    launches: &[Launch],
    reason: &'static str,
    purpose: Option<Purpose<'_>>,
) -> BTreeMap<usize, MachineRecord> {
    let mut wanted = Vec::new();
    {
        let world = context.view.read();
        let mut usage: BTreeMap<Name, limits::Usage> = BTreeMap::new();
        for (position, launch) in launches.iter().enumerate() {
            let Some(pool) = world.pool(&launch.pool) else {
                continue;
            };
            let used = usage
                .entry(pool.id().clone())
                .or_insert_with(|| limits::usage(&world, pool.id(), None));
            let mut next = used.clone();
            next.add(&launch.capacity, launch.purchase.price);
            if let Some(limit) = next.exceeds(&pool.pool.limits) {
                warn!(pool = %pool.id(), %limit, "not launched: pool has reached its limit");
                continue;
            }
            let most = context.settings.launches_per_minute;
            if let Err(until) =
                context
                    .guards
                    .launch_rate
                    .take(&world, pool.id(), most, context.now())
            {
                let message = format!(
                    "{most} machines were requested within a minute, the most that is allowed; continues at {until}"
                );
                warn!(pool = %pool.id(), because = message, "not launched");
                context.tell_pool(pool, Severity::Warning, "LaunchesPaced", &message);
                continue;
            }
            *used = next;
            wanted.push((
                position,
                new_machine(context, problem, pool, launch, purpose.as_ref(), position),
            ));
        }
    }
    let written = stream::iter(wanted)
        .map(|(position, machine)| async move { (position, write(context, machine, reason).await) })
        .buffered(WRITES);
    let written: BTreeMap<usize, MachineRecord> = written
        .filter_map(|(position, machine)| async move { machine.map(|machine| (position, machine)) })
        .collect()
        .await;
    for (position, machine) in &written {
        explain(context, &launches[*position], machine);
    }
    announce(context, written.values());
    written
}

/// Says on a machine why it is bought: what for, at what price, and what the next best would have cost.
fn explain(context: &Context, launch: &Launch, machine: &MachineRecord) {
    context.tell_machine(machine, Severity::Normal, "Launching", &sentence(launch));
}

/// What is bought and why.
pub(crate) fn sentence(launch: &Launch) -> String {
    let purchase = &launch.purchase;
    let purpose = match launch.pods.len() {
        0 => "to keep its pool at its size".to_owned(),
        1 => "for 1 pod".to_owned(),
        pods => format!("for {pods} pods"),
    };
    format!(
        "{} as {} in zone {} at {} an hour {purpose}: {}",
        purchase.instance_type,
        purchase.capacity_type,
        purchase.zone,
        purchase.price,
        launch.reason
    )
}

/// Names what would be launched, if it has not been named yet.
fn would_launch(context: &Context, plan: &Plan) {
    let mut said: Vec<String> = plan
        .launches
        .iter()
        .map(|launch| format!("pool {}: {}", launch.pool, sentence(launch)))
        .collect();
    said.sort();
    if !context
        .last_logs
        .launches
        .news(said.len(), Some(&said.join("\n")))
    {
        return;
    }
    for launch in said {
        info!(%launch, "observe-only: would launch a node");
    }
}

/// Says on each pool what was asked for, where users of its family look for that.
fn announce<'m>(context: &Context, machines: impl Iterator<Item = &'m MachineRecord>) {
    let mut by_pool: BTreeMap<&Name, Vec<&str>> = BTreeMap::new();
    for machine in machines {
        let announces = context
            .dialect(&machine.key)
            .is_some_and(|one| one.announces_scaling());
        if let Some(pool) = machine.pool.as_ref().filter(|_| announces) {
            by_pool.entry(pool).or_default().push(&machine.key.name);
        }
    }
    for (pool, names) in by_pool {
        let Some(pool) = context.view.read().pool(pool).cloned() else {
            continue;
        };
        let s = if names.len() == 1 { "" } else { "s" };
        let said = format!("Requested {} machine{s}: {}", names.len(), names.join(", "));
        context.tell_pool(&pool, Severity::Normal, "ScaledUp", &said);
    }
}

fn new_machine(
    context: &Context,
    problem: &Problem,
    pool: &Arc<PoolRecord>,
    launch: &Launch,
    purpose: Option<&Purpose<'_>>,
    position: usize,
) -> NewMachine {
    let chosen = purpose
        .and_then(|purpose| purpose.names.get(position))
        .cloned();
    let mut labels = launch.labels.clone();
    labels.insert(joiner_core::labels::NODEPOOL.into(), pool.key.name.clone());
    let mut why = sentence(launch);
    if let Some(purpose) = purpose {
        why = format!("{why}; it takes the place of {}", purpose.instead);
    }
    NewMachine {
        pool: pool.clone(),
        name: chosen.unwrap_or_else(|| context.edge.names.next(&pool.key.name, context.now())),
        offers: offers(problem, launch),
        requests: launch.requests.clone(),
        labels,
        annotations: purpose
            .map(|purpose| {
                (
                    crate::record::annotations::REPLACES.into(),
                    purpose.replaces.clone(),
                )
            })
            .into_iter()
            .chain([
                (
                    MANAGED_BY.into(),
                    manager(&context.cluster, pool.key.dialect),
                ),
                (crate::record::annotations::WHY.into(), why.into()),
            ])
            .collect(),
    }
}

/// Writes one machine object; `None` if that did not work.
async fn write(
    context: &Context,
    machine: NewMachine,
    reason: &'static str,
) -> Option<MachineRecord> {
    let dialect = context.dialect(&machine.pool.key)?;
    let replaces = machine
        .annotations
        .contains_key(crate::record::annotations::REPLACES);
    let key = |name: &Name| crate::record::Key {
        dialect: dialect.name(),
        namespace: machine.pool.key.namespace.clone(),
        name: name.clone(),
    };
    let is_taken = |name: &Name| context.view.read().machines.get(&key(name)).is_some();
    let mut name = machine.name.clone();
    // Whether another has the name: to be asked before we do, for the view soon knows what we wrote.
    let mut taken = is_taken(&name);
    for _ in 0..ASKED {
        let asked = NewMachine {
            name: name.clone(),
            ..machine.clone()
        };
        let written = match dialect.create_machine(&asked).await {
            // A name that nobody had until now is ours: the request arrived twice, or its answer was lost.
            Err(WriteError::Exists(_)) if !taken => dialect.get_machine(&key(&name)).await,
            other => other,
        };
        match written {
            Ok(record) => {
                asked_for(context, &machine.pool, &record, reason);
                return Some(record);
            }
            Err(WriteError::Exists(_)) if taken && !replaces => {
                name = context
                    .edge
                    .names
                    .next(&machine.pool.key.name, context.now());
                taken = is_taken(&name);
            }
            // It may have been written. Asked again under the name that we chose, the server tells; not to ask would be
            // to buy twice, and beyond the pool's limits.
            Err(WriteError::Unknown(_) | WriteError::HeldBack { .. } | WriteError::Gone(_)) => {
                tokio::time::sleep(ASK_AGAIN).await;
            }
            Err(error) => {
                warn!(pool = %machine.pool.id(), %error, "machine object could not be created");
                return None;
            }
        }
    }
    warn!(pool = %machine.pool.id(), machine = %name, "machine object may or may not have been created");
    None
}

fn asked_for(context: &Context, pool: &PoolRecord, record: &MachineRecord, reason: &'static str) {
    let offer = record.offer().map(|offer| &offer.purchase);
    info!(
        machine = %record.key,
        pool = %pool.id(),
        instance_type = offer.map(|one| &*one.instance_type),
        zone = offer.map(|one| &*one.zone),
        price = offer.map(|one| one.price.dollars()),
        reason,
        "created nodeclaim"
    );
    let title = context.view.read().title(pool).clone();
    context.edge.metrics.machine_created(&title, reason);
    context.view.note_machine(record.clone());
}
