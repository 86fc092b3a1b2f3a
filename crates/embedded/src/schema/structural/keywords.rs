//! The keywords of `OpenAPI` that CRDs may not use, and the rules of the `x-kubernetes-*` ones.
//!
//! Mirrors `ValidateCustomResourceDefinitionOpenAPISchema` of
//! `apiextensions-apiserver/pkg/apis/apiextensions/validation`.

use serde_json::Value;

use super::super::cel::field_path;
use super::super::error::FieldError;
use super::super::node::Schema;
use super::super::path::Path;
use super::{fields, flag, list, text};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const REASONS: [&str; 4] = [
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

pub(super) fn check(schema: &Value, path: &str) -> Vec<FieldError> {
    let root = Path::starting(path);
    let mut errors = Vec::new();
    if flag(schema, "nullable") {
        errors.push(FieldError::forbidden(
            root.child("nullable").to_string(),
            "nullable cannot be true at the root",
        ));
    }
    let position = Position {
        root: true,
        in_meta: false,
        no_defaults: None,
    };
    check_node(schema, &position, &root, &mut errors);
    errors
}

#[derive(Clone)]
struct Position {
    root: bool,
    in_meta: bool,
    /// Why defaults are not allowed here.
    no_defaults: Option<String>,
}

fn check_node(schema: &Value, position: &Position, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    check_openapi(schema, position, path, errors);
    let below = Position {
        root: false,
        ..position.clone()
    };
    if let Some(additional) = schema.get("additionalProperties") {
        let place = path.child("additionalProperties");
        let exclusive = additional.is_object() || additional == &Value::Bool(false);
        if exclusive && fields(schema, "properties").next().is_some() {
            errors.push(FieldError::forbidden(
                place.to_string(),
                "additionalProperties and properties are mutual exclusive",
            ));
        }
        if additional.is_object() {
            let mut below = below.clone();
            if position.in_meta {
                below.no_defaults =
                    Some("inside additionalProperties applying to object metadata".to_owned());
            }
            check_node(additional, &below, &place, errors);
        }
    }
    let properties = path.child("properties");
    for (name, property) in fields(schema, "properties") {
        let mut below = below.clone();
        let resource = position.root || flag(schema, "x-kubernetes-embedded-resource");
        if resource && super::super::prune::is_meta(name) {
            below.in_meta = true;
            if position.root {
                below.no_defaults = Some(format!("in top-level {name}"));
            }
        }
        check_node(property, &below, &properties.key(name), errors);
    }
    if let Some(not) = schema.get("not") {
        check_node(not, &below, &path.child("not"), errors);
    }
    for key in ["allOf", "oneOf", "anyOf"] {
        let place = path.child(key);
        for (index, branch) in list(schema, key).iter().enumerate() {
            check_node(branch, &below, &place.index(index), errors);
        }
    }
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        check_node(items, &below, &path.child("items"), errors);
    }
    check_extensions(schema, path, errors);
    check_rules(schema, path, errors);
}

fn check_openapi(
    schema: &Value,
    position: &Position,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    const UNSUPPORTED: [&str; 6] = [
        "id",
        "additionalItems",
        "patternProperties",
        "definitions",
        "dependencies",
        "$ref",
    ];
    let at = |key: &str| path.child(key).to_string();
    let kind = text(schema, "type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(at("type"), kind, &TYPES));
    }
    if schema.get("default").is_some_and(|value| !value.is_null())
        && let Some(reason) = &position.no_defaults
    {
        let detail = format!("must not be set {reason}");
        errors.push(FieldError::forbidden(at("default"), detail));
    }
    for key in UNSUPPORTED {
        if schema.get(key).is_some() {
            let detail = format!("{key} is not supported");
            errors.push(FieldError::forbidden(at(key), detail));
        }
    }
    if kind == "null" {
        errors.push(FieldError::forbidden(
            at("type"),
            "type cannot be set to null, use nullable as an alternative",
        ));
    }
    if schema.get("items").is_some_and(Value::is_array) {
        errors.push(FieldError::forbidden(
            at("items"),
            "items must be a schema object and not an array",
        ));
    }
    if position.in_meta && flag(schema, "x-kubernetes-embedded-resource") {
        errors.push(FieldError::forbidden(
            at("x-kubernetes-embedded-resource"),
            "must not be used inside of resource meta",
        ));
    }
    if flag(schema, "uniqueItems") {
        errors.push(FieldError::forbidden(
            at("uniqueItems"),
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ));
    }
}

fn check_extensions(schema: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
    const MAP_TYPE: &str = "x-kubernetes-map-type";
    const LIST_TYPE: &str = "x-kubernetes-list-type";
    let at = |key: &str| path.child(key).to_string();
    let kind = text(schema, "type");
    let needs = |key: &str, wanted: &str| {
        let detail = format!("must be {wanted} if {key} is specified");
        if kind.is_empty() {
            FieldError::required(at("type"), detail)
        } else {
            FieldError::invalid(at("type"), kind, detail)
        }
    };
    if schema.get(PRESERVE) == Some(&Value::Bool(false)) {
        errors.push(FieldError::invalid(
            at(PRESERVE),
            false,
            "must be true or undefined",
        ));
    }
    if let Some(map_type) = schema.get(MAP_TYPE).and_then(Value::as_str) {
        if kind != "object" {
            errors.push(needs(MAP_TYPE, "object"));
        }
        if !matches!(map_type, "atomic" | "granular") {
            errors.push(FieldError::not_supported(
                at(MAP_TYPE),
                map_type,
                &["atomic", "granular"],
            ));
        }
    }
    let list_type = schema.get(LIST_TYPE).and_then(Value::as_str);
    if let Some(list_type) = list_type {
        if kind != "array" {
            errors.push(needs(LIST_TYPE, "array"));
        } else if list_type == "set" {
            check_set_items(schema, path, errors);
        }
        if !matches!(list_type, "atomic" | "set" | "map") {
            errors.push(FieldError::not_supported(
                at(LIST_TYPE),
                list_type,
                &["atomic", "set", "map"],
            ));
        }
    }
    if !list(schema, "x-kubernetes-list-map-keys").is_empty() && list_type != Some("map") {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        errors.push(match list_type {
            None => FieldError::required(at(LIST_TYPE), detail),
            Some(other) => FieldError::invalid(at(LIST_TYPE), other, detail),
        });
    }
    if list_type == Some("map") {
        check_map_keys(schema, path, errors);
    }
    if let Some(list_type) = list_type.filter(|name| matches!(*name, "set" | "map"))
        && let Some(items) = schema.get("items").filter(|items| items.is_object())
    {
        check_item_nulls(schema, items, list_type, path, errors);
    }
}

fn check_set_items(schema: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    const DETAIL: &str = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let Some(items) = schema.get("items") else {
        return;
    };
    let (key, wrong) = match text(items, "type") {
        "array" => (
            "x-kubernetes-list-type",
            !matches!(text(items, "x-kubernetes-list-type"), "" | "atomic"),
        ),
        "object" => (
            "x-kubernetes-map-type",
            text(items, "x-kubernetes-map-type") != "atomic",
        ),
        _ => return,
    };
    if wrong {
        let place = path.child("items").child(key).to_string();
        let value = items
            .get("x-kubernetes-list-type")
            .cloned()
            .unwrap_or_default();
        errors.push(FieldError::invalid(place, value, DETAIL));
    }
}

fn check_map_keys(schema: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    const KEYS: &str = "x-kubernetes-list-map-keys";
    let at = |key: &str| path.child(key).to_string();
    let keys = list(schema, KEYS);
    if keys.is_empty() {
        errors.push(FieldError::required(
            at(KEYS),
            "must not be empty if x-kubernetes-list-type is map",
        ));
    }
    let Some(items) = schema.get("items").filter(|items| items.is_object()) else {
        if schema.get("items").is_none() {
            errors.push(FieldError::required(
                at("items"),
                "must have a schema if x-kubernetes-list-type is map",
            ));
        }
        return;
    };
    let place = path.child("items");
    let kind = text(items, "type");
    if kind != "object" {
        errors.push(FieldError::invalid(
            place.child("type").to_string(),
            kind,
            "must be object if parent array's x-kubernetes-list-type is map",
        ));
        return;
    }
    for (index, key) in keys.iter().enumerate() {
        let name = key.as_str().unwrap_or_default();
        let all = || Value::from(keys.to_vec());
        match items.get("properties").and_then(|all| all.get(name)) {
            Some(property) if matches!(text(property, "type"), "array" | "object") => {
                let properties = place.child("properties");
                errors.push(FieldError::invalid(
                    properties.key(name).child("type").to_string(),
                    kind,
                    "must be a scalar type if parent array's x-kubernetes-list-type is map",
                ));
            }
            Some(_) => {}
            None => errors.push(FieldError::invalid(
                at(KEYS),
                all(),
                "entries must all be names of item properties",
            )),
        }
        if keys.iter().take(index).any(|other| other == key) {
            errors.push(FieldError::invalid(
                at(KEYS),
                all(),
                "must not contain duplicate entries",
            ));
        }
    }
}

fn check_item_nulls(
    schema: &Value,
    items: &Value,
    list_type: &str,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let place = path.child("items");
    if flag(items, "nullable") {
        errors.push(FieldError::forbidden(
            place.child("nullable").to_string(),
            format!("cannot be nullable when x-kubernetes-list-type is {list_type}"),
        ));
    }
    if list_type != "map" {
        return;
    }
    let properties = place.child("properties");
    for key in list(schema, "x-kubernetes-list-map-keys") {
        let name = key.as_str().unwrap_or_default();
        let Some(property) = items.get("properties").and_then(|all| all.get(name)) else {
            continue;
        };
        let required = list(items, "required").contains(key);
        if !required && property.get("default").is_none() {
            errors.push(FieldError::required(
                properties.key(name).child("default").to_string(),
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            ));
        }
        if flag(property, "nullable") {
            errors.push(FieldError::forbidden(
                properties.key(name).child("nullable").to_string(),
                "this property is in x-kubernetes-list-map-keys, so it cannot be nullable",
            ));
        }
    }
}

fn check_rules(schema: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let rules = path.child("x-kubernetes-validations");
    let broken = |text: &str| text.contains(['\n', '\r']);
    for (index, rule) in list(schema, "x-kubernetes-validations").iter().enumerate() {
        let place = rules.index(index);
        let at = |key: &str| place.child(key).to_string();
        let (expression, message) = (text(rule, "rule"), text(rule, "message"));
        if expression.trim().is_empty() {
            errors.push(FieldError::required(at("rule"), "rule is not specified"));
        } else if !message.is_empty() && message.trim().is_empty() {
            errors.push(FieldError::invalid(
                at("message"),
                message,
                "must be non-empty if specified",
            ));
        } else if broken(message.trim()) {
            errors.push(FieldError::invalid(
                at("message"),
                message,
                "must not contain line breaks",
            ));
        } else if broken(expression.trim()) && message.is_empty() {
            errors.push(FieldError::required(
                at("message"),
                "message must be specified if rule contains line breaks",
            ));
        }
        let expression = text(rule, "messageExpression");
        if !expression.is_empty() && expression.trim().is_empty() {
            errors.push(FieldError::required(
                at("messageExpression"),
                "messageExpression must be non-empty if specified",
            ));
        }
        let reason = text(rule, "reason");
        if !reason.is_empty() && !REASONS.contains(&reason) {
            errors.push(FieldError::not_supported(at("reason"), reason, &REASONS));
        }
        let below = text(rule, "fieldPath");
        if below.is_empty() {
            continue;
        }
        if below.trim().is_empty() {
            let detail = "must be non-empty if specified";
            errors.push(FieldError::invalid(at("fieldPath"), below, detail));
        }
        if broken(below) {
            let detail = "must not contain line breaks";
            errors.push(FieldError::invalid(at("fieldPath"), below, detail));
        }
        if field_path::resolve(below, Schema::read(schema).root()).is_none() {
            errors.push(FieldError::invalid(
                at("fieldPath"),
                below,
                "must be a valid path",
            ));
        }
    }
}
