//! Prices in dollars per hour, and changes of prices.

use joiner_core::money::Money;
use thiserror::Error;

use super::written;

/// Why a text is not a price or a change of one.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum PriceError {
    /// Not a plain decimal number.
    #[error("{0:?} is not a price: write dollars per hour as a plain decimal such as 0.50")]
    Price(String),
    /// Not a signed number or percentage.
    #[error(
        "{0:?} is not a change of price: write a sign and an amount, such as +0.5, -0.5, +10% or -15%"
    )]
    Adjustment(String),
}

written! {
    /// Dollars per hour as a decimal number.
    Price
}

written! {
    /// What to add to a price (`+0.5`, `-0.5`) or by how much to change it (`+10%`, `-15%`).
    PriceAdjustment
}

impl Price {
    /// What it means.
    pub fn get(&self) -> Result<Money, PriceError> {
        decimal_nanos(&self.0)
            .ok_or_else(|| PriceError::Price(self.0.clone()))
            .map(Money::from_nanos)
    }
}

/// A change of a price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PriceChange {
    /// To be added; may be negative.
    Add(Money),
    /// In millionths of the price, to be added; never below minus a million.
    Parts(i64),
}

impl PriceChange {
    /// The price after the change, never below zero.
    #[must_use]
    pub fn apply(self, price: Money) -> Money {
        let nanos = match self {
            PriceChange::Add(amount) => i128::from(price.nanos()) + i128::from(amount.nanos()),
            PriceChange::Parts(parts) => {
                i128::from(price.nanos()) * (1_000_000 + i128::from(parts)) / 1_000_000
            }
        };
        Money::from_nanos(i64::try_from(nanos.max(0)).unwrap_or(i64::MAX))
    }
}

impl PriceAdjustment {
    /// What it means.
    pub fn get(&self) -> Result<PriceChange, PriceError> {
        self.read()
            .ok_or_else(|| PriceError::Adjustment(self.0.clone()))
    }

    fn read(&self) -> Option<PriceChange> {
        let (sign, amount) = match self.0.split_at_checked(1)? {
            ("+", amount) => (1, amount),
            ("-", amount) => (-1, amount),
            _ => return None,
        };
        let Some(percent) = amount.strip_suffix('%') else {
            return Some(PriceChange::Add(Money::from_nanos(
                sign * decimal_nanos(amount)?,
            )));
        };
        // Billionths of a percent are a hundred thousand to the millionth part.
        let parts = decimal_nanos(percent)? / 100_000;
        (sign > 0 || parts <= 1_000_000).then_some(PriceChange::Parts(sign * parts))
    }
}

/// A plain decimal number in billionths; more decimals than nine are cut off.
pub(super) fn decimal_nanos(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if text.is_empty() || text == "." || !digits(whole) || !digits(fraction) {
        return None;
    }
    let whole: i64 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let fraction: i64 = format!("{fraction:0<9}").get(..9)?.parse().ok()?;
    whole.checked_mul(1_000_000_000)?.checked_add(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dollars(amount: f64) -> Money {
        Money::from_dollars(amount)
    }

    #[test]
    fn prices_are_exact_decimals() {
        assert_eq!(Price::from("0.50").get(), Ok(dollars(0.5)));
        assert_eq!(Price::from("0").get(), Ok(Money::ZERO));
        assert_eq!(Price::from("12").get(), Ok(dollars(12.0)));
        assert_eq!(Price::from("0.000000001").get(), Ok(Money::from_nanos(1)));
        for text in ["", ".", "-1", "$0.5", "1e3", "0,5", "99999999999"] {
            assert_eq!(Price::from(text).get(), Err(PriceError::Price(text.into())));
        }
    }

    #[test]
    fn adjustments_add_or_scale_and_never_go_below_zero() {
        let of = |text: &str, price: f64| {
            PriceAdjustment::from(text)
                .get()
                .unwrap()
                .apply(dollars(price))
        };
        assert_eq!(of("+0.5", 1.0), dollars(1.5));
        assert_eq!(of("-0.5", 1.0), dollars(0.5));
        assert_eq!(of("-2", 1.0), Money::ZERO);
        assert_eq!(of("+10%", 2.0), dollars(2.2));
        assert_eq!(of("-12.5%", 2.0), dollars(1.75));
        assert_eq!(of("-100%", 2.0), Money::ZERO);
        assert_eq!(of("+250%", 2.0), dollars(7.0));
        for text in ["", "0.5", "10%", "-101%", "+%", "+", "+-1"] {
            assert!(PriceAdjustment::from(text).get().is_err(), "{text}");
        }
    }
}
