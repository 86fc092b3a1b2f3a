//! What a plan takes of what there is only so much of, and what is left of it.

use std::collections::{BTreeMap, BTreeSet};

use super::purchase::{Source, source};
use super::site::World;
use super::{Findings, Rule};
use crate::name::Name;
use crate::plan::Plan;
use crate::problem::{CapacityType, Catalog, Host, InstanceType, Offering, Problem, Quota, Range};
use crate::resources::Resources;

/// Catalogue, type, region and zone, and how it is paid for.
type Key<'a> = (&'a Name, &'a Name, (&'a Name, &'a Name), CapacityType);

/// How many machines are bought of each thing, and how many there are.
#[derive(Debug, Default)]
pub(super) struct Sales<'a> {
    offerings: BTreeMap<Key<'a>, (u32, u32)>,
    reservations: BTreeMap<&'a Name, (u32, u32)>,
    /// What offerings of all catalogues share.
    stocks: BTreeMap<&'a Name, (u32, u32)>,
    ranges: BTreeMap<(&'a Name, &'a Name), (u32, u32)>,
    /// Ranges of one catalogue share its hosts; a host of another catalogue is another host, unless it has the same stock.
    hosts: BTreeMap<HostKey<'a>, (Resources, Resources)>,
    /// What types of all catalogues share.
    quotas: BTreeMap<&'a Name, (Resources, Resources)>,
}

/// Catalogue and name of a host, or nothing and its stock.
type HostKey<'a> = (Option<&'a Name>, &'a Name);

fn host_key<'a>(catalog: &'a Name, host: &'a Host) -> HostKey<'a> {
    if host.stock.is_empty() {
        (Some(catalog), &host.name)
    } else {
        (None, &host.stock)
    }
}

/// Lowers what is free to what is stated, where both state it.
fn lower(free: &mut Resources, stated: &Resources) {
    for (name, amount) in stated.iter() {
        let known = free.contains(name).then(|| free.get(name));
        free.set(name, known.map_or(amount, |known| known.min(amount)));
    }
}

fn key<'a>(catalog: &'a Name, kind: &'a InstanceType, offering: &'a Offering) -> Key<'a> {
    let place = (&offering.region, &offering.zone);
    (catalog, &kind.name, place, offering.capacity_type)
}

impl<'a> Sales<'a> {
    pub(super) fn of(problem: &'a Problem, plan: &'a Plan) -> Self {
        let mut sales = Sales::default();
        sales.count_shared(problem);
        for launch in &plan.launches {
            let purchase = &launch.purchase;
            match source(problem, purchase, Some(&launch.labels)) {
                Ok(Source::Type(kind, offering)) => {
                    for quota in kind.quotas.iter().collect::<BTreeSet<_>>() {
                        let (used, left) = sales.quotas.entry(quota).or_default();
                        for (name, _) in left.iter() {
                            let taken = Quota::taken(name, &launch.capacity);
                            used.set(name, used.get(name) + taken);
                        }
                    }
                    let Some(left) = offering.left else { continue };
                    let own = key(&purchase.catalog, kind, offering);
                    let count = |used: &mut (u32, u32)| {
                        *used = (used.0 + 1, used.1.min(left));
                    };
                    if let Some(stock) = &offering.stock {
                        count(sales.stocks.entry(stock).or_insert((0, left)));
                    }
                    match (&offering.reservation, &offering.stock) {
                        (Some(id), _) => {
                            count(sales.reservations.entry(id).or_insert((0, left)));
                        }
                        (None, Some(_)) => {}
                        (None, None) => count(sales.offerings.entry(own).or_insert((0, left))),
                    }
                }
                Ok(Source::Range(range, host)) => {
                    let key = host_key(&purchase.catalog, host);
                    let (used, free) = sales.hosts.entry(key).or_default();
                    for (name, _) in host.free.iter() {
                        used.set(name, used.get(name) + launch.capacity.get(name));
                    }
                    lower(free, &host.free);
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

    /// What all listings of a thing say that there is of it: the lowest figure holds.
    fn count_shared(&mut self, problem: &'a Problem) {
        for catalog in &problem.catalogs {
            for offering in catalog.types.iter().flat_map(|kind| &kind.offerings) {
                if let (Some(stock), Some(left)) = (&offering.stock, offering.left) {
                    let known = self.stocks.entry(stock).or_insert((0, left));
                    known.1 = known.1.min(left);
                }
            }
            let hosts = catalog.ranges.iter().flat_map(|range| &range.hosts);
            for host in hosts.filter(|host| !host.stock.is_empty()) {
                let key = host_key(&catalog.name, host);
                lower(&mut self.hosts.entry(key).or_default().1, &host.free);
            }
            for quota in &catalog.quotas {
                lower(
                    &mut self.quotas.entry(&quota.name).or_default().1,
                    &quota.left,
                );
            }
        }
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
        let stock = offering.stock.as_ref().and_then(|id| self.stocks.get(id));
        let bought = match &offering.reservation {
            Some(id) => self.reservations.get(id),
            None => self.offerings.get(&key(&catalog.name, kind, offering)),
        };
        stock.is_none_or(|(bought, left)| bought < left)
            && bought.map_or(0, |(bought, _)| *bought) < left
    }

    /// Whether a host has room for one more machine of a range, however small.
    pub(super) fn has_room(&self, catalog: &Catalog, range: &Range, host: &Host) -> bool {
        let made = self.ranges.get(&(&catalog.name, &range.name));
        let made = made.map_or(0, |(made, _)| *made);
        let used = self.hosts.get(&host_key(&catalog.name, host));
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
                .stocks
                .iter()
                .map(|(id, used)| (format!("stock {id}"), used)),
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
    let hosts = sales.hosts.iter();
    let hosts = hosts.map(|((_, name), used)| (format!("host {name}"), used));
    let quotas = sales.quotas.iter();
    let quotas = quotas.map(|(name, used)| (format!("quota {name}"), used));
    for (what, (used, free)) in hosts.chain(quotas) {
        for (resource, amount) in free.iter() {
            let more = used.get(resource) - amount;
            if more > 0 && used.get(resource) > 0 {
                let text = format!("{what} is asked for {more} more {resource} than it has");
                findings.add(Rule::Purchase, text);
            }
        }
    }
}
