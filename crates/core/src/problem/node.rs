//! Nodes, and machines on their way to become nodes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{CapacityType, Pod};
use crate::money::Money;
use crate::name::{Labels, Name};
use crate::resources::Resources;
use crate::taints::Taint;

/// How far a machine has come.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum NodePhase {
    /// In use.
    #[default]
    Ready,
    /// Registered; startup taints and those that come and go by themselves do not count.
    Starting,
    /// Asked for, and not a node yet.
    InFlight,
}

/// A node, or a machine that was asked for.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, as observed"
)]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Node {
    /// Name; also its hostname label if it has none.
    pub name: Name,
    /// Pool that it belongs to; `None` for nodes that are not ours, which are filled and never touched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<Name>,
    /// How far it has come.
    pub phase: NodePhase,
    /// Labels, among them instance type, zone and capacity type.
    pub labels: Labels,
    /// Taints.
    pub taints: Vec<Taint>,
    /// Taints that it will lose when it is ready.
    pub startup_taints: Vec<Taint>,
    /// What the machine has; counts against limits.
    pub capacity: Resources,
    /// What is there for pods, daemons included.
    pub allocatable: Resources,
    /// Pods bound to it, daemons among them.
    pub pods: Vec<Pod>,
    /// Its instance type.
    pub instance_type: Name,
    /// How it is paid for.
    pub capacity_type: CapacityType,
    /// Dollars per hour; `None` if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<Money>,
    /// When it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
    /// When a pod last came or went, or else when it became ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_pod_event: Option<Timestamp>,
    /// Why it is not what its pool asks for any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drifted: Option<String>,
    /// Its pods are being moved away: it takes no more, and they need a place.
    pub deleting: bool,
    /// The cloud takes its machine away: its pods leave it whatever holds them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reclaimed: bool,
    /// Must not be disturbed.
    pub do_not_disrupt: bool,
    /// Pods were promised this node a moment ago.
    pub nominated: bool,
    /// Does not answer; counts against budgets.
    pub unready: bool,
    /// How many volumes of a driver can be attached.
    pub volume_limits: BTreeMap<Name, u32>,
}
