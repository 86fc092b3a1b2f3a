//! Seeds as they are written on a command line.

use std::ops::RangeInclusive;
use std::str::FromStr;

use anyhow::{Context, Error};

/// A seed, or those from one to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seeds(RangeInclusive<u32>);

impl FromStr for Seeds {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let number = |text: &str| {
            text.parse::<u32>().with_context(|| {
                format!("{text:?} is not a seed: write a number, or a range such as 1-20")
            })
        };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Ok(Seeds(number(first)?..=number(last)?))
    }
}

/// All seeds of a list, in order.
pub(super) fn all(list: &[Seeds]) -> impl Iterator<Item = u32> + '_ {
    list.iter().flat_map(|seeds| seeds.0.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ranges_are_seeds_and_words_are_not() {
        let list: Vec<Seeds> = ["7", "1-3"]
            .iter()
            .map(|one| one.parse().unwrap())
            .collect();
        assert_eq!(all(&list).collect::<Vec<_>>(), [7, 1, 2, 3]);
        let error = "1-x".parse::<Seeds>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "\"x\" is not a seed: write a number, or a range such as 1-20"
        );
    }
}
