//! `autoscaling.x-k8s.io/v1beta1` CapacityBuffer: room that is kept free for pods to come.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::text::ResourceList;

/// How much room to keep free, and for pods of what shape.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "autoscaling.x-k8s.io",
    version = "v1beta1",
    kind = "CapacityBuffer",
    namespaced,
    doc = "Room kept free in the cluster, so that pods to come start at once instead of waiting for a machine.",
    category = "autoscaling",
    shortname = "cb",
    status = "CapacityBufferStatus",
    derive = "PartialEq",
    printcolumn(
        name = "Strategy",
        type_ = "string",
        json_path = ".spec.provisioningStrategy",
        description = "How the room is kept"
    ),
    printcolumn(
        name = "PodTemplate",
        type_ = "string",
        json_path = ".status.podTemplateRef.name",
        description = "Shape of one piece"
    ),
    printcolumn(
        name = "Replicas",
        type_ = "integer",
        json_path = ".status.replicas",
        description = "How many pieces are kept"
    ),
    printcolumn(
        name = "ConditionsType",
        type_ = "string",
        json_path = ".status.conditions[*].type",
        description = "Types of all conditions"
    ),
    printcolumn(
        name = "ConditionsStatus",
        type_ = "string",
        json_path = ".status.conditions[*].status",
        description = "Statuses of all conditions"
    ),
    printcolumn(
        name = "ConditionsReason",
        type_ = "string",
        json_path = ".status.conditions[*].reason",
        description = "Reasons of all conditions"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Since when it is there"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "message": "If podTemplateRef is set, replicas or limits must also be set",
        "rule": "!has(self.podTemplateRef) || has(self.replicas) || has(self.limits)"
    },
    {
        "message": "You must define either PodTemplateRef or ScalableRef, but not both",
        "rule": "!(has(self.podTemplateRef) && has(self.scalableRef))"
    }
]))]
pub struct CapacityBufferSpec {
    /// How the room is kept; `buffer.x-k8s.io/active-capacity` buys machines for it ahead of need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "buffer.x-k8s.io/active-capacity"))]
    pub provisioning_strategy: Option<String>,
    /// Pod template in the same namespace whose pods would fit one piece each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<LocalObjectRef>,
    /// Workload whose pods would fit one piece each; any kind that can be scaled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scalable_ref: Option<ScalableRef>,
    /// How many pieces to keep; with a percentage too, the smaller of both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0))]
    pub replicas: Option<i32>,
    /// How many pieces to keep for every hundred replicas of the workload, rounded up to at least one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0))]
    pub percentage: Option<i32>,
    /// What all pieces together may not exceed, by resource; without a number of pieces, as many as fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<ResourceList>,
}

/// Reference to an object in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct LocalObjectRef {
    /// Name.
    #[schemars(extend("minLength" = 1))]
    pub name: String,
}

/// Reference to a workload that can be scaled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ScalableRef {
    /// API group; empty for the core group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
    /// Kind.
    #[schemars(extend("minLength" = 1))]
    pub kind: String,
    /// Name.
    #[schemars(extend("minLength" = 1))]
    pub name: String,
}

/// What has become of a buffer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct CapacityBufferStatus {
    /// Pod template that the pieces are shaped after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<LocalObjectRef>,
    /// Generation of that template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_generation: Option<i64>,
    /// How many pieces are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// How the room is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioning_strategy: Option<String>,
    /// Whether the buffer is understood and filled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}
