//! `joiner.dev/v1alpha1` RedfishNodeClass: what a NodePool needs to switch on bare metal.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::NodeClassStatus;
use crate::hardware::{HardwarePrice, RedfishSettings};
use crate::text::Duration;

/// Which hosts can be switched on, and what they are worth.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "joiner.dev",
    version = "v1alpha1",
    kind = "RedfishNodeClass",
    plural = "redfishnodeclasses",
    doc = "Bare metal for a NodePool: hosts that Redfish can switch on to join the cluster and off to leave it.",
    category = "karpenter",
    category = "joiner",
    status = "NodeClassStatus",
    derive = "PartialEq",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct RedfishNodeClassSpec {
    /// The inventory, and how hosts are switched on and off.
    pub redfish: RedfishSettings,
    /// What hosts are worth that have no price of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<HardwarePrice>,
    /// How long a host may take to become a node before it is given up and another is tried. Servers take minutes to
    /// start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::duration", extend("default" = "20m"))]
    pub registration_timeout: Option<Duration>,
}

impl RedfishNodeClassSpec {
    /// How long a machine may take to become a node, with the default filled in.
    pub fn registration_timeout(&self) -> Duration {
        self.registration_timeout
            .clone()
            .unwrap_or_else(|| "20m".into())
    }
}
