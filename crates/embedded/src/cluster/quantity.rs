//! Kubernetes quantities ("500m", "1.5Gi", "2e3") as integers.
//!
//! Everything is rounded up, as `resource.Quantity` does when asked for `Value()` or `MilliValue()`: a pod that asks for
//! a fraction of a byte occupies the byte.

use serde_json::Value;

use crate::schema::quantity::Quantity;

/// The quantity in thousandths ("500m" is 500); zero where it cannot be read.
pub fn millis(quantity: &Value) -> i64 {
    in_parts(quantity, 1000)
}

/// The quantity in whole units ("1Ki" is 1024); zero where it cannot be read.
pub fn units(quantity: &Value) -> i64 {
    in_parts(quantity, 1)
}

fn in_parts(quantity: &Value, per_unit: i64) -> i64 {
    let read = match quantity {
        Value::String(text) => Quantity::parse(text),
        Value::Number(number) => Quantity::parse(&number.to_string()),
        _ => None,
    };
    read.map_or(0, |quantity| quantity.in_parts(per_unit))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_read_as_the_real_server_reads_them() {
        for (text, milli, unit) in [
            ("0", 0, 0),
            ("1", 1000, 1),
            ("500m", 500, 1),
            ("1500m", 1500, 2),
            ("0.5", 500, 1),
            (".5", 500, 1),
            ("1.", 1000, 1),
            ("1Ki", 1_024_000, 1024),
            ("1.5Gi", 1_610_612_736_000, 1_610_612_736),
            ("2e3", 2_000_000, 2000),
            ("2E3", 2_000_000, 2000),
            ("1e-3", 1, 1),
            ("100n", 1, 1),
            ("-2", -2000, -2),
            ("3M", 3_000_000_000, 3_000_000),
        ] {
            assert_eq!(millis(&json!(text)), milli, "{text} in thousandths");
            assert_eq!(units(&json!(text)), unit, "{text} in units");
        }
        assert_eq!(units(&json!(4)), 4);
        assert_eq!(millis(&json!(0.25)), 250);
    }

    #[test]
    fn what_is_not_a_quantity_is_zero_and_what_is_too_large_is_capped() {
        for text in ["", "x", "1x", "1.2.3", "Mi", "--1"] {
            assert_eq!(units(&json!(text)), 0, "{text:?}");
        }
        assert_eq!(units(&json!("100E")), i64::MAX);
    }
}
