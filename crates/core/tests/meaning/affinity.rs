//! Rules about other pods.

use std::sync::Arc;

use joiner_core::requirement::{Expression, Operator};
use serde_json::{Value, json};

use crate::world::{catalog, judged, kind, node, outcome, pod, problem};

const HOST: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";
const RACK: &str = "example.com/rack";

fn selecting(key: &str, app: &str) -> Value {
    json!({"topologyKey": key, "selector": {"matchLabels": {"app": app}}})
}

fn app(name: &str) -> Value {
    pod(name, &json!({"labels": {"app": name}}))
}

#[test]
fn who_must_be_near_several_is_near_pods_that_are_all_of_them() {
    for key in [ZONE, HOST] {
        let c = pod(
            "c",
            &json!({"affinity": [selecting(key, "a"), {
                "topologyKey": key, "selector": {"matchLabels": {"tier": "b"}},
            }]}),
        );
        let apart = [app("a"), pod("b", &json!({"labels": {"tier": "b"}}))];
        let both = [pod("ab", &json!({"labels": {"app": "a", "tier": "b"}}))];
        let at = |pods: &[Value]| {
            let here = node("n", &json!({ZONE: "a"}), pods);
            outcome(&json!({"pools": [], "nodes": [here], "pods": [c]}))
        };
        assert_eq!(at(&apart), (0, 0, 1), "{key}");
        assert_eq!(at(&both), (0, 1, 0), "{key}");
    }
}

#[test]
fn the_first_that_is_all_it_must_be_near_begins() {
    // Others that match one of its terms do not keep it from being the first that matches both.
    for key in [ZONE, HOST] {
        let spec = json!({
            "labels": {"app": "a", "tier": "b"},
            "affinity": [selecting(key, "a"), {
                "topologyKey": key, "selector": {"matchLabels": {"tier": "b"}},
            }],
        });
        let old = [
            app("a"),
            pod("full", &json!({"requests": {"cpu": 3000, "pods": 1}})),
        ];
        let parts = json!({
            "nodes": [node("n", &json!({ZONE: "z"}), &old)],
            "pods": [pod("one", &spec), pod("two", &spec)],
        });
        assert_eq!(outcome(&parts), (1, 0, 0), "{key}");
    }
}

#[test]
fn who_is_somewhere_without_one_of_the_keys_is_not_the_first_any_more() {
    let near = |key: &str| selecting(key, "a");
    let spec = json!({"labels": {"app": "a"}, "affinity": [near(ZONE), near(RACK)]});
    let racked = node("racked", &json!({ZONE: "z", RACK: "r"}), &[]);
    let at = |pods: &[Value]| {
        let bare = node("bare", &json!({ZONE: "z"}), pods);
        outcome(&json!({"pools": [], "nodes": [bare, racked], "pods": [pod("one", &spec)]}))
    };
    assert_eq!(at(&[]), (0, 1, 0));
    assert_eq!(at(&[app("a")]), (0, 0, 1));
}

#[test]
fn a_term_that_selects_no_pod_is_never_met() {
    for key in [ZONE, HOST] {
        let none = json!([{"topologyKey": key, "selector": null}]);
        let parts = |rule: &str| json!({"pods": [pod("one", &json!({rule: none}))]});
        assert_eq!(outcome(&parts("affinity")), (0, 0, 1), "{key}");
        assert_eq!(outcome(&parts("antiAffinity")), (1, 0, 0), "{key}");
        let preference = json!([{"weight": 1, "term": none[0]}]);
        let parts = json!({"pods": [pod("one", &json!({"preferredPodAffinity": preference}))]});
        assert_eq!(outcome(&parts), (1, 0, 0), "{key}");
    }
}

#[test]
fn an_empty_namespace_selector_means_every_namespace() {
    for key in [ZONE, HOST] {
        let mut apart = selecting(key, "db");
        apart["namespaceSelector"] = json!({});
        let a = pod("a", &json!({"namespace": "x", "antiAffinity": [apart]}));
        let b = pod("b", &json!({"namespace": "y", "labels": {"app": "db"}}));
        let two = catalog(&[kind("t", &json!({}), &["a", "b"])]);
        assert_eq!(
            outcome(&json!({"catalogs": two, "pods": [a, b]})),
            (2, 0, 0),
            "{key}"
        );
    }
}

#[test]
fn pods_on_nodes_without_the_key_are_nowhere() {
    let spec = json!({"labels": {"app": "web"}, "affinity": [selecting(ZONE, "web")]});
    let parts = json!({
        "nodes": [node("n", &json!({}), &[app("web")])],
        "pods": [pod("one", &spec), pod("two", &spec)],
    });
    assert_eq!(outcome(&parts), (1, 0, 0));
}

#[test]
fn a_selector_that_cannot_be_read_concerns_its_owner_only() {
    let alone = json!({"labels": {"app": "db"}, "antiAffinity": [selecting(HOST, "db")]});
    let mut parts = json!({"pods": [pod("one", &alone), pod("two", &alone)]});
    assert_eq!(outcome(&parts), (2, 0, 0));
    let odd = json!({"spread": [{
        "topologyKey": ZONE, "maxSkew": 1, "selector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
    }]});
    parts["pods"].as_array_mut().unwrap().push(pod("odd", &odd));
    let mut problem = problem(&parts);
    let spec = Arc::make_mut(&mut problem.pods[2].spec);
    let selector = spec.spread[0].selector.as_mut().unwrap();
    // Files that ask so are refused; a cluster may hold what an older server let through.
    selector.match_expressions[0] = Expression::new("a", Operator::Gt, &["x"]);
    let plan = judged(&problem);
    assert_eq!(plan.launches.len(), 2);
    assert_eq!(plan.unplaced.len(), 1);
    let said = plan.unplaced[0].reason.to_string();
    assert!(said.contains("a Gt needs one integer"), "{said}");
}

#[test]
fn a_spread_that_counts_no_pod_still_wants_its_key() {
    let spread = json!([{"topologyKey": RACK, "maxSkew": 1, "selector": null}]);
    let at = |labels: Value| {
        let one = pod("one", &json!({"spread": spread}));
        outcome(&json!({"nodes": [node("n", &labels, &[])], "pods": [one, one_more(&one)]}))
    };
    assert_eq!(at(json!({RACK: "r"})), (0, 2, 0));
    assert_eq!(at(json!({})), (0, 0, 2));
}

fn one_more(pod: &Value) -> Value {
    let mut other = pod.clone();
    other["name"] = json!("another");
    other
}
