use jiff::SignedDuration;

use super::world::{
    broken, labels_of, launch, node, plan, problem, put, remove, spec, unplaced, valid,
};
use crate::labels;
use crate::money::Money;
use crate::plan::{Plan, PodRef, Rule};
use crate::problem::DisruptionReason::{Drifted, Empty, Expired, Underutilized};
use crate::problem::{
    Budget, BudgetAmount, CapacityType, ConsolidationPolicy, NodePhase, Pod, PodDisruptionBudget,
    Problem, UnhealthyPodEvictionPolicy,
};
use crate::selector::LabelSelector;

/// Two half-empty nodes; the plan moves the pod of the first to the second.
fn pair() -> (Problem, Vec<PodRef>) {
    let mut problem = problem();
    let pods = node(&mut problem, "old", "a", vec![Pod::new("web", spec(500))]);
    node(&mut problem, "new", "a", vec![Pod::new("other", spec(500))]);
    (problem, pods)
}

fn moved(pods: &[PodRef]) -> Plan {
    let mut plan = put("new", pods);
    remove(&mut plan, "old", Underutilized);
    plan
}

#[test]
fn a_node_goes_when_its_pods_fit_elsewhere() {
    let (problem, pods) = pair();
    valid(&problem, &moved(&pods));
    let mut homeless = Plan::default();
    remove(&mut homeless, "old", Underutilized);
    homeless.unplaced = vec![unplaced(&pods)];
    broken(
        &problem,
        &homeless,
        Rule::Disruption,
        "node old goes and pod web of it has no place",
    );
}

/// What stands in the way of taking a node away to save money, one thing at a time.
#[test]
fn whatever_protects_a_node_keeps_it() {
    type Change = fn(&mut Problem);
    let cases: [(Change, &str); 12] = [
        (|p| p.nodes[0].pool = None, "is not ours and must stay"),
        (
            |p| p.nodes[0].phase = NodePhase::Starting,
            "it is not in use yet",
        ),
        (
            |p| p.nodes[0].do_not_disrupt = true,
            "it must not be disturbed",
        ),
        (|p| p.nodes[0].nominated = true, "pods were promised it"),
        (
            |p| p.nodes[0].pods[0].do_not_disrupt = true,
            "pod web on it must not be moved",
        ),
        (
            |p| p.pools[0].replicas = Some(2),
            "keeps a fixed number of nodes",
        ),
        (
            |p| p.pools[0].disruption.consolidate_after = None,
            "its pool never consolidates",
        ),
        (
            |p| p.pools[0].disruption.policy = ConsolidationPolicy::WhenEmpty,
            "takes away empty nodes only",
        ),
        (
            |p| p.pools[0].disruption.min_age = SignedDuration::from_hours(24 * 30),
            "it is too young",
        ),
        (
            |p| {
                p.pools[0].disruption.consolidate_after = Some(SignedDuration::from_mins(5));
                p.nodes[0].last_pod_event = Some("2026-11-13T11:56:00Z".parse().unwrap());
            },
            "it must be left alone until 2026-11-13T12:01:00Z",
        ),
        (
            |p| {
                p.pools[0].disruption.consolidate_after = Some(SignedDuration::from_mins(5));
                p.nodes[1].last_pod_event = Some("2026-11-13T11:56:00Z".parse().unwrap());
            },
            "pod web is moved to node new, which must be left alone until",
        ),
        (
            |p| p.nodes[1].phase = NodePhase::Starting,
            "pod web is moved to node new, which is not ready yet",
        ),
    ];
    for (change, words) in cases {
        let (mut problem, pods) = pair();
        problem.pools[0].disruption.budgets.clear();
        valid(&problem, &moved(&pods));
        change(&mut problem);
        broken(&problem, &moved(&pods), Rule::Disruption, words);
    }
}

#[test]
fn empty_means_that_nothing_on_it_needs_a_place() {
    let (mut problem, pods) = pair();
    let mut plan = put("new", &pods);
    remove(&mut plan, "old", Empty);
    broken(
        &problem,
        &plan,
        Rule::Disruption,
        "must not go as Empty: pods run on it",
    );
    problem.nodes[0].pods[0].daemon = true;
    let mut plan = Plan::default();
    remove(&mut plan, "old", Empty);
    valid(&problem, &plan);
    problem.pools[0].disruption.policy = ConsolidationPolicy::WhenEmpty;
    valid(&problem, &plan);
}

#[test]
fn drift_and_expiry_need_their_facts() {
    let (mut problem, pods) = pair();
    let with = |cause| {
        let mut plan = put("new", &pods);
        remove(&mut plan, "old", cause);
        plan
    };
    broken(
        &problem,
        &with(Drifted),
        Rule::Disruption,
        "it is what its pool asks for",
    );
    problem.nodes[0].drifted = Some("image".to_owned());
    valid(&problem, &with(Drifted));
    broken(
        &problem,
        &with(Expired),
        Rule::Disruption,
        "it is not old enough",
    );
    problem.pools[0].expire_after = Some(SignedDuration::from_hours(24));
    // Expiry asks neither budgets nor pods.
    problem.nodes[0].do_not_disrupt = true;
    problem.pools[0].disruption.budgets[0].amount = BudgetAmount::Nodes(0);
    valid(&problem, &with(Expired));
}

fn crowd(count: usize) -> Problem {
    let mut problem = problem();
    for index in 0..count {
        node(&mut problem, &format!("n{index}"), "a", Vec::new());
    }
    problem
}

fn without(count: usize) -> Plan {
    let mut plan = Plan::default();
    for index in 0..count {
        remove(&mut plan, &format!("n{index}"), Empty);
    }
    plan
}

fn budget(amount: BudgetAmount) -> Budget {
    Budget {
        amount,
        reasons: Vec::new(),
        schedule: None,
        duration: None,
    }
}

#[test]
fn budgets_hold_over_the_whole_batch() {
    let mut problem = crowd(11);
    // Ten percent of eleven rounds up.
    valid(&problem, &without(2));
    broken(
        &problem,
        &without(3),
        Rule::Budgets,
        "3 of 11 nodes of pool main would be away, its budgets allow 2 as Empty",
    );
    problem.nodes[10].unready = true;
    broken(&problem, &without(2), Rule::Budgets, "3 of 11 nodes");
    problem.pools[0].disruption.budgets.clear();
    valid(&problem, &without(10));
}

#[test]
fn budgets_hold_for_their_reasons_and_hours() {
    let mut problem = crowd(4);
    let mut only = budget(BudgetAmount::Nodes(0));
    only.reasons = vec![Drifted];
    problem.pools[0].disruption.budgets = vec![only];
    valid(&problem, &without(4));
    // It is a Friday, twelve o'clock.
    let mut night = budget(BudgetAmount::Nodes(0));
    night.schedule = Some("0 0 * * *".to_owned());
    night.duration = Some(SignedDuration::from_hours(6));
    problem.pools[0].disruption.budgets = vec![night.clone()];
    valid(&problem, &without(4));
    night.duration = Some(SignedDuration::from_hours(13));
    problem.pools[0].disruption.budgets = vec![night.clone()];
    broken(&problem, &without(1), Rule::Budgets, "allow 0");
    night.schedule = Some("every day".to_owned());
    problem.pools[0].disruption.budgets = vec![night];
    broken(&problem, &without(1), Rule::Budgets, "allow 0");
}

#[test]
fn pod_budgets_hold_over_the_whole_batch() {
    let mut problem = problem();
    let first = node(&mut problem, "n0", "a", vec![Pod::new("web-0", spec(100))]);
    let second = node(&mut problem, "n1", "a", vec![Pod::new("web-1", spec(100))]);
    node(&mut problem, "rest", "a", Vec::new());
    problem.pools[0].disruption.budgets.clear();
    problem.pod_disruption_budgets = vec![PodDisruptionBudget {
        namespace: "default".into(),
        name: "web".into(),
        selector: Some(LabelSelector::label("app", "web")),
        disruptions_allowed: 1,
        ..PodDisruptionBudget::default()
    }];
    let mut one = put("rest", &first);
    remove(&mut one, "n0", Underutilized);
    valid(&problem, &one);
    let mut both = put("rest", &[first[0], second[0]]);
    remove(&mut both, "n0", Underutilized);
    remove(&mut both, "n1", Underutilized);
    broken(
        &problem,
        &both,
        Rule::Budgets,
        "2 pods of disruption budget default/web are evicted at once, it allows 1",
    );
    // A budget that never lets one go does not, whatever its status says.
    problem.pod_disruption_budgets[0].never = true;
    broken(
        &problem,
        &one,
        Rule::Budgets,
        "1 pods of disruption budget default/web are evicted at once, it allows 0",
    );
    problem.pod_disruption_budgets[0].never = false;
    // A pod that does not answer may always go, if its budget says so.
    problem.pod_disruption_budgets[0].unhealthy_pod_eviction_policy =
        UnhealthyPodEvictionPolicy::AlwaysAllow;
    problem.nodes[0].pods[0].unready = true;
    valid(&problem, &both);
    let again = problem.pod_disruption_budgets[0].clone();
    problem.pod_disruption_budgets.push(again);
    broken(
        &problem,
        &one,
        Rule::Budgets,
        "pod web-0 has 2 disruption budgets",
    );
}

/// A node with two pods of this size, replaced by one machine.
fn replaced(kind: &str, cents: i64) -> (Problem, Plan) {
    let mut problem = problem();
    problem.pools[0].disruption.budgets.clear();
    let pods = node(&mut problem, "old", "a", vec![Pod::new("web", spec(500))]);
    problem.nodes[0].price = Some(Money::from_nanos(cents * 10_000_000));
    let mut plan = plan(vec![launch(&problem, kind, "a", &pods)]);
    remove(&mut plan, "old", Underutilized);
    (problem, plan)
}

#[test]
fn a_replacement_is_cheaper_by_what_the_pool_asks_for() {
    let (mut problem, plan) = replaced("small", 12);
    valid(&problem, &plan);
    problem.pools[0].disruption.min_savings = 20;
    broken(
        &problem,
        &plan,
        Rule::Savings,
        "are replaced for $0.1000, which saves less than 20%",
    );
    problem.nodes[0].price = Some(Money::from_dollars(0.10));
    broken(
        &problem,
        &plan,
        Rule::Savings,
        "old cost $0.1000 an hour and are replaced for $0.1000",
    );
}

#[test]
fn nodes_that_meet_on_one_machine_are_judged_together() {
    let mut problem = problem();
    problem.pools[0].disruption.budgets.clear();
    let mut pods = node(&mut problem, "n0", "a", vec![Pod::new("a", spec(100))]);
    pods.extend(node(
        &mut problem,
        "n1",
        "a",
        vec![Pod::new("b", spec(100))],
    ));
    let mut plan = plan(vec![launch(&problem, "small", "a", &pods)]);
    remove(&mut plan, "n0", Underutilized);
    remove(&mut plan, "n1", Underutilized);
    valid(&problem, &plan);
}

#[test]
fn spot_is_replaced_by_spot_only_where_allowed_and_with_choice() {
    let (mut problem, mut plan) = replaced("small", 12);
    problem.nodes[0].capacity_type = CapacityType::Spot;
    plan.launches[0].purchase.capacity_type = CapacityType::Spot;
    plan.launches[0].purchase.price = Money::from_dollars(0.05);
    plan.launches[0]
        .labels
        .extend(labels_of(&[(labels::CAPACITY_TYPE, "spot")]));
    plan.cost = Money::from_dollars(0.05);
    broken(
        &problem,
        &plan,
        Rule::Savings,
        "are spot and must not be replaced by spot",
    );
    problem.pools[0].disruption.spot_to_spot = true;
    broken(
        &problem,
        &plan,
        Rule::Savings,
        "with 1 types to choose from, fewer than 15",
    );
}

#[test]
fn balanced_pools_want_savings_in_proportion() {
    // As worked out by Karpenter: pool cost 100, disruption 50; price 10 with 4 pods, replaced at 4: score 0.6.
    let mut problem = problem();
    problem.pools[0].disruption.budgets.clear();
    problem.pools[0].disruption.policy = ConsolidationPolicy::Balanced;
    let four = |prefix: &str| {
        (0..4)
            .map(|at| Pod::new(&format!("{prefix}{at}"), spec(100)))
            .collect()
    };
    let pods = node(&mut problem, "old", "a", four("old"));
    problem.nodes[0].price = Some(Money::from_dollars(10.0));
    for index in 0..9 {
        node(
            &mut problem,
            &format!("n{index}"),
            "b",
            four(&format!("p{index}-")),
        );
        problem.nodes[index + 1].price = Some(Money::from_dollars(10.0));
    }
    let with = |problem: &mut Problem, dollars: f64| {
        problem.catalogs[0].types[0].offerings[0].price = Money::from_dollars(dollars);
        let mut plan = plan(vec![launch(problem, "small", "a", &pods)]);
        remove(&mut plan, "old", Underutilized);
        plan
    };
    let good = with(&mut problem, 4.0);
    valid(&problem, &good);
    let poor = with(&mut problem, 5.5);
    broken(&problem, &poor, Rule::Savings, "score 0.45, at least 0.50");
}
