//! Machines of custom size: which sizes are looked at, what they cost, and how far one shrinks to fit its pods.

use std::collections::BTreeSet;

use crate::money::Money;
use crate::name::Labels;
use crate::pack::compile::demand::Demand;
use crate::pack::compile::labels::Keys;
use crate::problem::{Host, InstanceType, PoolId, Problem, Range};
use crate::resources::{self, Resources};

/// How many sizes of processors and memory are looked at while packing, beside those that pods ask for. Machines are sized
/// to the exact step afterwards.
const SIZES: i64 = 8;
/// How many of any other resource that pods ask for.
const FEW_SIZES: i64 = 4;
/// For how many different pods alone a size is made.
const SINGLES: usize = 48;

/// What a machine of this size costs.
pub(crate) fn price(range: &Range, size: &Resources) -> Money {
    let part = |unit: Money, amount: i64, per: i64| {
        let nanos = i128::from(unit.nanos()) * i128::from(amount) / i128::from(per);
        Money::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX / 4))
    };
    let prices = &range.prices;
    prices.machine
        + part(prices.core, size.get(resources::CPU), 1000)
        + part(prices.memory_gib, size.get(resources::MEMORY), 1 << 30)
}

/// What a machine of this size leaves for pods and daemons.
pub(crate) fn allocatable(range: &Range, size: &Resources) -> Resources {
    InstanceType {
        name: range.name.clone(),
        labels: Labels::new(),
        capacity: size.clone(),
        overhead: range.overhead.clone(),
        offerings: Vec::new(),
        quotas: Vec::new(),
    }
    .allocatable()
}

/// What daemons take of a machine with these label values.
pub(crate) fn daemons(problem: &Problem, keys: &Keys, pool: PoolId, values: &[u32]) -> Resources {
    let mut all = Resources::new();
    for daemon in &problem.daemon_sets {
        let Ok(demand) = Demand::daemon(daemon) else {
            continue;
        };
        let taints = &problem.pool_at(pool).taints;
        let here = [values];
        let runs = !demand.admits(keys, &here.iter().copied()).is_empty();
        if runs && demand.tolerated.refuses(taints).is_none() {
            all.add(&daemon.spec.requests);
        }
    }
    all
}

/// Sizes of one resource that a host can give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SizeSteps {
    pub(crate) least: i64,
    /// How many sizes there are above the least.
    pub(crate) count: i64,
    step: i64,
}

impl SizeSteps {
    /// `None` if the host has too little for the smallest machine.
    pub(crate) fn of(range: &Range, host: &Host, resource: &str) -> Option<Self> {
        let all = range.max.get(resource);
        let most = if host.free.contains(resource) {
            all.min(host.free.get(resource))
        } else {
            all
        };
        let step = range.step.get(resource);
        let least = if step > 0 {
            range.min.get(resource)
        } else {
            all
        };
        (least <= most).then(|| SizeSteps {
            least,
            count: if step > 0 { (most - least) / step } else { 0 },
            step,
        })
    }

    pub(crate) fn at(self, index: i64) -> i64 {
        self.least + index.clamp(0, self.count) * self.step
    }

    /// The first that suffices.
    pub(crate) fn holding(self, need: i64) -> Option<i64> {
        let index = if need <= self.least {
            0
        } else if self.step > 0 {
            (need - self.least + self.step - 1) / self.step
        } else {
            return None;
        };
        (index <= self.count).then_some(index)
    }
}

/// Resources of a range: memory last, because huge pages are cut from it.
pub(crate) fn sized(range: &Range) -> Vec<&str> {
    let names = range.max.iter().chain(range.step.iter());
    let names: BTreeSet<&str> = names.map(|(name, _)| &**name).collect();
    let others = names
        .into_iter()
        .filter(|name| ![resources::CPU, resources::MEMORY].contains(name));
    let mut all: Vec<&str> = [resources::CPU].into_iter().chain(others).collect();
    all.push(resources::MEMORY);
    all
}

/// Memory that huge pages of a machine take.
fn huge_pages(range: &Range, size: &Resources) -> i64 {
    let pages = size
        .iter()
        .filter(|(name, _)| name.starts_with("hugepages-"));
    let pages: i64 = pages
        .map(|(name, amount)| amount - range.overhead.get(name))
        .sum();
    pages.max(0)
}

/// The smallest machine on a host that has at least `need` (overhead not included), if there is one.
pub(crate) fn fit(range: &Range, host: &Host, need: &Resources) -> Option<Resources> {
    let mut size = range.max.clone();
    for resource in sized(range) {
        let mut wanted = need.get(resource) + range.overhead.get(resource);
        if resource == resources::MEMORY {
            wanted += huge_pages(range, &size);
        }
        let steps = SizeSteps::of(range, host, resource)?;
        size.set(resource, steps.at(steps.holding(wanted)?));
    }
    allocatable(range, &size).fits(need).then_some(size)
}

/// Different pods that machines may be made for, one by one.
pub(crate) fn singles(problem: &Problem) -> Vec<Resources> {
    if problem
        .catalogs
        .iter()
        .all(|catalog| catalog.ranges.is_empty())
    {
        return Vec::new();
    }
    let bound = problem.nodes.iter().flat_map(|node| &node.pods);
    let all: BTreeSet<&Resources> = problem
        .pods
        .iter()
        .chain(bound)
        .map(|pod| &pod.spec.requests)
        .collect();
    let apart = all.len().div_ceil(SINGLES).max(1);
    all.into_iter().step_by(apart).cloned().collect()
}

/// The sizes to look at on a host: some between the smallest machine with room beside `daemons` and the largest, and
/// those that hold one of `singles` each.
pub(crate) fn sizes(
    range: &Range,
    host: &Host,
    daemons: &Resources,
    singles: &[Resources],
) -> Vec<Resources> {
    let mut all = vec![range.max.clone()];
    for resource in sized(range) {
        let Some(steps) = SizeSteps::of(range, host, resource) else {
            return Vec::new();
        };
        let asked = || singles.iter().any(|pod| pod.get(resource) > 0);
        let parts = match resource {
            resources::CPU | resources::MEMORY => SIZES,
            _ if asked() => FEW_SIZES,
            _ => 1,
        };
        let least = daemons.get(resource) + range.overhead.get(resource);
        let values = spaced(steps, steps.holding(least).unwrap_or(0), parts);
        let more = all.iter().flat_map(|size| {
            let values = values.iter();
            values.map(|value| size.clone().with(resource, *value))
        });
        all = more.collect();
    }
    for pod in singles {
        let mut need = pod.clone();
        need.add(daemons);
        all.extend(fit(range, host, &need));
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// So many sizes from a first one up to the largest. Quadratic spacing: small machines differ more from each other than
/// large ones.
fn spaced(steps: SizeSteps, first: i64, parts: i64) -> Vec<i64> {
    if parts == 1 {
        return vec![steps.at(first)];
    }
    let (span, last) = (steps.count - first, parts - 1);
    let mut values: Vec<i64> = (0..parts)
        .map(|part| steps.at(first + span.max(0) * part * part / (last * last)))
        .collect();
    values.dedup();
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{CapacityType, UnitPrices};

    const GIB: i64 = 1 << 30;

    fn size(cores: i64, gib: i64) -> Resources {
        Resources::new()
            .with(resources::CPU, cores * 1000)
            .with(resources::MEMORY, gib * GIB)
    }

    fn range() -> Range {
        Range {
            name: "vm".into(),
            labels: crate::name::Labels::new(),
            region: "".into(),
            capacity_type: CapacityType::OnDemand,
            min: size(1, 1).with(resources::PODS, 110),
            max: size(16, 64).with(resources::PODS, 110),
            step: size(1, 1),
            overhead: Resources::new().with(resources::MEMORY, GIB / 2),
            prices: UnitPrices {
                machine: Money::from_nanos(5),
                core: Money::from_nanos(100),
                memory_gib: Money::from_nanos(10),
            },
            hosts: Vec::new(),
            left: None,
        }
    }

    fn host(cores: i64, gib: i64) -> Host {
        Host {
            name: "rack-1".into(),
            zone: "z".into(),
            free: size(cores, gib),
            stock: "".into(),
        }
    }

    #[test]
    fn a_machine_is_cut_to_the_next_step_above_its_pods_and_overhead() {
        let need = Resources::new()
            .with(resources::CPU, 2500)
            .with(resources::MEMORY, 4 * GIB);
        let cut = fit(&range(), &host(32, 128), &need).unwrap();
        assert_eq!(cut.get(resources::CPU), 3000);
        assert_eq!(cut.get(resources::MEMORY), 5 * GIB);
        assert_eq!(cut.get(resources::PODS), 110);
        assert_eq!(price(&range(), &cut), Money::from_nanos(5 + 300 + 50));
    }

    #[test]
    fn no_machine_is_larger_than_what_its_host_has_left() {
        let need = Resources::new().with(resources::CPU, 5000);
        assert_eq!(fit(&range(), &host(4, 128), &need), None);
        let sizes = sizes(&range(), &host(4, 8), &Resources::new(), &[]);
        assert!(sizes.iter().all(|one| one.get(resources::CPU) <= 4000));
        assert!(sizes.contains(&size(4, 8).with(resources::PODS, 110)));
        assert!(sizes.contains(&size(1, 1).with(resources::PODS, 110)));
    }
}
