//! Pods that wait come first: what they will use is not there for pods that could stay.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::pack::{self, Options};
use crate::plan::Plan;
use crate::problem::{Pod, Problem};

/// A problem in which nothing waits, and the plan for what waited.
pub(super) struct Settled<'p> {
    given: &'p Problem,
    /// The problem with waiting pods where they will be; `None` if nothing waits.
    calm: Option<Problem>,
    first: Plan,
    receiving: BTreeSet<usize>,
}

impl<'p> Settled<'p> {
    pub(super) fn new(given: &'p Problem, options: &Options) -> Self {
        let leaving = given
            .nodes
            .iter()
            .any(|node| node.deleting && node.pods.iter().any(Pod::reschedulable));
        if given.pods.is_empty() && !leaving {
            return Settled {
                given,
                calm: None,
                first: Plan::default(),
                receiving: BTreeSet::new(),
            };
        }
        let first = pack::solve(given, options);
        let mut calm = given.clone();
        calm.pods.clear();
        for node in calm.nodes.iter_mut().filter(|node| node.deleting) {
            node.pods.retain(|pod| !pod.reschedulable());
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
            for pod in &placement.pods {
                if let Some(group) = given.pod(*pod) {
                    calm.nodes[index].pods.push(Pod {
                        name: group.name_of(pod.position),
                        count: 1,
                        spec: Arc::clone(&group.spec),
                        ..group.clone()
                    });
                }
            }
        }
        Settled {
            given,
            calm: Some(calm),
            first,
            receiving,
        }
    }

    /// The problem to decide on. Pods of nodes that may go have the same references as in the problem given.
    pub(super) fn problem(&self) -> &Problem {
        self.calm.as_ref().unwrap_or(self.given)
    }

    /// Whether pods that wait are meant for this node.
    pub(super) fn receives(&self, node: usize) -> bool {
        self.receiving.contains(&node)
    }

    /// The plan for what waited and the plan for what moves, as one.
    pub(super) fn finish(&self, plan: Plan) -> Plan {
        if self.calm.is_none() {
            return plan;
        }
        let mut whole = self.first.clone();
        whole.launches.extend(plan.launches);
        for placement in plan.placements {
            let known = whole
                .placements
                .iter_mut()
                .find(|known| known.node == placement.node);
            match known {
                Some(known) => known.pods.extend(placement.pods),
                None => whole.placements.push(placement),
            }
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
