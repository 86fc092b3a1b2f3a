//! The scheduler: binds pods to nodes under the same hard constraints as kube-scheduler.
//!
//! ```text
//!   watches ──► cache (what stands where) ──┐
//!           ──► pending (who waits) ────────┴─► attempt (pure) ──► bind | condition, event, preemption
//! ```

mod affinity;
mod attempt;
mod cache;
mod filter;
mod pending;
mod pod;
mod preempt;
mod resources;
mod score;
pub(crate) mod taints;
pub(crate) mod volumes;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use tokio::time::Instant;

pub(crate) use self::affinity::NodeAffinity;
use self::attempt::{Outcome, attempt};
use self::cache::{Cache, NodeInfo, Volume};
use self::filter::{Nominated, Plugin, check_node};
use self::pending::Pending;
use self::pod::PodInfo;
pub(crate) use self::pod::{claim_names, read_labels};
use self::preempt::Budget;
pub(crate) use self::resources::{Resources, pod_requests};
use self::volumes::{VolumeStep, is_bound};
use super::Key;
use super::feed::Feed;
use super::fields::Fields as _;
use super::recorder::Recorder;
use crate::api::{Change, ChangeKind, Local};

const RESOURCES: [&str; 8] = [
    "namespaces",
    "storageclasses.storage.k8s.io",
    "csinodes.storage.k8s.io",
    "persistentvolumes",
    "persistentvolumeclaims",
    "poddisruptionbudgets.policy",
    "nodes",
    "pods",
];

/// Pods placed between two looks at the world. Others get their turn on a single thread, and news is not missed for long.
const BATCH: usize = 64;

/// What happened, as far as stuck pods may care.
#[derive(Debug, Clone, Copy)]
enum Stir<'a> {
    /// A node is new or changed.
    Node(&'a str),
    /// A node is gone.
    NodeGone,
    /// Room was made on a node.
    PodGone(&'a str),
    /// A pod was placed, or one in place changed its labels.
    PodPlaced,
    /// Claims, volumes, classes or attach limits changed.
    Storage,
}

/// A pod whose node is chosen and whose claims are being bound.
#[derive(Debug)]
struct Reserved {
    node: String,
    claims: Vec<Key>,
}

/// Attempts that failed since the cluster last changed: equal pods need not be tried again.
#[derive(Debug, Default)]
struct Failures {
    generation: u64,
    known: Vec<(Arc<PodInfo>, String, BTreeSet<Plugin>)>,
}

impl Failures {
    fn find(&mut self, pod: &PodInfo, generation: u64) -> Option<(String, BTreeSet<Plugin>)> {
        if self.generation != generation {
            self.generation = generation;
            self.known.clear();
        }
        let (_, message, plugins) = self.known.iter().find(|(known, ..)| known.is_like(pod))?;
        Some((message.clone(), plugins.clone()))
    }
}

/// The scheduler's state.
#[derive(Debug)]
pub(crate) struct Scheduler {
    api: Local,
    name: String,
    events: Recorder,
    feed: Feed,
    cache: Cache,
    pending: Pending,
    nominated: Nominated,
    budgets: BTreeMap<Key, Budget>,
    reserved: BTreeMap<Key, Reserved>,
    failures: Failures,
    start: usize,
}

impl Scheduler {
    /// A scheduler of that name (`default-scheduler` takes the pods that name none).
    pub(crate) fn new(api: &Local, name: &str, events: bool) -> Self {
        Self {
            api: api.clone(),
            name: name.to_owned(),
            events: Recorder::new(api, "default-scheduler", events),
            feed: Feed::new(api, &RESOURCES),
            cache: Cache::default(),
            pending: Pending::default(),
            nominated: Nominated::new(),
            budgets: BTreeMap::new(),
            reserved: BTreeMap::new(),
            failures: Failures::default(),
            start: 0,
        }
    }

    /// Works until it is dropped.
    pub(crate) async fn run(mut self) {
        loop {
            for (resource, change) in self.feed.drain() {
                self.take_in(&resource, &change);
            }
            let mut done = 0;
            while done < BATCH
                && let Some(pod) = self.pending.pop(Instant::now())
            {
                self.try_to_place(&pod);
                done += 1;
            }
            if done > 0 {
                tokio::task::yield_now().await;
            } else if let Some((resource, change)) = self.feed.wait(self.pending.next_due()).await {
                self.take_in(&resource, &change);
            }
        }
    }

    fn take_in(&mut self, resource: &str, change: &Change) {
        let object = &change.object;
        let gone = change.kind == ChangeKind::Deleted;
        match resource {
            "pods" => self.take_in_pod(object, gone),
            "nodes" => self.take_in_node(object, gone),
            "namespaces" => {
                let labels = (!gone).then(|| object.labels());
                self.cache.set_namespace(object.name(), labels);
                self.stir(Stir::PodPlaced);
            }
            "poddisruptionbudgets.policy" => {
                self.cache.touch();
                if gone {
                    self.budgets.remove(&Key::of(object));
                } else {
                    self.budgets.insert(Key::of(object), Budget::read(object));
                }
            }
            _ => {
                self.cache.touch();
                self.take_in_storage(resource, object, gone);
                self.stir(Stir::Storage);
                self.finish_reserved();
            }
        }
    }

    fn take_in_storage(&mut self, resource: &str, object: &Arc<Value>, gone: bool) {
        let storage = &mut self.cache.storage;
        let name = object.name().to_owned();
        match (resource, gone) {
            ("persistentvolumeclaims", false) => {
                storage.claims.insert(Key::of(object), Arc::clone(object));
            }
            ("persistentvolumeclaims", true) => {
                storage.claims.remove(&Key::of(object));
            }
            ("persistentvolumes", false) => {
                storage.volumes.insert(name, Volume::read(object));
            }
            ("persistentvolumes", true) => {
                storage.volumes.remove(&name);
            }
            ("storageclasses.storage.k8s.io", false) => {
                storage.classes.insert(name, Arc::clone(object));
            }
            ("storageclasses.storage.k8s.io", true) => {
                storage.classes.remove(&name);
            }
            (_, false) => {
                storage.csi_nodes.insert(name, Arc::clone(object));
            }
            (_, true) => {
                storage.csi_nodes.remove(&name);
            }
        }
    }

    fn take_in_node(&mut self, node: &Value, gone: bool) {
        let name = node.name();
        if gone {
            self.cache.remove_node(name);
            self.stir(Stir::NodeGone);
            return;
        }
        let info = NodeInfo::read(node);
        let known = self
            .cache
            .node_named(name)
            .and_then(|slot| self.cache.slot(slot).node.as_ref());
        // Heartbeats change nothing that matters here.
        if known == Some(&info) {
            return;
        }
        self.cache.set_node(name, info);
        self.stir(Stir::Node(name));
    }

    fn take_in_pod(&mut self, object: &Value, gone: bool) {
        let key = Key::of(object);
        if gone || matches!(object.text(&["status", "phase"]), "Succeeded" | "Failed") {
            self.forget(&key);
            return;
        }
        let pod = Arc::new(PodInfo::read(object));
        self.note_nomination(&pod);
        if !pod.node.is_empty() {
            self.pending.remove(&key);
            self.reserved.remove(&key);
            self.place(pod);
        } else if pod.scheduler != self.name || pod.terminating {
            self.pending.remove(&key);
        } else if self.reserved.contains_key(&key) {
            // Its node is chosen; only the volumes are awaited.
        } else {
            match self.pending.get(&key) {
                Some(known) if differs_in_status_only(known, &pod) => self.pending.refresh(pod),
                _ => self.pending.put(pod),
            }
        }
    }

    /// Takes in a pod that has a node.
    fn place(&mut self, pod: Arc<PodInfo>) {
        let known = self.cache.pod(&pod.key);
        if known.is_some_and(|known| **known == *pod) {
            return;
        }
        let stirs = known.is_none_or(|known| known.labels != pod.labels);
        let node = pod.node.clone();
        self.cache.place(pod, &node);
        if stirs {
            self.stir(Stir::PodPlaced);
        }
    }

    fn forget(&mut self, key: &Key) {
        self.pending.remove(key);
        self.reserved.remove(key);
        self.withdraw_promise(key);
        if let Some((_, node)) = self.cache.remove(key) {
            self.stir(Stir::PodGone(&node));
        }
    }

    fn note_nomination(&mut self, pod: &Arc<PodInfo>) {
        let promise = (pod.node.is_empty() && !pod.nominated_node.is_empty())
            .then_some(pod.nominated_node.as_str());
        self.withdraw_promise(&pod.key);
        if let Some(node) = promise {
            self.cache.touch();
            self.nominated
                .entry(node.to_owned())
                .or_default()
                .push(Arc::clone(pod));
        }
    }

    fn withdraw_promise(&mut self, key: &Key) {
        if self.nominated.values().flatten().any(|pod| pod.key == *key) {
            self.cache.touch();
            for promised in self.nominated.values_mut() {
                promised.retain(|pod| pod.key != *key);
            }
            self.nominated.retain(|_, promised| !promised.is_empty());
        }
    }

    /// Gives stuck pods another chance where what happened may help them.
    fn stir(&mut self, what: Stir<'_>) {
        let cache = &self.cache;
        let around = [Plugin::InterPodAffinity, Plugin::PodTopologySpread];
        let volumes = [
            Plugin::VolumeBinding,
            Plugin::VolumeZone,
            Plugin::VolumeRestrictions,
            Plugin::NodeVolumeLimits,
        ];
        let any = |plugins: &BTreeSet<Plugin>, of: &[Plugin]| {
            of.iter().any(|plugin| plugins.contains(plugin))
        };
        self.pending
            .stir(Instant::now(), |pod, plugins| match what {
                // One node changed: rules about neighbours may look different everywhere, others only there.
                Stir::Node(name) => any(plugins, &around) || fits_alone(cache, pod, name),
                Stir::NodeGone => plugins.contains(&Plugin::PodTopologySpread),
                Stir::PodGone(name) => {
                    any(plugins, &around)
                        || any(plugins, &volumes)
                        || (any(plugins, &[Plugin::NodeResourcesFit, Plugin::NodePorts])
                            && fits_alone(cache, pod, name))
                }
                Stir::PodPlaced => any(plugins, &around),
                Stir::Storage => any(plugins, &volumes),
            });
    }

    fn try_to_place(&mut self, pod: &Arc<PodInfo>) {
        if let Some((message, plugins)) = self.failures.find(pod, self.cache.generation()) {
            self.pending.stick(&pod.key, plugins, Instant::now());
            self.report_stuck(pod, &message, None);
            return;
        }
        let before = self.cache.generation();
        let budgets: Vec<Budget> = self.budgets.values().cloned().collect();
        match attempt(
            &mut self.cache,
            pod,
            &self.nominated,
            &budgets,
            &mut self.start,
        ) {
            Outcome::Place { node, steps } if steps.is_empty() => self.bind(pod, &node),
            Outcome::Place { node, steps } => self.reserve(pod, &node, &steps),
            Outcome::Stuck {
                message,
                plugins,
                preemption,
            } => {
                // Trying a preemption changes the cache and changes it back.
                if preemption.is_none() && self.cache.generation() == before {
                    self.failures
                        .known
                        .push((Arc::clone(pod), message.clone(), plugins.clone()));
                }
                self.pending.stick(&pod.key, plugins, Instant::now());
                self.report_stuck(pod, &message, preemption);
            }
        }
    }

    /// Keeps the place while the volume controller binds the pod's claims.
    fn reserve(&mut self, pod: &Arc<PodInfo>, node: &str, steps: &[VolumeStep]) {
        let written = steps
            .iter()
            .try_for_each(|step| self.write_volume_step(step, node));
        if let Err(error) = written {
            tracing::debug!(pod = %pod.key, %error, "claim not written, will try again");
            self.pending.retry(Arc::clone(pod), Instant::now());
            return;
        }
        self.pending.remove(&pod.key);
        self.cache.place(Arc::clone(pod), node);
        let claims = pod
            .claims
            .iter()
            .map(|name| Key::new(&pod.key.namespace, name))
            .collect();
        self.reserved.insert(
            pod.key.clone(),
            Reserved {
                node: node.to_owned(),
                claims,
            },
        );
    }

    /// Binds the pods whose claims are bound by now.
    fn finish_reserved(&mut self) {
        let claims = &self.cache.storage.claims;
        let bound = |key| {
            claims
                .get(key)
                .is_some_and(|claim: &Arc<Value>| is_bound(claim))
        };
        let ready: Vec<Key> = self
            .reserved
            .iter()
            .filter(|(_, reserved)| reserved.claims.iter().all(bound))
            .map(|(key, _)| key.clone())
            .collect();
        for key in ready {
            let reserved = self.reserved.remove(&key);
            let pod = self.cache.pod(&key).map(Arc::clone);
            if let (Some(reserved), Some(pod)) = (reserved, pod) {
                self.bind(&pod, &reserved.node);
            }
        }
    }
}

/// Whether a pod would fit a node as far as the node itself and its resources go.
fn fits_alone(cache: &Cache, pod: &PodInfo, name: &str) -> bool {
    let Some(slot) = cache.node_named(name) else {
        return false;
    };
    let here = cache.slot(slot);
    let Some(node) = &here.node else { return false };
    let fits = pod
        .requests
        .fit(&node.allocatable, &here.used, here.pods.len());
    // A full node can help a pod that may take another's place.
    let may_preempt = cache
        .lowest_priority()
        .is_some_and(|lowest| lowest < pod.priority);
    (fits || may_preempt) && check_node(pod, name, node).is_ok()
}

/// Whether two states of a waiting pod differ in nothing that could help it.
fn differs_in_status_only(known: &PodInfo, new: &PodInfo) -> bool {
    let mut known = known.clone();
    known.nominated_node.clone_from(&new.nominated_node);
    known.started = new.started;
    known == *new
}
