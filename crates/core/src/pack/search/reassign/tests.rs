//! Preferences yield, and rules about domains choose again, before a pod is left without a place.

use crate::labels;
use crate::pack::fixtures::{beside, decide, machine, node, over_zones, pods, selling, spec};
use crate::plan::Reason;
use crate::problem::{
    AffinityTerm, NodePhase, Pod, PodSpec, Pool, Problem, Spread, Weighted, WhenUnsatisfiable,
};
use crate::requirement::{Expression, Operator};

fn preference<T>(term: T) -> Vec<Weighted<T>> {
    vec![Weighted { weight: 1, term }]
}

fn preferring_company(app: &str, of: &str, cpu: i64) -> PodSpec {
    PodSpec {
        preferred_pod_affinity: preference(beside(of)),
        ..spec(app, cpu)
    }
}

fn preferring_solitude(app: &str, cpu: i64) -> PodSpec {
    PodSpec {
        preferred_pod_anti_affinity: preference(beside(app)),
        ..spec(app, cpu)
    }
}

/// One type of four cores, and these pods.
fn problem(pods: Vec<Pod>) -> Problem {
    Problem {
        pods,
        ..selling(vec![machine(4)])
    }
}

#[test]
fn pods_that_prefer_company_run_without_it() {
    let lonely = preferring_company("web", "cache", 1000);
    let (launches, _, unplaced, _) = decide(&problem(vec![pods("web", 1, lonely)]));
    assert_eq!((launches, unplaced), (vec![1], 0));
}

#[test]
fn pods_that_prefer_their_own_company_fill_as_many_machines_as_they_need() {
    let with_preference = preferring_company("x", "x", 1000);
    let (launches, _, unplaced, _) = decide(&problem(vec![pods("x", 10, with_preference)]));
    assert_eq!((launches.len(), unplaced), (3, 0));
}

#[test]
fn pods_that_prefer_company_join_it_where_there_is_room() {
    let caches = pods("cache", 1, spec("cache", 2000));
    let webs = pods("web", 4, preferring_company("web", "cache", 1000));
    let (mut launches, _, unplaced, plan) = decide(&problem(vec![caches, webs]));
    launches.sort_unstable();
    assert_eq!((launches, unplaced), (vec![2, 3], 0));
    let with_cache = plan.launches.iter().find(|one| {
        let group = |pod: &crate::plan::PodRef| pod.group == 0;
        one.pods.iter().any(group)
    });
    assert_eq!(with_cache.unwrap().pods.len(), 3);
}

#[test]
fn pods_that_prefer_the_company_of_a_full_node_run_elsewhere() {
    let mut problem = problem(vec![pods(
        "web",
        2,
        preferring_company("web", "cache", 1000),
    )]);
    node(&mut problem, NodePhase::Ready);
    problem.nodes[0].pods = vec![Pod::new("cache", spec("cache", 7000))];
    let (launches, placed, unplaced, _) = decide(&problem);
    assert_eq!((launches, placed, unplaced), (vec![1], 1, 0));
}

#[test]
fn pods_with_a_spread_that_prefer_company_run_without_it() {
    for of in ["web", "cache"] {
        let spread = PodSpec {
            spread: vec![over_zones("web")],
            ..preferring_company("web", of, 1000)
        };
        let (launches, _, unplaced, _) = decide(&problem(vec![pods("web", 10, spread)]));
        assert_eq!(unplaced, 0, "{launches:?}");
    }
}

#[test]
fn company_that_is_required_is_kept_when_company_that_is_preferred_is_not() {
    let both = PodSpec {
        affinity: vec![beside("leader")],
        ..preferring_company("follower", "cache", 1000)
    };
    let leader = pods("leader", 1, spec("leader", 1000));
    let (launches, _, unplaced, _) = decide(&problem(vec![leader, pods("follower", 3, both)]));
    assert_eq!((launches, unplaced), (vec![4], 0));
}

#[test]
fn pods_that_prefer_solitude_share_the_last_machine() {
    let mut problem = problem(vec![pods("x", 2, preferring_solitude("x", 1000))]);
    problem.settings.max_new_nodes = Some(1);
    let (launches, _, unplaced, _) = decide(&problem);
    assert_eq!((launches, unplaced), (vec![2], 0));
}

#[test]
fn pods_that_prefer_solitude_share_nodes_when_no_machine_can_be_had() {
    let mut problem = problem(vec![pods("x", 4, preferring_solitude("x", 1000))]);
    problem.pools[0].limits.nodes = Some(1);
    node(&mut problem, NodePhase::Ready);
    problem.nodes[0].pool = None;
    let (launches, placed, unplaced, _) = decide(&problem);
    assert_eq!((launches.len(), placed + launches[0], unplaced), (1, 4, 0));
}

#[test]
fn a_spread_that_is_a_wish_yields_when_no_more_machines_may_be_bought() {
    let anyway = Spread {
        when_unsatisfiable: WhenUnsatisfiable::ScheduleAnyway,
        ..over_zones("x")
    };
    let spread = PodSpec {
        spread: vec![anyway],
        ..spec("x", 1000)
    };
    let mut problem = problem(vec![pods("x", 2, spread)]);
    problem.settings.max_new_nodes = Some(1);
    let (launches, _, unplaced, _) = decide(&problem);
    assert_eq!((launches, unplaced), (vec![2], 0));
}

/// One machine is left in zone a, and zone b costs twice as much.
fn with_one_left_in_a(pods: Vec<Pod>) -> Problem {
    let mut problem = problem(pods);
    let [a, b] = &mut problem.catalogs[0].types[0].offerings[..] else {
        panic!("two zones")
    };
    a.left = Some(1);
    b.price = a.price + a.price;
    problem
}

fn spread_by(skew: i32, count: u32) -> Pod {
    let spread = PodSpec {
        spread: vec![Spread {
            max_skew: skew,
            ..over_zones("x")
        }],
        ..spec("x", 3000)
    };
    pods("x", count, spread)
}

#[test]
fn a_spread_with_slack_chooses_another_zone_when_the_first_is_sold_out() {
    let (launches, _, unplaced, _) = decide(&with_one_left_in_a(vec![spread_by(5, 2)]));
    assert_eq!((launches, unplaced), (vec![1, 1], 0));
    let (launches, _, unplaced, _) = decide(&with_one_left_in_a(vec![spread_by(5, 6)]));
    assert_eq!((launches, unplaced), (vec![1; 6], 0));
}

#[test]
fn a_spread_places_as_many_as_a_zone_that_is_sold_out_allows() {
    let (launches, _, unplaced, plan) = decide(&with_one_left_in_a(vec![spread_by(1, 6)]));
    assert_eq!((launches, unplaced), (vec![1; 3], 3));
    let Reason::Limit { limit, .. } = &plan.unplaced[0].reason else {
        panic!("{:?}", plan.unplaced)
    };
    assert_eq!(limit, "c4 as on-demand in zone a is sold out");
}

#[test]
fn an_inventory_of_single_machines_is_used_up_in_every_zone() {
    let mut problem = problem(vec![spread_by(2, 9)]);
    problem.catalogs[0].types = (0..9)
        .map(|at| {
            let mut one = machine(4);
            one.name = format!("metal-{at}").into();
            one.offerings.swap_remove(usize::from(at % 3 == 0));
            one.offerings[0].left = Some(1);
            one.offerings[0].price = crate::money::Money::ZERO;
            one
        })
        .collect();
    problem.pods[0].count = 8;
    let (launches, _, unplaced, _) = decide(&problem);
    assert_eq!((launches, unplaced), (vec![1; 8], 0));
}

#[test]
fn pods_that_must_be_in_one_zone_go_where_there_are_machines_for_all() {
    let together = PodSpec {
        affinity: vec![AffinityTerm {
            topology_key: labels::ZONE.into(),
            ..beside("x")
        }],
        ..spec("x", 3000)
    };
    let problem = with_one_left_in_a(vec![pods("x", 3, together)]);
    let (launches, _, unplaced, _) = decide(&problem);
    assert_eq!((launches, unplaced), (vec![1; 3], 0));
}

#[test]
fn a_wish_about_nodes_yields_when_what_it_asks_for_is_sold_out() {
    let prefers_a = PodSpec {
        preferred_affinity: preference(vec![Expression::new(labels::ZONE, Operator::In, &["a"])]),
        ..spec("x", 3000)
    };
    let plain = pods("x", 3, prefers_a.clone());
    let (launches, _, unplaced, _) = decide(&with_one_left_in_a(vec![plain]));
    assert_eq!((launches, unplaced), (vec![1; 3], 0));
    let spread = PodSpec {
        spread: vec![Spread {
            max_skew: 5,
            ..over_zones("x")
        }],
        ..prefers_a
    };
    let (launches, _, unplaced, _) = decide(&with_one_left_in_a(vec![pods("x", 3, spread)]));
    assert_eq!((launches, unplaced), (vec![1; 3], 0));
}

#[test]
fn pods_that_find_the_heavier_pool_full_use_lighter_ones() {
    let mut problem = problem(vec![spread_by(1, 6)]);
    problem.pools[0].weight = 10;
    problem.pools[0].limits.nodes = Some(3);
    problem.pools.push(Pool {
        name: "spare".into(),
        catalog: "shop".into(),
        ..Pool::default()
    });
    let (launches, _, unplaced, plan) = decide(&problem);
    assert_eq!((launches, unplaced), (vec![1; 6], 0));
    let heavy = plan.launches.iter().filter(|one| &*one.pool == "main");
    assert_eq!(heavy.count(), 3);
}

#[test]
fn wishes_of_important_pods_yield_to_pods_that_would_not_run() {
    let solitary = PodSpec {
        priority: 1000,
        ..preferring_solitude("x", 1500)
    };
    let others = pods("other", 1, spec("other", 3000));
    let mut problem = problem(vec![pods("x", 2, solitary), others]);
    problem.settings.max_new_nodes = Some(2);
    let (mut launches, _, unplaced, _) = decide(&problem);
    launches.sort_unstable();
    assert_eq!((launches, unplaced), (vec![1, 2], 0));
}
