//! Labels of nodes, and what pods may ask of them.

use serde_json::{Value, json};

use crate::world::{catalog, kind, node, outcome, pod, solved, why_not};

fn term(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": operator, "values": values})
}

/// Whether a pod with these terms is put on a node with these labels; there is nothing to buy.
fn binds(terms: &Value, labels: &Value) -> bool {
    let one = pod("one", &json!({"requiredAffinity": terms}));
    let parts = json!({"pools": [], "nodes": [node("n", labels, &[])], "pods": [one]});
    outcome(&parts).1 == 1
}

#[test]
fn a_label_that_must_exist_must_exist_whatever_else_is_asked_of_it() {
    let not_t4 = json!([[term("gpu", "Exists", &[]), term("gpu", "NotIn", &["t4"])]]);
    assert!(!binds(&not_t4, &json!({})));
    assert!(!binds(&not_t4, &json!({"gpu": "t4"})));
    assert!(binds(&not_t4, &json!({"gpu": "a100"})));
    let small = json!([[term("n", "NotIn", &["1"]), term("n", "Lt", &["5"])]]);
    assert!(!binds(&small, &json!({})));
    assert!(!binds(&small, &json!({"n": "1"})));
    assert!(binds(&small, &json!({"n": "2"})));
}

#[test]
fn what_contradicts_itself_holds_nowhere() {
    for terms in [
        json!([[term("k", "In", &["a"]), term("k", "In", &["b"])]]),
        json!([[term("k", "Gt", &["5"]), term("k", "Lt", &["3"])]]),
        json!([[term("k", "Exists", &[]), term("k", "DoesNotExist", &[])]]),
    ] {
        for labels in [json!({}), json!({"k": "a"}), json!({"k": "4"})] {
            assert!(!binds(&terms, &labels), "{terms} on {labels}");
        }
    }
}

#[test]
fn an_empty_required_term_matches_no_node() {
    assert!(!binds(&json!([[]]), &json!({})));
    assert!(binds(
        &json!([[], [term("k", "In", &["a"])]]),
        &json!({"k": "a"})
    ));
    assert!(!binds(&json!([[], [term("k", "In", &["a"])]]), &json!({})));
    let bought = json!({"pods": [pod("one", &json!({"requiredAffinity": [[]]}))]});
    assert_eq!(outcome(&bought), (0, 0, 1));
}

#[test]
fn an_empty_wish_changes_nothing() {
    let preference = json!([{"weight": 1, "term": []}]);
    let parts = json!({"pods": [pod("one", &json!({"preferredAffinity": preference}))]});
    assert_eq!(outcome(&parts), (1, 0, 0));
}

#[test]
fn selector_and_affinity_that_contradict_each_other_leave_no_node() {
    let spec = json!({
        "nodeSelector": {"disk": "ssd"},
        "requiredAffinity": [[term("disk", "In", &["hdd"])]],
    });
    let parts = json!({"pods": [pod("one", &spec)]});
    assert_eq!(outcome(&parts), (0, 0, 1));
    let said = why_not(&parts);
    assert!(
        said.contains("disk") && said.contains("nodeSelector"),
        "{said}"
    );
}

#[test]
fn a_wish_against_the_own_selector_is_given_up() {
    let spec = json!({
        "nodeSelector": {"disk": "ssd"},
        "preferredAffinity": [{"weight": 1, "term": [term("disk", "In", &["nvme"])]}],
    });
    let parts = json!({
        "pools": [
            {"name": "p", "catalog": "c", "labels": {"disk": "ssd"}},
            {"name": "q", "catalog": "c"},
        ],
        "pods": [pod("one", &spec)],
    });
    assert_eq!(outcome(&parts), (1, 0, 0));
}

#[test]
fn volumes_that_are_nowhere_together_leave_no_node() {
    let volume = |claim: &str, place: &str| json!({"claim": claim, "topology": [[term("csi/rack", "In", &[place])]]});
    let spec = json!({"volumes": [volume("x", "a"), volume("y", "b")]});
    let parts = json!({"pods": [pod("one", &spec)]});
    assert_eq!(outcome(&parts), (0, 0, 1));
}

#[test]
fn many_volumes_with_many_places_find_the_place_that_all_share() {
    let places = || {
        let zone = |zone: &str| vec![term("topology.kubernetes.io/zone", "In", &[zone])];
        [zone("a"), zone("b")]
    };
    let volumes: Vec<Value> = (0..8)
        .map(|at| json!({"claim": format!("v{at}"), "topology": places()}))
        .collect();
    let parts = json!({
        "catalogs": catalog(&[kind("t", &json!({}), &["b"])]),
        "pods": [pod("one", &json!({"volumes": volumes}))],
    });
    assert_eq!(outcome(&parts), (1, 0, 0));
}

#[test]
fn pods_are_selected_by_labels_that_must_exist() {
    // The node's pod has no tier at all, so no pod keeps away from it.
    let apart = json!([{
        "topologyKey": "kubernetes.io/hostname",
        "selector": {"matchExpressions": [
            {"key": "tier", "operator": "Exists"},
            {"key": "tier", "operator": "NotIn", "values": ["test"]},
        ]},
    }]);
    let there = |labels: Value| {
        let pods = [pod("old", &json!({"labels": labels}))];
        let one = pod("one", &json!({"antiAffinity": apart}));
        outcome(&json!({"pools": [], "nodes": [node("n", &json!({}), &pods)], "pods": [one]}))
    };
    assert_eq!(there(json!({})), (0, 1, 0));
    assert_eq!(there(json!({"tier": "test"})), (0, 1, 0));
    assert_eq!(there(json!({"tier": "prod"})), (0, 0, 1));
}

/// Pools `a/p` and `b/p`, whose nodes both say `p`; the first is dearer and has room for one node.
fn alike(pods: &Value) -> Value {
    let mut dear = kind("dear", &json!({}), &["a"]);
    dear["offerings"][0]["price"] = json!(0.2);
    json!({
        "catalogs": [
            {"name": "c", "types": [kind("t", &json!({}), &["a"])]},
            {"name": "d", "types": [dear]},
        ],
        "pools": [
            {"name": "a/p", "nodepool": "p", "catalog": "d"},
            {"name": "b/p", "nodepool": "p", "catalog": "c", "limits": {"nodes": 1}},
        ],
        "pods": pods,
    })
}

#[test]
fn pools_whose_nodes_say_the_same_both_buy_for_pods_that_ask_for_it() {
    let asks = |name: &str, for_pool: &str| {
        let selector = json!({"karpenter.sh/nodepool": for_pool});
        let requests = json!({"cpu": 3000, "memory": 1 << 30, "pods": 1});
        pod(
            name,
            &json!({"nodeSelector": selector, "requests": requests}),
        )
    };
    let plan = solved(&alike(&json!([asks("one", "p"), asks("two", "p")])));
    assert_eq!(plan.unplaced, []);
    let mut bought: Vec<&str> = plan.launches.iter().map(|one| &*one.pool).collect();
    bought.sort_unstable();
    assert_eq!(bought, ["a/p", "b/p"], "each has its own limit");
    for launch in &plan.launches {
        assert_eq!(&*launch.labels["karpenter.sh/nodepool"], "p");
    }
    // Their own names are nobody's label.
    assert_eq!(outcome(&alike(&json!([asks("one", "b/p")]))), (0, 0, 1));
}

#[test]
fn sentences_tell_pools_apart_whose_nodes_say_the_same() {
    let large = pod(
        "one",
        &json!({"requests": {"cpu": 5000, "memory": 1 << 30, "pods": 1}}),
    );
    let said = why_not(&alike(&json!([large])));
    assert!(
        said.contains("NodePool a/p: ") && said.contains("NodePool b/p: "),
        "{said}"
    );
    let mut parts = alike(&json!([large]));
    parts["pools"].as_array_mut().unwrap().pop();
    assert!(why_not(&parts).starts_with("NodePool p: "), "{said}");
}
