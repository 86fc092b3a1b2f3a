//! Metrics, with Karpenter's names, types and labels where they mean the same.
//!
//! Label values come from closed sets, pool names, zones and resource names: the number of series grows with pools, never
//! with pods, nodes or instance types.
//!
//! karpenter: pkg/metrics, pkg/controllers/*/metrics.go

mod labels;
mod summary;

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::labels as well_known;
use joiner_core::name::Labels;
use joiner_core::problem::DisruptionReason;
use joiner_providers::ProviderError;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

pub use labels::{
    Build, CloudCall, CloudError, Code, Controller, Created, Decision, Disrupted, Evaluation,
    Invariant, PoolDecision, PoolLabel, PoolReason, PoolResource, PoolZone, Reason, Resource,
    Terminated, Unlabelled, Validation,
};
pub use summary::Summary;

use crate::edge::clock;
use crate::record::MachineRecord;
use crate::view::Wait;

/// A gauge of fractions.
pub type Fraction = Gauge<f64, AtomicU64>;
/// A histogram of seconds per label set.
type Seconds<L> = Family<L, Histogram, fn() -> Histogram>;

/// Karpenter's durations: five milliseconds to ten minutes.
fn durations() -> Histogram {
    Histogram::new(exponential_buckets(0.005, 2.0, 18))
}

/// One second to half an hour.
fn terminations() -> Histogram {
    Histogram::new(exponential_buckets(1.0, 2.0, 12))
}

/// A quarter of an hour to a month.
fn lifetimes() -> Histogram {
    Histogram::new(exponential_buckets(900.0, 2.0, 12))
}

macro_rules! metrics {
    ($($(#[doc = $doc:literal])+ $field:ident: $type:ty = $make:expr, $name:literal;)+) => {
        /// The names of all of them; counters get their `_total` when they are written.
        pub const NAMES: &[&str] = &[$($name),+];

        /// What they mean.
        #[cfg(test)]
        const HELPS: &[&str] = &[$(concat!($($doc),+)),+];

        /// Everything that is counted.
        #[derive(Clone, Debug)]
        pub struct Metrics {
            $($(#[doc = $doc])+ pub $field: $type,)+
        }

        impl Metrics {
            /// Registers everything.
            pub fn register(registry: &mut Registry) -> Self {
                let metrics = Metrics { $($field: $make,)+ };
                $(registry.register($name, concat!($($doc),+).trim().trim_end_matches('.'), metrics.$field.clone());)+
                metrics.start();
                metrics
            }
        }
    };
}

metrics! {
    /// Build information: version.
    build: Family<Build, Gauge> = Family::default(), "karpenter_build_info";
    /// NodeClaims created, by reason and pool.
    created: Family<Created, Counter> = Family::default(), "karpenter_nodeclaims_created";
    /// NodeClaims disrupted, by reason, pool and capacity type.
    disrupted: Family<Disrupted, Counter> = Family::default(), "karpenter_nodeclaims_disrupted";
    /// NodeClaims terminated, by pool, zone and capacity type.
    terminated: Family<Terminated, Counter> = Family::default(), "karpenter_nodeclaims_terminated";
    /// Seconds from the deletion of a NodeClaim until its machine is gone.
    termination: Seconds<PoolLabel> = Family::new_with_constructor(terminations),
        "karpenter_nodeclaims_termination_duration_seconds";
    /// Nodes that joined the cluster and are initialized.
    nodes_created: Family<PoolZone, Counter> = Family::default(), "karpenter_nodes_created";
    /// Nodes terminated, by pool and zone.
    nodes_terminated: Family<PoolZone, Counter> = Family::default(), "karpenter_nodes_terminated";
    /// Nodes drained, by pool.
    nodes_drained: Family<PoolLabel, Counter> = Family::default(), "karpenter_nodes_drained";
    /// Seconds from the deletion of a node until it is gone.
    nodes_termination: Summary<PoolLabel> = Summary::default(),
        "karpenter_nodes_termination_duration_seconds";
    /// Age of nodes when they were terminated, in seconds.
    lifetime: Seconds<PoolLabel> = Family::new_with_constructor(lifetimes),
        "karpenter_nodes_lifetime_duration_seconds";
    /// Resources that a pool has provisioned.
    usage: Family<PoolResource, Fraction> = Family::default(), "karpenter_nodepools_usage";
    /// Limits of a pool, by resource.
    limit: Family<PoolResource, Fraction> = Family::default(), "karpenter_nodepools_limit";
    /// What the nodes of a pool cost at today's prices, in dollars per hour.
    cost: Family<PoolLabel, Fraction> = Family::default(), "karpenter_nodepools_cost_total";
    /// Nodes of a pool that are disrupted and count against its disruption budgets.
    consuming: Family<PoolReason, Gauge> = Family::default(),
        "karpenter_nodepools_nodes_consuming_budgets";
    /// Nodes of a pool that its disruption budgets allow to be disrupted at once.
    allowed: Family<PoolReason, Gauge> = Family::default(),
        "karpenter_nodepools_allowed_disruptions";
    /// Requests of pods in percent of what nodes have allocatable.
    utilization: Family<Resource, Fraction> = Family::default(), "karpenter_cluster_utilization_percent";
    /// Seconds that scheduling took.
    scheduling: Seconds<Controller> = Family::new_with_constructor(durations),
        "karpenter_scheduler_scheduling_duration_seconds";
    /// Pods that could not be scheduled in the last plan.
    unschedulable: Family<Controller, Gauge> = Family::default(),
        "karpenter_scheduler_unschedulable_pods_count";
    /// Pending pods that the last plan ignored, because they cannot be scheduled anywhere.
    ignored: Gauge = Gauge::default(), "karpenter_scheduler_ignored_pods_count";
    /// 1 if the cluster state is synced.
    synced: Gauge = Gauge::default(), "karpenter_cluster_state_synced";
    /// Seconds for which the cluster state has not been synced.
    unsynced: Fraction = Gauge::default(), "karpenter_cluster_state_unsynced_time_seconds";
    /// Nodes in the cluster state.
    nodes: Gauge = Gauge::default(), "karpenter_cluster_state_node_count";
    /// Seconds that calls to clouds took.
    cloud_calls: Seconds<CloudCall> = Family::new_with_constructor(durations),
        "karpenter_cloudprovider_duration_seconds";
    /// Calls to clouds that failed.
    cloud_errors: Family<CloudError, Counter> = Family::default(), "karpenter_cloudprovider_errors";
    /// Seconds from the creation of a pod until it was bound.
    pods_bound: Histogram = durations(), "karpenter_pods_bound_duration_seconds";
    /// Seconds from the creation of a pod until it was ready.
    pods_started: Summary<Unlabelled> = Summary::default(), "karpenter_pods_startup_duration_seconds";
    /// Seconds from the first plan that placed a pod until it was bound.
    pods_provisioned: Histogram = durations(), "karpenter_pods_provisioning_bound_duration_seconds";
    /// Seconds from the first plan that placed a pod until it was ready.
    pods_provisioned_started: Histogram = durations(),
        "karpenter_pods_provisioning_startup_duration_seconds";
    /// Seconds from the creation of a pod until the first plan for it.
    pods_considered: Histogram = durations(), "karpenter_pods_scheduling_decision_duration_seconds";
    /// Evictions requested, by answer.
    evictions: Family<Code, Counter> = Family::default(), "karpenter_pods_eviction_requests";
    /// Pods evicted or deleted while nodes were drained, by reason.
    drained: Family<Reason, Counter> = Family::default(), "karpenter_pods_drained";
    /// Disruption decisions carried out.
    decisions: Family<Decision, Counter> = Family::default(), "karpenter_voluntary_disruption_decisions";
    /// Disruption decisions carried out, by pool.
    pool_decisions: Family<PoolDecision, Counter> = Family::default(),
        "karpenter_voluntary_disruption_decisions_by_nodepool";
    /// Nodes eligible for disruption, regardless of budgets and prices.
    eligible: Family<Reason, Gauge> = Family::default(), "karpenter_voluntary_disruption_eligible_nodes";
    /// Disruptions cancelled after they had begun.
    rollbacks: Family<Decision, Counter> = Family::default(),
        "karpenter_voluntary_disruption_queue_failures";
    /// Seconds that a disruption decision took.
    evaluation: Seconds<Evaluation> = Family::new_with_constructor(durations),
        "karpenter_voluntary_disruption_decision_evaluation_duration_seconds";
    /// Disruption decisions that failed validation.
    failed_validations: Family<Validation, Counter> = Family::default(),
        "karpenter_voluntary_disruption_failed_validations";
    /// Machines terminated because the cluster has no object for them.
    leaked: Counter = Counter::default(), "joiner_leaked_machines";
    /// Objects that are malformed and cannot be read.
    malformed: Gauge = Gauge::default(), "joiner_malformed_objects";
    /// Offerings of a pool that are not tried until their back-off ends.
    waiting: Family<PoolLabel, Gauge> = Family::default(), "joiner_offerings_waiting";
    /// Invariants that were found violated.
    violations: Family<Invariant, Counter> = Family::default(), "joiner_invariant_violations";
}

/// The loop that makes plans for pods that wait.
pub const PROVISIONER: &str = "provisioner";

fn label(labels: &Labels, key: &str) -> String {
    labels.get(key).map(ToString::to_string).unwrap_or_default()
}

/// Karpenter's word for how nodes go for a reason.
pub fn consolidation_type(cause: DisruptionReason, nodes: usize) -> &'static str {
    match cause {
        DisruptionReason::Empty => "empty",
        DisruptionReason::Underutilized if nodes > 1 => "multi",
        DisruptionReason::Underutilized => "single",
        _ => "",
    }
}

impl Metrics {
    /// Series that are there from the start, so that a rise from nothing can be seen.
    fn start(&self) {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        self.build.get_or_create(&Build { version }).set(1);
        for kind in ["empty", "single", "multi"] {
            let consolidation_type = kind.to_owned();
            let labels = Validation { consolidation_type };
            drop(self.failed_validations.get_or_create(&labels));
        }
        for invariant in crate::guards::selfcheck::INVARIANTS {
            let invariant = invariant.to_owned();
            drop(self.violations.get_or_create(&Invariant { invariant }));
        }
    }

    /// A machine object was written.
    pub fn machine_created(&self, pool: &str, reason: &str) {
        let labels = Created {
            reason: reason.to_owned(),
            nodepool: pool.to_owned(),
            min_values_relaxed: "false".to_owned(),
        };
        self.created.get_or_create(&labels).inc();
    }

    /// A machine object of this pool was asked to be deleted.
    pub fn machine_disrupted(&self, machine: &MachineRecord, pool: &str, reason: &str) {
        let labels = Disrupted {
            reason: reason.to_owned(),
            nodepool: pool.to_owned(),
            capacity_type: label(&machine.labels, well_known::CAPACITY_TYPE),
        };
        self.disrupted.get_or_create(&labels).inc();
    }

    /// A machine of this pool came into use.
    pub fn node_ready(&self, machine: &MachineRecord, pool: &str) {
        let labels = pool_zone(machine, pool);
        self.nodes_created.get_or_create(&labels).inc();
    }

    /// A machine of this pool is gone for good.
    pub fn machine_gone(&self, machine: &MachineRecord, pool: &str, now: Timestamp) {
        let zoned = pool_zone(machine, pool);
        let labels = Terminated {
            nodepool: pool.to_owned(),
            capacity_type: label(&machine.labels, well_known::CAPACITY_TYPE),
            zone: label(&machine.labels, well_known::ZONE),
        };
        self.terminated.get_or_create(&labels).inc();
        let pool = PoolLabel {
            nodepool: pool.to_owned(),
        };
        let took = machine
            .deleting
            .map(|since| clock::since(now, since).as_secs_f64());
        if let Some(took) = took {
            self.termination.get_or_create(&pool).observe(took);
        }
        if machine.initialized() {
            if let Some(took) = took {
                self.nodes_termination.observe(pool.clone(), took);
            }
            let age = clock::since(now, machine.created).as_secs_f64();
            self.lifetime.get_or_create(&pool).observe(age);
            self.nodes_drained.get_or_create(&pool).inc();
            self.nodes_terminated.get_or_create(&zoned).inc();
        }
    }

    /// A cloud was called.
    pub fn cloud_call(
        &self,
        method: &str,
        provider: &str,
        took: Duration,
        error: Option<&ProviderError>,
    ) {
        let labels = CloudCall {
            controller: "nodeclaim.lifecycle".to_owned(),
            method: method.to_owned(),
            provider: provider.to_owned(),
        };
        self.cloud_calls
            .get_or_create(&labels)
            .observe(took.as_secs_f64());
        let Some(error) = error else { return };
        let labels = CloudError {
            controller: labels.controller,
            method: labels.method,
            provider: labels.provider,
            error: error.kind().to_owned(),
        };
        self.cloud_errors.get_or_create(&labels).inc();
    }

    /// An eviction was answered.
    pub fn eviction(&self, code: &str) {
        let code = code.to_owned();
        self.evictions.get_or_create(&Code { code }).inc();
    }

    /// A pod has to leave.
    pub fn pod_drained(&self, reason: &str) {
        let reason = reason.to_owned();
        self.drained.get_or_create(&Reason { reason }).inc();
    }

    /// A plan was made for a pod for the first time.
    pub fn pod_considered(&self, wait: Duration) {
        self.pods_considered.observe(wait.as_secs_f64());
    }

    /// A pod was bound.
    pub fn pod_bound(&self, wait: &Wait) {
        self.pods_bound.observe(wait.made.as_secs_f64());
        if let Some(placed) = wait.placed {
            self.pods_provisioned.observe(placed.as_secs_f64());
        }
    }

    /// A pod is ready for the first time.
    pub fn pod_started(&self, wait: &Wait) {
        self.pods_started.observe([], wait.made.as_secs_f64());
        if let Some(placed) = wait.placed {
            let started = &self.pods_provisioned_started;
            started.observe(placed.as_secs_f64());
        }
    }

    /// A plan was made.
    pub fn planned(&self, took: Duration) {
        self.scheduling
            .get_or_create(&Controller::provisioner())
            .observe(took.as_secs_f64());
    }

    /// So many pods have no place.
    pub fn unplaced(&self, pods: usize) {
        self.unschedulable
            .get_or_create(&Controller::provisioner())
            .set(i64::try_from(pods).unwrap_or(i64::MAX));
    }

    /// A promise did not hold.
    pub fn violation(&self, invariant: &str) {
        let invariant = invariant.to_owned();
        self.violations
            .get_or_create(&Invariant { invariant })
            .inc();
    }

    /// Forgets a pool that is gone, so that series do not pile up.
    pub fn forget_pool(&self, pool: &str, resources: impl Iterator<Item = String>) {
        let nodepool = || pool.to_owned();
        for resource_type in resources {
            let labels = PoolResource {
                nodepool: nodepool(),
                resource_type,
            };
            self.usage.remove(&labels);
            self.limit.remove(&labels);
        }
        let labels = PoolLabel {
            nodepool: nodepool(),
        };
        self.cost.remove(&labels);
        self.waiting.remove(&labels);
        self.nodes_termination.remove(&labels);
        for reason in ["", "empty", "drifted", "underutilized"] {
            let labels = PoolReason {
                nodepool: nodepool(),
                reason: reason.to_owned(),
            };
            self.consuming.remove(&labels);
            self.allowed.remove(&labels);
        }
    }
}

fn pool_zone(machine: &MachineRecord, pool: &str) -> PoolZone {
    PoolZone {
        nodepool: pool.to_owned(),
        zone: label(&machine.labels, well_known::ZONE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_in_the_reference_under_its_name() {
        let mut registry = Registry::default();
        Metrics::register(&mut registry);
        let reference = include_str!("../../../../docs/reference/metrics.md");
        let missing: Vec<&str> = NAMES
            .iter()
            .copied()
            .filter(|name| {
                let (plain, total) = (format!("`{name}`"), format!("`{name}_total`"));
                !reference.contains(&plain) && !reference.contains(&total)
            })
            .collect();
        assert_eq!(missing, [""; 0]);
        let own = NAMES.iter().filter(|name| name.starts_with("joiner_"));
        let karpenters = NAMES.iter().filter(|name| name.starts_with("karpenter_"));
        assert_eq!((own.count(), karpenters.count()), (4, 37));
    }

    #[test]
    fn every_help_is_one_sentence_that_ends_with_one_full_stop() {
        let wrong = |help: &&str| {
            let sentence = help.strip_suffix('.').unwrap_or_default();
            let begins = |first: char| first.is_uppercase() || first.is_ascii_digit();
            !sentence.starts_with(begins) || sentence.ends_with('.') || sentence.contains(". ")
        };
        let own = HELPS.iter().map(|help| help.trim());
        assert_eq!(own.filter(wrong).collect::<Vec<_>>(), [""; 0]);
        // The encoder adds a full stop, and knows only what was counted.
        let mut registry = Registry::default();
        Metrics::register(&mut registry);
        crate::operators::leftover::LeftoverMetrics::register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let written = text.lines().filter_map(|line| line.strip_prefix("# HELP "));
        let helps: Vec<&str> = written
            .filter_map(|line| Some(line.split_once(' ')?.1))
            .collect();
        assert!(helps.contains(&"Build information: version."), "{helps:?}");
        assert_eq!(helps.into_iter().filter(wrong).collect::<Vec<_>>(), [""; 0]);
    }

    #[test]
    fn series_do_not_grow_with_machines() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let lines = || {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            text.lines().count()
        };
        let call = || {
            metrics.machine_created("pool", "provisioned");
            metrics.cloud_call("Create", "sim", Duration::from_secs(1), None);
            metrics.eviction("200");
            metrics.pod_drained("Empty");
            metrics.planned(Duration::from_secs(1));
            metrics.unplaced(3);
        };
        call();
        let before = lines();
        for _ in 0..100 {
            call();
        }
        assert_eq!(lines(), before);
    }

    #[test]
    fn the_words_for_how_nodes_go_are_karpenters() {
        use DisruptionReason::{Drifted, Empty, Underutilized};
        assert_eq!(consolidation_type(Empty, 5), "empty");
        assert_eq!(consolidation_type(Underutilized, 1), "single");
        assert_eq!(consolidation_type(Underutilized, 2), "multi");
        assert_eq!(consolidation_type(Drifted, 1), "");
    }
}
