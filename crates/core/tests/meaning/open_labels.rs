//! Labels that a catalogue or a pool leaves open.

use joiner_core::labels;
use serde_json::{Value, json};

use crate::world::{catalog, kind, outcome, pod, solved};

fn pools(more: &Value) -> Value {
    let mut pool = json!({"name": "p", "catalog": "c"});
    for (key, value) in more.as_object().unwrap() {
        pool[key] = value.clone();
    }
    json!([pool])
}

fn requiring(key: &str, operator: &str, values: &[&str]) -> Value {
    pools(&json!({"requirements": [{"key": key, "operator": operator, "values": values}]}))
}

fn selecting(name: &str, pairs: &Value) -> Value {
    pod(name, &json!({"nodeSelector": pairs}))
}

#[test]
fn a_system_that_the_catalogue_does_not_name_is_the_one_asked_for() {
    let linux =
        json!({"pods": [selecting("one", &json!({labels::OS: "linux"})), pod("two", &json!({}))]});
    let plan = solved(&linux);
    assert_eq!(plan.launches.len(), 1);
    assert_eq!(&*plan.launches[0].labels[labels::OS], "linux");
    let mut pool = linux.clone();
    pool["pools"] = requiring(labels::OS, "In", &["linux"]);
    assert_eq!(outcome(&pool), (1, 0, 0));
    pool["pods"] = json!([pod("two", &json!({}))]);
    assert_eq!(outcome(&pool), (1, 0, 0));
    pool["pods"] = json!([selecting("one", &json!({labels::OS: "windows"}))]);
    assert_eq!(outcome(&pool), (0, 0, 1));
}

#[test]
fn one_machine_does_not_run_two_systems() {
    let parts = json!({"pods": [
        selecting("one", &json!({labels::OS: "linux"})),
        selecting("two", &json!({labels::OS: "windows"})),
        pod("three", &json!({"requiredAffinity": [[{"key": labels::ARCH, "operator": "Exists"}]]})),
        pod("four", &json!({"requiredAffinity": [[
            {"key": labels::ARCH, "operator": "NotIn", "values": ["arm64"]}]]})),
    ]});
    assert_eq!(outcome(&parts), (2, 0, 0));
}

#[test]
fn where_some_types_name_their_architecture_the_others_have_none() {
    let types = [
        kind("t", &json!({}), &["a"]),
        kind("u", &json!({labels::ARCH: "amd64"}), &["a"]),
    ];
    let parts = json!({
        "catalogs": catalog(&types),
        "pods": [selecting("one", &json!({labels::ARCH: "amd64"}))],
    });
    let plan = solved(&parts);
    assert_eq!(&*plan.launches[0].purchase.instance_type, "u");
}

#[test]
fn no_pod_is_spread_over_unknown_regions() {
    let spread = |hard: &str| {
        pod(
            "one",
            &json!({"labels": {"app": "web"}, "spread": [{
                "topologyKey": labels::REGION, "maxSkew": 1, "whenUnsatisfiable": hard,
                "selector": {"matchLabels": {"app": "web"}},
            }]}),
        )
    };
    assert_eq!(
        outcome(&json!({"pods": [spread("DoNotSchedule")]})),
        (0, 0, 1)
    );
    assert_eq!(
        outcome(&json!({"pods": [spread("ScheduleAnyway")]})),
        (1, 0, 0)
    );
    let mut known = catalog(&[kind("t", &json!({}), &["a"])]);
    known[0]["types"][0]["offerings"][0]["region"] = json!("eu");
    let parts = json!({"catalogs": known, "pods": [spread("DoNotSchedule")]});
    assert_eq!(outcome(&parts), (1, 0, 0));
}

#[test]
fn every_value_that_pods_ask_for_is_found() {
    let names: Vec<String> = (0..40).map(|at| format!("t{at:02}")).collect();
    let pods: Vec<Value> = names
        .iter()
        .map(|name| selecting(name, &json!({"tenant": name})))
        .collect();
    let listed: Vec<&str> = names.iter().map(String::as_str).collect();
    for pools in [
        requiring("tenant", "Exists", &[]),
        requiring("tenant", "In", &listed),
    ] {
        assert_eq!(outcome(&json!({"pools": pools, "pods": pods})), (40, 0, 0));
    }
}

#[test]
fn every_pair_of_values_that_pods_ask_for_is_found() {
    let values: Vec<String> = (0..8).map(|at| format!("v{at}")).collect();
    let mut pods = Vec::new();
    for a in &values {
        for b in &values {
            pods.push(selecting(&format!("{a}{b}"), &json!({"a": a, "b": b})));
        }
    }
    pods.push(selecting("any", &json!({"a": "v0"})));
    let required = json!([{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "In", "values": values}]);
    let parts = json!({"pools": pools(&json!({"requirements": required})), "pods": pods});
    assert_eq!(outcome(&parts), (64, 0, 0));
}

#[test]
fn pods_are_spread_over_all_values_that_a_pool_lists() {
    let values: Vec<String> = (0..40).map(|at| format!("v{at:02}")).collect();
    let listed: Vec<&str> = values.iter().map(String::as_str).collect();
    let mut web = pod(
        "web",
        &json!({"labels": {"app": "web"}, "spread": [{
            "topologyKey": "rack", "maxSkew": 1, "selector": {"matchLabels": {"app": "web"}},
        }]}),
    );
    web["count"] = json!(41);
    let parts = json!({"pools": requiring("rack", "In", &listed), "pods": [web]});
    assert_eq!(outcome(&parts), (40, 0, 0));
}

#[test]
fn a_number_that_pods_compare_with_is_found_however_large() {
    let wants = |name: &str, operator: &str, value: &str| {
        let term = json!([[{"key": "gen", "operator": operator, "values": [value]}]]);
        pod(name, &json!({"requiredAffinity": term}))
    };
    for (pool, pods) in [
        (
            requiring("gen", "Gte", &["100000"]),
            json!([wants("one", "Gt", "99999"), pod("two", &json!({}))]),
        ),
        (
            requiring("gen", "Lt", &["0"]),
            json!([wants("one", "Lte", "-7")]),
        ),
        (
            requiring("gen", "Gte", &["100000"]),
            json!([pod("two", &json!({}))]),
        ),
        (
            requiring("gen", "Exists", &[]),
            json!([pod("two", &json!({}))]),
        ),
    ] {
        assert_eq!(
            outcome(&json!({"pools": pool, "pods": pods})),
            (1, 0, 0),
            "{pool}"
        );
    }
}

#[test]
fn what_a_pool_asks_against_itself_is_not_for_sale() {
    let both = json!({"requirements": [
        {"key": "k", "operator": "In", "values": ["a"]},
        {"key": "k", "operator": "In", "values": ["b"]},
    ]});
    let parts = json!({"pools": pools(&both), "pods": [pod("one", &json!({}))]});
    assert_eq!(outcome(&parts), (0, 0, 1));
}

#[test]
fn labels_of_one_catalogue_do_not_close_pools_of_another() {
    let parts = json!({
        "catalogs": [
            {"name": "c", "types": [kind("t", &json!({}), &["a"])]},
            {"name": "d", "types": [kind("t", &json!({"tier": "gold"}), &["a"])]},
        ],
        "pools": pools(&json!({"labels": {"tier": "web"}})),
        "pods": [selecting("one", &json!({"tier": "web"})), pod("two", &json!({}))],
    });
    assert_eq!(outcome(&parts), (1, 0, 0));
}

#[test]
fn a_pool_labels_the_types_that_have_no_such_label() {
    let types = [
        kind("x", &json!({"disk": "ssd"}), &["a"]),
        kind("y", &json!({}), &["a"]),
    ];
    let parts = json!({
        "catalogs": catalog(&types),
        "pools": pools(&json!({"labels": {"disk": "nvme"}})),
        "pods": [selecting("one", &json!({"disk": "nvme"}))],
    });
    let plan = solved(&parts);
    assert_eq!(&*plan.launches[0].purchase.instance_type, "y");
}

#[test]
fn daemons_run_where_no_other_pod_asks_for_a_system() {
    let daemon = |name: &str, system: &str, cpu: i64| {
        let requests = json!({"cpu": cpu, "pods": 1});
        let spec = json!({"requests": requests, "nodeSelector": {labels::OS: system}});
        pod(name, &spec)
    };
    let mut web = pod("web", &json!({}));
    web["count"] = json!(4);
    let parts = json!({
        "daemonSets": [
            daemon("proxy", "linux", 100),
            daemon("proxy-win", "windows", 1),
            pod("agent", &json!({"requests": {"cpu": 1}, "requiredAffinity": [[
                {"key": labels::OS, "operator": "NotIn", "values": ["windows"]}]]})),
        ],
        "pods": [web],
    });
    let plan = solved(&parts);
    assert_eq!(plan.launches.len(), 2);
    let system = |at: usize| &*plan.launches[at].labels[labels::OS];
    assert_eq!((system(0), system(1)), ("linux", "linux"));
}
