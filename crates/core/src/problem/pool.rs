//! Pools: on which terms machines are bought, kept and taken away.

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use crate::money::Money;
use crate::name::{Labels, Name};
use crate::requirement::Expression;
use crate::resources::Resources;
use crate::taints::Taint;

/// What a pool may never exceed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Limits {
    /// Capacity of all its machines together; resources that are not listed are not limited.
    pub resources: Resources,
    /// Number of machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// Dollars per hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Money>,
}

/// Which nodes may be taken away to save money.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    strum::Display,
    strum::EnumString,
)]
pub enum ConsolidationPolicy {
    /// Empty ones only.
    WhenEmpty,
    /// Any, if it pays.
    #[default]
    WhenEmptyOrUnderutilized,
    /// Any, if what it saves is in proportion to the pods that must move.
    Balanced,
}

/// Why a node is taken away although it works.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::Display,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::EnumIter,
)]
pub enum DisruptionReason {
    /// Nothing runs on it.
    Empty,
    /// It is no longer what its pool asks for.
    Drifted,
    /// The same pods run cheaper elsewhere.
    Underutilized,
    /// It is older than its pool allows. Not held back by budgets.
    Expired,
}

/// How many nodes a budget allows to be disrupted at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BudgetAmount {
    /// So many.
    Nodes(u32),
    /// So many in a hundred, rounded up.
    Percent(u8),
}

/// A bound on how many nodes of a pool may be taken away at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Budget {
    /// How many.
    pub amount: BudgetAmount,
    /// For which reasons; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<DisruptionReason>,
    /// Five-field cron in UTC, or `@daily` and its kin; always active when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// How long it is active from each hit of the schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<SignedDuration>,
}

/// When and how far a pool's nodes may be disturbed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Disruption {
    /// Which nodes may go to save money.
    pub policy: ConsolidationPolicy,
    /// How long no pod may have come or gone before a node is looked at; `None` for never.
    pub consolidate_after: Option<SignedDuration>,
    /// All must allow it.
    pub budgets: Vec<Budget>,
    /// What a replacement must save, in percent of what it replaces. Zero: anything cheaper will do.
    pub min_savings: u32,
    /// How old a node must be before it may be replaced to save money.
    pub min_age: SignedDuration,
    /// Whether spot machines may be replaced by cheaper spot machines. A pool that asks for no least saving must then
    /// have many types to choose from, or its machines would chase every wobble of the market.
    pub spot_to_spot: bool,
    /// Whether a node goes for its price alone, whatever the policy and however lately pods came: when a machine at
    /// least as large is to be had for so much less.
    pub price_replacement: bool,
}

impl Default for Disruption {
    fn default() -> Self {
        Disruption {
            policy: ConsolidationPolicy::default(),
            consolidate_after: Some(SignedDuration::ZERO),
            budgets: vec![Budget {
                amount: BudgetAmount::Percent(10),
                reasons: Vec::new(),
                schedule: None,
                duration: None,
            }],
            min_savings: 0,
            min_age: SignedDuration::ZERO,
            spot_to_spot: false,
            price_replacement: false,
        }
    }
}

/// The terms on which machines are had.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Pool {
    /// Unique.
    pub name: Name,
    /// What the label `karpenter.sh/nodepool` of its nodes says, where that is not its name: pools of several families
    /// may say the same. Empty if its nodes have no such label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodepool: Option<Name>,
    /// Catalogue that it buys from.
    pub catalog: Name,
    /// Heavier pools are asked first; equal ones by name, descending.
    pub weight: i32,
    /// Labels of its nodes.
    pub labels: Labels,
    /// What its machines must be.
    pub requirements: Vec<Expression>,
    /// Taints of its nodes.
    pub taints: Vec<Taint>,
    /// Taints that its nodes lose when they are ready; they do not count when pods are placed.
    pub startup_taints: Vec<Taint>,
    /// What it may never exceed, its present nodes included.
    pub limits: Limits,
    /// When its nodes may be disturbed.
    pub disruption: Disruption,
    /// How old its nodes may get; `None` for as old as they like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expire_after: Option<SignedDuration>,
    /// Keeps exactly so many nodes, whatever the pods want.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// Why it must not buy now (its node class is not ready, it is paused); it still keeps what it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed: Option<String>,
}

impl Pool {
    /// What people call it: what its nodes say, or its name.
    pub fn nodepool(&self) -> &Name {
        self.nodepool_label().unwrap_or(&self.name)
    }

    /// What the label `karpenter.sh/nodepool` of its nodes says, if they have one.
    pub fn nodepool_label(&self) -> Option<&Name> {
        let said = self.nodepool.as_ref().unwrap_or(&self.name);
        (!said.is_empty()).then_some(said)
    }
}
