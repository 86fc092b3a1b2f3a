//! `karpenter.ovhcloud.sh/v1alpha1` OVHNodeClass: in which OVHcloud project and cluster nodes are made.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::condition::Condition;

/// In which project and cluster nodes are made, and how.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpenter.ovhcloud.sh",
    version = "v1alpha1",
    kind = "OVHNodeClass",
    plural = "ovhnodeclasses",
    doc = "Settings of OVHcloud for a NodePool: the project, the cluster, and how node pools are made there.",
    category = "karpenter",
    shortname = "ovhnc",
    shortname = "ovhncs",
    status = "OVHNodeClassStatus",
    derive = "PartialEq",
    printcolumn(name = "Region", type_ = "string", json_path = ".status.region"),
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
        name = "Service",
        type_ = "string",
        json_path = ".spec.serviceName",
        priority = 1
    ),
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = ".status.kubeId",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
pub struct OVHNodeClassSpec {
    /// Id of the Public Cloud project: 32 hexadecimal digits.
    pub service_name: String,
    /// Id of the Managed Kubernetes cluster; found by itself if left out or empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_id: Option<String>,
    /// Region, such as `GRA7` or `EU-WEST-PAR`; found by itself if left out or empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Secret with the keys `applicationKey`, `applicationSecret` and `consumerKey`; without it, the credentials that
    /// the controller was started with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<CredentialsRef>,
    /// Pays by the month instead of by the hour. Only flavours of the second generation (b2, c2, d2, r2) can; others
    /// are paid by the hour all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false))]
    pub monthly_billed: Option<bool>,
    /// Puts the nodes of a node pool on different hypervisors; at most five nodes fit such a pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false))]
    pub anti_affinity: Option<bool>,
    /// Labels for the nodes of every node pool that is made.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
}

/// Where the credentials are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct CredentialsRef {
    /// Name of the Secret.
    pub name: String,
    /// Namespace of the Secret.
    pub namespace: String,
}

/// What has been found out about an OVHNodeClass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct OVHNodeClassStatus {
    /// Whether it is valid and its credentials suffice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
    /// Flavours that the region offers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub discovered_flavors: Vec<String>,
    /// Cluster in use, given or found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_id: Option<String>,
    /// Region in use, given or found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
}

/// Conditions with hardly a rule, as the original has them.
fn conditions(_: &mut SchemaGenerator) -> Schema {
    let text = || json!({ "type": "string" });
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "type": text(),
                "status": text(),
                "reason": text(),
                "message": text(),
                "lastTransitionTime": { "type": "string", "format": "date-time" },
                "observedGeneration": { "type": "integer", "format": "int64" },
            },
            "required": ["type"],
        },
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    })
}

impl OVHNodeClassSpec {
    /// The cluster, if one is named.
    pub fn kube_id(&self) -> Option<&str> {
        self.kube_id.as_deref().filter(|id| !id.is_empty())
    }

    /// The region, if one is named.
    pub fn region(&self) -> Option<&str> {
        self.region.as_deref().filter(|region| !region.is_empty())
    }
}
