//! What a claim was made for. Its spec has no place for it, so it stands in an annotation.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use joiner_api::nodesmith::NodeSmithPool;
use joiner_core::name::{Labels, Name};
use joiner_core::problem::Pool;
use joiner_core::resources::Resources;
use joiner_core::taints::Taint;
use serde::{Deserialize, Serialize};

use crate::record::{MachineRecord, MetadataChange, PoolRecord};

/// Annotation with the terms, as JSON.
pub(super) const TERMS: &str = "joiner.dev/terms";

/// On which terms a machine was asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Terms {
    /// `NodeSmithProvider` that it comes from.
    pub(super) provider: Name,
    /// Labels that its pool gives its nodes, that of the pool among them.
    pub(super) labels: Labels,
    /// Annotations that its pool gives its nodes.
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub(super) annotations: Labels,
    /// Taints that its pool gives its nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) taints: Vec<Taint>,
    /// Taints that its nodes lose when they are ready.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) startup_taints: Vec<Taint>,
    /// How long it may take to become a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) registration_timeout: Option<SignedDuration>,
    /// What it must have room for.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub(super) requests: Resources,
}

impl Terms {
    /// The terms of a pool.
    pub(super) fn of(pool: &NodeSmithPool, core: &Pool) -> Self {
        let spec = &pool.spec;
        let timeout = spec.registration_timeout.as_ref();
        let given = spec.machine_template.annotations.iter();
        Terms {
            provider: spec.provider_ref.as_str().into(),
            labels: core.labels.clone(),
            annotations: given
                .map(|(key, value)| (key.as_str().into(), value.as_str().into()))
                .collect(),
            taints: core.taints.clone(),
            startup_taints: core.startup_taints.clone(),
            registration_timeout: timeout.and_then(|one| one.get().ok()),
            requests: Resources::new(),
        }
    }

    /// Those on an object; none if it was written by hand.
    pub(super) fn read(annotations: &Labels) -> Result<Self, String> {
        match annotations.get(TERMS) {
            None => Ok(Terms::default()),
            Some(text) => serde_json::from_str(text)
                .map_err(|error| format!("metadata.annotations[{TERMS}]: {error}")),
        }
    }

    /// Those of a pool's record.
    pub(super) fn of_record(pool: &PoolRecord) -> Option<Self> {
        serde_json::from_value((*pool.template).clone()).ok()
    }
}

/// What a claim that was written by hand lacks: its provider and the labels and taints of its pool.
pub(super) fn adopt(pool: &PoolRecord, machine: &MachineRecord) -> Option<MetadataChange> {
    if machine.annotations.contains_key(TERMS) {
        return None;
    }
    let mut terms = Terms::of_record(pool)?;
    let labels: BTreeMap<Name, Option<Name>> = terms
        .labels
        .iter()
        .map(|(key, value)| (key.clone(), Some(value.clone())))
        .collect();
    terms.requests = machine.requests.clone();
    let text = serde_json::to_string(&terms).ok()?;
    let mut change = MetadataChange::annotation(TERMS, Some(text.into()));
    change.labels = labels;
    Some(change)
}

/// Why a machine is not what its pool would make today.
pub(super) fn drifted(pool: &PoolRecord, machine: &MachineRecord) -> Option<String> {
    machine.annotations.get(TERMS)?;
    let terms = Terms::read(&machine.annotations).ok()?;
    let wanted = Terms::of_record(pool)?;
    if terms.provider != wanted.provider {
        return Some(format!(
            "spec.providerRef of its pool is {} now; it came from {}",
            wanted.provider, terms.provider
        ));
    }
    if terms.labels != wanted.labels {
        return Some("spec.machineTemplate.labels of its pool have changed".to_owned());
    }
    (terms.taints != wanted.taints)
        .then(|| "spec.machineTemplate.taints of its pool have changed".to_owned())
}
