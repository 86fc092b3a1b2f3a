//! Defaults and preparation of the smaller kinds.

use serde_json::{Value, json};

use super::{
    super::{base64, meta, state::State},
    defaults::{fill, items, spec},
};

/// Fills in what the small kinds leave out.
pub(super) fn default(table: &str, object: &mut Value) {
    match table {
        "persistentvolumeclaims" => {
            if let Some(spec) = spec(object) {
                fill(spec, "volumeMode", "Filesystem");
            }
        }
        "persistentvolumes" => {
            if let Some(spec) = spec(object) {
                fill(spec, "persistentVolumeReclaimPolicy", "Retain");
                fill(spec, "volumeMode", "Filesystem");
                if let Some(path) = spec.get_mut("hostPath").and_then(Value::as_object_mut) {
                    path.entry("type").or_insert_with(|| json!(""));
                }
            }
        }
        "nodes" => default_node(object),
        "secrets" => default_secret(object),
        "endpoints" => {
            if let Some(map) = object.as_object_mut() {
                for subset in items(map, "subsets") {
                    for port in items(subset, "ports") {
                        fill(port, "protocol", "TCP");
                    }
                }
            }
        }
        "storageclasses.storage.k8s.io" => {
            fill_top(object, "reclaimPolicy", "Delete");
            fill_top(object, "volumeBindingMode", "Immediate");
        }
        "csidrivers.storage.k8s.io" => default_csi_driver(object),
        "priorityclasses.scheduling.k8s.io" => {
            fill_top(object, "preemptionPolicy", "PreemptLowerPriority");
        }
        "rolebindings.rbac.authorization.k8s.io"
        | "clusterrolebindings.rbac.authorization.k8s.io" => {
            default_binding(object);
        }
        "endpointslices.discovery.k8s.io" => {
            if let Some(map) = object.as_object_mut() {
                for port in items(map, "ports") {
                    port.entry("name").or_insert_with(|| json!(""));
                    fill(port, "protocol", "TCP");
                }
            }
        }
        "networkpolicies.networking.k8s.io" => default_network_policy(object),
        _ => {}
    }
}

/// Fields that Go's types write although nobody set them.
fn zero_fields(object: &mut Value, fields: &[(&str, Value)]) {
    if let Some(map) = object.as_object_mut() {
        for (field, zero) in fields {
            map.entry(*field).or_insert_with(|| zero.clone());
        }
    }
}

/// Writes what Go's types write although nobody set it, and nobody owns it.
pub(super) fn write_zeros(table: &str, object: &mut Value) {
    if table == "events" {
        zero_fields(
            object,
            &[
                ("eventTime", Value::Null),
                ("firstTimestamp", Value::Null),
                ("lastTimestamp", Value::Null),
                ("reportingComponent", json!("")),
                ("reportingInstance", json!("")),
                ("source", json!({})),
            ],
        );
    }
    if table == "statefulsets.apps"
        && let Some(spec) = spec(object)
    {
        spec.entry("serviceName").or_insert_with(|| json!(""));
    }
}

/// Times of conditions that Go's types write, and whoever writes the condition owns.
pub(super) fn default_conditions(table: &str, object: &mut Value) {
    let times: &[&str] = match table {
        "nodes" => &["lastHeartbeatTime", "lastTransitionTime"],
        "pods" | "jobs.batch" | "persistentvolumeclaims" => {
            &["lastProbeTime", "lastTransitionTime"]
        }
        "deployments.apps" => &["lastTransitionTime", "lastUpdateTime"],
        "replicasets.apps" | "daemonsets.apps" | "statefulsets.apps" => &["lastTransitionTime"],
        _ => return,
    };
    let conditions = object
        .pointer_mut("/status/conditions")
        .and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        for time in times {
            zero_fields(condition, &[(*time, Value::Null)]);
        }
    }
}

fn fill_top(object: &mut Value, field: &str, value: &str) {
    if let Some(map) = object.as_object_mut() {
        fill(map, field, value);
    }
}

fn default_node(object: &mut Value) {
    let capacity = object["status"].get("capacity").cloned();
    if let (Some(capacity), Some(status)) = (
        capacity,
        object.get_mut("status").and_then(Value::as_object_mut),
    ) {
        status.entry("allocatable").or_insert(capacity);
    }
}

/// Text data is a convenience for writers: it is stored encoded.
fn default_secret(object: &mut Value) {
    fill_top(object, "type", "Opaque");
    let Some(map) = object.as_object_mut() else {
        return;
    };
    let Some(text) = map.remove("stringData") else {
        return;
    };
    if let Some(data) = meta::child(map, "data") {
        for (key, value) in text.as_object().into_iter().flatten() {
            let encoded = base64::encode_padded(value.as_str().unwrap_or_default().as_bytes());
            data.insert(key.clone(), json!(encoded));
        }
    }
}

fn default_csi_driver(object: &mut Value) {
    let Some(spec) = spec(object) else { return };
    fill(spec, "attachRequired", true);
    fill(spec, "podInfoOnMount", false);
    fill(spec, "storageCapacity", false);
    fill(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    fill(spec, "requiresRepublish", false);
    fill(spec, "seLinuxMount", false);
    fill(spec, "volumeLifecycleModes", json!(["Persistent"]));
}

fn default_binding(object: &mut Value) {
    let Some(map) = object.as_object_mut() else {
        return;
    };
    if let Some(role) = map.get_mut("roleRef").and_then(Value::as_object_mut) {
        fill(role, "apiGroup", "rbac.authorization.k8s.io");
    }
    for subject in items(map, "subjects") {
        if matches!(
            subject.get("kind").and_then(Value::as_str),
            Some("User" | "Group")
        ) {
            fill(subject, "apiGroup", "rbac.authorization.k8s.io");
        }
    }
}

fn default_network_policy(object: &mut Value) {
    let egress = object["spec"]["egress"]
        .as_array()
        .is_some_and(|rules| !rules.is_empty());
    if let Some(spec) = spec(object) {
        let kinds = if egress {
            json!(["Ingress", "Egress"])
        } else {
            json!(["Ingress"])
        };
        fill(spec, "policyTypes", kinds);
    }
}

/// What the server adds to new objects by admission or strategy.
pub(super) fn prepare_create(state: &State, table: &str, object: &mut Value) {
    match table {
        "persistentvolumeclaims" => {
            meta::put(object, "status", Some(json!({"phase": "Pending"})));
            add_finalizer(object, "kubernetes.io/pvc-protection");
            default_class(state, object);
        }
        "persistentvolumes" => {
            let now = state.clock.rfc3339();
            let status = json!({"phase": "Pending", "lastPhaseTransitionTime": now});
            meta::put(object, "status", Some(status));
            add_finalizer(object, "kubernetes.io/pv-protection");
        }
        "nodes" => taint_not_ready(object),
        "statefulsets.apps" => {
            if let Some(status) = object
                .as_object_mut()
                .and_then(|map| meta::child(map, "status"))
            {
                status.insert("availableReplicas".to_owned(), json!(0));
            }
        }
        "services" | "ingresses.networking.k8s.io" => {
            meta::put(object, "status", Some(json!({"loadBalancer": {}})));
        }
        "poddisruptionbudgets.policy" => {
            meta::put(
                object,
                "status",
                Some(json!({
                    "currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0,
                })),
            );
        }
        _ => {}
    }
}

fn add_finalizer(object: &mut Value, finalizer: &str) {
    let mut finalizers: Vec<String> = meta::finalizers(object).map(str::to_owned).collect();
    if !finalizers.iter().any(|one| one == finalizer) {
        finalizers.push(finalizer.to_owned());
        meta::set_finalizers(object, finalizers);
    }
}

/// A claim without a class gets the default one, if there is one.
fn default_class(state: &State, object: &mut Value) {
    const DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
    if !object["spec"]["storageClassName"].is_null() {
        return;
    }
    let class = state
        .store
        .iter("storageclasses.storage.k8s.io", "")
        .filter(|(_, class)| class["metadata"]["annotations"][DEFAULT] == "true")
        .max_by_key(|(name, class)| {
            (
                meta::text(class, "creationTimestamp").to_owned(),
                std::cmp::Reverse((*name).clone()),
            )
        })
        .map(|(name, _)| name.clone());
    if let (Some(class), Some(spec)) = (class, spec(object)) {
        spec.insert("storageClassName".to_owned(), json!(class));
    }
}

/// A new node takes no pods until someone has seen it ready.
fn taint_not_ready(object: &mut Value) {
    let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    let Some(spec) = spec(object) else { return };
    let taints = spec.entry("taints").or_insert_with(|| json!([]));
    if let Some(taints) = taints.as_array_mut() {
        let there = taints
            .iter()
            .any(|one| one["key"] == taint["key"] && one["effect"] == taint["effect"]);
        if !there {
            taints.push(taint);
        }
    }
}
