//! What a plan leaves for sale.

use super::{Launch, Purchase};
use crate::labels;
use crate::name::Name;
use crate::problem::{CapacityType, Catalog, Offering, Quota};
use crate::resources::Resources;

/// A machine that is bought, or as good as bought.
#[derive(Clone, Copy, Debug)]
pub struct Sale<'a> {
    /// What is bought.
    pub purchase: &'a Purchase,
    /// What the machine has.
    pub capacity: &'a Resources,
    /// Region of its node, if known.
    pub region: Option<&'a Name>,
}

impl<'a> From<&'a Launch> for Sale<'a> {
    fn from(launch: &'a Launch) -> Self {
        Sale {
            purchase: &launch.purchase,
            capacity: &launch.capacity,
            region: launch.labels.get(labels::REGION),
        }
    }
}

/// Takes a machine off what is left of its offering, reservation, stock, range, host and quotas. What has a name of its
/// own, as reservations, stocks and quotas have, is taken off in every catalogue.
pub fn take(catalogs: &mut [Catalog], sale: Sale<'_>) {
    let taken = Taken::by(catalogs, sale);
    for catalog in catalogs {
        let own = catalog.name == sale.purchase.catalog;
        for kind in &mut catalog.types {
            for offering in &mut kind.offerings {
                let same = match (&taken.stock, &sale.purchase.reservation) {
                    (Some(stock), _) if offering.stock.as_ref() == Some(stock) => true,
                    (_, Some(id)) => offering.reservation.as_ref() == Some(id),
                    (_, None) => own && is_bought(sale, &kind.name, offering),
                };
                if same {
                    offering.left = offering.left.map(|left| left.saturating_sub(1));
                }
            }
        }
        for range in &mut catalog.ranges {
            if own && range.name == sale.purchase.instance_type {
                range.left = range.left.map(|left| left.saturating_sub(1));
            }
            for host in &mut range.hosts {
                let same = if let Some(stock) = &taken.host_stock {
                    host.stock == *stock
                } else {
                    let named = Some(&host.name) == sale.purchase.host.as_ref();
                    own && named && host.stock.is_empty()
                };
                if same {
                    // What a host does not list is not scarce.
                    let free = host.free.iter();
                    host.free = free
                        .map(|(name, free)| (name.clone(), free - sale.capacity.get(name)))
                        .collect();
                }
            }
        }
        let quotas = catalog.quotas.iter_mut();
        for quota in quotas.filter(|quota| taken.quotas.contains(&quota.name)) {
            let left = quota.left.iter();
            let rest = |(name, left): (&Name, i64)| {
                let rest = left - Quota::taken(name, sale.capacity);
                (name.clone(), rest.max(0))
            };
            quota.left = left.map(rest).collect();
        }
    }
}

/// What a sale takes that has a name of its own.
struct Taken {
    stock: Option<Name>,
    host_stock: Option<Name>,
    quotas: Vec<Name>,
}

impl Taken {
    fn by(catalogs: &[Catalog], sale: Sale<'_>) -> Self {
        let purchase = sale.purchase;
        let mut own = catalogs.iter().filter(|one| one.name == purchase.catalog);
        let catalog = own.next();
        let mut types = catalog.iter().flat_map(|one| &one.types);
        let kind = types.find(|kind| kind.name == purchase.instance_type);
        let mut offerings = kind.iter().flat_map(|kind| &kind.offerings);
        let offering =
            offerings.find(|offering| is_bought(sale, &purchase.instance_type, offering));
        let ranges = catalog.iter().flat_map(|one| &one.ranges);
        let mut hosts = ranges
            .filter(|range| range.name == purchase.instance_type)
            .flat_map(|range| &range.hosts);
        let host = hosts.find(|host| Some(&host.name) == purchase.host.as_ref());
        Taken {
            stock: offering.and_then(|offering| offering.stock.clone()),
            host_stock: host
                .filter(|host| !host.stock.is_empty())
                .map(|host| host.stock.clone()),
            quotas: kind.map(|kind| kind.quotas.clone()).unwrap_or_default(),
        }
    }
}

/// Whether a sale is of this offering of a type.
pub fn is_bought(sale: Sale<'_>, kind: &Name, offering: &Offering) -> bool {
    let purchase = sale.purchase;
    *kind == purchase.instance_type
        && offering.reservation == purchase.reservation
        && offering.zone == purchase.zone
        && offering.capacity_type == purchase.capacity_type
        && sale
            .region
            .is_none_or(|region| offering.region.is_empty() || offering.region == *region)
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
