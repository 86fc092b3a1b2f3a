//! Priority first, over everything; then size; then age.

use crate::pack::fixtures::{
    amounts, beside, decide, machine, node, over_zones, pods, selling, spec, unplaced,
};
use crate::problem::{NodePhase, Pod, PodSpec, Problem, Weighted};

/// One machine of four cores may be bought.
fn one_machine(pods: Vec<Pod>) -> Problem {
    let mut problem = selling(vec![machine(4)]);
    problem.settings.max_new_nodes = Some(1);
    problem.pods = pods;
    problem
}

/// There is one node of four cores, and nothing can be bought.
fn one_node(pods: Vec<Pod>) -> Problem {
    let mut problem = selling(vec![machine(4)]);
    node(&mut problem, NodePhase::Ready);
    problem.nodes[0].allocatable = amounts(4000).with(crate::resources::PODS, 20);
    problem.pools.clear();
    problem.nodes[0].pool = None;
    problem.pods = pods;
    problem
}

#[track_caller]
fn loses(pods: &[Pod], losers: &[&str]) {
    for problem in [one_machine(pods.to_vec()), one_node(pods.to_vec())] {
        let (_, _, _, plan) = decide(&problem);
        assert_eq!(unplaced(&problem, &plan), losers, "{plan:#?}");
    }
}

fn important(spec: PodSpec) -> PodSpec {
    PodSpec {
        priority: 1000,
        ..spec
    }
}

fn with_its_kind(spec: PodSpec) -> PodSpec {
    PodSpec {
        affinity: vec![beside("high")],
        ..spec
    }
}

#[test]
fn important_pods_run_before_larger_ones() {
    let high = pods("high", 1, important(spec("high", 1000)));
    let low = pods("low", 1, spec("low", 4000));
    loses(&[low, high], &["low"]);
}

#[test]
fn important_pods_that_must_be_together_run_before_others() {
    let high = pods("high", 1, important(with_its_kind(spec("high", 4000))));
    let low = pods("low", 1, spec("low", 4000));
    loses(&[low, high], &["low"]);
}

#[test]
fn important_pods_that_would_rather_be_together_run_before_others() {
    let preference = vec![Weighted {
        weight: 1,
        term: beside("high"),
    }];
    let high = PodSpec {
        preferred_pod_affinity: preference,
        ..important(spec("high", 2000))
    };
    let low = pods("low", 2, spec("low", 1500));
    loses(&[low, pods("high", 2, high)], &["low-0", "low-1"]);
}

#[test]
fn important_pods_with_a_spread_run_before_others() {
    let high = PodSpec {
        spread: vec![over_zones("high")],
        ..important(spec("high", 4000))
    };
    let low = pods("low", 1, spec("low", 4000));
    loses(&[low, pods("high", 1, high)], &["low"]);
}

#[test]
fn important_pods_that_must_be_near_unimportant_ones_wait_for_them() {
    let follower = PodSpec {
        affinity: vec![beside("low")],
        ..important(spec("high", 1000))
    };
    let low = pods("low", 1, spec("low", 1000));
    loses(&[low, pods("high", 1, follower)], &[]);
}

#[test]
fn larger_pods_run_before_smaller_ones_of_their_priority() {
    let large = pods("large", 1, spec("large", 4000));
    let small = pods("small", 2, spec("small", 1000));
    loses(&[small, large], &["small-0", "small-1"]);
}

#[test]
fn older_pods_run_before_younger_ones_of_their_size() {
    let aged = |name: &str, app: &str, hour: u32| Pod {
        created: Some(format!("2026-11-13T{hour:02}:00:00Z").parse().unwrap()),
        ..pods(name, 1, spec(app, 3000))
    };
    loses(&[aged("young", "x", 9), aged("old", "x", 8)], &["young"]);
    loses(&[aged("young", "x", 9), aged("old", "y", 8)], &["young"]);
    loses(&[aged("young", "y", 9), aged("old", "x", 8)], &["young"]);
}

#[test]
fn pods_that_can_run_nowhere_keep_no_pod_from_running() {
    let giant = pods("giant", 1, important(spec("giant", 64_000)));
    let stranger = PodSpec {
        affinity: vec![beside("absent")],
        ..important(spec("stranger", 1000))
    };
    let low = pods("low", 4, spec("low", 1000));
    loses(
        &[giant, pods("stranger", 1, stranger), low],
        &["giant", "stranger"],
    );
}
