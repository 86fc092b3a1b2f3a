//! Pods that wait come first: what they will use is not there for pods that could stay.

use std::collections::BTreeSet;

use super::candidate::expired;
use crate::name::Name;
use crate::pack::{Options, blocks_drain, solve_closing};
use crate::plan::{Launch, Plan, bought, singles, stock};
use crate::problem::{Node, NodeId, Pod, Problem};
use crate::resources::Resources;

/// A problem in which nothing waits, and the plan for what waited.
pub(super) struct PendingPlaced<'p> {
    given: &'p Problem,
    /// The problem with waiting pods where they will be; `None` if nothing waits.
    after_pending: Option<Problem>,
    first: Plan,
    receiving: BTreeSet<usize>,
}

/// Takes what a machine uses up off what is left for others: limits of its pool, stock, and the number of new machines.
fn spend(after_pending: &mut Problem, launch: &Launch) {
    let purchase = &launch.purchase;
    if let Some(most) = &mut after_pending.settings.max_new_nodes {
        *most = most.saturating_sub(1);
    }
    for pool in after_pending
        .pools
        .iter_mut()
        .filter(|pool| pool.name == launch.pool)
    {
        let limits = &mut pool.limits;
        let limited: Vec<Name> = limits
            .resources
            .iter()
            .map(|(name, _)| name.clone())
            .collect();
        let mut used = Resources::new();
        for name in limited {
            used = used.with(&name, launch.capacity.get(&name));
        }
        limits.resources.subtract(&used);
        limits.nodes = limits.nodes.map(|most| most.saturating_sub(1));
        limits.cost = limits.cost.map(|most| most - purchase.price);
    }
    stock::take(&mut after_pending.catalogs, launch.into());
}

/// A machine for pods that wait, as pods that move see it: full, of no pool, and yet part of its zone.
fn taken(given: &Problem, launch: &Launch, number: usize) -> Node {
    Node {
        pool: None,
        allocatable: Resources::new(),
        price: None,
        // No node of a cluster can be called that.
        ..bought(given, launch, &format!("(new machine {number})"))
    }
}

impl<'p> PendingPlaced<'p> {
    pub(super) fn new(given: &'p Problem, options: &Options) -> Self {
        let leaving = given
            .nodes
            .iter()
            .any(|node| node.deleting && node.pods.iter().any(Pod::reschedulable));
        if given.pods.is_empty() && !leaving {
            return PendingPlaced {
                given,
                after_pending: None,
                first: Plan::default(),
                receiving: BTreeSet::new(),
            };
        }
        // A node whose time is up is removed whatever it carries: no more pods are sent there.
        let closed: Vec<NodeId> = (0..given.nodes.len())
            .map(NodeId::at)
            .filter(|node| expired(given, given.node_at(*node)))
            .collect();
        let first = solve_closing(given, &closed, options);
        let mut after_pending = given.clone();
        after_pending.pods.clear();
        for (node, own) in after_pending.nodes.iter_mut().zip(&given.nodes) {
            if own.deleting {
                node.pods
                    .retain(|pod| !pod.reschedulable() || blocks_drain(given, own, pod));
            }
        }
        for (number, launch) in first.launches.iter().enumerate() {
            spend(&mut after_pending, launch);
            after_pending.nodes.push(taken(given, launch, number));
        }
        if let Some(percent) = after_pending.settings.spot_share {
            stock::hold_shares(&mut after_pending.catalogs, percent, &first.launches);
        }
        let mut receiving = BTreeSet::new();
        for placement in &first.placements {
            let Some(index) = given
                .nodes
                .iter()
                .position(|node| node.name == placement.node)
            else {
                continue;
            };
            receiving.insert(index);
            let pods = singles(given, &placement.pods);
            after_pending.nodes[index].pods.extend(pods);
        }
        PendingPlaced {
            given,
            after_pending: Some(after_pending),
            first,
            receiving,
        }
    }

    /// The problem to decide on. Pods of nodes that may go have the same references as in the problem given.
    pub(super) fn problem(&self) -> &Problem {
        self.after_pending.as_ref().unwrap_or(self.given)
    }

    /// Pods that are on a node already and would move, without those that wait and are meant for it.
    pub(super) fn present(&self, node: usize) -> impl Iterator<Item = &'p Pod> {
        let pods = self.given.nodes[node].pods.iter();
        pods.filter(|pod| pod.reschedulable())
    }

    /// Whether pods that wait are meant for this node.
    pub(super) fn receives(&self, node: usize) -> bool {
        self.receiving.contains(&node)
    }

    /// The plan for what waited and the plan for what moves, as one.
    pub(super) fn finish(&self, plan: Plan) -> Plan {
        if self.after_pending.is_none() {
            return plan;
        }
        let mut whole = self.first.clone();
        whole.launches.extend(plan.launches);
        for placement in plan.placements {
            whole.place(placement);
        }
        whole.unplaced.extend(plan.unplaced);
        whole.removals = plan.removals;
        whole.kept = plan.kept;
        whole.order.extend(plan.order);
        whole.cost += plan.cost;
        // What moves could have shared machines with what waited: together only the larger bound is sure.
        whole.lower_bound = whole.lower_bound.max(plan.lower_bound);
        whole
    }
}
