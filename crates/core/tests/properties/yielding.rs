//! Pods with preferences where machines are few.

use std::cmp::Reverse;

use joiner_core::pack;
use joiner_core::problem::{PreferencePolicy, Problem, Weighted};
use proptest::prelude::*;

use crate::clusters::{APPS, SeededGenerator, cases, cluster, options, passes, term};

/// A cluster in which half of the pods would rather be near others or apart from them, and machines may be few.
fn with_preferences(seed: u64, with_nodes: bool) -> Problem {
    let mut problem = cluster(seed, with_nodes);
    let generator = &mut SeededGenerator(seed ^ 0x3A7E);
    for pod in &mut problem.pods {
        let spec = std::sync::Arc::make_mut(&mut pod.spec);
        if generator.one_in(2) {
            let app = generator.pick(&APPS);
            let term = term(generator, app);
            spec.preferred_pod_affinity
                .push(Weighted { weight: 10, term });
        }
        if generator.one_in(2) {
            let app = generator.pick(&APPS);
            let term = term(generator, app);
            spec.preferred_pod_anti_affinity
                .push(Weighted { weight: 10, term });
        }
    }
    if generator.one_in(3) {
        problem.settings.max_new_nodes = u32::try_from(generator.amount(1, 4)).ok();
    }
    problem
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn plans_for_pods_with_wishes_pass_the_checker(seed in any::<u64>(), with_nodes in any::<bool>()) {
        passes(&with_preferences(seed, with_nodes), seed, pack::solve)?;
    }

    #[test]
    fn no_pod_waits_for_the_sake_of_a_preference(seed in any::<u64>(), with_nodes in any::<bool>()) {
        let problem = with_preferences(seed, with_nodes);
        let mut ignoring = problem.clone();
        ignoring.settings.preferences = PreferencePolicy::Ignore;
        for steps in [0, 10] {
            // The most important first: of two lists the greater is the worse.
            let waiting = |asked: &Problem| -> Vec<i32> {
                let plan = pack::solve(asked, &options(steps, 1));
                let pods = plan.waiting().map(|pod| &problem.pods[pod.group as usize]);
                let mut priorities: Vec<i32> = pods.map(|pod| pod.spec.priority).collect();
                priorities.sort_unstable_by_key(|priority| Reverse(*priority));
                priorities
            };
            prop_assert!(waiting(&problem) <= waiting(&ignoring), "seed {seed}, steps {steps}");
        }
    }
}
