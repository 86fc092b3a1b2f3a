//! From derived CRDs to the CRDs that are shipped.
//!
//! What the derive prints differs from what Kubernetes users know: optional fields are nullable, the type and version
//! of the object are missing, comments are wrapped as in the source. This module irons that out, so that our CRDs are,
//! descriptions aside, the schemas that the originals have (`tests/wire` proves it).

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::{Map, Value, json};

/// The CRD of a kind as it is shipped.
pub(crate) fn shipped<K: CustomResourceExt>() -> CustomResourceDefinition {
    let derived = K::crd();
    let Ok(mut crd) = serde_json::to_value(&derived) else {
        return derived;
    };
    crd["spec"]["names"]["listKind"] = format!("{}List", derived.spec.names.kind).into();
    let versions = crd["spec"]["versions"].as_array_mut();
    for version in versions.into_iter().flatten() {
        let schema = &mut version["schema"]["openAPIV3Schema"];
        tidy(schema);
        add_type_meta(schema);
        tidy_columns(version);
    }
    serde_json::from_value(crd).unwrap_or(derived)
}

/// Makes a schema, and all in it, what controller-gen would have printed.
fn tidy(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    if let Some(Value::Array(choices)) = object.get("anyOf")
        && let [some, none] = choices.as_slice()
        && none.get("enum") == Some(&json!([null]))
        && let Value::Object(some) = some.clone()
    {
        object.remove("anyOf");
        for (key, value) in some {
            object.entry(key).or_insert(value);
        }
    }
    object.remove("nullable");
    if object.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        object.remove("type");
        object.insert(
            "anyOf".to_owned(),
            json!([{ "type": "integer" }, { "type": "string" }]),
        );
    }
    object.remove("title");
    // An absent list and an empty one are the same to us, and an absent object is not an empty one.
    if matches!(object.get("default"), Some(default) if is_empty(default)) {
        object.remove("default");
    }
    if let Some(Value::Array(values)) = object.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::String(description)) = object.get_mut("description") {
        *description = unwrap_lines(description);
    }
    for key in ["properties", "patternProperties"] {
        if let Some(Value::Object(fields)) = object.get_mut(key) {
            fields.values_mut().for_each(tidy);
        }
    }
    for key in ["items", "additionalProperties", "not"] {
        if let Some(inner) = object.get_mut(key) {
            tidy(inner);
        }
    }
    for key in ["anyOf", "allOf", "oneOf"] {
        if let Some(Value::Array(inner)) = object.get_mut(key) {
            inner.iter_mut().for_each(tidy);
        }
    }
}

fn is_empty(default: &Value) -> bool {
    match default {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// One line a paragraph: how a comment is wrapped in the source is nobody's business.
fn unwrap_lines(text: &str) -> String {
    text.split("\n\n")
        .map(|paragraph| {
            paragraph
                .split('\n')
                .map(str::trim)
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect::<Vec<_>>()
        .join("\n\n")
}

fn add_type_meta(schema: &mut Value) {
    let Some(Value::Object(properties)) = schema.get_mut("properties") else {
        return;
    };
    let mut add = |key: &str, schema: Value| {
        properties.insert(key.to_owned(), schema);
    };
    add(
        "apiVersion",
        json!({ "type": "string", "description": "API group and version of the object." }),
    );
    add(
        "kind",
        json!({ "type": "string", "description": "Kind of the object." }),
    );
    add("metadata", json!({ "type": "object" }));
}

/// Drops what says nothing: a priority of zero.
fn tidy_columns(version: &mut Value) {
    let columns = version
        .get_mut("additionalPrinterColumns")
        .and_then(Value::as_array_mut);
    for column in columns
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
    {
        if column.get("priority") == Some(&json!(0)) {
            column.remove("priority");
        }
    }
}

/// The parts of a CRD that decide what is accepted and shown, without any prose: descriptions, and the annotations
/// and labels that packagers add.
///
/// Two CRDs with equal structures are the same to every client.
pub fn structure(crd: &Value) -> Value {
    let mut spec = crd["spec"].clone();
    strip(&mut spec);
    let mut structure = Map::new();
    structure.insert("name".to_owned(), crd["metadata"]["name"].clone());
    structure.insert("spec".to_owned(), spec);
    Value::Object(structure)
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(object) => {
            // A field may be called `description`: only prose is text.
            if object.get("description").is_some_and(Value::is_string) {
                object.remove("description");
            }
            if let Some(Value::Array(names)) = object.get_mut("required") {
                names.sort_by_key(ToString::to_string);
            }
            object.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        number @ Value::Number(_) => *number = whole(number),
        _ => {}
    }
}

/// `1` for `1.0`: bounds are floating-point numbers in the types, and nobody writes them so.
#[expect(
    clippy::cast_possible_truncation,
    reason = "checked to be whole and small"
)]
pub(crate) fn whole(number: &Value) -> Value {
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 1e15 => {
            Value::from(float as i64)
        }
        _ => number.clone(),
    }
}
