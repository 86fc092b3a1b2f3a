//! `joiner simulate`, as typed.

use std::str::FromStr;

use clap::{Args, ValueEnum};

/// A range of seeds: `7`, or `0..200` without its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seeds {
    /// The first.
    pub(crate) first: u64,
    /// The first that is not among them.
    pub(crate) end: u64,
}

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            text.parse::<u64>().map_err(|_| {
                format!("{text:?} is not a number; write one seed, or a range as in 0..200")
            })
        };
        let seeds = match text.split_once("..") {
            None => {
                let first = number(text)?;
                Seeds {
                    first,
                    end: first.saturating_add(1),
                }
            }
            Some((first, end)) => Seeds {
                first: number(first)?,
                end: number(end)?,
            },
        };
        if seeds.first >= seeds.end {
            return Err(format!(
                "{text} holds no seed: the end of a range is not part of it"
            ));
        }
        Ok(seeds)
    }
}

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, strum::Display)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum FaultKind {
    /// Requests to the API server arrive late.
    Delay,
    /// Requests or their answers are lost.
    Drop,
    /// Requests arrive twice.
    Duplicate,
    /// The API server answers with errors, before or after it did what was asked.
    Error,
    /// Reads show the past.
    Stale,
    /// Watches end without a word.
    Watch,
    /// Calls to the cloud are refused, slow, throttled, or done and their answers lost.
    Cloud,
    /// Joiner dies at some request and is started again.
    Crash,
    /// Two instances run, and lose their way to the API server and the lease.
    Lease,
}

impl FaultKind {
    /// Every kind.
    pub(crate) fn all() -> Vec<FaultKind> {
        Self::value_variants().to_vec()
    }
}

/// Which faults: `all`, `none`, or a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Faults {
    /// As it was typed, to be typed again.
    pub(crate) text: String,
    /// Those that are meant.
    pub(crate) kinds: Vec<FaultKind>,
}

impl FromStr for Faults {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let kinds = match text {
            "all" => FaultKind::all(),
            "none" => Vec::new(),
            list => list
                .split(',')
                .map(|word| FaultKind::from_str(word, false))
                .collect::<Result<_, _>>()
                .map_err(|_| {
                    let known: Vec<String> =
                        FaultKind::all().iter().map(ToString::to_string).collect();
                    format!("write all, none, or a list of {}", known.join(", "))
                })?,
        };
        Ok(Faults {
            text: text.to_owned(),
            kinds,
        })
    }
}

/// How to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// Lines for people.
    #[default]
    Text,
    /// One document.
    Json,
}

/// Arguments of `joiner simulate`.
#[derive(Args)]
#[command(
    after_help = "Every seed is a whole world in virtual time: an embedded cluster, simulated clouds, workloads that \
                  come and go, and Joiner. Two thirds of the hours are stormy; then faults stop, everything must \
                  settle, and at rest nothing may be written. The same seed is the same world, byte for byte.\n\n\
                  Exit status: 0 nothing is wrong; 2 wrong usage; 7 something happened that must not."
)]
pub(crate) struct SimulateArgs {
    /// One seed, or a range of them without its end.
    #[arg(long, default_value = "0..20", value_name = "A..B")]
    pub(crate) seeds: Seeds,
    /// How long each world lasts.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) hours: u32,
    /// What goes wrong: all, none, or a list of delay, drop, duplicate, error, stale, watch, cloud, crash, lease.
    #[arg(long, default_value = "all", value_name = "all|none|LIST")]
    pub(crate) faults: Faults,
    /// How many worlds at once; as many as there are processors unless it is given.
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    /// What to print.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: ReportFormat,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_seeds_ends_before_its_end() {
        assert_eq!("7".parse(), Ok(Seeds { first: 7, end: 8 }));
        assert_eq!("0..200".parse(), Ok(Seeds { first: 0, end: 200 }));
        for wrong in ["5..5", "x", "1..", "3..2"] {
            assert!(wrong.parse::<Seeds>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn faults_are_all_none_or_a_list() {
        let kinds = |text: &str| text.parse::<Faults>().map(|faults| faults.kinds);
        assert_eq!(kinds("none"), Ok(Vec::new()));
        assert_eq!(kinds("all"), Ok(FaultKind::all()));
        assert_eq!(
            kinds("crash,stale"),
            Ok(vec![FaultKind::Crash, FaultKind::Stale])
        );
        let refused = kinds("rain").unwrap_err();
        assert!(refused.contains("delay, drop"), "{refused}");
    }
}
