//! `karpetrack.io/v1alpha1` SpotNode: one Rackspace Spot server, from the bid until it is gone.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::text::{Price, Quantity, ResourceList};

/// Which server is wanted.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpetrack.io",
    version = "v1alpha1",
    kind = "SpotNode",
    doc = "One Rackspace Spot server: what was bid for, which node it became, and how far it has come.",
    shortname = "sn",
    status = "SpotNodeStatus",
    derive = "PartialEq",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Node", type_ = "string", json_path = ".status.nodeName"),
    printcolumn(name = "Instance", type_ = "string", json_path = ".spec.instanceType"),
    printcolumn(name = "Region", type_ = "string", json_path = ".spec.region"),
    printcolumn(name = "Price", type_ = "string", json_path = ".status.pricePerHour"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Pool",
        type_ = "string",
        json_path = ".spec.nodePoolRef",
        priority = 1
    ),
    printcolumn(
        name = "Bid",
        type_ = "string",
        json_path = ".spec.bidPrice",
        priority = 1
    ),
    printcolumn(
        name = "ID",
        type_ = "string",
        json_path = ".status.providerID",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
pub struct SpotNodeSpec {
    /// SpotNodePool that it belongs to.
    pub node_pool_ref: String,
    /// Server class, such as `gp.vs1.large-ord`.
    pub instance_type: String,
    /// Region, such as `us-central-ord-1`.
    pub region: String,
    /// What is bid at most, in dollars per hour; what is paid is the market price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bid_price: Option<Price>,
    /// What the server has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<NodeResources>,
}

/// What a server has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct NodeResources {
    /// Cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Quantity>,
    /// Memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Quantity>,
    /// Local disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ephemeral_storage: Option<Quantity>,
    /// GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<Quantity>,
}

/// How far a server has come.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[schemars(inline, description = "")]
pub enum Phase {
    /// Wanted. The original leaves the phase of new objects empty.
    #[default]
    #[serde(alias = "")]
    Pending,
    /// Bid for or being built.
    Provisioning,
    /// A node of the cluster.
    Running,
    /// Its pods are being moved away.
    Draining,
    /// Being given back.
    Terminating,
}

/// What has become of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct SpotNodeStatus {
    /// How far it has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// What Rackspace Spot calls it.
    #[serde(
        rename = "providerID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub provider_id: Option<String>,
    /// Node that it became.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// What it costs now, in dollars per hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_per_hour: Option<Price>,
    /// When it was bought.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioned_at: Option<Time>,
    /// When its price was last looked up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_price_check: Option<Time>,
    /// How many pods run on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated_pods: Option<i32>,
    /// When a pod last came or went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_pod_event_time: Option<Time>,
    /// What the server has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<ResourceList>,
    /// What of it pods can have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocatable: Option<ResourceList>,
    /// What holds of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_phase_means_pending() {
        let status: SpotNodeStatus = serde_json::from_str(r#"{"phase": ""}"#).unwrap();
        assert_eq!(status.phase, Some(Phase::Pending));
        assert_eq!(
            serde_json::to_string(&status).unwrap(),
            r#"{"phase":"Pending"}"#
        );
    }
}
