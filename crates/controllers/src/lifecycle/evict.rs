//! Pods that have to leave: asked to first, made to when the time is up.

use joiner_core::name::Name;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, EvictParams};
use tracing::{debug, info};

use super::reconcile::{Worker, exactly};
use crate::context::Context;
use crate::dialect::ObjectRef;
use crate::edge::clients::WriteError;
use crate::edge::events::Severity;
use crate::record::{MachineRecord, Truth, kinds};
use crate::view::pods::PodKey;

/// The reason in metrics where a node goes for none of its pool's reasons: a user deleted it, or its cloud takes it
/// back.
const NODE_REMOVED: &str = "node_removed";

impl Worker<'_> {
    /// Makes a pod leave within so many seconds.
    pub(super) async fn delete_pod(
        &mut self,
        machine: &MachineRecord,
        pod: &PodKey,
        uid: &Name,
        grace_seconds: u32,
    ) -> Result<(), WriteError> {
        let context = self.context;
        let api: Api<Pod> = Api::namespaced(context.edge.clients.writes.clone(), &pod.namespace);
        let parameters = DeleteParams {
            grace_period_seconds: Some(grace_seconds),
            ..exactly(uid)
        };
        let answer = api.delete(&pod.name, &parameters).await;
        let answer = answer.map(drop).map_err(WriteError::from);
        if answer == Err(WriteError::NotLeader) {
            return Err(WriteError::NotLeader);
        }
        info!(machine = %machine.key, %pod, grace_seconds, "pod is deleted: the time for draining its node is over");
        context.edge.metrics.pod_drained("Forceful Termination");
        let message = format!(
            "Deleted with {grace_seconds}s of grace: the node's termination grace period ends"
        );
        context.events_for(&machine.key).say(
            &pod_ref(pod, uid),
            Severity::Normal,
            "Disrupted",
            &message,
        );
        self.memory.evicted(uid, answer, context.now());
        Ok(())
    }

    /// Asks pods of one size to leave, all at a time.
    pub(super) async fn evict(
        &mut self,
        machine: &MachineRecord,
        pods: Vec<(PodKey, Name)>,
        size: i32,
    ) -> Result<(), WriteError> {
        let context = self.context;
        let asked = pods
            .iter()
            .map(|(pod, uid)| ask(context, machine, pod, uid));
        let answers = futures::future::join_all(asked).await;
        self.memory.left = Some((size, context.now()));
        let mut done = Ok(());
        for ((_, uid), answer) in pods.iter().zip(answers) {
            if answer == Err(WriteError::NotLeader) {
                done = Err(WriteError::NotLeader);
            } else {
                self.memory.evicted(uid, answer, context.now());
            }
        }
        done
    }
}

/// Asks a pod to leave.
async fn ask(
    context: &Context,
    machine: &MachineRecord,
    pod: &PodKey,
    uid: &Name,
) -> Result<(), WriteError> {
    let api: Api<Pod> = Api::namespaced(context.edge.clients.writes.clone(), &pod.namespace);
    let parameters = EvictParams {
        delete_options: Some(exactly(uid)),
        ..EvictParams::default()
    };
    let answer = api.evict(&pod.name, &parameters).await;
    let mut answer = answer.map(drop).map_err(WriteError::from);
    if let Err(WriteError::HeldBack { message, .. }) = &mut answer {
        *message = name_the_budgets(context, pod, message);
    }
    let code = match &answer {
        Ok(()) => "200",
        Err(WriteError::HeldBack { .. }) => "429",
        Err(error) => error.kind(),
    };
    context.edge.metrics.eviction(code);
    if answer.is_ok() {
        debug!(machine = %machine.key, %pod, "evicted");
        let why = machine
            .intent()
            .map(|one| one.cause.to_string())
            .or_else(|| {
                let told = machine.status.conditions.get(kinds::DISRUPTION_REASON)?;
                (told.status == Truth::True).then(|| told.reason.to_string())
            });
        let (metric, why) = match why {
            Some(why) => (why.clone(), format!(" ({why})")),
            None => (NODE_REMOVED.to_owned(), String::new()),
        };
        context.edge.metrics.pod_drained(&metric);
        let node = machine.status.node.as_deref().unwrap_or(&machine.key.name);
        let message = format!("Node {node} is being removed{why}");
        context.events_for(&machine.key).say(
            &pod_ref(pod, uid),
            Severity::Normal,
            "Evicted",
            &message,
        );
    }
    answer
}

fn pod_ref(pod: &PodKey, uid: &str) -> ObjectRef {
    ObjectRef {
        api_version: "v1".into(),
        kind: "Pod".into(),
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        uid: uid.into(),
    }
}

/// What the API server says about a refused eviction names no budget: we know which ones it is.
fn name_the_budgets(context: &Context, pod: &PodKey, said: &str) -> String {
    let world = context.view.read();
    let Some(record) = world.pods.get(pod) else {
        return said.to_owned();
    };
    let names: Vec<String> = world
        .budgets
        .iter()
        .filter(|one| one.key.namespace == pod.namespace)
        .filter(|one| {
            let selector = one.value.selector.as_ref();
            selector.is_some_and(|selector| selector.matches(&record.spec.labels))
        })
        .map(|one| format!("PodDisruptionBudget {}", one.key))
        .collect();
    if names.is_empty() {
        said.to_owned()
    } else {
        names.join(", ")
    }
}
