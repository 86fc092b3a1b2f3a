//! Metrics, with Karpenter's names where they mean the same. Label values come from closed sets and pool names.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// Labels of machines that come and go.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PoolReason {
    /// Pool; empty for a machine that stands alone.
    pub nodepool: String,
    /// Why.
    pub reason: String,
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PoolLabel {
    /// Pool.
    pub nodepool: String,
}

/// An amount that a pool has.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PoolResource {
    /// Pool.
    pub nodepool: String,
    /// Resource.
    pub resource_type: String,
}

/// A call to a cloud.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct CloudCall {
    /// What was asked.
    pub method: String,
    /// Of whom.
    pub provider: String,
    /// What went wrong.
    pub error: String,
}

/// Something that a loop did.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Decision {
    /// `delete` or `replace`.
    pub decision: String,
    /// Why.
    pub reason: String,
}

/// An outcome.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Code {
    /// HTTP status or what stands for it.
    pub code: String,
}

/// Everything that is counted.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Machine objects written.
    pub created: Family<PoolReason, Counter>,
    /// Machine objects that we asked to be deleted.
    pub disrupted: Family<PoolReason, Counter>,
    /// Machines that are gone for good.
    pub terminated: Family<PoolLabel, Counter>,
    /// What a pool has.
    pub usage: Family<PoolResource, Gauge<f64, std::sync::atomic::AtomicU64>>,
    /// What a pool may have.
    pub limit: Family<PoolResource, Gauge<f64, std::sync::atomic::AtomicU64>>,
    /// What a pool costs.
    pub cost: Family<PoolLabel, Gauge<f64, std::sync::atomic::AtomicU64>>,
    /// How long a plan took.
    pub scheduling: Histogram,
    /// Pods without a place after the last plan.
    pub unschedulable: Gauge,
    /// Pods that were left out of the last plan.
    pub ignored: Gauge,
    /// Whether the view is complete.
    pub synced: Gauge,
    /// Nodes in the view.
    pub nodes: Gauge,
    /// Calls to clouds that failed.
    pub cloud_errors: Family<CloudCall, Counter>,
    /// Evictions asked for.
    pub evictions: Family<Code, Counter>,
    /// Disruptions begun.
    pub decisions: Family<Decision, Counter>,
    /// Disruptions undone.
    pub rollbacks: Family<Decision, Counter>,
    /// Machines at clouds that no object asked for, found in all.
    pub leaked: Counter,
    /// Objects that cannot be read.
    pub malformed: Gauge,
}

impl Metrics {
    /// Registers everything.
    pub fn register(registry: &mut Registry) -> Self {
        let buckets = || exponential_buckets(0.005, 2.0, 18);
        let metrics = Metrics {
            created: Family::default(),
            disrupted: Family::default(),
            terminated: Family::default(),
            usage: Family::default(),
            limit: Family::default(),
            cost: Family::default(),
            scheduling: Histogram::new(buckets()),
            unschedulable: Gauge::default(),
            ignored: Gauge::default(),
            synced: Gauge::default(),
            nodes: Gauge::default(),
            cloud_errors: Family::default(),
            evictions: Family::default(),
            decisions: Family::default(),
            rollbacks: Family::default(),
            leaked: Counter::default(),
            malformed: Gauge::default(),
        };
        let it = metrics.clone();
        registry.register(
            "karpenter_nodeclaims_created",
            "Machine objects written",
            it.created,
        );
        registry.register(
            "karpenter_nodeclaims_disrupted",
            "Machine objects that were asked to be deleted",
            it.disrupted,
        );
        registry.register(
            "karpenter_nodeclaims_terminated",
            "Machines that are gone for good",
            it.terminated,
        );
        registry.register("karpenter_nodepools_usage", "What a pool has", it.usage);
        registry.register(
            "karpenter_nodepools_limit",
            "What a pool may have",
            it.limit,
        );
        registry.register(
            "karpenter_nodepools_cost_total",
            "Dollars per hour of a pool",
            it.cost,
        );
        registry.register(
            "karpenter_scheduler_scheduling_duration_seconds",
            "How long a plan took",
            it.scheduling,
        );
        registry.register(
            "karpenter_scheduler_unschedulable_pods_count",
            "Pods without a place",
            it.unschedulable,
        );
        registry.register(
            "karpenter_scheduler_ignored_pods_count",
            "Pods left out of the plan",
            it.ignored,
        );
        registry.register(
            "karpenter_cluster_state_synced",
            "Whether the view is complete",
            it.synced,
        );
        registry.register(
            "karpenter_cluster_state_node_count",
            "Nodes in the view",
            it.nodes,
        );
        registry.register(
            "karpenter_cloudprovider_errors",
            "Calls to clouds that failed",
            it.cloud_errors,
        );
        registry.register(
            "karpenter_pods_eviction_requests",
            "Evictions asked for",
            it.evictions,
        );
        registry.register(
            "karpenter_voluntary_disruption_decisions",
            "Disruptions begun",
            it.decisions,
        );
        registry.register(
            "karpenter_voluntary_disruption_queue_failures",
            "Disruptions undone",
            it.rollbacks,
        );
        registry.register(
            "joiner_leaked_machines",
            "Machines at clouds that no object asked for",
            it.leaked,
        );
        registry.register(
            "joiner_malformed_objects",
            "Objects that cannot be read",
            it.malformed,
        );
        metrics
    }
}
