//! Whether machines are still what their pools ask for.
//!
//! karpenter: pkg/controllers/nodeclaim/disruption/drift.go

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::labels;
use joiner_core::name::Name;
use joiner_core::requirements::Requirements;
use joiner_providers::{Machine, MachineId};
use tokio::sync::Notify;
use tracing::{info, warn};

use crate::context::{Context, Mode};
use crate::edge::clients::WriteError;
use crate::edge::clock;
use crate::market::slots::Slot;
use crate::record::{ClassKey, Condition, Key, MachineRecord, PoolRecord, Truth, kinds};
use crate::upkeep::visits::Visits;

/// How old a machine must be before its type may be missed: catalogues of young types come and go.
const TYPE_MISSED_AFTER: Duration = Duration::from_hours(1);

/// How soon to look again when something could not be written down.
const AGAIN: Duration = Duration::from_secs(10);

/// Looks for drift for ever: from time to time, and when a pool or class has changed.
pub(crate) async fn run(context: Arc<Context>, changed: Arc<Notify>) {
    let visits = Visits::new("drift");
    let missed = Missed::default();
    loop {
        let wait = if missed.0.swap(false, Ordering::Relaxed) {
            AGAIN.min(context.settings.drift_period)
        } else {
            context.settings.drift_period
        };
        tokio::select! {
            biased;
            () = changed.notified() => tokio::time::sleep(Duration::from_secs(1)).await,
            () = missed.1.notified() => continue,
            () = tokio::time::sleep(wait) => {}
        }
        if context.may_act() && context.settings.mode == Mode::Act {
            stamp_pools(&context, &missed).await;
            let noted = missed.clone();
            visits.start(&context, move |context, slot| {
                let missed = noted.clone();
                async move { visit(&context, &slot, &missed).await }
            });
            let orphans = machines(&context, |class| {
                context.market.classes.slot(class).is_none()
            });
            look(&context, orphans, &BTreeMap::new(), &missed).await;
        }
    }
}

/// Whether something could not be written down: then it is tried again soon.
#[derive(Clone, Default)]
struct Missed(Arc<AtomicBool>, Arc<Notify>);

impl Missed {
    /// A write did not succeed.
    fn note(&self, object: &Key, what: &'static str, error: &WriteError) {
        if !self.0.swap(true, Ordering::Relaxed) {
            self.1.notify_one();
        }
        error.log(object, what);
    }
}

/// Machines of some classes that can have drifted.
fn machines(context: &Context, of: impl Fn(&ClassKey) -> bool) -> Vec<Arc<MachineRecord>> {
    let world = context.view.read();
    let settled = |one: &&Arc<MachineRecord>| {
        one.launched() && one.deleting.is_none() && one.pool.is_some() && of(&one.class)
    };
    world.machines.iter().filter(settled).cloned().collect()
}

async fn visit(context: &Context, slot: &Slot, missed: &Missed) {
    let machines = machines(context, |class| *class == slot.key);
    // A list that cannot be had says nothing about drift.
    let all = slot.call(slot.provider.list()).await.unwrap_or_default();
    let all = all.into_iter().map(|one| (one.id.clone(), one)).collect();
    look(context, machines, &all, missed).await;
}

async fn look(
    context: &Context,
    machines: Vec<Arc<MachineRecord>>,
    listed: &BTreeMap<MachineId, Machine>,
    missed: &Missed,
) {
    for machine in machines {
        let pool = machine
            .pool
            .as_ref()
            .and_then(|pool| context.view.read().pool(pool).cloned());
        let Some(pool) = pool else { continue };
        let Some(dialect) = context.dialect(&machine.key) else {
            continue;
        };
        let mut machine = machine;
        if let Some(change) = dialect.stamp(&pool, &machine) {
            match dialect.patch_machine(&machine, &change).await {
                Ok(written) => {
                    context.view.note_machine(written.clone());
                    machine = Arc::new(written);
                }
                Err(error) => {
                    missed.note(&machine.key, "stamp", &error);
                    continue;
                }
            }
        }
        let id = machine.status.machine_id.as_ref();
        let bought = id.and_then(|id| listed.get(id));
        let found = drifted(context, &pool, &machine, bought).await;
        if let Err(error) = write(context, &machine, found).await {
            missed.note(&machine.key, "drift", &error);
        }
    }
}

async fn stamp_pools(context: &Context, missed: &Missed) {
    let pools: Vec<Arc<PoolRecord>> = context.view.read().pools.iter().cloned().collect();
    for pool in pools {
        let Some(dialect) = context.dialect(&pool.key) else {
            continue;
        };
        match dialect.stamp_pool(&pool).await {
            Ok(Some(written)) => context.view.note_pool(written),
            Ok(None) => {}
            Err(error) => missed.note(&pool.key, "stamp", &error),
        }
    }
}

/// Why a machine is not what its pool asks for: a word and a sentence.
async fn drifted(
    context: &Context,
    pool: &PoolRecord,
    machine: &MachineRecord,
    bought: Option<&Machine>,
) -> Option<(Name, String)> {
    let dialect = context.dialect(&machine.key)?;
    if let Some(said) = dialect.template_drift(pool, machine) {
        return Some(("NodePoolDrifted".into(), said));
    }
    if let Some(said) = requirements_drift(pool, machine) {
        return Some(("RequirementsDrifted".into(), said));
    }
    let slot = context.market.classes.slot(&machine.class)?;
    if type_missing(slot.catalog().as_deref(), machine, context.now()) {
        let kind = machine
            .labels
            .get(labels::INSTANCE_TYPE)
            .cloned()
            .unwrap_or_else(|| "?".into());
        return Some((
            "InstanceTypeNotFound".into(),
            format!("instance type {kind} is no longer in the catalogue"),
        ));
    }
    match slot.call(slot.provider.drift(bought?)).await {
        Ok(Some(said)) => Some(("ProviderDrifted".into(), said)),
        Ok(None) => None,
        Err(error) => {
            // Not to know is not drift: what was known stays.
            warn!(machine = %machine.key, %error, "drift could not be checked with the cloud");
            let known = machine.status.conditions.get(kinds::DRIFTED)?;
            (known.status == Truth::True).then(|| (known.reason.clone(), known.message.clone()))
        }
    }
}

/// Labels that the pool's requirements do not allow. A well-known label that nobody put there cannot be wrong.
fn requirements_drift(pool: &PoolRecord, machine: &MachineRecord) -> Option<String> {
    let wanted = Requirements::parse(&pool.pool.requirements).ok()?;
    let has = Requirements::from_labels(&machine.labels);
    has.compatible(&wanted, labels::is_well_known)
        .err()
        .map(|error| error.to_string())
}

fn type_missing(
    catalog: Option<&joiner_core::problem::Catalog>,
    machine: &MachineRecord,
    now: Timestamp,
) -> bool {
    let (Some(catalog), Some(kind)) = (catalog, machine.labels.get(labels::INSTANCE_TYPE)) else {
        return false;
    };
    // Machines made to measure have types that no list names.
    clock::since(now, machine.created) > TYPE_MISSED_AFTER
        && catalog.ranges.is_empty()
        && !catalog.types.is_empty()
        && !catalog.types.iter().any(|one| one.name == *kind)
}

async fn write(
    context: &Context,
    machine: &MachineRecord,
    found: Option<(Name, String)>,
) -> Result<(), WriteError> {
    let Some(dialect) = context.dialect(&machine.key) else {
        return Ok(());
    };
    let mut status = machine.status.clone();
    let changed = match found {
        None => status.conditions.ensure_absent(kinds::DRIFTED),
        Some((reason, message)) => status.conditions.ensure(Condition {
            kind: kinds::DRIFTED.into(),
            status: Truth::True,
            reason,
            message,
            since: context.now(),
            generation: machine.generation,
        }),
    };
    if changed {
        info!(machine = %machine.key, drifted = status.conditions.is_true(kinds::DRIFTED), "drift status has changed");
        context
            .view
            .note_machine(dialect.write_machine_status(machine, &status).await?);
    }
    Ok(())
}
