//! `kubenodesmith.parawell.cloud/v1alpha1` NodeSmithClaim: one machine, from the wish for it until it is gone.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::text::{Duration, ResourceList};

/// Which machine is wanted.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kubenodesmith.parawell.cloud",
    version = "v1alpha1",
    kind = "NodeSmithClaim",
    namespaced,
    doc = "One machine on own hardware: what was asked for, which node it became, and how far it has come.",
    shortname = "nsc",
    status = "NodeSmithClaimStatus",
    derive = "PartialEq",
    printcolumn(name = "Pool", type_ = "string", json_path = ".spec.poolRef"),
    printcolumn(
        name = "Cores",
        type_ = "integer",
        json_path = ".spec.requirements.cpuCores"
    ),
    printcolumn(
        name = "MemoryMiB",
        type_ = "integer",
        json_path = ".spec.requirements.memoryMiB"
    ),
    printcolumn(name = "Node", type_ = "string", json_path = ".status.nodeName"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "ID",
        type_ = "string",
        json_path = ".status.providerID",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
pub struct NodeSmithClaimSpec {
    /// NodeSmithPool in the same namespace that it belongs to.
    #[schemars(extend("minLength" = 1))]
    pub pool_ref: String,
    /// How large the machine must be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requirements: Option<ClaimRequirements>,
    /// Mark by which the machine is found again if its number was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// How long its drain may last before the pods that are left are deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::duration")]
    pub termination_grace_period: Option<Duration>,
}

/// How large a machine must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline, extend("x-kubernetes-validations" = [
    { "message": "cpuCores must be positive", "rule": "!has(self.cpuCores) || self.cpuCores > 0" },
    { "message": "memoryMiB must be positive", "rule": "!has(self.memoryMiB) || self.memoryMiB > 0" }
]))]
pub struct ClaimRequirements {
    /// Cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_cores: Option<i64>,
    /// Memory in MiB.
    #[serde(rename = "memoryMiB", default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<i64>,
}

/// What has become of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct NodeSmithClaimStatus {
    /// What its provider calls it: `proxmox://<cluster>/vms/<id>` or `redfish://<address>/Systems/<id>`.
    #[serde(
        rename = "providerID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub provider_id: Option<String>,
    /// NodeSmithProvider that it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<String>,
    /// Node that it became.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// How often a machine was made for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::int")]
    pub launch_attempts: Option<i64>,
    /// Who works on it; kept for other tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<ClaimLease>,
    /// What the machine has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<ResourceList>,
    /// What of it pods can have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocatable: Option<ResourceList>,
    /// When a pod last came or went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_pod_event_time: Option<Time>,
    /// How far it has come: Launched, Registered, Initialized, Ready; or Failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// Who works on a claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ClaimLease {
    /// Who.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// At what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,
    /// When it was last heard of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_heartbeat: Option<Time>,
    /// After how many seconds of silence it counts as gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
}
