//! Objects as users write them, and what stands in them.

use serde_json::{Value, json};

use super::story::STORY;

/// Lays `change` over an object: maps are merged, everything else is replaced, `null` removes.
pub(crate) fn merge(object: &mut Value, change: Value) {
    match change {
        Value::Object(fields) if object.is_object() => {
            for (key, value) in fields {
                if value.is_null() {
                    object.as_object_mut().expect("it is one").remove(&key);
                } else {
                    merge(&mut object[key], value);
                }
            }
        }
        other => *object = other,
    }
}

/// A node class whose machines are nodes within two seconds.
pub(crate) fn class(name: &str) -> Value {
    json!({
        "apiVersion": "joiner.dev/v1alpha1", "kind": "SimNodeClass",
        "metadata": {"name": name},
        "spec": {
            "catalog": {"configMapKeyRef": {"namespace": "default", "name": "catalogue"}},
            "bootTime": {"min": "1s", "max": "2s"},
        },
    })
}

/// A pool of a story: its label and its taint are on every node.
pub(crate) fn pool(name: &str, story: &str, class: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "disruption": {"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]},
            "template": {
                "metadata": {"labels": {STORY: story}},
                "spec": {
                    "nodeClassRef": {"group": "joiner.dev", "kind": "SimNodeClass", "name": class},
                    "requirements": [
                        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                    ],
                    "taints": [{"key": STORY, "value": story, "effect": "NoSchedule"}],
                },
            },
        },
    })
}

/// The template of a pod that runs on the nodes of its story only.
pub(crate) fn pod_template(app: &str, story: &str, cpu: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {
            "nodeSelector": {STORY: story},
            "tolerations": [{"key": STORY, "operator": "Equal", "value": story}],
            "terminationGracePeriodSeconds": 5,
            "containers": [{
                "name": "main", "image": "none",
                "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}},
            }],
        },
    })
}

/// A deployment of such pods.
pub(crate) fn deployment(app: &str, story: &str, replicas: u32, cpu: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": app},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": app}},
            "template": pod_template(app, story, cpu),
        },
    })
}

/// A change of a deployment whose pods run in one zone.
pub(crate) fn in_zone(zone: &str) -> Value {
    json!({"spec": {"template": {"spec": {"nodeSelector": {"topology.kubernetes.io/zone": zone}}}}})
}

/// A text in an object, by its pointer; empty if there is none.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    let found = object.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default()
}

/// Whether a condition of an object is true.
pub(crate) fn is_true(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| one["type"] == kind && one["status"] == "True")
}

/// A label of an object; empty if there is none.
pub(crate) fn label(object: &Value, key: &str) -> String {
    let value = object["metadata"]["labels"][key].as_str();
    value.unwrap_or_default().to_owned()
}
