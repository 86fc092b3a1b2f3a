//! Every single way to buy a machine: pool, type and offering, with the labels the node will have.

use crate::pack::compile::ids::DemandId;
use std::collections::BTreeSet;

use crate::labels;
use crate::money::Money;
use crate::name::{Labels, Name};
use crate::pack::compile::columns::beats;
use crate::pack::compile::demand::Demand;
use crate::pack::compile::groups::Groups;
use crate::pack::compile::labels::{ABSENT, Keys};
use crate::pack::compile::sizing;
use crate::pack::compile::supply::{CounterId, Scarce, Supply, Uses};
use crate::pack::compile::variants::Variants;
use crate::pack::dense::intern::{FixedMap, Interner};
use crate::pack::dense::vector::{Table, Vector};
use crate::plan::Purchase;
use crate::problem::{
    CapacityType, Catalog, Host, InstanceType, Offering, Pool, PoolId, Problem, Quota, Range,
};
use crate::requirements::Requirements;
use crate::resources::Resources;

/// So many that it does not matter; what a share comes to is known only when machines are counted.
pub(crate) const UNBOUNDED: i64 = 1 << 40;

/// Prices beyond are compared as this one, $140,000 an hour: no user means to pay them, and the sum over tens of
/// thousands of machines is still a number.
const DEAREST: i64 = i64::MAX >> 16;

/// A pool with more offers than this, all its variants together, keeps only those that can be the best.
const CROWD: usize = 1 << 17;
/// And no pool has more than these: memory and time are not endless. Pods that wait longest come first.
const MAX_OFFERS: usize = 1 << 18;

/// What is bought.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Item {
    /// An offering of a type, by index.
    Fixed { instance_type: u32, offering: u32 },
    /// A size of a range on a host, by index.
    Custom { range: u32, host: u32 },
}

/// One way to buy a machine.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    /// Index among the pools of the problem.
    pub(crate) pool: PoolId,
    /// Index among the catalogues of the problem.
    pub(crate) catalog: u32,
    pub(crate) item: Item,
    pub(crate) price: Money,
    /// Price, surcharge and tie-break in billionths of a dollar.
    pub(crate) cost: i64,
    /// What pods may use, daemons already taken off.
    pub(crate) room: Vector,
    /// Label values, by tracked key.
    pub(crate) values: Box<[u32]>,
    /// Which of the pool's variants gives what the catalogue leaves open.
    pub(crate) variant: u32,
    pub(crate) uses: Uses,
}

/// What is bought, as its catalogue lists it.
pub(crate) enum Sold<'p> {
    Fixed(&'p InstanceType, &'p Offering),
    Custom(&'p Range, &'p Host),
}

impl<'p> Sold<'p> {
    /// Of the type or range.
    pub(crate) fn name(&self) -> &'p Name {
        match self {
            Sold::Fixed(one, _) => &one.name,
            Sold::Custom(range, _) => &range.name,
        }
    }
}

impl Offer {
    pub(crate) fn sold<'p>(&self, problem: &'p Problem) -> Sold<'p> {
        let catalog = problem.catalog_at(self.catalog);
        match self.item {
            Item::Fixed {
                instance_type,
                offering,
            } => {
                let one = &catalog.types[instance_type as usize];
                Sold::Fixed(one, &one.offerings[offering as usize])
            }
            Item::Custom { range, host } => {
                let range = &catalog.ranges[range as usize];
                Sold::Custom(range, &range.hosts[host as usize])
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
            Sold::Custom(range, host) => {
                let name = Some(host.name.clone());
                (&range.name, &host.zone, range.capacity_type, None, name)
            }
        };
        Purchase {
            catalog: problem.catalog_at(self.catalog).name.clone(),
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
    pub(crate) pool: PoolId,
    pub(crate) requirements: Requirements,
    /// Keys of which the types left must offer several values.
    pub(crate) min_values: Vec<(Name, u32)>,
}

/// Collects offers.
pub(crate) struct OfferBuilder<'p> {
    problem: &'p Problem,
    keys: &'p mut Keys,
    table: &'p Table,
    variants: Variants<'p>,
    /// Pods that machines may be made for, one by one.
    singles: Vec<Resources>,
    pub(crate) supply: Supply,
    pub(crate) offers: Vec<Offer>,
    pub(crate) pools: Vec<PoolTerms>,
}

/// What a pool says of every machine that it buys.
struct Buyer<'a> {
    index: PoolId,
    catalog: u32,
    nodepool: Option<&'a Name>,
    requirements: &'a Requirements,
    labels: &'a Labels,
    /// Keys whose labels the catalogue decides.
    decided: &'a BTreeSet<Name>,
    limits: &'a [(CounterId, Option<Name>)],
}

struct Source<'a> {
    name: &'a Name,
    labels: &'a Labels,
    zone: &'a Name,
    region: &'a Name,
    capacity_type: CapacityType,
    reservation: Option<&'a Name>,
}

impl<'p> OfferBuilder<'p> {
    pub(crate) fn new(
        problem: &'p Problem,
        keys: &'p mut Keys,
        table: &'p Table,
        demands: &'p Interner<Demand, DemandId>,
        groups: &Groups,
    ) -> Self {
        let variants = Variants::new(problem, keys, demands, groups);
        OfferBuilder {
            problem,
            keys,
            table,
            variants,
            singles: sizing::singles(problem),
            supply: Supply::default(),
            offers: Vec::new(),
            pools: Vec::new(),
        }
    }

    /// Offers of all pools that may buy.
    pub(crate) fn build(&mut self) {
        if let Some(most) = self.problem.settings.max_new_nodes {
            self.supply.counter(Scarce::Nodes, i64::from(most));
        }
        self.count_shared();
        for (index, pool) in self.problem.pools.iter().enumerate() {
            if pool.closed.is_none() && pool.replicas.is_none() {
                self.build_pool(PoolId::at(index), pool);
            }
        }
    }

    /// Counters of what several catalogues share: the lowest figure holds, even that of a pool that buys nothing.
    fn count_shared(&mut self) {
        for catalog in &self.problem.catalogs {
            for offering in catalog.types.iter().flat_map(|one| &one.offerings) {
                if let (Some(stock), Some(left)) = (&offering.stock, offering.left) {
                    let scarce = Scarce::Stock(stock.clone());
                    self.supply.counter(scarce, i64::from(left));
                }
            }
            let hosts = catalog.ranges.iter().flat_map(|range| &range.hosts);
            for host in hosts.filter(|host| !host.stock.is_empty()) {
                for (name, free) in host.free.iter() {
                    let scarce = Scarce::Host(None, host.stock.clone(), name.clone());
                    self.supply.counter(scarce, free);
                }
            }
            for quota in &catalog.quotas {
                for (name, left) in quota.left.iter() {
                    let scarce = Scarce::Quota(quota.name.clone(), name.clone());
                    self.supply.counter(scarce, left);
                }
            }
        }
    }

    fn build_pool(&mut self, index: PoolId, pool: &'p Pool) {
        // A pool whose requirements mean nothing buys nothing; dialects refuse it before it gets here.
        let Ok(requirements) = Requirements::parse(&pool.requirements) else {
            return;
        };
        let min_values = requirements
            .iter()
            .filter_map(|(key, one)| Some((key.clone(), one.min_values()?)))
            .collect();
        let picky = requirements
            .iter()
            .any(|(_, one)| one.min_values().is_some());
        let mut labels = Labels::new();
        for (key, value) in &pool.labels {
            labels.insert(labels::canonical(key).into(), value.clone());
        }
        self.pools.push(PoolTerms {
            pool: index,
            requirements: requirements.clone(),
            min_values,
        });
        let position = self
            .problem
            .catalogs
            .iter()
            .position(|one| one.name == pool.catalog);
        let Some(catalog) = position else { return };
        // What contradicts itself no machine can be.
        if requirements.contradiction().is_some() {
            return;
        }
        let source = &self.problem.catalogs[catalog];
        let decided = source.decided();
        let build = |key: &str| !decided.contains(key) && !labels.contains_key(key);
        let variants = self.variants.of_pool(self.keys, &requirements, build);
        let limits = self.limits(index, pool);
        let buyer = Buyer {
            index,
            catalog: catalog as u32,
            nodepool: pool.nodepool_label(),
            requirements: &requirements,
            labels: &labels,
            decided: &decided,
            limits: &limits,
        };
        let first = self.offers.len();
        self.build_catalog(&buyer);
        let mut plain = self.offers.split_off(first);
        if variants.len().saturating_mul(plain.len()) > CROWD && !picky {
            plain = unbeaten(plain);
        }
        let most = MAX_OFFERS / plain.len().max(1);
        for (number, variant) in variants.iter().take(most.max(1)).enumerate() {
            self.offers.extend(plain.iter().map(|offer| {
                let mut offer = offer.clone();
                offer.variant = number as u32;
                for (key, value) in variant {
                    offer.values[*key as usize] = *value;
                }
                offer
            }));
        }
    }

    /// Counters of a pool's limits, with what its present nodes leave of them.
    fn limits(&mut self, index: PoolId, pool: &Pool) -> Vec<(CounterId, Option<Name>)> {
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
        pool: PoolId,
        limits: &[(CounterId, Option<Name>)],
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

    /// What a pool may buy, with the labels that are open left out.
    fn build_catalog(&mut self, buyer: &Buyer<'_>) {
        let problem: &'p Problem = self.problem;
        let (pool, catalog) = (buyer.index, buyer.catalog);
        let source: &'p Catalog = problem.catalog_at(catalog);
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
                let Some(values) = self.values(buyer, &place) else {
                    continue;
                };
                let mut uses = self.pool_uses(pool, buyer.limits, &one.capacity, offering.price);
                let sold = (&one.name, &offering.zone, offering.capacity_type);
                self.share_uses(&mut uses, catalog, sold);
                let at = (position as u32, index as u32);
                self.offering_uses(&mut uses, catalog, at, offering);
                self.quota_uses(&mut uses, one);
                self.offers.push(Offer {
                    pool,
                    catalog,
                    item: Item::Fixed {
                        instance_type: position as u32,
                        offering: index as u32,
                    },
                    price: offering.price,
                    cost: self.cost(offering.price),
                    room: allocatable,
                    values,
                    variant: 0,
                    uses,
                });
            }
        }
        for (position, range) in source.ranges.iter().enumerate() {
            self.build_range(buyer, position as u32, range);
        }
    }

    /// Price and surcharge, as far as they can be told apart: sums of costs must not overflow.
    fn cost(&self, price: Money) -> i64 {
        let all = price.saturating_add(self.problem.settings.node_surcharge);
        all.nanos().min(DEAREST)
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
        let stock = offering.stock.clone().map(Scarce::Stock);
        let reservation = offering.reservation.clone().map(Scarce::Reservation);
        let own = Scarce::Offering(catalog, at.0, at.1);
        let own = (stock.is_none() && reservation.is_none()).then_some(own);
        for scarce in [stock, reservation, own].into_iter().flatten() {
            uses.push((self.supply.counter(scarce, i64::from(left)), 1));
        }
    }

    /// What a machine takes of the quotas that its type counts against, those of other catalogues under the same name
    /// included.
    fn quota_uses(&self, uses: &mut Uses, one: &InstanceType) {
        for quota in &one.quotas {
            let catalogs = self.problem.catalogs.iter();
            let listed = catalogs.filter_map(|catalog| catalog.quota(quota));
            for (name, _) in listed.flat_map(|quota| quota.left.iter()) {
                let amount = Quota::taken(name, &one.capacity);
                let scarce = Scarce::Quota(quota.clone(), name.clone());
                if let Some(counter) = self.supply.find(&scarce)
                    && amount > 0
                    && uses.iter().all(|(known, _)| *known != counter)
                {
                    uses.push((counter, amount));
                }
            }
        }
    }

    fn build_range(&mut self, buyer: &Buyer<'_>, position: u32, range: &'p Range) {
        let (pool, catalog) = (buyer.index, buyer.catalog);
        for (index, host) in range.hosts.iter().enumerate() {
            let place = Source {
                name: &range.name,
                labels: &range.labels,
                zone: &host.zone,
                region: &range.region,
                capacity_type: range.capacity_type,
                reservation: None,
            };
            let Some(values) = self.values(buyer, &place) else {
                continue;
            };
            let daemons = sizing::daemons(self.problem, self.keys, pool, &values);
            for size in sizing::sizes(range, host, &daemons, &self.singles) {
                let price = sizing::price(range, &size);
                let mut uses = self.pool_uses(pool, buyer.limits, &size, price);
                for (name, free) in host.free.iter() {
                    let scarce = if host.stock.is_empty() {
                        Scarce::Host(Some(catalog), host.name.clone(), name.clone())
                    } else {
                        Scarce::Host(None, host.stock.clone(), name.clone())
                    };
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
                    item: Item::Custom {
                        range: position,
                        host: index as u32,
                    },
                    price,
                    cost: self.cost(price),
                    room: self.table.vector(&sizing::allocatable(range, &size)),
                    values: values.clone(),
                    variant: 0,
                    uses,
                });
            }
        }
    }

    /// The labels of a node, as far as some pod asks for them; `None` if the pool does not allow it.
    fn values(&mut self, buyer: &Buyer<'_>, place: &Source<'_>) -> Option<Box<[u32]>> {
        for (key, requirement) in buyer.requirements.iter() {
            let allowed = match buyer.lookup(place, key) {
                Label::Is(value) => requirement.allows(&value),
                Label::Missing => requirement.allows_absence(),
                Label::Open => true,
            };
            if !allowed {
                return None;
            }
        }
        for (key, wanted) in buyer.labels {
            if !matches!(buyer.lookup(place, key), Label::Is(value) if value == *wanted) {
                return None;
            }
        }
        let keys: Vec<Name> = self.keys.iter().cloned().collect();
        let mut values = vec![ABSENT; keys.len()].into_boxed_slice();
        for (index, key) in keys.iter().enumerate() {
            values[index] = match buyer.lookup(place, key) {
                Label::Is(value) => self.keys.values[index].id(&value),
                Label::Missing | Label::Open => ABSENT,
            };
        }
        Some(values)
    }
}

/// A label of a machine, before any pod asks for it.
enum Label {
    Is(Name),
    Missing,
    /// Not decided yet.
    Open,
}

impl Buyer<'_> {
    /// What type, offering and pool say of a label.
    fn lookup(&self, place: &Source<'_>, key: &str) -> Label {
        match key {
            labels::INSTANCE_TYPE => return Label::Is(place.name.clone()),
            labels::ZONE => return Label::Is(place.zone.clone()),
            labels::CAPACITY_TYPE => {
                let text: &'static str = place.capacity_type.into();
                return Label::Is(text.into());
            }
            labels::NODEPOOL => {
                return self.nodepool.cloned().map_or(Label::Missing, Label::Is);
            }
            labels::RESERVATION_ID => {
                return place.reservation.cloned().map_or(Label::Missing, Label::Is);
            }
            labels::HOSTNAME => return Label::Missing,
            labels::REGION if !place.region.is_empty() => {
                return Label::Is(place.region.clone());
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
        match found.or_else(|| self.labels.get(key)) {
            Some(value) => Label::Is(value.clone()),
            None if self.decided.contains(key) => Label::Missing,
            None => Label::Open,
        }
    }
}

/// Offers of one pool without those that another beats which looks the same.
fn unbeaten(mut offers: Vec<Offer>) -> Vec<Offer> {
    offers.sort_by_key(|offer| offer.cost);
    let mut fronts: FixedMap<Box<[u32]>, Vec<usize>> = FixedMap::default();
    let mut kept: Vec<Offer> = Vec::new();
    for offer in offers {
        let front = fronts.entry(offer.values.clone()).or_default();
        let beaten = front.iter().any(|other| {
            let other = &kept[*other];
            beats(
                (&other.cost, &other.room, &other.uses),
                (&offer.cost, &offer.room, &offer.uses),
            )
        });
        if !beaten {
            front.push(kept.len());
            kept.push(offer);
        }
    }
    kept
}
