//! Plans for pods that wait.

use joiner_core::disrupt;
use joiner_core::pack;
use joiner_core::plan::{Plan, check};
use joiner_core::problem::Problem;
use proptest::prelude::*;

use crate::clusters::{Dice, cases, choosy, cluster, options, passes};
use crate::twists::{TWISTS, twisted};

/// The problem after the plan was carried out: what was bought is there and taken off the stock, pods are bound, and
/// those without a place go on waiting.
pub(crate) fn carried_out(problem: &Problem, plan: &Plan) -> Problem {
    let mut after = disrupt::apply(problem, plan, "new-");
    for launch in &plan.launches {
        let bought = &launch.purchase;
        let catalogs = after.catalogs.iter_mut().flat_map(|one| &mut one.types);
        for kind in catalogs.filter(|one| one.name == bought.instance_type) {
            for offering in &mut kind.offerings {
                let same = offering.zone == bought.zone
                    && offering.capacity_type == bought.capacity_type
                    && offering.reservation == bought.reservation;
                if same && let Some(left) = &mut offering.left {
                    *left -= 1;
                }
            }
        }
    }
    after
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn every_plan_passes_the_checker(seed in any::<u64>(), with_nodes in any::<bool>()) {
        holds(seed, with_nodes)?;
    }

    #[test]
    fn more_steps_never_make_a_plan_dearer_and_the_bound_stays_below(seed in any::<u64>()) {
        let problem = cluster(seed, false);
        let first = pack::solve(&problem, &options(0, 1));
        let best = pack::solve(&problem, &options(10, 1));
        // A plan that places more important pods may cost more.
        let missing = |plan: &Plan| {
            let pods = plan.unplaced.iter().flat_map(|one| &one.pods);
            let mut priorities: Vec<i32> = pods
                .map(|pod| problem.pods[pod.group as usize].spec.priority)
                .collect();
            priorities.sort_unstable();
            priorities
        };
        if missing(&first) == missing(&best) {
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
    fn carrying_plans_out_comes_to_rest(seed in any::<u64>(), with_nodes in any::<bool>()) {
        settles(seed, with_nodes)?;
    }
}

/// Pods that found no place for the sake of others, or because something ran out, may find one when the others have
/// theirs. Most never do, hardly any needs two more looks.
const LOOKS: usize = 4;

/// Plans that are carried out one after the other keep every rule, and soon there is nothing left to plan.
fn settles(seed: u64, with_nodes: bool) -> Result<(), TestCaseError> {
    let mut problem = cluster(seed, with_nodes);
    for _ in 0..LOOKS {
        let plan = pack::solve(&problem, &options(10, 1));
        let report = check(&problem, &plan);
        prop_assert!(report.is_empty(), "seed {seed}: {report:?}");
        if plan.launches.is_empty() && plan.placements.is_empty() {
            return Ok(());
        }
        let waiting = problem.pending();
        problem = carried_out(&problem, &plan);
        prop_assert!(problem.pending() < waiting, "seed {seed}");
    }
    let again = pack::solve(&problem, &options(10, 1));
    let late = again.launches.len() + again.placements.len();
    prop_assert_eq!(late, 0, "seed {}, nodes {}", seed, with_nodes);
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
        settles(seed, with_nodes).unwrap();
    }
}

#[test]
fn every_twist_by_itself_keeps_every_rule() {
    for (name, twist) in TWISTS {
        for seed in 0..60 {
            let mut problem = cluster(seed, true);
            twist(&mut Dice(seed ^ 0x77), &mut problem);
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
