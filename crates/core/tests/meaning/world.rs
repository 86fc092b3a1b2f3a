//! One type `t` of 4 cores in zone `a`, one pool `p`, and what the tests add.

use joiner_core::pack::{Options, solve};
use joiner_core::plan::{Plan, check};
use joiner_core::problem::Problem;
use serde_json::{Value, json};

const GIB: i64 = 1 << 30;

/// A type of 4 cores, 8 GiB and 20 pods in these zones, at 10 cents.
pub(crate) fn kind(name: &str, labels: &Value, zones: &[&str]) -> Value {
    let offering = |zone: &&str| json!({"zone": zone, "capacityType": "on-demand", "price": 0.1});
    json!({
        "name": name, "labels": labels,
        "capacity": {"cpu": 4000, "memory": 8 * GIB, "pods": 20},
        "offerings": zones.iter().map(offering).collect::<Vec<_>>(),
    })
}

pub(crate) fn catalog(types: &[Value]) -> Value {
    json!([{"name": "c", "types": types}])
}

/// A pod of one core; `more` is part of its spec.
pub(crate) fn pod(name: &str, more: &Value) -> Value {
    let mut spec = json!({"requests": {"cpu": 1000, "memory": GIB, "pods": 1}});
    lay_over(&mut spec, more);
    json!({"name": name, "spec": spec})
}

/// A node of 4 cores of no pool.
pub(crate) fn node(name: &str, labels: &Value, pods: &[Value]) -> Value {
    let room = json!({"cpu": 4000, "memory": 8 * GIB, "pods": 20});
    json!({"name": name, "labels": labels, "capacity": room, "allocatable": room, "pods": pods})
}

/// The problem of these parts; whatever is not among them is as in the smallest one.
pub(crate) fn problem(parts: &Value) -> Problem {
    let mut all = json!({
        "catalogs": catalog(&[kind("t", &json!({}), &["a"])]),
        "pools": [{"name": "p", "catalog": "c"}],
    });
    lay_over(&mut all, parts);
    Problem::from_json(&all.to_string()).unwrap()
}

fn lay_over(all: &mut Value, parts: &Value) {
    for (key, value) in parts.as_object().unwrap() {
        all[key] = value.clone();
    }
}

/// The plan, which the checker has nothing against.
#[track_caller]
pub(crate) fn judged(problem: &Problem) -> Plan {
    let plan = solve(problem, &Options::default());
    assert_eq!(check(problem, &plan), [], "{plan:#?}");
    plan
}

#[track_caller]
pub(crate) fn solved(parts: &Value) -> Plan {
    judged(&problem(parts))
}

/// How many machines are bought, pods put on nodes, and pods left without a place.
#[track_caller]
pub(crate) fn outcome(parts: &Value) -> (usize, usize, usize) {
    let plan = solved(parts);
    let placed = plan.placements.iter().map(|one| one.pods.len()).sum();
    let unplaced = plan.unplaced.iter().map(|one| one.pods.len()).sum();
    (plan.launches.len(), placed, unplaced)
}

/// Why the first pod without a place has none.
#[track_caller]
pub(crate) fn why_not(parts: &Value) -> String {
    let plan = solved(parts);
    plan.unplaced.first().unwrap().reason.to_string()
}
