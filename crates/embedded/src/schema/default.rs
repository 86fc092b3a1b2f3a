//! Fills in the defaults of a structural schema.
//!
//! Mirrors `apiextensions-apiserver/pkg/apiserver/schema/defaulting`. Not for built-in kinds: their `OpenAPI`
//! documents carry Go's zero values as defaults, and the server fills those kinds in by code.

use serde_json::Value;

use super::node::{Schema, SchemaRef};

/// Fills in defaults, recursively; nulls that are not nullable count as missing.
pub fn default(object: &mut Value, schema: &Schema) {
    fill(object, schema.root());
}

/// Removes nulls that are neither nullable nor have a default. The server does so before defaulting.
pub fn prune_nulls(object: &mut Value, schema: &Schema) {
    drop_nulls(object, Some(schema.root()));
}

pub(crate) fn fill(value: &mut Value, schema: SchemaRef<'_>) {
    match value {
        Value::Object(fields) => {
            for (name, property) in schema.properties() {
                let Some(default) = property.default_value() else {
                    continue;
                };
                let missing = fields
                    .get(name)
                    .is_none_or(|value| value.is_null() && !property.nullable());
                if missing {
                    fields.insert(name.to_owned(), default.clone());
                }
            }
            for (name, value) in fields.iter_mut() {
                if let Some(property) = schema.property(name) {
                    fill(value, property);
                } else if let Some(additional) = schema.additional() {
                    fill_null(value, additional);
                    fill(value, additional);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.items() {
                for item in items {
                    fill_null(item, schema);
                    fill(item, schema);
                }
            }
        }
        _ => {}
    }
}

fn fill_null(value: &mut Value, schema: SchemaRef<'_>) {
    if value.is_null()
        && !schema.nullable()
        && let Some(default) = schema.default_value()
    {
        *value = default.clone();
    }
}

fn drop_nulls(value: &mut Value, schema: Option<SchemaRef<'_>>) {
    match value {
        Value::Object(fields) => fields.retain(|name, value| {
            let schema = schema.and_then(|schema| schema.field(name));
            let useless = value.is_null()
                && schema
                    .is_some_and(|schema| !schema.nullable() && schema.default_value().is_none());
            if !useless {
                drop_nulls(value, schema);
            }
            !useless
        }),
        Value::Array(items) => {
            let schema = schema.and_then(SchemaRef::items);
            for item in items {
                drop_nulls(item, schema);
            }
        }
        _ => {}
    }
}
