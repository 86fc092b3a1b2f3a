//! Reasons as sentences that a person can act on.

use std::fmt;

use super::{Reason, Shortfall};
use crate::money::Money;

/// How many pools are told about, and of each how many types that are sold out: those with the least in the way come
/// first, and an event has a kibibyte.
const SHOWN: usize = 4;

/// How a pool says that it lacks something altogether.
pub(crate) const LACKS: &str = "does not provide ";

/// What every pool lacks altogether, if all lack the same.
fn lacking_everywhere(pools: &[Shortfall]) -> Option<&str> {
    let lacking = pools.first()?.ended_by.strip_prefix(LACKS)?;
    let same = |one: &Shortfall| one.ended_by.strip_prefix(LACKS) == Some(lacking);
    pools.iter().all(same).then_some(lacking)
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.pool.is_empty() {
            write!(f, "NodePool {}: ", self.pool)?;
        }
        f.write_str(&self.ended_by)?;
        let mut comma = "; sold out: ";
        for name in self.sold_out.iter().take(SHOWN) {
            write!(f, "{comma}{name}")?;
            comma = ", ";
        }
        match self.sold_out.len().saturating_sub(SHOWN) {
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
                match considered {
                    0 | 1 => f.write_str("the only instance type that fits its pods")?,
                    all => write!(f, "cheapest of {all} instance types that fit its pods")?,
                }
                match runner_up {
                    Some((name, price)) => write!(f, "; next best: {name} at {price} an hour"),
                    None => Ok(()),
                }
            }
            Reason::NoMachine { pools } => {
                if let Some(lacking) = lacking_everywhere(pools) {
                    return write!(f, "no NodePool provides {lacking}");
                }
                for (position, pool) in pools.iter().take(SHOWN).enumerate() {
                    write!(f, "{}{pool}", if position == 0 { "" } else { "; " })?;
                }
                match pools.len().saturating_sub(SHOWN) {
                    0 => Ok(()),
                    1 => f.write_str("; 1 more NodePool cannot provide a node either"),
                    more => write!(f, "; {more} more NodePools cannot provide a node either"),
                }
            }
            Reason::NoDomain { rule } => {
                write!(f, "a node would fit it, but {rule} cannot be satisfied")
            }
            Reason::Limit { pool, limit } if limit.starts_with("limits.") => {
                write!(f, "NodePool {pool} reached {limit}")
            }
            Reason::Limit { pool, limit } => write!(f, "NodePool {pool}: {limit}"),
            Reason::NoPool => f.write_str(
                "no NodePool can launch nodes: create one, or see the conditions of those that exist",
            ),
            Reason::Disrupted {
                cause,
                before,
                after,
                detail,
            } => {
                if *after == Money::ZERO {
                    write!(f, "{cause}: saves {before} an hour")?;
                } else {
                    write!(f, "{cause}: {after} an hour instead of {before}")?;
                }
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
