//! Checks of the smaller kinds.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::{field::Errors, meta, names};

const IMMUTABLE: &str = "field is immutable";
const MOST_USER_PRIORITY: i64 = 1_000_000_000;
/// Of `ConfigMaps` and Secrets, all entries together.
const MOST_DATA_BYTES: usize = 1024 * 1024;

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// Checks a new object of a small kind.
pub(super) fn validate(table: &str, object: &Value, errors: &mut Errors) {
    let spec = &object["spec"];
    match table {
        "configmaps" => {
            data_keys(object, &["data", "binaryData"], errors);
        }
        "secrets" => data_keys(object, &["data"], errors),
        "poddisruptionbudgets.policy" => budget(object, errors),
        "leases.coordination.k8s.io" => lease(spec, errors),
        "priorityclasses.scheduling.k8s.io" => priority_class(object, errors),
        "nodes" => taints(spec, errors),
        "persistentvolumeclaims" => claim(spec, errors),
        "persistentvolumes" => volume(spec, errors),
        "events" => event(object, errors),
        "storageclasses.storage.k8s.io" if text(object, "provisioner").is_empty() => {
            errors.required("provisioner", "");
        }
        _ => {}
    }
}

/// Events of both APIs must be about something in their own namespace.
fn event(object: &Value, errors: &mut Errors) {
    let (about, namespace) = (
        text(&object["involvedObject"], "namespace"),
        meta::namespace(object),
    );
    let cluster_wide = about.is_empty() && matches!(namespace, "default" | "kube-system");
    if about != namespace && !cluster_wide {
        errors.invalid(
            "involvedObject.namespace",
            &json!(about),
            "does not match event.namespace",
        );
    }
}

/// The newer API asks for more.
pub(super) fn new_event(object: &Value, errors: &mut Errors) {
    if object["eventTime"].is_null() {
        errors.required("eventTime", "");
    }
    let kind = text(object, "type");
    if !matches!(kind, "Normal" | "Warning") {
        errors.invalid("type", &json!(kind), &format!("has invalid value: {kind}"));
    }
}

fn data_keys(object: &Value, fields: &[&str], errors: &mut Errors) {
    let mut size = 0;
    for field in fields {
        for (key, value) in object[*field].as_object().into_iter().flatten() {
            size += value.as_str().map_or(0, str::len);
            for problem in names::config_map_key(key) {
                errors.invalid(&format!("{field}[{key}]"), &json!(key), &problem);
            }
            if *field == "binaryData" && object["data"].get(key).is_some() {
                errors.invalid(
                    &format!("data[{key}]"),
                    &json!(key),
                    &format!("duplicate of key present in {field}"),
                );
            }
        }
    }
    if size > MOST_DATA_BYTES {
        // The real server names no field.
        errors.too_long("[]", MOST_DATA_BYTES);
    }
}

fn budget(object: &Value, errors: &mut Errors) {
    let spec = &object["spec"];
    if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
        errors.shown_invalid(
            "spec",
            &format!(
                "{{\"MinAvailable\":{},\"Selector\":{},\"MaxUnavailable\":{},\"UnhealthyPodEvictionPolicy\":{}}}",
                spec["minAvailable"],
                spec["selector"],
                spec["maxUnavailable"],
                spec["unhealthyPodEvictionPolicy"]
            ),
            "minAvailable and maxUnavailable cannot be both set",
        );
    }
    for field in ["minAvailable", "maxUnavailable"] {
        let path = format!("spec.{field}");
        match &spec[field] {
            Value::Number(number) if number.as_i64().is_some_and(|number| number < 0) => {
                errors.invalid(&path, &spec[field], "must be greater than or equal to 0");
            }
            Value::String(text) => {
                let percent = text
                    .strip_suffix('%')
                    .and_then(|digits| digits.parse::<i64>().ok());
                match percent {
                    None => errors.invalid(
                        &path,
                        &spec[field],
                        "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
                    ),
                    Some(101..) => errors.invalid(&path, &spec[field], "must not be greater than 100%"),
                    Some(_) => {}
                }
            }
            _ => {}
        }
    }
    super::workloads_validate::validate_selector(&spec["selector"], "spec.selector", errors);
}

fn lease(spec: &Value, errors: &mut Errors) {
    if spec["leaseDurationSeconds"]
        .as_i64()
        .is_some_and(|seconds| seconds <= 0)
    {
        errors.invalid(
            "spec.leaseDurationSeconds",
            &spec["leaseDurationSeconds"],
            "must be greater than 0",
        );
    }
    if spec["leaseTransitions"]
        .as_i64()
        .is_some_and(|count| count < 0)
    {
        errors.invalid(
            "spec.leaseTransitions",
            &spec["leaseTransitions"],
            "must be greater than or equal to 0",
        );
    }
}

fn priority_class(object: &Value, errors: &mut Errors) {
    let (name, value) = (
        meta::name(object),
        object["value"].as_i64().unwrap_or_default(),
    );
    let system = matches!(
        (name, value),
        ("system-cluster-critical", 2_000_000_000) | ("system-node-critical", 2_000_001_000)
    );
    if name.starts_with("system-") && !system {
        errors.forbidden(
            "metadata.name",
            &format!(
                "priority class names with 'system-' prefix are reserved for system use only. error: {name} is not a known system priority class"
            ),
        );
    } else if value > MOST_USER_PRIORITY && !system {
        errors.forbidden(
            "value",
            &format!("maximum allowed value of a user defined priority is {MOST_USER_PRIORITY}"),
        );
    }
    let policy = text(object, "preemptionPolicy");
    if !matches!(policy, "" | "PreemptLowerPriority" | "Never") {
        errors.unsupported(
            "preemptionPolicy",
            &json!(policy),
            &["PreemptLowerPriority", "Never"],
        );
    }
}

fn taints(spec: &Value, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, taint) in spec["taints"].as_array().into_iter().flatten().enumerate() {
        // The real server says metadata here, and its own names below.
        let path = format!("metadata.taints[{index}]");
        let (key, value, effect) = (
            text(taint, "key"),
            text(taint, "value"),
            text(taint, "effect"),
        );
        errors.name_problems(&format!("{path}.key"), key, names::qualified_name(key));
        errors.name_problems(&format!("{path}.value"), value, names::label_value(value));
        match effect {
            "NoSchedule" | "PreferNoSchedule" | "NoExecute" => {}
            "" => errors.required(&format!("{path}.effect"), ""),
            _ => errors.unsupported(
                &format!("{path}.effect"),
                &json!(effect),
                &["NoSchedule", "PreferNoSchedule", "NoExecute"],
            ),
        }
        if !seen.insert((key, effect)) {
            errors.shown_duplicate(
                &path,
                &format!(
                    "{{\"Key\":{},\"Value\":{},\"Effect\":{},\"TimeAdded\":{}}}",
                    json!(key),
                    json!(value),
                    json!(effect),
                    taint["timeAdded"]
                ),
                "taints must be unique by key and effect pair",
            );
        }
    }
}

const ACCESS_MODES: [&str; 4] = [
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];

fn access_modes(spec: &Value, errors: &mut Errors) {
    let modes = spec["accessModes"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    if modes.is_empty() {
        errors.required("spec.accessModes", "at least 1 access mode is required");
    }
    for mode in modes {
        if !mode
            .as_str()
            .is_some_and(|mode| ACCESS_MODES.contains(&mode))
        {
            errors.unsupported("spec.accessModes", mode, &ACCESS_MODES);
        }
    }
}

fn claim(spec: &Value, errors: &mut Errors) {
    access_modes(spec, errors);
    if spec["resources"]["requests"]["storage"].is_null() {
        errors.required("spec.resources[storage]", "");
    }
}

fn volume(spec: &Value, errors: &mut Errors) {
    access_modes(spec, errors);
    if spec["capacity"]
        .as_object()
        .is_none_or(serde_json::Map::is_empty)
    {
        errors.required("spec.capacity", "");
    } else if spec["capacity"]["storage"].is_null() {
        errors.unsupported("spec.capacity", &spec["capacity"], &["storage"]);
    }
}

/// Checks what may not change in a small kind.
pub(super) fn validate_update(table: &str, new: &Value, old: &Value, errors: &mut Errors) {
    match table {
        "configmaps" | "secrets" => immutable_data(table, new, old, errors),
        "poddisruptionbudgets.policy" | "leases.coordination.k8s.io" => {}
        "nodes" => {
            // The real server checks taints twice on the way of an update.
            taints(&new["spec"], errors);
            let (after, before) = (&new["spec"]["providerID"], &old["spec"]["providerID"]);
            if !text(&old["spec"], "providerID").is_empty() && after != before {
                errors.forbidden(
                    "spec.providerID",
                    "node updates may not change providerID except from \"\" to valid",
                );
            }
        }
        "priorityclasses.scheduling.k8s.io" => {
            if new["value"] != old["value"] {
                errors.forbidden("value", "may not be changed in an update.");
            }
            if new["preemptionPolicy"] != old["preemptionPolicy"] {
                errors.invalid("preemptionPolicy", &new["preemptionPolicy"], IMMUTABLE);
            }
            return;
        }
        "storageclasses.storage.k8s.io" => {
            for field in ["parameters", "provisioner", "reclaimPolicy"] {
                if new[field] != old[field] {
                    errors.forbidden(field, &format!("updates to {field} are forbidden."));
                }
            }
            if new["volumeBindingMode"] != old["volumeBindingMode"] {
                errors.invalid("volumeBindingMode", &new["volumeBindingMode"], IMMUTABLE);
            }
            return;
        }
        "persistentvolumeclaims" => claim_update(new, old, errors),
        _ => return,
    }
    validate(table, new, errors);
}

fn immutable_data(table: &str, new: &Value, old: &Value, errors: &mut Errors) {
    if table == "secrets" && new["type"] != old["type"] {
        errors.invalid("type", &new["type"], IMMUTABLE);
    }
    if old["immutable"] != true {
        return;
    }
    if new["immutable"] != true {
        errors.forbidden("immutable", "field is immutable when `immutable` is set");
    }
    for field in ["data", "binaryData"] {
        if new[field] != old[field] {
            errors.forbidden(field, "field is immutable when `immutable` is set");
        }
    }
}

/// Only the size of a claim may change, and its volume may be filled in.
fn claim_update(new: &Value, old: &Value, errors: &mut Errors) {
    let fixed = |object: &Value| {
        let mut spec = object["spec"].clone();
        meta::put(&mut spec, "resources", None);
        meta::put(&mut spec, "volumeAttributesClassName", None);
        if old["spec"]["volumeName"].is_null() {
            meta::put(&mut spec, "volumeName", None);
        }
        if old["spec"]["storageClassName"].is_null() {
            meta::put(&mut spec, "storageClassName", None);
        }
        spec
    };
    if fixed(new) != fixed(old) {
        errors.forbidden(
            "spec",
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        );
    }
}
