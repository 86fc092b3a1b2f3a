use serde_json::json;

use super::*;
use crate::schema::Builtins;

fn schema(group: &str, version: &str, kind: &str) -> &'static Schema {
    Builtins::load()
        .unwrap()
        .kind(group, version, kind)
        .unwrap()
}

fn refusal(kind: (&str, &str, &str), mut object: Value) -> String {
    decode(&mut object, schema(kind.0, kind.1, kind.2))
        .unwrap_err()
        .to_string()
}

#[test]
fn wrong_types_are_refused_in_the_words_of_gos_decoder() {
    let deployment = ("apps", "v1", "Deployment");
    let pod = ("", "v1", "Pod");
    let cases = [
        (
            deployment,
            json!({"spec": {"replicas": "two"}}),
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            deployment,
            json!({"spec": {"replicas": 1.5}}),
            "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            pod,
            json!({"spec": {"containers": [{"env": [{"name": "A", "value": 1}]}]}}),
            "json: cannot unmarshal number into Go struct field EnvVar.spec.containers.env.value of type string",
        ),
        (
            pod,
            json!({"metadata": {"labels": {"a": true}}}),
            "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            pod,
            json!({"spec": {"restartPolicy": 1}}),
            "json: cannot unmarshal number into Go struct field PodSpec.spec.restartPolicy of type v1.RestartPolicy",
        ),
        (
            deployment,
            json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": []}}}}),
            "json: cannot unmarshal array into Go struct field RollingUpdateDeployment.spec.strategy.rollingUpdate.maxSurge of type int32",
        ),
        (
            pod,
            json!({"spec": []}),
            "json: cannot unmarshal array into Go struct field Pod.spec of type v1.PodSpec",
        ),
        (
            pod,
            json!({"spec": {"containers": {}}}),
            "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            pod,
            json!({"spec": {"containers": [{"resources": {"limits": {"cpu": "lots"}}}]}}),
            BAD_FORMAT,
        ),
    ];
    for (kind, object, message) in cases {
        assert_eq!(refusal(kind, object), message);
    }
}

#[test]
fn unknown_fields_are_removed_and_named() {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "extra": 1,
        "spec": {"foo": 1, "containers": [{"name": "a", "bar": {}}]},
    });
    let expected = vec!["extra", "spec.containers[0].bar", "spec.foo"];
    assert_eq!(unknown_fields(&pod, schema("", "v1", "Pod")), expected);
    assert_eq!(decode(&mut pod, schema("", "v1", "Pod")).unwrap(), expected);
    assert_eq!(
        pod["spec"]["containers"],
        json!([{"name": "a", "resources": {}}])
    );
}

#[test]
fn an_object_reads_back_as_go_would_write_it() {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "a", "labels": {}, "annotations": null, "finalizers": [],
            "creationTimestamp": "2024-05-01T12:00:00+02:00",
        },
        "spec": {
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [{
                "name": "a", "ports": [],
                "resources": {"requests": {"cpu": "1000m", "memory": 1024}},
            }],
        },
    });
    assert!(
        decode(&mut pod, schema("", "v1", "Pod"))
            .unwrap()
            .is_empty()
    );
    assert_eq!(
        pod,
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a", "creationTimestamp": "2024-05-01T10:00:00Z"},
            "spec": {
                "volumes": [{"name": "v", "emptyDir": {}}],
                "containers": [{
                    "name": "a",
                    "resources": {"requests": {"cpu": "1", "memory": "1024"}},
                }],
            },
            "status": {},
        })
    );
}

#[test]
fn zeroes_vanish_unless_they_mean_something() {
    let mut deployment = json!({"spec": {
        "minReadySeconds": 0, "paused": false, "replicas": 0,
        "selector": {}, "template": {"spec": {"hostNetwork": false, "nodeName": "", "containers": []}},
    }});
    decode(&mut deployment, schema("apps", "v1", "Deployment")).unwrap();
    let spec = &deployment["spec"];
    assert_eq!(spec["replicas"], 0);
    assert!(spec.get("minReadySeconds").is_none());
    assert!(spec.get("paused").is_none());
    assert_eq!(spec["template"]["spec"], json!({"containers": []}));
}

#[test]
fn the_metadata_of_custom_resources_is_typed() {
    let mut object =
        json!({"metadata": {"name": "x", "labels": {}, "foo": 1}, "spec": {"a": null}});
    assert_eq!(decode_metadata(&mut object).unwrap(), ["metadata.foo"]);
    assert_eq!(
        object,
        json!({"metadata": {"name": "x"}, "spec": {"a": null}})
    );
    let mut object = json!({"metadata": {"labels": {"a": 1}}});
    assert_eq!(
        decode_metadata(&mut object).unwrap_err().to_string(),
        "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string"
    );
}

#[test]
fn decoding_twice_changes_nothing_more() {
    let mut deployment = json!({
        "metadata": {"name": "a"},
        "spec": {"selector": {}, "template": {"spec": {"containers": []}}},
    });
    let schema = schema("apps", "v1", "Deployment");
    decode(&mut deployment, schema).unwrap();
    let once = deployment.clone();
    decode(&mut deployment, schema).unwrap();
    assert_eq!(deployment, once);
}

#[test]
fn micro_times_keep_their_fraction() {
    let mut lease = json!({"spec": {"renewTime": "2024-05-01T12:00:00.5Z"}});
    decode(&mut lease, schema("coordination.k8s.io", "v1", "Lease")).unwrap();
    assert_eq!(lease["spec"]["renewTime"], "2024-05-01T12:00:00.500000Z");
}

#[test]
fn repeated_keys_are_found_in_the_text() {
    let text = br#"{"a": 1, "b": [{"c": 1, "c": 2, "c": 3}], "a": {"d": null, "d": 1}}"#;
    assert_eq!(duplicate_fields(text), ["b[0].c", "a", "a.d"]);
    assert!(duplicate_fields(b"{\"a\":").is_empty());
    assert!(duplicate_fields(br#"{"a": 1, "b": 2}"#).is_empty());
}
