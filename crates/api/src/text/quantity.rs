//! Quantities: `500m`, `1.5Gi`, or a bare integer.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use joiner_core::quantity::{self, QuantityError};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Resources by name.
pub type ResourceList = BTreeMap<String, Quantity>;

/// An amount of something, written as text (`500m`, `1.5Gi`) or as a bare integer; written back the same way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Quantity {
    /// A bare integer.
    Number(i64),
    /// A number with an optional suffix.
    Text(String),
}

impl Quantity {
    /// In whole units, rounded up as Kubernetes does.
    pub fn units(&self) -> Result<i64, QuantityError> {
        match self {
            Quantity::Number(number) => Ok(*number),
            Quantity::Text(text) => quantity::parse(text),
        }
    }

    /// In thousandths of a unit, rounded up as Kubernetes does.
    pub fn milli(&self) -> Result<i64, QuantityError> {
        match self {
            Quantity::Number(number) => number
                .checked_mul(1000)
                .ok_or_else(|| QuantityError::TooLarge(number.to_string())),
            Quantity::Text(text) => quantity::parse_milli(text),
        }
    }
}

impl From<&str> for Quantity {
    fn from(text: &str) -> Self {
        Quantity::Text(text.to_owned())
    }
}

impl From<i64> for Quantity {
    fn from(number: i64) -> Self {
        Quantity::Number(number)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Quantity::Number(number) => write!(f, "{number}"),
            Quantity::Text(text) => f.write_str(text),
        }
    }
}

impl JsonSchema for Quantity {
    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [{ "type": "integer" }, { "type": "string" }],
            "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
            "x-kubernetes-int-or-string": true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_numbers_and_text_stays_text() {
        for text in ["4", "\"4\"", "\"1.50Gi\"", "-3"] {
            let quantity: Quantity = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&quantity).unwrap(), text);
        }
    }

    #[test]
    fn both_forms_mean_the_same() {
        assert_eq!(Quantity::from(4).milli(), Quantity::from("4").milli());
        assert_eq!(Quantity::from("1500m").units(), Ok(2));
        assert!(Quantity::from(i64::MAX).milli().is_err());
    }

    #[test]
    fn malformed_text_is_kept_and_named() {
        let quantity: Quantity = serde_json::from_str("\"lots\"").unwrap();
        assert!(quantity.units().unwrap_err().to_string().contains("lots"));
    }
}
