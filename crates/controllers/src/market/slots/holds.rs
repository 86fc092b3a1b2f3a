//! Classes in use are held by a finalizer: without its class, no process knows how to terminate a machine. It is taken off
//! once nothing of the class is left at the cloud either.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use joiner_core::name::Name;
use joiner_providers::ProviderError;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use serde_json::json;
use tracing::{info, warn};

use crate::context::{Context, Mode};
use crate::dialect::{ClassKind, ObjectRef};
use crate::edge::clients::{Clients, WriteError};
use crate::edge::clock;
use crate::edge::events::Severity;
use crate::record::{ClassKey, ClassRecord};

/// On classes that a pool or a machine uses.
pub(crate) const FINALIZER: &str = "joiner.dev/in-use";

/// How often it is looked who uses which class; nothing is written at rest.
const PERIOD: Duration = Duration::from_secs(1);
/// How long after it could not finish a provider is asked again to remove what its class has left.
const AGAIN: SignedDuration = SignedDuration::from_secs(20);
/// A provider that has not answered after this is asked again.
const GIVEN_UP: Duration = Duration::from_mins(5);
/// How many machines are named to who waits for them.
const NAMED: usize = 5;

/// Who uses a class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Users {
    pools: usize,
    machines: Vec<Name>,
}

impl Users {
    /// Whether the class must stay. One that is to go waits for its machines and not for its pools: those buy nothing
    /// more.
    fn hold(&self, deleting: bool) -> bool {
        !self.machines.is_empty() || (!deleting && self.pools > 0)
    }

    /// Who is waited for, in words.
    pub(crate) fn waited_for(&self) -> Option<String> {
        let count = self.machines.len();
        let names: Vec<&str> = self
            .machines
            .iter()
            .take(NAMED)
            .map(AsRef::as_ref)
            .collect();
        let more = if count > NAMED { ", …" } else { "" };
        let machines = if count == 1 { "machine" } else { "machines" };
        (count > 0).then(|| {
            format!(
                "it is used by {count} {machines} ({}{more}) and goes when they are gone",
                names.join(", ")
            )
        })
    }
}

/// Who uses which class.
pub(crate) fn users(context: &Context) -> BTreeMap<ClassKey, Users> {
    let world = context.view.read();
    let mut users: BTreeMap<ClassKey, Users> = BTreeMap::new();
    for pool in world.pools.iter() {
        users.entry(pool.class.clone()).or_default().pools += 1;
    }
    for machine in world.machines.iter() {
        let users = users.entry(machine.class.clone()).or_default();
        users.machines.push(machine.key.to_string().into());
    }
    users
}

/// How far a provider is that removes what its class has left at the cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clearing {
    /// It is at work since then.
    UnderWay(Timestamp),
    /// It could not finish, and is asked again then.
    Again(Timestamp),
    /// Nothing is left.
    Done,
}

/// Classes that are not in use any more.
#[derive(Clone, Debug, Default)]
struct Leaving(Arc<Mutex<BTreeMap<ClassKey, Clearing>>>);

impl Leaving {
    fn all(&self) -> MutexGuard<'_, BTreeMap<ClassKey, Clearing>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing is left of a class at its cloud. If that is not known, its provider is set to work: on its own,
    /// so that a slow cloud delays no other class.
    fn is_clear(&self, context: &Arc<Context>, kind: &ClassKind, record: &ClassRecord) -> bool {
        let classes = &context.market.classes;
        let Some(slot) = classes.slot(&record.key) else {
            // Its provider is made in a moment, if one can be made at all.
            return classes.is_broken(&record.key);
        };
        let now = context.edge.clock.now();
        match self.all().get(&record.key) {
            Some(Clearing::Done) => return true,
            Some(Clearing::UnderWay(since)) if clock::since(now, *since) < GIVEN_UP => {
                return false;
            }
            Some(Clearing::Again(at)) if now < *at => return false,
            _ => {}
        }
        let begun = Clearing::UnderWay(now);
        self.all().insert(record.key.clone(), begun);
        let (leaving, owned) = (self.clone(), context.clone());
        let (kind, record) = (kind.clone(), record.clone());
        context.edge.tasks.spawn("class leaves", async move {
            let done = slot.call(slot.provider.clear()).await;
            let next = clearing(&owned, &kind, &record, done);
            // Whether it is in use again was looked at meanwhile.
            if let Some(known) = leaving.all().get_mut(&record.key)
                && *known == begun
            {
                *known = next;
            }
        });
        false
    }
}

/// What a provider's answer means.
fn clearing(
    context: &Context,
    kind: &ClassKind,
    record: &ClassRecord,
    done: Result<(), ProviderError>,
) -> Clearing {
    match done {
        Ok(()) => Clearing::Done,
        Err(error) if error.passes() => {
            if record.deleting {
                tell(context, kind, record, "WaitingForCloud", &error.to_string());
            }
            let at = context.edge.clock.now().saturating_add(AGAIN);
            Clearing::Again(at.unwrap_or(Timestamp::MAX))
        }
        // Waiting mends nothing: a person must act, and a class that cannot be deleted would be one trouble more.
        Err(error) => {
            warn!(class = %record.key, %error, "what the class has left at the cloud cannot be removed");
            Clearing::Done
        }
    }
}

/// Holds classes in use and frees others, for ever.
pub(crate) async fn run(context: Arc<Context>) {
    let leaving = Leaving::default();
    loop {
        tokio::time::sleep(PERIOD).await;
        if context.may_act() && context.settings.mode == Mode::Act {
            look(&context, &leaving).await;
        } else {
            // Another process leads, and may have bought since.
            leaving.all().clear();
        }
    }
}

async fn look(context: &Arc<Context>, leaving: &Leaving) {
    let records: Vec<Arc<ClassRecord>> = context.view.read().classes.iter().cloned().collect();
    let users = users(context);
    for record in records {
        let factory = context.market.classes.factory(&record.key);
        let Some(kind) = factory
            .filter(|one| one.has_objects())
            .map(|one| one.kind())
        else {
            continue;
        };
        let users = users.get(&record.key).cloned().unwrap_or_default();
        let held = record.finalizers.iter().any(|one| &**one == FINALIZER);
        let hold = users.hold(record.deleting);
        if held
            && record.deleting
            && let Some(said) = users.waited_for()
        {
            tell(context, &kind, &record, "WaitingForMachines", &said);
        }
        if hold {
            leaving.all().remove(&record.key);
        }
        // The API server takes no new finalizers on what is being deleted.
        if hold == held || (hold && record.deleting) {
            continue;
        }
        if !hold && !leaving.is_clear(context, &kind, &record) {
            continue;
        }
        match write(&context.edge.clients, &kind, &record, hold).await {
            Ok(()) if hold => {
                info!(class = %record.key, "node class is in use: it is held by a finalizer");
            }
            Ok(()) => {
                leaving.all().remove(&record.key);
                info!(class = %record.key, "node class is no longer in use: its finalizer is removed");
            }
            // What was seen is out of date: the next look sees more.
            Err(WriteError::Conflict(_) | WriteError::Gone(_) | WriteError::NotLeader) => {}
            Err(error) => {
                warn!(class = %record.key, %error, "finalizer of the node class could not be written");
            }
        }
    }
}

/// What a class is called in events.
pub(super) fn about(kind: &ClassKind, record: &ClassRecord) -> ObjectRef {
    ObjectRef {
        api_version: format!("{}/{}", kind.group, kind.version),
        kind: kind.kind.to_owned(),
        namespace: record.key.namespace.clone(),
        name: record.key.name.clone(),
        uid: record.uid.clone(),
    }
}

fn tell(
    context: &Context,
    kind: &ClassKind,
    record: &ClassRecord,
    reason: &'static str,
    said: &str,
) {
    let about = about(kind, record);
    let said = format!("The node class is being deleted: {said}");
    context
        .edge
        .events
        .say(&about, Severity::Normal, reason, &said);
}

/// Puts the finalizer on or takes it off, if the class is still as it was when we looked.
async fn write(
    clients: &Clients,
    kind: &ClassKind,
    record: &ClassRecord,
    hold: bool,
) -> Result<(), WriteError> {
    let gvk = GroupVersionKind::gvk(kind.group, kind.version, kind.kind);
    let resource = ApiResource::from_gvk_with_plural(&gvk, kind.plural);
    let client = clients.writes.clone();
    let api: Api<DynamicObject> = if record.key.namespace.is_empty() {
        Api::all_with(client, &resource)
    } else {
        Api::namespaced_with(client, &record.key.namespace, &resource)
    };
    let others = record.finalizers.iter().map(AsRef::as_ref);
    let mut all: Vec<&str> = others.filter(|one| *one != FINALIZER).collect();
    if hold {
        all.push(FINALIZER);
    }
    let patch = json!({"metadata": {
        "uid": &*record.uid,
        "resourceVersion": record.version.to_string(),
        "finalizers": all,
    }});
    api.patch(
        &record.key.name,
        &PatchParams::default(),
        &Patch::Merge(patch),
    )
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_that_is_to_go_waits_for_machines_and_not_for_pools() {
        let pool = Users {
            pools: 1,
            machines: Vec::new(),
        };
        assert!(pool.hold(false) && !pool.hold(true));
        assert!(!Users::default().hold(false));
        let machines = (0..7).map(|at| format!("m{at}").into()).collect();
        let used = Users { pools: 0, machines };
        assert!(used.hold(true));
        let said = used.waited_for().unwrap();
        assert!(
            said.contains("7 machines (m0, m1, m2, m3, m4, …)"),
            "{said}"
        );
    }
}
