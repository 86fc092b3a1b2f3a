//! Why: as data, and as a sentence.

use serde::{Deserialize, Serialize};

use crate::money::Money;
use crate::name::Name;
use crate::problem::DisruptionReason;

use super::Code;

/// How many machine types of a pool were left after each filter, for a pod that no new machine can hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Shortfall {
    /// Pool.
    pub pool: Name,
    /// Types in its catalogue.
    pub types: u32,
    /// Of these, types that the pool's and the pod's requirements allow.
    pub allowed: u32,
    /// Of these, types that have an offering for sale.
    pub offered: u32,
    /// Of these, types large enough.
    pub large_enough: u32,
    /// Allowed types that would be large enough and are sold out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sold_out: Vec<Name>,
    /// The constraint that ended it, in words.
    pub ended_by: String,
    /// The same in a word.
    pub code: Code,
}

/// Why something was decided.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Reason {
    /// The cheapest machine for its pods.
    Cheapest {
        /// Types that could have held the same pods.
        considered: u32,
        /// The next best type and what it would have cost.
        runner_up: Option<(Name, Money)>,
    },
    /// No pool has a machine for it.
    NoMachine {
        /// Pool by pool.
        pools: Vec<Shortfall>,
    },
    /// Machines exist; rules about other pods leave none.
    NoDomain {
        /// The rule, in words.
        rule: String,
    },
    /// A limit was reached.
    Limit {
        /// Pool.
        pool: Name,
        /// Which limit, in words.
        limit: String,
    },
    /// No pool can buy.
    NoPool,
    /// The node is taken away.
    Disrupted {
        /// Kind of reason.
        cause: DisruptionReason,
        /// What it cost.
        before: Money,
        /// What takes its place costs.
        after: Money,
        /// Details, in words.
        detail: String,
    },
    /// The node stays.
    Kept {
        /// What stands in the way, in words.
        because: String,
    },
}
