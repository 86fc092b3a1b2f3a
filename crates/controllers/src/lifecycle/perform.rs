//! One step of a machine, carried out: a request each, and what follows from its answer.

use joiner_providers::{LaunchRequest, Machine, ProviderError};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use tokio::time::Instant;
use tracing::{info, warn};

use super::observe::within_limits;
use super::reconcile::{Worker, unchanged};
use super::{Cause, NodeChange, Step};
use crate::dialect::Dialect;
use crate::edge::clients::{WriteError, while_leading};
use crate::edge::events::Severity;
use crate::market::backoff::Subject;
use crate::market::slots::Slot;
use crate::record::{MachineRecord, MachineStatus, MetadataChange, kinds};
use crate::view::nodes::lower_node;

impl Worker<'_> {
    pub(super) async fn perform(
        &mut self,
        machine: &MachineRecord,
        dialect: &dyn Dialect,
        slot: Option<&Slot>,
        step: Step,
    ) -> Result<(), WriteError> {
        match step {
            Step::Wait(_) => Ok(()),
            Step::AskForOffers => {
                self.context.provision.standalone.ask(machine.key.clone());
                Ok(())
            }
            Step::Metadata(change) => {
                let written = dialect.patch_machine(machine, &change).await?;
                self.context.view.note_machine(written);
                Ok(())
            }
            Step::Status(status) => self.write_status(machine, dialect, &status).await,
            Step::Launch(_) | Step::Find | Step::Get(_) | Step::Terminate(_) => match slot {
                Some(slot) => self.ask_the_cloud(machine, slot, step).await,
                None => Ok(()),
            },
            Step::Node(change) => {
                let stays = machine.deleting.is_none();
                let joins = stays && !machine.registered();
                let opens = stays && machine.initialized() && change.taints.is_some();
                if opens {
                    info!(machine = %machine.key, node = %change.name, "node takes the pods that it was reserved for");
                    crate::disrupt::reserve::fill(self.context, machine);
                }
                let _turn = if joins || opens {
                    crate::provision::nominate(self.context, &machine.key, &change.name).await
                } else {
                    None
                };
                self.patch_node(&change).await
            }
            Step::DeleteNode { name, uid, version } => {
                let api: Api<Node> = Api::all(self.context.edge.clients.writes.clone());
                api.delete(&name, &unchanged(&uid, version)).await?;
                let node = api.get(&name).await?;
                self.context.view.note_node(lower_node(node));
                Ok(())
            }
            Step::Evict { pods, size } => self.evict(machine, pods, size).await,
            Step::DeletePod {
                pod,
                uid,
                grace_seconds,
            } => self.delete_pod(machine, &pod, &uid, grace_seconds).await,
            Step::Delete(cause) => self.delete(machine, dialect, cause).await,
            Step::Release => self.release(machine, dialect).await,
        }
    }

    async fn ask_the_cloud(
        &mut self,
        machine: &MachineRecord,
        slot: &Slot,
        step: Step,
    ) -> Result<(), WriteError> {
        let context = self.context;
        let fence = &context.edge.clients.fence;
        match step {
            Step::Launch(request) => {
                if machine.tried() > 0 {
                    // Whoever writes new machine objects holds this while looking at limits; so do we.
                    let _lock = context.provision.purchasing.lock().await;
                    if !within_limits(&context.view.read(), machine) {
                        return Ok(());
                    }
                }
                let started = Instant::now();
                let answer = slot.launch(fence, &request).await;
                self.count(slot, "Create", started, answer.as_ref().err());
                self.bought(machine, &request, answer);
            }
            Step::Find => {
                let answer = self
                    .call(slot, "Find", slot.provider.find(&machine.uid))
                    .await;
                self.memory.seen(answer, context.now());
            }
            Step::Get(id) => {
                let answer = self.call(slot, "Get", slot.provider.get(&id)).await;
                self.memory.seen(answer, context.now());
            }
            Step::Terminate(id) => {
                if !fence.holds() {
                    return Err(WriteError::NotLeader);
                }
                let call = while_leading(fence, slot.provider.terminate(&id));
                let answer = self.call(slot, "Delete", call).await;
                self.memory.terminated(answer, context.now());
            }
            _ => {}
        }
        Ok(())
    }

    async fn release(
        &mut self,
        machine: &MachineRecord,
        dialect: &dyn Dialect,
    ) -> Result<(), WriteError> {
        let context = self.context;
        let change = MetadataChange {
            finalizer: Some(false),
            ..MetadataChange::default()
        };
        match dialect.patch_machine(machine, &change).await {
            Ok(_) | Err(WriteError::Gone(_)) => {}
            Err(error) => return Err(error),
        }
        info!(machine = %machine.key, node = machine.status.node.as_deref(), "deleted nodeclaim");
        let title = context.view.read().title_of(machine);
        let metrics = &context.edge.metrics;
        metrics.machine_gone(machine, &title, context.now());
        context.view.forget_machine(machine);
        Ok(())
    }

    fn bought(
        &mut self,
        machine: &MachineRecord,
        request: &LaunchRequest,
        answer: Result<Machine, ProviderError>,
    ) {
        let context = self.context;
        let now = context.now();
        let purchase = &request.purchase;
        match &answer {
            Ok(bought) => {
                context
                    .market
                    .backoffs
                    .succeed(&Subject::offering(purchase));
                info!(
                    machine = %machine.key, id = %bought.id, instance_type = %bought.instance_type,
                    zone = %bought.zone, price = purchase.price.dollars(), "launched nodeclaim"
                );
            }
            Err(error @ (ProviderError::OutOfCapacity(_) | ProviderError::Quota(_))) => {
                let until = context.market.backoffs.fail(
                    Subject::offering(purchase),
                    &error.to_string(),
                    now,
                );
                info!(
                    machine = %machine.key, instance_type = %purchase.instance_type, zone = %purchase.zone,
                    %error, next_try = %until, "offering is not available"
                );
                self.note_backoff(machine);
                let message = format!("{} in {}: {error}", purchase.instance_type, purchase.zone);
                context.tell_machine(
                    machine,
                    Severity::Warning,
                    "InsufficientCapacityError",
                    &message,
                );
            }
            Err(error) => {
                warn!(machine = %machine.key, %error, "launch failed");
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
            self.context.guards.health.record(pool, Ok(()));
            self.context
                .market
                .backoffs
                .succeed(&Subject::Pool(pool.clone()));
        }
        if !machine.initialized() && written.initialized() {
            info!(machine = %machine.key, node = written.status.node.as_deref(), "ready");
            let title = self.context.view.read().title_of(&written);
            self.context.edge.metrics.node_ready(&written, &title);
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
                machine,
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
        let api: Api<Node> = Api::all(self.context.edge.clients.writes.clone());
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

    async fn delete(
        &mut self,
        machine: &MachineRecord,
        dialect: &dyn Dialect,
        cause: Cause,
    ) -> Result<(), WriteError> {
        let context = self.context;
        let sentence = cause.sentence();
        info!(machine = %machine.key, reason = cause.word(), %sentence, "machine is deleted");
        let word = if dialect.explains_failures() {
            cause.event()
        } else {
            "Failed"
        };
        context.tell_machine(machine, Severity::Warning, word, &sentence);
        if dialect.explains_failures()
            && let Some(status) = super::explained(machine, &cause, context.now())
        {
            match dialect.write_machine_status(machine, &status).await {
                Ok(written) => context.view.note_machine(written),
                Err(WriteError::Gone(_)) => {}
                Err(error) => return Err(error),
            }
        }
        dialect.delete_machine(machine).await?;
        let title = context.view.read().title_of(machine);
        let metrics = &context.edge.metrics;
        metrics.machine_disrupted(machine, &title, cause.word());
        if let Some(pool) = &machine.pool
            && !machine.registered()
            && !matches!(cause, Cause::NodeDeleted)
        {
            context.guards.health.record(pool, Err(&sentence));
            let subject = match (&cause, machine.offer()) {
                (Cause::InsufficientCapacity(_), _) => None,
                // What was asked for did not come: the next best may.
                (Cause::LaunchTimeout(_) | Cause::LaunchFailed(_), Some(offer)) => {
                    Some(Subject::offering(&offer.purchase))
                }
                _ => Some(Subject::Pool(pool.clone())),
            };
            if let Some(subject) = subject {
                context
                    .market
                    .backoffs
                    .fail(subject, &sentence, context.now());
                self.note_backoff(machine);
            }
        }
        self.reread(machine, dialect, false).await;
        Ok(())
    }

    /// Calls the cloud and counts how that went.
    async fn call<T>(
        &self,
        slot: &Slot,
        method: &'static str,
        call: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<T, ProviderError> {
        let started = Instant::now();
        let answer = slot.call(call).await;
        self.count(slot, method, started, answer.as_ref().err());
        answer
    }

    fn count(
        &self,
        slot: &Slot,
        method: &'static str,
        started: Instant,
        error: Option<&ProviderError>,
    ) {
        let (metrics, provider) = (&self.context.edge.metrics, slot.provider.name());
        metrics.cloud_call(method, provider, started.elapsed(), error);
    }

    /// The pool's status tells what is waited for: it has changed.
    fn note_backoff(&self, machine: &MachineRecord) {
        if let Some(pool) = &machine.pool {
            self.context.view.touch_pool(pool);
        }
    }
}
