//! Simulated kubelets: they register nodes, keep leases, and run and end the pods that are bound to them.
//!
//! One task plays all kubelets of the cluster. Pods do what their annotations say (see [`behaviour`]); time does the
//! rest. A machine that is killed goes silent, as a crashed one does; one that is stopped ends its pods first.
//!
//! What kubelets say and do is in pure functions, so that others can play kubelets on another API server: [`Run`],
//! [`report`], [`node_object`], [`write_conditions`], [`lease_object`].

pub mod behaviour;
mod lifecycle;
mod node;
mod pods;
mod status;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

use self::behaviour::PodDefaults;
pub use self::lifecycle::Run;
pub use self::node::{LEASES, NodeSpec, lease_object, node_object, write_conditions};
pub use self::status::report;
use super::Key;
use super::fields::{Fields as _, set};
use super::queue::Queue;
use super::recorder::Recorder;
use crate::api::{Change, ChangeKind, Local, Watch};

/// How kubelets behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KubeletOptions {
    /// What pods do that say nothing else.
    pub pods: PodDefaults,
    /// How often leases are renewed.
    pub lease_every: Duration,
    /// How often an unchanged node status is written.
    pub status_every: Duration,
    /// Whether to write an event for each container that starts.
    pub events: bool,
}

impl Default for KubeletOptions {
    fn default() -> Self {
        Self {
            pods: PodDefaults::default(),
            lease_every: Duration::from_secs(10),
            status_every: Duration::from_mins(5),
            events: false,
        }
    }
}

#[derive(Debug)]
enum Command {
    Boot(Box<NodeSpec>),
    Kill(String),
    Stop(String),
}

/// The handle by which machines are switched on and off. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Kubelets {
    commands: mpsc::UnboundedSender<Command>,
}

impl Kubelets {
    /// Switches a machine on: its kubelet registers the node and begins to work.
    pub fn boot(&self, spec: NodeSpec) {
        self.send(Command::Boot(Box::new(spec)));
    }

    /// Cuts a machine off without warning: it falls silent and its pods with it. The Node stays.
    pub fn kill(&self, name: &str) {
        self.send(Command::Kill(name.to_owned()));
    }

    /// Shuts a machine down in good order: its pods end, the node reports so, and then it is silent.
    pub fn stop(&self, name: &str) {
        self.send(Command::Stop(name.to_owned()));
    }

    fn send(&self, command: Command) {
        if self.commands.send(command).is_err() {
            tracing::warn!("the cluster has stopped; its machines are off");
        }
    }
}

/// A machine that is on.
#[derive(Debug)]
struct Machine {
    spec: NodeSpec,
    number: usize,
    address: String,
    ready_at: Timestamp,
    ready: bool,
    reported: Timestamp,
    next_pod_address: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Work {
    Pod(Key),
    Ready(String),
    Heartbeats,
}

/// The task that plays all kubelets.
#[derive(Debug)]
pub(crate) struct Fleet {
    api: Local,
    options: KubeletOptions,
    commands: mpsc::UnboundedReceiver<Command>,
    pods: Watch,
    events: Recorder,
    machines: BTreeMap<String, Machine>,
    booted: usize,
    by_node: BTreeMap<String, BTreeMap<Key, String>>,
    runs: BTreeMap<Key, Run>,
    work: Queue<Work>,
}

impl Fleet {
    /// A fleet without machines, and the handle to give it some.
    pub(crate) fn new(api: &Local, options: KubeletOptions) -> (Self, Kubelets) {
        let (commands, received) = mpsc::unbounded_channel();
        let fleet = Self {
            api: api.clone(),
            options,
            commands: received,
            pods: api.watch("pods"),
            events: Recorder::new(api, "kubelet", options.events),
            machines: BTreeMap::new(),
            booted: 0,
            by_node: BTreeMap::new(),
            runs: BTreeMap::new(),
            work: Queue::default(),
        };
        (fleet, Kubelets { commands })
    }

    /// Works until it is dropped.
    pub(crate) async fn run(mut self) {
        self.work
            .add_at(Work::Heartbeats, Instant::now() + self.options.lease_every);
        loop {
            while let Ok(command) = self.commands.try_recv() {
                self.obey(command);
            }
            while let Some(change) = self.pods.try_next() {
                self.take_in(&change);
            }
            let mut busy = false;
            while let Some(work) = self.work.pop(Instant::now()) {
                busy = true;
                self.do_work(work);
            }
            if busy {
                tokio::task::yield_now().await;
                continue;
            }
            let until = self
                .work
                .next_due()
                .unwrap_or_else(|| Instant::now() + self.options.lease_every);
            tokio::select! {
                biased;
                change = self.pods.next() => self.take_in(&change),
                command = self.commands.recv() => match command {
                    Some(command) => self.obey(command),
                    // Nobody can switch machines any more; those that are on go on.
                    None => tokio::time::sleep_until(until).await,
                },
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Boot(spec) => self.boot(*spec),
            Command::Kill(name) => {
                self.machines.remove(&name);
                for key in self.pods_on(&name) {
                    self.runs.remove(&key);
                }
            }
            Command::Stop(name) => self.shut_down(&name),
        }
    }

    fn boot(&mut self, spec: NodeSpec) {
        let now = self.api.clock().now();
        self.booted += 1;
        let number = self.booted;
        let address = format!(
            "10.{}.{}.{}",
            number >> 16 & 63,
            number >> 8 & 255,
            number & 255
        );
        let name = spec.name.clone();
        let ready_at = now.checked_add(spec.ready_after).unwrap_or(Timestamp::MAX);
        let object = node_object(&spec, &address, now);
        let machine = Machine {
            ready: spec.ready_after.is_zero(),
            spec,
            number,
            address,
            ready_at,
            reported: now,
            next_pod_address: 0,
        };
        if let Err(error) = self.register(object) {
            tracing::warn!(node = name, %error, "the node was not registered");
            return;
        }
        if !machine.ready {
            let wait = Duration::try_from(machine.spec.ready_after).unwrap_or_default();
            self.work
                .add_at(Work::Ready(name.clone()), Instant::now() + wait);
        }
        self.machines.insert(name.clone(), machine);
        self.renew(&name);
        for key in self.pods_on(&name) {
            self.work.add(Work::Pod(key));
        }
    }

    /// Creates the Node, or takes over one that is already there, as a kubelet does after a restart.
    fn register(&self, object: Value) -> Result<(), crate::api::Status> {
        let name = object.name().to_owned();
        let Ok(held) = self.api.get("nodes", "", &name) else {
            return self.api.create("nodes", "", object).map(|_| ());
        };
        let mut taken = Value::clone(&held);
        for (key, value) in object.labels().as_object().into_iter().flatten() {
            set(&mut taken, &["metadata", "labels", key], value.clone());
        }
        let provider = object.text(&["spec", "providerID"]);
        if held.text(&["spec", "providerID"]).is_empty() && !provider.is_empty() {
            set(&mut taken, &["spec", "providerID"], provider);
        }
        let written = self.api.update("nodes", taken)?;
        let mut reported = Value::clone(&written);
        set(&mut reported, &["status"], object.at(&["status"]).clone());
        self.api.update_status("nodes", reported).map(|_| ())
    }

    fn do_work(&mut self, work: Work) {
        match work {
            Work::Pod(key) => self.sync_pod(&key),
            Work::Ready(name) => {
                if let Some(machine) = self.machines.get_mut(&name) {
                    machine.ready = machine.ready_at <= self.api.clock().now();
                }
                self.report_node(&name);
            }
            Work::Heartbeats => {
                self.beat();
                self.work
                    .add_at(Work::Heartbeats, Instant::now() + self.options.lease_every);
            }
        }
    }

    /// Renews all leases, and reports the nodes whose last report is too old.
    fn beat(&mut self) {
        let now = self.api.clock().now();
        let names: Vec<String> = self.machines.keys().cloned().collect();
        for name in names {
            self.renew(&name);
            let old = self.machines.get(&name).is_some_and(|machine| {
                Duration::try_from(now.duration_since(machine.reported)).unwrap_or_default()
                    >= self.options.status_every
            });
            if old {
                self.report_node(&name);
            }
        }
    }

    fn renew(&self, name: &str) {
        let micros = self.api.clock().rfc3339_micros();
        let renewed = match self.api.get("leases.coordination.k8s.io", LEASES, name) {
            Ok(held) => {
                let mut lease = Value::clone(&held);
                set(&mut lease, &["spec", "renewTime"], micros);
                self.api.update("leases.coordination.k8s.io", lease)
            }
            Err(_) => match self.api.get("nodes", "", name) {
                Ok(node) => {
                    let lease = lease_object(&node, &micros);
                    self.api.create("leases.coordination.k8s.io", LEASES, lease)
                }
                // The Node was taken away under a kubelet that lives on; there is nothing to renew.
                Err(_) => return,
            },
        };
        if let Err(error) = renewed {
            tracing::debug!(node = name, %error, "lease not renewed");
        }
    }

    fn report_node(&mut self, name: &str) {
        let now = self.api.clock().now();
        let Some(machine) = self.machines.get_mut(name) else {
            return;
        };
        machine.reported = now;
        let Ok(held) = self.api.get("nodes", "", name) else {
            return;
        };
        let mut node = Value::clone(&held);
        write_conditions(&mut node, machine.ready, now);
        if let Err(error) = self.api.update_status("nodes", node) {
            tracing::debug!(node = name, %error, "node status not written");
        }
    }

    fn shut_down(&mut self, name: &str) {
        if let Some(machine) = self.machines.get_mut(name) {
            machine.ready = false;
        }
        self.report_node(name);
        for key in self.pods_on(name) {
            self.end_with_node(&key);
        }
        self.machines.remove(name);
    }

    fn pods_on(&self, name: &str) -> Vec<Key> {
        self.by_node
            .get(name)
            .into_iter()
            .flatten()
            .map(|(key, _)| key.clone())
            .collect()
    }

    fn take_in(&mut self, change: &Change) {
        let pod = &change.object;
        let node = pod.text(&["spec", "nodeName"]);
        if node.is_empty() {
            return;
        }
        let key = Key::of(pod);
        if change.kind == ChangeKind::Deleted {
            if self.runs.get(&key).is_some_and(|run| run.uid == pod.uid()) {
                self.runs.remove(&key);
            }
            if let Some(held) = self.by_node.get_mut(node) {
                held.remove(&key);
                if held.is_empty() {
                    self.by_node.remove(node);
                }
            }
            return;
        }
        let version = pod.text(&["metadata", "resourceVersion"]);
        let held = self.by_node.entry(node.to_owned()).or_default();
        // What this kubelet wrote itself is no news to it.
        if held.get(&key).is_some_and(|known| known == version) {
            return;
        }
        held.insert(key.clone(), version.to_owned());
        if self.machines.contains_key(node) {
            self.work.add(Work::Pod(key));
        }
    }
}
