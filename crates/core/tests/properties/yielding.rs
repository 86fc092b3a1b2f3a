//! Pods with wishes where machines are few.

use joiner_core::pack;
use joiner_core::problem::{Problem, Weighted};
use proptest::prelude::*;

use crate::clusters::{APPS, Dice, cases, cluster, passes, term};

/// A cluster in which half of the pods would rather be near others or apart from them, and machines may be few.
fn wishful(seed: u64, with_nodes: bool) -> Problem {
    let mut problem = cluster(seed, with_nodes);
    let dice = &mut Dice(seed ^ 0x3A7E);
    for pod in &mut problem.pods {
        let spec = std::sync::Arc::make_mut(&mut pod.spec);
        if dice.one_in(2) {
            let app = dice.pick(&APPS);
            let term = term(dice, app);
            spec.preferred_pod_affinity
                .push(Weighted { weight: 10, term });
        }
        if dice.one_in(2) {
            let app = dice.pick(&APPS);
            let term = term(dice, app);
            spec.preferred_pod_anti_affinity
                .push(Weighted { weight: 10, term });
        }
    }
    if dice.one_in(3) {
        problem.settings.max_new_nodes = u32::try_from(dice.amount(1, 4)).ok();
    }
    problem
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn plans_for_pods_with_wishes_pass_the_checker(seed in any::<u64>(), with_nodes in any::<bool>()) {
        passes(&wishful(seed, with_nodes), seed, pack::solve)?;
    }
}
