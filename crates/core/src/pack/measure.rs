//! Machines made to measure: which sizes are looked at, what they cost, and how far one shrinks to fit its pods.

use crate::money::Money;
use crate::problem::{Host, Range};
use crate::resources::{self, Resources};

/// How many sizes of each resource are looked at while packing. Machines are cut to the exact step afterwards.
const SIZES: i64 = 8;

/// Resources whose size is chosen.
const SCALED: [&str; 2] = [resources::CPU, resources::MEMORY];

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

/// The smallest size of one resource that holds `need`, or `None` if the largest does not.
fn step_up(range: &Range, resource: &str, need: i64, most: i64) -> Option<i64> {
    let least = range.min.get(resource);
    let step = range.step.get(resource);
    if need <= least {
        return (least <= most).then_some(least);
    }
    if step <= 0 {
        let all = range.max.get(resource);
        return (need <= all && all <= most).then_some(all);
    }
    let size = least + (need - least + step - 1) / step * step;
    (size <= most).then_some(size)
}

/// The largest size of one resource that a host can still give.
fn largest(range: &Range, host: &Host, resource: &str) -> Option<i64> {
    let most = range.max.get(resource);
    let most = if host.free.contains(resource) {
        most.min(host.free.get(resource))
    } else {
        most
    };
    let (least, step) = (range.min.get(resource), range.step.get(resource));
    if most < least {
        return None;
    }
    if step <= 0 {
        let all = range.max.get(resource);
        return (all <= most).then_some(all);
    }
    Some(least + (most - least) / step * step)
}

/// The smallest machine on a host that has at least `need` (overhead not included), if there is one.
pub(crate) fn fit(range: &Range, host: &Host, need: &Resources) -> Option<Resources> {
    let mut size = range.max.clone();
    for resource in SCALED {
        let wanted = need.get(resource) + range.overhead.get(resource);
        let most = largest(range, host, resource)?;
        size.set(resource, step_up(range, resource, wanted, most)?);
    }
    Some(size)
}

/// The sizes to look at on a host, smallest first.
pub(crate) fn sizes(range: &Range, host: &Host) -> Vec<Resources> {
    let grid = |resource: &str| -> Vec<i64> {
        let Some(most) = largest(range, host, resource) else {
            return Vec::new();
        };
        let least = range.min.get(resource);
        let mut sizes: Vec<i64> = (0..SIZES)
            .filter_map(|index| {
                // Quadratic spacing: small machines differ more from each other than large ones.
                let need = least + (most - least) / (SIZES - 1) * index / (SIZES - 1) * index;
                step_up(range, resource, need, most)
            })
            .chain([most])
            .collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    };
    let mut all = Vec::new();
    for cpu in grid(resources::CPU) {
        for memory in grid(resources::MEMORY) {
            let mut size = range.max.clone();
            size.set(resources::CPU, cpu);
            size.set(resources::MEMORY, memory);
            all.push(size);
        }
    }
    all
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
        let sizes = sizes(&range(), &host(4, 8));
        assert!(sizes.iter().all(|one| one.get(resources::CPU) <= 4000));
        assert!(sizes.contains(&size(4, 8).with(resources::PODS, 110)));
        assert!(sizes.contains(&size(1, 1).with(resources::PODS, 110)));
    }
}
