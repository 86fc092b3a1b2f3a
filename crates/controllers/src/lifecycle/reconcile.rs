//! Does what [`step`](super::step) says, one request at a time, and remembers the answers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, Preconditions};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::{Memory, Step, Wake, step};
use crate::context::{Context, Mode};
use crate::dialect::Dialect;
use crate::edge::clients::WriteError;
use crate::edge::clock;
use crate::record::{Key, MachineRecord};
use crate::view::nodes::lower_node;

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
        let tasks = context.edge.tasks.clone();
        tasks.spawn(name, async move {
            // A turn that panics is followed by another: nobody else would look at the machine.
            let mut again = Again {
                context: &context,
                key: Some(ticket.key.clone()),
            };
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
            again.key = None;
            drop(permit);
        });
    }
}

/// Has a machine looked at again after a turn that did not end as it should.
struct Again<'a> {
    context: &'a Context,
    key: Option<Key>,
}

impl Drop for Again<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            let queue = &self.context.queue;
            queue.add_at(key, Instant::now() + NO_PROGRESS);
        }
    }
}

fn lock(
    memories: &Mutex<BTreeMap<Key, Memory>>,
) -> std::sync::MutexGuard<'_, BTreeMap<Key, Memory>> {
    memories.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One machine's turn.
pub(super) struct Worker<'a> {
    pub(super) context: &'a Context,
    pub(super) memory: Memory,
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
            let slot = self.context.market.classes.slot(&machine.class);
            let observed = self.observe(&machine, &*dialect, slot.as_deref(), now);
            let next = step(&machine, &observed);
            if let Step::Wait(wake) = next {
                return Some(wake);
            }
            if self.context.settings.mode == Mode::ObserveOnly && changes(&next) {
                info!(machine = %key, step = next.word(), "observe-only: would act on the machine");
                return Some(Wake::OnChange);
            }
            // Whatever was done did not change what is to be done: doing it again at once will not either.
            if before.as_ref() == Some(&next) {
                warn!(machine = %key, step = next.word(), "step made no progress; it is tried again");
                return Some(Wake::At(clock::after(now, NO_PROGRESS)));
            }
            debug!(machine = %key, step = next.word(), "step");
            before = Some(next.clone());
            // The answer is written on the object, by the room that decides.
            let asks = next == Step::AskForOffers;
            match self
                .perform(&machine, &*dialect, slot.as_deref(), next)
                .await
            {
                Ok(()) if asks => return Some(Wake::OnChange),
                Ok(()) => {}
                Err(WriteError::NotLeader) => return Some(Wake::At(clock::after(now, STANDBY))),
                Err(error @ (WriteError::Conflict(_) | WriteError::Gone(_))) => {
                    before = None;
                    let gone = matches!(error, WriteError::Gone(_));
                    self.reread(&machine, &*dialect, gone).await;
                }
                Err(error) => {
                    warn!(machine = %key, %error, "write failed; it is tried again");
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

    /// Looks again after a write; `gone` if it did not find the object. Writes are never behind: a read that does not find
    /// what a write has found may be.
    pub(super) async fn reread(
        &mut self,
        machine: &MachineRecord,
        dialect: &dyn Dialect,
        gone: bool,
    ) {
        let view = &self.context.view;
        match dialect.get_machine(&machine.key).await {
            Ok(current) if current.uid == machine.uid => view.note_machine(current),
            Ok(_) => view.forget_machine(machine),
            Err(WriteError::Gone(_)) if gone => view.forget_machine(machine),
            Err(error) => {
                if matches!(error, WriteError::Gone(_)) {
                    view.doubt_machine(machine);
                }
                tokio::time::sleep(STANDBY).await;
            }
        }
        let Some(name) = &machine.status.node else {
            return;
        };
        let api: Api<Node> = Api::all(self.context.edge.clients.reads.clone());
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
}

/// Whether a step changes anything outside this process.
fn changes(step: &Step) -> bool {
    !matches!(step, Step::Wait(_) | Step::Find | Step::Get(_))
}

/// Deletes this very object, and only as it was when its mark was read.
pub(crate) fn unchanged(uid: &str, version: u64) -> DeleteParams {
    DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: Some(version.to_string()),
        }),
        ..DeleteParams::default()
    }
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
