//! What was decided: plain data, with a reason for all of it.

mod apply;
mod check;
mod code;
mod display;
mod reason;
pub mod stock;

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use apply::apply;
pub(crate) use apply::{Aftermath, bought, singles};
pub use check::{Rule, Violation, check};
pub use code::Code;
pub(crate) use display::LACKS;
pub use reason::{Reason, Shortfall};

use crate::money::Money;
use crate::name::{Labels, Name};
use crate::problem::{CapacityType, DisruptionReason, NodeId};
use crate::resources::Resources;

/// A pod of a problem: the group at `group` of [`Problem::pods`](crate::problem::Problem::pods), or of a node's pods,
/// and its position in the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PodRef {
    /// Where the group stands.
    pub home: Home,
    /// Index of the group there.
    pub group: u32,
    /// Position within the group.
    pub position: u32,
}

/// Where a pod is before the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Home {
    /// Nowhere.
    Pending,
    /// On this node.
    Node(NodeId),
}

/// One way to buy a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Purchase {
    /// Catalogue.
    pub catalog: Name,
    /// Instance type, or range.
    pub instance_type: Name,
    /// Zone.
    pub zone: Name,
    /// How it is paid for.
    pub capacity_type: CapacityType,
    /// Reservation that it draws from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<Name>,
    /// Host that it is cut from, if of custom size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Name>,
    /// Dollars per hour.
    pub price: Money,
}

/// A machine to buy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Launch {
    /// Pool that it belongs to.
    pub pool: Name,
    /// What to buy.
    pub purchase: Purchase,
    /// What to buy when that is sold out, best first; all hold the same pods.
    #[serde(default)]
    pub alternatives: Arc<[Purchase]>,
    /// What the machine has; for one of custom size, what it must have.
    pub capacity: Resources,
    /// What its pods and daemons request.
    pub requests: Resources,
    /// Labels that the node will have.
    pub labels: Labels,
    /// Pods that it is bought for.
    pub pods: Vec<PodRef>,
    /// Why this machine.
    pub reason: Reason,
}

/// Pods that go to a node that is already there, or on its way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// Name of the node.
    pub node: Name,
    /// The pods.
    pub pods: Vec<PodRef>,
}

/// A pod that finds no place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Unplaced {
    /// The pods that share the reason.
    pub pods: Vec<PodRef>,
    /// Why not.
    pub reason: Reason,
}

/// A node to take away.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Removal {
    /// Name of the node.
    pub node: Name,
    /// Kind of reason, as budgets know it.
    pub cause: DisruptionReason,
    /// Why.
    pub reason: Reason,
}

/// A node that stays although it might have gone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Kept {
    /// Name of the node.
    pub node: Name,
    /// Why.
    pub reason: Reason,
    /// Why, in a word.
    #[serde(default)]
    pub code: Code,
    /// When it is worth asking again, if time alone can change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Why it could have gone, if it was a candidate: then budgets or prices kept it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eligible: Option<DisruptionReason>,
}

/// What to do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Plan {
    /// Machines to buy.
    pub launches: Vec<Launch>,
    /// Pods that fit what is there.
    pub placements: Vec<Placement>,
    /// Pods that do not fit anywhere.
    pub unplaced: Vec<Unplaced>,
    /// Nodes to take away once the launches are ready.
    pub removals: Vec<Removal>,
    /// Nodes that were looked at and stay.
    pub kept: Vec<Kept>,
    /// An order of binding in which every pod finds its rules satisfied; empty if any order will do.
    pub order: Vec<PodRef>,
    /// Dollars per hour of the launches, surcharges included.
    pub cost: Money,
    /// No valid plan for the same pods costs less than this.
    pub lower_bound: Money,
}

impl Plan {
    /// Pods that have a place, on nodes first.
    pub fn placed(&self) -> impl Iterator<Item = PodRef> + '_ {
        let on_nodes = self.placements.iter().flat_map(|one| &one.pods);
        let bought_for = self.launches.iter().flat_map(|one| &one.pods);
        on_nodes.chain(bought_for).copied()
    }

    /// Puts pods onto a node, beside those that the plan puts there already.
    pub(crate) fn place(&mut self, placement: Placement) {
        let mut known = self.placements.iter_mut();
        match known.find(|known| known.node == placement.node) {
            Some(known) => known.pods.extend(placement.pods),
            None => self.placements.push(placement),
        }
    }

    /// Pods that have none.
    pub fn waiting(&self) -> impl Iterator<Item = PodRef> + '_ {
        self.unplaced.iter().flat_map(|one| &one.pods).copied()
    }
}
