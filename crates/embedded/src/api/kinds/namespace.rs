//! Namespaces: held by `spec.finalizers` until their content is gone.

use serde_json::{Value, json};

use super::super::meta;

/// Every namespace carries its name as a label.
pub(super) fn default(object: &mut Value) {
    let name = meta::name(object).to_owned();
    if name.is_empty() {
        return;
    }
    if let Some(labels) = object
        .get_mut("metadata")
        .and_then(Value::as_object_mut)
        .and_then(|metadata| meta::child(metadata, "labels"))
    {
        labels.insert("kubernetes.io/metadata.name".to_owned(), json!(name));
    }
}

pub(super) fn prepare_create(object: &mut Value) {
    meta::put(object, "status", Some(json!({"phase": "Active"})));
    let mut finalizers: Vec<Value> = object["spec"]["finalizers"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    if !finalizers.iter().any(|one| one == "kubernetes") {
        finalizers.push(json!("kubernetes"));
    }
    meta::put(object, "spec", Some(json!({"finalizers": finalizers})));
}

pub(super) fn mark_deleting(object: &mut Value) {
    if let Some(status) = object
        .as_object_mut()
        .and_then(|map| meta::child(map, "status"))
    {
        status.insert("phase".to_owned(), json!("Terminating"));
    }
}

pub(super) fn has_finalizers(object: &Value) -> bool {
    object["spec"]["finalizers"]
        .as_array()
        .is_some_and(|list| !list.is_empty())
}
