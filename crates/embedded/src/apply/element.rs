//! One step of a path to a field: `f:name`, `k:{"name":"a"}`, `v:"x"`, `i:3`.

use std::cmp::Ordering;
use std::fmt;

use serde_json::{Map, Value};

use crate::schema::go_float;

/// A step.
#[derive(Clone, Debug)]
pub(super) enum Element {
    /// A field of an object.
    Field(Box<str>),
    /// The item of a keyed list, by its key fields in order of their names.
    Key(Box<[(Box<str>, Value)]>),
    /// The item of a set, by itself.
    Value(Value),
    /// An item by its place; nothing here makes them, but stored entries may hold them.
    Index(i64),
}

impl Element {
    pub(super) fn field(name: &str) -> Self {
        Self::Field(name.into())
    }

    /// Reads the key of a `FieldsV1` object.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        Some(match kind {
            "f" => Self::field(rest),
            "v" => Self::Value(serde_json::from_str(rest).ok()?),
            "i" => Self::Index(rest.parse().ok()?),
            "k" => {
                let fields: Map<String, Value> = serde_json::from_str(rest).ok()?;
                let mut fields: Vec<(Box<str>, Value)> = fields
                    .into_iter()
                    .map(|(name, value)| (name.into_boxed_str(), value))
                    .collect();
                fields.sort_by(|a, b| a.0.cmp(&b.0));
                Self::Key(fields.into())
            }
            _ => return None,
        })
    }

    /// The key of a `FieldsV1` object.
    pub(super) fn serialize(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Value(value) => format!("v:{value}"),
            Self::Index(index) => format!("i:{index}"),
            Self::Key(fields) => {
                let fields: Vec<String> = fields
                    .iter()
                    .map(|(name, value)| format!("{}:{value}", Value::from(&**name)))
                    .collect();
                format!("k:{{{}}}", fields.join(","))
            }
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

/// As conflict messages print it: `.name`, `[name="a"]`, `[="x"]`.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Value(value) => write!(f, "[={}]", show(value)),
            Self::Index(index) => write!(f, "[{index}]"),
            Self::Key(fields) => {
                let fields: Vec<String> = fields
                    .iter()
                    .map(|(name, value)| format!("{name}={}", show(value)))
                    .collect();
                write!(f, "[{}]", fields.join(","))
            }
        }
    }
}

fn show(value: &Value) -> String {
    match value {
        Value::Number(number) if number.is_f64() => go_float(number.as_f64().unwrap_or_default()),
        other => other.to_string(),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            if let (Some(a), Some(b)) = (a.as_i64(), b.as_i64()) {
                return a.cmp(&b);
            }
            let (a, b) = (a.as_f64(), b.as_f64());
            a.unwrap_or_default().total_cmp(&b.unwrap_or_default())
        }
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (a, b) if rank(a) == rank(b) => a.to_string().cmp(&b.to_string()),
        (a, b) => rank(a).cmp(&rank(b)),
    }
}

impl Ord for Element {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Value(a), Self::Value(b)) => compare(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => {
                for ((name, value), (other_name, other)) in a.iter().zip(b.iter()) {
                    let order = name.cmp(other_name).then_with(|| compare(value, other));
                    if order.is_ne() {
                        return order;
                    }
                }
                a.len().cmp(&b.len())
            }
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }
}

impl PartialOrd for Element {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Element {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Element {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_survive_a_round_trip() {
        for text in [
            "f:spec",
            "f:a:b",
            r#"k:{"containerPort":80,"protocol":"TCP"}"#,
            r#"v:"x""#,
            "v:1",
            "i:3",
        ] {
            assert_eq!(Element::parse(text).unwrap().serialize(), text);
        }
        assert!(Element::parse("x:1").is_none());
        assert!(Element::parse(".").is_none());
    }

    #[test]
    fn elements_print_as_in_conflicts() {
        let key = Element::parse(r#"k:{"name":"a","port":80}"#).unwrap();
        assert_eq!(key.to_string(), r#"[name="a",port=80]"#);
        assert_eq!(Element::parse(r#"v:"x""#).unwrap().to_string(), r#"[="x"]"#);
        assert_eq!(Element::field("spec").to_string(), ".spec");
    }
}
