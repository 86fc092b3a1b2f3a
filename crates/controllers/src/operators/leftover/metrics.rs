//! What is counted about `LeftoverNodePools`. The number of series grows with pools and zones.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::Known;

/// What has an age.
pub(super) const PARTS: [&str; 3] = ["types", "prices", "scores"];

/// Why a choice changes.
const REASONS: [&str; 6] = [
    "first",
    "not_allowed",
    "not_viable",
    "cheaper",
    "better_score",
    "widened",
];

type Fraction<L> = Family<L, Gauge<f64, AtomicU64>>;

/// A `LeftoverNodePool`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Pool {
    /// Name.
    pub pool: String,
}

/// Something about a `LeftoverNodePool`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PoolWhat {
    /// Name.
    pub pool: String,
    /// What.
    pub what: String,
}

/// A region that a `LeftoverNodePool` compares.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PoolRegion {
    /// Name of the pool.
    pub pool: String,
    /// Name of the region.
    pub region: String,
}

/// Everything that is counted.
#[derive(Clone, Debug, Default)]
pub struct LeftoverMetrics {
    /// Dollars an hour for each GPU, at the best of what is offered.
    pub per_gpu: Fraction<Pool>,
    /// Dollars an hour for the best instance that is offered.
    pub price: Fraction<Pool>,
    /// Placement scores by zone.
    pub scores: Family<PoolWhat, Gauge>,
    /// Types on offer.
    pub types: Family<Pool, Gauge>,
    /// Zones on offer.
    pub zones: Family<Pool, Gauge>,
    /// Changes of the choice, by reason.
    pub changes: Family<PoolWhat, Counter>,
    /// Objects that were applied, by kind.
    pub applied: Family<PoolWhat, Counter>,
    /// Seconds since prices, scores and types were read.
    pub age: Fraction<PoolWhat>,
    /// Whether the on-demand pool is open.
    pub fallback: Family<Pool, Gauge>,
    /// Dollars an hour for each GPU, at the best of a region.
    pub region_per_gpu: Fraction<PoolRegion>,
    /// Whether a region is the one to prefer.
    pub region_recommended: Family<PoolRegion, Gauge>,
    /// Different requests for placement scores since the start; AWS limits them by the day.
    pub configurations: Gauge,
}

impl LeftoverMetrics {
    /// Registers everything.
    pub fn register(registry: &mut Registry) -> Self {
        let all = LeftoverMetrics::default();
        registry.register(
            "leftover_price_per_gpu_dollars",
            "Price per GPU and hour at the best of what is offered",
            all.per_gpu.clone(),
        );
        registry.register(
            "leftover_price_dollars",
            "Price per hour of the best instance that is offered",
            all.price.clone(),
        );
        registry.register(
            "leftover_placement_score",
            "Spot placement score by zone, 1 to 10",
            all.scores.clone(),
        );
        registry.register(
            "leftover_selected_instance_types",
            "Instance types on offer",
            all.types.clone(),
        );
        registry.register(
            "leftover_selected_zones",
            "Zones on offer",
            all.zones.clone(),
        );
        registry.register(
            "leftover_changes",
            "Changes of the choice by reason",
            all.changes.clone(),
        );
        registry.register(
            "leftover_applied",
            "Objects applied by kind",
            all.applied.clone(),
        );
        registry.register(
            "leftover_data_age_seconds",
            "Seconds since AWS was read",
            all.age.clone(),
        );
        registry.register(
            "leftover_fallback_open",
            "Whether the on-demand pool is open",
            all.fallback.clone(),
        );
        registry.register(
            "leftover_region_price_per_gpu_dollars",
            "Price per GPU and hour at the best of a region that is compared",
            all.region_per_gpu.clone(),
        );
        registry.register(
            "leftover_region_recommended",
            "Whether a region is the one to prefer",
            all.region_recommended.clone(),
        );
        registry.register(
            "leftover_score_configurations",
            "Different requests for placement scores",
            all.configurations.clone(),
        );
        all
    }

    /// A region is not compared any more.
    pub fn forget_region(&self, label: &PoolRegion) {
        self.region_per_gpu.remove(label);
        self.region_recommended.remove(label);
    }

    /// A pool is gone.
    pub(super) fn forget(&self, pool: &str, known: &Known) {
        let label = Pool {
            pool: pool.to_owned(),
        };
        self.per_gpu.remove(&label);
        self.price.remove(&label);
        self.types.remove(&label);
        self.zones.remove(&label);
        self.fallback.remove(&label);
        let what = |what: &str| PoolWhat {
            pool: pool.to_owned(),
            what: what.to_owned(),
        };
        for zone in &known.zones {
            self.scores.remove(&what(zone));
        }
        for part in PARTS {
            self.age.remove(&what(part));
        }
        for kind in ["NodePool", "EC2NodeClass"] {
            self.applied.remove(&what(kind));
        }
        for reason in REASONS {
            self.changes.remove(&what(reason));
        }
        for region in &known.regions {
            self.forget_region(&PoolRegion {
                pool: pool.to_owned(),
                region: region.clone(),
            });
        }
    }
}
