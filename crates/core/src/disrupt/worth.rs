//! What pods cost where they are put: a launch's price and the surcharge of a node, divided among its pods by what they
//! take of it.

use std::collections::BTreeMap;

use crate::money::Money;
use crate::plan::{Home, Launch, Plan, PodRef};
use crate::problem::{NodeId, Problem};
use crate::resources::PODS;

/// What the pods of each node cost after the plan, by node. Room on nodes that stay costs nothing.
pub(super) fn shares(problem: &Problem, plan: &Plan) -> BTreeMap<NodeId, Money> {
    let mut all: BTreeMap<NodeId, Money> = BTreeMap::new();
    for launch in &plan.launches {
        let weights: Vec<(PodRef, f64)> = launch
            .pods
            .iter()
            .map(|pod| (*pod, weight(problem, launch, *pod)))
            .collect();
        let sum: f64 = weights.iter().map(|(_, weight)| weight).sum();
        for (pod, weight) in weights {
            if let Home::Node(node) = pod.home
                && sum > 0.0
            {
                let share = cost(problem, launch).dollars() * weight / sum;
                *all.entry(node).or_default() += Money::from_dollars(share);
            }
        }
    }
    for placement in &plan.placements {
        for pod in &placement.pods {
            if let Home::Node(node) = pod.home {
                all.entry(node).or_default();
            }
        }
    }
    all
}

/// What the largest pod of a launch costs by what it takes of the machine.
#[expect(clippy::cast_precision_loss, reason = "shares, not amounts")]
pub(super) fn dearest(problem: &Problem, launch: &Launch) -> Money {
    let groups = launch.pods.iter().filter_map(|pod| problem.pod(*pod));
    let requests = groups.flat_map(|group| group.spec.requests.iter());
    let shares = requests.filter(|(name, _)| &***name != PODS);
    let share = shares.fold(0.0, |most, (name, amount)| {
        f64::max(
            most,
            amount as f64 / launch.capacity.get(name).max(1) as f64,
        )
    });
    Money::from_dollars(cost(problem, launch).dollars() * share.min(1.0))
}

/// What a machine costs once it is a node.
fn cost(problem: &Problem, launch: &Launch) -> Money {
    launch.purchase.price + problem.settings.node_surcharge
}

/// How much of a machine a pod takes: the mean over the resources that it asks for and the machine is short of.
#[expect(clippy::cast_precision_loss, reason = "shares, not amounts")]
fn weight(problem: &Problem, launch: &Launch, pod: PodRef) -> f64 {
    let Some(group) = problem.pod(pod) else {
        return 0.0;
    };
    let mut sum = 0.0;
    for (name, amount) in group.spec.requests.iter() {
        let used = launch.requests.get(name);
        let capacity = launch.capacity.get(name);
        if used > 0 && capacity > 0 && &**name != PODS {
            // What the machine has plenty of is not what it is paid for.
            let scarcity = used as f64 / capacity as f64;
            sum += amount as f64 / used as f64 * scarcity * scarcity;
        }
    }
    sum.max(1e-9)
}
