//! The packer: which machines to buy for pending pods, at the least cost, within every rule.
//!
//! ```text
//!            compile/             assign/                 search.rs                        output/
//! Problem ─► Compiled ──────────► Assignment ───────────► Packing ───────────────────────► Plan
//!            classes, columns     nodes that are there,   strategy/ compete, improve/      launches, order,
//!                                 domains, lots           in counted steps, bound/         reasons
//!                                                         value/ and fill/ serve all three
//! ```
//!
//! Folders in the order in which a pod passes them; each uses only those above it (`cargo xtask check-rooms`):
//!
//! | module | what it does |
//! | --- | --- |
//! | `dense` | data structures that know nothing of Kubernetes: bit sets, resource vectors, interned ids |
//! | `compile` | a problem as numbers, made once and solved often |
//! | `scenario` | the question that is asked: which nodes go, which may receive, which pods wait |
//! | `assign` | pods onto nodes that are there; a domain for every pod with rules about domains; lots for the rest |
//! | `parts` | what can be left out of the following, to measure what it is worth |
//! | `packing` | machines being filled with lots: the state that all of the following share |
//! | `value` | linear programs: what pods and resources are worth |
//! | `fill` | what goes into one machine: greedy, exact, beam |
//! | `strategy` | ways to pack all lots from scratch |
//! | `improve` | local search from a packing to a cheaper one |
//! | `bound` | what every plan for the same pods costs at least |
//! | `output` | from a packing to a plan: alternatives, order of binding, reasons |
//! | `search` | assign, pack, compete, improve: one anytime search |
//! | `preferences` | what preferences may cost: the search with all of them, with fewer, with none |
//! | `replan` | pods left over are planned for again, as if the plan had been executed |
//!
//! # Glossary
//!
//! A *class* is all pods that no rule tells apart, size included. A *level* of a class is what it asks for with some of
//! its preferences given up. An *offer* is one way to buy a machine; a *column* is an offer that no other offer beats. A
//! *cell* is a combination of values of all topology keys. A *lot* is pods of one class and level that may use the same
//! set of columns. A *bin* is a machine to be bought and what it carries; a *packing* is lots divided over bins. A
//! *filling* is what goes into one machine; a *bargain* is a column whose room is worth its price at the values of a
//! linear program. All words: docs/concepts/glossary.md; the algorithm in prose: docs/concepts/packing.md.

mod assign;
mod bound;
mod compile;
mod dense;
mod fill;
#[cfg(test)]
mod fixtures;
mod improve;
mod output;
mod packing;
mod parts;
mod preferences;
mod replan;
mod scenario;
mod search;
mod strategy;
mod value;

use crate::plan::Plan;
use crate::problem::{NodeId, Problem};

pub(crate) use compile::drain::blocks_drain;
pub use parts::{Part, Without};
pub(crate) use preferences::Relaxations;
pub(crate) use scenario::Scenario;
pub use search::Options;

/// The cheapest plan found within the options.
pub fn solve(problem: &Problem, options: &Options) -> Plan {
    solve_while(problem, options, || true)
}

/// The same for a caller with a clock: improves for as long as it says so, or until nothing can be gained.
pub fn solve_while(problem: &Problem, options: &Options, mut go_on: impl FnMut() -> bool) -> Plan {
    replan::planned(problem, &[], options, &mut go_on)
}

/// The cheapest plan in which no pod comes to one of these nodes.
pub(crate) fn solve_closing(problem: &Problem, closed: &[NodeId], options: &Options) -> Plan {
    replan::planned(problem, closed, options, &mut || true)
}
