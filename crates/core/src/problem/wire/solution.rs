//! The comparison form of a plan.

use serde::{Deserialize, Serialize};

use crate::name::Name;
use crate::plan::{Home, Plan, PodRef};
use crate::problem::{CapacityType, Problem};

/// How long a solver took and what it needed; the caller measures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Measurements {
    /// How often it was solved.
    pub runs: u32,
    /// Wall time of solving, the median of the runs, in milliseconds.
    pub solve_ms: f64,
    /// Wall time of every run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub solve_ms_all: Vec<f64>,
    /// Processor time of solving.
    #[serde(skip_serializing_if = "is_zero")]
    pub solve_cpu_ms: f64,
    /// Wall time of preparations that are not in `solve_ms`.
    pub setup_ms: f64,
    /// Most memory that the process ever held.
    #[serde(rename = "peakRssMiB", skip_serializing_if = "is_zero")]
    pub peak_rss_mib: f64,
    /// Threads.
    pub concurrency: usize,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "signature asked for by serde"
)]
fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

/// A new node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// Pool.
    pub node_pool: Name,
    /// Instance type.
    pub instance_type: Name,
    /// Zone.
    pub zone: Name,
    /// How it is paid for.
    pub capacity_type: CapacityType,
    /// Dollars per hour.
    pub price: f64,
    /// How many types could have taken its place.
    #[serde(default)]
    pub instance_type_options: usize,
    /// Names of its pods.
    pub pods: Vec<Name>,
}

/// Pods that go to a node that is there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExistingUse {
    /// Node.
    pub node: Name,
    /// Names of the pods.
    pub pods: Vec<Name>,
}

/// A pod without a place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unscheduled {
    /// Name.
    pub pod: Name,
    /// Why, as a sentence.
    pub reason: String,
}

/// A plan with names instead of references, and totals.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Solution {
    /// The solver.
    pub solver: String,
    /// Name of the problem.
    pub problem: String,
    /// What it took.
    #[serde(flatten)]
    pub measurements: Measurements,
    /// How many pods there were.
    pub pods_total: usize,
    /// How many have a place.
    pub pods_scheduled: usize,
    /// How many do not.
    pub pods_unscheduled: usize,
    /// How many new nodes.
    pub claim_count: usize,
    /// Dollars per hour of the new nodes.
    pub total_price: f64,
    /// No solution costs less, surcharges included.
    pub lower_bound: f64,
    /// New nodes.
    pub claims: Vec<Claim>,
    /// Pods on nodes that are there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub existing: Vec<ExistingUse>,
    /// Pods without a place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unscheduled: Vec<Unscheduled>,
    /// Order of binding that satisfies spread and affinity.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<Name>,
}

impl Solution {
    /// A plan for a problem, in names.
    pub fn new(problem: &Problem, plan: &Plan, measurements: Measurements) -> Self {
        let names = |pods: &[PodRef]| -> Vec<Name> {
            pods.iter()
                .map(|pod| problem.pod_name(*pod).unwrap_or_default())
                .collect()
        };
        let claims: Vec<Claim> = plan
            .launches
            .iter()
            .map(|launch| Claim {
                node_pool: launch.pool.clone(),
                instance_type: launch.purchase.instance_type.clone(),
                zone: launch.purchase.zone.clone(),
                capacity_type: launch.purchase.capacity_type,
                price: launch.purchase.price.dollars(),
                instance_type_options: launch.alternatives.len() + 1,
                pods: names(&launch.pods),
            })
            .collect();
        let existing: Vec<ExistingUse> = plan
            .placements
            .iter()
            .map(|placement| ExistingUse {
                node: placement.node.clone(),
                pods: names(&placement.pods),
            })
            .collect();
        let unscheduled: Vec<Unscheduled> = plan
            .unplaced
            .iter()
            .flat_map(|unplaced| {
                let reason = unplaced.reason.to_string();
                names(&unplaced.pods)
                    .into_iter()
                    .map(move |pod| Unscheduled {
                        pod,
                        reason: reason.clone(),
                    })
            })
            .collect();
        let on_claims: usize = claims.iter().map(|claim| claim.pods.len()).sum();
        let on_nodes: usize = existing.iter().map(|used| used.pods.len()).sum();
        Solution {
            solver: "joiner".to_owned(),
            problem: problem.name.clone(),
            measurements,
            pods_total: on_claims + on_nodes + unscheduled.len(),
            pods_scheduled: on_claims + on_nodes,
            pods_unscheduled: unscheduled.len(),
            claim_count: claims.len(),
            total_price: plan
                .launches
                .iter()
                .map(|launch| launch.purchase.price)
                .sum::<crate::money::Money>()
                .dollars(),
            lower_bound: plan.lower_bound.dollars(),
            claims,
            existing,
            unscheduled,
            order: names(&plan.order),
        }
    }
}

impl Problem {
    /// The group of pods that a reference means.
    pub fn pod(&self, pod: PodRef) -> Option<&super::super::Pod> {
        let groups = match pod.home {
            Home::Pending => &self.pods,
            Home::Node(node) => &self.nodes.get(node.index())?.pods,
        };
        groups
            .get(pod.group as usize)
            .filter(|group| pod.position < group.count)
    }

    /// The name of the pod that a reference means.
    pub fn pod_name(&self, pod: PodRef) -> Option<Name> {
        self.pod(pod).map(|group| group.name_of(pod.position))
    }
}
