//! `karpenter.sh/v1` NodePool: on which terms nodes are bought, kept and taken away.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema::{DURATION, DURATION_OR_NEVER};
use crate::condition::Condition;
use crate::scheduling::{NodeSelectorRequirement, Taint};
use crate::text::{BudgetNodes, Duration, DurationOrNever, ResourceList};

/// What a NodePool asks for.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpenter.sh",
    version = "v1",
    kind = "NodePool",
    doc = "A pool of nodes: which machines it may buy, how many, and when they may be taken away again.",
    category = "karpenter",
    status = "NodePoolStatus",
    derive = "PartialEq",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.nodes"
    ),
    printcolumn(
        name = "NodeClass",
        type_ = "string",
        json_path = ".spec.template.spec.nodeClassRef.name"
    ),
    printcolumn(name = "Nodes", type_ = "string", json_path = ".status.nodes"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(
        name = "Capacity",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="CapacityAvailable")].reason"#
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
    ),
    printcolumn(
        name = "CPU",
        type_ = "string",
        json_path = ".status.resources.cpu",
        priority = 1
    ),
    printcolumn(
        name = "Memory",
        type_ = "string",
        json_path = ".status.resources.memory",
        priority = 1
    ),
    printcolumn(
        name = "Price",
        type_ = "string",
        json_path = ".status.pricePerHour",
        priority = 1
    ),
    printcolumn(
        name = "LimitReached",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="LimitReached")].status"#,
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "message": "Cannot transition NodePool between static (replicas set) and dynamic (replicas unset) provisioning modes",
        "rule": "has(self.replicas) == has(oldSelf.replicas)"
    },
    {
        "message": "only 'limits.nodes' is supported on static NodePools",
        "rule": "!has(self.replicas) || (!has(self.limits) || size(self.limits) == 0 || (size(self.limits) == 1 && 'nodes' in self.limits))"
    },
    {
        "message": "'weight' is not supported on static NodePools",
        "rule": "!has(self.replicas) || !has(self.weight)"
    }
]))]
pub struct NodePoolSpec {
    /// What its nodes are made from.
    pub template: NodeClaimTemplate,
    /// When and how far its nodes may be disturbed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = {"consolidateAfter": "0s"}))]
    pub disruption: Option<Disruption>,
    /// What all its nodes together may never exceed, by resource; `nodes` limits their number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::limits")]
    pub limits: Option<ResourceList>,
    /// Pools of greater weight are asked first; none counts as 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1, "maximum" = 100))]
    pub weight: Option<i32>,
    /// Keeps exactly so many nodes, whatever the pods ask for. A pool is static from its creation or never; a static
    /// one is not consolidated, has no weight, and knows no limit but that on its number of nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0))]
    pub replicas: Option<i64>,
}

/// What the nodes of a pool are made from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct NodeClaimTemplate {
    /// Labels and annotations of its nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<NodeClaimTemplateMeta>,
    /// Everything else about its nodes.
    pub spec: NodeClaimTemplateSpec,
}

/// Labels and annotations for nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct NodeClaimTemplateMeta {
    /// Labels that every node gets; pods may select by them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "super::schema::labels")]
    pub labels: BTreeMap<String, String>,
    /// Annotations that every node gets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-kubernetes-map-type" = "granular"))]
    pub annotations: BTreeMap<String, String>,
}

/// What every node of a pool is like.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct NodeClaimTemplateSpec {
    /// Where the provider's own settings stand.
    #[schemars(schema_with = "super::schema::pool_class_ref")]
    pub node_class_ref: NodeClassRef,
    /// What its machines must be; all must hold.
    #[schemars(schema_with = "super::schema::pool_requirements")]
    pub requirements: Vec<NodeSelectorRequirement>,
    /// Taints of its nodes; only pods that tolerate them make the pool buy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::schema::taints")]
    pub taints: Vec<Taint>,
    /// Taints that its nodes start with and that something else takes off soon, a daemon set for example; pods need
    /// not tolerate them for the pool to buy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::schema::taints")]
    pub startup_taints: Vec<Taint>,
    /// How old a node may get before it is replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "720h", "pattern" = DURATION_OR_NEVER))]
    pub expire_after: Option<DurationOrNever>,
    /// How long a drain may last before the pods that are left are deleted, whatever holds them: it overrides
    /// disruption budgets, do-not-disrupt and the pods' own grace periods. Without it a drain lasts as long as it needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = DURATION))]
    pub termination_grace_period: Option<Duration>,
}

/// Reference to a node class, which holds what only one provider understands.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct NodeClassRef {
    /// API group, without a version.
    #[schemars(extend(
        "pattern" = "^[^/]*$",
        "x-kubernetes-validations" = [{"message": "group may not be empty", "rule": "self != ''"}]
    ))]
    pub group: String,
    /// Kind.
    #[schemars(extend(
        "x-kubernetes-validations" = [{"message": "kind may not be empty", "rule": "self != ''"}]
    ))]
    pub kind: String,
    /// Name.
    #[schemars(extend(
        "x-kubernetes-validations" = [{"message": "name may not be empty", "rule": "self != ''"}]
    ))]
    pub name: String,
}

/// Which nodes may be taken away to save money.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline, description = "")]
pub enum ConsolidationPolicy {
    /// Empty ones only.
    WhenEmpty,
    /// Any, if it pays.
    #[default]
    WhenEmptyOrUnderutilized,
    /// Any, if what it saves is in proportion to the pods that must move.
    Balanced,
}

/// When and how far the nodes of a pool may be disturbed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Disruption {
    /// How long no pod may have come or gone before a node is looked at; `Never` turns consolidation off.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required, extend("pattern" = DURATION_OR_NEVER))]
    pub consolidate_after: Option<DurationOrNever>,
    /// Which nodes may be taken away to save money: empty ones, any, or any if the saving is worth the moves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "WhenEmptyOrUnderutilized"))]
    pub consolidation_policy: Option<ConsolidationPolicy>,
    /// How many nodes may be on their way out at once; the strictest budget that is active counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "default" = [{"nodes": "10%"}],
        "maxItems" = 50,
        "x-kubernetes-list-type" = "atomic",
        "x-kubernetes-validations" = [{
            "message": "'schedule' must be set with 'duration'",
            "rule": "self.all(x, has(x.schedule) == has(x.duration))"
        }]
    ))]
    pub budgets: Option<Vec<Budget>>,
}

/// Why a node is taken away although it works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(inline, description = "")]
pub enum DisruptionReason {
    /// The same pods run cheaper elsewhere.
    Underutilized,
    /// Nothing runs on it.
    Empty,
    /// It is no longer what its pool asks for.
    Drifted,
}

/// A bound on how many nodes of a pool may be on their way out at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Budget {
    /// How many: a number, or a percentage of the pool's nodes, rounded up.
    #[schemars(extend("default" = "10%", "pattern" = "^((100|[0-9]{1,2})%|[0-9]+)$"))]
    pub nodes: BudgetNodes,
    /// Which reasons it holds back; none listed means all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = 50, "x-kubernetes-list-type" = "set"))]
    pub reasons: Vec<DisruptionReason>,
    /// When it becomes active: five cron fields in UTC, or a word such as `@daily`. Comes with a duration; without
    /// both, the budget is always active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "pattern" = r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$"
    ))]
    pub schedule: Option<String>,
    /// How long it stays active from each hit of the schedule, in hours and minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$"))]
    pub duration: Option<Duration>,
}

/// What has been found out about a NodePool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct NodePoolStatus {
    /// What all its nodes together offer, by resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceList>,
    /// How many nodes it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 0))]
    pub nodes: Option<i64>,
    /// What all its nodes together cost at today's prices, in dollars per hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_per_hour: Option<String>,
    /// Generation of its node class that was last seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_class_observed_generation: Option<i64>,
    /// Whether it is healthy and ready to buy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}

impl NodePoolSpec {
    /// Its disruption settings with what is left out filled in.
    pub fn disruption(&self) -> Disruption {
        let disruption = self.disruption.clone().unwrap_or_default();
        Disruption {
            consolidate_after: disruption.consolidate_after.or_else(|| Some("0s".into())),
            consolidation_policy: disruption
                .consolidation_policy
                .or(Some(ConsolidationPolicy::WhenEmptyOrUnderutilized)),
            budgets: disruption.budgets.or_else(|| {
                Some(vec![Budget {
                    nodes: "10%".into(),
                    ..Budget::default()
                }])
            }),
        }
    }
}

impl NodeClaimTemplateSpec {
    /// How old a node may get, with the default filled in.
    pub fn expire_after(&self) -> DurationOrNever {
        self.expire_after.clone().unwrap_or_else(|| "720h".into())
    }
}
