//! Plans for pods that wait.

use joiner_core::name::Name;
use joiner_core::pack;
use joiner_core::plan::{Plan, apply, check};
use joiner_core::problem::{PreferencePolicy, Problem};
use proptest::prelude::*;

use crate::clusters::{SeededGenerator, cases, choosy, cluster, options, passes};
use crate::twists::{TWISTS, twisted};

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn every_plan_passes_the_checker(seed in any::<u64>(), with_nodes in any::<bool>()) {
        holds(seed, with_nodes)?;
    }

    #[test]
    fn more_steps_never_make_a_plan_dearer_and_the_bound_stays_below(seed in any::<u64>(), respected in any::<bool>()) {
        let mut problem = cluster(seed, false);
        if !respected {
            problem.settings.preferences = PreferencePolicy::Ignore;
        }
        let first = pack::solve(&problem, &options(0, 1));
        let best = pack::solve(&problem, &options(10, 1));
        // A plan that places more important pods may cost more, and so may one that grants more preferences to the same pods
        // where others are left.
        let missing = |plan: &Plan| {
            let mut priorities: Vec<i32> = plan
                .waiting()
                .map(|pod| problem.pods[pod.group as usize].spec.priority)
                .collect();
            priorities.sort_unstable();
            priorities
        };
        let (left, still_left) = (missing(&first), missing(&best));
        if left == still_left && (left.is_empty() || !respected) {
            prop_assert!(best.cost <= first.cost, "seed {seed}");
        }
        prop_assert!(best.lower_bound <= best.cost, "seed {seed}");
    }

    #[test]
    fn threads_do_not_change_a_plan(seed in any::<u64>()) {
        let problem = cluster(seed, true);
        let one = serde_json::to_string(&pack::solve(&problem, &options(10, 1))).unwrap();
        for threads in [2, 8] {
            let many = serde_json::to_string(&pack::solve(&problem, &options(10, threads))).unwrap();
            prop_assert_eq!(&one, &many, "seed {}", seed);
        }
    }

    #[test]
    fn every_plan_of_an_unusual_cluster_passes_the_checker(seed in any::<u64>(), with_nodes in any::<bool>()) {
        passes(&twisted(seed, with_nodes), seed, pack::solve)?;
    }

    #[test]
    fn nor_does_it_in_an_unusual_cluster(seed in any::<u64>(), with_nodes in any::<bool>()) {
        settles(&unbounded(twisted(seed, with_nodes)), seed)?;
    }

    #[test]
    fn planning_again_after_acting_changes_nothing(seed in any::<u64>(), with_nodes in any::<bool>()) {
        settles(&cluster(seed, with_nodes), seed)?;
    }
}

/// Without what bounds a single plan: the next one may buy as much again.
fn unbounded(mut problem: Problem) -> Problem {
    problem.settings.max_new_nodes = None;
    problem.settings.spot_share = None;
    problem
}

/// A plan that was carried out leaves nothing to plan.
fn settles(problem: &Problem, seed: u64) -> Result<(), TestCaseError> {
    for steps in [0, 10] {
        let plan = pack::solve(problem, &options(steps, 1));
        let report = check(problem, &plan);
        prop_assert!(report.is_empty(), "seed {seed}, steps {steps}: {report:?}");
        let after = apply(problem, &plan, "new-");
        let again = pack::solve(&after, &options(steps, 1));
        let late: Vec<&Name> = again
            .placed()
            .filter_map(|pod| Some(&after.pod(pod)?.name))
            .collect();
        prop_assert!(
            late.is_empty(),
            "seed {seed}, steps {steps}: {late:?} find a place too late"
        );
    }
    Ok(())
}

/// Plans of one cluster with a few and with no steps pass the checker.
fn holds(seed: u64, with_nodes: bool) -> Result<(), TestCaseError> {
    passes(&cluster(seed, with_nodes), seed, pack::solve)
}

/// Clusters whose plans once broke a rule.
#[test]
fn clusters_that_once_failed_hold() {
    for (seed, with_nodes) in [
        (1_999_570_661_977_188_244, true),
        (8_495_687_287_442_334_992, false),
        (18_214_074_789_200_535_744, false),
        (14_590_806_166_396_097_975, false),
        (14_590_806_166_396_097_975, true),
    ] {
        holds(seed, with_nodes).unwrap();
        settles(&cluster(seed, with_nodes), seed).unwrap();
    }
}

#[test]
fn every_twist_by_itself_keeps_every_rule() {
    for (name, twist) in TWISTS {
        for seed in 0..60 {
            let mut problem = cluster(seed, true);
            twist(&mut SeededGenerator(seed ^ 0x77), &mut problem);
            let outcome = passes(&problem, seed, pack::solve);
            assert!(outcome.is_ok(), "{name}: {outcome:?}");
        }
    }
}

/// Only the pool with a taint sells in the third zone, and the spread honours taints.
#[test]
fn a_zone_behind_a_taint_does_not_hold_a_spread_back() {
    holds(831_315_701_059_074_832, true).unwrap();
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn machines_of_pools_that_want_a_choice_leave_one(seed in any::<u64>(), with_nodes in any::<bool>()) {
        let problem = choosy(seed, with_nodes);
        for steps in [0, 10, 100] {
            let plan = pack::solve(&problem, &options(steps, 1));
            let report = check(&problem, &plan);
            prop_assert!(report.is_empty(), "seed {seed}, steps {steps}: {report:?}");
        }
    }
}

/// A pod that ends on a leaving node and comes again is counted where it comes to.
#[test]
fn a_pod_that_is_planned_for_again_counts_once_more() {
    passes(&twisted(467_139_719_393_682_569, true), 0, pack::solve).unwrap();
}
