//! Numbers of what a problem lists.

use serde::{Deserialize, Serialize};

/// Of a node among all nodes of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(u32);

/// Of a pool among all pools of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PoolId(u32);

impl NodeId {
    /// Of the node at this place in the list.
    pub fn at(index: usize) -> Self {
        NodeId(number(index))
    }

    /// Its place in the list.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl PoolId {
    /// Of the pool at this place in the list.
    pub(crate) fn at(index: usize) -> Self {
        PoolId(number(index))
    }

    /// Its place in the list.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// More than any list holds stays more than any list holds.
fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
