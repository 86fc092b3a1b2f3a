//! Keeping new pods away from a node, and looking at those that are there where the answer cannot be stale.

use joiner_core::taints::{Effect, Taint};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};

use crate::context::Context;
use crate::edge::clients::WriteError;
use crate::lifecycle::NodeChange;
use crate::view::nodes::{NodeRecord, lower_node};
use crate::view::pods::{DISRUPTED, LeanPod, Owner, PodRecord, Specs, lower_pod};

/// Whether a node keeps new pods away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taintedness {
    /// It does.
    Tainted,
    /// It does, and load balancers are kept away too: nothing has to be ready before it goes.
    Leaving,
    /// It does not.
    Clean,
}

/// Puts the disruption taint on a node, or takes it off.
pub(super) async fn taint(
    context: &Context,
    node: &NodeRecord,
    wanted: Taintedness,
) -> Result<(), WriteError> {
    let owned = {
        let world = context.view.read();
        let machine = world.machine_of(&node.name);
        machine.is_some_and(|machine| node.belongs_to(&machine.uid))
    };
    if !owned {
        let said = format!("node {} does not carry the mark of its machine", node.name);
        return Err(WriteError::Refused(said));
    }
    let mut change = NodeChange::of(node);
    match wanted {
        Taintedness::Tainted | Taintedness::Leaving => {
            change.ensure_taints(node, &[Taint::no_schedule(DISRUPTED)], &[]);
            change.taint_time = Some(context.now());
        }
        Taintedness::Clean => {
            change.ensure_taints(node, &[], &[(DISRUPTED, Effect::NoSchedule)]);
            change.ensure_balanced(node);
        }
    }
    // What comes with going is written together with the first sign of it.
    if wanted == Taintedness::Leaving {
        change.ensure_unbalanced(node);
    }
    if change.is_empty() {
        return Ok(());
    }
    let api: Api<Node> = Api::all(context.edge.clients.writes.clone());
    let patch = Patch::Merge(change.patch(&[]));
    match api.patch(&node.name, &PatchParams::default(), &patch).await {
        Ok(node) => {
            context.view.note_node(lower_node(node));
            Ok(())
        }
        Err(error) => {
            if let Ok(Some(current)) = api.get_opt(&node.name).await {
                context.view.note_node(lower_node(current));
            }
            Err(error.into())
        }
    }
}

/// Pods on a node, read where they cannot be stale: whoever was bound before the taint is among them.
pub(super) async fn live_pods(context: &Context, node: &str) -> Result<Vec<PodRecord>, WriteError> {
    let api: Api<LeanPod> = Api::all(context.edge.clients.reads.clone());
    let parameters = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let mut specs = Specs::default();
    let pods = api.list(&parameters).await?;
    Ok(pods
        .items
        .into_iter()
        .map(|pod| lower_pod(pod.0, &mut specs))
        .collect())
}

/// Whether a pod is work that somebody would miss.
pub(super) fn is_work(pod: &PodRecord) -> bool {
    pod.active() && !matches!(pod.owner, Owner::DaemonSet | Owner::Node)
}
