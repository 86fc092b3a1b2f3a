//! Garbage in both directions: machines that nobody asked for, and objects whose machine is gone.
//!
//! Nothing is concluded from one look, and nothing from the cache alone. A machine without an object must be seen twice, a
//! while apart, and the API server must say that no object of its family has its UID; an object without a machine needs
//! the cloud's word on that one machine, and a node that does not answer. A machine whose node is in use is never
//! garbage. If too much looks gone at once, it is the look that is wrong. What does not carry our mark is left alone.

mod leaked;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::name::Name;
use joiner_providers::{Machine, MachineId, ProviderError, Uid};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use tracing::{error, info, warn};

use super::visits::Visits;
use crate::context::{Context, Mode};
use crate::dialect::Dialect;
use crate::edge::clock;
use crate::lifecycle::reconcile::unchanged;
use crate::lifecycle::{NodeChange, delete};
use crate::market::slots::Slot;
use crate::record::{ClassKey, MachineRecord};
use crate::view::nodes::{NodeRecord, lower_node};

/// How long something must look like garbage before it is.
const PATIENCE: Duration = Duration::from_secs(30);
/// What share of all machines may look gone at once, in percent.
const PLAUSIBLE: usize = 20;

/// What looks like garbage, and since when. Shared by the visits to all classes.
#[derive(Default)]
struct Suspects {
    machines: BTreeMap<ClassKey, BTreeMap<MachineId, Timestamp>>,
    objects: BTreeMap<Name, Timestamp>,
    nodes: BTreeMap<Name, Timestamp>,
}

type Shared = Arc<Mutex<Suspects>>;

fn locked(suspects: &Mutex<Suspects>) -> MutexGuard<'_, Suspects> {
    suspects.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Looks for garbage for ever. Each class is visited by itself: a slow cloud delays no other.
pub(crate) async fn run(context: Arc<Context>) {
    let suspects = Shared::default();
    let visits = Visits::new("garbage");
    loop {
        tokio::time::sleep(context.settings.garbage_period).await;
        if !context.may_act() || context.settings.mode == Mode::ObserveOnly {
            continue;
        }
        let shared = suspects.clone();
        visits.start(&context, move |context, slot| {
            visit(context, slot, shared.clone())
        });
        recheck_doubtful(&context).await;
        abandoned_nodes(&context, &suspects);
    }
}

async fn visit(context: Arc<Context>, slot: Arc<Slot>, suspects: Shared) {
    // Clouds are listed before objects are looked at: whatever is bought in between has its object already.
    match slot.call(slot.provider.list()).await {
        Ok(all) => {
            leaked::terminate(&context, &slot, &all, &suspects).await;
            lost(&context, &slot, &all, &suspects).await;
        }
        Err(error) => {
            warn!(class = %slot.key, %error, "machines of the cloud could not be listed: garbage collection waits");
        }
    }
}

/// Since when something looks like garbage; `true` once it has for long enough.
fn ripe<K: Ord + Clone>(suspects: &mut BTreeMap<K, Timestamp>, key: &K, now: Timestamp) -> bool {
    let since = *suspects.entry(key.clone()).or_insert(now);
    clock::since(now, since) >= PATIENCE
}

/// The family whose machines a class buys, if it is served here. Nobody else can say which of them are wanted.
fn family<'a>(context: &'a Context, slot: &Slot) -> Option<&'a Arc<dyn Dialect>> {
    let factory = context.market.classes.factory(&slot.key)?;
    context.dialects.get(factory.family())
}

/// Whether so many of so many may really be gone. One always may.
fn plausible(gone: usize, all: usize) -> bool {
    gone <= 1 || gone * 100 <= all * PLAUSIBLE
}

/// Objects whose machine the cloud no longer has, or whose node is gone.
async fn lost(context: &Context, slot: &Slot, all: &[Machine], suspects: &Mutex<Suspects>) {
    let now = context.now();
    let ids: BTreeSet<&MachineId> = all.iter().map(|machine| &machine.id).collect();
    let (gone, nodeless, total) = {
        let world = context.view.read();
        let own: Vec<Arc<MachineRecord>> = world
            .machines
            .iter()
            .filter(|one| one.class == slot.key && one.launched() && one.deleting.is_none())
            .cloned()
            .collect();
        let listed = |one: &MachineRecord| {
            let id = one.status.machine_id.as_ref();
            id.is_none_or(|id| ids.contains(id))
        };
        let node = |one: &MachineRecord| {
            one.status
                .node
                .as_ref()
                .and_then(|name| world.nodes.get(name))
                .cloned()
        };
        let answers = |one: &MachineRecord| node(one).is_some_and(|node| node.ready());
        let gone: Vec<_> = own
            .iter()
            .filter(|one| !listed(one) && !answers(one))
            .cloned()
            .collect();
        let nodeless: Vec<_> = own
            .iter()
            .filter(|one| listed(one) && one.registered() && node(one).is_none())
            .cloned()
            .collect();
        (gone, nodeless, own.len())
    };
    let suspicious = gone.len() + nodeless.len();
    if !plausible(suspicious, total) {
        error!(class = %slot.key, suspicious, total, "too many machines seem to be missing at once: nothing is deleted");
        return;
    }
    for machine in &gone {
        let Some(id) = &machine.status.machine_id else {
            continue;
        };
        if !ripe(&mut locked(suspects).objects, &machine.uid.0, now) {
            continue;
        }
        if matches!(
            slot.call(slot.provider.get(id)).await,
            Err(ProviderError::NotFound(_))
        ) {
            info!(machine = %machine.key, %id, "machine no longer exists at the cloud: its object is deleted");
            delete(context, machine, "garbage_collected").await;
        }
    }
    for machine in &nodeless {
        let Some(name) = &machine.status.node else {
            continue;
        };
        let api: Api<Node> = Api::all(context.edge.clients.reads.clone());
        if !matches!(api.get_opt(name).await, Ok(None)) {
            locked(suspects).objects.remove(&machine.uid.0);
            continue;
        }
        if ripe(&mut locked(suspects).objects, &machine.uid.0, now) {
            info!(machine = %machine.key, node = %name, "node of the machine was deleted");
            delete(context, machine, "garbage_collected").await;
        }
    }
    let seen: BTreeSet<&Name> = gone.iter().chain(&nodeless).map(|one| &one.uid.0).collect();
    locked(suspects)
        .objects
        .retain(|uid, since| seen.contains(uid) || clock::since(now, *since) < PATIENCE * 4);
}

/// Nodes that carry our mark while their machine object is gone: nobody else takes our finalizer off. Whether the object
/// is gone is the API server's to say, and whether the machine is, every cloud's of its family.
fn abandoned_nodes(context: &Arc<Context>, suspects: &Mutex<Suspects>) {
    let now = context.now();
    let abandoned: Vec<(Arc<NodeRecord>, Arc<dyn Dialect>)> = {
        let world = context.view.read();
        let orphan = |node: &Arc<NodeRecord>| {
            let mark = node.mark.as_ref()?;
            let dialect = context.dialects.get(mark.family(&context.cluster)?)?;
            let known = world.unreadable.contains_key(&mark.machine)
                || world.machines.iter().any(|one| one.uid.0 == mark.machine);
            (!known).then(|| (node.clone(), dialect.clone()))
        };
        world.nodes.iter().filter_map(orphan).collect()
    };
    let due: Vec<_> = {
        let mut suspects = locked(suspects);
        suspects
            .nodes
            .retain(|uid, _| abandoned.iter().any(|(node, _)| node.uid == *uid));
        let due = abandoned
            .into_iter()
            .filter(|(node, _)| ripe(&mut suspects.nodes, &node.uid, now));
        due.collect()
    };
    // Clouds may take their time: no other garbage waits for them.
    for (node, dialect) in due {
        let name = format!("garbage node {}", node.name);
        let shared = context.clone();
        context.edge.tasks.spawn(name, async move {
            delete_abandoned(&shared, &node, &*dialect).await;
        });
    }
}

async fn delete_abandoned(context: &Context, seen: &NodeRecord, dialect: &dyn Dialect) {
    let Some(mark) = &seen.mark else { return };
    let uid = Uid(mark.machine.clone());
    match dialect.machine_uids().await {
        Ok(objects) if !objects.contains(&uid.0) => {}
        Ok(_) => return,
        Err(error) => {
            warn!(node = %seen.name, %error, "machine objects cannot be listed: nothing is concluded");
            return;
        }
    }
    for slot in context.market.classes.slots() {
        let same = |one: &Arc<dyn Dialect>| one.name() == dialect.name();
        if family(context, &slot).is_some_and(same)
            && !matches!(
                slot.call(slot.provider.find(&uid)).await,
                Err(ProviderError::NotFound(_))
            )
        {
            return;
        }
    }
    let api: Api<Node> = Api::all(context.edge.clients.writes.clone());
    let Ok(Some(node)) = api.get_opt(&seen.name).await else {
        return;
    };
    let mut node = lower_node(node);
    if node.uid != seen.uid || node.mark != seen.mark || !context.may_act() {
        return;
    }
    info!(node = %node.name, machine = %uid.0, "the node's machine and machine object are gone: it is deleted");
    if !node.deleting {
        if let Err(error) = api
            .delete(&node.name, &unchanged(&node.uid, node.version))
            .await
        {
            warn!(node = %node.name, %error, "could not be deleted");
            return;
        }
        // The deletion was a change of its own.
        node = match api.get_opt(&seen.name).await {
            Ok(Some(current)) => lower_node(current),
            _ => return,
        };
        if node.uid != seen.uid || node.mark != seen.mark {
            return;
        }
    }
    let mut change = NodeChange::of(&node);
    change.ensure_finalizer(&node, dialect.finalizer(), false);
    if change.is_empty() {
        return;
    }
    let patch = Patch::Merge(change.patch(&[]));
    match api.patch(&node.name, &PatchParams::default(), &patch).await {
        Ok(node) => context.view.note_node(lower_node(node)),
        Err(error) => warn!(node = %node.name, %error, "its finalizer could not be removed"),
    }
}

/// Objects that an old list left open: the API server knows.
async fn recheck_doubtful(context: &Context) {
    let doubtful: Vec<crate::record::Key> =
        context.view.read().machines.doubtful().cloned().collect();
    for key in doubtful {
        let (Some(dialect), Some(machine)) = (
            context.dialect(&key),
            context.view.read().machines.get(&key).cloned(),
        ) else {
            continue;
        };
        match dialect.get_machine(&key).await {
            Ok(current) if current.uid == machine.uid => context.view.note_machine(current),
            Ok(_) | Err(crate::edge::clients::WriteError::Gone(_)) => {
                context.view.forget_machine(&machine);
            }
            Err(_) => {}
        }
    }
}
