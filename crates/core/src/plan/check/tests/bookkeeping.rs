use super::world::{broken, remove};
use super::world::{launch, node, pend, plan, problem, put, spec, unplaced, valid};
use crate::money::Money;
use crate::plan::{Home, PodRef, Rule};
use crate::problem::{DisruptionReason, Pod};

#[test]
fn every_pod_has_one_place_or_one_reason() {
    let mut problem = problem();
    let pods = pend(&mut problem, "web", 2, spec(500));
    let mut good = plan(vec![launch(&problem, "small", "a", &pods[..1])]);
    good.unplaced = vec![unplaced(&pods[1..])];
    valid(&problem, &good);

    let silent = plan(vec![launch(&problem, "small", "a", &pods[..1])]);
    broken(
        &problem,
        &silent,
        Rule::Bookkeeping,
        "pod web-1 needs a place and has neither",
    );

    let twice = plan(vec![
        launch(&problem, "small", "a", &pods),
        launch(&problem, "small", "a", &[]),
    ]);
    let mut twice = twice;
    twice.launches[1].pods = vec![pods[0]];
    broken(
        &problem,
        &twice,
        Rule::Bookkeeping,
        "pod web-0 is placed twice",
    );

    let mut both = plan(vec![launch(&problem, "small", "a", &pods)]);
    both.unplaced = vec![unplaced(&pods[1..])];
    broken(
        &problem,
        &both,
        Rule::Bookkeeping,
        "pod web-1 is placed and said not to be",
    );
}

#[test]
fn what_the_plan_names_exists() {
    let mut problem = problem();
    let pods = pend(&mut problem, "web", 1, spec(500));
    broken(
        &problem,
        &{
            let mut plan = put("nowhere", &[]);
            plan.unplaced = vec![unplaced(&pods)];
            plan
        },
        Rule::Bookkeeping,
        "node nowhere, which there is not",
    );
    let ghost = PodRef {
        home: Home::Pending,
        group: 9,
        position: 0,
    };
    let mut bad = plan(vec![launch(&problem, "small", "a", &pods)]);
    bad.launches[0].pods.push(ghost);
    broken(
        &problem,
        &bad,
        Rule::Bookkeeping,
        "has a pod that there is not",
    );
}

#[test]
fn pods_stay_where_they_are_unless_their_node_goes() {
    let mut problem = problem();
    let old = node(&mut problem, "old", "a", vec![Pod::new("web", spec(500))]);
    node(&mut problem, "new", "a", Vec::new());
    broken(
        &problem,
        &put("new", &old),
        Rule::Bookkeeping,
        "pod web is moved although it can stay",
    );

    let mut moved = put("new", &old);
    remove(&mut moved, "old", DisruptionReason::Underutilized);
    valid(&problem, &moved);

    let mut into_the_void = put("old", &[]);
    remove(&mut into_the_void, "old", DisruptionReason::Empty);
    let found = crate::plan::check(&problem, &into_the_void);
    assert!(
        found
            .iter()
            .any(|one| one.sentence.contains("node old, which goes away")),
        "{found:?}"
    );
    assert!(
        found
            .iter()
            .any(|one| one.sentence.contains("pod web needs a place")),
        "{found:?}"
    );
}

#[test]
fn pods_of_a_node_that_is_going_need_a_place_unless_nothing_may_evict_them() {
    let mut problem = problem();
    let pods = node(&mut problem, "old", "a", vec![Pod::new("web", spec(500))]);
    problem.nodes[0].deleting = true;
    broken(
        &problem,
        &plan(Vec::new()),
        Rule::Bookkeeping,
        "pod web needs a place",
    );
    valid(&problem, &plan(vec![launch(&problem, "small", "a", &pods)]));
    problem.nodes[0].pods[0].do_not_disrupt = true;
    valid(&problem, &plan(Vec::new()));
    // Unless the cloud takes its machine away.
    problem.nodes[0].reclaimed = true;
    broken(
        &problem,
        &plan(Vec::new()),
        Rule::Bookkeeping,
        "pod web needs a place",
    );
    valid(&problem, &plan(vec![launch(&problem, "small", "a", &pods)]));
}

#[test]
fn costs_add_up_and_stay_above_the_bound() {
    let mut problem = problem();
    problem.settings.node_surcharge = Money::from_dollars(0.01);
    let pods = pend(&mut problem, "web", 1, spec(500));
    let mut good = plan(vec![launch(&problem, "small", "a", &pods)]);
    good.cost = Money::from_dollars(0.11);
    good.lower_bound = Money::from_dollars(0.11);
    valid(&problem, &good);
    let mut without_surcharge = good.clone();
    without_surcharge.cost = Money::from_dollars(0.10);
    without_surcharge.lower_bound = Money::ZERO;
    broken(
        &problem,
        &without_surcharge,
        Rule::Cost,
        "its machines cost $0.1100",
    );
    good.lower_bound = Money::from_dollars(0.12);
    broken(
        &problem,
        &good,
        Rule::Cost,
        "less than its lower bound $0.1200",
    );
}
