//! What pools say about themselves: what they have, whether they can buy, and when they try again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::money::Money;
use joiner_core::name::Name;
use tokio::sync::Notify;
use tracing::warn;

use crate::context::{Context, Mode};
use crate::dialect::Dialect;
use crate::edge::clients::WriteError;
use crate::edge::events::Severity;
use crate::edge::metrics::{PoolLabel, PoolReason, PoolResource};
use crate::guards::limits;
use crate::market::prices::Today;
use crate::record::{Condition, MachineRecord, PoolRecord, PoolStatus, Truth, annotations, kinds};
use crate::view::World;

/// How soon a change shows, and how often everything is looked at.
const SOON: Duration = Duration::from_secs(1);
const PERIOD: Duration = Duration::from_secs(30);
/// What `Ready` of a pool depends on.
const PARTS: [&str; 2] = [kinds::VALIDATION_SUCCEEDED, kinds::NODE_CLASS_READY];

/// Pools that there are figures about, and the resources that these are about.
type Measured = BTreeMap<Name, BTreeSet<String>>;

/// Keeps the status of pools for ever.
pub(crate) async fn run(context: Arc<Context>, changed: Arc<Notify>) {
    let mut wait = PERIOD;
    let mut measured = Measured::new();
    loop {
        tokio::select! {
            biased;
            () = changed.notified() => tokio::time::sleep(SOON).await,
            () = tokio::time::sleep(wait) => {}
        }
        wait = PERIOD;
        if context.may_act() && look(&context, &mut measured).await == Outcome::Outpaced {
            wait = SOON;
        }
    }
}

/// How a look at all pools ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Every pool says what there is to say.
    Done,
    /// Somebody else changed a pool meanwhile: it is worth another look.
    Outpaced,
}

impl Outcome {
    /// A write did not succeed.
    fn failed(&mut self, pool: &PoolRecord, what: &'static str, error: &WriteError) {
        error.log(&pool.key, what);
        if error.outpaced() {
            *self = Outcome::Outpaced;
        }
    }
}

async fn look(context: &Context, measured: &mut Measured) -> Outcome {
    let mut outcome = Outcome::Done;
    let (pools, today): (Vec<Arc<PoolRecord>>, Today<'_>) = {
        let world = context.view.read();
        (
            world.pools.iter().cloned().collect(),
            Today::new(context, &world),
        )
    };
    forget_others(context, &pools);
    let titles: BTreeSet<Name> = {
        let world = context.view.read();
        let titles = pools.iter().map(|pool| world.title(pool).clone());
        titles.collect()
    };
    measured.retain(|known, resources| {
        let there = titles.contains(known);
        if !there {
            let resources = std::mem::take(resources).into_iter();
            context.edge.metrics.forget_pool(known, resources);
        }
        there
    });
    for mut pool in pools {
        let known = pool.status.conditions.get(kinds::NODE_REGISTRATION_HEALTHY);
        context
            .guards
            .health
            .align(pool.id(), pool.generation, known);
        let managed = context.view.read().managed(&pool);
        // Others may look after it: only one that was managed before is told that it is not any more.
        if !managed && pool.status.conditions.get(kinds::READY).is_none() {
            continue;
        }
        let status = status(context, &today, &pool, context.now());
        tell(context, &pool, &status);
        let title = context.view.read().title(&pool).clone();
        let resources = measure(context, &today, &pool, &title, &status);
        measured.insert(title, resources);
        if context.settings.mode == Mode::ObserveOnly {
            continue;
        }
        let Some(dialect) = context.dialect(&pool.key) else {
            continue;
        };
        match finalize(context, &pool, &**dialect, managed).await {
            Ok(Some(written)) => {
                context.view.note_pool(written.clone());
                pool = Arc::new(written);
            }
            Ok(None) => {}
            Err(error) => outcome.failed(&pool, "finalizer", &error),
        }
        if worth_writing(&pool.status, &status) {
            match dialect.write_pool_status(&pool, &status).await {
                Ok(written) => {
                    context.view.note_pool(written.clone());
                    pool = Arc::new(written);
                }
                Err(error) => outcome.failed(&pool, "status", &error),
            }
        }
        if let Err(error) = note_waits(context, &pool, &**dialect).await {
            outcome.failed(&pool, "what it waits for", &error);
        }
    }
    crate::market::overlays::report(context).await;
    super::gates::report(context).await;
    forget(context);
    outcome
}

/// What is remembered of pools that are gone.
fn forget_others(context: &Context, pools: &[Arc<PoolRecord>]) {
    let there = |known: &Name| pools.iter().any(|pool| pool.id() == known);
    context.guards.health.retain(there);
    context.guards.launch_rate.retain(there);
    let same = |uid: &Name| pools.iter().any(|pool| pool.uid == *uid);
    context.market.backoffs.retain(there, same);
}

/// Whether a status says something new. Spot prices move all the time, and a cluster whose CRDs are Karpenter's own has no
/// place for the cost: by itself it is written once it has moved by a hundredth, where it can be read back.
fn worth_writing(known: &PoolStatus, status: &PoolStatus) -> bool {
    let comparable = PoolStatus {
        cost: known.cost,
        ..status.clone()
    };
    if comparable != *known {
        return true;
    }
    match (known.cost, status.cost) {
        (Some(known), Some(cost)) => {
            let moved = (cost - known).nanos().saturating_abs();
            moved > known.percent(1).nanos()
        }
        (Some(_), None) => true,
        (None, _) => false,
    }
}

/// What was learned about types that nobody sells any more is of no use.
fn forget(context: &Context) {
    let slots = context.market.classes.slots();
    context.market.observed.retain(|catalog, kind| {
        let mut sold = slots.iter().filter(|slot| slot.key.catalog() == *catalog);
        sold.any(|slot| {
            let catalog = slot.catalog();
            catalog.is_none_or(|one| {
                let types = one.types.iter().map(|one| &one.name);
                let ranges = one.ranges.iter().map(|one| &one.name);
                types.chain(ranges).any(|name| name == kind)
            })
        })
    });
}

/// A pool of a family with a finalizer goes when its machines are gone.
async fn finalize(
    context: &Context,
    pool: &PoolRecord,
    dialect: &dyn Dialect,
    managed: bool,
) -> Result<Option<PoolRecord>, WriteError> {
    let Some(there) = pool.finalizer else {
        return Ok(None);
    };
    if !pool.deleting {
        return if managed && !there {
            dialect.finalize_pool(pool, true).await
        } else {
            Ok(None)
        };
    }
    if !there {
        return Ok(None);
    }
    let left: Vec<Arc<MachineRecord>> = {
        let world = context.view.read();
        let own = |one: &&Arc<MachineRecord>| one.pool.as_ref() == Some(pool.id());
        world.machines.iter().filter(own).cloned().collect()
    };
    for machine in left.iter().filter(|one| one.deleting.is_none()) {
        crate::lifecycle::delete(context, machine, "pool_deleted").await;
    }
    if !left.is_empty() {
        let s = if left.len() == 1 { "" } else { "s" };
        let said = format!("Waiting for {} machine{s} to be removed", left.len());
        context.tell_pool(pool, Severity::Normal, "Finalizing", &said);
        return Ok(None);
    }
    context.tell_pool(
        pool,
        Severity::Normal,
        "Finalized",
        "All its machines are removed",
    );
    dialect.finalize_pool(pool, false).await
}

/// Keeps on the pool what it waits for, so that a restart does not forget it.
async fn note_waits(
    context: &Context,
    pool: &PoolRecord,
    dialect: &dyn Dialect,
) -> Result<(), WriteError> {
    let notes = context
        .market
        .backoffs
        .notes(pool.id(), &pool.class.catalog(), context.now());
    let text = (!notes.is_empty())
        .then(|| serde_json::to_string(&notes).ok())
        .flatten();
    let known = pool.annotations.get(annotations::WAITING);
    if text.as_deref() == known.map(AsRef::as_ref) {
        return Ok(());
    }
    let written = dialect.annotate_pool(pool, annotations::WAITING, text.as_deref());
    if let Some(written) = written.await? {
        context.view.note_pool(written);
    }
    Ok(())
}

/// Reasons of conditions: the class is yet to be read; no object of the family names the pool.
const UNKNOWN: &str = "NodeClassReadinessUnknown";
const NOT_MANAGED: &str = "NotManaged";

/// What a pool's condition is called in an event when it turns bad.
const TOLD: [(&str, &str); 5] = [
    (kinds::AVAILABLE, "ScaleUpBlocked"),
    (kinds::VALIDATION_SUCCEEDED, "ValidationFailed"),
    (kinds::NODE_CLASS_READY, "NodeClassNotReady"),
    (kinds::CAPACITY_AVAILABLE, "CapacityUnavailable"),
    (kinds::CATALOG_CURRENT, "CatalogStale"),
];

/// Says when a pool cannot do what it should, and when it can again.
fn tell(context: &Context, pool: &PoolRecord, status: &PoolStatus) {
    for (kind, reason) in TOLD {
        let before = pool.status.conditions.get(kind).map(|one| one.status);
        let Some(now) = status
            .conditions
            .get(kind)
            .filter(|now| before != Some(now.status))
        else {
            continue;
        };
        match (before, now.status) {
            (_, Truth::False) => {
                warn!(pool = %pool.id(), reason, because = %now.message, "pool cannot launch nodes");
                context.tell_pool(pool, Severity::Warning, reason, &now.message);
            }
            (Some(Truth::False), Truth::True) => {
                let said = format!("{kind} is True again");
                context.tell_pool(pool, Severity::Normal, "Recovered", &said);
            }
            _ => {}
        }
    }
}

/// Whether a pool says of itself that something of this kind is wrong; that it was not managed is no fault.
fn is_wrong(pool: &PoolRecord, kind: &str) -> bool {
    let known = pool.status.conditions.get(kind);
    known.is_some_and(|one| one.status == Truth::False && &*one.reason != NOT_MANAGED)
}

fn status(context: &Context, today: &Today<'_>, pool: &PoolRecord, now: Timestamp) -> PoolStatus {
    let world = context.view.read();
    let mut status = held(context, &world, today, pool);
    let mut set = |kind: &str, truth: Truth, reason: &str, message: String| {
        status.conditions.ensure(Condition {
            kind: kind.into(),
            status: truth,
            reason: reason.into(),
            message,
            since: now,
            generation: pool.generation,
        });
    };
    validation(pool, &mut set);
    let unmanaged = world.held(pool).filter(|_| !world.managed(pool));
    let class = world.classes.get(&pool.class).map(AsRef::as_ref);
    match context.market.classes.unusable(&pool.class, class) {
        _ if unmanaged.is_some() => {
            let said = unmanaged.unwrap_or_default();
            set(kinds::NODE_CLASS_READY, Truth::False, NOT_MANAGED, said);
        }
        None => good(kinds::NODE_CLASS_READY, &mut set),
        // A class that is read anew is unknown for a moment. What was wrong with it stands until it is known to be
        // well: otherwise it would never be said that it has recovered.
        Some((UNKNOWN, _)) if is_wrong(pool, kinds::NODE_CLASS_READY) => {}
        Some((reason @ UNKNOWN, said)) => {
            set(kinds::NODE_CLASS_READY, Truth::Unknown, reason, said);
        }
        Some((reason, said)) => set(kinds::NODE_CLASS_READY, Truth::False, reason, said),
    }
    registration(context, pool, &mut set);
    capacity(context, pool, now, &mut set);
    limit(context, &world, pool, &mut set);
    let known = pool.status.conditions.get(kinds::CATALOG_CURRENT);
    match context.market.classes.concern(&pool.class) {
        Some(said) => set(kinds::CATALOG_CURRENT, Truth::False, "Stale", said),
        None if known.is_some() => good(kinds::CATALOG_CURRENT, &mut set),
        None => {}
    }
    status.conditions.ensure_ready(&PARTS, pool.generation, now);
    match context.dialect(&pool.key) {
        Some(dialect) => dialect.shown(pool, status, now),
        None => status,
    }
}

/// All is well in this respect.
fn good(kind: &str, set: &mut impl FnMut(&str, Truth, &str, String)) {
    set(kind, Truth::True, kind, String::new());
}

/// What the pool has.
fn held(context: &Context, world: &World, today: &Today<'_>, pool: &PoolRecord) -> PoolStatus {
    let mut usage = limits::Usage::default();
    let alive = world
        .machines
        .iter()
        .filter(|one| one.pool.as_ref() == Some(pool.id()) && one.deleting.is_none());
    alive.for_each(|machine| usage.add(machine.capacity(), Money::ZERO));
    let mut status = pool.status.clone();
    status.nodes = usage.nodes;
    let own = || {
        world
            .machines
            .iter()
            .filter(|one| one.pool.as_ref() == Some(pool.id()))
    };
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    status.leaving = count(own().filter(|one| one.deleting.is_some()).count());
    status.arriving = count(
        own()
            .filter(|one| one.deleting.is_none() && !one.initialized())
            .count(),
    );
    status.resources = usage.resources;
    // karpenter: these are always listed, be it with zero.
    for name in ["cpu", "memory", "pods", "ephemeral-storage"] {
        if !status.resources.contains(name) {
            status.resources.set(name, 0);
        }
    }
    let dialect = context.dialect(&pool.key);
    let shows = dialect.is_some_and(|one| one.shows_cost());
    status.cost = shows.then(|| today.of_pool(world, pool.id()).to_micros());
    let class = world.classes.get(&pool.class);
    status.class_generation = class
        .map(|class| class.generation)
        .or(status.class_generation);
    status
}

fn validation(pool: &PoolRecord, set: &mut impl FnMut(&str, Truth, &str, String)) {
    match pool.invalid.clone() {
        None => good(kinds::VALIDATION_SUCCEEDED, set),
        Some(said) => set(
            kinds::VALIDATION_SUCCEEDED,
            Truth::False,
            "NodePoolValidationFailed",
            said,
        ),
    }
}

fn registration(
    context: &Context,
    pool: &PoolRecord,
    set: &mut impl FnMut(&str, Truth, &str, String),
) {
    let kind = kinds::NODE_REGISTRATION_HEALTHY;
    let known = pool.status.conditions.get(kind);
    match context.guards.health.of(pool.id()) {
        Some(Ok(())) => good(kind, set),
        Some(Err(said)) => set(kind, Truth::False, "RegistrationFailed", said),
        // What was known is about another template.
        None if known.is_none_or(|known| known.generation != pool.generation) => {
            set(
                kind,
                Truth::Unknown,
                "AwaitingReconciliation",
                String::new(),
            );
        }
        None => {}
    }
}

/// Says what cannot be had and when it is tried again.
fn capacity(
    context: &Context,
    pool: &PoolRecord,
    now: Timestamp,
    set: &mut impl FnMut(&str, Truth, &str, String),
) {
    let whole = context.market.backoffs.waiting(
        &crate::market::backoff::Subject::Pool(pool.id().clone()),
        now,
    );
    let parts = context.market.backoffs.next(&pool.class.catalog(), now);
    if let Some((reason, said)) = crate::market::terms::mismatch(context, pool) {
        set(kinds::CAPACITY_AVAILABLE, Truth::False, reason, said);
        return;
    }
    match (whole, parts) {
        (Some((until, said)), _) => {
            set(
                kinds::CAPACITY_AVAILABLE,
                Truth::False,
                "Waiting",
                format!("no node is launched until {until}: {said}"),
            );
        }
        (None, Some((until, count, said))) => {
            let message =
                format!("{count} offerings are unavailable, the next is tried at {until}: {said}");
            set(
                kinds::CAPACITY_AVAILABLE,
                Truth::False,
                "OfferingsUnavailable",
                message,
            );
        }
        (None, None)
            if pool
                .status
                .conditions
                .get(kinds::CAPACITY_AVAILABLE)
                .is_some() =>
        {
            set(
                kinds::CAPACITY_AVAILABLE,
                Truth::True,
                kinds::CAPACITY_AVAILABLE,
                String::new(),
            );
        }
        (None, None) => {}
    }
}

/// Says whether a limit keeps the pool from growing. A pool without limits says nothing.
fn limit(
    context: &Context,
    world: &World,
    pool: &PoolRecord,
    set: &mut impl FnMut(&str, Truth, &str, String),
) {
    let limits = &pool.pool.limits;
    let limited =
        limits.nodes.is_some() || limits.cost.is_some() || limits.resources.iter().next().is_some();
    let known = pool.status.conditions.get(kinds::LIMIT_REACHED);
    if !limited && known.is_none() {
        return;
    }
    let full = limits::usage(world, pool.id(), None).reaches(limits);
    match context.last_logs.limit(world.title(pool)).or(full) {
        Some(said) => set(
            kinds::LIMIT_REACHED,
            Truth::True,
            kinds::LIMIT_REACHED,
            said,
        ),
        None => set(
            kinds::LIMIT_REACHED,
            Truth::False,
            "WithinLimits",
            String::new(),
        ),
    }
}

#[expect(clippy::cast_precision_loss, reason = "gauges are floats")]
fn measure(
    context: &Context,
    today: &Today<'_>,
    pool: &PoolRecord,
    title: &str,
    status: &PoolStatus,
) -> BTreeSet<String> {
    let label = |name: &str| PoolResource {
        nodepool: title.to_owned(),
        resource_type: name.to_owned(),
    };
    let scale = |name: &str, amount: i64| {
        if name == "cpu" {
            amount as f64 / 1000.0
        } else {
            amount as f64
        }
    };
    for (name, amount) in status.resources.iter() {
        context
            .edge
            .metrics
            .usage
            .get_or_create(&label(name))
            .set(scale(name, amount));
    }
    for (name, amount) in pool.pool.limits.resources.iter() {
        context
            .edge
            .metrics
            .limit
            .get_or_create(&label(name))
            .set(scale(name, amount));
    }
    let world = context.view.read();
    let cost = today.of_pool(&world, pool.id());
    let nodepool = title.to_owned();
    let waits = context
        .market
        .backoffs
        .notes(pool.id(), &pool.class.catalog(), context.now());
    let label = PoolLabel {
        nodepool: nodepool.clone(),
    };
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    context
        .edge
        .metrics
        .cost
        .get_or_create(&label)
        .set(cost.dollars());
    context
        .edge
        .metrics
        .waiting
        .get_or_create(&label)
        .set(count(waits.len()));
    let away = world.machines.iter().filter(|one| {
        let node = one
            .status
            .node
            .as_ref()
            .and_then(|name| world.nodes.get(name));
        let gone = one.deleting.is_some() || node.is_none_or(|node| !node.ready());
        one.pool.as_ref() == Some(pool.id()) && one.initialized() && gone
    });
    let labels = PoolReason {
        nodepool,
        reason: String::new(),
    };
    context
        .edge
        .metrics
        .consuming
        .get_or_create(&labels)
        .set(count(away.count()));
    let names = status
        .resources
        .iter()
        .chain(pool.pool.limits.resources.iter());
    names.map(|(name, _)| name.to_string()).collect()
}
