//! Uniqueness in lists of type `set` and `map`.
//!
//! Mirrors `apiextensions-apiserver/pkg/apiserver/schema/listtype`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::error::FieldError;
use super::node::{ListType, Schema, SchemaRef};
use super::path::Path;

/// Reports items that appear twice in lists whose items must be unique.
pub fn validate_lists(object: &Value, schema: &Schema) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check(object, schema.root(), &Path::ROOT, &mut errors);
    errors
}

fn check(value: &Value, schema: SchemaRef<'_>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if let Some(additional) = schema.additional() {
                    check(value, additional, &path.key(name), errors);
                }
                if let Some(property) = schema.property(name) {
                    check(value, property, &path.child(name), errors);
                }
            }
        }
        Value::Array(items) => {
            match schema.list_type() {
                Some(ListType::Set) => {
                    for index in repeated(items.iter()) {
                        if let Some(item) = items.get(index) {
                            let place = path.index(index).to_string();
                            errors.push(FieldError::duplicate(place, item.clone()));
                        }
                    }
                }
                Some(ListType::Map) => check_map(items, schema.list_map_keys(), path, errors),
                _ => {}
            }
            if let Some(schema) = schema.items() {
                for (index, item) in items.iter().enumerate() {
                    check(item, schema, &path.index(index), errors);
                }
            }
        }
        _ => {}
    }
}

fn check_map(items: &[Value], keys: &[String], path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if let Some(index) = items
        .iter()
        .position(|item| !item.is_object() && !item.is_null())
    {
        errors.push(FieldError::invalid(
            path.index(index).to_string(),
            items.get(index).cloned().unwrap_or_default(),
            "must be an object for an array of list-type map",
        ));
        return;
    }
    let identities: Vec<Value> = items
        .iter()
        .map(|item| {
            let identity: Map<String, Value> = keys
                .iter()
                .filter_map(|key| Some((key.clone(), item.get(key)?.clone())))
                .collect();
            Value::Object(identity)
        })
        .collect();
    for index in repeated(identities.iter()) {
        if let Some(identity) = identities.get(index) {
            let place = path.index(index).to_string();
            errors.push(FieldError::duplicate(place, identity.clone()));
        }
    }
}

/// The index of each second appearance; a third one is not reported.
fn repeated<'a>(values: impl Iterator<Item = &'a Value>) -> Vec<usize> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut found = Vec::new();
    for (index, value) in values.enumerate() {
        let times = seen.entry(value.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            found.push(index);
        }
    }
    found
}
