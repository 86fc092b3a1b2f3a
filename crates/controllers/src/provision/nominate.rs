//! Tells the scheduler which pods a machine was bought for.
//!
//! A plan that leaves little room to spare holds only if every pod goes where it was planned. The scheduler spreads pods
//! as it likes, unless `status.nominatedNodeName` says where one should go: it looks there first, and keeps the room
//! free from others meanwhile. Nobody depends on it: whatever is not told, or told in vain, is planned again.

use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use jiff::Timestamp;
use joiner_core::name::Name;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::RwLockWriteGuard;
use tokio::time::Instant;
use tracing::{debug, warn};

use super::POD_WRITES;
use crate::context::Context;
use crate::edge::clients::WriteError;
use crate::record::Key;
use crate::view::pods::{LeanPod, NOMINATOR, PodKey};

/// How long to wait for the other machines of a purchase, and how often to look for them.
const OTHERS: Duration = Duration::from_millis(1500);
const LOOK: Duration = Duration::from_millis(50);

/// Tells the scheduler, just before a machine's node takes pods, which ones it is for.
///
/// Nodes that are ready together are told of together, and open together: while some take pods already, the scheduler
/// would try those of the others on the wrong node, and forget what they were told. So nobody is told anything while
/// nodes open, which is as long as the caller holds what this returns, and none opens while others are told of.
pub(crate) async fn nominate<'c>(
    context: &'c Context,
    machine: &Key,
    node: &Name,
) -> Option<RwLockWriteGuard<'c, ()>> {
    drop(context.provision.selling.read().await);
    // From before it is known that they are told of until they are.
    let telling = context.provision.opening.read().await;
    let pods = context.provision.served.tell(machine)?;
    let patience = Instant::now() + OTHERS;
    while context.provision.served.others_untold(machine) && Instant::now() < patience {
        tokio::time::sleep(LOOK).await;
    }
    let waiting: Vec<(Name, PodKey)> = {
        let world = context.view.read();
        let waits = |(uid, key): &(Name, PodKey)| {
            let pod = world.pods.get(key);
            pod.is_some_and(|pod| pod.uid == *uid && pod.waits() && !pod.nominated)
        };
        pods.into_iter().filter(waits).collect()
    };
    debug!(%machine, %node, pods = waiting.len(), "the scheduler is told who goes there");
    write(context, waiting, &json!(node)).await;
    drop(telling);
    Some(context.provision.opening.write().await)
}

/// Takes back what did not come true.
pub(super) async fn take_back(context: &Context, now: Timestamp) {
    let stale: Vec<(Name, PodKey)> = {
        let world = context.view.read();
        let mut told = world
            .pods
            .iter()
            .filter(|pod| pod.nominated && pod.waits())
            .peekable();
        if told.peek().is_none() {
            return;
        }
        let promises = context.provision.served.promises(now);
        told.filter(|pod| !promises.contains_key(&pod.uid))
            .map(|pod| (pod.uid.clone(), pod.key.clone()))
            .collect()
    };
    write(context, stale, &Value::Null).await;
}

async fn write(context: &Context, pods: Vec<(Name, PodKey)>, node: &Value) {
    let refused = stream::iter(pods)
        .map(|(uid, pod)| async move {
            let _turn = context.provision.pod_writes.acquire().await.ok()?;
            let api: Api<LeanPod> =
                Api::namespaced(context.edge.clients.writes.clone(), &pod.namespace);
            let patch = json!({
                "metadata": {"uid": uid},
                "status": {"nominatedNodeName": node},
            });
            let parameters = PatchParams {
                field_manager: Some(NOMINATOR.to_owned()),
                ..PatchParams::default()
            };
            let written = api
                .patch_status(&pod.name, &parameters, &Patch::Merge(patch))
                .await;
            let error = written.map_err(WriteError::from).err()?;
            debug!(%pod, %error, "the scheduler was not told where it should go");
            matches!(error, WriteError::Refused(_)).then_some(error)
        })
        .buffer_unordered(POD_WRITES)
        .fold(None, |first, next| async { first.or(next) });
    if let Some(error) = refused.await {
        warn!(
            %error,
            "the scheduler cannot be told where pods go, so tight plans may need a node more: allow `patch` of \
             `pods/status`"
        );
    }
}
