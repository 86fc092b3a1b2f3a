//! Headroom as a catalogue: machines of any size that a host can still hold.

use std::collections::BTreeMap;

use joiner_core::labels;
use joiner_core::money::Money;
use joiner_core::name::{Labels, Name};
use joiner_core::problem::{CapacityType, Catalog, Host, Range, UnitPrices};
use joiner_core::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources};

use super::ProxmoxOptions;
use super::headroom::Headroom;
use super::settings::{Size, largest_disk};

/// How many pods a kubelet runs unless told otherwise.
const MAX_PODS: i64 = 110;
/// Memory grows in steps of this many MiB: fine enough to waste little, coarse enough that sizes repeat.
const STEP_MIB: u64 = 256;
/// The smallest machine that is worth its kubelet, in MiB, beside what the class sets aside.
const LEAST_MIB: u64 = 1024;

/// What the class sells. Hosts that differ in threads are ranges of their own, since no machine may have more cores
/// than its host has threads.
pub fn catalog(
    options: &ProxmoxOptions,
    cluster: &str,
    rooms: &[Headroom],
    ids_left: u32,
) -> Catalog {
    let mut groups: BTreeMap<u32, Vec<&Headroom>> = BTreeMap::new();
    for room in rooms.iter().filter(|room| room.cpus > 0) {
        groups.entry(room.cpus).or_default().push(room);
    }
    let ranges = groups
        .into_iter()
        .filter_map(|(cpus, rooms)| range(options, cluster, cpus, &rooms, ids_left))
        .collect();
    Catalog {
        name: options.catalog.clone(),
        ranges,
        ..Catalog::default()
    }
}

/// Name of the machines that are cut from hosts with so many threads.
pub fn instance_type(cpus: u32) -> Name {
    format!("proxmox-{cpus}").into()
}

fn range(
    options: &ProxmoxOptions,
    cluster: &str,
    cpus: u32,
    rooms: &[&Headroom],
    ids_left: u32,
) -> Option<Range> {
    let sizes = &options.sizes;
    let overhead = options.vm_mem_overhead_mib;
    let least = Size {
        cores: sizes.min_cores.unwrap_or(1).max(1),
        memory_mib: sizes
            .min_memory_mib
            .unwrap_or(LEAST_MIB + overhead)
            .max(overhead + 1),
    };
    let largest = rooms
        .iter()
        .map(|room| room.largest)
        .max()
        .unwrap_or_default();
    let largest = u64::try_from(largest >> 20).unwrap_or_default();
    let most = Size {
        cores: sizes.max_cores.unwrap_or(cpus).min(cpus),
        memory_mib: sizes.max_memory_mib.unwrap_or(largest).min(largest),
    };
    if most.cores < least.cores || most.memory_mib < least.memory_mib {
        return None;
    }
    let hosts = rooms
        .iter()
        .map(|room| {
            let fit = room.unfit.is_none();
            let free = |amount: i64| if fit { amount } else { 0 };
            Host {
                name: room.host.as_str().into(),
                zone: room.zone.as_str().into(),
                free: Resources::new()
                    .with(CPU, free(room.cpu))
                    .with(MEMORY, free(room.memory)),
                // Whichever classes and families name this cluster, it is one host.
                stock: format!("proxmox/{cluster}/{}", room.host).into(),
            }
        })
        .collect();
    Some(Range {
        name: instance_type(cpus),
        labels: machine_labels(),
        region: cluster.into(),
        capacity_type: CapacityType::OnDemand,
        min: capacity(options, least),
        max: capacity(options, most),
        step: Resources::new()
            .with(CPU, 1000)
            .with(MEMORY, i64::try_from(STEP_MIB << 20).unwrap_or(i64::MAX)),
        overhead: reserved(options),
        prices: options.prices,
        hosts,
        left: Some(ids_left),
    })
}

/// Labels of every machine.
pub fn machine_labels() -> Labels {
    Labels::from([
        (labels::ARCH.into(), "amd64".into()),
        (labels::OS.into(), "linux".into()),
    ])
}

/// What a machine of this size has.
pub fn capacity(options: &ProxmoxOptions, size: Size) -> Resources {
    let mut capacity = Resources::new()
        .with(CPU, size.cpu())
        .with(MEMORY, size.memory())
        .with(PODS, MAX_PODS);
    if let Some(gib) = largest_disk(options) {
        capacity.set(
            EPHEMERAL_STORAGE,
            i64::try_from(gib << 30).unwrap_or(i64::MAX),
        );
    }
    capacity
}

/// What system and kubelet keep of a machine.
pub fn reserved(options: &ProxmoxOptions) -> Resources {
    let bytes = i64::try_from(options.vm_mem_overhead_mib << 20).unwrap_or(i64::MAX);
    Resources::new().with(MEMORY, bytes)
}

/// What a machine of this size is worth per hour.
pub fn price(prices: &UnitPrices, size: Size) -> Money {
    let part = |price: Money, amount: i64, unit: i64| {
        let nanos = i128::from(price.nanos()) * i128::from(amount) / i128::from(unit);
        Money::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
    };
    prices
        .machine
        .saturating_add(part(prices.core, size.cpu(), 1000))
        .saturating_add(part(prices.memory_gib, size.memory(), 1 << 30))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxmox::testing::options;

    fn room(host: &str, cpus: u32) -> Headroom {
        Headroom {
            host: host.to_owned(),
            zone: host.to_owned(),
            cpus,
            largest: 62 << 30,
            cpu: 10_000,
            memory: 20 << 30,
            unfit: None,
        }
    }

    #[test]
    fn hosts_of_one_kind_are_one_range() {
        let mut offline = room("n2", 16);
        offline.unfit = Some("host n2 is offline".to_owned());
        let rooms = [room("n1", 16), offline, room("n3", 8)];
        let sold = catalog(&options(), "pve", &rooms, 51);
        let names: Vec<&str> = sold.ranges.iter().map(|one| &*one.name).collect();
        assert_eq!(names, ["proxmox-8", "proxmox-16"]);
        let large = &sold.ranges[1];
        assert_eq!(large.max.get(CPU), 16_000);
        assert_eq!(large.hosts[0].free.get(MEMORY), 20 << 30);
        assert_eq!(
            large.hosts[1].free.get(MEMORY),
            0,
            "listed, and has nothing to give"
        );
        assert!(
            large.hosts[1].free.contains(MEMORY),
            "nothing is not the same as not scarce"
        );
        assert_eq!(large.left, Some(51));
        assert_eq!(&*large.region, "pve");
        assert_eq!(&*large.hosts[0].stock, "proxmox/pve/n1");
    }

    #[test]
    fn sizes_are_the_classes_within_what_hosts_have() {
        let mut options = options();
        options.vm_mem_overhead_mib = 2048;
        let sold = catalog(&options, "pve", &[room("n1", 16)], 1);
        assert_eq!(sold.ranges[0].min.get(MEMORY), 3 << 30);
        assert_eq!(sold.ranges[0].overhead.get(MEMORY), 2 << 30);
        options.sizes.max_cores = Some(64);
        options.sizes.min_cores = Some(4);
        options.sizes.max_memory_mib = Some(8192);
        let sold = catalog(&options, "pve", &[room("n1", 16)], 1);
        assert_eq!(
            (sold.ranges[0].min.get(CPU), sold.ranges[0].max.get(CPU)),
            (4000, 16_000)
        );
        assert_eq!(sold.ranges[0].max.get(MEMORY), 8 << 30);
        options.sizes.min_cores = Some(32);
        assert!(
            catalog(&options, "pve", &[room("n1", 16)], 1)
                .ranges
                .is_empty()
        );
    }

    #[test]
    fn a_machine_costs_its_cores_and_its_memory() {
        let prices = UnitPrices {
            machine: Money::ZERO,
            core: Money::from_dollars(0.01),
            memory_gib: Money::from_dollars(0.001),
        };
        let size = Size {
            cores: 4,
            memory_mib: 8192,
        };
        assert_eq!(price(&prices, size), Money::from_dollars(0.048));
    }
}
