//! Kubernetes quantities (`500m`, `1.5Gi`, `2e3`) as integers.

use thiserror::Error;

/// Why a text is not a quantity.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum QuantityError {
    /// No number, or something after the suffix.
    #[error("{0:?} is not a quantity: write a number with an optional suffix such as m, k, M, Gi")]
    Malformed(String),
    /// More than fits 63 bits.
    #[error("{0:?} is larger than any machine: at most 2^63-1 (milli-)units can be counted")]
    TooLarge(String),
}

/// Reads a quantity in thousandths, rounding up as Kubernetes does.
pub fn parse_milli(text: &str) -> Result<i64, QuantityError> {
    parse_scaled(text, 1000)
}

/// Reads a quantity in whole units, rounding up as Kubernetes does.
pub fn parse(text: &str) -> Result<i64, QuantityError> {
    parse_scaled(text, 1)
}

fn parse_scaled(text: &str, scale: i128) -> Result<i64, QuantityError> {
    let malformed = || QuantityError::Malformed(text.to_owned());
    let too_large = || QuantityError::TooLarge(text.to_owned());
    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let number_ends = unsigned
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(number_ends);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(malformed());
    }
    // Digits beyond the 27th could not change an integer that fits 63 bits but by rounding.
    let mut digits: i128 = 0;
    for digit in whole.bytes().chain(fraction.bytes()) {
        digits = digits
            .checked_mul(10)
            .and_then(|d| d.checked_add(i128::from(digit - b'0')))
            .ok_or_else(too_large)?;
    }
    let decimals = i32::try_from(fraction.len()).map_err(|_| too_large())?;
    let (factor, exponent) = suffix_factor(suffix).ok_or_else(malformed)?;
    let scaled = digits
        .checked_mul(factor)
        .and_then(|d| d.checked_mul(scale));
    let magnitude = shift_decimal(scaled.ok_or_else(too_large)?, exponent - decimals, negative)
        .ok_or_else(too_large)?;
    let value = if negative { -magnitude } else { magnitude };
    i64::try_from(value).map_err(|_| too_large())
}

/// What a suffix multiplies by: a binary factor and a power of ten.
fn suffix_factor(suffix: &str) -> Option<(i128, i32)> {
    Some(match suffix {
        "" => (1, 0),
        "n" => (1, -9),
        "u" => (1, -6),
        "m" => (1, -3),
        "k" => (1, 3),
        "M" => (1, 6),
        "G" => (1, 9),
        "T" => (1, 12),
        "P" => (1, 15),
        "E" => (1, 18),
        "Ki" => (1 << 10, 0),
        "Mi" => (1 << 20, 0),
        "Gi" => (1 << 30, 0),
        "Ti" => (1 << 40, 0),
        "Pi" => (1 << 50, 0),
        "Ei" => (1 << 60, 0),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            (1, exponent.parse::<i32>().ok().filter(|e| e.abs() <= 100)?)
        }
    })
}

/// `value * 10^power`, rounded away from zero unless the whole is negative.
fn shift_decimal(value: i128, power: i32, negative: bool) -> Option<i128> {
    if value == 0 {
        return Some(0);
    }
    let step = 10_i128.checked_pow(power.unsigned_abs());
    if power >= 0 {
        return value.checked_mul(step?);
    }
    // A divisor beyond i128 leaves only the rounding.
    let Some(divisor) = step else {
        return Some(i128::from(!negative));
    };
    let quotient = value / divisor;
    Some(if value % divisor != 0 && !negative {
        quotient + 1
    } else {
        quotient
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_multiply_as_kubernetes_says() {
        for (text, milli) in [
            ("0", 0),
            ("1", 1000),
            ("100m", 100),
            ("0.1", 100),
            (".5", 500),
            ("1.", 1000),
            ("2k", 2_000_000),
            ("1Ki", 1_024_000),
            ("1.5Gi", 1_610_612_736_000),
            ("1e3", 1_000_000),
            ("1E3", 1_000_000),
            ("12E-1", 1200),
            ("+7", 7000),
            ("-2", -2000),
        ] {
            assert_eq!(parse_milli(text), Ok(milli), "{text}");
        }
    }

    #[test]
    fn fractions_round_up() {
        assert_eq!(parse("100m"), Ok(1));
        assert_eq!(parse("1n"), Ok(1));
        assert_eq!(parse_milli("1u"), Ok(1));
        assert_eq!(parse("0.1Ki"), Ok(103));
        assert_eq!(parse("-100m"), Ok(0));
    }

    #[test]
    fn exa_suffix_is_not_an_exponent() {
        assert_eq!(parse("1E"), Ok(1_000_000_000_000_000_000));
        assert_eq!(parse("1Ei"), Ok(1 << 60));
    }

    #[test]
    fn nonsense_is_refused_with_the_text_in_the_message() {
        for text in [
            "", "m", "1.2.3", "1mm", "one", "1 Gi", "0x10", "1e", "--1", "1e999",
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.to_string().contains(text), "{text}: {error}");
        }
        assert!(matches!(parse("9E9E"), Err(QuantityError::Malformed(_))));
        assert!(matches!(parse("1e40"), Err(QuantityError::TooLarge(_))));
        assert!(matches!(
            parse_milli("9223372036854775807"),
            Err(QuantityError::TooLarge(_))
        ));
    }
}
