//! Small pieces that several printers share.

use serde_json::{Value, json};

/// Text of a value, or what stands for nothing.
pub(super) fn text_or(value: &Value, nothing: &str) -> Value {
    match value {
        Value::String(text) if !text.is_empty() => json!(text),
        Value::Number(number) => json!(number.to_string()),
        Value::Bool(flag) => json!(flag.to_string()),
        _ => json!(nothing),
    }
}

/// A number, 0 if it is missing.
pub(super) fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

/// `key=value,key=value`, or `<none>`.
pub(super) fn labels(value: &Value) -> String {
    let pairs: Vec<String> = value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    if pairs.is_empty() {
        "<none>".to_owned()
    } else {
        pairs.join(",")
    }
}

/// A label selector as text, or `<none>`.
pub(super) fn selector(value: &Value) -> String {
    let text = crate::api::scale::selector_text(value);
    if text.is_empty() {
        "<none>".to_owned()
    } else {
        text
    }
}

/// Names and images of the containers of a pod spec.
pub(super) fn containers(spec: &Value) -> (Value, Value) {
    let join = |field: &str| {
        let parts: Vec<&str> = spec["containers"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|container| container[field].as_str().unwrap_or_default())
            .collect();
        json!(parts.join(","))
    };
    (join("name"), join("image"))
}

/// Elements of an array, none if it is missing.
pub(super) fn each(value: &Value) -> impl DoubleEndedIterator<Item = &Value> + ExactSizeIterator {
    value
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
        .iter()
}

/// Whether a condition is true.
pub(super) fn has_condition(object: &Value, kind: &str) -> bool {
    each(&object["status"]["conditions"])
        .any(|condition| condition["type"] == kind && condition["status"] == "True")
}

/// `RWO,ROX` for access modes.
pub(super) fn access_modes(value: &Value) -> String {
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let found: Vec<&str> = short
        .iter()
        .filter(|(mode, _)| each(value).any(|one| one == mode))
        .map(|(_, short)| *short)
        .collect();
    found.join(",")
}
