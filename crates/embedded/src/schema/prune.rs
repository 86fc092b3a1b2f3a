//! Drops fields that a structural schema does not know.
//!
//! Mirrors `apiextensions-apiserver/pkg/apiserver/schema/pruning`.

use serde_json::Value;

use super::node::{Schema, SchemaRef};
use super::path::Path;

/// Removes unknown fields from a whole resource; returns the paths of what was removed, sorted.
///
/// `apiVersion`, `kind` and `metadata` of the root (and of embedded resources) are not this function's concern.
pub fn prune(object: &mut Value, schema: &Schema) -> Vec<String> {
    let mut removed = Vec::new();
    let root = schema.root();
    if root.preserves_unknown() {
        keep(object, root, true, &Path::ROOT, &mut removed);
    } else {
        drop_unknown(object, Some(root), true, &Path::ROOT, &mut removed);
    }
    removed.sort();
    removed
}

/// Prunes a value that is not a resource root, e.g. a default.
pub(crate) fn prune_value(value: &mut Value, schema: SchemaRef<'_>) {
    walk(value, Some(schema), &Path::ROOT, &mut Vec::new());
}

pub(crate) fn is_meta(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

fn walk(
    value: &mut Value,
    schema: Option<SchemaRef<'_>>,
    path: &Path<'_>,
    removed: &mut Vec<String>,
) {
    match schema {
        Some(schema) if schema.preserves_unknown() => {
            keep(value, schema, schema.embedded_resource(), path, removed);
        }
        schema => {
            let resource = schema.is_some_and(SchemaRef::embedded_resource);
            drop_unknown(value, schema, resource, path, removed);
        }
    }
}

fn drop_unknown(
    value: &mut Value,
    schema: Option<SchemaRef<'_>>,
    resource: bool,
    path: &Path<'_>,
    removed: &mut Vec<String>,
) {
    match value {
        Value::Object(fields) => fields.retain(|name, value| {
            if resource && is_meta(name) {
                return true;
            }
            let below = path.child(name);
            if let Some(schema) = schema {
                if let Some(property) = schema.property(name) {
                    walk(value, Some(property), &below, removed);
                    return true;
                }
                if schema.has_additional() {
                    walk(value, schema.additional(), &below, removed);
                    return true;
                }
            }
            removed.push(below.to_string());
            false
        }),
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                let schema = schema.and_then(SchemaRef::items);
                walk(item, schema, &path.index(index), removed);
            }
        }
        _ => {}
    }
}

/// Under preserve-unknown-fields only what is specified is looked into.
fn keep(
    value: &mut Value,
    schema: SchemaRef<'_>,
    resource: bool,
    path: &Path<'_>,
    removed: &mut Vec<String>,
) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if resource && is_meta(name) {
                    continue;
                }
                let below = path.child(name);
                if let Some(property) = schema.property(name) {
                    walk(value, Some(property), &below, removed);
                } else if schema.has_additional() {
                    walk(value, schema.additional(), &below, removed);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = schema.items() else { return };
            for (index, item) in items.iter_mut().enumerate() {
                keep(
                    item,
                    schema,
                    schema.embedded_resource(),
                    &path.index(index),
                    removed,
                );
            }
        }
        _ => {}
    }
}
