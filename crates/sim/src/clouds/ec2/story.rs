//! Prices and scores that move: the same for the same seed and moment.

use jiff::Timestamp;
use joiner_core::money::Money;
use joiner_providers::aws::facts;

use super::Ec2CloudOptions;

/// How often a price changes.
pub(super) const STEP: i64 = 2 * 3600;
/// Between the moments that set the trend.
const KNOT: i64 = 12 * 3600;

/// A number in 0..1 that depends on everything that is given.
#[expect(clippy::cast_precision_loss, reason = "any fraction will do")]
fn chance(seed: u64, what: &str, which: i64) -> f64 {
    let mut hash = seed ^ 0xcbf2_9ce4_8422_2325;
    let bytes = what.bytes().chain(which.to_le_bytes());
    for byte in bytes {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    (hash >> 11) as f64 / (1_u64 << 53) as f64
}

#[expect(clippy::cast_precision_loss, reason = "seconds within half a day")]
fn trend(seed: u64, what: &str, at: i64) -> f64 {
    let knot = at.div_euclid(KNOT);
    let share = at.rem_euclid(KNOT) as f64 / KNOT as f64;
    let (a, b) = (chance(seed, what, knot), chance(seed, what, knot + 1));
    a + (b - a) * share
}

/// A quarter to more than half of the list price; now and then a day at twice that or at half.
pub(super) fn price(
    options: &Ec2CloudOptions,
    type_name: &str,
    zone: &str,
    at: Timestamp,
) -> Option<Money> {
    let list = facts().get(type_name)?.list_price?;
    let seed = options.seed;
    let what = format!("{type_name} {zone}");
    let base = 0.25 + 0.35 * chance(seed, &what, 0);
    let step = at.as_second().div_euclid(STEP) * STEP;
    let factor = if options.moving {
        let day = step.div_euclid(24 * 3600);
        let shock = match chance(seed, &format!("{what} day"), day) {
            one if one < 0.06 => 0.55,
            one if one > 0.94 => 1.9,
            _ => 1.0,
        };
        let jitter = chance(seed, &format!("{what} step"), step) - 0.5;
        shock * (0.85 + 0.3 * trend(seed, &what, step) + 0.06 * jitter)
    } else {
        1.0
    };
    let dollars = (list.dollars() * base * factor * 10_000.0).round() / 10_000.0;
    Some(Money::from_dollars(dollars.max(0.0001)))
}

/// One to ten, mostly good.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "one to ten"
)]
pub(super) fn score(options: &Ec2CloudOptions, zone: &str, at: Timestamp) -> u8 {
    let at = if options.moving { at.as_second() } else { 0 };
    let value = trend(options.seed, &format!("score {zone}"), at);
    (3.0 + value * 7.9).clamp(1.0, 10.0) as u8
}
