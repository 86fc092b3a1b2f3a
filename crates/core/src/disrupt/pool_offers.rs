//! What a machine like the ones that there are costs today, for pools whose nodes go for their price alone.

use std::collections::BTreeMap;

use crate::labels;
use crate::money::Money;
use crate::name::{Labels, Name};
use crate::problem::{InstanceType, Node, Offering, Pool, Problem};
use crate::requirements::Requirements;
use crate::resources::{EPHEMERAL_STORAGE, PODS, Resources};

/// What each pool can buy today: how large, and for how much.
pub(super) struct OffersByPool(Vec<PoolOffers>);

/// What one pool can buy today; empty unless it asks for price alone to be reason enough.
struct PoolOffers {
    sizes: BTreeMap<Name, Resources>,
    offers: Vec<(Resources, Money)>,
    min_savings: u32,
}

impl OffersByPool {
    pub(super) fn new(problem: &Problem) -> Self {
        OffersByPool(
            problem
                .pools
                .iter()
                .map(|pool| pool_offers(problem, pool))
                .collect(),
        )
    }

    /// Whether as much as the node is to be had for as much less as its pool asks for: on one machine, on several of a
    /// kind, or as a part of a larger one that other nodes fill.
    pub(super) fn beat(&self, pool: usize, node: &Node) -> bool {
        let (Some(pool_offers), Some(price)) = (self.0.get(pool), node.price) else {
            return false;
        };
        let most = price - price.percent(pool_offers.min_savings);
        // Catalogues promise a little less than there is: like is compared with like.
        let told = pool_offers.sizes.get(&node.instance_type);
        let size = told.cloned().unwrap_or_else(|| size(&node.capacity));
        let mut costs = pool_offers
            .offers
            .iter()
            .filter_map(|(capacity, offered)| share(capacity, *offered, &size));
        costs.any(|cost| cost < price && cost <= most)
    }
}

fn pool_offers(problem: &Problem, pool: &Pool) -> PoolOffers {
    let mut pool_offers = PoolOffers {
        sizes: BTreeMap::new(),
        offers: Vec::new(),
        min_savings: pool.disruption.min_savings,
    };
    let wanted = Requirements::parse(&pool.requirements);
    let catalog = problem.catalog(&pool.catalog);
    let (true, None, Ok(wanted), Some(catalog)) = (
        pool.disruption.price_replacement,
        &pool.closed,
        wanted,
        catalog,
    ) else {
        return pool_offers;
    };
    let decided = catalog.decided();
    let open = |key: &str| !decided.contains(key);
    for kind in &catalog.types {
        let cheapest = kind
            .offerings
            .iter()
            .filter(|offering| offering.available)
            .filter(|offering| {
                let has = Requirements::from_labels(&offered(pool, kind, offering));
                has.compatible(&wanted, open).is_ok()
            })
            .map(|offering| offering.price)
            .min();
        let size = size(&kind.capacity);
        pool_offers.sizes.insert(kind.name.clone(), size.clone());
        pool_offers
            .offers
            .extend(cheapest.map(|price| (size, price)));
    }
    pool_offers
}

/// What makes one machine as good as another. Whether disk and number of pods suffice shows when pods are placed.
fn size(capacity: &Resources) -> Resources {
    let counts = |name: &str| !matches!(name, PODS | EPHEMERAL_STORAGE);
    capacity
        .iter()
        .filter(|(name, _)| counts(name))
        .map(|(name, amount)| (name.clone(), amount))
        .collect()
}

/// What the part of such machines costs that is as large as this.
fn share(capacity: &Resources, price: Money, size: &Resources) -> Option<Money> {
    let mut most = Money::ZERO;
    for (name, amount) in size.iter().filter(|(_, amount)| *amount > 0) {
        let (amount, of) = (i128::from(amount), i128::from(capacity.get(name)));
        if of <= 0 {
            return None;
        }
        let nanos = i128::from(price.nanos());
        let cost = if amount > of {
            nanos.saturating_mul((amount + of - 1) / of)
        } else {
            nanos.saturating_mul(amount) / of
        };
        most = most.max(Money::from_nanos(i64::try_from(cost).ok()?));
    }
    Some(most)
}

/// The labels that a machine of this kind would have.
fn offered(pool: &Pool, kind: &InstanceType, offering: &Offering) -> Labels {
    let paid: &str = offering.capacity_type.into();
    let unlabelled = Name::default();
    let mut all = pool.labels.clone();
    all.extend(kind.labels.clone());
    for (key, value) in [
        (
            labels::NODEPOOL,
            pool.nodepool_label().unwrap_or(&unlabelled),
        ),
        (labels::INSTANCE_TYPE, &kind.name),
        (labels::ZONE, &offering.zone),
        (labels::REGION, &offering.region),
        (labels::CAPACITY_TYPE, &Name::from(paid)),
    ] {
        if !value.is_empty() {
            all.insert(key.into(), value.clone());
        }
    }
    all
}
