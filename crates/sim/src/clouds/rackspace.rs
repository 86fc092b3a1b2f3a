//! Rackspace Spot, simulated: the same HTTP API, token exchange and price feed, with auctions that are won and lost.
//!
//! [`RackspaceCloud::router`] is the wire, for a client in this process or for a port; what is won arrives as nodes
//! through a [`Rack`], with the labels and provider ids that the real platform gives them.

mod admission;
mod classes;
mod routes;
mod state;
mod watched;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::Notify;

use self::admission::Refused;
pub use self::classes::{Auctions, Class, built_in};
use self::state::{Kind, Order, State};
use super::sim::Rack;
use super::watched::Observer;
use joiner_embedded::api::Local;
use joiner_embedded::clock::Clock;

/// The client id that everybody uses.
const CLIENT_ID: &str = "mwG3lUMV8KyeMqHe4fJ5Bb3nM1vBvRNa";

/// How the cloud behaves.
#[derive(Clone, Debug)]
pub struct RackspaceCloudOptions {
    /// The refresh token that is accepted.
    pub refresh_token: String,
    /// The client id that is accepted.
    pub client_id: String,
    /// Organisation that the token belongs to.
    pub organization: String,
    /// The one cloudspace.
    pub cloudspace: String,
    /// Its region.
    pub region: String,
    /// What is sold.
    pub classes: Vec<Class>,
    /// How prices move.
    pub auctions: Auctions,
    /// How long an id token is good.
    pub token_life: Duration,
    /// From a bid to its first auction.
    pub decides_after: Duration,
    /// The quickest that a won server becomes a node.
    pub arrives_min: Duration,
    /// The slowest.
    pub arrives_max: Duration,
    /// From a lost bid until its server is taken.
    pub notice: Duration,
    /// From deleting a pool until it is gone.
    pub stops_after: Duration,
    /// From a node's arrival until its pool's labels and taints are on it.
    pub stamps_after: Duration,
    /// Pools that the cloudspace may have.
    pub max_pools: usize,
    /// Page size of lists, whatever the client asks for.
    pub page_limit: Option<usize>,
}

impl RackspaceCloudOptions {
    /// A calm market, with the timings of the real one.
    pub fn calm(seed: u64) -> Self {
        RackspaceCloudOptions {
            refresh_token: "sim-refresh-token".to_owned(),
            client_id: CLIENT_ID.to_owned(),
            organization: "org_AbC123".to_owned(),
            cloudspace: "demo".to_owned(),
            region: "us-central-ord-1".to_owned(),
            classes: built_in(),
            auctions: Auctions {
                seed,
                swing_percent: 0,
                every: Duration::from_mins(5),
            },
            token_life: Duration::from_hours(1),
            decides_after: Duration::from_secs(20),
            arrives_min: Duration::from_mins(8),
            arrives_max: Duration::from_mins(30),
            notice: Duration::from_mins(6),
            stops_after: Duration::from_secs(30),
            stamps_after: Duration::from_secs(20),
            max_pools: 150,
            page_limit: None,
        }
    }

    /// The namespace of the organisation.
    pub fn namespace(&self) -> String {
        self.organization.to_lowercase().replace('_', "-")
    }
}

/// What goes wrong with a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallFault {
    /// It is refused before it does anything, with a status and perhaps a wait.
    Refused(u16, Option<Duration>),
    /// It is done, and its answer lost.
    Lost,
    /// Something else answers.
    Says(u16, String),
    /// Nothing answers, ever.
    Hangs,
}

struct Inner {
    options: RackspaceCloudOptions,
    state: State,
    tokens: BTreeMap<String, Timestamp>,
    issued: u64,
    /// Calls that begin with the text meet the fault, so many times.
    faults: Vec<(String, CallFault, u32)>,
    calls: Vec<String>,
    bodies: Vec<String>,
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

    fn check_namespace(&self, namespace: &str) -> Result<(), Refused> {
        if namespace == self.options.namespace() {
            return Ok(());
        }
        let message = format!("access to namespace {namespace:?} is forbidden");
        Err(Refused::new(403, "Forbidden", message))
    }

    fn cloudspace(&self) -> Value {
        let options = &self.options;
        json!({"apiVersion": "ngpc.rxt.io/v1", "kind": "CloudSpace",
            "metadata": {"name": options.cloudspace, "namespace": options.namespace()},
            "spec": {"region": options.region, "kubernetesVersion": "1.33.0", "cni": "calico", "cloud": "default"},
            "status": {"phase": "Ready", "APIServerEndpoint": "hcp-sim.spot.rackspace.com"}})
    }

    fn take_fault(&mut self, line: &str) -> Option<CallFault> {
        let at = self
            .faults
            .iter()
            .position(|(text, _, times)| *times > 0 && line.starts_with(text))?;
        let (_, fault, times) = self.faults.get_mut(at)?;
        *times -= 1;
        Some(fault.clone())
    }
}

/// The cloud. Cheap to clone; clones are the same cloud.
#[derive(Clone)]
pub struct RackspaceCloud {
    inner: Arc<Mutex<Inner>>,
    clock: Clock,
    rack: Arc<dyn Rack>,
    api: Option<Local>,
    changed: Arc<Notify>,
}

impl RackspaceCloud {
    /// Opens the cloud. Nothing is decided until [`RackspaceCloud::run`] is polled.
    pub fn new(options: RackspaceCloudOptions, clock: Clock, rack: Arc<dyn Rack>) -> Self {
        let inner = Inner {
            options,
            state: State::default(),
            tokens: BTreeMap::new(),
            issued: 0,
            faults: Vec::new(),
            calls: Vec::new(),
            bodies: Vec::new(),
            observers: Vec::new(),
        };
        RackspaceCloud {
            inner: Arc::new(Mutex::new(inner)),
            clock,
            rack,
            api: None,
            changed: Arc::default(),
        }
    }

    /// Lets the cloud stamp the labels and taints of pools on their nodes, some time after these have joined.
    #[must_use]
    pub fn with_api(mut self, api: Local) -> Self {
        self.api = Some(api);
        self
    }

    /// The wire: API, token exchange and price feed.
    pub fn router(&self) -> Router {
        routes::router(self.clone())
    }

    /// Holds auctions, builds, pre-empts and buries, until it is dropped.
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
    pub fn change(&self, change: impl FnOnce(&mut RackspaceCloudOptions)) {
        change(&mut self.lock().options);
        self.changed.notify_one();
    }

    /// Changes one class: its price, its stock.
    pub fn change_class(&self, name: &str, change: impl FnOnce(&mut Class)) {
        self.change(|options| {
            if let Some(class) = options.classes.iter_mut().find(|class| class.name == name) {
                change(class);
            }
        });
    }

    /// Lets the next `times` calls that begin so (`POST /apis/…`) go wrong.
    pub fn fail(&self, call: &str, fault: CallFault, times: u32) {
        self.lock().faults.push((call.to_owned(), fault, times));
    }

    /// Nothing goes wrong any more that was asked to.
    pub fn forgive(&self) {
        self.lock().faults.clear();
    }

    /// Every id token is worthless from now on.
    pub fn revoke_tokens(&self) {
        self.lock().tokens.clear();
    }

    /// Makes a pool that somebody else owns, past every check.
    pub fn plant(&self, name: &str, spec: &Value) -> bool {
        let now = self.clock.now();
        let mut inner = self.lock();
        let inner = &mut *inner;
        let namespace = inner.options.namespace();
        let body = json!({"metadata": {"name": name, "labels": {}}, "spec": spec});
        let made = inner
            .state
            .create(Kind::Spot, &namespace, &body, &inner.options, now);
        inner.tell();
        self.changed.notify_one();
        made.is_ok()
    }

    /// Every pool there is, whoever owns it: the truth that leak checks compare with.
    pub fn pools(&self) -> Vec<Value> {
        let inner = self.lock();
        inner
            .state
            .pools
            .values()
            .map(state::Pool::object)
            .collect()
    }

    /// Everything that was sold, for [`RackspaceCloud::restore`] in another process.
    pub fn memory(&self) -> Value {
        self.lock().state.memory()
    }

    /// Goes on where another process ended. Says how many pools there are.
    pub fn restore(&self, memory: &Value) -> usize {
        let count = self.lock().state.restore(memory);
        self.changed.notify_one();
        count
    }

    /// Forgets what was sold: another process plays this cloud from now on.
    pub fn rest(&self) {
        let nodes = {
            let mut inner = self.lock();
            let seed = inner.options.auctions.seed;
            inner.state.rest(seed)
        };
        for node in &nodes {
            self.rack.kill(node);
        }
    }

    /// What the cloudspace's webhook would have been told.
    pub fn webhook_calls(&self) -> Vec<String> {
        self.lock().state.webhook.clone()
    }

    /// Every call so far, as `METHOD path?query`.
    pub fn calls(&self) -> Vec<String> {
        self.lock().calls.clone()
    }

    /// The bodies of every pool that was made or changed so far, byte for byte.
    pub fn bodies(&self) -> Vec<String> {
        self.lock().bodies.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what is due and says when to come again.
    fn act(&self) -> Option<Timestamp> {
        let (orders, next) = {
            let mut inner = self.lock();
            let inner = &mut *inner;
            let due = inner.state.due(&mut inner.options, self.clock.now());
            inner.tell();
            due
        };
        for order in orders {
            match order {
                Order::Boot(spec) => self.rack.boot(*spec),
                Order::Kill(name) => self.rack.kill(&name),
                Order::Stamp(node, labels, taints) => self.stamp(&node, &labels, &taints),
            }
        }
        next
    }

    /// Puts a pool's labels and taints on its node, once and without looking at what happened meanwhile.
    fn stamp(&self, node: &str, labels: &Value, taints: &Value) {
        let Some(api) = &self.api else { return };
        let Ok(found) = api.get("nodes", "", node) else {
            return;
        };
        let mut object = Value::clone(&found);
        for (key, value) in labels.as_object().into_iter().flatten() {
            object["metadata"]["labels"][key] = value.clone();
        }
        if let Some(more) = taints.as_array() {
            let mut all = object["spec"]["taints"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let same = |a: &Value, b: &Value| a["key"] == b["key"] && a["effect"] == b["effect"];
            for taint in more {
                all.retain(|one| !same(one, taint));
                all.push(taint.clone());
            }
            object["spec"]["taints"] = Value::Array(all);
        }
        if let Err(error) = api.update("nodes", object) {
            tracing::warn!(%node, %error, "labels could not be stamped");
        }
    }
}

#[cfg(test)]
mod tests;
