//! How to decide, where users may differ.

use serde::{Deserialize, Serialize};

use crate::money::Money;

/// Whether preferences of pods are respected.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    strum::Display,
    strum::EnumString,
)]
pub enum PreferencePolicy {
    /// As long as they can be met.
    #[default]
    Respect,
    /// Only rules count.
    Ignore,
}

/// What happens when a pool's `minValues` cannot be met.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    strum::Display,
    strum::EnumString,
)]
pub enum MinValuesPolicy {
    /// The pool cannot take the pod.
    #[default]
    Strict,
    /// As many as there are will do.
    BestEffort,
}

/// Knobs of a decision.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Settings {
    /// Whether preferences are respected.
    pub preferences: PreferencePolicy,
    /// What preferences may cost, in percent of the cheapest plan without them; `None` for whatever they cost, as Karpenter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preference_cap: Option<u32>,
    /// What happens when `minValues` cannot be met.
    pub min_values: MinValuesPolicy,
    /// What every node costs beside its price: licences, monitoring.
    pub node_surcharge: Money,
    /// The largest share of new machines, in percent, that one spot offering may have: so many whole machines, and at
    /// least one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spot_share: Option<u32>,
    /// How many new machines there may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_new_nodes: Option<u32>,
}
