//! Shares of a hundred: `5%`, `2.5%`.

use thiserror::Error;

use super::price::decimal_nanos;
use super::written;

/// Why a text is not a percentage.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{0:?} is not a percentage: write a number from 0% to 100%, such as 2.5%")]
pub struct PercentError(String);

written! {
    /// A share of a hundred, such as `2.5%`.
    Percent
}

impl Percent {
    /// In millionths of the whole.
    pub fn millionths(&self) -> Result<u32, PercentError> {
        self.0
            .strip_suffix('%')
            .and_then(decimal_nanos)
            // Billionths of a percent are a hundred thousand to the millionth part.
            .map(|nanos| nanos / 100_000)
            .and_then(|millionths| u32::try_from(millionths).ok())
            .filter(|millionths| *millionths <= 1_000_000)
            .ok_or_else(|| PercentError(self.0.clone()))
    }

    /// As a fraction from 0 to 1.
    pub fn fraction(&self) -> Result<f64, PercentError> {
        self.millionths()
            .map(|millionths| f64::from(millionths) / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_counted_in_millionths() {
        for (text, millionths) in [
            ("0%", 0),
            ("5%", 50_000),
            ("2.5%", 25_000),
            ("100%", 1_000_000),
        ] {
            assert_eq!(Percent::from(text).millionths(), Ok(millionths), "{text}");
        }
    }

    #[test]
    fn what_is_no_share_is_refused_with_the_text_in_the_message() {
        for text in ["", "5", "%", "101%", "-1%", "half"] {
            let error = Percent::from(text).millionths().unwrap_err();
            assert!(error.to_string().contains(text), "{text}");
        }
    }
}
