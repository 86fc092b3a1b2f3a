//! The node classes of our own: `joiner.dev/v1alpha1`, one for each provider that a NodePool can buy from.

mod proxmox;
mod rackspace;
mod redfish;
mod sim;
mod validate;

pub use proxmox::{MachineRange, ProxmoxNodeClass, ProxmoxNodeClassSpec};
pub use rackspace::{
    Bid, BidPercentile, RackspaceNodeClass, RackspaceNodeClassSpec, RackspaceNodeClassStatus,
};
pub use redfish::{RedfishNodeClass, RedfishNodeClassSpec};
pub use sim::{
    BootTime, Catalog, ConfigMapKeyRef, Failures, Interruptions, Kubelet, OfferingSelector,
    SimNodeClass, SimNodeClassSpec, SimNodeClassStatus, SpotPrices, StockOuts,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;

/// Annotation that, when `true`, keeps Joiner from changing anything about a pool.
pub const PAUSED_ANNOTATION: &str = "joiner.dev/paused";

/// What has been found out about a node class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct NodeClassStatus {
    /// Whether it is valid and its provider can be reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}
