//! Capacity buffers: room that is kept free for pods that are not there yet.
//!
//! karpenter: pkg/controllers/capacitybuffer

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::name::Name;
use joiner_core::plan::{Home, Plan, PodRef};
use joiner_core::problem::{PodSpec, Problem};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{PodTemplate, PodTemplateSpec};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tracing::warn;

use crate::context::{Context, Mode};
use crate::record::{BufferRecord, BufferStatus, Condition, Conditions, Key, ScalableRef, Truth};
use crate::view::World;
use crate::view::pods::{Limits, lower_template};

/// How often what buffers refer to is looked up: templates and workloads are not watched, and one read for each buffer
/// costs little.
const PERIOD: Duration = Duration::from_secs(5);
/// Buffers are the first to make room.
const PRIORITY: i32 = i32::MIN;

/// The pods to keep room for: name, what one needs, how many.
pub fn room(world: &World) -> Vec<(Name, Arc<PodSpec>, u32)> {
    let rooms = world.rooms.iter().filter(|(_, (_, count))| *count > 0);
    rooms
        .map(|(key, (pod, count))| (name(key), pod.clone(), *count))
        .collect()
}

/// What the pods of a buffer are called in a problem.
fn name(buffer: &Key) -> Name {
    format!("buffer:{buffer}").into()
}

/// Says of each buffer whether its room is there, as a plan has found it.
pub(crate) async fn judge(context: &Context, problem: &Problem, plan: &Plan) {
    if context.settings.mode == Mode::ObserveOnly {
        return;
    }
    let buffers: Vec<(Arc<BufferRecord>, Option<u32>)> = {
        let world = context.view.read();
        let all = world.buffers.iter().cloned();
        all.map(|buffer| {
            let count = world.rooms.get(&buffer.key).map(|(_, count)| *count);
            (buffer, count)
        })
        .collect()
    };
    for (buffer, count) in buffers {
        let (status, reason) = match count {
            None => (Truth::False, "NotReadyForProvisioning"),
            Some(0) => (Truth::False, "BufferEmpty"),
            Some(_) if missing(problem, plan, &name(&buffer.key)) => {
                (Truth::False, "RequiresNewCapacity")
            }
            Some(_) => (Truth::True, "FitsExistingCapacity"),
        };
        let mut conditions = buffer.conditions.clone();
        conditions.ensure(condition(
            "Provisioning",
            status,
            reason,
            String::new(),
            buffer.generation,
            context.now(),
        ));
        if conditions != buffer.conditions {
            write(context, &buffer, None, &conditions).await;
        }
    }
}

/// Whether any of these pods finds no place on what is there.
fn missing(problem: &Problem, plan: &Plan, name: &Name) -> bool {
    let new = plan.launches.iter().flat_map(|launch| &launch.pods);
    let nowhere = plan.unplaced.iter().flat_map(|one| &one.pods);
    let mut pods = new.chain(nowhere);
    pods.any(|pod: &PodRef| {
        pod.home == Home::Pending && problem.pod(*pod).is_some_and(|group| group.name == *name)
    })
}

/// Looks up what buffers refer to, for ever: when a buffer has changed, and every few seconds while there are any.
pub async fn run(context: Arc<Context>, changed: Arc<Notify>) {
    loop {
        if context.may_act() {
            let buffers: Vec<Arc<BufferRecord>> =
                context.view.read().buffers.iter().cloned().collect();
            for buffer in buffers {
                resolve(&context, &buffer).await;
            }
        }
        tokio::select! {
            biased;
            () = changed.notified() => {}
            () = tokio::time::sleep(PERIOD) => {}
        }
    }
}

async fn resolve(context: &Context, buffer: &BufferRecord) {
    let found = look_up(context, buffer).await;
    let now = context.now();
    let mut told = BufferStatus {
        strategy: buffer.strategy.clone(),
        ..BufferStatus::default()
    };
    let (pod, replicas, status, reason, message) = match found {
        Ok(found) => {
            told.template_generation = found.generation;
            told.template = found.generation.and_then(|_| buffer.template.clone());
            let (template, running) = (found.template, found.running);
            let pod = lower_template(&template, buffer.key.namespace.clone(), Limits::Ignored);
            let pod = pod.map(|mut spec| {
                spec.priority = PRIORITY;
                Arc::new(spec)
            });
            let count = pod.as_deref().map_or(0, |pod| size(buffer, pod, running));
            (pod, count, Truth::True, "Resolved", String::new())
        }
        Err((reason, message)) => (None, 0, Truth::False, reason, message),
    };
    let mut conditions = buffer.conditions.clone();
    conditions.ensure(condition(
        "ReadyForProvisioning",
        status,
        reason,
        message,
        buffer.generation,
        now,
    ));
    context
        .view
        .note_room(&buffer.key, pod.map(|pod| (pod, replicas)));
    told.replicas = Some(replicas);
    let same = conditions == buffer.conditions && told == buffer.status;
    if same || context.settings.mode == Mode::ObserveOnly {
        return;
    }
    write(context, buffer, Some(&told), &conditions).await;
}

async fn write(
    context: &Context,
    buffer: &BufferRecord,
    status: Option<&BufferStatus>,
    conditions: &Conditions,
) {
    let Some(dialect) = context.dialect(&buffer.key) else {
        return;
    };
    if let Err(error) = dialect.write_buffer(buffer, status, conditions).await {
        warn!(buffer = %buffer.key, %error, "status of the CapacityBuffer could not be written");
    }
}

fn condition(
    kind: &str,
    status: Truth,
    reason: &str,
    message: String,
    generation: i64,
    now: Timestamp,
) -> Condition {
    Condition {
        kind: kind.into(),
        status,
        reason: reason.into(),
        message,
        since: now,
        generation,
    }
}

/// How many pods a buffer stands for.
fn size(buffer: &BufferRecord, pod: &PodSpec, running: u32) -> u32 {
    let share = buffer.percentage.map(|percent| {
        let exact = u64::from(running) * u64::from(percent);
        u32::try_from(exact.div_ceil(100))
            .unwrap_or(u32::MAX)
            .max(1)
    });
    let wanted = buffer.replicas.max(share);
    let most = buffer
        .limits
        .iter()
        .filter_map(|(name, limit)| {
            let each = pod.requests.get(name);
            (each > 0).then(|| u32::try_from(limit / each).unwrap_or(0))
        })
        .min();
    match (wanted, most) {
        (Some(wanted), Some(most)) => wanted.min(most),
        (Some(wanted), None) => wanted,
        (None, Some(most)) => most,
        (None, None) => 0,
    }
}

type Missing = (&'static str, String);

/// What a buffer refers to.
struct Found {
    /// One of the buffer's pods.
    template: PodTemplateSpec,
    /// How many of its kind run.
    running: u32,
    /// Generation of the pod template object, if it is one.
    generation: Option<i64>,
}

/// Looks up what a buffer refers to.
async fn look_up(context: &Context, buffer: &BufferRecord) -> Result<Found, Missing> {
    let client = || context.edge.clients.reads.clone();
    let namespace = &*buffer.key.namespace;
    if let Some(name) = &buffer.template {
        let missing = |said: String| ("PodTemplateNotFound", said);
        let api: Api<PodTemplate> = Api::namespaced(client(), namespace);
        let found = api
            .get(name)
            .await
            .map_err(|error| missing(error.to_string()))?;
        let template = found
            .template
            .ok_or_else(|| missing(format!("pod template {name} is empty")))?;
        return Ok(Found {
            template,
            running: 0,
            generation: Some(found.metadata.generation.unwrap_or(0)),
        });
    }
    let Some(scalable) = &buffer.scalable else {
        return Err((
            "ResolutionFailed",
            "names neither a pod template nor a workload".to_owned(),
        ));
    };
    let found = match (&*scalable.group, &*scalable.kind) {
        ("apps", "Deployment") => {
            workload(client(), namespace, scalable, |one: Deployment| {
                one.spec.map(|spec| (Some(spec.template), spec.replicas))
            })
            .await?
        }
        ("apps", "StatefulSet") => {
            workload(client(), namespace, scalable, |one: StatefulSet| {
                one.spec.map(|spec| (Some(spec.template), spec.replicas))
            })
            .await?
        }
        ("apps", "ReplicaSet") => {
            workload(client(), namespace, scalable, |one: ReplicaSet| {
                one.spec.map(|spec| (spec.template, spec.replicas))
            })
            .await?
        }
        (group, kind) => {
            let message = format!(
                "{kind} of {group:?} cannot be buffered: use a Deployment, StatefulSet or ReplicaSet"
            );
            return Err(("ResolutionFailed", message));
        }
    };
    let (template, running) = found;
    Ok(Found {
        template,
        running,
        generation: None,
    })
}

/// The pods of one workload: what one looks like, and how many there are.
async fn workload<K>(
    client: Client,
    namespace: &str,
    scalable: &ScalableRef,
    pods: impl Fn(K) -> Option<(Option<PodTemplateSpec>, Option<i32>)>,
) -> Result<(PodTemplateSpec, u32), Missing>
where
    K: Clone + DeserializeOwned + Debug + Resource<Scope = NamespaceResourceScope>,
    K::DynamicType: Default,
{
    let api: Api<K> = Api::namespaced(client, namespace);
    let object = api
        .get(&scalable.name)
        .await
        .map_err(|error| ("ScalableRefNotFound", error.to_string()))?;
    let Some((Some(template), replicas)) = pods(object) else {
        let said = format!("{} {} has no template", scalable.kind, scalable.name);
        return Err(("ResolutionFailed", said));
    };
    Ok((template, u32::try_from(replicas.unwrap_or(1)).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::clock::SystemClock;
    use crate::view::View;

    #[test]
    fn a_buffer_that_went_while_it_was_looked_up_keeps_no_room() {
        let (view, _touched) = View::new(Arc::new(SystemClock));
        let key = Key {
            dialect: "karpenter",
            namespace: "default".into(),
            name: "gone".into(),
        };
        view.note_room(&key, Some((Arc::new(PodSpec::default()), 2)));
        assert!(room(&view.read()).is_empty());
    }
}
