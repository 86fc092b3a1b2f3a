//! Whether a pool's template has changed since a machine was made.
//!
//! Karpenter compares digests that it writes on both, and only digests of one version. Ours has a version of its own:
//! where Karpenter's are found, machines are stamped anew and nothing drifts.

use std::collections::BTreeMap;

use joiner_core::name::Name;
use serde_json::Value;

use crate::edge::names::digest;
use crate::record::{MachineRecord, MetadataChange, PoolRecord, kinds};

/// Digest of the template, on pools and machines.
pub(super) const HASH: &str = "karpenter.sh/nodepool-hash";
/// Version of the digest.
pub(super) const HASH_VERSION: &str = "karpenter.sh/nodepool-hash-version";
/// Our version.
pub const VERSION: &str = "joiner-v1";

/// Digest of a template without its requirements: those drift by what they allow, not by how they are written. Empty
/// lists and maps count as absent and lists as sets, so that re-written manifests drift nothing.
pub(super) fn of(template: &Value) -> Name {
    let mut template = template.clone();
    if let Some(spec) = template.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("requirements");
        // Left out and written out, the default means the same.
        spec.entry("expireAfter").or_insert_with(|| "720h".into());
    }
    digest(&canonical(&template).unwrap_or_default()).into()
}

/// The value with keys in order, lists in order of their text, and nothing that is empty.
fn canonical(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Object(map) => {
            let sorted: BTreeMap<&String, String> = map
                .iter()
                .filter_map(|(key, value)| Some((key, canonical(value)?)))
                .collect();
            let parts: Vec<String> = sorted
                .iter()
                .map(|(key, value)| format!("{key:?}:{value}"))
                .collect();
            (!parts.is_empty()).then(|| format!("{{{}}}", parts.join(",")))
        }
        Value::Array(list) => {
            let mut parts: Vec<String> = list.iter().filter_map(canonical).collect();
            parts.sort();
            (!parts.is_empty()).then(|| format!("[{}]", parts.join(",")))
        }
        other => Some(other.to_string()),
    }
}

fn stamps(hash: &str) -> [(Name, Name); 2] {
    [
        (HASH.into(), hash.into()),
        (HASH_VERSION.into(), VERSION.into()),
    ]
}

/// Annotations for a machine that is made now.
pub(super) fn annotations(pool: &PoolRecord) -> [(Name, Name); 2] {
    stamps(&pool.hash)
}

/// Annotations that a pool lacks.
pub(super) fn pool_stamp(pool: &PoolRecord) -> Option<BTreeMap<String, String>> {
    let wanted = stamps(&pool.hash);
    let stamped = wanted
        .iter()
        .all(|(key, value)| pool.annotations.get(key) == Some(value));
    (!stamped).then(|| {
        wanted
            .iter()
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect()
    })
}

/// Annotations that a machine of another version lacks. The digest itself stays on machines that have drifted already.
pub(super) fn stamp(pool: &PoolRecord, machine: &MachineRecord) -> Option<MetadataChange> {
    if machine
        .annotations
        .get(HASH_VERSION)
        .is_some_and(|version| &**version == VERSION)
    {
        return None;
    }
    let mut change = MetadataChange::annotation(HASH_VERSION, Some(VERSION.into()));
    if !machine.status.conditions.is_true(kinds::DRIFTED) {
        change
            .annotations
            .insert(HASH.into(), Some(pool.hash.clone()));
    }
    Some(change)
}

/// Why a machine is not what the template would make now.
pub(super) fn drifted(pool: &PoolRecord, machine: &MachineRecord) -> Option<String> {
    let same_version = machine
        .annotations
        .get(HASH_VERSION)
        .is_some_and(|version| &**version == VERSION);
    let hash = machine.annotations.get(HASH)?;
    (same_version && *hash != pool.hash).then(|| {
        format!(
            "the template of NodePool {} has changed since it was made",
            pool.key
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn writing_the_same_template_differently_drifts_nothing() {
        let plain = json!({"spec": {
            "nodeClassRef": {"group": "g", "kind": "K", "name": "n"},
            "taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoSchedule"}]
        }});
        let other = json!({"metadata": {"labels": {}}, "spec": {
            "requirements": [{"key": "x", "operator": "Exists"}],
            "expireAfter": "720h",
            "startupTaints": [],
            "taints": [{"effect": "NoSchedule", "key": "b"}, {"key": "a", "effect": "NoSchedule"}],
            "nodeClassRef": {"name": "n", "kind": "K", "group": "g"}
        }});
        assert_eq!(of(&plain), of(&other));
        let mut changed = plain.clone();
        changed["spec"]["expireAfter"] = json!("24h");
        assert_ne!(of(&plain), of(&changed));
    }
}
