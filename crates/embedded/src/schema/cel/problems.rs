//! What the server has against the rules of a CRD.

use serde_json::Value;

use super::super::error::FieldError;
use super::super::node::{ListType, MapType, Schema, SchemaRef};
use super::super::path::Path;
use super::rule::{Compiled, compile_error};

pub(super) fn find(schema: &Schema, _json: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let root = Path::starting(path);
    walk(schema.root(), true, None, &root, &mut errors);
    errors
}

/// `uncorrelated` is the highest place below which an old value cannot be found.
fn walk(
    schema: SchemaRef<'_>,
    resource: bool,
    uncorrelated: Option<&str>,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let resource = resource || schema.embedded_resource();
    if let Some(values) = schema.additional() {
        let below = path.child("additionalProperties");
        walk(values, false, uncorrelated, &below, errors);
    }
    let here = path.to_string();
    let properties = path.child("properties");
    for (name, property) in schema.properties() {
        let atomic = schema.map_type() == Some(MapType::Atomic);
        let uncorrelated = uncorrelated.or_else(|| atomic.then_some(here.as_str()));
        walk(property, false, uncorrelated, &properties.key(name), errors);
    }
    if let Some(items) = schema.items() {
        let keyed = schema.list_type() == Some(ListType::Map);
        let uncorrelated = uncorrelated.or_else(|| (!keyed).then_some(here.as_str()));
        walk(items, false, uncorrelated, &path.child("items"), errors);
    }
    let rules = path.child("x-kubernetes-validations");
    for (index, rule) in schema.rules().iter().enumerate() {
        let place = rules.index(index);
        let at = |key: &str| place.child(key).to_string();
        let compiled = Compiled::new(rule, schema, resource);
        if let Some(problem) = compiled.rule_problem() {
            errors.push(compile_error(at("rule"), rule, problem));
        }
        if let Some(problem) = compiled.message_problem() {
            errors.push(compile_error(at("messageExpression"), rule, problem));
        }
        if compiled.uses_old_self {
            if let Some(uncorrelated) = uncorrelated {
                errors.push(FieldError::invalid(
                    at("rule"),
                    rule.expression.as_str(),
                    format!(
                        "oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelated}"
                    ),
                ));
            }
        } else if let Some(optional) = rule.optional_old_self {
            errors.push(FieldError::invalid(
                at("optionalOldSelf"),
                optional,
                "may not be set if oldSelf is not used in rule",
            ));
        }
    }
}
