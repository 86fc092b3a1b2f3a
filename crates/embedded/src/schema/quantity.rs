//! Resource quantities: reading, comparing and the canonical form that the server writes back.
//!
//! Mirrors `apimachinery/pkg/api/resource`. Values are held in nano-units of 128 bits: everything that fits Go's
//! `int64` fast path fits here exactly.

use std::cmp::Ordering;

/// The words of the real server for anything that is not a quantity.
pub(crate) const BAD_FORMAT: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

const NANO: i128 = 1_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Binary,
    Decimal,
    Exponent,
}

/// A parsed quantity.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantity {
    nanos: i128,
    format: Format,
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl Quantity {
    /// Reads a quantity; parts smaller than a nano-unit round away from zero.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, text.get(1..)?),
            b'+' => (false, text.get(1..)?),
            _ => (false, text),
        };
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return None;
        }
        let (multiplier, divisor, format) = scale(suffix)?;
        let digits = format!("{whole}{fraction}");
        let mantissa: i128 = if digits.is_empty() {
            0
        } else {
            digits.parse().ok()?
        };
        let divisor = pow10(u32::try_from(fraction.len()).ok()?)?.checked_mul(divisor)?;
        let scaled = mantissa.checked_mul(multiplier)?.checked_mul(NANO)?;
        let mut nanos = scaled / divisor;
        if scaled % divisor != 0 {
            nanos += 1;
        }
        Some(Self {
            nanos: if negative { -nanos } else { nanos },
            format,
        })
    }

    pub(crate) fn whole(value: i64) -> Self {
        Self {
            nanos: i128::from(value) * NANO,
            format: Format::Decimal,
        }
    }

    pub(crate) fn sign(self) -> i64 {
        match self.nanos.cmp(&0) {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        }
    }

    /// The value as a whole number, if it is one and fits.
    pub(crate) fn as_integer(self) -> Option<i64> {
        if self.nanos % NANO == 0 {
            i64::try_from(self.nanos / NANO).ok()
        } else {
            None
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "the caller asks for an approximation"
    )]
    pub(crate) fn as_float(self) -> f64 {
        self.nanos as f64 / NANO as f64
    }

    /// The value in parts of a unit (1000 for thousandths), rounded up, as `MilliValue` has it, and capped to what fits.
    pub(crate) fn in_parts(self, per_unit: i64) -> i64 {
        let part = NANO / i128::from(per_unit.max(1));
        let parts = self.nanos.div_euclid(part) + i128::from(self.nanos.rem_euclid(part) != 0);
        i64::try_from(parts).unwrap_or(if parts < 0 { i64::MIN } else { i64::MAX })
    }

    pub(crate) fn add(self, other: Self) -> Option<Self> {
        let nanos = self.nanos.checked_add(other.nanos)?;
        Some(Self { nanos, ..self })
    }

    pub(crate) fn sub(self, other: Self) -> Option<Self> {
        let nanos = self.nanos.checked_sub(other.nanos)?;
        Some(Self { nanos, ..self })
    }

    /// The canonical text: whole mantissa, largest suffix that keeps it whole.
    pub(crate) fn canonical(self) -> String {
        if self.nanos == 0 {
            return "0".to_owned();
        }
        let small = self.nanos.abs() < 1024 * NANO;
        match self.format {
            Format::Binary if !small => self.binary(),
            Format::Exponent => self.decimal(|exponent| match exponent {
                0 => String::new(),
                exponent => format!("e{exponent}"),
            }),
            _ => self.decimal(|exponent| {
                let suffix = match exponent {
                    -9 => "n",
                    -6 => "u",
                    -3 => "m",
                    3 => "k",
                    6 => "M",
                    9 => "G",
                    12 => "T",
                    15 => "P",
                    18 => "E",
                    _ => "",
                };
                suffix.to_owned()
            }),
        }
    }

    fn binary(self) -> String {
        // A binary quantity cannot have a fraction: it rounds up.
        let mut value = self.nanos / NANO + i128::from(self.nanos % NANO > 0);
        let mut suffix = "";
        for next in ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"] {
            if value % 1024 != 0 {
                break;
            }
            value /= 1024;
            suffix = next;
        }
        format!("{value}{suffix}")
    }

    fn decimal(self, suffix: impl Fn(i32) -> String) -> String {
        let mut value = self.nanos;
        let mut exponent = -9;
        while exponent < 18 && value % 1000 == 0 {
            value /= 1000;
            exponent += 3;
        }
        format!("{value}{}", suffix(exponent))
    }
}

fn pow10(exponent: u32) -> Option<i128> {
    10_i128.checked_pow(exponent)
}

/// Multiplier, divisor and format of a suffix.
fn scale(suffix: &str) -> Option<(i128, i128, Format)> {
    let binary = |power: u32| Some((1_i128 << (10 * power), 1, Format::Binary));
    let decimal = |power: u32| Some((pow10(power)?, 1, Format::Decimal));
    match suffix {
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "m" => Some((1, 1_000, Format::Decimal)),
        "u" => Some((1, 1_000_000, Format::Decimal)),
        "n" => Some((1, NANO, Format::Decimal)),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        other => {
            let exponent: i32 = other.strip_prefix(['e', 'E'])?.parse().ok()?;
            let power = pow10(exponent.unsigned_abs())?;
            Some(if exponent < 0 {
                (1, power, Format::Exponent)
            } else {
                (power, 1, Format::Exponent)
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_written_in_canonical_form() {
        let cases = [
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1.5", "1500m"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("1000Ki", "1000Ki"),
            ("512", "512"),
            ("100Ki", "100Ki"),
            ("0.5Ki", "512"),
            ("1e3", "1e3"),
            ("1000", "1k"),
            ("12345", "12345"),
            ("0", "0"),
            ("0Gi", "0"),
            ("-1000m", "-1"),
            ("1E", "1E"),
            ("100k", "100k"),
            ("2000M", "2G"),
            ("0.0000000001", "1n"),
            ("+5", "5"),
        ];
        for (text, canonical) in cases {
            assert_eq!(
                Quantity::parse(text).unwrap().canonical(),
                canonical,
                "{text}"
            );
        }
        for text in ["", "abc", "1.2.3", "1Q", "Mi", "1 Gi", "--1", "."] {
            assert!(Quantity::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn quantities_compare_by_value() {
        let quantity = |text| Quantity::parse(text).unwrap();
        assert_eq!(quantity("1Gi"), quantity("1024Mi"));
        assert!(quantity("1G") < quantity("1Gi"));
        assert!(quantity("-1") < quantity("0"));
    }
}
