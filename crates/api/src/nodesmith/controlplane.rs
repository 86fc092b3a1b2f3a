//! `kubenodesmith.parawell.cloud/v1alpha1` NodeSmithControlPlane: which pools are managed.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;

/// Which pools are managed.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kubenodesmith.parawell.cloud",
    version = "v1alpha1",
    kind = "NodeSmithControlPlane",
    namespaced,
    doc = "Names the pools of its namespace that are managed; others are left alone.",
    shortname = "nscp",
    status = "NodeSmithControlPlaneStatus",
    derive = "PartialEq",
    printcolumn(name = "Pools", type_ = "string", json_path = ".spec.pools"),
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
pub struct NodeSmithControlPlaneSpec {
    /// Names of the NodeSmithPools to manage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<String>,
}

/// What has been found out about a NodeSmithControlPlane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct NodeSmithControlPlaneStatus {
    /// Whether its pools and their providers are there and usable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// When it was last looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_sync_time: Option<Time>,
    /// Generation that was last looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
