//! Why a pod has no machine, and why a machine was chosen: the counts and the words.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests may give up, and stand beside what they help"
)]

use joiner_core::money::Money;
use joiner_core::pack::{Options, solve};
use joiner_core::plan::{Plan, Reason, Shortfall, check};
use joiner_core::problem::Problem;
use serde_json::{Value, json};

/// Types c2, c4 and c8 (arm) at 10 cents a core in zone a.
fn problem(pods: &Value) -> Problem {
    let types: Vec<Value> = [(2, "amd64"), (4, "amd64"), (8, "arm64")]
        .iter()
        .map(|(cores, arch)| {
            json!({
                "name": format!("c{cores}"), "arch": arch, "cpuMilli": cores * 1000,
                "memoryMiB": 8192, "pods": 20, "zones": ["a"],
                "offerings": [{"zone": "a", "capacityType": "on-demand", "price": f64::from(*cores) / 10.0}],
            })
        })
        .collect();
    let file = json!({"instanceTypes": types, "nodePools": [{"name": "main"}], "pods": pods});
    Problem::from_json(&file.to_string()).unwrap()
}

fn one(cores: u32) -> Value {
    json!([{"name": "web", "cpuMilli": cores * 1000, "memoryMiB": 64,
        "nodeSelector": {"kubernetes.io/arch": "amd64"}}])
}

fn sell_out(problem: &mut Problem, kind: usize) {
    problem.catalogs[0].types[kind].offerings[0].available = false;
}

#[track_caller]
fn solved(problem: &Problem) -> Plan {
    let plan = solve(problem, &Options::default());
    assert_eq!(check(problem, &plan), []);
    plan
}

#[track_caller]
fn refused(problem: &Problem) -> (Shortfall, String) {
    let plan = solved(problem);
    let [only] = &plan.unplaced[..] else {
        panic!("{plan:?}")
    };
    let Reason::NoMachine { pools } = &only.reason else {
        panic!("{:?}", only.reason)
    };
    (pools[0].clone(), only.reason.to_string())
}

fn counts(shortfall: &Shortfall) -> [u32; 4] {
    let Shortfall {
        types,
        allowed,
        offered,
        large_enough,
        ..
    } = shortfall;
    [*types, *allowed, *offered, *large_enough]
}

#[test]
fn types_are_counted_after_each_filter() {
    let (shortfall, said) = refused(&problem(&one(5)));
    assert_eq!(counts(&shortfall), [3, 2, 2, 0]);
    assert!(shortfall.sold_out.is_empty());
    assert_eq!(
        said,
        "NodePool main: needs 5 CPU; the largest type offers 4"
    );
}

#[test]
fn what_is_sold_out_is_named() {
    let mut all = problem(&one(1));
    for kind in 0..3 {
        sell_out(&mut all, kind);
    }
    let (shortfall, said) = refused(&all);
    assert_eq!(counts(&shortfall), [3, 2, 0, 0]);
    assert_eq!(shortfall.sold_out, ["c2", "c4"].map(Into::into));
    assert_eq!(
        said,
        "NodePool main: every instance type that the pod could use is sold out; sold out: c2, c4"
    );
    let mut none_left = problem(&one(1));
    for kind in &mut none_left.catalogs[0].types {
        kind.offerings[0].left = Some(0);
    }
    assert_eq!(refused(&none_left), (shortfall, said));
}

#[test]
fn a_type_that_would_be_large_enough_and_is_sold_out_is_named() {
    let mut large = problem(&one(3));
    sell_out(&mut large, 1);
    let (shortfall, said) = refused(&large);
    assert_eq!(counts(&shortfall), [3, 2, 1, 0]);
    assert_eq!(shortfall.sold_out, ["c4".into()]);
    assert!(
        said.ends_with("needs 3 CPU; the largest type offers 2; sold out: c4"),
        "{said}"
    );
}

#[test]
fn what_neither_pool_nor_pod_allows_is_not_called_sold_out() {
    let mut arm = problem(&one(6));
    sell_out(&mut arm, 2);
    let (shortfall, said) = refused(&arm);
    assert_eq!(counts(&shortfall), [3, 2, 2, 0]);
    assert!(shortfall.sold_out.is_empty() && !said.contains("sold out"));
}

#[test]
fn an_offering_that_runs_out_while_planning_is_named() {
    let mut few = problem(
        &json!([{"name": "web", "count": 2, "cpuMilli": 3000, "memoryMiB": 64,
        "nodeSelector": {"kubernetes.io/arch": "amd64"}}]),
    );
    few.catalogs[0].types[1].offerings[0].left = Some(1);
    let plan = solved(&few);
    assert_eq!(plan.launches.len(), 1);
    let said = plan.unplaced[0].reason.to_string();
    assert!(
        said.contains("c4 as on-demand in zone a is sold out"),
        "{said}"
    );
}

#[test]
fn a_machine_names_the_cheapest_one_that_would_have_done_too() {
    let plan = solved(&problem(
        &json!([{"name": "web", "cpuMilli": 1000, "memoryMiB": 64}]),
    ));
    let Reason::Cheapest {
        considered,
        runner_up,
    } = &plan.launches[0].reason
    else {
        panic!("{plan:?}")
    };
    assert_eq!(*considered, 3);
    assert_eq!(*runner_up, Some(("c4".into(), Money::from_dollars(0.4))));
}
