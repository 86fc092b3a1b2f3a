//! Labels that a node will have.

use crate::labels;
use crate::name::{Labels, Name};
use crate::pack::compile::Compiled;
use crate::pack::compile::offers::{Offer, Sold};
use crate::problem::CapacityType;

/// The labels that a node of this offer will have.
pub(crate) fn node_labels(compiled: &Compiled<'_>, offer: &Offer) -> Labels {
    let problem = compiled.problem;
    let pool = problem.pool_at(offer.pool);
    let mut all = pool.labels.clone();
    if let Some(terms) = compiled.pools.iter().find(|one| one.pool == offer.pool) {
        for (key, requirement) in terms.requirements.iter() {
            // No pod asks for a certain value; the pool asks for one.
            let value = requirement.some_value();
            if let Some(value) = value.filter(|_| !requirement.allows_absence()) {
                all.entry(key.clone()).or_insert(value);
            }
        }
    }
    let (own, zone, region, capacity_type, name): (&Labels, &Name, &Name, CapacityType, Name) =
        match offer.sold(problem) {
            Sold::Fixed(one, place) => {
                if let Some(id) = &place.reservation {
                    all.insert(labels::RESERVATION_ID.into(), id.clone());
                }
                (
                    &one.labels,
                    &place.zone,
                    &place.region,
                    place.capacity_type,
                    one.name.clone(),
                )
            }
            Sold::Custom(range, host) => (
                &range.labels,
                &host.zone,
                &range.region,
                range.capacity_type,
                range.name.clone(),
            ),
        };
    all.extend(own.iter().map(|(key, value)| (key.clone(), value.clone())));
    for (index, key) in compiled.keys.iter().enumerate() {
        if let Some(value) = compiled.keys.values[index].name(offer.values[index]) {
            all.insert(key.clone(), value.clone());
        }
    }
    all.insert(labels::INSTANCE_TYPE.into(), name);
    all.insert(labels::ZONE.into(), zone.clone());
    if !region.is_empty() {
        all.insert(labels::REGION.into(), region.clone());
    }
    let capacity_type: &'static str = capacity_type.into();
    all.insert(labels::CAPACITY_TYPE.into(), capacity_type.into());
    if let Some(said) = pool.nodepool_label() {
        all.insert(labels::NODEPOOL.into(), said.clone());
    }
    all
}
