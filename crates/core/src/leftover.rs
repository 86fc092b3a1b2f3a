//! Which GPU instance types and zones a Karpenter NodePool should offer: a ranking of spot quotes with a reason for every
//! type, and the rule by which a choice that works is kept while prices move a little.
//!
//! ```text
//!   Market + Wanted ──rank──► Ranking ──select──► Choice ──hold──► Decision (what to offer, and why it changed or not)
//!   several regions ──rank each──► compare_regions ──► Comparison (which region is the best, and for how long)
//! ```

mod hold;
mod rank;
mod regions;
mod select;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::money::Money;
use crate::name::Name;

pub use hold::{Change, Decision, Fallback, Held, InUse, Memory, Policy, decide};
pub use rank::{Ranked, Ranking, Refusal, Verdict, rank};
pub use regions::{Comparison, RegionMarket, RegionQuote, RegionVerdict, compare_regions};
pub use select::{Choice, select};

/// How instances are paid for.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Capacity {
    /// Spare capacity at a moving price; may be taken back.
    #[default]
    Spot,
    /// List price.
    OnDemand,
}

impl fmt::Display for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Capacity::Spot => "spot",
            Capacity::OnDemand => "on-demand",
        })
    }
}

/// An instance type with GPUs, as EC2 describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuType {
    /// Name, such as `g6e.xlarge`.
    pub name: Name,
    /// `amd64` or `arm64`.
    pub arch: Name,
    /// Manufacturer of the GPUs.
    pub manufacturer: Name,
    /// GPU devices that a pod can ask for.
    pub devices: u32,
    /// Whole GPUs in thousandths: 1000 for each, 125 for an eighth of one.
    pub gpu_millis: u64,
    /// Memory of each device.
    pub gpu_memory_mib: u64,
    /// A whole server.
    pub bare_metal: bool,
    /// Sold as spot.
    pub spot: bool,
    /// Sold at the list price.
    pub on_demand: bool,
    /// The list price, where it is known.
    pub list_price: Option<Money>,
}

impl GpuType {
    /// `g6e` of `g6e.xlarge`.
    pub fn family(&self) -> &str {
        self.name.split('.').next().unwrap_or(&self.name)
    }

    /// Whether its devices are parts of GPUs.
    pub fn is_fractional(&self) -> bool {
        self.gpu_millis < u64::from(self.devices) * 1000
    }
}

/// What a region sells right now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Market {
    /// Types with GPUs, by name.
    pub types: BTreeMap<Name, GpuType>,
    /// Which types are sold in which zones (names, not ids).
    pub offered: BTreeSet<(Name, Name)>,
    /// Spot prices by type and zone.
    pub spot: BTreeMap<(Name, Name), Money>,
    /// Placement scores by zone name, 1 to 10; `None` when they are not known at all.
    pub scores: Option<BTreeMap<Name, u8>>,
    /// Zones with a subnet for the nodes; `None` when that is not known.
    pub subnets: Option<BTreeSet<Name>>,
}

/// What a pool asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Families or beginnings of families; none means any.
    pub families: Vec<Name>,
    /// GPU devices that an instance must have.
    pub min_gpus: u32,
    /// How many types to choose at most.
    pub max_types: usize,
    /// How many zones to choose at most.
    pub max_zones: usize,
    /// Placement score below which a zone is not viable.
    pub min_score: u8,
    /// How instances are paid for.
    pub capacity: Capacity,
    /// Whether on-demand instances stand in while no spot instance is viable.
    pub fallback: bool,
}

/// A price per GPU: exact, so that equal quotes are equal whatever their size.
#[derive(Clone, Copy, Debug)]
pub struct PerGpu {
    price: Money,
    gpu_millis: u64,
}

impl PerGpu {
    /// `price` for so many thousandths of a GPU; none counts as one thousandth.
    pub fn new(price: Money, gpu_millis: u64) -> Self {
        PerGpu {
            price,
            gpu_millis: gpu_millis.max(1),
        }
    }

    /// As an amount, rounded down to a billionth of a dollar.
    pub fn money(self) -> Money {
        let nanos = i128::from(self.price.nanos()) * 1000 / i128::from(self.gpu_millis);
        Money::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
    }

    /// Whether this is below `percent` of the other.
    pub fn is_below(self, other: PerGpu, percent: u32) -> bool {
        let own = i128::from(self.price.nanos()) * i128::from(other.gpu_millis) * 100;
        own < i128::from(other.price.nanos()) * i128::from(self.gpu_millis) * i128::from(percent)
    }
}

impl PartialOrd for PerGpu {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PerGpu {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let own = i128::from(self.price.nanos()) * i128::from(other.gpu_millis);
        let others = i128::from(other.price.nanos()) * i128::from(self.gpu_millis);
        own.cmp(&others)
    }
}

impl PartialEq for PerGpu {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PerGpu {}
