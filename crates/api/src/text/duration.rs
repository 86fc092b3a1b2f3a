//! Durations in Go's notation: `30m`, `1h30m`, `1.5h`, and `Never` where that is allowed.

use jiff::SignedDuration;
use thiserror::Error;

use super::written;

/// Why a text is not a duration.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum DurationError {
    /// Not numbers with units.
    #[error("{0:?} is not a duration: write numbers with units, such as 30s, 15m or 1h30m")]
    Malformed(String),
    /// Less than nothing.
    #[error("{0:?} is negative: a duration counts from zero")]
    Negative(String),
    /// More than can be counted.
    #[error("{0:?} is longer than 292 years")]
    TooLong(String),
}

written! {
    /// A length of time in Go's notation, such as `30m` or `1h30m`.
    Duration
}

written! {
    /// A length of time in Go's notation, or `Never`.
    DurationOrNever
}

impl Duration {
    /// What it means.
    pub fn get(&self) -> Result<SignedDuration, DurationError> {
        parse(&self.0)
    }
}

impl DurationOrNever {
    /// What it means; `None` for never.
    pub fn get(&self) -> Result<Option<SignedDuration>, DurationError> {
        if self.0 == "Never" {
            return Ok(None);
        }
        parse(&self.0).map(Some)
    }
}

const NANOS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Go: time.ParseDuration, without negative values.
fn parse(text: &str) -> Result<SignedDuration, DurationError> {
    let malformed = || DurationError::Malformed(text.to_owned());
    let too_long = || DurationError::TooLong(text.to_owned());
    if text
        .strip_prefix('-')
        .is_some_and(|rest| parse(rest).is_ok())
    {
        return Err(DurationError::Negative(text.to_owned()));
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Ok(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return Err(malformed());
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let number_ends = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(malformed)?;
        let (number, tail) = rest.split_at(number_ends);
        let unit_ends = tail
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_ends);
        let (_, nanos) = NANOS
            .iter()
            .find(|(u, _)| *u == unit)
            .ok_or_else(malformed)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(malformed());
        }
        let whole: i128 = if whole.is_empty() {
            0
        } else {
            whole.parse().map_err(|_| too_long())?
        };
        total = whole
            .checked_mul(*nanos)
            .and_then(|n| n.checked_add(part_of(fraction, *nanos)))
            .and_then(|n| n.checked_add(total))
            .ok_or_else(too_long)?;
        rest = tail;
    }
    let nanos = i64::try_from(total).map_err(|_| too_long())?;
    Ok(SignedDuration::from_nanos(nanos))
}

/// `0.fraction` of a unit, cut off below a nanosecond as Go does.
fn part_of(fraction: &str, nanos: i128) -> i128 {
    let mut digits: i128 = 0;
    let mut scale: i128 = 1;
    // The 14th decimal of an hour is less than a nanosecond.
    for digit in fraction.bytes().take(14) {
        digits = digits * 10 + i128::from(digit - b'0');
        scale *= 10;
    }
    digits * nanos / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_mean_what_go_says_they_mean() {
        for (text, millis) in [
            ("0", 0),
            ("0s", 0),
            ("30s", 30_000),
            ("2m", 120_000),
            ("1h30m", 5_400_000),
            ("1.5h", 5_400_000),
            (".5s", 500),
            ("1.s", 1_000),
            ("+5s", 5_000),
            ("100ms", 100),
            ("720h", 2_592_000_000),
            ("1h0m30.25s", 3_630_250),
            ("1000\u{b5}s", 1),
        ] {
            let expected = SignedDuration::from_millis(millis);
            assert_eq!(Duration::from(text).get(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn never_is_no_duration_unless_allowed() {
        assert_eq!(DurationOrNever::from("Never").get(), Ok(None));
        assert!(Duration::from("Never").get().is_err());
        assert_eq!(
            DurationOrNever::from("1m").get(),
            Ok(Some(SignedDuration::from_secs(60)))
        );
    }

    #[test]
    fn nonsense_is_refused_with_the_text_in_the_message() {
        for text in [
            "",
            "5",
            "m",
            "1x",
            "1 m",
            "1h 5m",
            "1..5s",
            ".s",
            "five minutes",
            "-",
            "1d",
        ] {
            let error = Duration::from(text).get().unwrap_err();
            assert!(
                matches!(error, DurationError::Malformed(_)),
                "{text}: {error}"
            );
            assert!(error.to_string().contains(text), "{text}: {error}");
        }
        assert_eq!(
            Duration::from("-2m").get(),
            Err(DurationError::Negative("-2m".into()))
        );
        assert_eq!(
            Duration::from("9999999h").get(),
            Err(DurationError::TooLong("9999999h".into()))
        );
    }

    #[test]
    fn text_is_written_back_as_it_was_read() {
        for text in ["\"1h30m\"", "\"90m\"", "\"Never\"", "\"banana\""] {
            let duration: DurationOrNever = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&duration).unwrap(), text);
        }
    }
}
