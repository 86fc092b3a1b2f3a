//! What can be bought: types from a list, machines of custom size, and single hosts.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::labels;
use crate::money::Money;
use crate::name::{Labels, Name};
use crate::resources::{NODES, Resources};

/// How a machine is paid for.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::Display,
    strum::EnumString,
    strum::IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum CapacityType {
    /// Paid for in advance.
    Reserved,
    /// Cheaper, and may be taken away.
    Spot,
    /// Kept as long as it is paid for.
    #[default]
    OnDemand,
}

/// Where and how a type can be had.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Offering {
    /// Zone.
    pub zone: Name,
    /// Region; empty if the catalogue has but one.
    #[serde(default)]
    pub region: Name,
    /// How it is paid for.
    pub capacity_type: CapacityType,
    /// Dollars per hour.
    pub price: Money,
    /// Whether it can be bought at all right now.
    #[serde(default = "yes")]
    pub available: bool,
    /// How many can still be had, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<u32>,
    /// Reservation that it draws from; offerings with one id share what is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<Name>,
    /// Stock that it draws from: offerings with one stock, in whichever catalogue, share one `left`. Where they state
    /// different numbers, the lowest holds. Without one, `left` is the offering's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stock: Option<Name>,
}

fn yes() -> bool {
    true
}

/// A machine of fixed size.
///
/// A single host of an inventory is a type whose only offering has one left.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InstanceType {
    /// Unique in its catalogue; label `node.kubernetes.io/instance-type`.
    pub name: Name,
    /// Labels beside name, zone, region and capacity type; architecture and operating system among them.
    #[serde(default)]
    pub labels: Labels,
    /// What the machine has.
    pub capacity: Resources,
    /// What system and kubelet keep of it.
    #[serde(default)]
    pub overhead: Resources,
    /// Where it can be had.
    pub offerings: Vec<Offering>,
    /// Quotas of the catalogue that a machine of this type counts against.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quotas: Vec<Name>,
}

impl InstanceType {
    /// What is left for pods, daemons included. Huge pages are taken off memory.
    ///
    /// karpenter: pkg/cloudprovider/types.go, `Allocatable`
    pub fn allocatable(&self) -> Resources {
        let mut free = self.capacity.clone();
        free.subtract(&self.overhead);
        let pages: i64 = free
            .iter()
            .filter(|(name, _)| name.starts_with("hugepages-"))
            .map(|(_, amount)| amount)
            .sum();
        if pages > 0 {
            let memory = free.get(crate::resources::MEMORY);
            free.set(crate::resources::MEMORY, (memory - pages).max(0));
        }
        free
    }
}

/// What one more unit of a machine of custom size costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UnitPrices {
    /// A machine of no size.
    #[serde(default)]
    pub machine: Money,
    /// A core.
    #[serde(default)]
    pub core: Money,
    /// A GiB of memory.
    #[serde(default)]
    pub memory_gib: Money,
}

/// Something that machines of custom size are cut from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Host {
    /// Name of the host.
    pub name: Name,
    /// Zone of its machines.
    pub zone: Name,
    /// What it can still give away; resources that it does not list are not scarce.
    pub free: Resources,
    /// Stock that it is: hosts with one stock, in whichever range or catalogue, are one host and share `free`. Where they
    /// state different amounts, the lowest holds. Empty for a host that only the ranges of its catalogue share.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub stock: Name,
}

/// Machines of custom size: any size between two bounds that a host can still hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Range {
    /// Unique in its catalogue; label `node.kubernetes.io/instance-type` of machines of every size.
    pub name: Name,
    /// Labels beside zone, region and capacity type.
    #[serde(default)]
    pub labels: Labels,
    /// Region of all hosts; empty if there is but one.
    #[serde(default)]
    pub region: Name,
    /// How it is paid for.
    #[serde(default)]
    pub capacity_type: CapacityType,
    /// Smallest machine.
    pub min: Resources,
    /// Largest machine.
    pub max: Resources,
    /// Sizes grow in steps of this; resources that it does not list always have their maximum.
    pub step: Resources,
    /// What system and kubelet keep of a machine.
    #[serde(default)]
    pub overhead: Resources,
    /// Prices.
    #[serde(default)]
    pub prices: UnitPrices,
    /// What the machines are cut from.
    pub hosts: Vec<Host>,
    /// How many more machines may be made, if bounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<u32>,
}

/// A limit that several types count against: cores of a family, instances of an account.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Quota {
    /// Types refer to it by this name. Quotas of one name, in whichever catalogue, are one quota; where they state
    /// different amounts, the lowest holds.
    pub name: Name,
    /// What machines may still have together; `nodes` counts the machines themselves. Resources that it does not list are
    /// not bounded.
    pub left: Resources,
}

impl Quota {
    /// How much of a resource of a quota a machine takes.
    pub fn taken(resource: &str, capacity: &Resources) -> i64 {
        if resource == NODES {
            1
        } else {
            capacity.get(resource)
        }
    }
}

/// What one provider sells.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Catalog {
    /// Pools refer to it by this name.
    pub name: Name,
    /// Machines of fixed size and single hosts.
    pub types: Vec<InstanceType>,
    /// Machines of custom size.
    pub ranges: Vec<Range>,
    /// Limits that several types count against.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub quotas: Vec<Quota>,
}

impl Catalog {
    /// The quota of a name.
    pub fn quota(&self, name: &str) -> Option<&Quota> {
        self.quotas.iter().find(|one| &*one.name == name)
    }

    /// Names the stock of everything that is counted and has none yet, so that copies of this catalogue with other prices
    /// draw on one stock. `origin` tells catalogues of different providers apart.
    pub fn share_stock(&mut self, origin: &str) {
        for kind in &mut self.types {
            for offering in &mut kind.offerings {
                let own = offering.left.is_some() && offering.reservation.is_none();
                if own && offering.stock.is_none() {
                    let Offering { region, zone, .. } = offering;
                    let way = offering.capacity_type;
                    let stock = format!("{origin}/{}/{region}/{zone}/{way}", kind.name);
                    offering.stock = Some(stock.into());
                }
            }
        }
        for host in self.ranges.iter_mut().flat_map(|range| &mut range.hosts) {
            if host.stock.is_empty() {
                host.stock = format!("{origin}/{}", host.name).into();
            }
        }
    }

    /// Keys whose labels the catalogue decides: a machine without one of them does not have it. All others are open to
    /// pools and pods.
    pub fn decided(&self) -> BTreeSet<Name> {
        let types = self.types.iter().map(|one| &one.labels);
        let ranges = self.ranges.iter().map(|one| &one.labels);
        let own = types.chain(ranges).flat_map(Labels::keys);
        let mut decided: BTreeSet<Name> = own.map(|key| labels::canonical(key).into()).collect();
        let offerings = self.types.iter().flat_map(|one| &one.offerings);
        let mut regions = offerings
            .map(|one| &one.region)
            .chain(self.ranges.iter().map(|one| &one.region));
        if regions.any(|region| !region.is_empty()) {
            decided.insert(labels::REGION.into());
        }
        let always = [
            labels::INSTANCE_TYPE,
            labels::ZONE,
            labels::CAPACITY_TYPE,
            labels::NODEPOOL,
            labels::RESERVATION_ID,
            labels::HOSTNAME,
        ];
        decided.extend(always.map(Name::from));
        decided
    }
}
