#![expect(
    clippy::needless_pass_by_value,
    reason = "helpers take json!() literals"
)]

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::schema::{Builtins, decode};

const T1: &str = "2024-05-01T10:00:00Z";
const T2: &str = "2024-05-01T11:00:00Z";

fn builtin(group: &str, kind: &str) -> &'static Schema {
    Builtins::load().unwrap().kind(group, "v1", kind).unwrap()
}

fn writer<'a>(manager: &'a str, api_version: &'a str, now: &'a str) -> Writer<'a> {
    Writer {
        manager,
        subresource: "",
        api_version,
        now,
        ignored: &[&["status"]],
    }
}

/// Applies to a config map, in which every key is a field of its own.
fn apply_map(
    live: Option<&Value>,
    data: Value,
    manager: &str,
    now: &str,
    force: bool,
) -> Result<Value, ApplyError> {
    let config =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data});
    let writer = writer(manager, "v1", now);
    apply(live, &config, &writer, force, builtin("", "ConfigMap"))
}

fn owners(object: &Value) -> Vec<(String, Value)> {
    let list = object["metadata"]["managedFields"].as_array();
    list.into_iter()
        .flatten()
        .map(|entry| {
            let name = format!(
                "{} {}",
                entry["manager"].as_str().unwrap(),
                entry["operation"].as_str().unwrap()
            );
            (name, entry["fieldsV1"].clone())
        })
        .collect()
}

#[test]
fn an_applier_owns_what_it_applies() {
    let object = apply_map(None, json!({"a": "1", "b": "2"}), "x", T1, false).unwrap();
    assert_eq!(object["data"], json!({"a": "1", "b": "2"}));
    assert_eq!(
        object["metadata"]["managedFields"],
        json!([{
            "manager": "x", "operation": "Apply", "apiVersion": "v1", "time": T1,
            "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:a": {}, "f:b": {}}},
        }])
    );
}

#[test]
fn what_is_no_longer_applied_is_removed() {
    let first = apply_map(None, json!({"a": "1", "b": "2"}), "x", T1, false).unwrap();
    let second = apply_map(Some(&first), json!({"a": "1"}), "x", T2, false).unwrap();
    assert_eq!(second["data"], json!({"a": "1"}));
    assert_eq!(
        owners(&second),
        [("x Apply".to_owned(), json!({"f:data": {"f:a": {}}}))]
    );
    assert_eq!(second["metadata"]["managedFields"][0]["time"], T2);
}

#[test]
fn what_somebody_else_owns_too_stays() {
    let first = apply_map(None, json!({"a": "1", "b": "2"}), "x", T1, false).unwrap();
    let second = apply_map(Some(&first), json!({"b": "2"}), "y", T1, false).unwrap();
    let third = apply_map(Some(&second), json!({"a": "1"}), "x", T2, false).unwrap();
    assert_eq!(third["data"], json!({"a": "1", "b": "2"}));
}

#[test]
fn applying_what_another_owns_with_another_value_is_a_conflict() {
    let first = apply_map(None, json!({"a": "1", "b": "2"}), "x", T1, false).unwrap();
    let error = apply_map(Some(&first), json!({"a": "9"}), "y", T2, false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"x\": .data.a"
    );
    let error = apply_map(Some(&first), json!({"a": "9", "b": "9"}), "y", T2, false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 2 conflicts: conflicts with \"x\":\n- .data.a\n- .data.b"
    );
    let ApplyError::Conflicts(conflicts) = error else {
        panic!("{error}");
    };
    assert_eq!(conflicts.0[0].message(), "conflict with \"x\"");
}

#[test]
fn force_takes_the_field_over() {
    let first = apply_map(None, json!({"a": "1", "b": "2"}), "x", T1, false).unwrap();
    let second = apply_map(Some(&first), json!({"a": "9"}), "y", T2, true).unwrap();
    assert_eq!(second["data"], json!({"a": "9", "b": "2"}));
    assert_eq!(
        owners(&second),
        [
            ("x Apply".to_owned(), json!({"f:data": {"f:b": {}}})),
            ("y Apply".to_owned(), json!({"f:data": {"f:a": {}}})),
        ]
    );
}

#[test]
fn the_same_value_may_have_two_owners() {
    let first = apply_map(None, json!({"a": "1"}), "x", T1, false).unwrap();
    let second = apply_map(Some(&first), json!({"a": "1"}), "y", T2, false).unwrap();
    assert_eq!(owners(&second).len(), 2);
    // Nothing changed, so the newcomer has no time.
    let entries = second["metadata"]["managedFields"].as_array().unwrap();
    let newcomer = entries
        .iter()
        .find(|entry| entry["manager"] == "y")
        .unwrap();
    assert!(newcomer.get("time").is_none());
    // When the first gives it up, it stays.
    let third = apply_map(Some(&second), json!({}), "x", T2, false).unwrap();
    assert_eq!(third["data"], json!({"a": "1"}));
}

#[test]
fn an_apply_that_changes_nothing_keeps_its_time() {
    let first = apply_map(None, json!({"a": "1"}), "x", T1, false).unwrap();
    let second = apply_map(Some(&first), json!({"a": "1"}), "x", T2, false).unwrap();
    assert_eq!(second, first);
}

#[test]
fn an_update_takes_the_fields_that_it_changes() {
    let schema = builtin("", "ConfigMap");
    let first = apply_map(None, json!({"a": "1", "b": "2"}), "x", T1, false).unwrap();
    let mut second = first.clone();
    second["data"]["a"] = json!("9");
    track(Some(&first), &mut second, &writer("y", "v1", T2), schema);
    assert_eq!(
        owners(&second),
        [
            ("x Apply".to_owned(), json!({"f:data": {"f:b": {}}})),
            ("y Update".to_owned(), json!({"f:data": {"f:a": {}}})),
        ]
    );
    let error = apply_map(Some(&second), json!({"a": "1", "b": "2"}), "x", T2, false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"y\" using v1: .data.a"
    );
}

#[test]
fn an_update_that_changes_nothing_changes_nothing() {
    let schema = builtin("", "ConfigMap");
    let first = apply_map(None, json!({"a": "1"}), "x", T1, false).unwrap();
    let mut second = first.clone();
    track(Some(&first), &mut second, &writer("y", "v1", T2), schema);
    assert_eq!(second, first);
}

#[test]
fn an_updater_that_removes_a_field_owns_nothing_by_it() {
    let schema = builtin("", "ConfigMap");
    let first = apply_map(None, json!({"a": "1", "b": "2"}), "x", T1, false).unwrap();
    let mut second = first.clone();
    second["data"].as_object_mut().unwrap().remove("a");
    track(Some(&first), &mut second, &writer("y", "v1", T2), schema);
    assert_eq!(
        owners(&second),
        [("x Apply".to_owned(), json!({"f:data": {"f:b": {}}}))]
    );
}

fn deployment() -> Value {
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "n", "labels": {"app": "a"}},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "a"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "template": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {
                    "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "protocol": "TCP"}]}],
                    "securityContext": {},
                },
            },
        },
    });
    decode(&mut object, builtin("apps", "Deployment")).unwrap();
    object
}

#[test]
fn a_created_deployment_is_owned_as_on_the_real_server() {
    let mut object = deployment();
    track(
        None,
        &mut object,
        &writer("kubectl-create", "apps/v1", T1),
        builtin("apps", "Deployment"),
    );
    assert_eq!(
        object["metadata"]["managedFields"],
        json!([{
            "manager": "kubectl-create", "operation": "Update", "apiVersion": "apps/v1", "time": T1,
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
                "f:spec": {
                    "f:replicas": {},
                    "f:selector": {},
                    "f:strategy": {"f:rollingUpdate": {".": {}, "f:maxSurge": {}, "f:maxUnavailable": {}}, "f:type": {}},
                    "f:template": {
                        "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
                        "f:spec": {
                            "f:containers": {"k:{\"name\":\"c\"}": {
                                ".": {}, "f:image": {}, "f:name": {}, "f:resources": {},
                                "f:ports": {".": {}, "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {
                                    ".": {}, "f:containerPort": {}, "f:protocol": {}}},
                            }},
                            "f:securityContext": {},
                        },
                    },
                },
            },
        }])
    );
}

#[test]
fn a_status_update_is_an_entry_of_its_own() {
    let schema = builtin("apps", "Deployment");
    let mut first = deployment();
    track(None, &mut first, &writer("a", "apps/v1", T1), schema);
    let mut second = first.clone();
    second["status"] =
        json!({"replicas": 1, "conditions": [{"type": "Available", "status": "True"}]});
    let through_status = Writer {
        manager: "controller",
        subresource: "status",
        api_version: "apps/v1",
        now: T2,
        ignored: &[&["spec"], &["metadata", "labels"]],
    };
    track(Some(&first), &mut second, &through_status, schema);
    let entry = &second["metadata"]["managedFields"][1];
    assert_eq!(entry["subresource"], "status");
    assert_eq!(
        entry["fieldsV1"],
        json!({"f:status": {
            "f:replicas": {},
            "f:conditions": {".": {}, "k:{\"type\":\"Available\"}": {".": {}, "f:status": {}, "f:type": {}}},
        }})
    );
}

fn apply_deployment(
    live: Option<&Value>,
    spec: Value,
    manager: &str,
    force: bool,
) -> Result<Value, ApplyError> {
    let config = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "n"}, "spec": spec,
    });
    apply(
        live,
        &config,
        &writer(manager, "apps/v1", T2),
        force,
        builtin("apps", "Deployment"),
    )
}

#[test]
fn conflicts_with_client_side_apply_read_as_on_the_real_server() {
    let mut live = deployment();
    let by = writer("kubectl-client-side-apply", "apps/v1", T1);
    track(None, &mut live, &by, builtin("apps", "Deployment"));
    let error = apply_deployment(Some(&live), json!({"replicas": 3}), "x", false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using apps/v1: .spec.replicas"
    );
}

#[test]
fn keyed_lists_are_merged_item_by_item() {
    let containers = |items: Value| json!({"template": {"spec": {"containers": items}}});
    let first = apply_deployment(
        None,
        containers(json!([{"name": "a", "image": "1"}, {"name": "b", "image": "2"}])),
        "x",
        false,
    )
    .unwrap();
    let second = apply_deployment(
        Some(&first),
        containers(json!([{"name": "c", "image": "3"}, {"name": "b", "command": ["x"]}])),
        "y",
        false,
    )
    .unwrap();
    assert_eq!(
        second["spec"]["template"]["spec"]["containers"],
        json!([
            {"name": "a", "image": "1"},
            {"name": "c", "image": "3"},
            {"name": "b", "image": "2", "command": ["x"]},
        ])
    );
    let third = apply_deployment(
        Some(&second),
        containers(json!([{"name": "b", "image": "2"}])),
        "x",
        false,
    )
    .unwrap();
    assert_eq!(
        third["spec"]["template"]["spec"]["containers"],
        json!([{"name": "c", "image": "3"}, {"name": "b", "image": "2", "command": ["x"]}])
    );
}

#[test]
fn a_key_that_is_left_out_has_its_default() {
    let ports = |items: Value| json!({"template": {"spec": {"containers": [{"name": "a", "ports": items}]}}});
    let first = apply_deployment(
        None,
        ports(json!([{"containerPort": 80, "protocol": "TCP"}])),
        "x",
        false,
    )
    .unwrap();
    let second = apply_deployment(
        Some(&first),
        ports(
            json!([{"containerPort": 80, "name": "web"}, {"containerPort": 80, "protocol": "UDP"}]),
        ),
        "y",
        false,
    )
    .unwrap();
    assert_eq!(
        second["spec"]["template"]["spec"]["containers"][0]["ports"],
        json!([
            {"containerPort": 80, "name": "web", "protocol": "TCP"},
            {"containerPort": 80, "protocol": "UDP"},
        ])
    );
}

#[test]
fn atomic_lists_and_maps_have_one_owner() {
    let command = |words: Value| json!({"template": {"spec": {"containers": [{"name": "a", "command": words}]}}});
    let first = apply_deployment(None, command(json!(["a", "b"])), "x", false).unwrap();
    let error = apply_deployment(Some(&first), command(json!(["a", "c"])), "y", false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"x\": .spec.template.spec.containers[name=\"a\"].command"
    );
    let selector = |app: &str| json!({"selector": {"matchLabels": {"app": app}}});
    let first = apply_deployment(None, selector("a"), "x", false).unwrap();
    let error = apply_deployment(Some(&first), selector("b"), "y", false).unwrap_err();
    assert!(error.to_string().ends_with(": .spec.selector"), "{error}");
}

#[test]
fn defaulted_fields_are_nobodys() {
    let first = apply_deployment(None, json!({"replicas": 2}), "x", false).unwrap();
    let mut stored = first.clone();
    stored["spec"]["revisionHistoryLimit"] = json!(10);
    let second = apply_deployment(
        Some(&stored),
        json!({"replicas": 2, "revisionHistoryLimit": 5}),
        "y",
        false,
    )
    .unwrap();
    assert_eq!(second["spec"]["revisionHistoryLimit"], 5);
    let third = apply_deployment(Some(&stored), json!({"minReadySeconds": 1}), "x", false).unwrap();
    assert_eq!(third["spec"]["revisionHistoryLimit"], 10);
    assert!(third["spec"].get("replicas").is_none());
}

#[test]
fn configurations_that_do_not_fit_are_refused() {
    let cases = [
        (
            json!({"foo": 1}),
            "failed to create typed patch object (n/d; apps/v1, Kind=Deployment): .spec.foo: field not declared in schema",
        ),
        (
            json!({"replicas": "x"}),
            "failed to create typed patch object (n/d; apps/v1, Kind=Deployment): .spec.replicas: expected numeric (int or float), got string",
        ),
        (
            json!({"template": {"spec": {"containers": [{"name": "a"}, {"name": "a"}]}}}),
            "failed to create typed patch object (n/d; apps/v1, Kind=Deployment): .spec.template.spec.containers: duplicate entries for key [name=\"a\"]",
        ),
    ];
    for (spec, message) in cases {
        let error = apply_deployment(None, spec, "x", false).unwrap_err();
        assert_eq!(error, ApplyError::Mismatch(message.to_owned()));
    }
    let wrong = json!({"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "m"}});
    let error = apply(
        None,
        &wrong,
        &writer("x", "v1", T1),
        false,
        builtin("", "ConfigMap"),
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "Incorrect version specified in apply patch. Specified patch version: v2, expected: v1"
    );
    let managed = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "managedFields": []}});
    let error = apply(
        None,
        &managed,
        &writer("x", "v1", T1),
        false,
        builtin("", "ConfigMap"),
    )
    .unwrap_err();
    assert_eq!(error.to_string(), "metadata.managedFields must be nil");
}

#[test]
fn an_object_without_owners_gets_one_when_first_applied() {
    let live = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "uid": "u"}, "data": {"a": "1", "b": "2"}});
    let error = apply_map(Some(&live), json!({"a": "9"}), "x", T2, false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.a"
    );
    let object = apply_map(Some(&live), json!({"a": "1"}), "x", T2, false).unwrap();
    assert_eq!(
        owners(&object),
        [
            ("x Apply".to_owned(), json!({"f:data": {"f:a": {}}})),
            (
                "before-first-apply Update".to_owned(),
                json!({"f:data": {".": {}, "f:a": {}, "f:b": {}}})
            ),
        ]
    );
}

#[test]
fn an_object_that_was_never_tracked_stays_so_on_update() {
    let live = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "1"}});
    let mut new = live.clone();
    new["data"]["a"] = json!("2");
    track(
        Some(&live),
        &mut new,
        &writer("x", "v1", T1),
        builtin("", "ConfigMap"),
    );
    assert!(new["metadata"].get("managedFields").is_none());
}

#[test]
fn owners_can_be_reset_and_are_not_lost_by_accident() {
    let schema = builtin("", "ConfigMap");
    let first = apply_map(None, json!({"a": "1"}), "x", T1, false).unwrap();
    let mut forgetful = first.clone();
    forgetful["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("managedFields");
    track(Some(&first), &mut forgetful, &writer("y", "v1", T2), schema);
    assert_eq!(owners(&forgetful), owners(&first));
    let mut reset = first.clone();
    reset["metadata"]["managedFields"] = json!([{}]);
    track(Some(&first), &mut reset, &writer("y", "v1", T2), schema);
    assert!(reset["metadata"].get("managedFields").is_none());
}

#[test]
fn too_many_updaters_become_ancient_changes() {
    let schema = builtin("", "ConfigMap");
    let mut object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {}});
    track(None, &mut object, &writer("first", "v1", T1), schema);
    for index in 0..12 {
        let mut next = object.clone();
        next["data"][format!("k{index:02}")] = json!("v");
        let now = format!("2024-05-01T10:{index:02}:01Z");
        let name = format!("m{index:02}");
        track(Some(&object), &mut next, &writer(&name, "v1", &now), schema);
        object = next;
    }
    let names: Vec<String> = owners(&object).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), 10);
    assert_eq!(names[0], "ancient-changes Update");
    let union: usize = owners(&object)
        .iter()
        .map(|(_, fields)| {
            fields["f:data"]
                .as_object()
                .unwrap()
                .keys()
                .filter(|key| *key != ".")
                .count()
        })
        .sum();
    assert_eq!(union, 12);
}

#[test]
fn custom_resources_follow_their_list_types() {
    let schema = Schema::structural(
        &json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "terms": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }}}}),
        "S",
    )
    .unwrap();
    let apply_spec = |live: Option<&Value>, spec: Value, manager: &str| {
        let config = json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "k", "finalizers": [manager]}, "spec": spec});
        apply(live, &config, &writer(manager, "g/v1", T1), false, &schema).unwrap()
    };
    let first = apply_spec(
        None,
        json!({"set": ["a"], "terms": [{"a": "1"}], "free": {"x": {"y": 1}}}),
        "m",
    );
    let second = apply_spec(
        Some(&first),
        json!({"set": ["b"], "free": {"x": {"z": [1]}}}),
        "n",
    );
    assert_eq!(
        second["spec"],
        json!({"set": ["a", "b"], "terms": [{"a": "1"}], "free": {"x": {"y": 1, "z": [1]}}})
    );
    assert_eq!(second["metadata"]["finalizers"], json!(["m", "n"]));
    assert_eq!(
        owners(&first)[0].1,
        json!({
            "f:metadata": {"f:finalizers": {"v:\"m\"": {}}},
            "f:spec": {
                "f:set": {"v:\"a\"": {}}, "f:terms": {},
                "f:free": {"f:x": {".": {}, "f:y": {}}},
            },
        })
    );
    let mut created = json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "k"}, "spec": {"set": ["a"]}});
    track(None, &mut created, &writer("c", "g/v1", T1), &schema);
    assert_eq!(
        owners(&created)[0].1,
        json!({"f:spec": {".": {}, "f:set": {".": {}, "v:\"a\"": {}}}})
    );
}

#[test]
fn kubectl_takes_over_what_client_side_apply_wrote_down() {
    let schema = builtin("", "ConfigMap");
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "1"}});
    let mut live = config.clone();
    live["metadata"]["annotations"] =
        json!({"kubectl.kubernetes.io/last-applied-configuration": config.to_string()});
    track(
        None,
        &mut live,
        &writer("kubectl-client-side-apply", "v1", T1),
        schema,
    );
    let object = apply_map(Some(&live), json!({"a": "2"}), "kubectl", T2, false).unwrap();
    assert_eq!(object["data"]["a"], "2");
    let noted =
        object["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"]
            .as_str();
    assert!(noted.unwrap().contains("\"a\":\"2\""));
    assert!(apply_map(Some(&live), json!({"a": "2"}), "other", T2, false).is_err());
}

#[test]
fn objects_that_differ_in_times_only_are_the_same() {
    let old = apply_map(None, json!({"a": "1"}), "x", T1, false).unwrap();
    let mut new = old.clone();
    new["metadata"]["managedFields"][0]["time"] = json!(T2);
    keep_times(&old, &mut new);
    assert_eq!(new, old);
    new["metadata"]["managedFields"][0]["time"] = json!(T2);
    new["data"]["a"] = json!("2");
    keep_times(&old, &mut new);
    assert_eq!(new["metadata"]["managedFields"][0]["time"], T2);
}

fn data() -> impl Strategy<Value = Value> {
    some_data(0)
}

fn some_data(least: usize) -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[a-d]", "[0-2]", least..4).prop_map(|fields| json!(fields))
}

proptest! {
    #[test]
    fn applying_twice_is_applying_once(before in data(), other in data(), config in some_data(1)) {
        let live = apply_map(None, before, "x", T1, true).unwrap();
        let live = apply_map(Some(&live), other, "y", T1, true).unwrap();
        let once = apply_map(Some(&live), config.clone(), "x", T2, true).unwrap();
        let twice = apply_map(Some(&once), config.clone(), "x", T2, false).unwrap();
        prop_assert_eq!(&twice, &once);
        // What was applied is there.
        for (key, value) in config.as_object().unwrap() {
            prop_assert_eq!(&once["data"][key], value);
        }
    }

    #[test]
    fn every_field_that_is_owned_is_there(before in data(), other in data(), changed in data()) {
        let schema = builtin("", "ConfigMap");
        let live = apply_map(None, before, "x", T1, true).unwrap();
        let live = apply_map(Some(&live), other, "y", T1, true).unwrap();
        let mut new = live.clone();
        new["data"] = changed;
        track(Some(&live), &mut new, &writer("z", "v1", T2), schema);
        for (_, fields) in owners(&new) {
            for key in fields["f:data"].as_object().into_iter().flatten().map(|(key, _)| key) {
                if let Some(name) = key.strip_prefix("f:") {
                    prop_assert!(new["data"].get(name).is_some(), "{} is owned but gone", name);
                }
            }
        }
    }
}
