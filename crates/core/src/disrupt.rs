//! Which nodes to take away, and where their pods go.
//!
//! ```text
//! Problem ─► pending pods placed ─►   nodes that must or may go ─► forced: expired, empty, drifted
//!                                                             └─► to save money: the whole cluster at once
//!        ─► Plan { removals, launches, placements, kept with a reason }
//! ```
//!
//! Karpenter looks at prefixes of a list and buys at most one machine for them. Here any number of nodes may make way
//! for any number of machines, and every node is weighed: its price against what its pods would cost elsewhere.

mod budgets;
mod candidate;
mod consolidate;
mod explain;
mod forced;
mod pending;
mod pool_offers;
mod rebalance;
mod trial;
mod worth;

use std::collections::BTreeMap;

use self::budgets::{Budgets, PodBudgets};
use self::candidate::Candidate;
use self::pending::PendingPlaced;
use self::trial::{Trial, Trials};
use crate::money::Money;
use crate::name::Name;
use crate::pack::{Options, Relaxations};
use crate::plan::{Plan, Removal};
use crate::problem::{DisruptionReason, NodeId, Problem};

/// Why each removed node is removed, by its index.
type Causes = BTreeMap<NodeId, DisruptionReason>;

/// The nodes to take away now, what to buy in their stead, and where their pods go.
pub fn plan(problem: &Problem, options: &Options) -> Plan {
    let pending_placed = PendingPlaced::new(problem, options);
    let problem = pending_placed.problem();
    let relaxations = Relaxations::of(problem);
    let mut standings = candidate::standings(problem, &pending_placed);
    let mut budgets = Budgets::new(problem);
    let mut pods = PodBudgets::new(problem);
    let mut trials = Trials::new(problem, &relaxations, options);
    let mut causes = Causes::new();
    let forced = forced::choose(
        &mut trials,
        &mut standings,
        &mut budgets,
        &mut pods,
        &mut causes,
    );
    let chosen = consolidate::choose(
        &mut trials,
        &mut standings,
        &mut budgets,
        &mut pods,
        &mut causes,
        forced,
    );
    let plan = render(problem, &standings, &causes, chosen);
    pending_placed.finish(plan)
}

/// How many nodes of each pool may be away at once for each reason, as budgets say now.
pub fn allowed(problem: &Problem) -> Vec<(Name, DisruptionReason, u32)> {
    Budgets::new(problem).allowed()
}

/// The trial as a plan: which nodes are removed and which are kept, and why.
fn render(problem: &Problem, standings: &[Candidate], causes: &Causes, trial: Trial) -> Plan {
    let shares = worth::shares(problem, &trial.plan);
    let told = rebalance::told(problem, &trial.plan);
    let mut plan = trial.plan;
    for candidate in standings {
        let node = problem.node_at(candidate.node);
        let price = node.price.unwrap_or_default() + problem.settings.node_surcharge;
        let after: Money = shares.get(&candidate.node).copied().unwrap_or_default();
        let Some(cause) = causes.get(&candidate.node) else {
            plan.kept.push(explain::kept(problem, candidate));
            continue;
        };
        let told = told.get(&candidate.node);
        plan.removals.push(Removal {
            node: node.name.clone(),
            cause: *cause,
            reason: explain::removal(node, *cause, candidate.pods, (price, after), told),
        });
    }
    plan
}

#[cfg(test)]
mod tests;
