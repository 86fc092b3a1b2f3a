//! `kubenodesmith.parawell.cloud/v1alpha1` NodeSmithPool: how many machines, and what they are called.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::keys::POOL_LABEL;
use crate::condition::Condition;
use crate::scheduling::Taint;
use crate::text::Duration;

/// What a NodeSmithPool asks for.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kubenodesmith.parawell.cloud",
    version = "v1alpha1",
    kind = "NodeSmithPool",
    namespaced,
    doc = "A pool of machines on own hardware: from which provider, how many, and how they are labelled.",
    shortname = "nsp",
    status = "NodeSmithPoolStatus",
    derive = "PartialEq",
    printcolumn(name = "Provider", type_ = "string", json_path = ".spec.providerRef"),
    printcolumn(name = "Min", type_ = "integer", json_path = ".spec.limits.minNodes"),
    printcolumn(name = "Max", type_ = "integer", json_path = ".spec.limits.maxNodes"),
    printcolumn(name = "Nodes", type_ = "integer", json_path = ".status.nodes"),
    printcolumn(
        name = "Available",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Available")].status"#
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct NodeSmithPoolSpec {
    /// NodeSmithProvider in the same namespace that machines come from.
    pub provider_ref: String,
    /// Label that tells which pool a node belongs to; its value is the pool's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = POOL_LABEL))]
    pub pool_label_key: Option<String>,
    /// How many machines, and how large all of them together.
    pub limits: PoolLimits,
    /// What nodes of the pool have in common.
    pub machine_template: MachineTemplate,
    /// When it may grow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_up: Option<ScalePolicy>,
    /// When it may shrink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_down: Option<ScalePolicy>,
    /// How long a machine may take to become a node before it is given up and another is tried; without it, 5m for
    /// virtual machines and 20m for bare metal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::duration")]
    pub registration_timeout: Option<Duration>,
}

/// Bounds of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline, extend("x-kubernetes-validations" = [
    { "message": "minNodes must be non-negative", "rule": "self.minNodes >= 0" },
    {
        "message": "maxNodes must be zero (unlimited) or >= minNodes",
        "rule": "self.maxNodes == 0 || self.maxNodes >= self.minNodes"
    },
    {
        "message": "cpuCores must be zero (unlimited) or positive",
        "rule": "self.cpuCores == 0 || self.cpuCores > 0"
    },
    {
        "message": "memoryMiB must be zero (unlimited) or positive",
        "rule": "self.memoryMiB == 0 || self.memoryMiB > 0"
    }
]))]
pub struct PoolLimits {
    /// Nodes that are always there.
    #[schemars(schema_with = "crate::schema::int")]
    pub min_nodes: i64,
    /// Nodes at most; 0 means any number.
    #[schemars(schema_with = "crate::schema::int")]
    pub max_nodes: i64,
    /// Cores of all nodes together; 0 means any number.
    pub cpu_cores: i64,
    /// Memory of all nodes together in MiB; 0 means any amount.
    #[serde(rename = "memoryMiB")]
    pub memory_mib: i64,
}

/// What nodes of a pool have in common.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct MachineTemplate {
    /// Labels of its nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of its nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Taints of its nodes; only pods that tolerate them make the pool grow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::node_taints")]
    pub taints: Vec<Taint>,
    /// Taints that its nodes start with and that something else takes off soon.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::node_taints")]
    pub startup_taints: Vec<Taint>,
}

/// When a pool may change its size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ScalePolicy {
    /// How long the reason must last before it is acted upon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::duration")]
    pub stabilization_window: Option<Duration>,
}

/// What has been found out about a NodeSmithPool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct NodeSmithPoolStatus {
    /// Whether it can grow and what it is doing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Machines that it has, those on their way included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::int")]
    pub nodes: Option<i64>,
    /// When it last grew or shrank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_scale_activity: Option<Time>,
    /// Number for the name of the next claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_claim_sequence: Option<i64>,
    /// Generation that was last looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

impl NodeSmithPoolSpec {
    /// Label that tells which pool a node belongs to, with the default filled in.
    pub fn pool_label_key(&self) -> &str {
        self.pool_label_key.as_deref().unwrap_or(POOL_LABEL)
    }
}
