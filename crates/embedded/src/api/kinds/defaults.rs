//! Filling in what an object leaves out.

use serde_json::{Map, Value};

/// Sets a field that is missing or has Go's zero value for text: null or "".
pub(super) fn fill(map: &mut Map<String, Value>, field: &str, value: impl Into<Value>) {
    let missing = map
        .get(field)
        .is_none_or(|found| found.is_null() || found == "");
    if missing {
        map.insert(field.to_owned(), value.into());
    }
}

/// Sets a number that is missing or zero.
pub(super) fn fill_number(map: &mut Map<String, Value>, field: &str, value: i64) {
    let missing = map
        .get(field)
        .is_none_or(|found| found.is_null() || found == 0);
    if missing {
        map.insert(field.to_owned(), value.into());
    }
}

/// The object at `map[field]`, if it is there.
pub(super) fn inner<'a>(
    map: &'a mut Map<String, Value>,
    field: &str,
) -> Option<&'a mut Map<String, Value>> {
    map.get_mut(field).and_then(Value::as_object_mut)
}

/// The objects in the list at `map[field]`.
pub(super) fn items<'a>(
    map: &'a mut Map<String, Value>,
    field: &str,
) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    map.get_mut(field)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
}

/// The spec of an object, made if it is missing.
pub(super) fn spec(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object
        .as_object_mut()
        .and_then(|map| super::super::meta::child(map, "spec"))
}
