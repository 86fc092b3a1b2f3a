//! Pools that keep exactly so many machines, or at least so many, whatever the pods want.
//!
//! karpenter: pkg/controllers/static

use std::collections::BTreeMap;
use std::sync::Arc;

use joiner_core::name::Name;
use joiner_core::plan::Launch;
use joiner_core::problem::{Pool, Problem};
use tracing::{info, warn};

use super::{Outcome, launch, offers};
use crate::context::{Context, Mode};
use crate::lifecycle::{RemovalReason, delete};
use crate::market::stock::copies;
use crate::record::{MachineRecord, PoolRecord, annotations};
use crate::view::pods::Owner;

/// Brings static pools to their size, and others to their least.
pub(super) async fn fill(context: &Context) -> Outcome {
    let pools: Vec<Arc<PoolRecord>> = {
        let world = context.view.read();
        let fixed = |pool: &&Arc<PoolRecord>| {
            (pool.pool.replicas.is_some() || pool.min_nodes > 0) && !pool.deleting
        };
        world.pools.iter().filter(fixed).cloned().collect()
    };
    let mut outcome = Outcome::Finished;
    let mut would = Vec::new();
    for pool in pools {
        let held = context.view.read().held(&pool).is_some();
        if context.settings.paused || held {
            continue;
        }
        let wanted = pool.pool.replicas.unwrap_or(pool.min_nodes);
        let wanted = usize::try_from(wanted).unwrap_or(0);
        let active = active(context, &pool);
        if context.settings.mode == Mode::ObserveOnly {
            would.extend(would_resize(&pool, active.len(), wanted));
        } else if active.len() < wanted {
            if !grow(context, &pool, wanted).await {
                outcome = Outcome::Unfinished;
            }
        } else if active.len() > wanted && pool.pool.replicas.is_some() {
            shrink(context, &active, active.len() - wanted).await;
        }
    }
    if context
        .last_logs
        .sizes
        .news(would.len(), Some(&would.join("\n")))
    {
        for change in would {
            info!(%change, "observe-only: would change the size of a pool");
        }
    }
    outcome
}

/// What would be launched or removed to bring a pool to its size.
fn would_resize(pool: &PoolRecord, has: usize, wanted: usize) -> Option<String> {
    let id = pool.id();
    if has < wanted {
        return Some(format!(
            "pool {id}: launch {} nodes to have {wanted}",
            wanted - has
        ));
    }
    let surplus = pool.pool.replicas.is_some() && has > wanted;
    surplus.then(|| format!("pool {id}: remove {} nodes to have {wanted}", has - wanted))
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
    let _buying = context.provision.purchasing.lock().await;
    // Replacements may have been bought while this waited for its turn.
    let missing = wanted.saturating_sub(active(context, pool).len());
    // What only a minimum asks for is made to measure or one of a few: each takes something off what the next can have.
    let at_once = match pool.pool.replicas {
        Some(_) => missing,
        None => 1,
    };
    let mut made = 0;
    while made < missing {
        let Some((problem, one)) = one_more(context, pool).await else {
            return false;
        };
        // Copies of one purchase must not be more than there is for sale.
        let copies = copies(&problem, &one).map_or(usize::MAX, |most| most.max(1) as usize);
        let launches = vec![one; at_once.min(missing - made).min(copies)];
        let bought = launch(context, &problem, &launches, "provisioned", None).await;
        for (launch, machine) in launches.iter().zip(bought.values()) {
            let why = machine.annotations.get(annotations::WHY);
            let name = &machine.key.name;
            context.decisions.launched(context.now(), launch, name, why);
        }
        if bought.len() < launches.len() {
            return false;
        }
        made += bought.len();
    }
    true
}

/// What another machine of a pool of fixed or least size would be, and the problem that says so. The caller holds the
/// purchasing lock.
pub(crate) async fn one_more(context: &Context, pool: &PoolRecord) -> Option<(Problem, Launch)> {
    let now = context.now();
    let (terms, closed, daemons) = {
        let world = context.view.read();
        let terms = crate::market::terms::terms(context, &world, now);
        let daemons = world.daemon_sets.iter().filter_map(|set| set.value.clone());
        // How long pods must wait is no matter of nodes that are there without pods.
        let closed = crate::market::terms::closed(context, &world, pool, now);
        (terms, closed, daemons.collect::<Vec<_>>())
    };
    if let Some(reason) = closed {
        warn!(pool = %pool.id(), %reason, "pool has fewer nodes than spec.replicas and cannot launch");
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
    let size = pool.min_size.clone();
    let mut problem = offers::single(context, (**catalog).clone(), buyer, size);
    if pool.pool.replicas.is_none() {
        problem.daemon_sets = daemons;
    }
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
        info!(machine = %machine.key, "node is removed: pool has more nodes than spec.replicas");
        delete(context, machine, RemovalReason::Static).await;
    }
}
