//! Everything that is known, and what follows from each change of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use joiner_core::labels;
use joiner_core::name::{Labels, Name};
use joiner_core::problem::{DaemonSet, PodDisruptionBudget, PodSpec};

use super::nodes::NodeRecord;
use super::pods::{PodKey, PodRecord, Specs, lower_pod};
use super::store::{Outcome, Store, Stored};
use super::volumes::{Attachment, Claim, Class, Named, Persistent};
use super::waits::Waits;
use super::{Observation, Pending, Touched, Unreadable};
use crate::dialect::{Event, Sighting};
use crate::edge::clock;
use crate::record::{
    BufferRecord, ClassKey, ClassRecord, GateRecord, Key, MachineRecord, OverlayRecord, PoolRecord,
};

/// Everything that is known.
#[derive(Default)]
pub struct World {
    /// Pods.
    pub pods: Store<PodRecord>,
    /// Nodes.
    pub nodes: Store<NodeRecord>,
    /// Machines.
    pub machines: Store<MachineRecord>,
    /// Machines of other controllers: they hold pods, and are never touched.
    pub foreign: Store<MachineRecord>,
    /// Pools.
    pub pools: Store<PoolRecord>,
    /// Node classes.
    pub classes: Store<ClassRecord>,
    /// Objects that open pools.
    pub gates: Store<GateRecord>,
    /// Price overlays.
    pub overlays: Store<OverlayRecord>,
    /// Capacity buffers.
    pub buffers: Store<BufferRecord>,
    /// Daemon sets.
    pub daemon_sets: Store<Named<Option<DaemonSet>>>,
    /// Disruption budgets of pods.
    pub budgets: Store<Named<PodDisruptionBudget>>,
    /// Labels of namespaces.
    pub namespaces: Store<Named<Labels>>,
    /// Volume claims.
    pub claims: Store<Named<Claim>>,
    /// Volumes.
    pub volumes: Store<Named<Persistent>>,
    /// Storage classes.
    pub storage_classes: Store<Named<Class>>,
    /// What the drivers of nodes can attach.
    pub csi_nodes: Store<Named<BTreeMap<Name, u32>>>,
    /// What is attached.
    pub attachments: Store<Named<Attachment>>,
    /// What buffers keep room for.
    pub rooms: BTreeMap<Key, (Arc<PodSpec>, u32)>,
    /// Objects that cannot be read.
    pub unreadable: Unreadable,
    /// Nodes that pods were promised, and until when that counts.
    pub nominations: BTreeMap<Name, Timestamp>,
    pub(super) sources: BTreeMap<String, bool>,
    pods_by_node: BTreeMap<Name, BTreeSet<PodKey>>,
    pod_events: BTreeMap<Name, Timestamp>,
    waits: Waits,
    machines_by_node: BTreeMap<Name, Key>,
    specs: Specs,
}

macro_rules! stored {
    ($type:ty, $key:ty, $self:ident => $uid:expr) => {
        impl Stored for $type {
            type Key = $key;
            fn key(&self) -> $key {
                self.key.clone()
            }
            fn uid(&$self) -> &Name {
                $uid
            }
            fn version(&self) -> u64 {
                self.version
            }
        }
    };
}

stored!(MachineRecord, Key, self => &self.uid.0);
stored!(PoolRecord, Key, self => &self.uid);
stored!(ClassRecord, ClassKey, self => &self.uid);
stored!(GateRecord, Key, self => &self.uid);
stored!(OverlayRecord, Key, self => &self.uid);
stored!(BufferRecord, Key, self => &self.uid);

/// What an event did to one object.
struct Change<T> {
    before: Option<Arc<T>>,
    after: Option<Arc<T>>,
}

impl<T> Change<T> {
    /// Whichever is there, the new one first.
    fn any(&self) -> Option<&Arc<T>> {
        self.after.as_ref().or(self.before.as_ref())
    }
}

/// Takes an event into a store; says what changed.
fn take<T: Stored>(
    store: &mut Store<T>,
    unreadable: &mut Unreadable,
    event: Event<T>,
    source: &str,
    now: Timestamp,
) -> Vec<Change<T>> {
    match event {
        Event::Started => {
            store.start(source);
            Vec::new()
        }
        Event::Listed(object) | Event::Changed(object) => {
            unreadable.remove(object.uid());
            let key = object.key();
            match store.apply(object, source) {
                Outcome::Applied { before } => vec![Change {
                    before,
                    after: store.get(&key).cloned(),
                }],
                Outcome::Ignored => Vec::new(),
            }
        }
        Event::Gone(object) => {
            unreadable.remove(object.uid());
            let before = store.remove(&object.key(), object.uid(), now);
            vec![Change {
                before,
                after: None,
            }]
        }
        Event::Complete => store
            .complete(source, now, |uid| unreadable.contains_key(uid))
            .into_iter()
            .map(|object| Change {
                before: Some(object),
                after: None,
            })
            .collect(),
        Event::Malformed(malformed) => {
            unreadable.insert(malformed.uid.clone(), malformed);
            Vec::new()
        }
    }
}

impl World {
    /// Whether every list has come in.
    pub fn synced(&self) -> bool {
        !self.sources.is_empty() && self.sources.values().all(|synced| *synced)
    }

    /// Sources whose lists have not come in.
    pub fn missing(&self) -> Vec<String> {
        let open = self.sources.iter().filter(|(_, synced)| !**synced);
        open.map(|(source, _)| source.clone()).collect()
    }

    /// Pods bound to a node.
    pub fn pods_on<'a>(&'a self, node: &str) -> impl Iterator<Item = &'a Arc<PodRecord>> {
        self.pods_by_node
            .get(node)
            .into_iter()
            .flatten()
            .filter_map(|key| self.pods.get(key))
    }

    /// Whether there is a pod that the scheduler has not looked at yet.
    pub fn has_pods_to_bind(&self) -> bool {
        let starting = self.waits.pods().filter_map(|key| self.pods.get(key));
        let mut waiting = starting.filter(|pod| pod.node.is_none() && pod.active());
        waiting.any(|pod| !pod.unschedulable)
    }

    /// A plan has a place for these pods, or has none.
    pub fn consider(
        &mut self,
        pods: impl IntoIterator<Item = (PodKey, bool)>,
        now: Timestamp,
    ) -> Vec<Touched> {
        let mut touched = Vec::new();
        for (key, placed) in pods {
            if let Some(pod) = self.pods.get(&key)
                && self.waits.consider(&key, placed, now)
            {
                touched.push(Touched::Considered(clock::since(now, pod.created)));
            }
        }
        touched
    }

    /// When a pod last came to or went from a node, since we look.
    pub fn last_pod_event(&self, node: &str) -> Option<Timestamp> {
        self.pod_events.get(node).copied()
    }

    /// The machine that became a node.
    pub fn machine_of(&self, node: &str) -> Option<&Arc<MachineRecord>> {
        self.machines.get(self.machines_by_node.get(node)?)
    }

    /// A pool by its id.
    pub fn pool(&self, id: &str) -> Option<&Arc<PoolRecord>> {
        self.pools.iter().find(|pool| &**pool.id() == id)
    }

    /// A pool by its id, or as people call it.
    pub fn pool_called(&self, name: &str) -> Option<&Arc<PoolRecord>> {
        let called = || self.pools.iter().find(|pool| &**pool.name() == name);
        self.pool(name).or_else(called)
    }

    /// What people call a pool: its name, or its id if a pool of another family has the same name.
    pub fn title<'p>(&self, pool: &'p PoolRecord) -> &'p Name {
        let alike = |one: &Arc<PoolRecord>| one.key != pool.key && one.name() == pool.name();
        if self.pools.iter().any(alike) {
            pool.id()
        } else {
            pool.name()
        }
    }

    /// What people call the pool of a machine, also when the pool is gone; empty for a machine that stands alone.
    pub fn title_of(&self, machine: &MachineRecord) -> Name {
        let Some(id) = &machine.pool else {
            return Name::default();
        };
        let told = || machine.labels.get(labels::NODEPOOL).unwrap_or(id);
        let title = self.pool(id).map_or_else(told, |pool| self.title(pool));
        title.clone()
    }

    /// Whether a pool is managed: some families have objects that say which of them are.
    pub fn managed(&self, pool: &PoolRecord) -> bool {
        !pool.gated || self.gates.iter().any(|gate| gate.opens(&pool.key))
    }

    /// Why a pool neither launches nor removes machines, if so.
    pub fn held(&self, pool: &PoolRecord) -> Option<String> {
        if pool.paused {
            return Some("the pool is paused".to_owned());
        }
        (!self.managed(pool)).then(|| {
            format!(
                "the pool is not managed: nothing in namespace {} names it",
                pool.key.namespace
            )
        })
    }

    /// How many different pod specs there are.
    pub fn specs(&self) -> usize {
        self.specs.len()
    }

    fn mark<T>(&mut self, source: &str, event: &Event<T>) {
        let synced = match event {
            Event::Started => false,
            Event::Complete => true,
            _ => return,
        };
        self.sources.insert(source.to_owned(), synced);
    }

    /// Takes in what a dialect saw.
    pub(super) fn sight(
        &mut self,
        source: &str,
        sighting: Sighting,
        now: Timestamp,
    ) -> Vec<Touched> {
        let malformed = match &sighting {
            Sighting::Pool(Event::Malformed(one))
            | Sighting::Machine(Event::Malformed(one))
            | Sighting::Foreign(Event::Malformed(one))
            | Sighting::Class(Event::Malformed(one))
            | Sighting::Gate(Event::Malformed(one))
            | Sighting::Overlay(Event::Malformed(one))
            | Sighting::Buffer(Event::Malformed(one)) => Some(Touched::Malformed(one.uid.clone())),
            _ => None,
        };
        let mut touched: Vec<Touched> = malformed.into_iter().collect();
        touched.extend(match sighting {
            Sighting::Pool(event) => {
                self.mark(source, &event);
                self.take_pool(event, source, now)
            }
            Sighting::Machine(event) => {
                self.mark(source, &event);
                self.take_machine(event, source, now)
            }
            Sighting::Foreign(event) => {
                // Whether the list is complete is told with the machines of our own.
                let changes = take(&mut self.foreign, &mut self.unreadable, event, source, now);
                let gone = changes.iter().any(|one| one.after.is_none());
                // Pods that were left to it need another place.
                gone.then_some(Touched::Terms).into_iter().collect()
            }
            Sighting::Class(event) => {
                self.mark(source, &event);
                take(&mut self.classes, &mut self.unreadable, event, source, now)
                    .iter()
                    .filter_map(Change::any)
                    .map(|class| Touched::Class(class.key.clone()))
                    .collect()
            }
            Sighting::Gate(event) => {
                self.mark(source, &event);
                let changes = take(&mut self.gates, &mut self.unreadable, event, source, now);
                changes.iter().map(|_| Touched::Terms).collect()
            }
            Sighting::Overlay(event) => {
                self.mark(source, &event);
                let changes = take(&mut self.overlays, &mut self.unreadable, event, source, now);
                changes.iter().map(|_| Touched::Terms).collect()
            }
            Sighting::Buffer(event) => {
                self.mark(source, &event);
                let changes = take(&mut self.buffers, &mut self.unreadable, event, source, now);
                let buffers = &self.buffers;
                let before = self.rooms.len();
                self.rooms.retain(|key, _| buffers.get(key).is_some());
                let fewer = (self.rooms.len() < before).then_some(Touched::Terms);
                let touched = changes.iter().map(|_| Touched::Buffers);
                touched.chain(fewer).collect()
            }
        });
        touched
    }

    pub(super) fn take_pool(
        &mut self,
        event: Event<PoolRecord>,
        source: &str,
        now: Timestamp,
    ) -> Vec<Touched> {
        take(&mut self.pools, &mut self.unreadable, event, source, now)
            .iter()
            .filter_map(Change::any)
            .map(|pool| Touched::Pool(pool.id().clone()))
            .collect()
    }

    pub(super) fn take_machine(
        &mut self,
        event: Event<MachineRecord>,
        source: &str,
        now: Timestamp,
    ) -> Vec<Touched> {
        let mut touched = Vec::new();
        for change in take(&mut self.machines, &mut self.unreadable, event, source, now) {
            if let Some(node) = change
                .before
                .as_ref()
                .and_then(|one| one.status.node.as_ref())
            {
                self.machines_by_node.remove(node);
            }
            if let Some(after) = &change.after
                && let Some(node) = &after.status.node
            {
                self.machines_by_node
                    .insert(node.clone(), after.key.clone());
            }
            if let Some(machine) = change.any() {
                touched.push(Touched::Machine(machine.key.clone()));
                touched.extend(machine.pool.clone().map(Touched::Members));
            }
        }
        touched
    }

    pub(super) fn take_node(
        &mut self,
        event: Event<NodeRecord>,
        source: &str,
        now: Timestamp,
    ) -> Vec<Touched> {
        let mut touched = Vec::new();
        for change in take(&mut self.nodes, &mut self.unreadable, event, source, now) {
            let Some(node) = change.any() else { continue };
            if change.after.is_none() {
                self.pod_events.remove(&node.name);
            }
            // Heartbeats change nothing that anybody waits for.
            let same = matches!((&change.before, &change.after), (Some(before), Some(after))
                if **before == NodeRecord { version: before.version, ..(**after).clone() });
            if same {
                continue;
            }
            match self.machines_by_node.get(&node.name) {
                Some(machine) => touched.push(Touched::Machine(machine.clone())),
                None => touched.push(Touched::Node(node.name.clone())),
            }
        }
        touched
    }

    /// Takes in what a watch of the cluster's own kinds saw.
    pub(crate) fn observe(
        &mut self,
        source: &str,
        observation: Observation,
        now: Timestamp,
    ) -> Vec<Touched> {
        macro_rules! plain {
            ($store:ident, $event:expr, $touched:expr) => {{
                self.mark(source, &$event);
                let changes = take(&mut self.$store, &mut self.unreadable, $event, source, now);
                changes.iter().flat_map($touched).collect()
            }};
        }
        match observation {
            Observation::Pod(event) => {
                self.mark(source, &event);
                let event = self.trim(event);
                self.take_pod(event, source, now)
            }
            Observation::Node(event) => {
                self.mark(source, &event);
                self.take_node(event, source, now)
            }
            Observation::DaemonSet(event) => plain!(daemon_sets, event, |_| [Touched::Terms]),
            Observation::Budget(event) => plain!(budgets, event, |_| []),
            Observation::Namespace(event) => plain!(namespaces, event, |_| []),
            Observation::Claim(event) => plain!(claims, event, |_| []),
            Observation::Volume(event) => plain!(volumes, event, |_| []),
            Observation::StorageClass(event) => plain!(storage_classes, event, |_| []),
            Observation::CsiNode(event) => plain!(csi_nodes, event, |_| []),
            Observation::Attachment(event) => {
                self.mark(source, &event);
                let changes = take(
                    &mut self.attachments,
                    &mut self.unreadable,
                    event,
                    source,
                    now,
                );
                let nodes = changes
                    .iter()
                    .filter_map(Change::any)
                    .map(|one| &one.value.node);
                nodes
                    .filter_map(|node| self.machines_by_node.get(node))
                    .map(|machine| Touched::Machine(machine.clone()))
                    .collect()
            }
        }
    }

    fn trim(&mut self, event: Event<Box<k8s_openapi::api::core::v1::Pod>>) -> Event<PodRecord> {
        let mut trim = |pod: Box<_>| lower_pod(*pod, &mut self.specs);
        match event {
            Event::Started => Event::Started,
            Event::Complete => Event::Complete,
            Event::Listed(pod) => Event::Listed(trim(pod)),
            Event::Changed(pod) => Event::Changed(trim(pod)),
            Event::Gone(pod) => Event::Gone(trim(pod)),
            Event::Malformed(malformed) => Event::Malformed(malformed),
        }
    }

    fn take_pod(&mut self, event: Event<PodRecord>, source: &str, now: Timestamp) -> Vec<Touched> {
        let listed = matches!(event, Event::Listed(_));
        let mut touched = Vec::new();
        for change in take(&mut self.pods, &mut self.unreadable, event, source, now) {
            if let Some(before) = &change.before
                && let Some(node) = &before.node
                && let Some(keys) = self.pods_by_node.get_mut(node)
            {
                keys.remove(&before.key);
                if keys.is_empty() {
                    self.pods_by_node.remove(node);
                }
            }
            if let Some(after) = &change.after
                && let Some(node) = &after.node
            {
                self.pods_by_node
                    .entry(node.clone())
                    .or_default()
                    .insert(after.key.clone());
            }
            let (before, after) = (change.before.as_deref(), change.after.as_deref());
            touched.extend(self.waits.follow(before, after, now));
            let Some(pod) = change.any() else { continue };
            touched.extend(pending(&change).map(Touched::Pending));
            if let Some(node) = &pod.node {
                if moved(&change) {
                    // A list tells what is, not when it came to be: the pod's own times have to do.
                    let when = if listed { pod.created } else { now };
                    let last = self.pod_events.entry(node.clone()).or_insert(when);
                    *last = when.max(*last);
                }
                match self.machines_by_node.get(node) {
                    Some(machine) => touched.push(Touched::Guest(machine.clone())),
                    None => touched.push(Touched::Room),
                }
            }
        }
        touched
    }
}

/// What a change says of a pod that waits.
fn pending(change: &Change<PodRecord>) -> Option<Pending> {
    let pod = change.after.as_ref().filter(|pod| pod.waits())?;
    let waited = change.before.as_ref().is_some_and(|pod| pod.waits());
    match (pod.unschedulable, waited) {
        (false, false) => Some(Pending::Untried),
        (false, true) => None,
        (true, false) => Some(Pending::Tried),
        (true, true) => Some(Pending::Known),
    }
}

/// Whether a pod that is no daemon came to its node, ended there, or began to leave.
fn moved(change: &Change<PodRecord>) -> bool {
    let away = |pod: &PodRecord| pod.terminal || pod.deleting.is_some();
    let daemon = |pod: &PodRecord| pod.owner == super::pods::Owner::DaemonSet;
    match (&change.before, &change.after) {
        (_, Some(after)) if daemon(after) => false,
        (Some(before), Some(after)) => before.node != after.node || away(before) != away(after),
        (None, Some(_)) => true,
        (Some(before), None) => !daemon(before) && !away(before),
        (None, None) => false,
    }
}
