//! What a problem depends on beside the cluster: what is for sale to whom, who may buy, what room is to be kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use joiner_core::labels;
use joiner_core::name::{Labels, Name};
use joiner_core::problem::{Catalog, InstanceType, Offering};
use joiner_core::requirements::Requirements;

use crate::backoff::Subject;
use crate::context::Context;
use crate::record::{OverlayRecord, PoolRecord};
use crate::view::World;
use crate::view::problem::Terms;

/// The terms as they are now.
pub(crate) fn terms(context: &Context, world: &World, now: Timestamp) -> Terms {
    let mut terms = Terms {
        settings: context.settings.core.clone(),
        own_node: context.settings.own_node.clone(),
        buffers: crate::buffers::room(world),
        ..Terms::default()
    };
    context.learned.look(world);
    let overlays = crate::overlays::accepted(context, world);
    for pool in world.pools.iter() {
        if let Some(reason) = closed(context, world, pool, now) {
            terms.closed.insert(pool.id().clone(), reason);
        }
        let base = pool.class.catalog();
        let Some(catalog) = context
            .classes
            .slot(&pool.class)
            .and_then(|slot| slot.catalog())
        else {
            continue;
        };
        let mut catalog = (*catalog).clone();
        context.backoffs.close_offerings(&mut catalog, now);
        context.learned.correct(&base, &mut catalog);
        if overlays.is_empty() {
            terms
                .catalogs
                .entry(base)
                .or_insert_with(|| Arc::new(catalog));
            continue;
        }
        overlay(&mut catalog, pool, &overlays);
        catalog.name = format!("{base}#{}", pool.id()).into();
        terms
            .pool_catalogs
            .insert(pool.id().clone(), catalog.name.clone());
        terms
            .catalogs
            .insert(catalog.name.clone(), Arc::new(catalog));
    }
    terms
}

/// The catalogue of the class that a purchase is from, whatever overlays were applied.
pub(crate) fn base_catalog(name: &Name) -> Name {
    name.split_once('#')
        .map_or_else(|| name.clone(), |(base, _)| base.into())
}

/// Why a pool must not buy now.
fn closed(context: &Context, world: &World, pool: &PoolRecord, now: Timestamp) -> Option<String> {
    if context.settings.paused {
        return Some("everything is paused".to_owned());
    }
    if pool.paused {
        return Some("the pool is paused".to_owned());
    }
    if let Some(invalid) = &pool.invalid {
        return Some(invalid.clone());
    }
    let class = world.classes.get(&pool.class).map(AsRef::as_ref);
    if let Some((_, said)) = context.classes.unusable(&pool.class, class) {
        return Some(said);
    }
    let (until, because) = context
        .backoffs
        .waiting(&Subject::Pool(pool.id().clone()), now)?;
    Some(format!("waits until {until} after a failure: {because}"))
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
    let mut all = pool.pool.labels.clone();
    all.extend(shape.labels.clone());
    for (key, value) in [
        (labels::NODEPOOL, pool.id()),
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
