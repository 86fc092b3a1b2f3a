//! What a plan leaves for sale.

use super::Launch;
use crate::labels;
use crate::name::Name;
use crate::problem::{CapacityType, Catalog};

/// Takes a machine off what is left of its offering, reservation, range and host.
pub(crate) fn take(catalogs: &mut [Catalog], launch: &Launch) {
    let purchase = &launch.purchase;
    let catalogs = catalogs.iter_mut();
    for catalog in catalogs.filter(|catalog| catalog.name == purchase.catalog) {
        for kind in &mut catalog.types {
            for offering in &mut kind.offerings {
                let same = match &purchase.reservation {
                    Some(id) => offering.reservation.as_ref() == Some(id),
                    None => {
                        kind.name == purchase.instance_type
                            && offering.reservation.is_none()
                            && offering.zone == purchase.zone
                            && offering.capacity_type == purchase.capacity_type
                            && launch.labels.get(labels::REGION).is_none_or(|region| {
                                offering.region.is_empty() || offering.region == *region
                            })
                    }
                };
                if same {
                    offering.left = offering.left.map(|left| left.saturating_sub(1));
                }
            }
        }
        for range in &mut catalog.ranges {
            if range.name == purchase.instance_type {
                range.left = range.left.map(|left| left.saturating_sub(1));
            }
            for host in &mut range.hosts {
                if Some(&host.name) == purchase.host.as_ref() {
                    // What a host does not list is not scarce.
                    let free = host.free.iter();
                    host.free = free
                        .map(|(name, free)| (name.clone(), free - launch.capacity.get(name)))
                        .collect();
                }
            }
        }
    }
}

/// Leaves of spot offerings that were bought what a share of so many percent of the machines so far still allows: what
/// comes later may be too few machines for more.
pub(crate) fn hold_shares(catalogs: &mut [Catalog], percent: u32, launches: &[Launch]) {
    let most = launches.len() * percent as usize / 100;
    for catalog in catalogs {
        let bought = |kind: &Name, zone: &Name| {
            let own = launches.iter().map(|launch| &launch.purchase);
            own.filter(|one| one.catalog == catalog.name && one.instance_type == *kind)
                .filter(|one| one.zone == *zone && one.capacity_type == CapacityType::Spot)
                .count()
        };
        let still = |count: usize| u32::try_from(most.saturating_sub(count)).unwrap_or(u32::MAX);
        for kind in &mut catalog.types {
            for offering in &mut kind.offerings {
                let count = bought(&kind.name, &offering.zone);
                if count > 0 && offering.capacity_type == CapacityType::Spot {
                    let left = still(count);
                    offering.left = Some(offering.left.map_or(left, |known| known.min(left)));
                }
            }
        }
        for range in &mut catalog.ranges {
            let zones = range.hosts.iter().map(|host| &host.zone);
            let count = zones.map(|zone| bought(&range.name, zone)).max();
            let count = count.unwrap_or_default();
            if count > 0 && range.capacity_type == CapacityType::Spot {
                let left = still(count);
                range.left = Some(range.left.map_or(left, |known| known.min(left)));
            }
        }
    }
}
