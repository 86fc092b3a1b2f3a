//! Pools that keep exactly so many machines, whatever the pods want.
//!
//! karpenter: pkg/controllers/static

use std::collections::BTreeMap;
use std::sync::Arc;

use joiner_core::name::Name;
use joiner_core::plan::Launch;
use joiner_core::problem::{Pool, Problem};
use joiner_core::resources::Resources;
use tracing::{info, warn};

use super::{Outcome, launch, offers};
use crate::context::{Context, Mode};
use crate::record::{MachineRecord, PoolRecord};
use crate::view::pods::Owner;

/// Brings static pools to their size.
pub(super) async fn fill(context: &Context) -> Outcome {
    let pools: Vec<Arc<PoolRecord>> = {
        let world = context.view.read();
        let fixed = |pool: &&Arc<PoolRecord>| pool.pool.replicas.is_some() && !pool.deleting;
        world.pools.iter().filter(fixed).cloned().collect()
    };
    let mut outcome = Outcome::Finished;
    for pool in pools {
        if context.settings.mode == Mode::ObserveOnly || context.settings.paused || pool.paused {
            continue;
        }
        let wanted = usize::try_from(pool.pool.replicas.unwrap_or(0)).unwrap_or(0);
        let active = active(context, &pool);
        if active.len() < wanted {
            if !grow(context, &pool, wanted).await {
                outcome = Outcome::Unfinished;
            }
        } else if active.len() > wanted {
            shrink(context, &active, active.len() - wanted).await;
        }
    }
    outcome
}

/// The machines of a pool that count. Those that are being replaced have their successors counted.
fn active(context: &Context, pool: &PoolRecord) -> Vec<Arc<MachineRecord>> {
    let world = context.view.read();
    let alive = |machine: &&Arc<MachineRecord>| {
        machine.pool.as_ref() == Some(pool.id())
            && machine.deleting.is_none()
            && machine.intent().is_none()
    };
    world.machines.iter().filter(alive).cloned().collect()
}

/// Brings a pool to its size; says whether that was possible.
async fn grow(context: &Context, pool: &PoolRecord, wanted: usize) -> bool {
    let _buying = context.purchasing.lock().await;
    // Replacements may have been bought while this waited for its turn.
    let missing = wanted.saturating_sub(active(context, pool).len());
    if missing == 0 {
        return true;
    }
    let Some((problem, one)) = one_more(context, pool).await else {
        return false;
    };
    let launches = vec![one; missing];
    let made = launch(context, &problem, &launches, "provisioned", None).await;
    made.len() == missing
}

/// What another machine of a static pool would be, and the problem that says so. The caller holds the purchasing lock.
pub(crate) async fn one_more(context: &Context, pool: &PoolRecord) -> Option<(Problem, Launch)> {
    let now = context.now();
    let terms = {
        let world = context.view.read();
        crate::market::terms::terms(context, &world, now)
    };
    if let Some(reason) = terms.closed.get(pool.id()) {
        warn!(pool = %pool.id(), %reason, "a static pool needs a machine and cannot buy");
        return None;
    }
    let name = terms
        .pool_catalogs
        .get(pool.id())
        .cloned()
        .unwrap_or_else(|| pool.class.catalog());
    let catalog = terms.catalogs.get(&name)?;
    let buyer = Pool {
        catalog: name,
        replicas: None,
        closed: None,
        limits: joiner_core::problem::Limits::default(),
        ..pool.pool.clone()
    };
    let problem = offers::single(context, (**catalog).clone(), buyer, Resources::new());
    let (problem, plan) = context.provide(problem).await?;
    let one = plan.launches.first()?.clone();
    Some((problem, one))
}

/// Those go first that are not nodes yet, then empty ones, then those with the fewest pods.
async fn shrink(context: &Context, active: &[Arc<MachineRecord>], surplus: usize) {
    let order: BTreeMap<Name, (bool, bool, usize)> = {
        let world = context.view.read();
        let now = context.now();
        let rank = |machine: &Arc<MachineRecord>| {
            let node = machine.status.node.as_deref().unwrap_or_default();
            let pods = || {
                world
                    .pods_on(node)
                    .filter(|pod| !pod.terminal && pod.owner != Owner::DaemonSet)
            };
            let held = pods().any(|pod| pod.do_not_disrupt.active(now));
            (machine.launched(), held, pods().count())
        };
        active
            .iter()
            .map(|machine| (machine.key.name.clone(), rank(machine)))
            .collect()
    };
    let mut sorted: Vec<&Arc<MachineRecord>> = active.iter().collect();
    sorted.sort_by_key(|machine| {
        (
            order.get(&machine.key.name).copied(),
            machine.key.name.clone(),
        )
    });
    for machine in sorted.into_iter().take(surplus) {
        info!(machine = %machine.key, "taken away: the static pool is larger than asked for");
        crate::disrupt::delete(context, machine, "static").await;
    }
}
