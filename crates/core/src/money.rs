//! Money as integers, so that sums do not depend on the order of addition. Sums stop at the largest amount there is:
//! prices that no user means to pay must not make a plan look cheap.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub, SubAssign};

use serde::{Deserialize, Serialize};

const NANOS_PER_DOLLAR: f64 = 1e9;

/// Dollars per hour, in billionths: catalogues quote spot prices to more digits than a micro-dollar holds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(into = "f64", from = "f64")]
pub struct Money(i64);

impl Money {
    /// Nothing at all.
    pub const ZERO: Money = Money(0);
    /// More than anything costs.
    pub const MAX: Money = Money(i64::MAX);

    /// From billionths of a dollar.
    pub const fn from_nanos(nanos: i64) -> Self {
        Money(nanos)
    }

    /// Rounded to millionths of a dollar, as objects show it.
    #[must_use]
    pub const fn to_micros(self) -> Self {
        Money(self.0.saturating_add(500).div_euclid(1000) * 1000)
    }

    /// From dollars, rounded to the nearest billionth; what is not a number counts as nothing.
    #[expect(clippy::cast_possible_truncation, reason = "float casts saturate")]
    pub fn from_dollars(dollars: f64) -> Self {
        Money((dollars * NANOS_PER_DOLLAR).round() as i64)
    }

    /// In billionths of a dollar.
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// In dollars.
    #[expect(
        clippy::cast_precision_loss,
        reason = "exact below nine million dollars an hour"
    )]
    pub fn dollars(self) -> f64 {
        self.0 as f64 / NANOS_PER_DOLLAR
    }

    /// `self + other`, or [`Money::MAX`].
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Money(self.0.saturating_add(other.0))
    }

    /// This share of the amount, in percent, rounded down.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "clamped to the range first"
    )]
    pub fn percent(self, percent: u32) -> Self {
        let share = i128::from(self.0) * i128::from(percent) / 100;
        Money(share.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64)
    }
}

impl From<Money> for f64 {
    fn from(money: Money) -> f64 {
        money.dollars()
    }
}

impl From<f64> for Money {
    fn from(dollars: f64) -> Self {
        Money::from_dollars(dollars)
    }
}

impl Add for Money {
    type Output = Money;
    fn add(self, other: Money) -> Money {
        self.saturating_add(other)
    }
}

impl AddAssign for Money {
    fn add_assign(&mut self, other: Money) {
        *self = *self + other;
    }
}

impl Sub for Money {
    type Output = Money;
    fn sub(self, other: Money) -> Money {
        Money(self.0.saturating_sub(other.0))
    }
}

impl SubAssign for Money {
    fn sub_assign(&mut self, other: Money) {
        *self = *self - other;
    }
}

impl Mul<i64> for Money {
    type Output = Money;
    fn mul(self, times: i64) -> Money {
        Money(self.0.saturating_mul(times))
    }
}

impl Sum for Money {
    fn sum<I: Iterator<Item = Money>>(amounts: I) -> Money {
        amounts.fold(Money::ZERO, Add::add)
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dollars = self.dollars();
        // Cents say nothing about a node that costs less than one.
        if self.0 != 0 && dollars.abs() < 1.0 {
            write!(f, "${dollars:.4}")
        } else {
            write!(f, "${dollars:.2}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_survive_the_way_through_a_file() {
        for dollars in [0.0, 0.03, 0.314_748_365, 98.32] {
            assert!((Money::from_dollars(dollars).dollars() - dollars).abs() < 1e-12);
        }
    }

    #[test]
    fn what_is_not_a_number_costs_nothing() {
        assert_eq!(Money::from_dollars(f64::NAN), Money::ZERO);
    }

    #[test]
    fn small_prices_show_more_digits() {
        assert_eq!(Money::from_dollars(0.0312).to_string(), "$0.0312");
        assert_eq!(Money::from_dollars(12.5).to_string(), "$12.50");
        assert_eq!(Money::ZERO.to_string(), "$0.00");
    }

    #[test]
    fn nothing_is_dearer_than_the_largest_amount() {
        let all: Money = [Money::MAX, Money::MAX, Money::from_nanos(1)]
            .into_iter()
            .sum();
        assert_eq!((all, Money::MAX * 2), (Money::MAX, Money::MAX));
        assert_eq!(
            Money::from_nanos(-2) - Money::MAX,
            Money::from_nanos(i64::MIN)
        );
    }

    #[test]
    fn a_share_is_rounded_down() {
        assert_eq!(Money::from_nanos(99).percent(50), Money::from_nanos(49));
    }
}
