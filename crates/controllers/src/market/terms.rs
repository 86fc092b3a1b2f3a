//! What a problem depends on beside the cluster: what is for sale to whom, who may buy, what room is to be kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use joiner_core::labels;
use joiner_core::money::Money;
use joiner_core::name::{Labels, Name};
use joiner_core::problem::{Catalog, InstanceType, Offering};
use joiner_core::requirement::Expression;
use joiner_core::requirements::Requirements;
use joiner_core::taints::{Effect, Taint};

use crate::context::Context;
use crate::market::backoff::Subject;
use crate::market::stock;
use crate::record::{ClassKey, OverlayRecord, PoolRecord};
use crate::view::World;
use crate::view::pods::PodRecord;
use crate::view::problem::Terms;

/// The terms as they are now.
pub(crate) fn terms(context: &Context, world: &World, now: Timestamp) -> Terms {
    let mut terms = Terms {
        settings: context.settings.core.clone(),
        own_node: context.settings.own_node.clone(),
        spot_to_spot: context.settings.spot_to_spot,
        buffers: crate::upkeep::buffers::room(world),
        promises: context.provision.served.promises(now),
        ..Terms::default()
    };
    context.market.observed.look(world);
    let overlays = crate::market::overlays::accepted(context, world);
    for pool in world.pools.iter() {
        let closed = closed(context, world, pool, now).or_else(|| steadying(world, pool, now));
        if let Some(reason) = closed {
            terms.closed.insert(pool.id().clone(), reason);
        }
        let base = pool.class.catalog();
        let Some(catalog) = context
            .market
            .classes
            .slot(&pool.class)
            .and_then(|slot| slot.catalog())
        else {
            continue;
        };
        let mut catalog = (*catalog).clone();
        context.market.backoffs.close_offerings(&mut catalog, now);
        context.market.observed.correct(&base, &mut catalog);
        catalog.share_stock(&base);
        if overlays.is_empty() && pool.max_price.is_none() {
            terms
                .catalogs
                .entry(base)
                .or_insert_with(|| Arc::new(catalog));
            continue;
        }
        overlay(&mut catalog, pool, &overlays);
        let offerings = catalog.types.iter_mut().flat_map(|one| &mut one.offerings);
        for offering in offerings {
            offering.available &= pool.max_price.is_none_or(|most| offering.price <= most);
        }
        catalog.name = format!("{base}#{}", pool.id()).into();
        terms
            .pool_catalogs
            .insert(pool.id().clone(), catalog.name.clone());
        terms
            .catalogs
            .insert(catalog.name.clone(), Arc::new(catalog));
    }
    let read = |class: &ClassKey| {
        context
            .market
            .classes
            .slot(class)
            .and_then(|slot| slot.read())
    };
    stock::take_promised(world, &mut terms, read);
    terms
}

/// The catalogue of the class that a purchase is from, whatever overlays were applied.
pub(crate) fn base_catalog(name: &Name) -> Name {
    name.split_once('#')
        .map_or_else(|| name.clone(), |(base, _)| base.into())
}

/// Why a pool must not buy now.
pub(crate) fn closed(
    context: &Context,
    world: &World,
    pool: &PoolRecord,
    now: Timestamp,
) -> Option<String> {
    if context.settings.paused {
        return Some("launching is paused (--paused)".to_owned());
    }
    if let Some(held) = world.held(pool) {
        return Some(held);
    }
    if let Some(invalid) = &pool.invalid {
        return Some(invalid.clone());
    }
    let class = world.classes.get(&pool.class).map(AsRef::as_ref);
    if let Some((_, said)) = context.market.classes.unusable(&pool.class, class) {
        return Some(said);
    }
    let (until, because) = context
        .market
        .backoffs
        .waiting(&Subject::Pool(pool.id().clone()), now)?;
    Some(format!("no node is launched until {until}: {because}"))
}

/// Why a pool that launches machines only for pods that have waited for a while does not do so yet.
fn steadying(world: &World, pool: &PoolRecord, now: Timestamp) -> Option<String> {
    let window = pool.scale_up_after;
    if !window.is_positive() {
        return None;
    }
    // A pod that can never be one of the pool's says nothing about how long the pool's own have waited.
    let fits = suits(pool);
    let waited = |pod: &PodRecord| now.duration_since(pod.created) >= window;
    let mut waiting = world.pods.iter().filter(|pod| pod.waits());
    (!waiting.any(|pod| waited(pod) && fits(pod)))
        .then(|| format!("no pod has been pending for {window:#} yet, as the pool requires"))
}

/// Which pods may be a pool's, as far as its labels and taints say.
pub(crate) fn suits(pool: &PoolRecord) -> impl Fn(&PodRecord) -> bool {
    let own = Requirements::parse(&pool.pool.requirements).ok();
    let own = own.map(|mut own| {
        own.require_all(&Requirements::from_labels(&pool.pool.labels));
        own
    });
    let taints = pool.pool.taints.clone();
    move |pod| {
        let wanted = Requirements::from_labels(&pod.spec.node_selector);
        let keeps_away = |taint: &Taint| {
            let mut tolerations = pod.spec.tolerations.iter();
            taint.effect != Effect::PreferNoSchedule && !tolerations.any(|one| one.tolerates(taint))
        };
        !taints.iter().any(keeps_away)
            && own
                .as_ref()
                .is_none_or(|own| own.compatible(&wanted, |_| true).is_ok())
    }
}

/// Applies overlays, heaviest first: what one has said, lighter ones do not change.
fn overlay(catalog: &mut Catalog, pool: &PoolRecord, overlays: &[&Arc<OverlayRecord>]) {
    for one in &mut catalog.types {
        let mut priced = vec![false; one.offerings.len()];
        let mut given: BTreeMap<Name, i64> = BTreeMap::new();
        let shape = one.clone();
        for overlay in overlays {
            let Ok(wanted) = Requirements::parse(&overlay.requirements) else {
                continue;
            };
            let mut any = false;
            for (offering, done) in one.offerings.iter_mut().zip(&mut priced) {
                let has = Requirements::from_labels(&offering_labels(&shape, offering, pool));
                if has.compatible(&wanted, |_| false).is_err() {
                    continue;
                }
                any = true;
                if let Some(rule) = overlay.price
                    && !*done
                {
                    offering.price = rule.apply(offering.price);
                    *done = true;
                }
            }
            if any {
                for (name, amount) in overlay.capacity.iter() {
                    given.entry(name.clone()).or_insert(amount);
                }
            }
        }
        for (name, amount) in given {
            one.capacity.set(&name, amount);
        }
    }
}

pub(crate) fn offering_labels(
    shape: &InstanceType,
    offering: &Offering,
    pool: &PoolRecord,
) -> Labels {
    let capacity_type: &str = offering.capacity_type.into();
    let unlabelled = Name::default();
    let mut all = pool.pool.labels.clone();
    all.extend(shape.labels.clone());
    for (key, value) in [
        (
            labels::NODEPOOL,
            pool.pool.nodepool_label().unwrap_or(&unlabelled),
        ),
        (labels::INSTANCE_TYPE, &shape.name),
        (labels::ZONE, &offering.zone),
        (labels::REGION, &offering.region),
        (labels::CAPACITY_TYPE, &Name::from(capacity_type)),
    ] {
        if !value.is_empty() {
            all.insert(key.into(), value.clone());
        }
    }
    all
}

/// Why nothing that is for sale is what a pool asks for, if so: a word for programs and a sentence for people.
pub(crate) fn mismatch(context: &Context, pool: &PoolRecord) -> Option<(&'static str, String)> {
    let catalog = context.market.classes.slot(&pool.class)?.catalog()?;
    if catalog.types.is_empty() || !catalog.ranges.is_empty() {
        return None;
    }
    let dialect = context.dialect(&pool.key)?;
    let wanted = &pool.pool.requirements;
    let mut offers = offers(&catalog, pool, wanted).peekable();
    if offers.peek().is_some() {
        // Without a highest price one offer is as good as all.
        let most = pool.max_price?;
        let cheapest = offers.min().filter(|cheapest| *cheapest > most)?;
        let said = format!(
            "the cheapest machine that the pool may buy costs {cheapest} an hour now, and it may cost {most} at most"
        );
        return Some(("AboveMaxPrice", said));
    }
    let alone = wanted.iter().find(|one| {
        self::offers(&catalog, pool, std::slice::from_ref(one))
            .next()
            .is_none()
    });
    let said = match alone {
        None => "no offering meets all requirements of the pool".to_owned(),
        Some(one) => {
            let values: Vec<&str> = one.values.iter().map(AsRef::as_ref).collect();
            format!(
                "{} ({} {}) leaves nothing to buy: {} has {}",
                dialect.field(&one.key),
                one.operator,
                values.join(", "),
                pool.class,
                on_sale(&catalog, pool, &one.key)
            )
        }
    };
    Some(("NoMatchingOffering", said))
}

/// What everything costs that a catalogue has and some requirements allow.
fn offers<'c>(
    catalog: &'c Catalog,
    pool: &'c PoolRecord,
    wanted: &[Expression],
) -> impl Iterator<Item = Money> + 'c {
    let wanted = Requirements::parse(wanted).ok();
    let decided = catalog.decided();
    let all = catalog
        .types
        .iter()
        .flat_map(|kind| kind.offerings.iter().map(move |offering| (kind, offering)));
    all.filter(move |(kind, offering)| {
        let has = Requirements::from_labels(&offering_labels(kind, offering, pool));
        wanted
            .as_ref()
            .is_some_and(|wanted| has.compatible(wanted, |key| !decided.contains(key)).is_ok())
    })
    .map(|(_, offering)| offering.price)
}

/// The values that a label has in a catalogue.
fn on_sale(catalog: &Catalog, pool: &PoolRecord, key: &str) -> String {
    let mut values: Vec<Name> = catalog
        .types
        .iter()
        .flat_map(|kind| kind.offerings.iter().map(move |offering| (kind, offering)))
        .filter_map(|(kind, offering)| offering_labels(kind, offering, pool).remove(key))
        .collect();
    values.sort();
    values.dedup();
    match values.as_slice() {
        [] => "no offering has this label".to_owned(),
        some => some.join(", "),
    }
}
