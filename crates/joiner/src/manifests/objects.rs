//! The parts of Kubernetes objects that decide where pods can be. Everything else is passed over.

use std::collections::BTreeMap;

use joiner_core::name::{Labels, Name};
use joiner_core::requirement::Expression;
use joiner_core::selector::LabelSelector;
use joiner_core::taints::Effect;
use serde::Deserialize;
use serde_json::Value;

/// Amounts as written: `500m`, `2`, `1Gi`.
pub(super) type Amounts = BTreeMap<String, Value>;

#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Meta {
    pub(super) name: Name,
    pub(super) namespace: Option<Name>,
    pub(super) labels: Labels,
    pub(super) annotations: BTreeMap<String, String>,
}

impl Meta {
    pub(super) fn namespace(&self) -> Name {
        self.namespace.clone().unwrap_or_else(|| "default".into())
    }
}

#[derive(Deserialize)]
pub(super) struct Workload {
    pub(super) spec: WorkloadSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WorkloadSpec {
    pub(super) replicas: Option<u32>,
    pub(super) parallelism: Option<u32>,
    pub(super) completions: Option<u32>,
    /// Read as a pod is: see `pods::template`.
    #[serde(default)]
    pub(super) template: Value,
    #[serde(default)]
    pub(super) volume_claim_templates: Vec<Claim>,
}

/// What a persistent volume says of the nodes that can have it.
#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct NodeTerms {
    pub(super) node_selector_terms: Vec<NodeTerm>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct NodeTerm {
    pub(super) match_expressions: Vec<Expression>,
}

#[derive(Clone, Deserialize)]
pub(super) struct Taint {
    pub(super) key: Name,
    #[serde(default)]
    pub(super) value: Name,
    pub(super) effect: Effect,
}

/// A claim, or the template of one.
#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Claim {
    pub(super) metadata: Meta,
    pub(super) spec: ClaimSpec,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ClaimSpec {
    pub(super) storage_class_name: Option<Name>,
    pub(super) volume_name: Option<Name>,
}

#[derive(Deserialize)]
pub(super) struct DisruptionBudget {
    pub(super) spec: DisruptionBudgetSpec,
    #[serde(default)]
    pub(super) status: DisruptionBudgetStatus,
}

#[derive(Deserialize)]
pub(super) struct DisruptionBudgetSpec {
    pub(super) selector: Option<LabelSelector>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct DisruptionBudgetStatus {
    pub(super) disruptions_allowed: u32,
}
