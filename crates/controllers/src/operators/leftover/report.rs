//! How a `LeftoverNodePool` stands: status, conditions, events.

use jiff::Timestamp;
use joiner_api::condition::{Condition, ConditionStatus, set};
use joiner_api::leftover::{LeftoverNodePool, LeftoverNodePoolStatus};
use joiner_core::name::Name;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::dialect::ObjectRef;
use crate::edge::clients::WriteError;

/// A reason and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cause {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Cause {
    pub(super) fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Cause {
            reason,
            message: message.into(),
        }
    }
}

/// What is to be written into a status.
pub(super) struct Report {
    pub(super) status: LeftoverNodePoolStatus,
    /// Why nothing is on offer, if so.
    pub(super) unready: Option<Cause>,
    /// What is second best, if anything.
    pub(super) degraded: Option<Cause>,
    /// What is on offer.
    pub(super) offers: String,
}

impl Report {
    /// The status with its conditions.
    pub(super) fn status(
        mut self,
        generation: Option<i64>,
        now: Timestamp,
    ) -> LeftoverNodePoolStatus {
        let condition = |type_: &str, status, cause: &Cause| Condition {
            type_: type_.to_owned(),
            status,
            reason: cause.reason.to_owned(),
            message: cause.message.clone(),
            observed_generation: generation,
            ..Condition::default()
        };
        let conditions = &mut self.status.conditions;
        let ready = match &self.unready {
            Some(cause) => condition("Ready", ConditionStatus::False, cause),
            None => condition(
                "Ready",
                ConditionStatus::True,
                &Cause::new("Reconciled", self.offers),
            ),
        };
        set(conditions, ready, now);
        let degraded = match &self.degraded {
            Some(cause) => condition("Degraded", ConditionStatus::True, cause),
            None => condition(
                "Degraded",
                ConditionStatus::False,
                &Cause::new("AsExpected", ""),
            ),
        };
        set(conditions, degraded, now);
        self.status
    }
}

/// Writes a status if it differs from what is there.
pub(super) async fn write(
    client: &Client,
    pool: &LeftoverNodePool,
    status: &LeftoverNodePoolStatus,
) -> Result<(), WriteError> {
    if pool.status.as_ref() == Some(status) {
        return Ok(());
    }
    let api: Api<LeftoverNodePool> = Api::all(client.clone());
    let mut value = serde_json::to_value(status).unwrap_or_default();
    // What is left out of a merge stays: what is no longer so must be said.
    let before = serde_json::to_value(pool.status.clone().unwrap_or_default()).unwrap_or_default();
    for key in before.as_object().into_iter().flat_map(|all| all.keys()) {
        if value.get(key).is_none() {
            value[key] = Value::Null;
        }
    }
    let patch = Patch::Merge(json!({"status": value}));
    api.patch_status(&pool.name_any(), &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

/// The object that events are about.
pub(super) fn about(pool: &LeftoverNodePool) -> ObjectRef {
    ObjectRef {
        api_version: "gpu.devplatforms.io/v1alpha1".into(),
        kind: "LeftoverNodePool".into(),
        namespace: "".into(),
        name: Name::from(pool.name_any()),
        uid: Name::from(pool.uid().unwrap_or_default()),
    }
}
