//! Worlds that are sabotaged, so that the auditor has something to find; and one that is not, twice.

mod sabotage;

use std::sync::Arc;

use joiner_controllers::Decide;
use joiner_controllers::engine::Core;
use joiner_core::plan::{Plan, Reason, Removal};
use joiner_core::problem::{DisruptionReason, Problem};
use joiner_sim::audit::Invariant;

use super::report::Outcome;
use super::world::Run;
use crate::args::FaultKind;

/// The first world of some that goes wrong.
fn first_wrong(seeds: std::ops::Range<u64>, run: &Run) -> Outcome {
    let wrong = seeds
        .map(|seed| {
            let run = Run {
                seed,
                ..run.clone()
            };
            run.play().unwrap()
        })
        .find(|outcome| !outcome.violations.is_empty());
    wrong.expect("some world goes wrong")
}

fn found(outcome: &Outcome) -> Vec<Invariant> {
    outcome.violations.iter().map(|one| one.invariant).collect()
}

#[test]
fn the_same_seed_is_the_same_world_to_the_last_byte() {
    let play = |seed| {
        let run = Run {
            seed,
            hours: 2,
            faults: FaultKind::all(),
            ..Run::default()
        };
        run.play().unwrap()
    };
    let (one, again, other) = (play(11), play(11), play(12));
    assert_eq!(one.hash, again.hash);
    assert_eq!(one.changes, again.changes);
    assert_ne!(one.hash, other.hash);
}

#[test]
fn a_cloud_that_forgets_its_orders_is_caught_selling_twice() {
    let run = Run {
        hours: 2,
        faults: vec![FaultKind::Cloud, FaultKind::Crash],
        tamper: Some(|options| options.forgets_orders = true),
        ..Run::default()
    };
    let outcome = first_wrong(0..20, &run);
    assert!(
        found(&outcome).contains(&Invariant::OneMachine),
        "{:?}",
        outcome.violations
    );
    let violated = &outcome.violations[0];
    assert!(violated.history.iter().any(|line| line.contains("sold")));
}

/// Decides as the core does, and then does something that it must not.
struct Tampered {
    core: Core,
    provision: fn(&Problem, Plan) -> Plan,
    disrupt: fn(&Problem, Plan) -> Plan,
}

impl Decide for Tampered {
    fn provision(&self, problem: &Problem) -> Plan {
        (self.provision)(problem, self.core.provision(problem))
    }

    fn disrupt(&self, problem: &Problem) -> Plan {
        (self.disrupt)(problem, self.core.disrupt(problem))
    }
}

fn tampered(provision: fn(&Problem, Plan) -> Plan, disrupt: fn(&Problem, Plan) -> Plan) -> Run {
    Run {
        hours: 1,
        decide: Some(Arc::new(Tampered {
            core: Core::default(),
            provision,
            disrupt,
        })),
        ..Run::default()
    }
}

/// Everything that is in use is to go, whatever budgets say.
fn remove_all(problem: &Problem, _: Plan) -> Plan {
    let removals = problem.nodes.iter().filter(|node| {
        node.pool.is_some()
            && node.phase == joiner_core::problem::NodePhase::Ready
            && !node.deleting
    });
    Plan {
        removals: removals
            .map(|node| Removal {
                node: node.name.clone(),
                cause: DisruptionReason::Underutilized,
                reason: Reason::NoPool,
            })
            .collect(),
        ..Plan::default()
    }
}
