//! Objects as CEL sees them: only what the schema specifies, under escaped names.

use std::collections::HashMap;

use cel::common::types::{
    CelBool, CelBytes, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString,
};
use cel::common::value::Val;
use serde_json::Value;

use super::super::formats::parse_go_duration;
use super::super::node::{Kind, SchemaRef};
use super::escape::escape;
use super::library::time::{Duration, Timestamp};

/// Converts a value. `resource` adds the fields that every resource has.
pub(crate) fn convert(value: &Value, schema: SchemaRef<'_>, resource: bool) -> Box<dyn Val> {
    match value {
        Value::Object(fields) => {
            let resource = resource || schema.embedded_resource();
            let mut map: HashMap<CelMapKey<'static>, Box<dyn Val>> = HashMap::new();
            for (name, value) in fields {
                let meta = resource && matches!(name.as_str(), "apiVersion" | "kind" | "metadata");
                if meta {
                    map.insert(CelMapKey::from(name.clone()), meta_value(name, value));
                } else if let Some(property) = schema.property(name) {
                    if let Some(name) = escape(name) {
                        map.insert(CelMapKey::from(name), convert(value, property, false));
                    }
                } else if let Some(values) = schema.additional() {
                    // Keys of maps are data: they are not escaped.
                    let value = convert(value, values, false);
                    map.insert(CelMapKey::from(name.clone()), value);
                }
            }
            Box::new(CelMap::from(map))
        }
        Value::Array(items) => {
            let items: Vec<Box<dyn Val>> = match schema.items() {
                Some(schema) => items
                    .iter()
                    .map(|item| convert(item, schema, false))
                    .collect(),
                None => items.iter().map(plain).collect(),
            };
            Box::new(CelList::from(items))
        }
        Value::String(text) if schema.kind() == Some(Kind::String) => {
            formatted(text, schema.format()).unwrap_or_else(|| plain(value))
        }
        Value::Number(number) if schema.kind() == Some(Kind::Number) => {
            Box::new(CelDouble::from(number.as_f64().unwrap_or_default()))
        }
        Value::Number(number) if schema.kind() == Some(Kind::Integer) => {
            let whole = number
                .as_i64()
                .or_else(|| number.as_f64().map(super::super::number::truncate));
            Box::new(CelInt::from(whole.unwrap_or_default()))
        }
        other => plain(other),
    }
}

fn meta_value(name: &str, value: &Value) -> Box<dyn Val> {
    if name != "metadata" {
        return plain(value);
    }
    let mut map: HashMap<CelMapKey<'static>, Box<dyn Val>> = HashMap::new();
    for key in ["name", "generateName"] {
        if let Some(value) = value.get(key) {
            map.insert(CelMapKey::from(key.to_owned()), plain(value));
        }
    }
    Box::new(CelMap::from(map))
}

fn formatted(text: &str, format: Option<&str>) -> Option<Box<dyn Val>> {
    Some(match format? {
        "duration" => Box::new(Duration(parse_go_duration(text)?)),
        "date-time" => Box::new(Timestamp(text.parse().ok()?)),
        "date" => {
            let date: jiff::civil::Date = text.parse().ok()?;
            let zoned = date.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
            Box::new(Timestamp(zoned.timestamp()))
        }
        "byte" => Box::new(CelBytes::from(super::library::decode_base64(text)?)),
        _ => return None,
    })
}

/// Converts a value that has no schema.
pub(crate) fn plain(value: &Value) -> Box<dyn Val> {
    match value {
        Value::Null => Box::new(CelNull),
        Value::Bool(flag) => Box::new(CelBool::from(*flag)),
        Value::String(text) => Box::new(CelString::from(text.clone())),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => Box::new(CelInt::from(whole)),
            None => Box::new(CelDouble::from(number.as_f64().unwrap_or_default())),
        },
        Value::Array(items) => {
            let items: Vec<Box<dyn Val>> = items.iter().map(plain).collect();
            Box::new(CelList::from(items))
        }
        Value::Object(fields) => {
            let map: HashMap<CelMapKey<'static>, Box<dyn Val>> = fields
                .iter()
                .map(|(name, value)| (CelMapKey::from(name.clone()), plain(value)))
                .collect();
            Box::new(CelMap::from(map))
        }
    }
}
