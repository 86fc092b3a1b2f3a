//! `kubenodesmith.parawell.cloud/v1alpha1` NodeSmithProvider: where machines come from.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::condition::Condition;
use crate::hardware::{HardwarePrice, ProxmoxSettings, RedfishSettings, SecretReference};

/// Where machines come from.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kubenodesmith.parawell.cloud",
    version = "v1alpha1",
    kind = "NodeSmithProvider",
    namespaced,
    doc = "Own hardware that machines come from: a Proxmox VE cluster, or hosts that Redfish can switch on and off.",
    shortname = "nspr",
    status = "NodeSmithProviderStatus",
    derive = "PartialEq",
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.type"),
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
        "message": "type must be one of: proxmox, redfish",
        "rule": "self.type in ['proxmox', 'redfish']"
    },
    {
        "message": "proxmox field required when type is 'proxmox'",
        "rule": "self.type == 'proxmox' ? has(self.proxmox) : true"
    },
    {
        "message": "redfish field required when type is 'redfish': list the hosts in redfish.hosts",
        "rule": "self.type == 'redfish' ? has(self.redfish) : true"
    },
    {
        "message": "proxmox.vmIDRange required when type is 'proxmox': write the numbers that machines may have, such as {lower: 1250, upper: 1300}",
        "rule": "self.type == 'proxmox' && has(self.proxmox) ? has(self.proxmox.vmIDRange) : true"
    },
    {
        "message": "credentialsSecretRef.name required when type is 'proxmox': name a Secret with the keys PROXMOX_TOKEN_ID and PROXMOX_SECRET",
        "rule": "self.type == 'proxmox' ? has(self.credentialsSecretRef) && has(self.credentialsSecretRef.name) && self.credentialsSecretRef.name != '' : true"
    }
]))]
pub struct NodeSmithProviderSpec {
    /// Which kind of hardware: `proxmox` or `redfish`.
    #[serde(rename = "type")]
    #[schemars(schema_with = "plain_text")]
    pub type_: ProviderType,
    /// Secret with the credentials: for Proxmox the keys `PROXMOX_TOKEN_ID` and `PROXMOX_SECRET`, for Redfish
    /// `username` and `password`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<SecretReference>,
    /// The Proxmox VE cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxmox: Option<ProxmoxSettings>,
    /// The hosts that Redfish can switch on and off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redfish: Option<RedfishSettings>,
    /// What the hardware is worth, where it is compared with what is for rent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<HardwarePrice>,
    /// Kept for other tools; Joiner reads nothing here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "additional_settings")]
    pub additional_settings: BTreeMap<String, Value>,
}

/// Kind of hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ProviderType {
    /// Virtual machines on Proxmox VE.
    Proxmox,
    /// Bare metal behind Redfish.
    Redfish,
}

/// Text whose values a rule of the whole spec lists.
fn plain_text(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string" })
}

fn additional_settings(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
    })
}

/// What has been found out about a NodeSmithProvider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct NodeSmithProviderStatus {
    /// Whether it can be reached and used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Generation that was last looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
