//! What several catalogues or types share: one stock, one host, one quota.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests may give up, and stand beside what they help"
)]

mod common;

use joiner_core::pack::{Options, solve};
use joiner_core::plan::{Plan, Reason, apply, check};
use joiner_core::problem::{Catalog, Problem};
use serde_json::{Value, json};

use common::solved;

const GIB: i64 = 1 << 30;

/// A pod that fills most of a machine of four cores.
fn pods(count: u32) -> Value {
    json!([{
        "name": "web", "count": count,
        "spec": {"requests": {"cpu": 3000, "memory": GIB, "pods": 1}},
    }])
}

/// A type of four cores.
fn kind(name: &str, price: f64, offering: &Value) -> Value {
    let mut all = json!({"zone": "rack", "capacityType": "on-demand", "price": price});
    for (key, value) in offering.as_object().unwrap() {
        all[key] = value.clone();
    }
    json!({
        "name": name, "capacity": {"cpu": 4000, "memory": 8 * GIB, "pods": 20},
        "offerings": [all],
    })
}

/// One pool for each catalogue.
fn problem(catalogs: &[Value], count: u32) -> Problem {
    let pools: Vec<Value> = catalogs
        .iter()
        .map(|catalog| json!({"name": catalog["name"], "catalog": catalog["name"]}))
        .collect();
    let text = json!({"catalogs": catalogs, "pools": pools, "pods": pods(count)}).to_string();
    Problem::from_json(&text).unwrap()
}

/// How many machines a plan buys and how many pods it leaves.
fn outcome(plan: &Plan) -> (usize, usize) {
    let left = plan.unplaced.iter().map(|one| one.pods.len()).sum();
    (plan.launches.len(), left)
}

/// Machines and pods left, by the first plan and by a plan made after it was carried out.
#[track_caller]
fn twice(problem: &Problem) -> ((usize, usize), (usize, usize)) {
    let plan = solved(problem);
    let after = apply(problem, &plan, "new-");
    let again = solve(&after, &Options::default());
    assert_eq!(check(&after, &again), []);
    (outcome(&plan), outcome(&again))
}

#[test]
fn a_machine_that_two_catalogues_list_is_sold_once() {
    let listed = |name: &str, price: f64, stock: Option<&str>| {
        let mut offering = json!({"left": 1});
        if let Some(stock) = stock {
            offering["stock"] = stock.into();
        }
        json!({"name": name, "types": [kind("metal", price, &offering)]})
    };
    let apart = problem(&[listed("one", 0.2, None), listed("two", 0.1, None)], 2);
    assert_eq!(twice(&apart), ((2, 0), (0, 0)));
    let shared = [
        listed("one", 0.2, Some("serial-7")),
        listed("two", 0.1, Some("serial-7")),
    ];
    let shared = problem(&shared, 2);
    assert_eq!(twice(&shared), ((1, 1), (0, 1)));
    let plan = solved(&shared);
    assert_eq!(&*plan.launches[0].pool, "two", "where it is cheaper");
    let Reason::Limit { limit, .. } = &plan.unplaced[0].reason else {
        panic!("{:?}", plan.unplaced[0].reason);
    };
    assert_eq!(limit, "stock serial-7 is sold out");
}

#[test]
fn of_two_figures_for_one_stock_the_lower_one_holds() {
    let listed = |name: &str, left: u32| {
        let offering = json!({"left": left, "stock": "shelf"});
        json!({"name": name, "types": [kind("metal", 0.1, &offering)]})
    };
    let problem = |left: u32| problem(&[listed("one", 3), listed("two", left)], 4);
    assert_eq!(outcome(&solved(&problem(2))), (2, 2));
    assert_eq!(outcome(&solved(&problem(0))), (0, 4));
}

/// Machines of four cores from a host with six.
fn hall(name: &str, stock: &str) -> Value {
    let whole = json!({"cpu": 4000, "memory": 4 * GIB, "pods": 20});
    json!({
        "name": name,
        "ranges": [{
            "name": "vm", "min": whole, "max": whole, "step": {"cpu": 1000},
            "prices": {"core": 0.01},
            "hosts": [{"name": "h", "zone": "rack", "free": {"cpu": 6000}, "stock": stock}],
        }],
    })
}

#[test]
fn a_host_that_two_catalogues_list_has_its_room_once() {
    let apart = problem(&[hall("one", ""), hall("two", "")], 2);
    assert_eq!(twice(&apart), ((2, 0), (0, 0)));
    let shared = problem(&[hall("one", "bmc-1"), hall("two", "bmc-1")], 2);
    assert_eq!(twice(&shared), ((1, 1), (0, 1)));
}

#[test]
fn copies_of_a_catalogue_with_other_prices_draw_on_its_stock() {
    let mut catalog = hall("cloud", "");
    catalog["types"] = json!([kind("metal", 0.1, &json!({"left": 1}))]);
    let mut catalog = Catalog::from_json(&catalog.to_string()).unwrap();
    let forked = |catalog: &Catalog| {
        let mut copy = catalog.clone();
        copy.name = "cloud#other".into();
        let mut problem = problem(&[hall("cloud", ""), hall("cloud#other", "")], 4);
        problem.catalogs = vec![catalog.clone(), copy];
        problem
    };
    assert_eq!(twice(&forked(&catalog)), ((4, 0), (0, 0)));
    catalog.share_stock("cloud");
    assert_eq!(twice(&forked(&catalog)), ((2, 2), (0, 2)));
}

/// Two types that count against a quota of so much, and a dear one that does not.
fn limited(left: &Value, count: u32) -> Problem {
    let mut types = [
        kind("a", 0.1, &json!({})),
        kind("b", 0.11, &json!({})),
        kind("c", 0.5, &json!({})),
    ];
    for kind in &mut types[..2] {
        kind["quotas"] = json!(["family"]);
    }
    let quotas = json!([{"name": "family", "left": left}]);
    let catalog = json!({"name": "cloud", "types": types, "quotas": quotas});
    problem(&[catalog], count)
}

#[test]
fn types_of_one_family_share_its_quota() {
    let names = |left: Value| -> Vec<String> {
        let plan = solved(&limited(&left, 4));
        let launches = plan.launches.iter();
        let mut names: Vec<String> = launches
            .map(|one| one.purchase.instance_type.to_string())
            .collect();
        names.sort_unstable();
        names
    };
    assert_eq!(names(json!({"cpu": 16_000})), ["a", "a", "a", "a"]);
    assert_eq!(names(json!({"cpu": 11_000})), ["a", "a", "c", "c"]);
    assert_eq!(names(json!({"nodes": 1})), ["a", "c", "c", "c"]);
    assert_eq!(
        names(json!({"nodes": 3, "cpu": 4000})),
        ["a", "c", "c", "c"]
    );
}

#[test]
fn what_a_plan_takes_of_a_quota_is_not_there_for_the_next() {
    let mut problem = limited(&json!({"cpu": 8000}), 3);
    problem.catalogs[0].types.pop();
    assert_eq!(twice(&problem), ((2, 1), (0, 1)));
    let plan = solved(&problem);
    let Reason::Limit { limit, .. } = &plan.unplaced[0].reason else {
        panic!("{:?}", plan.unplaced[0].reason);
    };
    assert_eq!(limit, "quota family has 0 CPU left");
}

#[test]
fn a_quota_of_one_name_is_one_in_all_catalogues() {
    let mut problem = limited(&json!({"nodes": 1}), 3);
    problem.catalogs[0].types.truncate(1);
    let mut copy = problem.catalogs[0].clone();
    copy.name = "other".into();
    problem.catalogs.push(copy);
    let mut pool = problem.pools[0].clone();
    (pool.name, pool.catalog) = ("other".into(), "other".into());
    problem.pools.push(pool);
    assert_eq!(twice(&problem), ((1, 2), (0, 2)));
}

#[test]
fn alternatives_of_machines_do_not_exceed_a_quota_either() {
    let plan = solved(&limited(&json!({"nodes": 1}), 2));
    let family = |name: &str| name != "c";
    let bought = plan
        .launches
        .iter()
        .filter(|one| family(&one.purchase.instance_type));
    assert_eq!(bought.count(), 1);
    let dear = plan
        .launches
        .iter()
        .find(|one| !family(&one.purchase.instance_type));
    let mut others = dear.unwrap().alternatives.iter();
    assert!(others.all(|one| !family(&one.instance_type)));
}

#[test]
fn a_quota_that_no_catalogue_has_is_a_fault_of_the_file() {
    let mut problem = serde_json::to_value(limited(&json!({"nodes": 1}), 1)).unwrap();
    let text = problem.to_string();
    assert_eq!(
        Problem::from_json(&text).unwrap(),
        limited(&json!({"nodes": 1}), 1)
    );
    problem["catalogs"][0]["types"][1]["quotas"][0] = "famili".into();
    let error = Problem::from_json(&problem.to_string()).unwrap_err();
    assert_eq!(error.field, "catalogs[0].types[1].quotas[0]");
}
