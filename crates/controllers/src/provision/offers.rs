//! What a plan says to buy, as it is written on a machine object.

use joiner_core::labels;
use joiner_core::name::Labels;
use joiner_core::plan::{Launch, Purchase};
use joiner_core::problem::{Pod, PodSpec, Pool, Problem};
use joiner_core::resources::{PODS, Resources};

use crate::context::Context;
use crate::market::terms::base_catalog;
use crate::record::Offer;

/// How many alternatives are kept: an object must stay small, and a machine that is refused so often needs a new plan.
const ALTERNATIVES: usize = 15;

/// The purchase of a launch and its alternatives, with what each of them brings.
pub(crate) fn offers(problem: &Problem, launch: &Launch) -> Vec<Offer> {
    std::iter::once(&launch.purchase)
        .chain(launch.alternatives.iter())
        .take(ALTERNATIVES + 1)
        .map(|purchase| offer(problem, launch, purchase))
        .collect()
}

fn offer(problem: &Problem, launch: &Launch, purchase: &Purchase) -> Offer {
    let catalog = problem.catalog(&purchase.catalog);
    let fixed = catalog.and_then(|one| {
        one.types
            .iter()
            .find(|one| one.name == purchase.instance_type)
    });
    let range = catalog.and_then(|one| {
        one.ranges
            .iter()
            .find(|one| one.name == purchase.instance_type)
    });
    let (capacity, allocatable, own, region) = match (fixed, range) {
        (Some(one), _) => {
            let there = |place: &&joiner_core::problem::Offering| {
                place.zone == purchase.zone && place.capacity_type == purchase.capacity_type
            };
            let region = one
                .offerings
                .iter()
                .find(there)
                .map(|place| place.region.clone());
            (
                one.capacity.clone(),
                one.allocatable(),
                one.labels.clone(),
                region,
            )
        }
        (None, Some(range)) => {
            let mut left = launch.capacity.clone();
            left.subtract(&range.overhead);
            (
                launch.capacity.clone(),
                left,
                range.labels.clone(),
                Some(range.region.clone()),
            )
        }
        (None, None) => (
            launch.capacity.clone(),
            launch.capacity.clone(),
            Labels::new(),
            None,
        ),
    };
    let mut labels = own;
    let capacity_type: &str = purchase.capacity_type.into();
    labels.insert(labels::INSTANCE_TYPE.into(), purchase.instance_type.clone());
    labels.insert(labels::ZONE.into(), purchase.zone.clone());
    labels.insert(labels::CAPACITY_TYPE.into(), capacity_type.into());
    if let Some(region) = region.filter(|region| !region.is_empty()) {
        labels.insert(labels::REGION.into(), region);
    }
    let mut purchase = purchase.clone();
    purchase.catalog = base_catalog(&purchase.catalog);
    Offer {
        purchase,
        capacity,
        allocatable,
        labels,
    }
}

/// One pod that needs a machine of its own.
pub(super) fn single(
    context: &Context,
    catalog: joiner_core::problem::Catalog,
    pool: Pool,
    mut requests: Resources,
) -> Problem {
    // Daemons are part of what the object asks for already: no daemon set goes into this problem.
    if requests.get(PODS) == 0 {
        requests.set(PODS, 1);
    }
    let spec = PodSpec {
        namespace: "default".into(),
        requests,
        tolerations: vec![joiner_core::taints::Toleration::everything()],
        ..PodSpec::default()
    };
    Problem {
        name: "one machine".into(),
        now: Some(context.now()),
        catalogs: vec![catalog],
        pools: vec![pool],
        pods: vec![Pod::new("machine", spec)],
        settings: context.settings.core.clone(),
        ..Problem::default()
    }
}
