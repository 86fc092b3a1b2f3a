//! Prices that move, stock that runs out, and machines that are asked back: all by seed and time.

use std::time::Duration;

use jiff::Timestamp;
use joiner_core::money::Money;
use joiner_core::problem::{CapacityType, Offering};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// How a cloud's offerings change over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Market {
    /// Everything that happens depends on this and on the time.
    pub seed: u64,
    /// How far a spot price strays from its list price, in percent.
    pub swing_percent: u32,
    /// How often prices change.
    pub price_every: Duration,
    /// In a hundred periods of stock, so many are sold out; spot only.
    pub sold_out_percent: u32,
    /// How long a period of stock lasts.
    pub stock_every: Duration,
    /// How long a spot machine lasts on average; `None` for ever.
    pub spot_life: Option<Duration>,
    /// How long before it is taken a spot machine gets notice.
    pub notice: Duration,
}

/// What a random stream is for, so that a new use does not shift the others.
#[derive(Clone, Copy)]
#[repr(u64)]
pub(super) enum Stream {
    Price = 1,
    Stock = 2,
    Life = 3,
    Boot = 4,
    Stillborn = 5,
    Refused = 6,
}

impl Market {
    /// Nothing ever changes.
    pub fn calm(seed: u64) -> Self {
        Market {
            seed,
            swing_percent: 0,
            price_every: Duration::from_mins(5),
            sold_out_percent: 0,
            stock_every: Duration::from_mins(30),
            spot_life: None,
            notice: Duration::from_mins(2),
        }
    }

    /// A busy market: prices swing by a third, a spot offering in twenty is sold out, spot machines last two days.
    pub fn lively(seed: u64) -> Self {
        Market {
            swing_percent: 33,
            sold_out_percent: 5,
            spot_life: Some(Duration::from_hours(48)),
            ..Self::calm(seed)
        }
    }

    /// A random stream for one purpose, one subject and one period.
    pub(super) fn random(&self, stream: Stream, subject: &str, period: i64) -> ChaCha8Rng {
        let mut seed = self.seed ^ (stream as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for byte in subject.bytes().chain(period.to_le_bytes()) {
            seed = (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        }
        ChaCha8Rng::seed_from_u64(seed)
    }

    /// The offering as it stands at `now`.
    pub(super) fn quote(&self, kind: &str, listed: &Offering, now: Timestamp) -> Offering {
        let mut quoted = listed.clone();
        if listed.capacity_type != CapacityType::Spot {
            return quoted;
        }
        let subject = format!("{kind}/{}", listed.zone);
        if self.swing_percent > 0 {
            quoted.price = self.price(&subject, listed.price, now);
        }
        if self.sold_out_percent > 0 {
            let period = period(now, self.stock_every);
            let draw = self
                .random(Stream::Stock, &subject, period)
                .random_range(0..100);
            quoted.available &= draw >= self.sold_out_percent;
        }
        quoted
    }

    /// Between two periods the price goes in a straight line, so that it moves and does not jump.
    fn price(&self, subject: &str, list: Money, now: Timestamp) -> Money {
        let here = period(now, self.price_every);
        let swing = i64::from(self.swing_percent);
        let level = |at: i64| -> i64 {
            i64::from(
                self.random(Stream::Price, subject, at)
                    .random_range(-1000..=1000),
            ) * swing
        };
        let length = whole_seconds(self.price_every);
        let passed = now.as_second().rem_euclid(length);
        let level = (level(here) * (length - passed) + level(here + 1) * passed) / length;
        // `level` is in thousandths of a percent.
        let nanos = i128::from(list.nanos()) * i128::from(100_000 + level) / 100_000;
        Money::from_nanos(i64::try_from(nanos.max(1)).unwrap_or(i64::MAX))
    }

    /// How long a spot machine is left to its owner.
    pub(super) fn life(&self, uid: &str) -> Option<Duration> {
        let mean = whole_seconds(self.spot_life?);
        // Half to one and a half times the mean: enough spread that they do not all go at once.
        let seconds = self
            .random(Stream::Life, uid, 0)
            .random_range(mean / 2..=mean + mean / 2);
        Some(Duration::from_secs(seconds.unsigned_abs()))
    }
}

fn whole_seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX).max(1)
}

fn period(now: Timestamp, length: Duration) -> i64 {
    now.as_second().div_euclid(whole_seconds(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot() -> Offering {
        Offering {
            zone: "a".into(),
            region: "".into(),
            capacity_type: CapacityType::Spot,
            price: Money::from_dollars(1.0),
            available: true,
            left: None,
            reservation: None,
            stock: None,
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).unwrap()
    }

    #[test]
    fn a_calm_market_quotes_the_list() {
        assert_eq!(Market::calm(1).quote("m-4", &spot(), at(77)), spot());
    }

    #[test]
    fn prices_stay_within_the_swing_and_move() {
        let market = Market {
            sold_out_percent: 0,
            ..Market::lively(7)
        };
        let quotes: Vec<Money> = (0..200)
            .map(|step| market.quote("m-4", &spot(), at(step * 60)).price)
            .collect();
        let (low, high) = (Money::from_dollars(0.67), Money::from_dollars(1.33));
        assert!(
            quotes.iter().all(|price| (low..=high).contains(price)),
            "{quotes:?}"
        );
        assert!(
            quotes
                .iter()
                .collect::<std::collections::BTreeSet<_>>()
                .len()
                > 100
        );
    }

    #[test]
    fn the_same_seed_and_time_give_the_same_quote() {
        let quote = |seed| Market::lively(seed).quote("m-4", &spot(), at(12_345));
        assert_eq!(quote(3), quote(3));
        assert_ne!(quote(3).price, quote(4).price);
    }

    #[test]
    fn on_demand_prices_stand_still() {
        let listed = Offering {
            capacity_type: CapacityType::OnDemand,
            ..spot()
        };
        assert_eq!(Market::lively(7).quote("m-4", &listed, at(500)), listed);
    }

    #[test]
    fn about_as_many_periods_are_sold_out_as_asked_for() {
        let market = Market {
            sold_out_percent: 20,
            ..Market::calm(5)
        };
        let sold_out = (0..1000)
            .filter(|step| !market.quote("m-4", &spot(), at(step * 1800)).available)
            .count();
        assert!((150..250).contains(&sold_out), "{sold_out}");
    }
}
