//! `gpu.devplatforms.io/v1alpha1` LeftoverNodePool: which GPU instances to look for, and where.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::text::{BudgetNodes, DurationOrNever, TaintText};

/// Which GPU instances to look for, and what the NodePool that offers them looks like.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "gpu.devplatforms.io",
    version = "v1alpha1",
    kind = "LeftoverNodePool",
    doc = "Looks for the cheapest GPU instances of a region and keeps a NodePool that offers them to Karpenter on AWS.",
    category = "gpu",
    category = "leftover",
    shortname = "lonp",
    status = "LeftoverNodePoolStatus",
    derive = "PartialEq",
    printcolumn(name = "Region", type_ = "string", json_path = ".spec.region"),
    printcolumn(
        name = "Types",
        type_ = "string",
        json_path = ".status.selectedInstanceTypes"
    ),
    printcolumn(name = "Zones", type_ = "string", json_path = ".status.selectedZones"),
    printcolumn(name = "Price", type_ = "string", json_path = ".status.lastPriceUSD"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(name = "Synced", type_ = "date", json_path = ".status.lastSyncTime"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Capacity",
        type_ = "string",
        json_path = ".spec.capacityType",
        priority = 1
    ),
    printcolumn(
        name = "Score",
        type_ = "integer",
        json_path = ".status.lastScore",
        priority = 1
    ),
    printcolumn(
        name = "Best region",
        type_ = "string",
        json_path = ".status.recommendedRegion",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "message": "only one of nodeClassName or nodeClassSelector may be set",
        "rule": "!(has(self.nodeClassName) && has(self.nodeClassSelector))"
    },
    {
        "message": "only one of role or instanceProfile may be set",
        "rule": "!(has(self.role) && has(self.instanceProfile))"
    }
]))]
pub struct LeftoverNodePoolSpec {
    /// AWS region, such as `eu-central-1`.
    #[schemars(schema_with = "region")]
    pub region: String,
    /// Other AWS regions to compare with this one; the best is recommended in the status. Instances are offered in
    /// `region` only, because a cluster's Karpenter launches in the region of the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "regions")]
    pub regions: Vec<String>,
    /// What follows from the comparison: `Recommend` changes nothing; with `BestOnly` no new nodes are offered here while
    /// another region is clearly cheaper, so that the same object in a cluster of each region has them where they are cheapest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Recommend"))]
    pub region_policy: Option<RegionPolicy>,
    /// Instance families, such as `g5`, `g6` or `p5`; a shorter name stands for all that begin with it. None listed
    /// means any with GPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "families")]
    pub families: Vec<String>,
    /// GPUs that an instance must have at least.
    #[serde(rename = "minGPUs", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::int", extend("default" = 1, "minimum" = 1))]
    pub min_gpus: Option<i64>,
    /// How many instances placement scores are asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 2))]
    pub target_count: Option<i32>,
    /// Spot placement score, from 0 to 10, below which a zone is not viable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 5, "minimum" = 0, "maximum" = 10))]
    pub min_spot_score: Option<i32>,
    /// How many instance types to offer at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::int", extend("default" = 5, "minimum" = 1))]
    pub max_instance_types: Option<i64>,
    /// How many zones to offer at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::int", extend("default" = 2, "minimum" = 1))]
    pub max_zones: Option<i64>,
    /// `spot`, or `on-demand`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "spot"))]
    pub capacity_type: Option<CapacityType>,
    /// EC2NodeClass to use instead of one that is made for the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_class_name: Option<String>,
    /// Labels of the one EC2NodeClass to use instead of one that is made for the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_class_selector: Option<BTreeMap<String, String>>,
    /// Tags of the subnets of the nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub subnet_selector_tags: BTreeMap<String, String>,
    /// Tags of the security groups of the nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub security_group_selector_tags: BTreeMap<String, String>,
    /// IAM role of the nodes; without it, the one that the controller was started with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minLength" = 1))]
    pub role: Option<String>,
    /// IAM instance profile of the nodes, instead of a role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minLength" = 1))]
    pub instance_profile: Option<String>,
    /// Image of the nodes, as family and version: `al2023@latest`, `bottlerocket@v1.20.3`; without it, the one
    /// that the controller was started with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxLength" = 30, "pattern" = "^[a-z0-9]+@.+$"))]
    pub ami_alias: Option<String>,
    /// How many nodes may be on their way out at once: a number, or a percentage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "budget")]
    pub budgets_nodes: Option<BudgetNodes>,
    /// How long no pod may have come or gone before a node is looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "consolidate_after")]
    pub consolidate_after: Option<DurationOrNever>,
    /// Labels of the nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Taints of the nodes, as `key=value:Effect` or `key:Effect`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "taints")]
    pub taints: Vec<TaintText>,
    /// After how many minutes to look again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::int", extend("default" = 7, "minimum" = 1))]
    pub requeue_minutes: Option<i64>,
    /// Offers on-demand instances while no spot instance is viable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = true))]
    pub on_demand_fallback: Option<bool>,
}

/// How instances are paid for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline, description = "")]
pub enum CapacityType {
    /// Spare capacity at a moving price; AWS may take it back.
    #[default]
    Spot,
    /// At the list price.
    OnDemand,
}

/// What follows from a comparison of regions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline, description = "")]
pub enum RegionPolicy {
    /// The best is named in the status.
    #[default]
    Recommend,
    /// New nodes are offered only while no other region is clearly cheaper.
    BestOnly,
}

/// A region as it compares with others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct RegionStatus {
    /// AWS region.
    pub region: String,
    /// Instance type that is cheapest per GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_type: Option<String>,
    /// Zone where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Its price per GPU, in dollars per hour.
    #[serde(
        rename = "pricePerGPU",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub price_per_gpu: Option<String>,
    /// Spot placement score of the region as a whole, from 0 to 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::int")]
    pub score: Option<i64>,
    /// Why it cannot be recommended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// What has been found out about a LeftoverNodePool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct LeftoverNodePoolStatus {
    /// Instance types on offer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub selected_instance_types: Vec<String>,
    /// Zones on offer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub selected_zones: Vec<String>,
    /// Price of the cheapest of them, in dollars per hour.
    #[serde(
        rename = "lastPriceUSD",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub last_price_usd: Option<String>,
    /// Spot placement score of the best zone, from 0 to 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::int")]
    pub last_score: Option<i64>,
    /// How what is selected is paid for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected_capacity_type: Option<CapacityType>,
    /// When the selection last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_change_time: Option<Time>,
    /// Of when the prices are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices_as_of: Option<Time>,
    /// Of when the placement scores are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scores_as_of: Option<Time>,
    /// Region to prefer, of those that are compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recommended_region: Option<String>,
    /// The regions that are compared, the best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub regions: Vec<RegionStatus>,
    /// When AWS was last asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_sync_time: Option<Time>,
    /// Whether something is on offer, and whether it is second best.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}

impl LeftoverNodePoolSpec {
    /// GPUs that an instance must have, with the default filled in.
    pub fn min_gpus(&self) -> i64 {
        self.min_gpus.unwrap_or(1)
    }

    /// How many instances to ask placement scores for, with the default filled in; never less than one.
    pub fn target_count(&self) -> i32 {
        self.target_count.unwrap_or(2).max(1)
    }

    /// Placement score below which a zone is not viable, with the default filled in.
    pub fn min_spot_score(&self) -> i32 {
        self.min_spot_score.unwrap_or(5)
    }

    /// How many instance types to offer, with the default filled in.
    pub fn max_instance_types(&self) -> i64 {
        self.max_instance_types.unwrap_or(5)
    }

    /// How many zones to offer, with the default filled in.
    pub fn max_zones(&self) -> i64 {
        self.max_zones.unwrap_or(2)
    }

    /// How instances are paid for, with the default filled in.
    pub fn capacity_type(&self) -> CapacityType {
        self.capacity_type.unwrap_or_default()
    }

    /// How many nodes may be on their way out, with the default filled in.
    pub fn budgets_nodes(&self) -> BudgetNodes {
        self.budgets_nodes.clone().unwrap_or_else(|| "10%".into())
    }

    /// How long to wait before a node is looked at, with the default filled in.
    pub fn consolidate_after(&self) -> DurationOrNever {
        self.consolidate_after
            .clone()
            .unwrap_or_else(|| "2m".into())
    }

    /// After how many minutes to look again, with the default filled in.
    pub fn requeue_minutes(&self) -> i64 {
        self.requeue_minutes.unwrap_or(7)
    }

    /// The regions to compare, this one among them; none where there is nothing to compare.
    pub fn compared_regions(&self) -> BTreeSet<String> {
        let mut all: BTreeSet<String> = self.regions.iter().cloned().collect();
        all.insert(self.region.clone());
        if all.len() < 2 {
            all.clear();
        }
        all
    }

    /// What follows from the comparison, with the default filled in.
    pub fn region_policy(&self) -> RegionPolicy {
        self.region_policy.unwrap_or_default()
    }

    /// Whether on-demand instances may stand in, with the default filled in; moot where they are asked for anyway.
    pub fn on_demand_fallback(&self) -> bool {
        self.capacity_type() == CapacityType::Spot && self.on_demand_fallback.unwrap_or(true)
    }
}

fn region(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "minLength": 1,
        "maxLength": 32,
        "x-kubernetes-validations": [{
            "rule": "self.matches('^[a-z]+(-[a-z0-9]+)+-[0-9]+$')",
            "message": "spec.region is no AWS region; expected like eu-central-1",
            "messageExpression": "'spec.region \"' + self + '\" is no AWS region; expected like eu-central-1'",
        }],
    })
}

/// AWS scores ten regions at once; one of them is the cluster's.
fn regions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 9,
        "items": {
            "type": "string",
            "maxLength": 32,
            "x-kubernetes-validations": [{
                "rule": "self.matches('^[a-z]+(-[a-z0-9]+)+-[0-9]+$')",
                "message": "spec.regions contains a value that is no AWS region; expected like eu-central-1",
                "messageExpression": "'spec.regions contains \"' + self + '\", which is no AWS region; expected like eu-central-1'",
            }],
        },
    })
}

fn families(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 100,
        "items": {
            "type": "string",
            "maxLength": 32,
            "x-kubernetes-validations": [{
                "rule": "self.matches('^[a-z0-9]+[a-z0-9-]*$')",
                "message": "spec.families contains an invalid value; expected like g5, g6, p5, p4d",
                "messageExpression": "'spec.families contains invalid value \"' + self + '\"; expected like g5, g6, p5, p4d'",
            }],
        },
    })
}

fn budget(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "default": "10%",
        "maxLength": 16,
        "x-kubernetes-validations": [{
            "rule": "self.matches('^((100|[0-9]{1,2})%|[0-9]+)$')",
            "message": "spec.budgetsNodes must be a percentage like \"10%\" or a number of nodes like \"3\"",
            "messageExpression": "'spec.budgetsNodes must be a percentage like \"10%\" or a number of nodes like \"3\", not \"' + self + '\"'",
        }],
    })
}

fn consolidate_after(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = crate::schema::duration_or_never(generator).to_value();
    schema["default"] = "2m".into();
    let rule = &mut schema["x-kubernetes-validations"][0];
    let problem = "spec.consolidateAfter must be a valid duration (e.g., \"2m\", \"30s\") or Never";
    rule["message"] = problem.into();
    rule["messageExpression"] = format!("'{problem}, not \"' + self + '\"'").into();
    crate::schema::described(schema)
}

fn taints(_: &mut SchemaGenerator) -> Schema {
    let problem = "is not a taint: write key=value:Effect or key:Effect, where Effect is NoSchedule, PreferNoSchedule or NoExecute";
    json_schema!({
        "type": "array",
        "maxItems": 50,
        "items": {
            "type": "string",
            "maxLength": 512,
            "x-kubernetes-validations": [{
                "rule": "self.matches('^[^ =:,]+(=[^ =:,]*)?:(NoSchedule|PreferNoSchedule|NoExecute)$')",
                "message": format!("spec.taints: a value {problem}"),
                "messageExpression": format!("'spec.taints: \"' + self + '\" {problem}'"),
            }],
        },
    })
}
