//! What stands where: nodes with the pods on them, kept up to date change by change.
//!
//! ```text
//!   Cache ─┬─ slots: one per node name ── pods on it, what they use, the Node itself if there is one
//!          ├─ counters: how many pods each rule seen so far matches, per slot
//!          └─ holders: which required anti-affinity rules are held by pods, per slot
//! ```
//!
//! Counters make affinity and topology spread cost one look per node instead of one per pod. A counter is made when a
//! rule is first asked about and is kept right by every later `place` and `remove`; a test compares them with a recount.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::affinity::{NodeTerm, read_terms};
use super::pod::{HostPort, PodInfo, Query, Term, read_labels};
use super::resources::Resources;
use super::taints::Taint;
use crate::cluster::Key;
use crate::cluster::fields::Fields as _;

/// More rules than this at a time are forgotten, oldest first: rollouts leave rules behind that nobody asks about again.
const MOST_COUNTERS: usize = 512;

/// The Node object, as far as scheduling goes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NodeInfo {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) taints: Vec<Taint>,
    pub(crate) unschedulable: bool,
    pub(crate) allocatable: Resources,
}

impl NodeInfo {
    /// Reads a Node.
    pub(crate) fn read(node: &Value) -> Self {
        Self {
            labels: read_labels(node.labels()),
            taints: Taint::read_all(node),
            unschedulable: node.flag(&["spec", "unschedulable"]),
            allocatable: Resources::read(node.at(&["status", "allocatable"])),
        }
    }
}

/// Everything known under one node name. Pods can be known before their node is, and after it is gone.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub(crate) name: String,
    pub(crate) node: Option<NodeInfo>,
    pub(crate) pods: BTreeMap<Key, Arc<PodInfo>>,
    pub(crate) used: Resources,
    /// CPU and memory in use with assumptions for pods that ask for nothing; for scoring only.
    pub(crate) assumed: (i64, i64),
}

impl Slot {
    /// The ports taken on the node.
    pub(crate) fn port_taken(&self, wanted: &HostPort) -> bool {
        self.pods
            .values()
            .any(|pod| pod.ports.iter().any(|port| port.conflicts(wanted)))
    }

    fn is_empty(&self) -> bool {
        self.node.is_none() && self.pods.is_empty()
    }
}

/// How many pods match a rule, per slot.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Counter {
    pub(crate) per_slot: Vec<u32>,
    pub(crate) total: u64,
    last_used: u64,
}

impl Counter {
    fn add(&mut self, slot: usize) {
        if self.per_slot.len() <= slot {
            self.per_slot.resize(slot + 1, 0);
        }
        self.per_slot[slot] += 1;
        self.total += 1;
    }

    fn take(&mut self, slot: usize) {
        if let Some(count) = self.per_slot.get_mut(slot).filter(|count| **count > 0) {
            *count -= 1;
            self.total -= 1;
        }
    }

    /// The count in one slot.
    pub(crate) fn at(&self, slot: usize) -> u32 {
        self.per_slot.get(slot).copied().unwrap_or_default()
    }
}

/// Objects that volumes depend on.
#[derive(Debug, Default)]
pub(crate) struct Storage {
    pub(crate) claims: BTreeMap<Key, Arc<Value>>,
    pub(crate) volumes: BTreeMap<String, Volume>,
    pub(crate) classes: BTreeMap<String, Arc<Value>>,
    pub(crate) csi_nodes: BTreeMap<String, Arc<Value>>,
}

/// A `PersistentVolume` with its node affinity read once.
#[derive(Debug)]
pub(crate) struct Volume {
    pub(crate) object: Arc<Value>,
    /// Nothing where the volume can be used from everywhere.
    pub(crate) terms: Option<Vec<NodeTerm>>,
}

impl Volume {
    /// Reads a `PersistentVolume`.
    pub(crate) fn read(object: &Arc<Value>) -> Self {
        let required = object.at(&["spec", "nodeAffinity", "required"]);
        Self {
            object: Arc::clone(object),
            terms: required.is_object().then(|| read_terms(required)),
        }
    }
}

/// The scheduler's picture of the cluster.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    slots: Vec<Slot>,
    free: Vec<usize>,
    by_name: BTreeMap<String, usize>,
    /// Slots that have a Node, by name.
    order: Vec<usize>,
    placed: BTreeMap<Key, usize>,
    counters: BTreeMap<Query, Counter>,
    holders: BTreeMap<Arc<Term>, Counter>,
    namespaces: BTreeMap<String, Value>,
    /// How many pods have each priority.
    priorities: BTreeMap<i64, usize>,
    asked: u64,
    /// Grows with every change that an attempt could notice.
    generation: u64,
    pub(crate) storage: Storage,
}

impl Cache {
    /// The slots that have a Node, in the order of their names.
    pub(crate) fn nodes(&self) -> &[usize] {
        &self.order
    }

    /// A slot.
    pub(crate) fn slot(&self, slot: usize) -> &Slot {
        &self.slots[slot]
    }

    /// The slot and the Node of that name.
    pub(crate) fn node_named(&self, name: &str) -> Option<usize> {
        let slot = *self.by_name.get(name)?;
        self.slots[slot].node.is_some().then_some(slot)
    }

    /// The labels of all namespaces.
    pub(crate) fn namespaces(&self) -> &BTreeMap<String, Value> {
        &self.namespaces
    }

    /// The pod of that key, if it stands on a node.
    pub(crate) fn pod(&self, key: &Key) -> Option<&Arc<PodInfo>> {
        self.slots[*self.placed.get(key)?].pods.get(key)
    }

    /// The lowest priority of any pod in place.
    pub(crate) fn lowest_priority(&self) -> Option<i64> {
        self.priorities
            .first_key_value()
            .map(|(priority, _)| *priority)
    }

    /// Equal numbers mean that an attempt would see the same cluster.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Notes that something changed that the cache does not hold itself.
    pub(crate) fn touch(&mut self) {
        self.generation += 1;
    }

    /// Takes in a new or changed Node.
    pub(crate) fn set_node(&mut self, name: &str, node: NodeInfo) {
        self.generation += 1;
        let slot = self.slot_for(name);
        let is_new = self.slots[slot].node.replace(node).is_none();
        if is_new {
            self.reorder();
        }
    }

    /// Forgets a Node; the pods on it stay known until they are gone themselves.
    pub(crate) fn remove_node(&mut self, name: &str) {
        self.generation += 1;
        if let Some(&slot) = self.by_name.get(name) {
            self.slots[slot].node = None;
            self.release(slot);
            self.reorder();
        }
    }

    /// Takes in a pod that stands on (or is about to be bound to) a node, in place of what was known of it.
    pub(crate) fn place(&mut self, pod: Arc<PodInfo>, node: &str) {
        self.remove(&pod.key);
        self.generation += 1;
        *self.priorities.entry(pod.priority).or_default() += 1;
        let slot = self.slot_for(node);
        for (query, counter) in &mut self.counters {
            if query.matches(&pod, &self.namespaces) {
                counter.add(slot);
            }
        }
        for term in &pod.anti_affinity {
            self.holders.entry(Arc::clone(term)).or_default().add(slot);
        }
        let here = &mut self.slots[slot];
        here.used.add(&pod.requests);
        here.assumed.0 += pod.assumed.0;
        here.assumed.1 += pod.assumed.1;
        self.placed.insert(pod.key.clone(), slot);
        here.pods.insert(pod.key.clone(), pod);
    }

    /// Forgets a pod; returns what it was and the name of its node.
    pub(crate) fn remove(&mut self, key: &Key) -> Option<(Arc<PodInfo>, String)> {
        let slot = self.placed.remove(key)?;
        let here = &mut self.slots[slot];
        let pod = here.pods.remove(key)?;
        self.generation += 1;
        if let Some(count) = self.priorities.get_mut(&pod.priority) {
            *count -= 1;
            if *count == 0 {
                self.priorities.remove(&pod.priority);
            }
        }
        here.used.subtract(&pod.requests);
        here.assumed.0 -= pod.assumed.0;
        here.assumed.1 -= pod.assumed.1;
        let name = here.name.clone();
        for (query, counter) in &mut self.counters {
            if query.matches(&pod, &self.namespaces) {
                counter.take(slot);
            }
        }
        for term in &pod.anti_affinity {
            if let Some(counter) = self.holders.get_mut(term) {
                counter.take(slot);
                if counter.total == 0 {
                    self.holders.remove(term);
                }
            }
        }
        self.release(slot);
        Some((pod, name))
    }

    /// Takes in a namespace's labels (`None` when it is gone); rules that select namespaces by label start over.
    pub(crate) fn set_namespace(&mut self, name: &str, labels: Option<&Value>) {
        let changed = match labels {
            Some(labels) => {
                self.namespaces
                    .insert(name.to_owned(), labels.clone())
                    .as_ref()
                    != Some(labels)
            }
            None => self.namespaces.remove(name).is_some(),
        };
        if changed {
            self.generation += 1;
            self.counters.retain(|query, _| !query.selects_namespaces());
        }
    }

    /// Makes sure that a rule is counted, so that `count` can be asked.
    pub(crate) fn watch(&mut self, query: &Query) {
        self.asked += 1;
        if let Some(counter) = self.counters.get_mut(query) {
            counter.last_used = self.asked;
            return;
        }
        if self.counters.len() >= MOST_COUNTERS {
            let oldest = self
                .counters
                .iter()
                .min_by_key(|(_, counter)| counter.last_used);
            if let Some(oldest) = oldest.map(|(query, _)| query.clone()) {
                self.counters.remove(&oldest);
            }
        }
        let mut counter = self.recount(query);
        counter.last_used = self.asked;
        self.counters.insert(query.clone(), counter);
    }

    /// The counter of a rule that was given to `watch`.
    pub(crate) fn count(&self, query: &Query) -> Option<&Counter> {
        self.counters.get(query)
    }

    /// Required anti-affinity rules held by pods, and where their holders stand.
    pub(crate) fn holders(&self) -> impl Iterator<Item = (&Term, &Counter)> {
        self.holders
            .iter()
            .map(|(term, counter)| (&**term, counter))
    }

    fn recount(&self, query: &Query) -> Counter {
        let mut counter = Counter::default();
        for (index, slot) in self.slots.iter().enumerate() {
            for pod in slot.pods.values() {
                if query.matches(pod, &self.namespaces) {
                    counter.add(index);
                }
            }
        }
        counter
    }

    fn slot_for(&mut self, name: &str) -> usize {
        if let Some(&slot) = self.by_name.get(name) {
            return slot;
        }
        let fresh = Slot {
            name: name.to_owned(),
            ..Slot::default()
        };
        let slot = if let Some(slot) = self.free.pop() {
            self.slots[slot] = fresh;
            slot
        } else {
            self.slots.push(fresh);
            self.slots.len() - 1
        };
        self.by_name.insert(name.to_owned(), slot);
        slot
    }

    fn release(&mut self, slot: usize) {
        if self.slots[slot].is_empty() {
            let name = std::mem::take(&mut self.slots[slot].name);
            self.by_name.remove(&name);
            self.free.push(slot);
        }
    }

    fn reorder(&mut self) {
        let with_node = |slot: &&usize| self.slots[**slot].node.is_some();
        self.order = self.by_name.values().filter(with_node).copied().collect();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn pod(number: u8, app: u8) -> Arc<PodInfo> {
        Arc::new(PodInfo::read(&json!({
            "metadata": {"name": format!("p{number}"), "namespace": "a", "labels": {"app": format!("{app}")}},
            "spec": {
                "containers": [{"resources": {"requests": {"cpu": "100m"}}}],
                "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": format!("{app}")}}},
                ]}},
            },
        })))
    }

    fn query(app: u8) -> Query {
        pod(0, app).anti_affinity[0].query.clone()
    }

    proptest! {
        #[test]
        fn counters_agree_with_a_recount_after_any_changes(
            steps in prop::collection::vec((0_u8..3, 0_u8..6, 0_u8..3, 0_u8..4), 1..60)
        ) {
            let mut cache = Cache::default();
            cache.watch(&query(0));
            for (step, number, app, node) in steps {
                match step {
                    0 => cache.place(pod(number, app), &format!("n{node}")),
                    1 => { cache.remove(&pod(number, 0).key); }
                    _ if number < 3 => cache.set_node(&format!("n{node}"), NodeInfo::read(&json!({}))),
                    _ => cache.remove_node(&format!("n{node}")),
                }
                cache.watch(&query(app));
                for app in 0..3 {
                    if let Some(counter) = cache.count(&query(app)) {
                        let again = cache.recount(&query(app));
                        prop_assert_eq!(counter.total, again.total);
                        for slot in 0..cache.slots.len() {
                            prop_assert_eq!(counter.at(slot), again.at(slot));
                        }
                    }
                }
                let held: u64 = cache.holders().map(|(_, counter)| counter.total).sum();
                prop_assert_eq!(held, cache.placed.len() as u64);
                let used: i64 = cache.slots.iter().map(|slot| slot.used.cpu_millis).sum();
                prop_assert_eq!(used, 100 * i64::try_from(cache.placed.len()).unwrap());
            }
        }
    }

    #[test]
    fn pods_are_counted_before_their_node_is_known() {
        let mut cache = Cache::default();
        cache.place(pod(1, 1), "n");
        assert_eq!(cache.node_named("n"), None);
        cache.set_node("n", NodeInfo::read(&json!({})));
        let slot = cache.node_named("n").unwrap();
        assert_eq!(cache.slot(slot).used.cpu_millis, 100);
        cache.remove_node("n");
        assert!(cache.nodes().is_empty());
        assert!(cache.pod(&pod(1, 1).key).is_some());
    }
}
