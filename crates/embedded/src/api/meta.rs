//! Reading and writing `metadata` of objects that are plain JSON.
//!
//! Readers never fail: what is missing or of the wrong type reads as empty. Writers make the
//! objects on the way, and do nothing to a value that is no object at all (validation has its say
//! about those).

use serde_json::{Map, Value};

/// Text at `metadata.<field>`, or empty.
pub(crate) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// `metadata.name`.
pub(crate) fn name(object: &Value) -> &str {
    text(object, "name")
}

/// `metadata.namespace`, empty for cluster-scoped objects.
pub(crate) fn namespace(object: &Value) -> &str {
    text(object, "namespace")
}

/// `metadata.uid`.
pub(crate) fn uid(object: &Value) -> &str {
    text(object, "uid")
}

/// `metadata.resourceVersion`.
pub(crate) fn resource_version(object: &Value) -> &str {
    text(object, "resourceVersion")
}

/// Whether deletion has begun.
pub(crate) fn is_deleting(object: &Value) -> bool {
    !text(object, "deletionTimestamp").is_empty()
}

/// `metadata.finalizers`.
pub(crate) fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    object["metadata"]["finalizers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

/// `metadata.generation`, 0 when unset.
pub(crate) fn generation(object: &Value) -> i64 {
    object["metadata"]["generation"]
        .as_i64()
        .unwrap_or_default()
}

/// The map at `object[field]`, made if it is not there.
pub(crate) fn child<'a>(
    object: &'a mut Map<String, Value>,
    field: &str,
) -> Option<&'a mut Map<String, Value>> {
    if !object.get(field).is_some_and(Value::is_object) {
        object.insert(field.to_owned(), Value::Object(Map::new()));
    }
    object.get_mut(field).and_then(Value::as_object_mut)
}

/// Sets `metadata.<field>`.
pub(crate) fn set(object: &mut Value, field: &str, value: impl Into<Value>) {
    if let Some(metadata) = object
        .as_object_mut()
        .and_then(|map| child(map, "metadata"))
    {
        metadata.insert(field.to_owned(), value.into());
    }
}

/// Removes `metadata.<field>`.
pub(crate) fn unset(object: &mut Value, field: &str) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove(field);
    }
}

/// Replaces the list of finalizers; an empty list is no list.
pub(crate) fn set_finalizers(object: &mut Value, finalizers: Vec<String>) {
    if finalizers.is_empty() {
        unset(object, "finalizers");
    } else {
        set(object, "finalizers", finalizers);
    }
}

/// Sets or removes a top-level field.
pub(crate) fn put(object: &mut Value, field: &str, value: Option<Value>) {
    if let Some(map) = object.as_object_mut() {
        match value {
            Some(value) => map.insert(field.to_owned(), value),
            None => map.remove(field),
        };
    }
}
