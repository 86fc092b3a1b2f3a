//! Reasons as sentences that a person can act on.

use std::fmt;

use super::{Reason, Shortfall};

/// How many pools are told about, and of each how many types that are sold out: those with the least in the way come
/// first, and an event has a kibibyte.
const SHOWN: usize = 4;

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shortfall {
            pool,
            types,
            allowed,
            offered,
            large_enough,
            sold_out,
            ended_by,
            code: _,
        } = self;
        write!(
            f,
            "pool {pool}: of {types} types {allowed} are allowed, {offered} of these are for sale, {large_enough} of \
             these are large enough"
        )?;
        if !ended_by.is_empty() {
            write!(f, " ({ended_by})")?;
        }
        let mut comma = "; sold out: ";
        for name in sold_out.iter().take(SHOWN) {
            write!(f, "{comma}{name}")?;
            comma = ", ";
        }
        match sold_out.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Cheapest {
                considered,
                runner_up,
            } => {
                write!(f, "cheapest of {considered} types that hold its pods")?;
                match runner_up {
                    Some((name, price)) => write!(f, "; next is {name} at {price} an hour"),
                    None => Ok(()),
                }
            }
            Reason::NoMachine { pools } => {
                f.write_str("no machine can hold it")?;
                for (position, pool) in pools.iter().take(SHOWN).enumerate() {
                    write!(f, "{} {pool}", if position == 0 { ":" } else { ";" })?;
                }
                match pools.len().saturating_sub(SHOWN) {
                    0 => Ok(()),
                    1 => f.write_str("; and another pool does not have one either"),
                    more => write!(f, "; and {more} more pools do not have one either"),
                }
            }
            Reason::NoDomain { rule } => {
                write!(f, "machines would hold it, but {rule} leaves none")
            }
            Reason::Limit { pool, limit } => {
                write!(f, "pool {pool} must not grow further: {limit}")
            }
            Reason::NoPool => f.write_str("no pool buys machines: make one, or open one"),
            Reason::Disrupted {
                cause,
                before,
                after,
                detail,
            } => {
                write!(f, "{cause}: {before} an hour becomes {after}")?;
                if detail.is_empty() {
                    Ok(())
                } else {
                    write!(f, " ({detail})")
                }
            }
            Reason::Kept { because } => f.write_str(because),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::money::Money;
    use crate::problem::DisruptionReason;

    #[test]
    fn reasons_read_as_sentences() {
        let shortfall = Shortfall {
            pool: "default".into(),
            types: 400,
            allowed: 120,
            offered: 100,
            large_enough: 0,
            sold_out: vec!["p4d".into(), "p5".into()],
            ended_by: "nvidia.com/gpu 9, most is 8".to_owned(),
            code: super::super::Code::TooLarge,
        };
        for (reason, sentence) in [
            (
                Reason::Cheapest {
                    considered: 7,
                    runner_up: Some(("m5.large".into(), Money::from_dollars(0.096))),
                },
                "cheapest of 7 types that hold its pods; next is m5.large at $0.0960 an hour",
            ),
            (
                Reason::NoMachine {
                    pools: vec![shortfall],
                },
                "no machine can hold it: pool default: of 400 types 120 are allowed, 100 of these are for sale, 0 of \
                 these are large enough (nvidia.com/gpu 9, most is 8); sold out: p4d, p5",
            ),
            (
                Reason::Disrupted {
                    cause: DisruptionReason::Underutilized,
                    before: Money::from_dollars(2.0),
                    after: Money::ZERO,
                    detail: String::new(),
                },
                "Underutilized: $2.00 an hour becomes $0.00",
            ),
        ] {
            assert_eq!(reason.to_string(), sentence);
        }
    }
}
