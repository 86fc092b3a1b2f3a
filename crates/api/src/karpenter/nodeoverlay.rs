//! `karpenter.sh/v1alpha1` NodeOverlay: corrections to what providers say about prices and capacity.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::scheduling::NodeSelectorRequirement;
use crate::text::{Price, PriceAdjustment, ResourceList};

/// Which machine types to correct, and how.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpenter.sh",
    version = "v1alpha1",
    kind = "NodeOverlay",
    doc = "Corrects prices or adds resources of machine types before decisions are made: discounts, licences, devices that the provider does not list.",
    category = "karpenter",
    shortname = "overlays",
    status = "NodeOverlayStatus",
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
    ),
    printcolumn(
        name = "Weight",
        type_ = "integer",
        json_path = ".spec.weight",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "message": "cannot set both 'price' and 'priceAdjustment'",
    "rule": "!has(self.price) || !has(self.priceAdjustment)"
}]))]
pub struct NodeOverlaySpec {
    /// Which offerings it is for; all must hold. Labels of the pool and of the machine type count.
    #[schemars(schema_with = "super::schema::overlay_requirements")]
    pub requirements: Vec<NodeSelectorRequirement>,
    /// Price to use instead of the provider's, in dollars per hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = r"^\d+(\.\d+)?$"))]
    pub price: Option<Price>,
    /// What to add to the provider's price (`-0.5`) or by how much to change it (`+10%`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "pattern" = r"^(([+-]{1}(\d*\.?\d+))|(\+{1}\d*\.?\d+%)|(^(-\d{1,2}(\.\d+)?%)$)|(-100%))$"
    ))]
    pub price_adjustment: Option<PriceAdjustment>,
    /// Extended resources that the machines have in addition; cpu, memory, pods and ephemeral storage stay as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [{
        "message": "invalid resource restricted",
        "rule": "self.all(x, !(x in ['cpu', 'memory', 'ephemeral-storage', 'pods']))"
    }]))]
    pub capacity: Option<ResourceList>,
    /// Which overlay wins where several touch the same thing: the heavier one; none counts as 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1, "maximum" = 10000))]
    pub weight: Option<i32>,
}

/// What has been found out about a NodeOverlay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct NodeOverlayStatus {
    /// Whether it is valid and applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}
