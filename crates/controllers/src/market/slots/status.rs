//! What node classes are told about themselves: whether they can be bought from, and in words why not.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use tracing::warn;

use super::holds::{Users, about};
use super::{Classes, Unusable};
use crate::context::Context;
use crate::dialect::{ClassFactory, ClassKind};
use crate::edge::clients::{Clients, WriteError};
use crate::edge::events::Severity;
use crate::record::{ClassKey, ClassRecord, Condition, Truth, kinds};

/// The reason of a class that has yet to be read.
const UNKNOWN: &str = "NodeClassReadinessUnknown";

impl Classes {
    /// Writes the status of classes whose standing has changed. The provider is not asked: it was when the catalogue was
    /// read.
    pub(crate) async fn report(
        &self,
        context: &Context,
        records: &[Arc<ClassRecord>],
        users: &BTreeMap<ClassKey, Users>,
    ) {
        let now = context.now();
        // Two writers at once would contradict each other.
        let _alone = self.reporting.lock().await;
        {
            let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            written.retain(|key, _| records.iter().any(|one| one.key == *key));
            let mut ailing = self.ailing.lock().unwrap_or_else(PoisonError::into_inner);
            ailing.retain(|uid| records.iter().any(|one| one.uid == *uid));
        }
        for record in records {
            let Some(factory) = self.factory(&record.key).filter(|one| one.has_objects()) else {
                continue;
            };
            let mut unusable = self.unusable(&record.key, Some(record));
            if record.deleting {
                // One that nobody uses is gone in a moment.
                let users = users.get(&record.key).and_then(Users::waited_for);
                let Some((said, (_, message))) = users.zip(unusable.as_mut()) else {
                    continue;
                };
                *message = format!("{message}: {said}");
            }
            let told = unusable.clone();
            let concern = self.concern(&record.key);
            let ready = ready(record, unusable, concern, now);
            let extra = self.extra(record, &**factory);
            // The watch may not have told yet what we wrote: what counts is what we wrote last.
            let said = json!({
                "uid": &*record.uid,
                "generation": ready.generation,
                "status": ready.status.to_string(),
                "message": ready.message,
                "extra": extra,
            });
            if self.last_said(record).as_ref() == Some(&said) {
                continue;
            }
            match write(
                &context.edge.clients,
                &factory.kind(),
                record,
                render(record, &ready, extra),
            )
            .await
            {
                Ok(()) => {
                    let recovered = self.recovered(record, told.as_ref());
                    self.note(record, said);
                    tell(context, &factory.kind(), record, told.as_ref(), recovered);
                }
                Err(error) => {
                    warn!(class = %record.key, %error, "status of the node class could not be written");
                }
            }
        }
    }

    fn extra(&self, record: &ClassRecord, factory: &dyn ClassFactory) -> Value {
        let stock = self.slot(&record.key).map(|slot| slot.stock());
        let catalog = stock.and_then(|stock| Some((stock.catalog?, stock.priced)));
        catalog.map_or_else(
            || json!({}),
            |(catalog, priced)| factory.status(&catalog, priced),
        )
    }

    /// Whether a class can be used again that could not, however long it was being read in between.
    fn recovered(&self, record: &ClassRecord, unusable: Option<&Unusable>) -> bool {
        // What another process wrote before this one counts, too.
        let first = self.last_said(record).is_none();
        let ready = record.ready.as_ref().filter(|_| first);
        let was = ready.is_some_and(|known| known.status == Truth::False);
        let mut ailing = self.ailing.lock().unwrap_or_else(PoisonError::into_inner);
        let is = unusable.is_some_and(|(reason, _)| *reason != UNKNOWN);
        match unusable {
            None => ailing.remove(&record.uid) || was,
            Some(_) if is || was => {
                ailing.insert(record.uid.clone());
                false
            }
            Some(_) => false,
        }
    }

    fn last_said(&self, record: &ClassRecord) -> Option<Value> {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.get(&record.key).cloned()
    }

    fn note(&self, record: &ClassRecord, said: Value) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.insert(record.key.clone(), said);
    }
}

/// Says in an event why a class cannot be used, and that it can be again.
fn tell(
    context: &Context,
    kind: &ClassKind,
    record: &ClassRecord,
    unusable: Option<&Unusable>,
    recovered: bool,
) {
    // What a class that is to go waits for is said by whoever holds it.
    if record.deleting {
        return;
    }
    let about = about(kind, record);
    let (severity, reason, said) = match unusable {
        Some((reason, said)) if *reason != UNKNOWN => (Severity::Warning, *reason, said.as_str()),
        None if recovered => {
            let said = "The node class can be used again";
            (Severity::Normal, "Recovered", said)
        }
        _ => return,
    };
    context.edge.events.say(&about, severity, reason, said);
}

/// A class that can be used says in the message what is wrong all the same.
fn ready(
    record: &ClassRecord,
    unusable: Option<Unusable>,
    concern: Option<String>,
    now: Timestamp,
) -> Condition {
    let (status, reason, message) = match unusable {
        None => (Truth::True, kinds::READY, concern.unwrap_or_default()),
        Some((reason @ UNKNOWN, said)) => (Truth::Unknown, reason, said),
        Some((reason, said)) => (Truth::False, reason, said),
    };
    Condition {
        kind: kinds::READY.into(),
        status,
        reason: reason.into(),
        message,
        since: now,
        generation: record.generation,
    }
}

/// The status as it is written; the time moves only when the condition does.
fn render(record: &ClassRecord, ready: &Condition, mut status: Value) -> Value {
    let known = record.ready.as_ref();
    let since = known
        .filter(|known| known.status == ready.status)
        .map_or(ready.since, |known| known.since);
    status["observedGeneration"] = json!(record.generation);
    status["conditions"] = json!([{
        "type": kinds::READY,
        "status": ready.status.to_string(),
        "reason": &*ready.reason,
        "message": ready.message,
        "observedGeneration": ready.generation,
        "lastTransitionTime": Time(whole(since)),
    }]);
    status
}

async fn write(
    clients: &Clients,
    kind: &ClassKind,
    record: &ClassRecord,
    status: Value,
) -> Result<(), WriteError> {
    let gvk = GroupVersionKind::gvk(kind.group, kind.version, kind.kind);
    let resource = ApiResource::from_gvk_with_plural(&gvk, kind.plural);
    let client = clients.writes.clone();
    let api: Api<DynamicObject> = if record.key.namespace.is_empty() {
        Api::all_with(client, &resource)
    } else {
        Api::namespaced_with(client, &record.key.namespace, &resource)
    };
    let patch = json!({"metadata": {"uid": &*record.uid}, "status": status});
    api.patch_status(
        &record.key.name,
        &PatchParams::default(),
        &Patch::Merge(patch),
    )
    .await?;
    Ok(())
}

/// The API server keeps whole seconds only.
fn whole(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
