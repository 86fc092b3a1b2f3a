//! What pod disruption budgets let go at once.

use super::*;

fn allow(problem: &mut Problem, disruptions_allowed: u32) {
    problem.pod_disruption_budgets = vec![PodDisruptionBudget {
        namespace: "default".into(),
        name: "web".into(),
        selector: Some(LabelSelector::label("app", "web")),
        disruptions_allowed,
        ..PodDisruptionBudget::default()
    }];
}

#[test]
fn pod_budgets_hold_over_the_batch() {
    let mut problem = problem();
    for index in 0..4 {
        node(&mut problem, &format!("n{index}"), 4, &[1000]);
    }
    allow(&mut problem, 2);
    let plan = decide(&problem);
    assert_eq!(plan.removals.len(), 2);
    assert!(plan.kept.iter().any(|kept| {
        kept.reason.to_string() == "PodDisruptionBudget default/web allows no more disruptions"
    }));
}

#[test]
fn a_node_with_more_pods_than_their_budget_allows_at_once_goes_alone() {
    let mut problem = problem();
    for index in 0..3 {
        node(&mut problem, &format!("n{index}"), 8, &[500, 500, 500]);
        problem.nodes[index].drifted = Some("the template has changed".to_owned());
    }
    allow(&mut problem, 1);
    assert_eq!(decide(&problem).removals.len(), 1);
    allow(&mut problem, 0);
    assert_eq!(decide(&problem).removals.len(), 0);
}

#[test]
fn a_node_that_stays_keeps_no_budget_from_others() {
    let mut problem = problem();
    // The first would gain most, but spot is not replaced by spot; the others have room for each other.
    node(&mut problem, "n0", 8, &[7900]);
    problem.nodes[0].price = Some(Money::from_dollars(0.9));
    problem.nodes[0].capacity_type = CapacityType::Spot;
    for index in 1..4 {
        node(&mut problem, &format!("n{index}"), 4, &[1000]);
    }
    allow(&mut problem, 1);
    let plan = decide(&problem);
    assert_eq!(plan.removals.len(), 1, "{plan:#?}");
    assert_ne!(&*plan.removals[0].node, "n0");
}
