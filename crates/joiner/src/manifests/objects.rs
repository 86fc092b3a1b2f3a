//! The parts of Kubernetes objects that decide where pods can be. Everything else is passed over.

use std::collections::BTreeMap;

use joiner_core::name::{Labels, Name};
use joiner_core::problem::{Policy, Protocol, WhenUnsatisfiable};
use joiner_core::requirement::Expression;
use joiner_core::selector::LabelSelector;
use joiner_core::taints::{Effect, TolerationOperator};
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
    pub(super) deletion_timestamp: Option<String>,
    pub(super) owner_references: Vec<Owner>,
}

#[derive(Clone, Deserialize)]
pub(super) struct Owner {
    kind: String,
}

impl Meta {
    pub(super) fn is_owned_by(&self, kind: &str) -> bool {
        self.owner_references.iter().any(|one| one.kind == kind)
    }

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
    pub(super) template: Template,
    #[serde(default)]
    pub(super) volume_claim_templates: Vec<Claim>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Template {
    pub(super) metadata: Meta,
    pub(super) spec: PodSpec,
}

#[derive(Deserialize)]
pub(super) struct Pod {
    pub(super) spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodStatus {
    phase: String,
}

impl Pod {
    /// It has run and takes no room any more.
    pub(super) fn is_done(&self) -> bool {
        matches!(&*self.status.phase, "Succeeded" | "Failed")
    }
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PodSpec {
    pub(super) node_name: Option<Name>,
    pub(super) containers: Vec<Container>,
    pub(super) init_containers: Vec<Container>,
    pub(super) overhead: Amounts,
    pub(super) resources: Option<ContainerResources>,
    pub(super) node_selector: Labels,
    pub(super) affinity: Affinity,
    pub(super) tolerations: Vec<Toleration>,
    pub(super) topology_spread_constraints: Vec<SpreadConstraint>,
    pub(super) volumes: Vec<PodVolume>,
    pub(super) priority: i32,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Container {
    pub(super) resources: ContainerResources,
    pub(super) ports: Vec<Port>,
    pub(super) restart_policy: Option<String>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct ContainerResources {
    pub(super) requests: Amounts,
    pub(super) limits: Amounts,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Port {
    #[serde(rename = "hostPort")]
    pub(super) of_host: u16,
    #[serde(rename = "hostIP")]
    pub(super) host_ip: Name,
    pub(super) protocol: Protocol,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Affinity {
    #[serde(rename = "nodeAffinity")]
    pub(super) node: NodeAffinity,
    #[serde(rename = "podAffinity")]
    pub(super) near: PodAffinity,
    #[serde(rename = "podAntiAffinity")]
    pub(super) apart: PodAffinity,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct NodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub(super) required: NodeTerms,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    pub(super) preferred: Vec<PreferredNodeTerm>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct NodeTerms {
    pub(super) node_selector_terms: Vec<NodeTerm>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct NodeTerm {
    pub(super) match_expressions: Vec<Expression>,
    pub(super) match_fields: Vec<Expression>,
}

#[derive(Clone, Deserialize)]
pub(super) struct PreferredNodeTerm {
    pub(super) weight: i32,
    pub(super) preference: NodeTerm,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct PodAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub(super) required: Vec<PodTerm>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    pub(super) preferred: Vec<PreferredPodTerm>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodTerm {
    pub(super) topology_key: Name,
    pub(super) label_selector: Option<LabelSelector>,
    #[serde(default)]
    pub(super) namespaces: Vec<Name>,
    pub(super) namespace_selector: Option<LabelSelector>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PreferredPodTerm {
    pub(super) weight: i32,
    pub(super) pod_affinity_term: PodTerm,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Toleration {
    pub(super) key: Name,
    pub(super) operator: TolerationOperator,
    pub(super) value: Name,
    pub(super) effect: Option<Effect>,
}

#[derive(Clone, Deserialize)]
pub(super) struct Taint {
    pub(super) key: Name,
    #[serde(default)]
    pub(super) value: Name,
    pub(super) effect: Effect,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SpreadConstraint {
    pub(super) topology_key: Name,
    pub(super) max_skew: i32,
    #[serde(default)]
    pub(super) when_unsatisfiable: WhenUnsatisfiable,
    pub(super) label_selector: Option<LabelSelector>,
    #[serde(default)]
    pub(super) match_label_keys: Vec<Name>,
    pub(super) min_domains: Option<u32>,
    pub(super) node_affinity_policy: Option<Policy>,
    pub(super) node_taints_policy: Option<Policy>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PodVolume {
    pub(super) name: Name,
    pub(super) persistent_volume_claim: Option<ClaimSource>,
    pub(super) ephemeral: Option<Ephemeral>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClaimSource {
    pub(super) claim_name: Name,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Ephemeral {
    pub(super) volume_claim_template: Claim,
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
