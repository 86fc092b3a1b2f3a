//! "And if these were not there?"

use std::collections::BTreeSet;

use super::candidate::quiet_until;
use crate::money::Money;
use crate::pack::{Options, Relaxations, Scenario};
use crate::plan::{Home, Launch, Plan};
use crate::problem::{NodeId, NodePhase, Problem};

/// What happens when some nodes go.
#[derive(Clone, Debug, Default)]
pub(super) struct Trial {
    pub(super) removed: BTreeSet<NodeId>,
    pub(super) plan: Plan,
    /// What the cluster costs then, surcharges included.
    pub(super) total: Money,
    /// How many pods move.
    pub(super) moved: usize,
}

impl Trial {
    /// Nodes some of whose pods find no place.
    pub(super) fn stranded(&self) -> BTreeSet<NodeId> {
        let pods = self.plan.unplaced.iter().flat_map(|one| &one.pods);
        pods.filter_map(|pod| match pod.home {
            Home::Node(node) => Some(node),
            Home::Pending => None,
        })
        .collect()
    }
}

/// Whether machines may be bought for pods that move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Buying {
    Allowed,
    Forbidden,
}

/// How carefully a trial is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Care {
    /// Good enough to compare.
    Rough,
    /// As good as the caller's options ask for.
    Fine,
}

/// With fewer nodes to take away every trial is made carefully: it costs little, and little decides.
const ROUGH_FROM: usize = 40;
/// Steps that a rough trial of fewer nodes is worth: some ways to pack, and no search.
const ROUGH_STEPS: u64 = 5;

/// Makes trials on one problem.
pub(super) struct Trials<'c, 'p> {
    pub(super) problem: &'p Problem,
    relaxations: &'c Relaxations<'p>,
    options: Options,
    base: Scenario,
    /// What all nodes that are not on their way out cost.
    present: Money,
}

impl<'c, 'p> Trials<'c, 'p> {
    pub(super) fn new(
        problem: &'p Problem,
        relaxations: &'c Relaxations<'p>,
        options: &Options,
    ) -> Self {
        let mut base = Scenario::of(problem).leaving_pending_out();
        for (index, node) in problem.nodes.iter().enumerate() {
            let pool = node
                .pool
                .as_ref()
                .and_then(|name| problem.pools.iter().find(|pool| pool.name == *name));
            let quiet = pool
                .and_then(|pool| quiet_until(problem, pool, node))
                .is_some();
            if quiet || node.phase != NodePhase::Ready || node.unready {
                base = base.sparing(NodeId::at(index));
            }
        }
        let staying = problem.nodes.iter().filter(|node| !node.deleting);
        let surcharge = problem.settings.node_surcharge;
        let present = staying
            .map(|node| node.price.unwrap_or_default() + surcharge)
            .sum();
        Trials {
            problem,
            relaxations,
            options: options.clone(),
            base,
            present,
        }
    }

    /// Whether a launch leaves the choice of types that its pool asks for.
    pub(super) fn meets_min_values(&self, launch: &Launch) -> bool {
        self.relaxations.meets_min_values(launch)
    }

    pub(super) fn run(&self, removed: &BTreeSet<NodeId>, buying: Buying, care: Care) -> Trial {
        let mut scenario = self.base.clone();
        for node in removed {
            scenario = scenario.without(*node);
        }
        if buying == Buying::Forbidden {
            scenario = scenario.buying_nothing();
        }
        let mut options = self.options.clone();
        if care == Care::Rough {
            let most = if removed.len() > ROUGH_FROM {
                0
            } else {
                ROUGH_STEPS
            };
            options.steps = options.steps.min(most);
        }
        let plan = if removed.is_empty() {
            Plan::default()
        } else {
            self.relaxations.solve(&scenario, &options)
        };
        let surcharge = self.problem.settings.node_surcharge;
        let gone: Money = removed
            .iter()
            .map(|node| {
                let node = self.problem.node_at(*node);
                node.price.unwrap_or_default() + surcharge
            })
            .sum();
        let moved = plan
            .launches
            .iter()
            .map(|launch| launch.pods.len())
            .sum::<usize>()
            + plan
                .placements
                .iter()
                .map(|one| one.pods.len())
                .sum::<usize>();
        Trial {
            removed: removed.clone(),
            total: self.present - gone + plan.cost,
            moved,
            plan,
        }
    }
}
