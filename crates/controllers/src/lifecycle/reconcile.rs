//! Does what [`step`](super::step) says, one request at a time, and remembers the answers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use joiner_providers::{NodeLink, ProviderError};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, EvictParams, Patch, PatchParams, Preconditions};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::{Cause, Memory, NodeChange, Observed, Step, Wake, step};
use crate::backoff::Subject;
use crate::classes::Slot;
use crate::clients::{WriteError, while_leading};
use crate::clock;
use crate::context::{Context, Mode};
use crate::dialect::{Dialect, ObjectRef};
use crate::events::Severity;
use crate::metrics::{CloudCall, Code, PoolLabel, PoolReason};
use crate::record::{Key, MachineRecord, MachineStatus, kinds};
use crate::view::nodes::{NodeRecord, lower_node};
use crate::view::pods::PodKey;

/// How many steps in a row before others get their turn.
const STEPS: usize = 200;
/// How many machines are worked on at once; bounded so that a thousand drains do not swamp the API server.
const WORKERS: usize = 500;
/// How long to wait when a step had no effect.
const NO_PROGRESS: Duration = Duration::from_secs(10);
/// How long to wait while nothing may be done.
const STANDBY: Duration = Duration::from_secs(1);

/// Works on machines for ever.
pub async fn run(context: Arc<Context>) {
    let memories: Arc<Mutex<BTreeMap<Key, Memory>>> = Arc::default();
    let workers = Arc::new(Semaphore::new(WORKERS));
    loop {
        let ticket = context.queue.next().await;
        let Ok(permit) = workers.clone().acquire_owned().await else {
            return;
        };
        let (context, memories) = (context.clone(), memories.clone());
        let name = format!("machine {}", ticket.key);
        let tasks = context.tasks.clone();
        tasks.spawn(name, async move {
            let known = lock(&memories).remove(&ticket.key);
            let mut worker = Worker {
                context: &context,
                memory: known.unwrap_or_default(),
            };
            let wake = worker.work(&ticket.key).await;
            if let Some(wake) = wake {
                lock(&memories).insert(ticket.key.clone(), worker.memory);
                if let Wake::At(at) = wake {
                    let wait = clock::until(context.now(), at).max(Duration::from_millis(10));
                    context
                        .queue
                        .add_at(ticket.key.clone(), Instant::now() + wait);
                }
            }
            drop(permit);
        });
    }
}

fn lock(
    memories: &Mutex<BTreeMap<Key, Memory>>,
) -> std::sync::MutexGuard<'_, BTreeMap<Key, Memory>> {
    memories.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One machine's turn.
struct Worker<'a> {
    context: &'a Context,
    memory: Memory,
}

impl Worker<'_> {
    /// Steps until there is nothing to do. `None` once the machine object is gone.
    async fn work(&mut self, key: &Key) -> Option<Wake> {
        let mut before: Option<Step> = None;
        for _ in 0..STEPS {
            let now = self.context.now();
            if !self.context.may_act() {
                return Some(Wake::At(clock::after(now, STANDBY)));
            }
            let machine = self.context.view.read().machines.get(key).cloned()?;
            let dialect = self.context.dialect(key)?.clone();
            let slot = self.context.classes.slot(&machine.class);
            let observed = self.observe(&machine, &*dialect, slot.as_deref(), now);
            let next = step(&machine, &observed);
            if let Step::Wait(wake) = next {
                return Some(wake);
            }
            if self.context.settings.mode == Mode::ObserveOnly && changes(&next) {
                info!(machine = %key, ?next, "would do this, but only observes");
                return Some(Wake::OnChange);
            }
            // Whatever was done did not change what is to be done: doing it again at once will not either.
            if before.as_ref() == Some(&next) {
                warn!(machine = %key, ?next, "no progress");
                return Some(Wake::At(clock::after(now, NO_PROGRESS)));
            }
            debug!(machine = %key, ?next, "step");
            before = Some(next.clone());
            match self
                .perform(&machine, &*dialect, slot.as_deref(), next)
                .await
            {
                Ok(()) => {}
                Err(WriteError::NotLeader) => return Some(Wake::At(clock::after(now, STANDBY))),
                Err(WriteError::Conflict(_) | WriteError::Gone(_)) => {
                    before = None;
                    self.reread(&machine, &*dialect).await;
                }
                Err(error) => {
                    warn!(machine = %key, %error, "a write did not succeed");
                    self.memory.stumbled(self.context.now());
                    let at = self.memory.retry_at.unwrap_or(now);
                    // The next step must not be held up by a wait that belongs to the cloud.
                    self.memory.retry_at = None;
                    return Some(Wake::At(at));
                }
            }
        }
        Some(Wake::At(clock::after(self.context.now(), STANDBY)))
    }

    /// Everything that the next step depends on.
    fn observe(
        &mut self,
        machine: &MachineRecord,
        dialect: &dyn Dialect,
        slot: Option<&Slot>,
        now: Timestamp,
    ) -> Observed {
        let world = self.context.view.read();
        let mut links = self.memory.links.clone();
        if let Some(id) = &machine.status.provider_id {
            links.push(NodeLink::ProviderId(id.clone()));
        }
        let free = |owners: &[joiner_core::name::Name]| {
            owners.is_empty() || owners.contains(&machine.uid.0)
        };
        let nodes: Vec<Arc<NodeRecord>> = match &machine.status.node {
            Some(name) if machine.registered() => {
                world.nodes.get(name).cloned().into_iter().collect()
            }
            _ => world
                .nodes
                .iter()
                .filter(|node| free(&node.owners) && links.iter().any(|link| node.is(link)))
                .cloned()
                .collect(),
        };
        let joined = match nodes.as_slice() {
            [node] => Some(&*node.name),
            _ => None,
        };
        let node = machine
            .status
            .node
            .as_deref()
            .or(joined)
            .unwrap_or_default();
        let pods: Vec<_> = world.pods_on(node).cloned().collect();
        let staying: Vec<_> = pods
            .iter()
            .filter(|pod| !pod.terminal && !pod.awaits_eviction(now))
            .flat_map(|pod| {
                pod.claims
                    .iter()
                    .map(|claim| (pod.key.namespace.clone(), claim.clone()))
            })
            .filter_map(|(namespace, name)| world.claims.get(&PodKey { namespace, name }))
            .filter_map(|claim| claim.value.volume.clone())
            .collect();
        let attached = world
            .attachments
            .iter()
            .filter(|one| &*one.value.node == node && !node.is_empty())
            .filter(|one| {
                one.value
                    .volume
                    .as_ref()
                    .is_none_or(|volume| !staying.contains(volume))
            })
            .map(|one| {
                one.value
                    .volume
                    .clone()
                    .unwrap_or_else(|| one.key.name.clone())
            })
            .collect();
        self.memory
            .evictions
            .retain(|uid, _| pods.iter().any(|pod| pod.uid == *uid));
        if machine.deleting.is_some() && self.memory.drain_began.is_none() {
            self.memory.drain_began = Some(now);
        }
        Observed {
            now,
            timeouts: slot.map(|slot| slot.provider.timeouts()),
            finalizer: dialect.finalizer(),
            owner: dialect.owner(machine),
            node_labels: dialect.node_labels(machine),
            nodes,
            pods,
            attached,
            within_limits: machine.tried() == 0 || within_limits(&world, machine),
            memory: self.memory.clone(),
        }
    }

    async fn perform(
        &mut self,
        machine: &MachineRecord,
        dialect: &dyn Dialect,
        slot: Option<&Slot>,
        step: Step,
    ) -> Result<(), WriteError> {
        let context = self.context;
        match step {
            Step::Wait(_) => {}
            Step::Choose => {
                let offers = crate::provision::choose(context, machine).await;
                match offers {
                    Some(change) => {
                        let written = dialect.patch_machine(machine, &change).await?;
                        context.view.note_machine(written);
                    }
                    None => {
                        self.delete(
                            machine,
                            dialect,
                            Cause::InsufficientCapacity(
                                "no offering meets its requirements".into(),
                            ),
                        )
                        .await?;
                    }
                }
            }
            Step::Metadata(change) => {
                context
                    .view
                    .note_machine(dialect.patch_machine(machine, &change).await?);
            }
            Step::Status(status) => self.write_status(machine, dialect, &status).await?,
            Step::Launch(request) => {
                let Some(slot) = slot else { return Ok(()) };
                if machine.tried() > 0 {
                    // Whoever writes new machine objects holds this while looking at limits; so do we.
                    let _lock = context.purchasing.lock().await;
                    if !within_limits(&context.view.read(), machine) {
                        return Ok(());
                    }
                }
                let answer = slot
                    .call(while_leading(
                        &context.clients.fence,
                        slot.provider.launch(&request),
                    ))
                    .await;
                self.bought(machine, slot, &request, answer);
            }
            Step::Find => {
                let Some(slot) = slot else { return Ok(()) };
                let answer = slot.call(slot.provider.find(&machine.uid)).await;
                self.count("find", slot, &answer);
                self.memory.seen(answer, context.now());
            }
            Step::Get(id) => {
                let Some(slot) = slot else { return Ok(()) };
                let answer = slot.call(slot.provider.get(&id)).await;
                self.count("get", slot, &answer);
                self.memory.seen(answer, context.now());
            }
            Step::Terminate(id) => {
                let Some(slot) = slot else { return Ok(()) };
                if !context.clients.fence.holds() {
                    return Err(WriteError::NotLeader);
                }
                let answer = slot
                    .call(while_leading(
                        &context.clients.fence,
                        slot.provider.terminate(&id),
                    ))
                    .await;
                self.count("terminate", slot, &answer);
                self.memory.terminated(answer, context.now());
            }
            Step::Node(change) => self.patch_node(&change).await?,
            Step::DeleteNode { name, uid } => {
                let api: Api<Node> = Api::all(context.clients.writes.clone());
                api.delete(&name, &exactly(&uid)).await?;
                let node = api.get(&name).await?;
                context.view.note_node(lower_node(node));
            }
            Step::Evict { pod, uid } => self.evict(machine, &pod, &uid).await?,
            Step::DeletePod {
                pod,
                uid,
                grace_seconds,
            } => {
                let api: Api<Pod> = Api::namespaced(context.clients.writes.clone(), &pod.namespace);
                let parameters = DeleteParams {
                    grace_period_seconds: Some(grace_seconds),
                    ..exactly(&uid)
                };
                let answer = api.delete(&pod.name, &parameters).await;
                let answer = answer.map(drop).map_err(WriteError::from);
                info!(machine = %machine.key, %pod, grace_seconds, "a pod is made to leave: the drain's time is up");
                let about = pod_ref(&pod, &uid);
                context.events.say(&about, Severity::Normal, "Disrupted",
                    &format!("Deleted with {grace_seconds}s of grace: the node's termination grace period ends"));
                self.memory.evicted(&uid, answer, context.now());
            }
            Step::Delete(cause) => self.delete(machine, dialect, cause).await?,
            Step::Release => {
                let change = crate::record::MetadataChange {
                    finalizer: Some(false),
                    ..crate::record::MetadataChange::default()
                };
                match dialect.patch_machine(machine, &change).await {
                    Ok(_) | Err(WriteError::Gone(_)) => {}
                    Err(error) => return Err(error),
                }
                info!(machine = %machine.key, node = machine.status.node.as_deref(), "machine is gone");
                let nodepool = machine.pool.as_deref().unwrap_or_default().to_owned();
                context
                    .metrics
                    .terminated
                    .get_or_create(&PoolLabel { nodepool })
                    .inc();
                context.view.forget_machine(machine);
            }
        }
        Ok(())
    }

    fn bought(
        &mut self,
        machine: &MachineRecord,
        slot: &Slot,
        request: &joiner_providers::LaunchRequest,
        answer: Result<joiner_providers::Machine, ProviderError>,
    ) {
        let context = self.context;
        let now = context.now();
        self.count("launch", slot, &answer);
        let purchase = &request.purchase;
        match &answer {
            Ok(bought) => {
                context.backoffs.succeed(&Subject::offering(purchase));
                info!(
                    machine = %machine.key, id = %bought.id, instance_type = %bought.instance_type,
                    zone = %bought.zone, price = purchase.price.dollars(), "launched"
                );
            }
            Err(error @ (ProviderError::OutOfCapacity(_) | ProviderError::Quota(_))) => {
                let until =
                    context
                        .backoffs
                        .fail(Subject::offering(purchase), &error.to_string(), now);
                info!(
                    machine = %machine.key, instance_type = %purchase.instance_type, zone = %purchase.zone,
                    %error, next_try = %until, "not to be had"
                );
                let message = format!("{} in {}: {error}", purchase.instance_type, purchase.zone);
                context.tell_machine(
                    machine,
                    Severity::Warning,
                    "InsufficientCapacityError",
                    &message,
                );
            }
            Err(error) => {
                warn!(machine = %machine.key, %error, "launch did not succeed");
                context.tell_machine(
                    machine,
                    Severity::Warning,
                    "LaunchFailed",
                    &error.to_string(),
                );
            }
        }
        self.memory.launched(machine.tried(), answer, now);
    }

    async fn write_status(
        &mut self,
        machine: &MachineRecord,
        dialect: &dyn Dialect,
        status: &MachineStatus,
    ) -> Result<(), WriteError> {
        let written = dialect.write_machine_status(machine, status).await?;
        if let Some(pool) = &machine.pool
            && !machine.registered()
            && written.registered()
        {
            self.context.health.record(pool, Ok(()));
            self.context.backoffs.succeed(&Subject::Pool(pool.clone()));
        }
        if !machine.initialized() && written.initialized() {
            info!(machine = %machine.key, node = written.status.node.as_deref(), "ready");
        }
        if let Some((reason, said)) = dialect.milestone(machine, &written) {
            self.context
                .tell_machine(&written, Severity::Normal, reason, &said);
        }
        let draining = written.status.conditions.get(kinds::DRAINED);
        if let Some(condition) = draining
            && !condition.message.is_empty()
            && let Some(node) = &machine.status.node
        {
            self.context.tell_node(
                node,
                node,
                Severity::Warning,
                "FailedDraining",
                &condition.message,
            );
        }
        self.context.view.note_machine(written);
        Ok(())
    }

    async fn patch_node(&mut self, change: &NodeChange) -> Result<(), WriteError> {
        let api: Api<Node> = Api::all(self.context.clients.writes.clone());
        let owners = if change.owner.is_some() {
            let node = api.get(&change.name).await?;
            node.metadata.owner_references.unwrap_or_default()
        } else {
            Vec::new()
        };
        let patch = Patch::Merge(change.patch(&owners));
        let node = api
            .patch(&change.name, &PatchParams::default(), &patch)
            .await?;
        self.memory.repaired = Some(self.context.now());
        let node = lower_node(node);
        let released = change.finalizers.as_ref().is_some_and(Vec::is_empty) && node.deleting;
        if released {
            self.context.view.forget_node(&node);
        } else {
            self.context.view.note_node(node);
        }
        Ok(())
    }

    async fn evict(
        &mut self,
        machine: &MachineRecord,
        pod: &PodKey,
        uid: &joiner_core::name::Name,
    ) -> Result<(), WriteError> {
        let context = self.context;
        let api: Api<Pod> = Api::namespaced(context.clients.writes.clone(), &pod.namespace);
        let parameters = EvictParams {
            delete_options: Some(exactly(uid)),
            ..EvictParams::default()
        };
        let mut answer = api
            .evict(&pod.name, &parameters)
            .await
            .map(drop)
            .map_err(WriteError::from);
        if let Err(WriteError::HeldBack { message, .. }) = &mut answer {
            *message = name_the_budgets(context, pod, message);
        }
        let code = match &answer {
            Ok(()) => "200",
            Err(WriteError::HeldBack { .. }) => "429",
            Err(error) => error.kind(),
        };
        context
            .metrics
            .evictions
            .get_or_create(&Code {
                code: code.to_owned(),
            })
            .inc();
        if answer.is_ok() {
            debug!(machine = %machine.key, %pod, "evicted");
            let why = machine
                .intent()
                .map_or_else(|| "its node goes".to_owned(), |one| one.cause.to_string());
            context.events.say(
                &pod_ref(pod, uid),
                Severity::Normal,
                "Evicted",
                &format!("Evicted pod: {why}"),
            );
        }
        if answer == Err(WriteError::NotLeader) {
            return Err(WriteError::NotLeader);
        }
        self.memory.evicted(uid, answer, context.now());
        Ok(())
    }

    async fn delete(
        &mut self,
        machine: &MachineRecord,
        dialect: &dyn Dialect,
        cause: Cause,
    ) -> Result<(), WriteError> {
        let context = self.context;
        let sentence = cause.sentence();
        info!(machine = %machine.key, reason = cause.word(), %sentence, "machine is given up");
        context.tell_machine(machine, Severity::Warning, "Failed", &sentence);
        dialect.delete_machine(machine).await?;
        let nodepool = machine.pool.as_deref().unwrap_or_default().to_owned();
        let labels = PoolReason {
            nodepool,
            reason: cause.word().to_owned(),
        };
        context.metrics.disrupted.get_or_create(&labels).inc();
        if let Some(pool) = &machine.pool
            && !machine.registered()
            && !matches!(cause, Cause::NodeDeleted)
        {
            context.health.record(pool, Err(&sentence));
            let subject = match (&cause, machine.offer()) {
                (Cause::InsufficientCapacity(_), _) => None,
                // What was asked for did not come: the next best may.
                (Cause::LaunchTimeout(_) | Cause::LaunchFailed(_), Some(offer)) => {
                    Some(Subject::offering(&offer.purchase))
                }
                _ => Some(Subject::Pool(pool.clone())),
            };
            if let Some(subject) = subject {
                context.backoffs.fail(subject, &sentence, context.now());
            }
        }
        self.reread(machine, dialect).await;
        Ok(())
    }

    /// Looks where it cannot be stale, after a write that found the object changed or gone.
    async fn reread(&mut self, machine: &MachineRecord, dialect: &dyn Dialect) {
        match dialect.get_machine(&machine.key).await {
            Ok(current) if current.uid == machine.uid => self.context.view.note_machine(current),
            Ok(_) | Err(WriteError::Gone(_)) => self.context.view.forget_machine(machine),
            Err(_) => tokio::time::sleep(STANDBY).await,
        }
        let Some(name) = &machine.status.node else {
            return;
        };
        let api: Api<Node> = Api::all(self.context.clients.reads.clone());
        match api.get_opt(name).await {
            Ok(Some(node)) => self.context.view.note_node(lower_node(node)),
            Ok(None) => {
                let known = self.context.view.read().nodes.get(name).cloned();
                if let Some(node) = known {
                    self.context.view.forget_node(&node);
                }
            }
            Err(_) => tokio::time::sleep(STANDBY).await,
        }
    }

    fn count<T>(&self, method: &str, slot: &Slot, answer: &Result<T, ProviderError>) {
        if let Err(error) = answer {
            let labels = CloudCall {
                method: method.to_owned(),
                provider: slot.provider.name().to_owned(),
                error: error.kind().to_owned(),
            };
            self.context
                .metrics
                .cloud_errors
                .get_or_create(&labels)
                .inc();
        }
    }
}

/// Whether a step changes anything outside this process.
fn changes(step: &Step) -> bool {
    !matches!(step, Step::Wait(_) | Step::Find | Step::Get(_))
}

/// Whether the machine's present offer keeps its pool within limits.
fn within_limits(world: &crate::view::World, machine: &MachineRecord) -> bool {
    let Some(pool) = machine.pool.as_ref().and_then(|pool| world.pool(pool)) else {
        return true;
    };
    let Some(offer) = machine.offer() else {
        return true;
    };
    let mut usage = crate::limits::usage(world, pool.id(), Some(&machine.key));
    usage.add(&offer.capacity, offer.purchase.price);
    usage.exceeds(&pool.pool.limits).is_none()
}

/// Deletes this very object and no other of its name.
pub(crate) fn exactly(uid: &str) -> DeleteParams {
    DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        }),
        ..DeleteParams::default()
    }
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
