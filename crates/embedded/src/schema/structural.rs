//! Accepts or refuses the `openAPIV3Schema` of a CRD, as apiextensions validates it.
//!
//! Three passes over the JSON, in the server's order: structurality, defaults, and the keywords of `OpenAPI` and
//! Kubernetes. Only a schema that passes all three has its CEL rules compiled.

mod defaults;
mod invariants;
mod keywords;

use std::sync::Arc;

use serde_json::Value;

use super::cel::Rules;
use super::document::Document;
use super::error::FieldError;
use super::node::Schema;

impl Schema {
    /// Reads a CRD's `openAPIV3Schema`. `path` is where it stands, for the errors: the real server says
    /// `spec.validation.openAPIV3Schema` if all versions share a schema, else `spec.versions[0].schema.openAPIV3Schema`.
    pub fn structural(schema: &Value, path: &str) -> Result<Self, Vec<FieldError>> {
        let mut errors = invariants::check(schema, path);
        let parsed = Self::read(schema);
        let structural = errors.is_empty();
        if structural {
            errors = defaults::check(&parsed, path);
        }
        let sound = structural && errors.is_empty();
        errors.extend(keywords::check(schema, path));
        if sound && errors.is_empty() {
            errors = Rules::problems(&parsed, schema, path);
        }
        if errors.is_empty() {
            Ok(parsed)
        } else {
            Err(errors)
        }
    }

    /// Reads a schema without judging it.
    pub fn read(schema: &Value) -> Self {
        let (document, root) = Document::read(schema);
        Self::new(Arc::new(document), root)
    }
}

/// A text keyword, or "".
fn text<'a>(schema: &'a Value, key: &str) -> &'a str {
    schema.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn flag(schema: &Value, key: &str) -> bool {
    schema.get(key).and_then(Value::as_bool).unwrap_or(false)
}

fn list<'a>(schema: &'a Value, key: &str) -> &'a [Value] {
    schema
        .get(key)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

fn fields<'a>(schema: &'a Value, key: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    schema
        .get(key)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
}

#[cfg(test)]
mod tests;
