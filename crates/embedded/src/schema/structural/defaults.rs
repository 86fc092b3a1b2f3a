//! Defaults must be valid, and must not hold fields that pruning would remove.
//!
//! Mirrors `apiextensions-apiserver/pkg/apiserver/schema/defaulting/validation.go`.

use super::super::cel::Rules;
use super::super::error::FieldError;
use super::super::node::{Schema, SchemaRef};
use super::super::path::Path;
use super::super::prune::prune_value;
use super::super::validate::validate_value;

pub(super) fn check(schema: &Schema, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_node(schema.root(), &Path::starting(path), &mut errors);
    errors
}

fn check_node(schema: SchemaRef<'_>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if let Some(default) = schema.default_value() {
        let place = path.child("default").to_string();
        let mut pruned = default.clone();
        prune_value(&mut pruned, schema);
        if pruned != *default {
            errors.push(FieldError::invalid(
                place.clone(),
                default.clone(),
                "must not have unknown fields",
            ));
        }
        let mut found = validate_value(default, schema);
        if found.is_empty() {
            found = Rules::check_default(schema, default);
        }
        errors.extend(found.into_iter().map(|mut error| {
            error.field = below(&place, &error.field);
            error
        }));
    }
    if let Some(items) = schema.items() {
        check_node(items, &path.child("items"), errors);
    }
    let properties = path.child("properties");
    for (name, property) in schema.properties() {
        check_node(property, &properties.key(name), errors);
    }
}

fn below(place: &str, field: &str) -> String {
    match field {
        "<nil>" | "" => place.to_owned(),
        field if field.starts_with('[') => format!("{place}{field}"),
        field => format!("{place}.{field}"),
    }
}
