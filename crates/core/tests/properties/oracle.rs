//! Small problems against what trying everything finds.

use joiner_core::money::Money;
use joiner_core::pack;
use joiner_core::problem::{Pod, PodSpec, Pool, Problem};
use joiner_core::resources::Resources;
use proptest::prelude::*;

use crate::clusters::{Dice, GIB, cases, catalog, options, size};

/// The least cost of packing a few pods into machines, by trying every partition.
fn cheapest(problem: &Problem) -> Option<Money> {
    let pods: Vec<&PodSpec> = problem.pods.iter().map(|pod| &*pod.spec).collect();
    let types = &problem.catalogs[0].types;
    let price = |group: &Resources| {
        let fitting = types.iter().filter(|one| one.allocatable().fits(group));
        fitting
            .flat_map(|one| &one.offerings)
            .map(|offering| offering.price)
            .min()
    };
    fn descend(
        pods: &[&PodSpec],
        groups: &mut Vec<Resources>,
        price: &dyn Fn(&Resources) -> Option<Money>,
    ) -> Option<Money> {
        let Some((first, rest)) = pods.split_first() else {
            return groups.iter().map(price).sum::<Option<Money>>();
        };
        let mut best: Option<Money> = None;
        for index in 0..=groups.len() {
            if index == groups.len() {
                groups.push(Resources::new());
            }
            let before = groups[index].clone();
            groups[index].add(&first.requests);
            if let Some(cost) = descend(rest, groups, price) {
                best = Some(best.map_or(cost, |best| best.min(cost)));
            }
            groups[index] = before;
            if groups[index].is_empty() {
                groups.pop();
            }
        }
        best
    }
    descend(&pods, &mut Vec::new(), &price)
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn small_problems_are_near_what_trying_everything_finds(seed in any::<u64>()) {
        let dice = &mut Dice(seed);
        let mut catalog = catalog(dice);
        for one in &mut catalog.types {
            for offering in &mut one.offerings {
                (offering.available, offering.left) = (true, None);
            }
        }
        let mut problem = Problem {
            catalogs: vec![catalog],
            pools: vec![Pool { name: "only".into(), catalog: "cloud".into(), ..Pool::default() }],
            ..Problem::default()
        };
        for index in 0..dice.amount(1, 6) {
            let requests = size(dice.amount(1, 40) * 100, dice.amount(1, 32) * GIB / 4, 1);
            let spec = PodSpec { requests, ..PodSpec::default() };
            problem.pods.push(Pod::new(&format!("pod-{index}"), spec));
        }
        let Some(optimum) = cheapest(&problem) else { return Ok(()) };
        let plan = pack::solve(&problem, &options(10, 1));
        prop_assert!(plan.unplaced.is_empty());
        prop_assert!(plan.cost >= optimum, "cheaper than possible: seed {seed}");
        prop_assert!(plan.lower_bound <= optimum, "the bound is wrong: seed {seed}");
        let most = optimum + optimum.percent(35);
        prop_assert!(plan.cost <= most, "{} against {optimum}: seed {seed}", plan.cost);
    }
}
