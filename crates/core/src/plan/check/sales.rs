//! What a plan takes of what there is only so much of, and what is left of it.

use std::collections::BTreeMap;

use super::purchase::{Source, source};
use super::site::World;
use super::{Findings, Rule};
use crate::name::Name;
use crate::plan::Plan;
use crate::problem::{CapacityType, Catalog, Host, InstanceType, Offering, Problem, Range};
use crate::resources::Resources;

/// Catalogue, type, region and zone, and how it is paid for.
type Key<'a> = (&'a Name, &'a Name, (&'a Name, &'a Name), CapacityType);

/// How many machines are bought of each thing, and how many there are.
#[derive(Debug, Default)]
pub(super) struct Sales<'a> {
    offerings: BTreeMap<Key<'a>, (u32, u32)>,
    reservations: BTreeMap<&'a Name, (u32, u32)>,
    ranges: BTreeMap<(&'a Name, &'a Name), (u32, u32)>,
    /// Ranges of one catalogue share its hosts; a host of another catalogue is another host.
    hosts: BTreeMap<(&'a Name, &'a Name), (Resources, Resources)>,
}

fn key<'a>(catalog: &'a Name, kind: &'a InstanceType, offering: &'a Offering) -> Key<'a> {
    let place = (&offering.region, &offering.zone);
    (catalog, &kind.name, place, offering.capacity_type)
}

impl<'a> Sales<'a> {
    pub(super) fn of(problem: &'a Problem, plan: &'a Plan) -> Self {
        let mut sales = Sales::default();
        for launch in &plan.launches {
            let purchase = &launch.purchase;
            match source(problem, purchase, Some(&launch.labels)) {
                Ok(Source::Type(kind, offering)) => {
                    let Some(left) = offering.left else { continue };
                    let own = key(&purchase.catalog, kind, offering);
                    let used = match &offering.reservation {
                        Some(id) => sales.reservations.entry(id).or_insert((0, left)),
                        None => sales.offerings.entry(own).or_insert((0, left)),
                    };
                    *used = (used.0 + 1, used.1.min(left));
                }
                Ok(Source::Range(range, host)) => {
                    let key = (&purchase.catalog, &host.name);
                    let (used, free) = sales.hosts.entry(key).or_default();
                    for (name, amount) in host.free.iter() {
                        used.set(name, used.get(name) + launch.capacity.get(name));
                        let known = free.contains(name).then(|| free.get(name));
                        free.set(name, known.map_or(amount, |known| known.min(amount)));
                    }
                    if let Some(left) = range.left {
                        let key = (&purchase.catalog, &range.name);
                        sales.ranges.entry(key).or_insert((0, left)).0 += 1;
                    }
                }
                Err(_) => {}
            }
        }
        sales
    }

    /// Whether one more machine of an offering can be had.
    pub(super) fn has_left(
        &self,
        catalog: &Catalog,
        kind: &InstanceType,
        offering: &Offering,
    ) -> bool {
        let Some(left) = offering.left else {
            return true;
        };
        let bought = match &offering.reservation {
            Some(id) => self.reservations.get(id),
            None => self.offerings.get(&key(&catalog.name, kind, offering)),
        };
        bought.map_or(0, |(bought, _)| *bought) < left
    }

    /// Whether a host has room for one more machine of a range, however small.
    pub(super) fn has_room(&self, catalog: &Catalog, range: &Range, host: &Host) -> bool {
        let made = self.ranges.get(&(&catalog.name, &range.name));
        let made = made.map_or(0, |(made, _)| *made);
        let used = self.hosts.get(&(&catalog.name, &host.name));
        let used = |name: &str| used.map_or(0, |(used, _)| used.get(name));
        range.left.is_none_or(|left| made < left)
            && host
                .free
                .iter()
                .all(|(name, free)| range.min.get(name) <= free - used(name))
    }
}

/// No more is bought than is left.
pub(super) fn check(world: &World<'_>, findings: &mut Findings) {
    let sales = &world.sales;
    let counted = sales
        .offerings
        .iter()
        .map(|((_, name, (_, zone), paid), used)| (format!("{name} {zone} {paid}"), used))
        .chain(
            sales
                .reservations
                .iter()
                .map(|(id, used)| (format!("reservation {id}"), used)),
        )
        .chain(
            sales
                .ranges
                .iter()
                .map(|((_, name), used)| (name.to_string(), used)),
        );
    for (what, (bought, left)) in counted {
        if bought > left {
            let text = format!("{bought} machines of {what} are bought, {left} are left");
            findings.add(Rule::Purchase, text);
        }
    }
    for ((_, name), (used, free)) in &sales.hosts {
        for (resource, amount) in free.iter() {
            let more = used.get(resource) - amount;
            if more > 0 {
                let text = format!("host {name} is asked for {more} more {resource} than it has");
                findings.add(Rule::Purchase, text);
            }
        }
    }
}
