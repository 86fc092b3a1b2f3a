//! The whole cluster at a glance.

use joiner_controllers::context::{Context, Mode};
use joiner_controllers::decisions::{Kind, Outcome, Subject};
use joiner_controllers::guards::limits;
use joiner_controllers::record::PoolRecord;
use joiner_controllers::view::World;
use joiner_core::money::Money;

use super::fleet::Fleet;
use super::history::History;
use super::model::{
    Bound, Figure, LimitView, NodeView, Overview, PoolView, ProviderView, SCHEMA, Usages,
};

/// Everything at a glance. `leading` is whether this process decides.
pub(crate) fn overview(context: &Context, fleet: &Fleet, history: &History) -> Overview {
    let nodes = &fleet.nodes;
    let cost = Fleet::cost(nodes.iter());
    let spot = nodes.iter().filter(|node| node.capacity_type == "spot");
    let spot = Fleet::cost(spot).value;
    let percent = if cost.value > 0.0 {
        Figure::exact(spot * 100.0 / cost.value)
    } else {
        Figure::maybe(None)
    };
    let mut usage = Usages::default();
    for node in nodes {
        usage.cpu.add(&node.usage.cpu);
        usage.memory.add(&node.usage.memory);
        usage.gpu.add(&node.usage.gpu);
        usage.pods.add(&node.usage.pods);
    }
    let waiting: Vec<Subject> = {
        let world = context.view.read();
        let waiting = world.pods.iter().filter(|pod| pod.waits());
        waiting
            .map(|pod| Subject::new(Kind::Pod, pod.key.to_string()))
            .collect()
    };
    let refused = |outcome| matches!(outcome, Outcome::Unplaced | Outcome::LeftOut);
    let said = context.decisions.latest(waiting.iter());
    let unplaced = said
        .iter()
        .flatten()
        .filter(|one| refused(one.verdict.outcome));
    let (bound, kept) = history.bounds(cost.value);
    Overview {
        schema_version: SCHEMA,
        at: fleet.at,
        cluster: context.cluster.to_string(),
        leading: context.edge.clients.fence.holds(),
        synced: context.view.synced(),
        observe_only: context.settings.mode == Mode::ObserveOnly,
        cost,
        bound: match bound {
            Some(bound) => Figure::bounded(bound, Bound::AtLeast),
            None => Figure::maybe(None),
        },
        kept: Figure::exact(kept),
        spot_percent: percent,
        waste: Figure::bounded(nodes.iter().map(NodeView::waste).sum(), Bound::AtLeast),
        nodes: fleet.counts(),
        pods_bound: fleet.pods_bound,
        pods_waiting: waiting.len(),
        pods_unplaced: unplaced.count(),
        usage,
        providers: providers(context, fleet),
        pools: pools(context, fleet),
        history: history.samples(),
    }
}

fn providers(context: &Context, fleet: &Fleet) -> Vec<ProviderView> {
    let world = context.view.read();
    let records = world.classes.iter().map(|record| {
        let key = &record.key;
        let class = key.to_string();
        let slot = context.market.classes.slot(key);
        let catalog = slot.as_ref().and_then(|slot| slot.catalog());
        let unusable = context.market.classes.unusable(key, Some(record));
        let own = fleet
            .nodes
            .iter()
            .filter(|node| node.class.as_deref() == Some(&*class));
        let types = catalog.iter().flat_map(|one| &one.types);
        let offerings = types.clone().flat_map(|one| &one.offerings);
        ProviderView {
            provider: match &slot {
                Some(slot) => slot.provider.name().to_owned(),
                None => key.kind.to_string(),
            },
            ready: unusable.is_none(),
            sentence: unusable
                .map(|(_, said)| said)
                .or_else(|| context.market.classes.concern(key)),
            types: types.count(),
            offerings: offerings.clone().count(),
            for_sale: offerings
                .filter(|one| one.available && one.left != Some(0))
                .count(),
            nodes: own.clone().count(),
            cost: Fleet::cost(own),
            read: slot.and_then(|slot| slot.read()),
            class,
        }
    });
    records.collect()
}

fn pools(context: &Context, fleet: &Fleet) -> Vec<PoolView> {
    let world = context.view.read();
    let records = world.pools.iter().map(|pool| {
        let name = world.title(pool).to_string();
        let own = fleet
            .nodes
            .iter()
            .filter(|node| node.pool.as_deref() == Some(&*name));
        let notes = context
            .market
            .backoffs
            .notes(pool.id(), &pool.class.catalog(), context.now());
        let waits = notes.iter().filter_map(|note| {
            let one = note.offering.as_ref()?;
            Some(format!(
                "{} as {} in {} until {}: {}",
                one.instance_type,
                one.capacity_type,
                one.zone,
                note.next_try.strftime("%H:%M:%S"),
                note.because
            ))
        });
        PoolView {
            family: pool.key.dialect.to_owned(),
            nodes: own.clone().count(),
            cost: Fleet::cost(own),
            closed: fleet.costs.terms.closed.get(pool.id()).cloned(),
            limits: limits_of(&world, pool),
            waits: waits.collect(),
            name,
        }
    });
    records.collect()
}

fn limits_of(world: &World, pool: &PoolRecord) -> Vec<LimitView> {
    let used = limits::usage(world, pool.id(), None);
    let limits = &pool.pool.limits;
    let view = |resource: &str, used, limit| LimitView {
        resource: resource.to_owned(),
        used,
        limit,
    };
    let listed = limits.resources.iter();
    let mut all: Vec<LimitView> = listed
        .map(|(name, limit)| view(name, used.resources.get(name), limit))
        .collect();
    if let Some(most) = limits.nodes {
        all.push(view("nodes", i64::from(used.nodes), i64::from(most)));
    }
    if let Some(most) = limits.cost {
        let nanos = |money: Money| money.nanos();
        all.push(view("cost", nanos(used.cost), nanos(most)));
    }
    all
}
