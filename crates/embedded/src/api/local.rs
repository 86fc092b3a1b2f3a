//! The in-process interface of the server, for the cluster's own components.
//!
//! No HTTP, no faults, no field managers: the callers are ours. Everything else (schemas,
//! defaults, validation, conflicts, finalizers, watches) is as for everyone.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{
    delete::DeleteOptions,
    meta, schemas,
    state::Shared,
    status::Status,
    store::Event,
    write::{Part, WriteOptions},
};
use crate::clock::Clock;

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// It is new, or was there when the watch began.
    Added,
    /// It changed.
    Modified,
    /// It is gone.
    Deleted,
}

/// One change, as a watch reports it.
#[derive(Debug, Clone)]
pub struct Change {
    /// What happened.
    pub kind: ChangeKind,
    /// The object after it; for a deletion, its last state.
    pub object: Arc<Value>,
}

/// An endless stream of changes to one resource, in all namespaces.
#[derive(Debug)]
pub struct Watch {
    initial: std::vec::IntoIter<Arc<Value>>,
    events: mpsc::UnboundedReceiver<Arc<Event>>,
}

impl Watch {
    /// The next change. Waits forever once the server is gone.
    pub async fn next(&mut self) -> Change {
        if let Some(change) = self.ready_initial() {
            return change;
        }
        match self.events.recv().await {
            Some(event) => change(&event),
            None => std::future::pending().await,
        }
    }

    /// The next change if there is one already.
    pub fn try_next(&mut self) -> Option<Change> {
        self.ready_initial()
            .or_else(|| self.events.try_recv().ok().map(|event| change(&event)))
    }

    fn ready_initial(&mut self) -> Option<Change> {
        self.initial.next().map(|object| Change {
            kind: ChangeKind::Added,
            object,
        })
    }
}

fn change(event: &Event) -> Change {
    Change {
        kind: event.kind,
        object: event.object.clone(),
    }
}

/// A handle to the server for code inside the process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Local {
    shared: Shared,
}

impl Local {
    pub(crate) fn new(shared: Shared) -> Self {
        Self { shared }
    }

    /// An object. Resources are called `pods`, `deployments.apps` and so on; the namespace of
    /// cluster-scoped objects is empty.
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Result<Arc<Value>, Status> {
        let state = self.shared.lock();
        let resource = state.resource(resource)?;
        state.get(&resource, namespace, name)
    }

    /// Every object of a resource, sorted by key. An unknown resource has none.
    pub fn list(&self, resource: &str) -> Vec<Arc<Value>> {
        let state = self.shared.lock();
        state
            .store
            .iter(resource, "")
            .map(|(_, object)| object.clone())
            .collect()
    }

    /// How many objects of a resource there are.
    pub fn count(&self, resource: &str) -> usize {
        self.shared.lock().store.len(resource)
    }

    /// Creates an object.
    pub fn create(
        &self,
        resource: &str,
        namespace: &str,
        object: Value,
    ) -> Result<Arc<Value>, Status> {
        let mut state = self.shared.lock();
        let resource = state.resource(resource)?;
        let mut object = object;
        meta::put(
            &mut object,
            "apiVersion",
            Some(json!(resource.api_version())),
        );
        meta::put(&mut object, "kind", Some(json!(resource.kind)));
        if let Err(why) = schemas::decode(&resource, &mut object, &[]) {
            return Err(Status::bad_request(why));
        }
        state.create(&resource, namespace, object, &WriteOptions::default())
    }

    /// Replaces an object, all but its status. A resource version in it must be the current one.
    pub fn update(&self, resource: &str, object: Value) -> Result<Arc<Value>, Status> {
        self.write(resource, object, Part::Main)
    }

    /// Replaces the status of an object.
    pub fn update_status(&self, resource: &str, object: Value) -> Result<Arc<Value>, Status> {
        self.write(resource, object, Part::Status)
    }

    /// Replaces the finalizers in the spec of a namespace, which an ordinary update can't.
    pub fn finalize(&self, namespace: Value) -> Result<Arc<Value>, Status> {
        self.write("namespaces", namespace, Part::Finalize)
    }

    fn write(&self, resource: &str, object: Value, part: Part) -> Result<Arc<Value>, Status> {
        let mut state = self.shared.lock();
        let resource = state.resource(resource)?;
        let (namespace, name) = (
            meta::namespace(&object).to_owned(),
            meta::name(&object).to_owned(),
        );
        state.update(
            &resource,
            &namespace,
            &name,
            object,
            part,
            &WriteOptions::default(),
        )
    }

    /// Deletes an object, or begins to.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "callers build the options in place"
    )]
    pub fn delete(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        options: DeleteOptions,
    ) -> Result<(), Status> {
        let mut state = self.shared.lock();
        let resource = state.resource(resource)?;
        state
            .delete(&resource, namespace, name, &options)
            .map(|_| ())
    }

    /// Puts a pod on a node.
    pub fn bind(&self, namespace: &str, pod: &str, node: &str) -> Result<(), Status> {
        let binding = json!({"target": {"kind": "Node", "name": node}});
        self.shared
            .lock()
            .bind(namespace, pod, &binding, &WriteOptions::default())
    }

    /// Deletes a pod if its disruption budget allows.
    pub fn evict(&self, namespace: &str, pod: &str) -> Result<(), Status> {
        self.shared
            .lock()
            .evict(namespace, pod, &DeleteOptions::default())
    }

    /// Everything there is, then every change, in commit order and without gaps.
    pub fn watch(&self, resource: &str) -> Watch {
        let mut state = self.shared.lock();
        let initial: Vec<_> = state
            .store
            .iter(resource, "")
            .map(|(_, object)| object.clone())
            .collect();
        Watch {
            initial: initial.into_iter(),
            events: state.store.subscribe(resource),
        }
    }

    /// The clock of the simulated world.
    pub fn clock(&self) -> &Clock {
        self.shared.clock()
    }

    /// Names of the tables of every served resource, CRDs included.
    pub fn resources(&self) -> Vec<ResourceInfo> {
        let state = self.shared.lock();
        let mut found: Vec<ResourceInfo> = state
            .registry
            .all()
            .map(|resource| ResourceInfo {
                name: resource.table.clone(),
                group: resource.group.clone(),
                kind: resource.kind.clone(),
                namespaced: resource.namespaced,
            })
            .collect();
        found.sort();
        found.dedup_by(|a, b| a.name == b.name);
        found
    }

    /// Hash over every change committed so far.
    pub fn event_log_hash(&self) -> String {
        self.shared.lock().log.hash()
    }

    /// The newest lines of the event log, oldest first.
    pub fn event_log(&self) -> Vec<String> {
        self.shared.lock().log.tail()
    }

    /// How many changes have been committed.
    pub fn event_count(&self) -> u64 {
        self.shared.lock().log.len()
    }
}

/// A resource that the server has, for components that work on all of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResourceInfo {
    /// How the in-process interface calls it: `pods`, `deployments.apps`.
    pub name: String,
    /// API group, empty for core.
    pub group: String,
    /// Kind of its objects, as owner references name it.
    pub kind: String,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
}
