//! What a SpotNode was made for. Its spec has no place for it, so it stands in an annotation.

use jiff::SignedDuration;
use joiner_api::karpetrack::SpotNodePool;
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
    /// Labels that its pool gives its nodes.
    pub(super) labels: Labels,
    /// Taints that its pool gives its nodes.
    pub(super) taints: Vec<Taint>,
    /// When it goes, whatever happens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) expire_after: Option<SignedDuration>,
    /// What it must have room for.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub(super) requests: Resources,
}

impl Terms {
    /// The terms of a pool.
    pub(super) fn of(pool: &SpotNodePool, core: &Pool) -> Self {
        let mut taints = core.taints.clone();
        taints.sort();
        Terms {
            labels: pool
                .spec
                .labels
                .iter()
                .map(|(key, value)| (Name::from(key.as_str()), Name::from(value.as_str())))
                .collect(),
            taints,
            expire_after: core.expire_after,
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

    fn of_record(pool: &PoolRecord) -> Option<Self> {
        serde_json::from_value((*pool.template).clone()).ok()
    }
}

/// How old nodes may get is no matter of how they were made: a change holds for those that there are.
pub(super) fn stamp(pool: &PoolRecord, machine: &MachineRecord) -> Option<MetadataChange> {
    let wanted = Terms::of_record(pool)?.expire_after;
    let mut terms = Terms::read(&machine.annotations).ok()?;
    if terms.expire_after == wanted || !machine.annotations.contains_key(TERMS) {
        return None;
    }
    terms.expire_after = wanted;
    let text = serde_json::to_string(&terms).ok()?;
    Some(MetadataChange::annotation(TERMS, Some(text.into())))
}

/// Why a machine is not what its pool would make today.
pub(super) fn drifted(pool: &PoolRecord, machine: &MachineRecord) -> Option<String> {
    if let (Some(price), Some(most)) = (machine.status.price, pool.max_price)
        && price > most
    {
        return Some(format!(
            "it costs {price} an hour now, more than spec.maxPrice of {most}"
        ));
    }
    // Objects that somebody wrote by hand say nothing about their pool's terms.
    machine.annotations.get(TERMS)?;
    let terms = Terms::read(&machine.annotations).ok()?;
    let wanted = Terms::of_record(pool)?;
    if terms.labels != wanted.labels {
        return Some("spec.labels of its pool have changed".to_owned());
    }
    (terms.taints != wanted.taints).then(|| "spec.taints of its pool have changed".to_owned())
}
