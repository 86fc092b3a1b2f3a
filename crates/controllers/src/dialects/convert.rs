//! What all families share: keys, conditions, amounts, patches.

use std::collections::BTreeMap;

use joiner_api::condition::{Condition as ApiCondition, ConditionStatus};
use joiner_api::text::ResourceList;
use joiner_core::name::Name;
use joiner_core::resources::{CPU, Resources};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::{Value, json};

use crate::dialect::ObjectRef;
use crate::record::{Condition, Conditions, Key, MachineRecord, MetadataChange, Truth};
use crate::view::pods::quantity_map;

pub(super) fn key(dialect: &'static str, metadata: &ObjectMeta) -> Key {
    Key {
        dialect,
        namespace: metadata.namespace.as_deref().unwrap_or_default().into(),
        name: metadata.name.as_deref().unwrap_or_default().into(),
    }
}

pub(super) fn text(text: Option<&String>) -> Name {
    text.map(String::as_str).unwrap_or_default().into()
}

pub(super) fn object_ref(api_version: &str, kind: &str, key: &Key, uid: &Name) -> ObjectRef {
    ObjectRef {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        uid: uid.clone(),
    }
}

pub(super) fn lower_conditions(conditions: &[ApiCondition]) -> Conditions {
    conditions
        .iter()
        .map(|one| Condition {
            kind: one.type_.as_str().into(),
            status: match one.status {
                ConditionStatus::True => Truth::True,
                ConditionStatus::False => Truth::False,
                ConditionStatus::Unknown => Truth::Unknown,
            },
            reason: one.reason.as_str().into(),
            message: one.message.clone(),
            since: one
                .last_transition_time
                .as_ref()
                .map_or(jiff::Timestamp::UNIX_EPOCH, |time| time.0),
            generation: one.observed_generation.unwrap_or(0),
        })
        .collect()
}

pub(super) fn render_conditions(conditions: &Conditions) -> Vec<ApiCondition> {
    let render = |one: &Condition| ApiCondition {
        type_: one.kind.to_string(),
        status: match one.status {
            Truth::True => ConditionStatus::True,
            Truth::False => ConditionStatus::False,
            Truth::Unknown => ConditionStatus::Unknown,
        },
        // The API server insists on a reason.
        reason: if one.reason.is_empty() {
            one.kind.to_string()
        } else {
            one.reason.to_string()
        },
        message: one.message.clone(),
        // It also keeps whole seconds only: what we compare with later must not have more.
        last_transition_time: Some(Time(whole_second(one.since))),
        observed_generation: Some(one.generation),
    };
    conditions.sorted().into_iter().map(render).collect()
}

fn whole_second(time: jiff::Timestamp) -> jiff::Timestamp {
    jiff::Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// Amounts by resource; what cannot be read is named.
pub(super) fn lower_resources(list: Option<&ResourceList>) -> Result<Resources, String> {
    list.into_iter()
        .flatten()
        .map(|(name, quantity)| {
            let amount = if name == CPU {
                quantity.milli()
            } else {
                quantity.units()
            };
            amount
                .map(|amount| (Name::from(name.as_str()), amount))
                .map_err(|error| format!("{name}: {error}"))
        })
        .collect()
}

pub(super) fn render_resources(resources: &Resources) -> ResourceList {
    let written = quantity_map(resources);
    written
        .into_iter()
        .map(|(name, text)| (name, text.as_str().into()))
        .collect()
}

/// Metadata as a merge patch that is refused if the object has changed meanwhile.
pub(super) fn metadata_patch(
    machine: &MachineRecord,
    change: &MetadataChange,
    finalizers: Option<Vec<String>>,
) -> Value {
    let map = |all: &BTreeMap<Name, Option<Name>>| -> BTreeMap<String, Option<String>> {
        all.iter()
            .map(|(key, value)| (key.to_string(), value.as_ref().map(ToString::to_string)))
            .collect()
    };
    let mut metadata = json!({
        "uid": &*machine.uid.0,
        "resourceVersion": machine.version.to_string(),
    });
    if !change.labels.is_empty() {
        metadata["labels"] = json!(map(&change.labels));
    }
    if !change.annotations.is_empty() {
        metadata["annotations"] = json!(map(&change.annotations));
    }
    if let Some(finalizers) = finalizers {
        metadata["finalizers"] = json!(finalizers);
    }
    json!({ "metadata": metadata })
}
