//! `NodeSmithControlPlanes`: which pools of their namespace are managed.

use jiff::Timestamp;
use joiner_api::nodesmith::NodeSmithControlPlane;
use joiner_core::name::Name;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::NAME;
use crate::dialects::convert::{key, lower_conditions, render_conditions, text};
use crate::record::{Behind, Condition, Conditions, GateRecord, Truth, kinds};
use crate::view::version;

/// A control plane as the engine keeps it.
pub(super) fn lower(gate: &NodeSmithControlPlane) -> GateRecord {
    let metadata = &gate.metadata;
    let status = gate.status.clone().unwrap_or_default();
    GateRecord {
        key: key(NAME, metadata),
        uid: text(metadata.uid.as_ref()),
        version: version(metadata.resource_version.as_deref()),
        generation: metadata.generation.unwrap_or(0),
        deleting: metadata.deletion_timestamp.is_some(),
        pools: gate
            .spec
            .pools
            .iter()
            .map(|one| one.as_str().into())
            .collect(),
        conditions: lower_conditions(&status.conditions),
    }
}

/// The status as a merge patch, if there is something new to say.
pub(super) fn status_patch(
    gate: &GateRecord,
    pools: &[(Name, Behind)],
    now: Timestamp,
) -> Option<Value> {
    let (status, reason, message) = resolved(pools);
    let mut conditions: Conditions = gate.conditions.clone();
    let changed = conditions.ensure(Condition {
        kind: kinds::READY.into(),
        status,
        reason: reason.into(),
        message,
        since: now,
        generation: gate.generation,
    });
    changed.then(|| {
        json!({
            "metadata": {"uid": &*gate.uid},
            "status": {
                "conditions": render_conditions(&conditions),
                "observedGeneration": gate.generation,
                "lastSyncTime": Time(now),
            }
        })
    })
}

/// Whether all pools can be used; the first that cannot is named.
fn resolved(pools: &[(Name, Behind)]) -> (Truth, &'static str, String) {
    let mut classes: Vec<&str> = Vec::new();
    for (pool, behind) in pools {
        match behind {
            Behind::Usable { class } => classes.push(class),
            Behind::NoPool => {
                let said = format!(
                    "referenced pool {pool:?} not found: create it or take it off spec.pools"
                );
                return (Truth::False, "PoolMissing", said);
            }
            Behind::Unusable {
                class,
                reason,
                message,
            } => {
                return unusable(pool, class, reason, message);
            }
        }
    }
    if pools.is_empty() {
        return (
            Truth::True,
            "PoolsResolved",
            "no pools configured".to_owned(),
        );
    }
    classes.sort_unstable();
    classes.dedup();
    let names: Vec<&str> = pools.iter().map(|(pool, _)| &**pool).collect();
    let said = format!(
        "resolved pools [{}] with providers [{}]",
        names.join(", "),
        classes.join(", ")
    );
    (Truth::True, "PoolsResolved", said)
}

fn unusable(pool: &str, class: &str, reason: &str, message: &str) -> (Truth, &'static str, String) {
    match reason {
        _ if class.is_empty() => (
            Truth::False,
            "ProviderRefMissing",
            format!("pool {pool:?} has empty spec.providerRef"),
        ),
        "PoolInvalid" => (
            Truth::False,
            "PoolInvalid",
            format!("pool {pool:?}: {message}"),
        ),
        "NodeClassNotFound" => (
            Truth::False,
            "ProviderMissing",
            format!("provider {class:?} referenced by pool {pool:?} not found"),
        ),
        "NodeClassReadinessUnknown" => (
            Truth::Unknown,
            "ProviderInitializing",
            format!("provider {class:?} of pool {pool:?} has not answered yet"),
        ),
        _ => (
            Truth::False,
            "ProviderInitializationFailed",
            format!("failed to initialize provider {class:?}: {message}"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usable(class: &str) -> Behind {
        Behind::Usable {
            class: class.into(),
        }
    }

    #[test]
    fn a_control_plane_names_its_pools_and_their_providers() {
        let pools = [("b".into(), usable("rack")), ("a".into(), usable("rack"))];
        let (status, reason, said) = resolved(&pools);
        assert_eq!((status, reason), (Truth::True, "PoolsResolved"));
        assert_eq!(said, "resolved pools [b, a] with providers [rack]");
        assert_eq!(resolved(&[]).2, "no pools configured");
    }

    #[test]
    fn the_first_pool_that_cannot_be_used_is_named() {
        let missing = Behind::Unusable {
            class: "rack".into(),
            reason: "NodeClassNotFound",
            message: "node class rack does not exist".into(),
        };
        let pools = [("a".into(), missing), ("b".into(), Behind::NoPool)];
        let (_, reason, said) = resolved(&pools);
        assert_eq!(reason, "ProviderMissing");
        assert_eq!(said, "provider \"rack\" referenced by pool \"a\" not found");
        assert_eq!(resolved(&pools[1..]).1, "PoolMissing");
    }
}
