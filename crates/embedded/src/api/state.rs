//! The state of the server: what is stored, what is served, and the streams of ids and names.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use super::{
    local::ChangeKind,
    log::EventLog,
    registry::{Registry, Resource},
    status::{Named, Status},
    store::{self, Event, Store},
};
use crate::clock::Clock;

/// Letters of generated names: no vowels and nothing that reads as one, so that no words appear.
const NAME_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Generated names keep room for the suffix within the 63 characters of a DNS label.
const LONGEST_GENERATED_PREFIX: usize = 58;

/// How the embedded server is made.
#[derive(Debug, Clone)]
pub struct Options {
    /// Seed of every random choice: ids, generated names, faults.
    pub seed: u64,
    /// How many changes of each resource can be replayed to watches that resume.
    pub history: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 0,
            history: 4096,
        }
    }
}

/// The request over HTTP that a change was made by.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// What it does.
    pub verb: super::Verb,
    /// Such as `eviction`; empty for the object itself.
    pub subresource: &'a str,
    /// Who asks.
    pub user_agent: &'a str,
}

/// A change in the moment of its commit.
#[derive(Debug)]
pub struct Commit<'a> {
    /// When.
    pub at: Timestamp,
    /// `pods`, `deployments.apps`.
    pub resource: &'a str,
    /// What follows the resource in its path: `namespace/name`, or the name.
    pub key: &'a str,
    /// What happened.
    pub kind: ChangeKind,
    /// The object after it; for a deletion, its last state.
    pub object: &'a Arc<Value>,
    /// The object before it.
    pub previous: Option<&'a Arc<Value>>,
    /// The request that made it; `None` for what code of this process did through the in-process interface.
    pub asked: Option<Asked<'a>>,
}

/// Sees every change in the moment of its commit, with the server locked: it must not ask the server anything.
pub(crate) struct Observer(pub(crate) Box<dyn FnMut(&Commit<'_>) + Send>);

impl std::fmt::Debug for Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Observer")
    }
}

/// The request that is being answered.
#[derive(Debug)]
pub(crate) struct Answering {
    pub(crate) verb: super::Verb,
    pub(crate) subresource: String,
    pub(crate) user_agent: String,
}

/// Everything behind the mutex.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) registry: Registry,
    pub(crate) log: EventLog,
    pub(crate) clock: Clock,
    pub(crate) observers: Vec<Observer>,
    /// What is being answered over HTTP, while the lock is held for it.
    pub(crate) answering: Option<Answering>,
    uids: ChaCha8Rng,
    names: ChaCha8Rng,
}

/// The state as its users share it.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    state: Arc<Mutex<State>>,
    clock: Clock,
}

impl Shared {
    pub(crate) fn new(clock: Clock, options: &Options) -> Self {
        let mut state = State {
            store: Store::new(options.history),
            registry: Registry::builtin(),
            log: EventLog::default(),
            clock: clock.clone(),
            observers: Vec::new(),
            answering: None,
            uids: stream(options.seed, 1),
            names: stream(options.seed, 2),
        };
        state.bootstrap();
        Self {
            state: Arc::new(Mutex::new(state)),
            clock,
        }
    }

    /// The state, exclusively. A panic elsewhere does not take the server down with it: every
    /// commit is a single step, so the state is whole.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }
}

/// One stream of randomness per purpose, so that a new consumer does not shift the others.
pub(crate) fn stream(seed: u64, purpose: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(purpose);
    rng
}

impl State {
    /// The resource that in-process callers name.
    pub(crate) fn resource(&self, table: &str) -> Result<Arc<Resource>, Status> {
        self.registry
            .table(table)
            .cloned()
            .ok_or_else(Status::no_such_path)
    }

    pub(crate) fn get(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<Value>, Status> {
        self.store
            .get(&resource.table, &store::key(namespace, name))
            .cloned()
            .ok_or_else(|| Status::not_found(resource.named(), name))
    }

    /// A namespace must be there before something can be created in it, and must not be going.
    pub(crate) fn check_namespace(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<(), Status> {
        if !resource.namespaced {
            return Ok(());
        }
        let Some(found) = self.store.get("namespaces", namespace) else {
            return Err(Status::not_found(
                Named {
                    group: "",
                    what: "namespaces",
                },
                namespace,
            ));
        };
        if found["status"]["phase"] != "Terminating" {
            return Ok(());
        }
        let mut status = Status::forbidden(
            resource.named(),
            name,
            &format!(
                "unable to create new content in namespace {namespace} because it is being terminated"
            ),
        );
        if let Some(details) = &mut status.details {
            details.causes.push(super::Cause {
                reason: "NamespaceTerminating".to_owned(),
                message: format!("namespace {namespace} is being terminated"),
                field: "metadata.namespace".to_owned(),
            });
        }
        Err(status)
    }

    /// A fresh unique id.
    pub(crate) fn next_uid(&mut self) -> String {
        let high: u64 = self.uids.random();
        let low: u64 = self.uids.random();
        // Version 4, variant 1, as the random ids of the real server.
        let high = (high & !0xf000) | 0x4000;
        let low = (low & !(0b11 << 62)) | (0b10 << 62);
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        )
    }

    /// A name that begins with `prefix`, as `generateName` asks for.
    pub(crate) fn next_name(&mut self, prefix: &str) -> String {
        let end = prefix.floor_char_boundary(LONGEST_GENERATED_PREFIX);
        let mut name = prefix[..end].to_owned();
        name.push_str(&self.next_suffix());
        name
    }

    /// Five random letters.
    pub(crate) fn next_suffix(&mut self) -> String {
        (0..5)
            .map(|_| char::from(NAME_LETTERS[self.names.random_range(0..NAME_LETTERS.len())]))
            .collect()
    }

    /// Commits an object and writes the log.
    pub(crate) fn commit(&mut self, resource: &Resource, key: String, object: Value) -> Arc<Value> {
        let verb = if self.store.get(&resource.table, &key).is_some() {
            "update"
        } else {
            "create"
        };
        let event = self.store.put(&resource.table, key, object);
        self.committed(resource, verb, &event);
        event.object.clone()
    }

    /// Removes an object and writes the log.
    pub(crate) fn commit_removal(&mut self, resource: &Resource, key: &str) -> Option<Arc<Value>> {
        let event = self.store.remove(&resource.table, key)?;
        self.committed(resource, "delete", &event);
        Some(event.object.clone())
    }

    fn committed(&mut self, resource: &Resource, verb: &str, event: &Event) {
        let now = self.clock.now();
        self.log
            .append(event.version, verb, &resource.table, &event.key, now);
        for Observer(observe) in &mut self.observers {
            observe(&Commit {
                at: now,
                resource: &resource.table,
                key: &event.key,
                kind: event.kind,
                object: &event.object,
                previous: event.previous.as_ref(),
                asked: self.answering.as_ref().map(|request| Asked {
                    verb: request.verb,
                    subresource: &request.subresource,
                    user_agent: &request.user_agent,
                }),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn ids_and_names_repeat_with_the_seed_and_differ_without() {
        let draw = |seed| {
            let shared = Shared::new(
                Clock::virtual_time(),
                &Options {
                    seed,
                    ..Options::default()
                },
            );
            let mut state = shared.lock();
            (state.next_uid(), state.next_name("web-"))
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        let (uid, name) = draw(7);
        assert_eq!(uid.len(), 36);
        assert_eq!(&uid[14..15], "4");
        assert_eq!(name.len(), 9);
    }
}
