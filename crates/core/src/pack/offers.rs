//! Every single way to buy a machine: pool, type and offering, with the labels the node will have.

use smallvec::SmallVec;

use crate::labels;
use crate::money::Money;
use crate::name::{Labels, Name};
use crate::plan::Purchase;
use crate::problem::{CapacityType, Catalog, Host, InstanceType, Offering, Pool, Problem, Range};
use crate::requirement::Requirement;
use crate::requirements::Requirements;
use crate::resources::Resources;

use super::intern::Interner;
use super::labels::{ABSENT, Keys, UNDEFINED};
use super::ledger::{Scarce, Supply, Uses};
use super::measure;
use super::vector::{Table, Vector};

/// More combinations of a pool's own labels than this are not looked at.
const MAX_VARIANTS: usize = 32;

/// So many that it does not matter; what a share comes to is known only when machines are counted.
pub(crate) const UNBOUNDED: i64 = 1 << 40;

/// What is bought.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Item {
    /// An offering of a type, by index.
    Fixed { instance_type: u32, offering: u32 },
    /// A size of a range on a host, by index.
    Made { range: u32, host: u32 },
}

/// One way to buy a machine.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    /// Index among the pools of the problem.
    pub(crate) pool: u32,
    /// Index among the catalogues of the problem.
    pub(crate) catalog: u32,
    pub(crate) item: Item,
    pub(crate) price: Money,
    /// Price, surcharge and trifle in billionths of a dollar.
    pub(crate) cost: i64,
    /// What pods may use, daemons already taken off.
    pub(crate) room: Vector,
    /// Label values, by tracked key.
    pub(crate) values: Box<[u32]>,
    pub(crate) uses: Uses,
}

/// What is bought, as its catalogue lists it.
pub(crate) enum Sold<'p> {
    Fixed(&'p InstanceType, &'p Offering),
    Made(&'p Range, &'p Host),
}

impl Offer {
    pub(crate) fn sold<'p>(&self, problem: &'p Problem) -> Sold<'p> {
        let catalog = &problem.catalogs[self.catalog as usize];
        match self.item {
            Item::Fixed {
                instance_type,
                offering,
            } => {
                let one = &catalog.types[instance_type as usize];
                Sold::Fixed(one, &one.offerings[offering as usize])
            }
            Item::Made { range, host } => {
                let range = &catalog.ranges[range as usize];
                Sold::Made(range, &range.hosts[host as usize])
            }
        }
    }

    /// As a plan names it.
    pub(crate) fn purchase(&self, problem: &Problem, price: Money) -> Purchase {
        let (name, zone, capacity_type, reservation, host) = match self.sold(problem) {
            Sold::Fixed(one, offering) => {
                let reservation = offering.reservation.clone();
                let way = offering.capacity_type;
                (&one.name, &offering.zone, way, reservation, None)
            }
            Sold::Made(range, host) => {
                let name = Some(host.name.clone());
                (&range.name, &host.zone, range.capacity_type, None, name)
            }
        };
        Purchase {
            catalog: problem.catalogs[self.catalog as usize].name.clone(),
            instance_type: name.clone(),
            zone: zone.clone(),
            capacity_type,
            reservation,
            host,
            price,
        }
    }
}

/// A pool that can buy.
#[derive(Clone, Debug)]
pub(crate) struct PoolTerms {
    pub(crate) index: u32,
    pub(crate) requirements: Requirements,
    /// Keys of which the types left must offer several values.
    pub(crate) min_values: Vec<(Name, u32)>,
}

/// Collects offers.
pub(crate) struct Market<'p> {
    problem: &'p Problem,
    keys: &'p mut Keys,
    table: &'p Table,
    of_types: Interner<Name>,
    /// Pods that machines may be made for, one by one.
    singles: Vec<Resources>,
    pub(crate) supply: Supply,
    pub(crate) offers: Vec<Offer>,
    pub(crate) pools: Vec<PoolTerms>,
}

/// The value that a pool gives to each tracked key of its own.
type Variant = SmallVec<[(u32, u32); 2]>;

struct Source<'a> {
    name: &'a Name,
    labels: &'a Labels,
    zone: &'a Name,
    region: &'a Name,
    capacity_type: CapacityType,
    reservation: Option<&'a Name>,
}

impl<'p> Market<'p> {
    pub(crate) fn new(problem: &'p Problem, keys: &'p mut Keys, table: &'p Table) -> Self {
        Market {
            problem,
            keys,
            table,
            of_types: super::labels::keys_of_types(problem),
            singles: measure::singles(problem),
            supply: Supply::default(),
            offers: Vec::new(),
            pools: Vec::new(),
        }
    }

    /// Offers of all pools that may buy.
    pub(crate) fn open(&mut self) {
        if let Some(most) = self.problem.settings.max_new_nodes {
            self.supply.counter(Scarce::Nodes, i64::from(most));
        }
        for (index, pool) in self.problem.pools.iter().enumerate() {
            if pool.closed.is_none() && pool.replicas.is_none() {
                self.open_pool(index as u32, pool);
            }
        }
    }

    fn open_pool(&mut self, index: u32, pool: &'p Pool) {
        // A pool whose requirements mean nothing buys nothing; dialects refuse it before it gets here.
        let Ok(requirements) = Requirements::parse(&pool.requirements) else {
            return;
        };
        let min_values = requirements
            .iter()
            .filter_map(|(key, one)| Some((key.clone(), one.min_values()?)))
            .collect();
        let mut labels = Labels::new();
        for (key, value) in &pool.labels {
            labels.insert(labels::canonical(key).into(), value.clone());
        }
        self.pools.push(PoolTerms {
            index,
            requirements: requirements.clone(),
            min_values,
        });
        let variants = self.variants(&requirements, &labels);
        let position = self
            .problem
            .catalogs
            .iter()
            .position(|one| one.name == pool.catalog);
        let Some(catalog) = position else { return };
        let limits = self.limits(index, pool);
        for variant in &variants {
            self.open_catalog(
                index,
                catalog as u32,
                &requirements,
                &labels,
                variant,
                &limits,
            );
        }
    }

    /// Counters of a pool's limits, with what its present nodes leave of them.
    fn limits(&mut self, index: u32, pool: &Pool) -> Vec<(u32, Option<Name>)> {
        let mut counters = Vec::new();
        let present = || {
            let own = |node: &&crate::problem::Node| node.pool.as_ref() == Some(&pool.name);
            self.problem
                .nodes
                .iter()
                .filter(own)
                .filter(|node| !node.deleting)
        };
        let used = |name: &str| -> i64 { present().map(|node| node.capacity.get(name)).sum() };
        let cost: Money = present().filter_map(|node| node.price).sum();
        let nodes = present().count() as i64;
        let resources: Vec<(Name, i64)> = pool
            .limits
            .resources
            .iter()
            .map(|(name, most)| (name.clone(), most.saturating_sub(used(name))))
            .collect();
        for (name, left) in resources {
            let scarce = Scarce::PoolResource(index, name.clone());
            counters.push((self.supply.counter(scarce, left), Some(name)));
        }
        if let Some(most) = pool.limits.nodes {
            let scarce = Scarce::PoolNodes(index);
            counters.push((self.supply.counter(scarce, i64::from(most) - nodes), None));
        }
        if let Some(most) = pool.limits.cost {
            let left = (most - cost).nanos();
            self.supply.counter(Scarce::PoolCost(index), left);
        }
        counters
    }

    fn pool_uses(
        &self,
        pool: u32,
        limits: &[(u32, Option<Name>)],
        capacity: &Resources,
        price: Money,
    ) -> Uses {
        let mut uses: Uses = limits
            .iter()
            .map(|(counter, name)| (*counter, name.as_ref().map_or(1, |name| capacity.get(name))))
            .collect();
        if let Some(counter) = self.supply.find(&Scarce::PoolCost(pool)) {
            uses.push((counter, price.nanos()));
        }
        if let Some(counter) = self.supply.find(&Scarce::Nodes) {
            uses.push((counter, 1));
        }
        uses
    }

    fn open_catalog(
        &mut self,
        pool: u32,
        catalog: u32,
        requirements: &Requirements,
        labels: &Labels,
        variant: &Variant,
        limits: &[(u32, Option<Name>)],
    ) {
        let problem: &'p Problem = self.problem;
        let source: &'p Catalog = &problem.catalogs[catalog as usize];
        for (position, one) in source.types.iter().enumerate() {
            let allocatable = self.table.vector(&one.allocatable());
            for (index, offering) in one.offerings.iter().enumerate() {
                let sold_out = !offering.available || offering.left == Some(0);
                if sold_out || !allocatable.0.iter().all(|amount| *amount >= 0) {
                    continue;
                }
                let place = Source {
                    name: &one.name,
                    labels: &one.labels,
                    zone: &offering.zone,
                    region: &offering.region,
                    capacity_type: offering.capacity_type,
                    reservation: offering.reservation.as_ref(),
                };
                let Some(values) = self.values(pool, &place, requirements, labels, variant) else {
                    continue;
                };
                let mut uses = self.pool_uses(pool, limits, &one.capacity, offering.price);
                let sold = (&one.name, &offering.zone, offering.capacity_type);
                self.share_uses(&mut uses, catalog, sold);
                let at = (position as u32, index as u32);
                self.offering_uses(&mut uses, catalog, at, offering);
                self.offers.push(Offer {
                    pool,
                    catalog,
                    item: Item::Fixed {
                        instance_type: position as u32,
                        offering: index as u32,
                    },
                    price: offering.price,
                    cost: (offering.price + problem.settings.node_surcharge).nanos(),
                    room: allocatable,
                    values,
                    uses,
                });
            }
        }
        for (position, range) in source.ranges.iter().enumerate() {
            let at = (catalog, position as u32);
            self.open_range(pool, at, range, requirements, labels, variant, limits);
        }
    }

    /// One more machine of a spot offering, where its share is limited.
    fn share_uses(
        &mut self,
        uses: &mut Uses,
        catalog: u32,
        (name, zone, way): (&Name, &Name, CapacityType),
    ) {
        if self.problem.settings.spot_share.is_some() && way == CapacityType::Spot {
            let scarce = Scarce::SpotShare(catalog, name.clone(), zone.clone());
            uses.push((self.supply.counter(scarce, UNBOUNDED), 1));
        }
    }

    fn offering_uses(
        &mut self,
        uses: &mut Uses,
        catalog: u32,
        at: (u32, u32),
        offering: &Offering,
    ) {
        let Some(left) = offering.left else { return };
        let scarce = match &offering.reservation {
            Some(id) => Scarce::Reservation(id.clone()),
            None => Scarce::Offering(catalog, at.0, at.1),
        };
        uses.push((self.supply.counter(scarce, i64::from(left)), 1));
    }

    #[expect(clippy::too_many_arguments, reason = "one call, all of it needed")]
    fn open_range(
        &mut self,
        pool: u32,
        (catalog, position): (u32, u32),
        range: &'p Range,
        requirements: &Requirements,
        labels: &Labels,
        variant: &Variant,
        limits: &[(u32, Option<Name>)],
    ) {
        for (index, host) in range.hosts.iter().enumerate() {
            let place = Source {
                name: &range.name,
                labels: &range.labels,
                zone: &host.zone,
                region: &range.region,
                capacity_type: range.capacity_type,
                reservation: None,
            };
            let Some(values) = self.values(pool, &place, requirements, labels, variant) else {
                continue;
            };
            let daemons = measure::daemons(self.problem, self.keys, pool, &values);
            for size in measure::sizes(range, host, &daemons, &self.singles) {
                let price = measure::price(range, &size);
                let mut uses = self.pool_uses(pool, limits, &size, price);
                for (name, free) in host.free.iter() {
                    let scarce = Scarce::Host(catalog, host.name.clone(), name.clone());
                    uses.push((self.supply.counter(scarce, free), size.get(name)));
                }
                let sold = (&range.name, &host.zone, range.capacity_type);
                self.share_uses(&mut uses, catalog, sold);
                if let Some(left) = range.left {
                    let counter = self
                        .supply
                        .counter(Scarce::Range(catalog, position), i64::from(left));
                    uses.push((counter, 1));
                }
                self.offers.push(Offer {
                    pool,
                    catalog,
                    item: Item::Made {
                        range: position,
                        host: index as u32,
                    },
                    price,
                    cost: (price + self.problem.settings.node_surcharge).nanos(),
                    room: self.table.vector(&measure::allocatable(range, &size)),
                    values: values.clone(),
                    uses,
                });
            }
        }
    }

    /// The labels of a node, as far as somebody asks for them; `None` if the pool does not allow it.
    fn values(
        &mut self,
        pool: u32,
        place: &Source<'_>,
        requirements: &Requirements,
        labels: &Labels,
        variant: &Variant,
    ) -> Option<Box<[u32]>> {
        let name = &self.problem.pools[pool as usize].name;
        for (key, requirement) in requirements.iter() {
            let (defined, value) = self.lookup(name, place, key);
            let allowed = match (defined, value) {
                (true, Some(value)) => requirement.allows(&value),
                (true, None) => requirement.allows_absence(),
                (false, _) => labels
                    .get(key)
                    .is_none_or(|value| requirement.allows(value)),
            };
            if !allowed {
                return None;
            }
        }
        for (key, wanted) in labels {
            let (defined, value) = self.lookup(name, place, key);
            if defined && value.is_none_or(|value| value != *wanted) {
                return None;
            }
        }
        let keys: Vec<Name> = self.keys.iter().cloned().collect();
        let mut values = vec![ABSENT; keys.len()].into_boxed_slice();
        for (index, key) in keys.iter().enumerate() {
            values[index] = match self.lookup(name, place, key) {
                (true, Some(value)) => self.keys.values[index].id(&value),
                (true, None) => ABSENT,
                (false, _) => {
                    let own = variant.iter().find(|(id, _)| *id == index as u32);
                    match own {
                        Some((_, value)) => *value,
                        None if labels::is_well_known(key) => UNDEFINED,
                        None => ABSENT,
                    }
                }
            };
        }
        Some(values)
    }

    /// Whether type or offering decide a label, and what it is.
    fn lookup(&self, pool: &Name, place: &Source<'_>, key: &str) -> (bool, Option<Name>) {
        match key {
            labels::INSTANCE_TYPE => return (true, Some(place.name.clone())),
            labels::ZONE => return (true, Some(place.zone.clone())),
            labels::CAPACITY_TYPE => {
                let text: &'static str = place.capacity_type.into();
                return (true, Some(text.into()));
            }
            labels::NODEPOOL => return (true, Some(pool.clone())),
            labels::RESERVATION_ID => return (true, place.reservation.cloned()),
            labels::HOSTNAME => return (true, None),
            labels::REGION if !place.region.is_empty() => {
                return (true, Some(place.region.clone()));
            }
            _ => {}
        }
        let found = place.labels.get(key).or_else(|| {
            place
                .labels
                .iter()
                .find(|(own, _)| labels::canonical(own) == key)
                .map(|(_, value)| value)
        });
        match found {
            Some(value) => (true, Some(value.clone())),
            None => (self.of_types.find(key).is_some(), None),
        }
    }

    /// The values that a pool can give to keys of its own that somebody asks for: one combination per node.
    fn variants(&mut self, requirements: &Requirements, labels: &Labels) -> Vec<Variant> {
        let mut variants = vec![Variant::new()];
        let keys: Vec<Name> = self.keys.iter().cloned().collect();
        for (index, key) in keys.iter().enumerate() {
            if self.of_types.find(key).is_some()
                || labels::is_well_known(key)
                    && !labels.contains_key(key)
                    && requirements.get(key).is_none()
            {
                continue;
            }
            let values = if let Some(value) = labels.get(key) {
                vec![self.keys.values[index].id(value)]
            } else if let Some(requirement) = requirements.get(key) {
                self.choices(index, key, requirement)
            } else {
                continue;
            };
            let mut product = Vec::new();
            for variant in &variants {
                for value in &values {
                    let mut longer = variant.clone();
                    longer.push((index as u32, *value));
                    product.push(longer);
                }
            }
            product.truncate(MAX_VARIANTS);
            variants = product;
        }
        variants
    }

    /// Values that a requirement leaves open: those listed, or those that pods ask for and one that nobody does.
    fn choices(&mut self, index: usize, key: &str, requirement: &Requirement) -> Vec<u32> {
        if let Some(listed) = requirement.listed() {
            if listed.is_empty() {
                return vec![ABSENT];
            }
            let ids = listed.iter().map(|value| self.keys.values[index].id(value));
            return ids.collect();
        }
        let mut asked = super::profile::values_asked(self.problem, key);
        asked.retain(|value| requirement.allows(value));
        asked.truncate(MAX_VARIANTS - 1);
        let invented = (0..i64::from(u16::MAX))
            .map(|n| Name::from(n.to_string()))
            .find(|name| requirement.allows(name) && !asked.contains(name));
        asked.extend(invented);
        let ids = asked.iter().map(|value| self.keys.values[index].id(value));
        ids.collect()
    }
}
