//! Structurality: every field that is validated is also specified, with a type, outside of `allOf` and its kin.
//!
//! Mirrors `apiextensions-apiserver/pkg/apiserver/schema/{validation,complete}.go`.

use serde_json::{Value, json};

use super::super::error::FieldError;
use super::super::path::Path;
use super::super::pattern::Pattern;
use super::{fields, flag, list, text};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

pub(super) fn check(schema: &Value, path: &str) -> Vec<FieldError> {
    let root = Path::starting(path);
    let mut errors = Vec::new();
    check_node(schema, Level::Root, &root, &mut errors);
    check_complete(schema, Some(schema), &root, &root, &mut errors);
    errors.sort_by_key(ToString::to_string);
    errors
}

fn check_node(schema: &Value, level: Level, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let at = |key: &str| path.child(key).to_string();
    let kind = text(schema, "type");
    let embedded = flag(schema, "x-kubernetes-embedded-resource");
    let int_or_string = flag(schema, "x-kubernetes-int-or-string");
    let preserves = flag(schema, "x-kubernetes-preserve-unknown-fields");

    match schema.get("items") {
        Some(items) => check_node(items, Level::Item, &path.child("items"), errors),
        None if kind == "array" => {
            errors.push(FieldError::required(at("items"), "must be specified"));
        }
        None => {}
    }
    for (name, property) in fields(schema, "properties") {
        let properties = path.child("properties");
        check_node(property, Level::Field, &properties.key(name), errors);
    }
    if let Some(additional) = schema.get("additionalProperties") {
        if level == Level::Root {
            errors.push(FieldError::forbidden(
                at("additionalProperties"),
                "must not be used at the root",
            ));
        }
        if additional.is_object() {
            let below = path.child("additionalProperties");
            check_node(additional, Level::Field, &below, errors);
        }
    }
    if int_or_string && preserves {
        errors.push(FieldError::invalid(
            at("x-kubernetes-preserve-unknown-fields"),
            true,
            "must be false if x-kubernetes-int-or-string is true",
        ));
    }
    if int_or_string && embedded {
        errors.push(FieldError::invalid(
            at("x-kubernetes-embedded-resource"),
            true,
            "must be false if x-kubernetes-int-or-string is true",
        ));
    }
    let allowed = json!([{"type": "integer"}, {"type": "string"}]);
    let skip_any_of = schema.get("anyOf") == Some(&allowed);
    let skip_first_all_of = list(schema, "allOf")
        .first()
        .is_some_and(|first| first.get("anyOf") == Some(&allowed));
    check_value(schema, skip_any_of, skip_first_all_of, path, errors);
    check_kind(schema, level, path, errors);
    check_resource(schema, level, path, errors);
}

fn check_kind(schema: &Value, level: Level, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let place = || path.child("type").to_string();
    let kind = text(schema, "type");
    let embedded = flag(schema, "x-kubernetes-embedded-resource");
    let untyped = flag(schema, "x-kubernetes-int-or-string")
        || flag(schema, "x-kubernetes-preserve-unknown-fields");
    if embedded && kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if kind.is_empty() {
            FieldError::required(place(), detail)
        } else {
            FieldError::invalid(place(), kind, detail)
        });
    } else if kind.is_empty() && !untyped {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(place(), detail));
    }
    if embedded && schema.get("additionalProperties").is_some() {
        errors.push(FieldError::forbidden(
            path.child("additionalProperties").to_string(),
            "must not be used if x-kubernetes-embedded-resource is set",
        ));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        errors.push(FieldError::invalid(
            place(),
            kind,
            "must be object at the root",
        ));
    }
}

/// `apiVersion`, `kind` and `metadata` of a resource are the server's own.
fn check_resource(schema: &Value, level: Level, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let embedded = flag(schema, "x-kubernetes-embedded-resource");
    let resource = level == Level::Root || embedded;
    let properties = path.child("properties");
    let property = |name: &str| schema.get("properties").and_then(|all| all.get(name));
    if resource {
        for name in ["kind", "apiVersion"] {
            if let Some(found) = property(name)
                && text(found, "type") != "string"
            {
                let place = properties.key(name).child("type").to_string();
                errors.push(FieldError::invalid(
                    place,
                    text(found, "type"),
                    "must be string",
                ));
            }
        }
    }
    if let Some(metadata) = property("metadata") {
        let place = properties.key("metadata");
        let kind = text(metadata, "type");
        if resource && kind != "object" {
            let place = place.child("type").to_string();
            errors.push(FieldError::invalid(place, kind, "must be object"));
        }
        if level == Level::Root && !restricts_names_only(metadata) {
            errors.push(FieldError::forbidden(
                place.to_string(),
                "must not specify anything other than name and generateName, but metadata is implicitly specified",
            ));
        }
    }
    let preserves = flag(schema, "x-kubernetes-preserve-unknown-fields");
    if embedded && !preserves && fields(schema, "properties").next().is_none() {
        errors.push(FieldError::required(
            properties.to_string(),
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
        ));
    }
}

fn restricts_names_only(metadata: &Value) -> bool {
    let keys = metadata.as_object().into_iter().flatten();
    let known = keys
        .map(|(key, _)| key.as_str())
        .all(|key| matches!(key, "type" | "properties" | "default"));
    let names = fields(metadata, "properties")
        .all(|(name, _)| matches!(name.as_str(), "name" | "generateName"));
    known && names
}

fn check_value(
    schema: &Value,
    skip_any_of: bool,
    skip_first_all_of: bool,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    for key in ["anyOf", "allOf", "oneOf"] {
        if key == "anyOf" && skip_any_of {
            continue;
        }
        let below = path.child(key);
        for (index, branch) in list(schema, key).iter().enumerate() {
            let skip = key == "allOf" && index == 0 && skip_first_all_of;
            check_nested(branch, skip, &below.index(index), errors);
        }
    }
    if let Some(not) = schema.get("not") {
        check_nested(not, false, &path.child("not"), errors);
    }
    let pattern = text(schema, "pattern");
    if !pattern.is_empty()
        && let Some(problem) = Pattern::new(pattern).problem()
    {
        errors.push(FieldError::invalid(
            path.child("pattern").to_string(),
            pattern,
            format!("must be a valid regular expression, but isn't: {problem}"),
        ));
    }
}

/// Under `allOf` and its kin only value validations may stand.
fn check_nested(schema: &Value, skip_any_of: bool, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    const EMPTY: &str = "must be empty to be structural";
    const UNDEFINED: &str = "must be undefined to be structural";
    const FALSE: &str = "must be false to be structural";
    const FORBIDDEN: [(&str, &str); 13] = [
        ("type", EMPTY),
        ("additionalProperties", UNDEFINED),
        ("default", UNDEFINED),
        ("title", EMPTY),
        ("description", EMPTY),
        ("nullable", FALSE),
        ("x-kubernetes-preserve-unknown-fields", FALSE),
        ("x-kubernetes-embedded-resource", FALSE),
        ("x-kubernetes-int-or-string", FALSE),
        ("x-kubernetes-list-map-keys", EMPTY),
        ("x-kubernetes-list-type", UNDEFINED),
        ("x-kubernetes-map-type", UNDEFINED),
        ("x-kubernetes-validations", EMPTY),
    ];
    check_value(schema, skip_any_of, false, path, errors);
    if let Some(items) = schema.get("items") {
        check_nested(items, false, &path.child("items"), errors);
    }
    let properties = path.child("properties");
    for (name, property) in fields(schema, "properties") {
        check_nested(property, false, &properties.key(name), errors);
        if name == "metadata" {
            errors.push(FieldError::forbidden(
                properties.key(name).to_string(),
                "must not be specified in a nested context",
            ));
        }
    }
    for (key, detail) in FORBIDDEN {
        let set = match schema.get(key) {
            None | Some(Value::Null | Value::Bool(false)) => false,
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Array(items)) => !items.is_empty(),
            Some(_) => true,
        };
        if set {
            errors.push(FieldError::forbidden(path.child(key).to_string(), detail));
        }
    }
}

/// What a nested schema validates must be specified in the structural one.
fn check_complete(
    nested: &Value,
    structural: Option<&Value>,
    structural_path: &Path<'_>,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    for key in ["allOf", "anyOf", "oneOf"] {
        let below = path.child(key);
        for (index, branch) in list(nested, key).iter().enumerate() {
            let place = below.index(index);
            check_specified(branch, structural, structural_path, &place, errors);
        }
    }
    if let Some(not) = nested.get("not") {
        check_specified(not, structural, structural_path, &path.child("not"), errors);
    }
}

fn check_specified(
    nested: &Value,
    structural: Option<&Value>,
    structural_path: &Path<'_>,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let missing = |place: &Path<'_>, because: &Path<'_>| {
        FieldError::required(
            place.to_string(),
            format!("because it is defined in {because}"),
        )
    };
    let Some(structural) = structural else {
        errors.push(missing(structural_path, path));
        return;
    };
    check_complete(nested, Some(structural), structural_path, path, errors);
    if let Some(items) = nested.get("items") {
        let place = structural_path.child("items");
        let below = path.child("items");
        check_specified(items, structural.get("items"), &place, &below, errors);
    }
    let places = structural_path.child("properties");
    let below = path.child("properties");
    for (name, property) in fields(nested, "properties") {
        let specified = structural.get("properties").and_then(|all| all.get(name));
        if specified.is_some() {
            let (place, below) = (places.key(name), below.key(name));
            check_specified(property, specified, &place, &below, errors);
        } else {
            errors.push(missing(&places.key(name), &below.key(name)));
        }
    }
}
