#![expect(
    clippy::needless_pass_by_value,
    reason = "helpers take json!() literals"
)]

use serde_json::json;

use super::*;
use crate::schema::Builtins;

fn schema(group: &str, kind: &str) -> &'static Schema {
    Builtins::load().unwrap().kind(group, "v1", kind).unwrap()
}

fn pod(object: Value, patch: Value) -> Result<Value, PatchError> {
    strategic(&object, &patch, schema("", "Pod"))
}

fn containers(items: Value) -> Value {
    json!({"spec": {"containers": items}})
}

#[test]
fn keyed_lists_are_merged_by_key() {
    let object = containers(json!([{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]));
    let patch = containers(json!([{"name": "b", "image": "3"}, {"name": "c", "image": "4"}]));
    assert_eq!(
        pod(object, patch).unwrap(),
        containers(json!([
            {"name": "a", "image": "1"},
            {"name": "b", "image": "3"},
            {"name": "c", "image": "4"},
        ]))
    );
}

#[test]
fn an_item_can_be_deleted_by_its_key() {
    let object = containers(json!([{"name": "a"}, {"name": "b"}]));
    let patch = containers(json!([{"name": "a", "$patch": "delete"}]));
    assert_eq!(
        pod(object, patch).unwrap(),
        containers(json!([{"name": "b"}]))
    );
}

#[test]
fn a_list_can_be_replaced_whole() {
    let object = containers(json!([{"name": "a"}, {"name": "b"}]));
    let patch = containers(json!([{"name": "c"}, {"$patch": "replace"}]));
    assert_eq!(
        pod(object, patch).unwrap(),
        containers(json!([{"name": "c"}]))
    );
}

#[test]
fn a_map_can_be_replaced_or_emptied() {
    let object = json!({"metadata": {"labels": {"a": "1", "b": "2"}}});
    let replaced = pod(
        object.clone(),
        json!({"metadata": {"labels": {"$patch": "replace", "c": "3"}}}),
    );
    assert_eq!(
        replaced.unwrap(),
        json!({"metadata": {"labels": {"c": "3"}}})
    );
    let emptied = pod(
        object,
        json!({"metadata": {"labels": {"$patch": "delete"}}}),
    );
    assert_eq!(emptied.unwrap(), json!({"metadata": {"labels": {}}}));
}

#[test]
fn lists_without_a_strategy_are_replaced() {
    let object = containers(json!([{"name": "a", "args": ["1", "2"]}]));
    let patch = containers(json!([{"name": "a", "args": ["3"]}]));
    assert_eq!(
        pod(object, patch).unwrap(),
        containers(json!([{"name": "a", "args": ["3"]}]))
    );
}

#[test]
fn tolerations_have_no_merge_key_and_are_replaced() {
    let object = json!({"spec": {"tolerations": [{"key": "a"}]}});
    let patch = json!({"spec": {"tolerations": [{"key": "b"}]}});
    assert_eq!(pod(object, patch.clone()).unwrap(), patch);
}

#[test]
fn sets_of_scalars_are_united_and_can_be_cut() {
    let object = json!({"metadata": {"finalizers": ["a", "b"]}});
    let patch = json!({"metadata": {"finalizers": ["b", "c"]}});
    assert_eq!(
        pod(object.clone(), patch).unwrap(),
        json!({"metadata": {"finalizers": ["a", "b", "c"]}})
    );
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}});
    assert_eq!(
        pod(object, patch).unwrap(),
        json!({"metadata": {"finalizers": ["b"]}})
    );
}

#[test]
fn null_removes_a_field_and_is_never_stored() {
    let object = json!({"metadata": {"labels": {"a": "1"}}});
    let patch = json!({"metadata": {"labels": {"a": null, "b": null}, "annotations": {"c": null}}});
    assert_eq!(
        pod(object, patch).unwrap(),
        json!({"metadata": {"labels": {}, "annotations": {}}})
    );
}

#[test]
fn retain_keys_clears_what_is_not_listed() {
    let deployment = schema("apps", "Deployment");
    let object = json!({"spec": {"strategy": {
        "type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1},
    }}});
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    assert_eq!(
        strategic(&object, &patch, deployment).unwrap(),
        json!({"spec": {"strategy": {"type": "Recreate"}}})
    );
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "other": 1}}});
    assert_eq!(
        strategic(&object, &patch, deployment).unwrap_err(),
        PatchError::BadRequest("invalid patch format of retainKeys".to_owned())
    );
}

#[test]
fn set_element_order_orders_the_merged_list() {
    let object = containers(json!([{"name": "a"}, {"name": "b"}, {"name": "server"}]));
    let patch = json!({"spec": {
        "$setElementOrder/containers": [{"name": "c"}, {"name": "b"}, {"name": "a"}],
        "containers": [{"name": "c", "image": "new"}, {"name": "b", "image": "changed"}],
    }});
    assert_eq!(
        pod(object, patch).unwrap(),
        containers(json!([
            {"name": "c", "image": "new"},
            {"name": "b", "image": "changed"},
            {"name": "a"},
            {"name": "server"},
        ]))
    );
}

#[test]
fn set_element_order_alone_reorders() {
    let object = containers(json!([{"name": "a"}, {"name": "b"}]));
    let patch = json!({"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}});
    assert_eq!(
        pod(object, patch).unwrap(),
        containers(json!([{"name": "b"}, {"name": "a"}]))
    );
}

#[test]
fn a_patch_against_its_own_order_is_refused() {
    let object = containers(json!([{"name": "a"}, {"name": "b"}]));
    let patch = json!({"spec": {
        "$setElementOrder/containers": [{"name": "a"}, {"name": "b"}],
        "containers": [{"name": "b"}, {"name": "a"}],
    }});
    let error = pod(object, patch).unwrap_err().to_string();
    assert_eq!(
        error,
        "The order in patch list:\n[map[name:b] map[name:a]]\n doesn't match $setElementOrder list:\n[map[name:a] map[name:b]]\n"
    );
}

#[test]
fn nested_keyed_lists_are_merged_too() {
    let object = containers(json!([{"name": "a", "env": [{"name": "X", "value": "1"}],
        "ports": [{"containerPort": 80, "protocol": "TCP"}]}]));
    let patch = containers(json!([{"name": "a", "env": [{"name": "Y", "value": "2"}],
        "ports": [{"containerPort": 80, "name": "web"}]}]));
    let merged = pod(object, patch).unwrap();
    assert_eq!(
        merged["spec"]["containers"][0]["env"],
        // What is new comes before what only the server has: their order is not known.
        json!([{"name": "Y", "value": "2"}, {"name": "X", "value": "1"}])
    );
    assert_eq!(
        merged["spec"]["containers"][0]["ports"],
        json!([{"containerPort": 80, "name": "web", "protocol": "TCP"}])
    );
}

#[test]
fn conditions_of_a_status_are_merged_by_type() {
    let object = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    let patch = json!({"status": {"conditions": [
        {"type": "Ready", "status": "True"}, {"type": "Initialized", "status": "True"},
    ]}});
    assert_eq!(pod(object, patch.clone()).unwrap(), patch);
}

#[test]
fn refusals_have_the_words_of_the_real_server() {
    let object = containers(json!([{"name": "a", "image": "x"}]));
    let cases = [
        (
            containers(json!([{"image": "y"}])),
            "map: map[image:y] does not contain declared merge key: name",
        ),
        (
            containers(json!([{"name": "a", "$patch": "merge"}])),
            "merging lists cannot yet be specified in the patch",
        ),
        (
            containers(json!([{"name": "a", "$patch": "jump"}])),
            "unknown patch type: jump in map: map[$patch:jump name:a]",
        ),
        (
            containers(json!(["a"])),
            "list element types are not identical: [[map[image:x name:a]] [a]]",
        ),
        (
            json!({"spec": {"$setElementOrder": []}}),
            "invalid patch format of setElementOrder list",
        ),
        (
            json!({"spec": {"$deleteFromPrimitiveListX": []}}),
            "invalid patch format of primitive list",
        ),
    ];
    for (patch, message) in cases {
        let error = pod(object.clone(), patch).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn directives_do_not_survive_in_what_is_new() {
    let patch = json!({"spec": {"containers": [
        {"name": "a", "env": [{"name": "X", "$patch": "delete"}]}, {"name": "b", "$patch": "delete"},
    ]}});
    assert_eq!(
        pod(json!({}), patch).unwrap(),
        containers(json!([{"name": "a", "env": []}]))
    );
}

#[test]
fn a_strategic_patch_applied_twice_is_applied_once() {
    let object = containers(json!([{"name": "z"}, {"name": "a", "image": "1"}]));
    let patch = json!({"spec": {
        "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
        "containers": [{"name": "b", "image": "2"}],
    }});
    let once = pod(object, patch.clone()).unwrap();
    assert_eq!(pod(once.clone(), patch).unwrap(), once);
}
