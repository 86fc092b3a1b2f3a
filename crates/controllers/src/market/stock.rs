//! One stock for all who draw on it: what machine objects have been promised is not sold again before the cloud's own
//! count shows it.

use std::sync::Arc;

use jiff::Timestamp;
use joiner_core::labels;
use joiner_core::name::Name;
use joiner_core::plan::Launch;
use joiner_core::plan::stock::{Sale, is_bought, take};
use joiner_core::problem::{Catalog, Problem, Quota};

use crate::market::terms::base_catalog;
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
        let Some(catalog) = drawn_on(machine, terms) else {
            continue;
        };
        purchase.catalog = catalog;
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

/// The catalogue that a machine was bought from: its pool's own, or any that was made of its class, for all of these
/// draw on one stock.
fn drawn_on(machine: &MachineRecord, terms: &Terms) -> Option<Name> {
    let forked = machine
        .pool
        .as_ref()
        .and_then(|pool| terms.pool_catalogs.get(pool));
    let base = machine.class.catalog();
    let made_of = |name: &&Name| base_catalog(name) == base;
    forked
        .or_else(|| terms.catalogs.keys().find(made_of))
        .cloned()
}

/// How many machines like this one can be bought before its stock or a quota is used up; `None` if nothing limits that.
/// Of a range each machine takes another part, so none is like the next.
pub(crate) fn copies(problem: &Problem, launch: &Launch) -> Option<u32> {
    let purchase = &launch.purchase;
    let catalog = problem.catalog(&purchase.catalog)?;
    let mut types = catalog.types.iter();
    let Some(kind) = types.find(|kind| kind.name == purchase.instance_type) else {
        return Some(1);
    };
    let sale = Sale::from(launch);
    let mut offerings = kind.offerings.iter();
    let left = offerings
        .find(|one| is_bought(sale, &kind.name, one))
        .and_then(|one| one.left);
    let quotas = kind.quotas.iter().filter_map(|name| catalog.quota(name));
    let rest = quotas.flat_map(|quota| {
        let limited = quota.left.iter();
        limited.filter_map(|(name, left)| {
            let each = Quota::taken(name, &launch.capacity);
            (each > 0).then(|| u32::try_from(left / each).unwrap_or(0))
        })
    });
    left.into_iter().chain(rest).min()
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
    use joiner_core::name::Labels;
    use joiner_core::plan::{Purchase, Reason};
    use joiner_core::problem::{CapacityType, Host, InstanceType, Offering, Range};
    use joiner_core::resources::{CPU, Resources};

    use super::*;
    use crate::record::{Condition, Offer, Truth};
    use crate::view::samples::{at, machine};

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
                offerings: vec![offering(Some(3)), offering(None)],
                ..InstanceType::default()
            }],
            ranges: vec![Range {
                name: "vm".into(),
                labels: Labels::default(),
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
                    free: Resources::new().with(CPU, 8000),
                    stock: "".into(),
                }],
                left: None,
            }],
            ..Catalog::default()
        }
    }

    fn purchase(kind: &str, host: Option<&str>) -> Purchase {
        Purchase {
            catalog: "c".into(),
            instance_type: kind.into(),
            zone: "a".into(),
            capacity_type: CapacityType::OnDemand,
            reservation: None,
            host: host.map(Into::into),
            price: joiner_core::money::Money::from_nanos(1),
        }
    }

    /// A machine object for a purchase, launched so many seconds after it was written.
    fn asked(name: &str, purchase: Purchase, launched: Option<i64>) -> MachineRecord {
        let capacity = Resources::new().with(CPU, 3000);
        let mut machine = machine(
            name,
            vec![Offer {
                purchase,
                capacity: capacity.clone(),
                allocatable: capacity,
                labels: Labels::new(),
            }],
        );
        if let Some(seconds) = launched {
            machine.status.conditions.ensure(Condition {
                kind: kinds::LAUNCHED.into(),
                status: Truth::True,
                reason: kinds::LAUNCHED.into(),
                message: String::new(),
                since: at(seconds),
                generation: 1,
            });
        }
        machine
    }

    /// What is left of the host, and of the room on the other, once machine objects have been promised theirs. The
    /// catalogue was read ten seconds after they were written; pool `other` has one of its own, made of the same class.
    fn left(machines: Vec<MachineRecord>) -> [(Option<u32>, i64); 2] {
        let mut world = World::default();
        let class = machine("any", Vec::new()).class;
        for machine in machines {
            world.machines.apply(machine, "machines");
        }
        let mut terms = Terms::default();
        for name in [class.catalog(), format!("{}#other", class.catalog()).into()] {
            let mut catalog = catalog();
            catalog.share_stock(&class.catalog());
            catalog.name = name;
            terms
                .catalogs
                .insert(catalog.name.clone(), Arc::new(catalog));
        }
        take_promised(&world, &mut terms, |_| Some(at(10)));
        let mut catalogs = terms.catalogs.values();
        let mut next = || {
            let catalog = catalogs.next().unwrap();
            let host = &catalog.ranges[0].hosts[0];
            (catalog.types[0].offerings[0].left, host.free.get(CPU))
        };
        [next(), next()]
    }

    #[test]
    fn what_machine_objects_were_promised_is_not_for_sale_before_the_catalogue_shows_it() {
        let host = || purchase("host-1", None);
        let room = || purchase("vm", Some("pve1"));
        assert_eq!(left(Vec::new()), [(Some(3), 8000); 2]);
        let waiting = vec![asked("a", host(), None), asked("b", room(), None)];
        assert_eq!(left(waiting), [(Some(2), 5000); 2], "not launched yet");
        let since = vec![asked("a", host(), Some(12)), asked("b", room(), Some(10))];
        assert_eq!(left(since), [(Some(2), 5000); 2], "launched since");
        let counted = vec![asked("a", host(), Some(9)), asked("b", room(), Some(9))];
        assert_eq!(left(counted), [(Some(3), 8000); 2], "the catalogue knows");
        let mut given_up = asked("a", host(), None);
        given_up.deleting = Some(at(1));
        assert_eq!(left(vec![given_up]), [(Some(3), 8000); 2]);
    }

    #[test]
    fn no_more_copies_of_a_purchase_are_made_than_there_are_for_sale() {
        let launch = |kind: &str, host| Launch {
            pool: "pool".into(),
            purchase: purchase(kind, host),
            alternatives: Arc::default(),
            capacity: Resources::new().with(CPU, 3000),
            requests: Resources::new(),
            labels: Labels::new(),
            pods: Vec::new(),
            reason: Reason::NoPool,
        };
        let problem = |change: fn(&mut Catalog)| {
            let mut catalog = catalog();
            change(&mut catalog);
            Problem {
                catalogs: vec![catalog],
                ..Problem::default()
            }
        };
        let hosts = launch("host-1", None);
        assert_eq!(copies(&problem(|_| ()), &hosts), Some(3));
        let plenty = problem(|catalog| catalog.types[0].offerings[0].left = None);
        assert_eq!(copies(&plenty, &hosts), None);
        let quota = problem(|catalog| {
            catalog.types[0].quotas = vec!["cores".into()];
            catalog.quotas = vec![Quota {
                name: "cores".into(),
                left: Resources::new().with(CPU, 7000),
            }];
        });
        assert_eq!(copies(&quota, &hosts), Some(2));
        assert_eq!(
            copies(&problem(|_| ()), &launch("vm", Some("pve1"))),
            Some(1),
            "each takes another part of its host"
        );
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
