//! Garbage in both directions: machines that nobody asked for, and objects whose machine is gone.
//!
//! Nothing is concluded from one look. A machine without an object must be seen twice, a while apart; an object without
//! a machine needs the cloud's word on that one machine, and a node that does not answer. And if too much looks gone at
//! once, it is the look that is wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::name::Name;
use joiner_providers::{Machine, MachineId, NodeLink, ProviderError, Uid};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use tracing::{error, info, warn};

use crate::context::{Context, Mode};
use crate::disrupt::delete;
use crate::edge::clients::while_leading;
use crate::edge::clock;
use crate::lifecycle::NodeChange;
use crate::lifecycle::reconcile::exactly;
use crate::market::slots::Slot;
use crate::record::MachineRecord;
use crate::view::nodes::{NodeRecord, lower_node};

/// How long something must look like garbage before it is.
const PATIENCE: Duration = Duration::from_secs(30);
/// What share of all machines may look gone at once, in percent.
const PLAUSIBLE: usize = 20;

/// What looks like garbage, and since when.
#[derive(Default)]
struct Suspects {
    machines: BTreeMap<MachineId, Timestamp>,
    objects: BTreeMap<Name, Timestamp>,
    nodes: BTreeMap<Name, Timestamp>,
}

/// Looks for garbage for ever.
pub(crate) async fn run(context: Arc<Context>) {
    let mut suspects = Suspects::default();
    loop {
        tokio::time::sleep(context.settings.garbage_period).await;
        if !context.may_act() || context.settings.mode == Mode::ObserveOnly {
            continue;
        }
        recheck_doubtful(&context).await;
        let mut complete = true;
        let mut everything = Vec::new();
        for slot in context.classes.slots() {
            // Clouds are listed before objects are looked at: whatever is bought in between has its object already.
            match slot.call(slot.provider.list()).await {
                Ok(all) => {
                    leaked(&context, &slot, &all, &mut suspects).await;
                    lost(&context, &slot, &all, &mut suspects).await;
                    everything.extend(all);
                }
                Err(error) => {
                    complete = false;
                    warn!(class = %slot.key, %error, "its machines cannot be listed: nothing is concluded");
                }
            }
        }
        if complete {
            abandoned_nodes(&context, &everything, &mut suspects).await;
        }
        let known: Vec<MachineId> = everything.into_iter().map(|one| one.id).collect();
        suspects.machines.retain(|id, _| known.contains(id));
    }
}

/// Since when something looks like garbage; `true` once it has for long enough.
fn ripe<K: Ord + Clone>(suspects: &mut BTreeMap<K, Timestamp>, key: &K, now: Timestamp) -> bool {
    let since = *suspects.entry(key.clone()).or_insert(now);
    clock::since(now, since) >= PATIENCE
}

/// Machines at the cloud that no object asked for.
async fn leaked(context: &Context, slot: &Slot, all: &[Machine], suspects: &mut Suspects) {
    let now = context.now();
    let objects: BTreeSet<Name> = {
        let world = context.view.read();
        let unreadable = world.unreadable.keys().cloned();
        let known = world.machines.iter().map(|one| one.uid.0.clone());
        known.chain(unreadable).collect()
    };
    // Before something is taken away it is looked for once more: others may have been waited for since.
    let wanted = |uid: &Uid| {
        let world = context.view.read();
        world.unreadable.contains_key(&uid.0) || world.machines.iter().any(|one| one.uid == *uid)
    };
    for machine in all {
        // Without a readable mark it cannot be told whose it is: it is left alone.
        let Some(uid) = &machine.uid else { continue };
        if objects.contains(&uid.0) {
            suspects.machines.remove(&machine.id);
            continue;
        }
        if !ripe(&mut suspects.machines, &machine.id, now) || !context.may_act() || wanted(uid) {
            continue;
        }
        info!(id = %machine.id, class = %slot.key, "a machine that nobody asked for is taken away");
        context.metrics.leaked.inc();
        match slot
            .call(while_leading(
                &context.clients.fence,
                slot.provider.terminate(&machine.id),
            ))
            .await
        {
            Ok(()) | Err(ProviderError::NotFound(_)) => forget_node(context, machine).await,
            Err(error) => {
                warn!(id = %machine.id, %error, "could not be taken away; it is tried again");
            }
        }
    }
}

/// The node of a machine that nobody asked for. If its object went before it joined, it carries no finalizer of ours
/// and nobody else would take it away.
async fn forget_node(context: &Context, machine: &Machine) {
    let nodes: Vec<Arc<NodeRecord>> = {
        let world = context.view.read();
        let own = |node: &&Arc<NodeRecord>| {
            // Names are used again, by others too.
            let strong = |link: &&NodeLink| {
                matches!(link, NodeLink::ProviderId(_) | NodeLink::SystemUuid(_))
            };
            machine
                .links
                .iter()
                .filter(strong)
                .any(|link| node.is(link))
                && world.machine_of(&node.name).is_none()
                && !node.deleting
        };
        world.nodes.iter().filter(own).cloned().collect()
    };
    let api: Api<Node> = Api::all(context.clients.writes.clone());
    for node in nodes {
        info!(node = %node.name, id = %machine.id, "its node goes with it");
        if let Err(error) = api.delete(&node.name, &exactly(&node.uid)).await {
            warn!(node = %node.name, %error, "could not be deleted");
        }
    }
}

/// Objects whose machine the cloud no longer has, or whose node is gone.
async fn lost(context: &Context, slot: &Slot, all: &[Machine], suspects: &mut Suspects) {
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
    if suspicious > 1 && suspicious * 100 > total * PLAUSIBLE {
        error!(class = %slot.key, suspicious, total, "too many machines look gone at once: nothing is done");
        return;
    }
    for machine in &gone {
        let Some(id) = &machine.status.machine_id else {
            continue;
        };
        if !ripe(&mut suspects.objects, &machine.uid.0, now) {
            continue;
        }
        if matches!(
            slot.call(slot.provider.get(id)).await,
            Err(ProviderError::NotFound(_))
        ) {
            info!(machine = %machine.key, %id, "the cloud no longer has it");
            delete(context, machine, "garbage_collected").await;
        }
    }
    for machine in &nodeless {
        let Some(name) = &machine.status.node else {
            continue;
        };
        let api: Api<Node> = Api::all(context.clients.reads.clone());
        if !matches!(api.get_opt(name).await, Ok(None)) {
            suspects.objects.remove(&machine.uid.0);
            continue;
        }
        if ripe(&mut suspects.objects, &machine.uid.0, now) {
            info!(machine = %machine.key, node = %name, "its node is gone");
            delete(context, machine, "garbage_collected").await;
        }
    }
    let keep: Vec<&Name> = gone.iter().chain(&nodeless).map(|one| &one.uid.0).collect();
    suspects
        .objects
        .retain(|uid, since| keep.contains(&uid) || clock::since(now, *since) < PATIENCE * 4);
}

/// Nodes that carry our finalizer while object and machine are gone already.
async fn abandoned_nodes(context: &Context, all: &[Machine], suspects: &mut Suspects) {
    let now = context.now();
    let finalizers: Vec<&'static str> = context
        .dialects
        .values()
        .map(|one| one.finalizer())
        .collect();
    let abandoned: Vec<Arc<NodeRecord>> = {
        let world = context.view.read();
        let ours = |node: &&Arc<NodeRecord>| {
            node.finalizers
                .iter()
                .any(|one| finalizers.contains(&&**one))
        };
        let claimed = |node: &NodeRecord| {
            world.machine_of(&node.name).is_some()
                || world
                    .machines
                    .iter()
                    .any(|one| node.owners.contains(&one.uid.0))
                || all
                    .iter()
                    .any(|machine| machine.links.iter().any(|link| node.is(link)))
                || node
                    .owners
                    .iter()
                    .any(|uid| world.unreadable.contains_key(uid))
        };
        world
            .nodes
            .iter()
            .filter(ours)
            .filter(|node| !claimed(node))
            .cloned()
            .collect()
    };
    suspects
        .nodes
        .retain(|uid, _| abandoned.iter().any(|node| node.uid == *uid));
    for node in abandoned {
        if !ripe(&mut suspects.nodes, &node.uid, now) {
            continue;
        }
        let mut change = NodeChange::of(&node);
        for finalizer in &finalizers {
            change.ensure_finalizer(&node, finalizer, false);
        }
        info!(node = %node.name, "an abandoned node is let go");
        let api: Api<Node> = Api::all(context.clients.writes.clone());
        if !node.deleting
            && let Err(error) = api.delete(&node.name, &exactly(&node.uid)).await
        {
            warn!(node = %node.name, %error, "could not be deleted");
            continue;
        }
        // The deletion was a change of its own.
        change.version = match api.get(&node.name).await {
            Ok(current) => lower_node(current).version,
            Err(_) => continue,
        };
        match api
            .patch(
                &node.name,
                &PatchParams::default(),
                &Patch::Merge(change.patch(&[])),
            )
            .await
        {
            Ok(node) => context.view.note_node(lower_node(node)),
            Err(error) => warn!(node = %node.name, %error, "could not be let go"),
        }
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
