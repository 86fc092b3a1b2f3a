//! Nodes that go whatever it costs: expired, empty, drifted.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::Causes;
use super::budgets::{Budgets, PodBudgets, give_both_back, take_both};
use super::candidate::{Candidate, Standing, expired};
use super::trial::{Buying, Care, Trial, Trials};
use crate::plan::Code;
use crate::problem::{DisruptionReason, NodeId};

/// Rounds of putting nodes back whose pods find no other place.
const MAX_ROUNDS: usize = 8;

/// Chooses them, and finds places for their pods.
pub(super) fn choose(
    trials: &mut Trials<'_, '_>,
    candidates: &mut [Candidate],
    budgets: &mut Budgets,
    pods: &mut PodBudgets<'_>,
    causes: &mut Causes,
) -> Trial {
    let problem = trials.problem;
    for candidate in candidates.iter_mut() {
        if expired(problem, problem.node_at(candidate.node)) {
            causes.insert(candidate.node, DisruptionReason::Expired);
        }
    }
    let mut take = |candidate: &mut Candidate, reason| match take_both(
        problem, budgets, pods, candidate, reason,
    ) {
        Ok(()) => {
            causes.insert(candidate.node, reason);
            true
        }
        Err((code, because, until)) => {
            candidate.standing = Standing::Held {
                code,
                because,
                until,
            };
            false
        }
    };
    let mut free: Vec<&mut Candidate> = Vec::new();
    for candidate in candidates.iter_mut() {
        let going = expired(problem, problem.node_at(candidate.node));
        if going {
            continue;
        }
        let empty = candidate.empty && candidate.standing == Standing::Free;
        let taken = empty && take(candidate, DisruptionReason::Empty);
        // One that budgets for empty nodes hold back may still go because it has drifted.
        if !taken && candidate.protected.is_none() {
            free.push(candidate);
        }
    }
    // The oldest first, so that none waits for ever; empty ones before all others, as they disturb no pod.
    free.retain(|candidate| problem.node_at(candidate.node).drifted.is_some());
    free.sort_by_key(|candidate| {
        let created = problem.node_at(candidate.node).created;
        (
            !candidate.empty,
            created.unwrap_or(Timestamp::MIN),
            candidate.node,
        )
    });
    for candidate in free {
        take(candidate, DisruptionReason::Drifted);
    }
    apply_budgets(trials, candidates, budgets, pods, causes)
}

/// Finds places for the pods of nodes chosen so far; nodes that need not go and whose pods find none stay.
fn apply_budgets(
    trials: &Trials<'_, '_>,
    candidates: &mut [Candidate],
    budgets: &mut Budgets,
    pods: &mut PodBudgets<'_>,
    causes: &mut Causes,
) -> Trial {
    for _ in 0..MAX_ROUNDS {
        let trial = run(trials, causes);
        let mut stranded = trial.stranded();
        stranded.retain(|node| causes.get(node) != Some(&DisruptionReason::Expired));
        if stranded.is_empty() {
            return trial;
        }
        keep(trials, candidates, budgets, pods, causes, &stranded);
    }
    let rest: BTreeSet<NodeId> = causes
        .iter()
        .filter(|(_, cause)| **cause != DisruptionReason::Expired)
        .map(|(node, _)| *node)
        .collect();
    keep(trials, candidates, budgets, pods, causes, &rest);
    run(trials, causes)
}

fn run(trials: &Trials<'_, '_>, causes: &Causes) -> Trial {
    let removed: BTreeSet<NodeId> = causes.keys().copied().collect();
    trials.run(&removed, Buying::Allowed, Care::Fine)
}

fn keep(
    trials: &Trials<'_, '_>,
    candidates: &mut [Candidate],
    budgets: &mut Budgets,
    pods: &mut PodBudgets<'_>,
    causes: &mut Causes,
    nodes: &BTreeSet<NodeId>,
) {
    for candidate in candidates.iter_mut() {
        if nodes.contains(&candidate.node) {
            causes.remove(&candidate.node);
            give_both_back(trials.problem, budgets, pods, candidate);
            candidate.standing = Standing::held(Code::NoOtherPlace, super::explain::NO_PLACE);
        }
    }
}
