//! Refuses configurations that do not fit their schema, in the words of `structured-merge-diff`.

use serde_json::Value;

use super::element::Element;
use super::typed::{Shape, Type};
use crate::patch::{go_print, go_type};
use crate::schema::Kind;

/// What is wrong with an applied configuration; `None` if nothing is.
pub(super) fn problem(config: &Value, ty: Type<'_>) -> Option<String> {
    let mut found = Vec::new();
    check(config, ty, "", &mut found);
    match found.as_slice() {
        [] => None,
        [only] => Some(only.clone()),
        many => Some(format!("errors:\n  {}", many.join("\n  "))),
    }
}

fn check(value: &Value, ty: Type<'_>, path: &str, found: &mut Vec<String>) {
    let complain = |message: String| match path {
        "" => message,
        path => format!("{path}: {message}"),
    };
    if let Some(message) = mismatch(value, ty) {
        found.push(complain(message));
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let below = format!("{path}.{name}");
                match ty.field(name) {
                    Some((ty, _)) => check(value, ty, &below, found),
                    None => found.push(format!("{below}: field not declared in schema")),
                }
            }
        }
        Value::Array(items) => {
            let keys = match ty.shape(value) {
                Shape::List(keys) => Some(keys),
                _ => None,
            };
            let mut seen: Vec<Element> = Vec::new();
            for (index, item) in items.iter().enumerate() {
                let element = match keys {
                    Some(keys) => match ty.item(keys, item) {
                        Ok(element) => element,
                        Err(message) => {
                            found.push(complain(format!("element {index}: {message}")));
                            return;
                        }
                    },
                    None => Element::Index(i64::try_from(index).unwrap_or_default()),
                };
                if seen.contains(&element) {
                    found.push(complain(format!("duplicate entries for key {element}")));
                }
                check(item, ty.items(), &format!("{path}{element}"), found);
                seen.push(element);
            }
        }
        _ => {}
    }
}

fn mismatch(value: &Value, ty: Type<'_>) -> Option<String> {
    let Type::Known { schema, .. } = ty else {
        return None;
    };
    let kind = schema.kind()?;
    let fits = match (kind, value) {
        (_, Value::Null) => true,
        (Kind::Object, value) => value.is_object(),
        (Kind::Array, value) => value.is_array(),
        (Kind::Integer | Kind::Number, value) => value.is_number(),
        (Kind::Boolean, value) => value.is_boolean(),
        (Kind::String, value) => match schema.format() {
            None | Some("byte") => value.is_string(),
            Some(_) => !value.is_object() && !value.is_array(),
        },
    };
    if fits {
        return None;
    }
    Some(match kind {
        Kind::Object => format!("expected map, got &{{{}}}", go_print(value)),
        Kind::Array => format!("expected list, got &{{{}}}", go_print(value)),
        Kind::Integer | Kind::Number => {
            format!("expected numeric (int or float), got {}", go_type(value))
        }
        Kind::Boolean => format!("expected boolean, got &{{{}}}", go_print(value)),
        Kind::String => format!(
            "expected string, got &value.valueUnstructured{{Value:{}}}",
            match value {
                Value::Array(_) | Value::Object(_) => go_print(value),
                other => other.to_string(),
            }
        ),
    })
}
