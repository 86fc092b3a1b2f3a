//! Clusters that have lived: pods left, prices moved, nodes drifted and aged. What is taken away keeps every rule.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use joiner_core::disrupt;
use joiner_core::money::Money;
use joiner_core::name::Name;
use joiner_core::pack;
use joiner_core::plan::{Plan, apply, check};
use joiner_core::problem::{
    Budget, BudgetAmount, ConsolidationPolicy, Disruption, DisruptionReason, Node, Pod,
    PodDisruptionBudget, Problem, UnhealthyPodEvictionPolicy,
};
use joiner_core::selector::LabelSelector;
use proptest::prelude::*;

use crate::clusters::{APPS, SeededGenerator, cases, cluster, options, passes};
use crate::twists::twisted;

/// A Wednesday, half past noon.
const NOW: i64 = 1_767_789_000;

fn hours(count: i64) -> SignedDuration {
    SignedDuration::from_hours(count)
}

fn budget(generator: &mut SeededGenerator) -> Budget {
    let reasons = [
        DisruptionReason::Empty,
        DisruptionReason::Drifted,
        DisruptionReason::Underutilized,
    ];
    let scheduled = generator.one_in(3);
    Budget {
        amount: if generator.one_in(2) {
            BudgetAmount::Percent(u8::try_from(generator.amount(0, 100)).unwrap())
        } else {
            BudgetAmount::Nodes(u32::try_from(generator.below(4)).unwrap())
        },
        reasons: reasons
            .into_iter()
            .filter(|_| generator.one_in(3))
            .collect(),
        schedule: scheduled.then(|| {
            // Open now, closed now, and what cannot be read.
            generator
                .pick(&["0 12 * * *", "0 9 * * mon", "@daily", "at noon"])
                .to_owned()
        }),
        duration: scheduled.then(|| hours(generator.amount(1, 13))),
    }
}

fn terms(generator: &mut SeededGenerator) -> Disruption {
    let mut terms = Disruption {
        policy: match generator.below(4) {
            0 => ConsolidationPolicy::WhenEmpty,
            1 => ConsolidationPolicy::Balanced,
            _ => ConsolidationPolicy::WhenEmptyOrUnderutilized,
        },
        consolidate_after: match generator.below(8) {
            0 => None,
            1 | 2 => Some(hours(1)),
            _ => Some(SignedDuration::ZERO),
        },
        min_savings: u32::try_from([0, 0, 5, 20][usize::try_from(generator.below(4)).unwrap()])
            .unwrap(),
        min_age: hours([0, 0, 24][usize::try_from(generator.below(3)).unwrap()]),
        spot_to_spot: generator.one_in(2),
        ..Disruption::default()
    };
    terms.budgets = (0..generator.below(3)).map(|_| budget(generator)).collect();
    terms
}

fn age(generator: &mut SeededGenerator, node: &mut Node) {
    let now = Timestamp::from_second(NOW).unwrap();
    node.created = Some(now - hours(generator.amount(0, 1000)));
    node.last_pod_event = generator
        .one_in(2)
        .then(|| now - SignedDuration::from_mins(generator.amount(0, 180)));
    node.drifted = generator.one_in(8).then(|| "NodePoolDrifted".to_owned());
    node.do_not_disrupt = generator.one_in(15);
    node.unready = generator.one_in(15);
    node.nominated = generator.one_in(15);
    node.deleting = generator.one_in(20);
    node.pods.retain(|_| !generator.one_in(2));
    for pod in &mut node.pods {
        pod.do_not_disrupt = generator.one_in(25);
        pod.unready = generator.one_in(20);
        pod.deletion_cost = i32::try_from(generator.amount(-100, 100)).unwrap() << 20;
    }
}

/// A cluster that was bought and has lived for a while.
fn lived(seed: u64) -> Problem {
    aged(cluster(seed, false), seed)
}

fn aged(mut before: Problem, seed: u64) -> Problem {
    for pool in &mut before.pools {
        pool.limits.nodes = pool.limits.nodes.map(|most| most + 4);
    }
    let bought = pack::solve(&before, &options(0, 1));
    let mut problem = apply(&before, &bought, "node-");
    let generator = &mut SeededGenerator(seed ^ 0xD15);
    problem.now = Some(Timestamp::from_second(NOW).unwrap());
    if generator.one_in(2) {
        problem.pods.clear();
    }
    for node in &mut problem.nodes {
        age(generator, node);
    }
    for pool in &mut problem.pools {
        pool.disruption = terms(generator);
        pool.expire_after = generator.one_in(3).then(|| hours(800));
    }
    for kind in &mut problem.catalogs[0].types {
        for offering in &mut kind.offerings {
            let percent = u32::try_from(generator.amount(40, 140)).unwrap();
            offering.price = offering.price.percent(percent);
            offering.available ^= generator.one_in(10);
        }
    }
    for app in APPS {
        if generator.one_in(3) {
            problem.pod_disruption_budgets.push(PodDisruptionBudget {
                namespace: "default".into(),
                name: app.into(),
                selector: Some(LabelSelector::label("app", app)),
                disruptions_allowed: u32::try_from(generator.below(6)).unwrap(),
                never: generator.one_in(8),
                unhealthy_pod_eviction_policy: if generator.one_in(2) {
                    UnhealthyPodEvictionPolicy::AlwaysAllow
                } else {
                    UnhealthyPodEvictionPolicy::IfHealthyBudget
                },
            });
        }
    }
    if generator.one_in(3) {
        problem.settings.node_surcharge = Money::from_nanos(10_000_000);
    }
    problem
}

/// The same with everything that a cluster can have.
fn unusual(seed: u64) -> Problem {
    aged(twisted(seed, false), seed)
}

/// The same, and nothing but money decides: no budgets, no drift, no pod waits, no node is protected.
fn free(seed: u64) -> Problem {
    let mut problem = lived(seed);
    problem.pods.clear();
    problem.pod_disruption_budgets.clear();
    for pool in &mut problem.pools {
        pool.expire_after = None;
        pool.disruption = Disruption {
            budgets: Vec::new(),
            spot_to_spot: pool.disruption.spot_to_spot,
            ..Disruption::default()
        };
    }
    for node in &mut problem.nodes {
        node.drifted = None;
        (node.unready, node.nominated, node.deleting) = (false, false, false);
        node.do_not_disrupt = false;
        for pod in &mut node.pods {
            pod.do_not_disrupt = false;
        }
    }
    problem
}

fn cost(problem: &Problem) -> Money {
    let surcharge = problem.settings.node_surcharge;
    let nodes = problem.nodes.iter();
    nodes
        .map(|node| node.price.unwrap_or_default() + surcharge)
        .sum()
}

/// How many pods of each spec there are, wherever.
fn census(problem: &Problem) -> BTreeMap<String, u32> {
    let mut count = BTreeMap::new();
    let bound = problem.nodes.iter().flat_map(|node| &node.pods);
    for pod in problem
        .pods
        .iter()
        .chain(bound)
        .filter(|pod| pod.reschedulable())
    {
        let key = serde_json::to_string(&*pod.spec).unwrap();
        *count.entry(key).or_default() += pod.count;
    }
    count
}

fn forced(plan: &Plan) -> bool {
    let must = [DisruptionReason::Drifted, DisruptionReason::Expired];
    plan.removals.iter().any(|one| must.contains(&one.cause))
}

fn waiting(problem: &Problem) -> u32 {
    problem.pods.iter().map(|pod| pod.count).sum()
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn what_is_taken_away_keeps_every_rule(seed in any::<u64>()) {
        keeps_every_rule(seed)?;
    }

    #[test]
    fn what_is_taken_away_in_an_unusual_cluster_keeps_every_rule(seed in any::<u64>()) {
        passes(&unusual(seed), seed, disrupt::plan)?;
    }

    #[test]
    fn no_pod_is_lost_and_none_waits_that_ran(seed in any::<u64>()) {
        let problem = lived(seed);
        let plan = disrupt::plan(&problem, &options(10, 1));
        let after = apply(&problem, &plan, "new-");
        prop_assert_eq!(census(&problem), census(&after), "seed {}", seed);
        let expired = |one: &joiner_core::plan::Removal| one.cause == DisruptionReason::Expired;
        if !plan.removals.iter().any(expired) {
            prop_assert!(waiting(&after) <= waiting(&problem), "seed {seed}");
        }
    }

    #[test]
    fn only_what_must_go_or_waits_may_make_a_cluster_dearer(seed in any::<u64>()) {
        let problem = lived(seed);
        let plan = disrupt::plan(&problem, &options(10, 1));
        if forced(&plan) {
            return Ok(());
        }
        let pending = pack::solve(&problem, &options(10, 1)).cost;
        let after = apply(&problem, &plan, "new-");
        let most = cost(&problem) + pending;
        prop_assert!(cost(&after) <= most, "seed {seed}: {} against {most}", cost(&after));
    }

    #[test]
    fn every_node_is_taken_or_kept_with_a_reason(seed in any::<u64>()) {
        let problem = lived(seed);
        let plan = disrupt::plan(&problem, &options(10, 1));
        let gone = plan.removals.iter().map(|one| &one.node);
        let mut named: Vec<&Name> = gone.chain(plan.kept.iter().map(|one| &one.node)).collect();
        named.sort_unstable();
        let own = problem.nodes.iter().filter(|node| node.pool.is_some() && !node.deleting);
        let mut all: Vec<&Name> = own.map(|node| &node.name).collect();
        all.sort_unstable();
        prop_assert_eq!(named, all, "seed {}", seed);
    }

    #[test]
    fn threads_do_not_change_what_is_taken_away(seed in any::<u64>()) {
        let problem = lived(seed);
        let one = serde_json::to_string(&disrupt::plan(&problem, &options(10, 1))).unwrap();
        for threads in [2, 8] {
            let many = serde_json::to_string(&disrupt::plan(&problem, &options(10, threads))).unwrap();
            prop_assert_eq!(&one, &many, "seed {}", seed);
        }
    }

    #[test]
    fn a_cluster_gets_cheaper_and_comes_to_rest(seed in any::<u64>()) {
        let mut problem = free(seed);
        for round in 0..ROUNDS {
            let plan = disrupt::plan(&problem, &options(10, 1));
            let report = check(&problem, &plan);
            prop_assert!(report.is_empty(), "seed {seed}, round {round}: {report:?}");
            if plan.removals.is_empty() {
                return Ok(());
            }
            let after = apply(&problem, &plan, &format!("round-{round}-"));
            prop_assert!(cost(&after) < cost(&problem), "seed {seed}, round {round}");
            problem = after;
        }
        let plan = disrupt::plan(&problem, &options(10, 1));
        prop_assert!(plan.removals.is_empty(), "seed {seed}: still moving after {ROUNDS} rounds");
    }
}

fn keeps_every_rule(seed: u64) -> Result<(), TestCaseError> {
    passes(&lived(seed), seed, disrupt::plan)
}

#[test]
fn clusters_that_once_failed_keep_every_rule() {
    // Pods that wait for a node of a balanced pool were taken for pods that it has.
    keeps_every_rule(12_423_545_610_417_410_107).unwrap();
    // Pods that moved did not see pods on machines that others had waited for.
    keeps_every_rule(13_486_922_551_868_881_459).unwrap();
    // Pods that had waited were judged as if others had left before.
    keeps_every_rule(1_111_231_228_720_093_452).unwrap();
}

/// Rounds after which a small cluster has nothing left to gain. Most need one.
const ROUNDS: usize = 6;

/// Pods of a node that is drained by hand stand on it until they are moved, and only there.
#[test]
fn a_node_on_its_way_out_gives_its_pods_away_once() {
    let mut problem = free(7);
    problem.nodes[0].deleting = true;
    problem.nodes[0].pods = vec![Pod {
        count: 2,
        ..Pod::new("web", joiner_core::problem::PodSpec::default())
    }];
    let plan = disrupt::plan(&problem, &options(0, 1));
    let after = apply(&problem, &plan, "new-");
    assert_eq!(census(&problem), census(&after));
    assert!(after.nodes[0].pods.is_empty());
}
