//! Machines as a cloud knows them.

use std::fmt;

use jiff::Timestamp;
use joiner_core::money::Money;
use joiner_core::name::{Labels, Name};
use joiner_core::plan::Purchase;
use joiner_core::problem::CapacityType;
use joiner_core::resources::Resources;
use joiner_core::taints::Taint;
use serde::{Deserialize, Serialize};

/// What the cloud calls a machine: opaque, and never reused for another one.
///
/// Where a cloud does reuse its numbers (Proxmox), the provider puts something unique beside them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MachineId(pub Name);

impl fmt::Display for MachineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What we call a machine: the UID of the object that asked for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Uid(pub Name);

/// Whose machines: written on every machine beside its UID, so that two clusters, or two families of custom resources in
/// one cluster, never touch each other's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Owner {
    /// Identity of the cluster: the UID of its namespace `kube-system`.
    pub cluster: Name,
    /// Family of custom resources, for example `karpenter`.
    pub family: Name,
}

/// A machine to be bought.
#[derive(Clone, Debug, PartialEq)]
pub struct LaunchRequest {
    /// Whoever asks twice with one UID gets one machine.
    pub uid: Uid,
    /// Name of the machine where the cloud lets us choose, and of its node.
    pub name: Name,
    /// What to buy.
    pub purchase: Purchase,
    /// What it must have, if it is made to measure.
    pub capacity: Resources,
    /// Labels for the node, where the cloud can set them before it joins.
    pub labels: Labels,
    /// Taints for the node that stay, likewise.
    pub taints: Vec<Taint>,
    /// Taints that the node comes with and somebody takes off once it is ready. A cloud that can only put taints on
    /// after the node has joined must leave these alone: it would bring them back for good.
    pub startup_taints: Vec<Taint>,
    /// What it may cost at most, in dollars per hour, where the price is not fixed.
    pub max_price: Option<Money>,
}

/// How far a machine has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MachineState {
    /// Asked for: being made, queued, in an auction. Says what is known.
    Pending(String),
    /// Runs; its node joins or has joined.
    Running,
    /// On its way out.
    Stopping,
    /// Will never run, and says why. It may still cost money until it is terminated.
    Failed(String),
}

/// How to tell which node a machine became, strongest first. Names and addresses are not enough: clouds reuse them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeLink {
    /// The node's `spec.providerID`.
    ProviderId(Name),
    /// The node's `status.nodeInfo.systemUUID`; firmware may report it in either byte order.
    SystemUuid(Name),
    /// A label that only this machine's node carries.
    Label {
        /// Key.
        key: Name,
        /// Value.
        value: Name,
    },
    /// The node's name, where the provider made it unique for all time.
    Name(Name),
}

/// A machine that this cluster owns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// What the cloud calls it.
    pub id: MachineId,
    /// Who asked for it, as written on the machine itself; `None` if the mark is unreadable.
    pub uid: Option<Uid>,
    /// How far it has come.
    pub state: MachineState,
    /// Which node is it.
    pub links: Vec<NodeLink>,
    /// Instance type.
    pub instance_type: Name,
    /// Zone.
    pub zone: Name,
    /// Region; empty if there is but one.
    pub region: Name,
    /// How it is paid for.
    pub capacity_type: CapacityType,
    /// Dollars per hour that it really costs; `None` if the cloud does not say.
    pub price: Option<Money>,
    /// What it has.
    pub capacity: Resources,
    /// What is there for pods.
    pub allocatable: Resources,
    /// Further labels that its node gets from the cloud.
    pub labels: Labels,
    /// When it was made.
    pub created: Option<Timestamp>,
}

/// What a cloud announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum NoticeKind {
    /// The machine will be taken away.
    Interruption,
    /// The machine may be taken away soon.
    Rebalance,
    /// The machine will be stopped for maintenance.
    Maintenance,
    /// The machine is gone.
    Gone,
}

/// An announcement about one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Which machine.
    pub id: MachineId,
    /// What.
    pub kind: NoticeKind,
    /// When, if it was said.
    pub at: Option<Timestamp>,
}
