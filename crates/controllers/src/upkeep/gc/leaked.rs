//! Machines at a cloud that carry our mark and that no object asks for.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::name::Name;
use joiner_providers::{Machine, MachineId, NodeLink, ProviderError, Uid};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use tracing::{error, info, warn};

use super::{Suspects, family, locked, plausible, ripe};
use crate::context::Context;
use crate::edge::clients::while_leading;
use crate::edge::clock;
use crate::edge::events::Severity;
use crate::lifecycle::reconcile::unchanged;
use crate::market::slots::Slot;
use crate::view::World;
use crate::view::nodes::{NodeRecord, lower_node};
use crate::view::pods::Owner;

/// How long a kubelet may be silent until its node counts as out of use: so long Kubernetes leaves pods where they are.
const SILENT: Duration = Duration::from_mins(5);

/// Terminates machines that nothing in the cluster asks for. One whose node is in use is no garbage whatever lists say.
pub(super) async fn terminate(
    context: &Context,
    slot: &Slot,
    all: &[Machine],
    suspects: &Mutex<Suspects>,
) {
    let now = context.now();
    let wanted = |uid: &Uid| {
        let world = context.view.read();
        world.unreadable.contains_key(&uid.0) || world.machines.iter().any(|one| one.uid == *uid)
    };
    // Without a readable mark it cannot be told whose it is: it is left alone.
    let marked = || all.iter().filter_map(|one| Some((one, one.uid.as_ref()?)));
    let (known, unknown): (Vec<_>, Vec<_>) = marked().partition(|(_, uid)| wanted(uid));
    let used = used(context, slot, &unknown);
    let due: Vec<(&Machine, &Uid)> = {
        let mut suspects = locked(suspects);
        let slots = context.market.classes.slots();
        suspects
            .machines
            .retain(|key, _| slots.iter().any(|slot| slot.key == *key));
        let suspects = suspects.machines.entry(slot.key.clone()).or_default();
        let idle = |one: &Machine| !used.contains(&one.id);
        suspects.retain(|id, _| unknown.iter().any(|(one, _)| one.id == *id && idle(one)));
        let idle = unknown.iter().copied().filter(|(one, _)| idle(one));
        let due = idle.filter(|(one, _)| ripe(suspects, &one.id, now));
        due.collect()
    };
    if due.is_empty() {
        return;
    }
    if !plausible(unknown.len(), known.len() + unknown.len()) {
        error!(class = %slot.key, unknown = unknown.len(), known = known.len(),
            "too many machines have no object at once: none is terminated. Delete those that are not needed at the cloud");
        return;
    }
    let Some(dialect) = family(context, slot) else {
        return;
    };
    let objects = match dialect.machine_uids().await {
        Ok(objects) => objects,
        Err(error) => {
            warn!(class = %slot.key, %error, "machine objects could not be listed: garbage collection waits");
            return;
        }
    };
    for (machine, uid) in due {
        let used = || node_in_use(&context.view.read(), machine, uid, context.now()).is_some();
        if objects.contains(&uid.0) || wanted(uid) || used() || !context.may_act() {
            continue;
        }
        info!(id = %machine.id, class = %slot.key, "machine has no object in the cluster: it is terminated");
        context.edge.metrics.leaked.inc();
        match slot
            .call(while_leading(
                &context.edge.clients.fence,
                slot.provider.terminate(&machine.id),
            ))
            .await
        {
            Ok(()) | Err(ProviderError::NotFound(_)) => forget_node(context, machine, uid).await,
            Err(error) => {
                warn!(id = %machine.id, %error, "machine could not be terminated; it is tried again");
            }
        }
    }
}

/// Those of the machines whose nodes are in use. Each of these nodes is told that its machine has no object, and what
/// to do about it.
fn used(context: &Context, slot: &Slot, unknown: &[(&Machine, &Uid)]) -> BTreeSet<MachineId> {
    let now = context.now();
    let in_use: Vec<(&Machine, Name)> = {
        let world = context.view.read();
        let unknown = unknown.iter();
        unknown
            .filter_map(|(one, uid)| Some((*one, node_in_use(&world, one, uid, now)?)))
            .collect()
    };
    let events = family(context, slot).map(|one| context.edge.events.by(one.event_source()));
    for (machine, node) in &in_use {
        let Some(events) = &events else { break };
        let message = format!(
            "the machine {} of this node has no machine object, and is not terminated because the node is in use: \
             drain the node and delete it to have the machine terminated",
            machine.id
        );
        let reason = "MachineObjectMissing";
        context.say_of_node(events, node, Severity::Warning, reason, &message);
    }
    in_use.into_iter().map(|(one, _)| one.id.clone()).collect()
}

/// The node that a machine has become, if it is in use: marked as this machine's or running pods, and Ready, or silent
/// for no longer than pods are left on it. A node that is being deleted is not wanted any more.
fn node_in_use(world: &World, machine: &Machine, uid: &Uid, now: Timestamp) -> Option<Name> {
    let strong = |link: &&NodeLink| is_strong(link);
    let is_own = |node: &&Arc<NodeRecord>| {
        let mut links = machine.links.iter().filter(strong);
        node.belongs_to(uid) || links.any(|link| node.is(link))
    };
    let mut own = world.nodes.iter().filter(is_own);
    let node = own.find(|node| {
        let runs_pods = || {
            let mut pods = world.pods_on(&node.name);
            pods.any(|pod| !pod.terminal && !matches!(pod.owner, Owner::DaemonSet | Owner::Node))
        };
        !node.deleting && answers(node, now) && (node.belongs_to(uid) || runs_pods())
    })?;
    Some(node.name.clone())
}

/// Whether a kubelet answers, or was silent for so short a time that its pods are still its own.
fn answers(node: &NodeRecord, now: Timestamp) -> bool {
    let mut conditions = node.conditions.iter();
    let ready = conditions.find(|one| &*one.kind == "Ready");
    ready.is_some_and(|one| &*one.status == "True" || clock::since(now, one.since) < SILENT)
}

/// Names are used again, by others too.
fn is_strong(link: &NodeLink) -> bool {
    matches!(link, NodeLink::ProviderId(_) | NodeLink::SystemUuid(_))
}

/// The node of a machine that was terminated because nobody asked for it. If its object went before it joined, it
/// carries no finalizer of ours and nobody else would delete it. The machine carried our mark at the cloud; the node
/// must carry the same one, or none of anybody's.
async fn forget_node(context: &Context, machine: &Machine, uid: &Uid) {
    let nodes: Vec<Name> = {
        let world = context.view.read();
        let own = |node: &&Arc<NodeRecord>| {
            let mut links = machine.links.iter().filter(|link| is_strong(link));
            links.any(|link| node.is(link)) && world.machine_of(&node.name).is_none()
        };
        let nodes = world.nodes.iter().filter(own);
        nodes.map(|node| node.name.clone()).collect()
    };
    let api: Api<Node> = Api::all(context.edge.clients.writes.clone());
    for name in nodes {
        let Ok(Some(node)) = api.get_opt(&name).await else {
            continue;
        };
        let node = lower_node(node);
        if node.deleting || !(node.belongs_to(uid) || node.unclaimed()) {
            continue;
        }
        info!(node = %node.name, id = %machine.id, "the node of a terminated machine is deleted");
        if let Err(error) = api.delete(&name, &unchanged(&node.uid, node.version)).await {
            warn!(node = %node.name, %error, "could not be deleted");
        }
    }
}

#[cfg(test)]
mod tests {
    use joiner_core::name::Labels;
    use joiner_core::problem::CapacityType;
    use joiner_core::resources::Resources;
    use joiner_providers::MachineState;
    use serde_json::{Value, json};

    use super::*;
    use crate::dialect::Event;
    use crate::view::Observation;
    use crate::view::samples::{at, bound, only};

    fn machine() -> Machine {
        Machine {
            id: MachineId("m-1".into()),
            uid: Some(Uid("uid-1".into())),
            state: MachineState::Running,
            links: vec![NodeLink::ProviderId("sim://m-1".into())],
            instance_type: "large".into(),
            zone: "a".into(),
            region: "".into(),
            capacity_type: CapacityType::OnDemand,
            price: None,
            capacity: Resources::new(),
            allocatable: Resources::new(),
            labels: Labels::new(),
            created: None,
        }
    }

    /// Whether the machine is in use, its node being as changed and with these pods, so many seconds after the node was
    /// last heard of.
    fn in_use(change: impl FnOnce(&mut Value), pods: bool, seconds: i64) -> bool {
        let mut node = json!({
            "metadata": {"name": "node", "uid": "node", "annotations": {
                "joiner.dev/managed-by": "cluster.karpenter", "joiner.dev/machine-uid": "uid-1"}},
            "spec": {"providerID": "sim://m-1"},
            "status": {"conditions": [{"type": "Ready", "status": "True",
                "lastTransitionTime": at(0).to_string()}]},
        });
        change(&mut node);
        let pods = pods.then(|| bound("web", &json!([])));
        let mut world = only(pods.into_iter().collect());
        let node = lower_node(serde_json::from_value(node).unwrap());
        let seen = Observation::Node(Event::Changed(node));
        world.observe("nodes", seen, at(0));
        node_in_use(&world, &machine(), &Uid("uid-1".into()), at(seconds)).is_some()
    }

    fn silent(node: &mut Value) {
        node["status"]["conditions"][0]["status"] = json!("Unknown");
    }

    fn without_mark(node: &mut Value) {
        node["metadata"]["annotations"] = json!({});
    }

    #[test]
    fn a_machine_is_in_use_while_its_marked_node_answers() {
        assert!(in_use(|_| (), false, 3600));
        assert!(in_use(silent, false, 299), "a kubelet may be restarted");
        assert!(!in_use(silent, false, 300));
        let never_ready = |node: &mut Value| node["status"] = json!({});
        assert!(!in_use(never_ready, true, 0));
    }

    #[test]
    fn a_node_that_never_was_registered_is_in_use_once_pods_run_on_it() {
        assert!(!in_use(without_mark, false, 0));
        assert!(in_use(without_mark, true, 0));
        let other = |node: &mut Value| {
            without_mark(node);
            node["spec"]["providerID"] = json!("sim://m-2");
        };
        assert!(!in_use(other, true, 0), "the node of another machine");
    }

    #[test]
    fn a_node_that_is_being_deleted_keeps_no_machine() {
        let deleted =
            |node: &mut Value| node["metadata"]["deletionTimestamp"] = json!(at(0).to_string());
        assert!(!in_use(deleted, true, 0));
    }
}
