//! One stock for all who draw on it: what machine objects have been promised is not sold again before the cloud's own
//! count shows it.

use std::sync::Arc;

use jiff::Timestamp;
use joiner_core::labels;
use joiner_core::plan::stock::{Sale, take};
use joiner_core::problem::Catalog;

use crate::record::{ClassKey, MachineRecord, kinds};
use crate::view::World;
use crate::view::problem::Terms;

/// Takes off what is for sale whatever machine objects stand for that the last reading of their catalogue cannot show:
/// machines that are not launched yet, or were launched after it.
pub(crate) fn take_promised(
    world: &World,
    terms: &mut Terms,
    read: impl Fn(&ClassKey) -> Option<Timestamp>,
) {
    let scarce = terms.catalogs.values().any(|one| is_scarce(one));
    let promised: Vec<&Arc<MachineRecord>> = world
        .machines
        .iter()
        .filter(|machine| scarce && is_promised(machine, read(&machine.class)))
        .collect();
    if promised.is_empty() {
        return;
    }
    let mut catalogs: Vec<Catalog> = terms.catalogs.values().map(|one| (**one).clone()).collect();
    for machine in promised {
        let Some(offer) = machine.offer() else {
            continue;
        };
        let mut purchase = offer.purchase.clone();
        let forked = machine
            .pool
            .as_ref()
            .and_then(|pool| terms.pool_catalogs.get(pool));
        purchase.catalog = forked.cloned().unwrap_or_else(|| machine.class.catalog());
        let sale = Sale {
            purchase: &purchase,
            capacity: &offer.capacity,
            region: machine.labels.get(labels::REGION),
        };
        take(&mut catalogs, sale);
    }
    terms.catalogs = catalogs
        .into_iter()
        .map(|one| (one.name.clone(), Arc::new(one)))
        .collect();
}

fn is_scarce(catalog: &Catalog) -> bool {
    let mut offerings = catalog.types.iter().flat_map(|one| &one.offerings);
    !catalog.ranges.is_empty()
        || !catalog.quotas.is_empty()
        || offerings.any(|one| one.left.is_some())
}

fn is_promised(machine: &MachineRecord, read: Option<Timestamp>) -> bool {
    let launched = machine.status.conditions.true_since(kinds::LAUNCHED);
    match (launched, read) {
        (None, _) => machine.deleting.is_none(),
        // Conditions are written in whole seconds.
        (Some(at), Some(read)) => at.as_second() >= read.as_second(),
        (Some(_), None) => false,
    }
}

#[cfg(test)]
mod tests {
    use joiner_core::problem::{CapacityType, Host, InstanceType, Offering, Range};
    use joiner_core::resources::Resources;

    use super::*;

    fn catalog() -> Catalog {
        let offering = |left| Offering {
            zone: "a".into(),
            region: "".into(),
            capacity_type: CapacityType::OnDemand,
            price: joiner_core::money::Money::from_nanos(1),
            available: true,
            left,
            reservation: None,
            stock: None,
        };
        Catalog {
            name: "c".into(),
            types: vec![InstanceType {
                name: "host-1".into(),
                offerings: vec![offering(Some(1)), offering(None)],
                ..InstanceType::default()
            }],
            ranges: vec![Range {
                name: "vm".into(),
                labels: joiner_core::name::Labels::default(),
                region: "".into(),
                capacity_type: CapacityType::OnDemand,
                min: Resources::default(),
                max: Resources::default(),
                step: Resources::default(),
                overhead: Resources::default(),
                prices: joiner_core::problem::UnitPrices::default(),
                hosts: vec![Host {
                    name: "pve1".into(),
                    zone: "a".into(),
                    free: Resources::default(),
                    stock: "".into(),
                }],
                left: None,
            }],
            ..Catalog::default()
        }
    }

    #[test]
    fn catalogues_made_of_one_class_share_its_stock() {
        let (mut one, mut other) = (catalog(), catalog());
        other.name = "c#pool".into();
        one.share_stock("c");
        other.share_stock("c");
        let stock = |catalog: &Catalog| catalog.types[0].offerings[0].stock.clone();
        assert!(stock(&one).is_some() && stock(&one) == stock(&other));
        assert_eq!(
            one.types[0].offerings[1].stock, None,
            "what is not scarce has no stock"
        );
        assert_eq!(&*one.ranges[0].hosts[0].stock, "c/pve1");
    }
}
