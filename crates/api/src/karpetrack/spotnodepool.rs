//! `karpetrack.io/v1alpha1` SpotNodePool: which Rackspace Spot servers may be bought, and for how much.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::scheduling::{NodeSelectorRequirement, Taint};
use crate::schema::text_rule;
use crate::text::{DurationOrNever, Price, Quantity};

/// What a SpotNodePool asks for. All of it is optional: an empty spec takes any server but those with GPUs.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpetrack.io",
    version = "v1alpha1",
    kind = "SpotNodePool",
    doc = "A pool of Rackspace Spot servers: where they may stand, of what kind, and what they may cost.",
    shortname = "snp",
    status = "SpotNodePoolStatus",
    derive = "PartialEq",
    printcolumn(name = "Nodes", type_ = "integer", json_path = ".status.nodeCount"),
    printcolumn(name = "Price", type_ = "string", json_path = ".status.pricePerHour"),
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
        name = "MaxPrice",
        type_ = "string",
        json_path = ".spec.maxPrice",
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
    )
)]
#[serde(rename_all = "camelCase")]
pub struct SpotNodePoolSpec {
    /// Regions where servers may stand, such as `us-east-iad-1`; none listed means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "regions")]
    pub regions: Vec<String>,
    /// Categories of servers: `gp` (general purpose), `ch` (compute heavy), `mh` (memory heavy) and `gpu`, or their
    /// long names; none listed means all but `gpu`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "categories")]
    pub categories: Vec<Category>,
    /// What one server may cost at most, in dollars per hour; `0` means no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::price")]
    pub max_price: Option<Price>,
    /// What its servers must be; all must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::node_requirements")]
    pub requirements: Vec<NodeSelectorRequirement>,
    /// What all its servers together may never exceed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<ResourceLimits>,
    /// When its nodes may be disturbed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disruption: Option<Disruption>,
    /// Taints of its nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::node_taints")]
    pub taints: Vec<Taint>,
    /// Labels of its nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::schema::node_labels")]
    pub labels: BTreeMap<String, String>,
}

/// A category of servers, by its short or its long name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Category(String);

impl Category {
    const NAMES: [(&'static str, &'static str); 4] = [
        ("gp", "general purpose"),
        ("ch", "compute heavy"),
        ("mh", "memory heavy"),
        ("gpu", "gpu"),
    ];

    /// Its short name: `gp`, `ch`, `mh` or `gpu`; `None` if there is no such category.
    pub fn short(&self) -> Option<&'static str> {
        let lower = self.0.to_ascii_lowercase();
        Self::NAMES
            .iter()
            .find(|(short, long)| lower == *short || lower == *long)
            .map(|(short, _)| *short)
    }

    /// As written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Category {
    fn from(text: &str) -> Self {
        Category(text.to_owned())
    }
}

/// Whether a text can be the name of a region: words joined by dashes, never the short form of a site.
pub(super) fn is_region(text: &str) -> bool {
    let word = |word: &str| {
        let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        !word.is_empty() && word.chars().all(good)
    };
    text.contains('-') && text.split('-').all(word)
}

fn regions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 64,
        "items": {
            "type": "string",
            "maxLength": 63,
            "x-kubernetes-validations": text_rule(
                "self.matches('^[a-z0-9]+(-[a-z0-9]+)+$')",
                "a region",
                "write its whole name, such as us-east-iad-1, or no list at all for every region",
            ),
        },
    })
}

fn categories(_: &mut SchemaGenerator) -> Schema {
    let mut names = Vec::new();
    for (short, long) in Category::NAMES {
        names.push(format!("'{short}'"));
        if long != short {
            names.push(format!("'{long}'"));
        }
    }
    json_schema!({
        "type": "array",
        "maxItems": 16,
        "items": {
            "type": "string",
            "maxLength": 32,
            "x-kubernetes-validations": text_rule(
                &format!("self.lowerAscii() in [{}]", names.join(", ")),
                "a category",
                "it is one of gp, ch, mh, gpu",
            ),
        },
    })
}

/// Totals by resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ResourceLimits {
    /// Cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::limit")]
    pub cpu: Option<Quantity>,
    /// Memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::limit")]
    pub memory: Option<Quantity>,
    /// Local disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::limit")]
    pub ephemeral_storage: Option<Quantity>,
}

/// Which nodes may be taken away to save money.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline, description = "")]
pub enum ConsolidationPolicy {
    /// Empty ones only.
    #[default]
    WhenEmpty,
    /// Any whose pods fit elsewhere.
    WhenUnderutilized,
}

/// When nodes may be disturbed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Disruption {
    /// Which nodes may be taken away to save money: empty ones, or any whose pods fit elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consolidation_policy: Option<ConsolidationPolicy>,
    /// How long a node must have been empty or underused before it goes, or `Never`; without it, the controller's
    /// grace period for empty nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::duration_or_never")]
    pub consolidate_after: Option<DurationOrNever>,
    /// How old a node may get before it is replaced, or `Never`; without it, as old as it likes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::duration_or_never")]
    pub expire_after: Option<DurationOrNever>,
}

/// What has been found out about a SpotNodePool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct SpotNodePoolStatus {
    /// What all its nodes together have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceLimits>,
    /// How many nodes it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_count: Option<i32>,
    /// What all its nodes together cost now, in dollars per hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_per_hour: Option<Price>,
    /// Whether it is valid and able to buy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_are_known_by_short_and_long_names_in_any_case() {
        for (text, short) in [
            ("gp", Some("gp")),
            ("General Purpose", Some("gp")),
            ("compute heavy", Some("ch")),
            ("MH", Some("mh")),
            ("GPU", Some("gpu")),
            ("bm", None),
            ("", None),
        ] {
            assert_eq!(Category::from(text).short(), short, "{text}");
        }
    }
}
