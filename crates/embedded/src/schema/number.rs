//! Numbers as Go's JSON sees them: whole ones are `int64`, everything else is `float64`.

use serde_json::Number;

/// The number as `int64`, if it is written as one and fits.
pub(crate) fn as_i64(number: &Number) -> Option<i64> {
    number.as_i64()
}

/// Go's conversion of a float to `int64`: towards zero.
pub(crate) fn truncate(value: f64) -> i64 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the cast saturates, and bounds beyond int64 cannot be exceeded by one"
    )]
    let whole = value as i64;
    whole
}

/// A float as Go's `%v` prints it.
pub(crate) fn go_float(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let exponent = value.abs().log10().floor();
    if !(-4.0..21.0).contains(&exponent) {
        let text = format!("{value:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, digits) = match exponent.strip_prefix('-') {
            Some(digits) => ('-', digits),
            None => ('+', exponent),
        };
        return format!("{mantissa}e{sign}{digits:0>2}");
    }
    value.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_in_go() {
        let cases = [
            (3.0, "3"),
            (0.5, "0.5"),
            (-2.25, "-2.25"),
            (1e21, "1e+21"),
            (1e20, "100000000000000000000"),
            (0.00001, "1e-05"),
            (0.0001, "0.0001"),
            (0.0, "0"),
        ];
        for (value, text) in cases {
            assert_eq!(go_float(value), text);
        }
    }
}
