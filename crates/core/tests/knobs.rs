//! Settings of a decision, from the problem to the plan.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests may give up, and stand beside what they help"
)]

mod common;

use joiner_core::money::Money;
use joiner_core::plan::{Plan, Reason};
use joiner_core::problem::{CapacityType, Problem};
use serde_json::{Value, json};

use common::solved;

/// Types of so many cores and prices, on demand and for half of it as spot, in zones a and b.
fn problem(types: &[(u32, f64)], pods: &Value) -> Problem {
    let types: Vec<Value> = types
        .iter()
        .map(|(cores, price)| {
            let offerings: Vec<Value> = ["a", "b"]
                .iter()
                .flat_map(|zone| {
                    let offering = |way: &str, price: f64| {
                        json!({"zone": zone, "capacityType": way, "price": price})
                    };
                    [offering("on-demand", *price), offering("spot", price / 2.0)]
                })
                .collect();
            json!({
                "name": format!("c{cores}"), "arch": "amd64", "cpuMilli": cores * 1000,
                "memoryMiB": 65536, "pods": 50, "zones": ["a", "b"], "offerings": offerings,
            })
        })
        .collect();
    let file = json!({"instanceTypes": types, "nodePools": [{"name": "main"}], "pods": pods});
    Problem::from_json(&file.to_string()).unwrap()
}

fn most_of_one_spot_offering(plan: &Plan) -> usize {
    let key = |launch: &joiner_core::plan::Launch| {
        let purchase = &launch.purchase;
        (purchase.instance_type.clone(), purchase.zone.clone())
    };
    let spot = plan
        .launches
        .iter()
        .filter(|launch| launch.purchase.capacity_type == CapacityType::Spot);
    let keys: Vec<_> = spot.map(key).collect();
    let counts = keys
        .iter()
        .map(|one| keys.iter().filter(|other| *other == one).count());
    counts.max().unwrap_or(0)
}

#[test]
fn one_spot_offering_has_its_share_in_whole_machines_and_always_one() {
    for (machines, most) in [(1, 1), (2, 1), (3, 1), (4, 2), (5, 2), (9, 4)] {
        let pods = json!([{"name": "web", "count": machines, "cpuMilli": 1900, "memoryMiB": 64}]);
        let mut problem = problem(&[(2, 0.2)], &pods);
        problem.settings.spot_share = Some(50);
        let plan = solved(&problem);
        assert!(plan.unplaced.is_empty());
        assert_eq!(plan.launches.len(), machines);
        assert_eq!(
            most_of_one_spot_offering(&plan),
            most,
            "{machines} machines"
        );
        problem.settings.spot_share = None;
        assert_eq!(most_of_one_spot_offering(&solved(&problem)), machines);
    }
}

#[test]
fn where_a_share_leaves_nothing_to_buy_the_reason_names_it() {
    let pods = json!([{"name": "web", "count": 2, "cpuMilli": 1900, "memoryMiB": 64,
        "nodeSelector": {"karpenter.sh/capacity-type": "spot", "topology.kubernetes.io/zone": "a"}}]);
    let mut problem = problem(&[(2, 0.2)], &pods);
    problem.settings.spot_share = Some(50);
    let plan = solved(&problem);
    assert_eq!(plan.launches.len(), 1);
    let said = plan.unplaced[0].reason.to_string();
    assert!(said.contains("spotShare of c2 in zone a"), "{said}");
}

#[test]
fn few_machines_are_bought_where_few_may_be() {
    let pods = json!([{"name": "web", "count": 8, "cpuMilli": 1000, "memoryMiB": 64}]);
    // Small machines are the cheaper ones by far.
    let mut problem = problem(&[(2, 0.02), (4, 1.0)], &pods);
    assert_eq!(solved(&problem).launches.len(), 4);
    problem.settings.max_new_nodes = Some(2);
    let plan = solved(&problem);
    assert!(plan.unplaced.is_empty());
    assert_eq!(plan.launches.len(), 2);
    problem.settings.max_new_nodes = Some(1);
    let plan = solved(&problem);
    assert_eq!(plan.launches[0].pods.len(), 4);
    assert_eq!(plan.unplaced[0].pods.len(), 4);
    let Reason::Limit { limit, .. } = &plan.unplaced[0].reason else {
        panic!("{:?}", plan.unplaced)
    };
    assert!(limit.contains("maxNewNodes"), "{limit}");
}

#[test]
fn what_a_node_costs_beside_its_price_makes_machines_larger() {
    let pods = json!([{"name": "web", "count": 4, "cpuMilli": 1000, "memoryMiB": 64}]);
    let mut problem = problem(&[(2, 0.2), (4, 0.5)], &pods);
    let plan = solved(&problem);
    assert_eq!(
        (plan.launches.len(), plan.cost),
        (2, Money::from_dollars(0.2))
    );
    problem.settings.node_surcharge = Money::from_dollars(0.1);
    let plan = solved(&problem);
    assert_eq!(
        (plan.launches.len(), plan.cost),
        (1, Money::from_dollars(0.35))
    );
    assert!(plan.lower_bound <= plan.cost && plan.lower_bound > Money::from_dollars(0.25));
}
