//! `joiner.dev/v1alpha1` ProxmoxNodeClass: what a NodePool needs to make machines on Proxmox VE.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::NodeClassStatus;
use crate::hardware::{HardwarePrice, ProxmoxSettings, SecretReference};
use crate::text::Duration;

/// On which Proxmox VE cluster machines are made, of what sizes, and what they are worth.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "joiner.dev",
    version = "v1alpha1",
    kind = "ProxmoxNodeClass",
    plural = "proxmoxnodeclasses",
    doc = "Settings of Proxmox VE for a NodePool: the cluster, the credentials, and how machines are made there.",
    category = "karpenter",
    category = "joiner",
    status = "NodeClassStatus",
    derive = "PartialEq",
    printcolumn(
        name = "Endpoint",
        type_ = "string",
        json_path = ".spec.proxmox.endpoint"
    ),
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
#[schemars(extend("x-kubernetes-validations" = [
    {
        "message": "proxmox.vmIDRange is required: write the numbers that machines may have, such as {lower: 1250, upper: 1300}",
        "rule": "has(self.proxmox.vmIDRange)"
    },
    {
        "message": "proxmox.managedNodeTag is required: machines without it are never touched",
        "rule": "has(self.proxmox.managedNodeTag) && self.proxmox.managedNodeTag != ''"
    }
]))]
pub struct ProxmoxNodeClassSpec {
    /// The cluster, and how machines are made there.
    pub proxmox: ProxmoxSettings,
    /// Secret with the keys `PROXMOX_TOKEN_ID` and `PROXMOX_SECRET`.
    pub credentials_secret_ref: SecretReference,
    /// Sizes that machines may have; without it, whatever a Proxmox node can still hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machines: Option<MachineRange>,
    /// What the hardware is worth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<HardwarePrice>,
    /// How long a machine may take to become a node before it is given up and another is tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::duration", extend("default" = "5m"))]
    pub registration_timeout: Option<Duration>,
}

/// Sizes that machines may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline, extend("x-kubernetes-validations" = [
    {
        "message": "maxCores must be >= minCores",
        "rule": "!has(self.minCores) || !has(self.maxCores) || self.maxCores >= self.minCores"
    },
    {
        "message": "maxMemoryMiB must be >= minMemoryMiB",
        "rule": "!has(self.minMemoryMiB) || !has(self.maxMemoryMiB) || self.maxMemoryMiB >= self.minMemoryMiB"
    }
]))]
pub struct MachineRange {
    /// Cores at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1))]
    pub min_cores: Option<i64>,
    /// Cores at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1))]
    pub max_cores: Option<i64>,
    /// Memory at least, in MiB.
    #[serde(
        rename = "minMemoryMiB",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(extend("minimum" = 1))]
    pub min_memory_mib: Option<i64>,
    /// Memory at most, in MiB.
    #[serde(
        rename = "maxMemoryMiB",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(extend("minimum" = 1))]
    pub max_memory_mib: Option<i64>,
}

impl ProxmoxNodeClassSpec {
    /// How long a machine may take to become a node, with the default filled in.
    pub fn registration_timeout(&self) -> Duration {
        self.registration_timeout
            .clone()
            .unwrap_or_else(|| "5m".into())
    }
}
