//! What happens to an object of a built-in kind when the server reads it into a Go type and writes it out again.
//!
//! Wrong types are refused with the words of Go's JSON decoder; unknown fields fall away and are reported; nulls and
//! empty lists and maps vanish, structures that are not pointers appear, quantities and times become canonical.

use serde_json::{Map, Value};

use super::builtins::Builtins;
use super::formats::parse_go_duration;
use super::node::{GoFacts, Kind, Schema, SchemaRef};
use super::path::Path;
use super::quantity::{BAD_FORMAT, Quantity};
use crate::patch::json_type;

mod duplicates;

pub use duplicates::duplicate_fields;

/// The decoder's complaint, e.g. `json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(pub String);

/// Reads an object as its Go type would; returns the paths of unknown fields, which are removed.
///
/// A Strict request is refused with `strict decoding error: unknown field "a.b", unknown field "c"`.
pub fn decode(object: &mut Value, schema: &Schema) -> Result<Vec<String>, DecodeError> {
    let mut decoder = Decoder::default();
    decoder.walk(object, schema.root(), &Path::ROOT, None)?;
    decoder.unknown.sort();
    Ok(decoder.unknown)
}

/// Reads the metadata of a custom resource, which is typed although the rest is not; paths begin with `metadata`.
pub fn decode_metadata(object: &mut Value) -> Result<Vec<String>, DecodeError> {
    let pod = Builtins::load()
        .ok()
        .and_then(|builtins| builtins.kind("", "v1", "Pod"));
    let (Some(pod), Some(metadata)) = (pod, object.get_mut("metadata")) else {
        return Ok(Vec::new());
    };
    let Some(schema) = pod.root().property("metadata") else {
        return Ok(Vec::new());
    };
    let mut decoder = Decoder::default();
    decoder.fields.push("metadata".to_owned());
    let path = Path::ROOT;
    decoder.walk(metadata, schema, &path.child("metadata"), None)?;
    decoder.unknown.sort();
    Ok(decoder.unknown)
}

/// The paths of fields that the Go type does not have.
pub fn unknown_fields(object: &Value, schema: &Schema) -> Vec<String> {
    let mut unknown = Vec::new();
    find_unknown(object, schema.root(), &Path::ROOT, &mut unknown);
    unknown
}

fn find_unknown(value: &Value, schema: SchemaRef<'_>, path: &Path<'_>, unknown: &mut Vec<String>) {
    match value {
        Value::Object(fields) if schema.has_properties() || schema.has_additional() => {
            for (name, value) in fields {
                let below = path.child(name);
                match schema.field(name) {
                    Some(schema) => find_unknown(value, schema, &below, unknown),
                    None if schema.has_properties() => unknown.push(below.to_string()),
                    None => {}
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.items() {
                for (index, item) in items.iter().enumerate() {
                    find_unknown(item, schema, &path.index(index), unknown);
                }
            }
        }
        _ => {}
    }
}

/// The structure whose field is being read, for Go's error texts.
#[derive(Clone, Copy)]
struct Context<'a> {
    structure: &'a str,
    facts: Option<&'a GoFacts>,
}

#[derive(Default)]
struct Decoder {
    unknown: Vec<String>,
    /// Names of the fields above, without list indices.
    fields: Vec<String>,
}

impl Decoder {
    fn walk(
        &mut self,
        value: &mut Value,
        schema: SchemaRef<'_>,
        path: &Path<'_>,
        context: Option<Context<'_>>,
    ) -> Result<(), DecodeError> {
        if value.is_null() {
            return Ok(());
        }
        if let Some(definition) = schema.definition() {
            match definition.rsplit('.').next() {
                Some("Quantity") => return read_quantity(value),
                Some("IntOrString") => {
                    return match int_or_string_problem(value) {
                        Some(actual) => Err(self.refuse(&actual, "int32", context)),
                        None => Ok(()),
                    };
                }
                Some("Time" | "MicroTime" | "Duration") if !value.is_string() => {
                    return Err(self.refuse(json_type(value), "string", context));
                }
                Some("Time") => return read_time(value, 0),
                Some("MicroTime") => return read_time(value, 6),
                Some("Duration") => return read_duration(value),
                _ => {}
            }
        }
        let Some(kind) = schema.kind() else {
            return Ok(());
        };
        let fits = match (kind, &*value) {
            (Kind::Object, Value::Object(_))
            | (Kind::Array, Value::Array(_))
            | (Kind::String, Value::String(_))
            | (Kind::Boolean, Value::Bool(_))
            | (Kind::Number, Value::Number(_)) => true,
            (Kind::Integer, Value::Number(number)) => number.as_i64().is_some_and(|number| {
                schema.format() != Some("int32") || i32::try_from(number).is_ok()
            }),
            _ => false,
        };
        if !fits {
            return Err(self.mismatch(value, schema, context));
        }
        match value {
            Value::Object(fields) => self.walk_object(fields, schema, path, context),
            Value::Array(items) => {
                if let Some(schema) = schema.items() {
                    for (index, item) in items.iter_mut().enumerate() {
                        self.walk(item, schema, &path.index(index), context)?;
                    }
                }
                Ok(())
            }
            Value::String(text) if schema.format() == Some("byte") => check_base64(text),
            _ => Ok(()),
        }
    }

    fn walk_object(
        &mut self,
        fields: &mut Map<String, Value>,
        schema: SchemaRef<'_>,
        path: &Path<'_>,
        context: Option<Context<'_>>,
    ) -> Result<(), DecodeError> {
        if let Some(values) = schema.additional() {
            for (name, value) in fields.iter_mut() {
                self.walk(value, values, &path.child(name), context)?;
                // A null in a Go map of values is that type's zero.
                if value.is_null() {
                    *value = zero(values);
                }
            }
            return Ok(());
        }
        if !schema.has_properties() {
            return Ok(());
        }
        let structure = schema
            .definition()
            .and_then(|name| name.rsplit('.').next())
            .unwrap_or_default();
        let facts = schema.go_facts();
        let inner = Some(Context { structure, facts });
        let zeroes = facts.map(|facts| facts.zero.as_slice()).unwrap_or_default();
        let required = schema.limits().map(|limits| limits.required.as_slice());
        let required = required.unwrap_or_default();
        let names: Vec<String> = fields.keys().cloned().collect();
        for name in names {
            let below = path.child(&name);
            let Some(property) = schema.property(&name) else {
                self.unknown.push(below.to_string());
                fields.remove(&name);
                continue;
            };
            let Some(value) = fields.get_mut(&name) else {
                continue;
            };
            self.fields.push(name.clone());
            self.walk(value, property, &below, inner)?;
            self.fields.pop();
            let empty = match &*value {
                Value::Null => true,
                Value::Array(items) => items.is_empty(),
                Value::Object(fields) => fields.is_empty() && property.has_additional(),
                scalar => *scalar == zero(property) && zeroes.contains(&name),
            };
            if empty && !required.contains(&name) {
                fields.remove(&name);
            }
        }
        fill_structures(fields, schema);
        Ok(())
    }

    fn mismatch(
        &self,
        value: &Value,
        schema: SchemaRef<'_>,
        context: Option<Context<'_>>,
    ) -> DecodeError {
        let actual = match value {
            Value::Number(number) if schema.kind() == Some(Kind::Integer) => {
                format!("number {number}")
            }
            other => json_type(other).to_owned(),
        };
        let named = context
            .and_then(|context| context.facts)
            .zip(self.fields.last())
            .and_then(|(facts, field)| facts.names.get(field))
            .filter(|_| schema.definition().is_none());
        match named {
            Some(name) => self.refuse(&actual, name, context),
            None => self.refuse(&actual, &go_type_name(schema), context),
        }
    }

    fn refuse(&self, actual: &str, expected: &str, context: Option<Context<'_>>) -> DecodeError {
        DecodeError(match context {
            Some(context) => format!(
                "json: cannot unmarshal {actual} into Go struct field {}.{} of type {expected}",
                context.structure,
                self.fields.join(".")
            ),
            None => format!("json: cannot unmarshal {actual} into Go value of type {expected}"),
        })
    }
}

/// Adds what a Go type writes even when it is empty: structures held by value, and required scalars.
fn fill_structures(fields: &mut Map<String, Value>, schema: SchemaRef<'_>) {
    let required = schema.limits().map(|limits| limits.required.as_slice());
    let required = required.unwrap_or_default();
    for (name, property) in schema.properties() {
        let Some(default) = property.default_value() else {
            continue;
        };
        if fields.contains_key(name) {
            continue;
        }
        let by_value = default.as_object().is_some_and(Map::is_empty) && property.has_properties();
        if by_value {
            let mut inner = Map::new();
            fill_structures(&mut inner, property);
            fields.insert(name.to_owned(), Value::Object(inner));
        } else if required.iter().any(|other| other == name) && *default == zero(property) {
            fields.insert(name.to_owned(), default.clone());
        }
    }
}

/// An object of a built-in kind with nothing in it: required lists and maps are there, as null.
pub(crate) fn empty_object(schema: SchemaRef<'_>) -> Map<String, Value> {
    let mut fields = Map::new();
    fill_structures(&mut fields, schema);
    add_nulls(&mut fields, schema);
    fields
}

fn add_nulls(fields: &mut Map<String, Value>, schema: SchemaRef<'_>) {
    let required = schema.limits().map(|limits| limits.required.as_slice());
    for name in required.unwrap_or_default() {
        let collection = schema.property(name).is_some_and(|property| {
            property.kind() == Some(Kind::Array) || property.has_additional()
        });
        if collection && !fields.contains_key(name) {
            fields.insert(name.clone(), Value::Null);
        }
    }
    for (name, value) in fields {
        if let (Value::Object(inner), Some(property)) = (value, schema.property(name)) {
            add_nulls(inner, property);
        }
    }
}

fn zero(schema: SchemaRef<'_>) -> Value {
    match schema.kind() {
        Some(Kind::String) => "".into(),
        Some(Kind::Integer | Kind::Number) => 0.into(),
        Some(Kind::Boolean) => false.into(),
        _ => Value::Null,
    }
}

fn go_type_name(schema: SchemaRef<'_>) -> String {
    if let Some(definition) = schema.definition() {
        let mut parts = definition.rsplit('.');
        let name = parts.next().unwrap_or_default();
        let package = parts.next().unwrap_or_default();
        return format!("{package}.{name}");
    }
    match schema.kind() {
        Some(Kind::String) if schema.format() == Some("byte") => "[]uint8".to_owned(),
        Some(Kind::String) => "string".to_owned(),
        Some(Kind::Boolean) => "bool".to_owned(),
        Some(Kind::Integer) => schema.format().unwrap_or("int").to_owned(),
        Some(Kind::Number) => "float64".to_owned(),
        Some(Kind::Array) => {
            let items = schema.items().map(go_type_name).unwrap_or_default();
            format!("[]{items}")
        }
        Some(Kind::Object) => match schema.additional() {
            Some(values) => format!("map[string]{}", go_type_name(values)),
            None => "map[string]interface {}".to_owned(),
        },
        None => "interface {}".to_owned(),
    }
}

fn read_quantity(value: &mut Value) -> Result<(), DecodeError> {
    let text = match &*value {
        Value::String(text) => text.trim().to_owned(),
        other => other.to_string(),
    };
    // An empty text is the zero quantity for the decoder.
    let canonical = if text.is_empty() {
        "0".to_owned()
    } else {
        let bad = || DecodeError(BAD_FORMAT.to_owned());
        Quantity::parse(&text).ok_or_else(bad)?.canonical()
    };
    *value = Value::String(canonical);
    Ok(())
}

/// What stands where a number or a text is wanted, if it is neither.
fn int_or_string_problem(value: &Value) -> Option<String> {
    match value {
        Value::String(_) => None,
        Value::Number(number) => {
            let fits = number.as_i64().is_some_and(|n| i32::try_from(n).is_ok());
            (!fits).then(|| format!("number {number}"))
        }
        other => Some(json_type(other).to_owned()),
    }
}

fn read_time(value: &mut Value, precision: usize) -> Result<(), DecodeError> {
    let Value::String(text) = value else {
        return Ok(());
    };
    let layout = if precision == 0 {
        "2006-01-02T15:04:05Z07:00"
    } else {
        "2006-01-02T15:04:05.000000Z07:00"
    };
    let time: jiff::Timestamp = text.parse().map_err(|_| {
        DecodeError(format!(
            "parsing time \"{text}\" as \"{layout}\": cannot parse \"{text}\" as \"2006\""
        ))
    })?;
    *text = if precision == 0 {
        time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    } else {
        time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
    };
    Ok(())
}

fn read_duration(value: &Value) -> Result<(), DecodeError> {
    let Value::String(text) = value else {
        return Ok(());
    };
    match parse_go_duration(text) {
        Some(_) => Ok(()),
        None => Err(DecodeError(format!(
            "time: invalid duration {}",
            super::error::quote(text)
        ))),
    }
}

fn check_base64(text: &str) -> Result<(), DecodeError> {
    let bad = |at: usize| DecodeError(format!("illegal base64 data at input byte {at}"));
    let body = text.trim_end_matches('=');
    let alphabet = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'\n' | b'\r');
    if let Some(at) = body.bytes().position(|b| !alphabet(b)) {
        return Err(bad(at));
    }
    let padding = text.len() - body.len();
    if padding > 2 || !text.len().is_multiple_of(4) || body.len() % 4 == 1 {
        return Err(bad(text.len() / 4 * 4));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
