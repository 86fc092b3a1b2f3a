//! OVHcloud Managed Kubernetes, simulated: the same signed API, node pools that grow and shrink in their own time, quota,
//! stock, limits and the public price catalogue.
//!
//! [`OvhCloud::router`] is the wire, for a client in this process or for a port; nodes arrive through a [`Rack`] with
//! the labels, taints and provider ids that the real service gives them.

mod options;
mod routes;
mod state;
mod watched;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use jiff::Timestamp;
use joiner_embedded::api::Local;
use joiner_embedded::clock::Clock;
use serde_json::Value;
use tokio::sync::Notify;

pub use self::options::{Flavor, OvhCloudOptions, Rule, built_in, documented_rules};
pub use self::state::NodeView;
use self::state::{Order, State};
pub use super::rackspace::CallFault;
use super::sim::Rack;
use super::watched::Observer;

struct Inner {
    options: OvhCloudOptions,
    state: State,
    tokens: BTreeMap<String, Timestamp>,
    issued: u64,
    faults: Vec<(String, CallFault, u32)>,
    calls: Vec<String>,
    /// When calls that count against the limit were made.
    recent: VecDeque<Timestamp>,
    busiest: usize,
    refused: Vec<String>,
    /// Nobody is asked who they are.
    open: bool,
    observers: Vec<Observer>,
}

impl Inner {
    /// Tells observers what has happened.
    fn tell(&mut self) {
        for event in std::mem::take(&mut self.state.news) {
            for observe in &mut self.observers {
                observe(&event);
            }
        }
    }
}

/// The cloud. Cheap to clone; clones are the same cloud.
#[derive(Clone)]
pub struct OvhCloud {
    inner: Arc<Mutex<Inner>>,
    clock: Clock,
    rack: Arc<dyn Rack>,
    api: Option<Local>,
    changed: Arc<Notify>,
}

impl OvhCloud {
    /// Opens the cloud. Nothing happens in it until [`OvhCloud::run`] is polled.
    pub fn new(options: OvhCloudOptions, clock: Clock, rack: Arc<dyn Rack>) -> Self {
        let inner = Inner {
            options,
            state: State::default(),
            tokens: BTreeMap::new(),
            issued: 0,
            faults: Vec::new(),
            calls: Vec::new(),
            recent: VecDeque::new(),
            busiest: 0,
            refused: Vec::new(),
            open: false,
            observers: Vec::new(),
        };
        OvhCloud {
            inner: Arc::new(Mutex::new(inner)),
            clock,
            rack,
            api: None,
            changed: Arc::default(),
        }
    }

    /// Lets the cloud put the labels and taints of pool templates back on their nodes, again and again.
    #[must_use]
    pub fn with_api(mut self, api: Local) -> Self {
        self.api = Some(api);
        self
    }

    /// Asks nobody who they are: every key, project, cluster and path is welcome.
    #[must_use]
    pub fn open(self) -> Self {
        self.lock().open = true;
        self
    }

    /// The wire: the API, the token endpoint and the price catalogue.
    pub fn router(&self) -> Router {
        routes::router(self.clone())
    }

    /// Makes and removes nodes, until it is dropped.
    pub async fn run(&self) {
        loop {
            let next = self.act();
            let changed = self.changed.notified();
            let wait = next.map(|at| {
                Duration::try_from(at.duration_since(self.clock.now())).unwrap_or_default()
            });
            tokio::select! {
                biased;
                () = changed => {}
                () = tokio::time::sleep(wait.unwrap_or(Duration::MAX)), if wait.is_some() => {}
            }
        }
    }

    /// Changes how the cloud behaves from now on.
    pub fn change(&self, change: impl FnOnce(&mut OvhCloudOptions)) {
        change(&mut self.lock().options);
        self.changed.notify_one();
    }

    /// Lets the next `times` calls that begin so (`PUT /1.0/cloud/…`) go wrong.
    pub fn fail(&self, call: &str, fault: CallFault, times: u32) {
        self.lock().faults.push((call.to_owned(), fault, times));
    }

    /// Nothing goes wrong any more that was asked to.
    pub fn forgive(&self) {
        self.lock().faults.clear();
    }

    /// Makes a pool that somebody else owns, past every check. Returns its id.
    pub fn plant(&self, body: &Value) -> String {
        let now = self.clock.now();
        let mut inner = self.lock();
        let inner = &mut *inner;
        let id = inner.state.plant(body, &inner.options, now);
        self.changed.notify_one();
        id
    }

    /// Every pool as the API shows it.
    pub fn pools(&self) -> Vec<Value> {
        let inner = self.lock();
        inner.state.pools(&inner.options, self.clock.now(), true)
    }

    /// Every node there is, listed or not: the truth that leak checks compare with.
    pub fn nodes(&self) -> Vec<NodeView> {
        self.lock().state.views(self.clock.now())
    }

    /// Nodes that were removed, and whether it was said which: by name, or by emptying their pool. The cloud chose the others.
    pub fn removals(&self) -> Vec<(String, bool)> {
        self.lock().state.removals.clone()
    }

    /// Takes a node away as a broken hypervisor does: nobody asked, and the pool makes another.
    pub fn lose_node(&self, id: &str) {
        let now = self.clock.now();
        let mut inner = self.lock();
        let inner = &mut *inner;
        inner.state.lose(id, &inner.options, now);
        inner.tell();
        self.changed.notify_one();
    }

    /// Puts a pool into the state ERROR: what runs in it goes on, and nothing more is made there.
    pub fn break_pool(&self, name: &str) {
        self.lock().state.break_pool(name);
        self.changed.notify_one();
    }

    /// Every call so far, as `METHOD path?query`.
    pub fn calls(&self) -> Vec<String> {
        self.lock().calls.clone()
    }

    /// Calls that were refused because no rule grants them.
    pub fn ungranted(&self) -> Vec<String> {
        self.lock().refused.clone()
    }

    /// The most calls that any one minute has seen.
    pub fn busiest_minute(&self) -> usize {
        self.lock().busiest
    }

    /// The most pools, and the most nodes of one pool, that there ever were.
    pub fn peaks(&self) -> (usize, usize) {
        self.lock().state.peaks
    }

    /// Everything that was made, for [`OvhCloud::restore`] in another process.
    pub fn memory(&self) -> Value {
        serde_json::to_value(&self.lock().state).unwrap_or_default()
    }

    /// Goes on where another process ended. Says how many pools there are.
    pub fn restore(&self, memory: &Value) -> usize {
        let mut inner = self.lock();
        inner.state = serde_json::from_value(memory.clone()).unwrap_or_default();
        inner.state.wake();
        let count = inner.state.count();
        drop(inner);
        self.changed.notify_one();
        count
    }

    /// Forgets what was made: another process plays this cloud from now on.
    pub fn rest(&self) {
        let nodes = {
            let mut inner = self.lock();
            let nodes = inner.state.views(self.clock.now());
            inner.state = State::default();
            nodes
        };
        for node in nodes {
            self.rack.kill(&node.name);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what is due and says when to come again.
    fn act(&self) -> Option<Timestamp> {
        let (orders, next) = {
            let mut inner = self.lock();
            let inner = &mut *inner;
            let done = inner.state.due(&mut inner.options, self.clock.now());
            inner.tell();
            done
        };
        for order in orders {
            match order {
                Order::Boot(spec) => self.rack.boot(*spec),
                Order::Kill(name) => self.rack.kill(&name),
                Order::Enforce(name, template) => self.enforce(&name, &template),
            }
        }
        next
    }

    /// Puts a template's labels and taints on a node, whatever has been done to it.
    fn enforce(&self, node: &str, template: &Value) {
        let Some(api) = &self.api else { return };
        let Ok(found) = api.get("nodes", "", node) else {
            return;
        };
        let before = Value::clone(&found);
        let mut object = before.clone();
        for (key, value) in template["metadata"]["labels"]
            .as_object()
            .into_iter()
            .flatten()
        {
            object["metadata"]["labels"][key] = value.clone();
        }
        let taints = template["spec"]["taints"].as_array();
        if let Some(more) = taints.filter(|more| !more.is_empty()) {
            let mut all = object["spec"]["taints"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let same = |a: &Value, b: &Value| a["key"] == b["key"] && a["effect"] == b["effect"];
            for taint in more {
                if !all.iter().any(|one| same(one, taint)) {
                    all.push(taint.clone());
                }
            }
            object["spec"]["taints"] = Value::Array(all);
        }
        if object != before
            && let Err(error) = api.update("nodes", object)
        {
            tracing::debug!(%node, %error, "the template could not be enforced");
        }
    }
}

#[cfg(test)]
mod tests;
