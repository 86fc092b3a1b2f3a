//! The view as a problem to be decided.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::labels;
use joiner_core::money::Money;
use joiner_core::name::{Labels, Name};
use joiner_core::problem::{
    Budget, BudgetAmount, Catalog, DaemonSet, DisruptionReason, Node, NodePhase, Pod, PodSpec,
    Pool, Problem, Settings,
};
use joiner_core::taints::{Effect, Taint};

use super::World;
use super::departing::Departing;
use super::nodes::{NodeRecord, RESERVED};
use super::overlooked::Overlooked;
use super::pods::{DISRUPTED, Owner, PodKey, PodRecord};
use crate::edge::clock;
use crate::guards::limits;
use crate::lifecycle::UNREGISTERED;
use crate::record::{Key, MachineRecord, annotations, kinds};

/// How long a machine of another controller is waited for: Karpenter gives one up after a quarter of an hour.
const FOREIGN_DUE: Duration = Duration::from_mins(20);

/// What a problem depends on beside the view.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// What is for sale, by catalogue name; overlays and back-off applied.
    pub catalogs: BTreeMap<Name, Arc<Catalog>>,
    /// The catalogue of a pool where it differs from that of its class.
    pub pool_catalogs: BTreeMap<Name, Name>,
    /// Why a pool must not buy now.
    pub closed: BTreeMap<Name, String>,
    /// Room to be kept free: pods that are not there, and how many.
    pub buffers: Vec<(Name, Arc<PodSpec>, u32)>,
    /// Pods that are on their way to a machine, by identity: bought for them, or with room for what leaves a node.
    pub promises: BTreeMap<Name, Key>,
    /// The node that we run on: whoever takes it away takes away the one that would finish the job.
    pub own_node: Option<Name>,
    /// How to decide.
    pub settings: Settings,
    /// Whether spot nodes may be replaced by cheaper spot nodes in every pool.
    pub spot_to_spot: bool,
    /// Whether pods that are about to end leave their room to pods that wait. Not when it is decided what may go: pods
    /// must not be moved to where there is no room yet.
    pub departures: bool,
}

/// A problem, and which objects it is about.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The problem.
    pub problem: Problem,
    /// The pod behind each waiting pod of the problem; `None` for room that is kept free.
    pub pending: Vec<Option<PodKey>>,
    /// The machine behind each node of the problem, by name.
    pub machines: BTreeMap<Name, Key>,
    /// Pods that are left out, and why.
    pub ignored: Vec<(PodKey, String)>,
}

impl World {
    /// The problem as it stands.
    pub fn problem(&self, terms: &Terms, now: Timestamp) -> Snapshot {
        let mut snapshot = Snapshot::default();
        let coming = self.add_pods(terms, now, &mut snapshot);
        self.add_nodes(terms, now, coming, &mut snapshot);
        let problem = &mut snapshot.problem;
        problem.now = Some(now);
        problem.catalogs = terms.catalogs.values().map(|one| (**one).clone()).collect();
        problem.settings = terms.settings.clone();
        for record in self.pools.iter().filter(|pool| !pool.deleting) {
            let mut pool = record.pool.clone();
            pool.catalog = terms
                .pool_catalogs
                .get(record.id())
                .cloned()
                .unwrap_or_else(|| record.class.catalog());
            pool.limits = limits::for_plans(self, &pool, &problem.nodes);
            pool.closed = terms.closed.get(record.id()).cloned();
            pool.disruption.spot_to_spot |= terms.spot_to_spot;
            keep_up(&mut pool, record.min_nodes, &problem.nodes);
            problem.pools.push(pool);
        }
        problem.daemon_sets = self.live_daemon_sets();
        problem.pod_disruption_budgets = self.budgets.iter().map(|one| one.value.clone()).collect();
        problem.namespaces = self
            .namespaces
            .iter()
            .map(|one| (one.key.name.clone(), one.value.clone()))
            .collect();
        snapshot
    }

    /// Daemon sets as their pods really are: limit ranges, webhooks and vertical autoscalers make them larger than
    /// the template says. The newest pod of each set tells.
    ///
    /// karpenter: pkg/controllers/state/cluster.go, `UpdateDaemonSet`
    fn live_daemon_sets(&self) -> Vec<DaemonSet> {
        let mut newest: BTreeMap<&Name, &PodRecord> = BTreeMap::new();
        let live = |pod: &&Arc<PodRecord>| !pod.terminal && pod.deleting.is_none();
        for pod in self.pods.iter().filter(live) {
            let Some(set) = &pod.daemon_set else { continue };
            let known = newest.entry(set).or_insert(pod);
            if (pod.created, &pod.key.name) > (known.created, &known.key.name) {
                *known = pod;
            }
        }
        let sets = self.daemon_sets.iter().filter_map(|set| set.value.clone());
        sets.map(|mut set| {
            if let Some(pod) = newest.get(&set.name)
                && set.spec.requests != pod.spec.requests
            {
                Arc::make_mut(&mut set.spec).requests = pod.spec.requests.clone();
            }
            set
        })
        .collect()
    }

    /// Adds the pods that wait. Returns those that need not, by the machine that was bought for them.
    fn add_pods(
        &self,
        terms: &Terms,
        now: Timestamp,
        snapshot: &mut Snapshot,
    ) -> BTreeMap<Key, Vec<&PodRecord>> {
        let overlooked = Overlooked::new(self, now);
        let mut coming: BTreeMap<Key, Vec<&PodRecord>> = BTreeMap::new();
        for record in self.pods.iter() {
            if let Some(machine) = self.destination(record, terms) {
                coming.entry(machine.clone()).or_default().push(record);
                continue;
            }
            if !record.provisionable() && !overlooked.holds(record) {
                continue;
            }
            if record.resource_claims {
                let reason = "it asks for devices by resource claim, which no pool can promise";
                snapshot
                    .ignored
                    .push((record.key.clone(), reason.to_owned()));
                continue;
            }
            match self.volumes(&record.key.namespace, &record.claims) {
                Ok(volumes) => {
                    let mut pod = lower(record, Timestamp::UNIX_EPOCH);
                    if !volumes.is_empty() {
                        Arc::make_mut(&mut pod.spec).volumes = volumes;
                    }
                    snapshot.problem.pods.push(pod);
                    snapshot.pending.push(Some(record.key.clone()));
                }
                Err(reason) => snapshot.ignored.push((record.key.clone(), reason)),
            }
        }
        for (name, spec, count) in &terms.buffers {
            snapshot.problem.pods.push(Pod {
                name: name.clone(),
                count: *count,
                spec: spec.clone(),
                ..Pod::default()
            });
            snapshot.pending.push(None);
        }
        coming
    }

    /// The machine that a pod is on its way to.
    fn destination<'t>(&self, pod: &PodRecord, terms: &'t Terms) -> Option<&'t Key> {
        let key = terms.promises.get(&pod.uid)?;
        let machine = self.machines.get(key)?;
        let stays = machine.deleting.is_none() && machine.intent().is_none();
        let goes = match &pod.node {
            None => pod.waits(),
            Some(node) => {
                let own = self.nodes.get(node);
                pod.active() && own.is_some_and(|node| self.leaves(node))
            }
        };
        (stays && goes).then_some(key)
    }

    /// Whether a node is on its way out.
    fn leaves(&self, node: &NodeRecord) -> bool {
        let machine = self.machine_of(&node.name);
        node.deleting
            || node.tainted(DISRUPTED, Effect::NoSchedule)
            || machine.is_some_and(|one| one.deleting.is_some() || one.intent().is_some())
    }

    /// Nodes that are on their way out.
    pub(crate) fn leaving(&self) -> impl Iterator<Item = &Name> {
        let leaving = self.nodes.iter().filter(|node| self.leaves(node));
        leaving.map(|node| &node.name)
    }

    fn add_nodes(
        &self,
        terms: &Terms,
        now: Timestamp,
        mut coming: BTreeMap<Key, Vec<&PodRecord>>,
        snapshot: &mut Snapshot,
    ) {
        let mut coming_to = |machine: &MachineRecord| {
            let pods = coming.remove(&machine.key).unwrap_or_default();
            let pods = pods.into_iter().map(|pod| self.bound(pod, now));
            pods.collect::<Vec<Pod>>()
        };
        let waiting: Vec<&Arc<MachineRecord>> = self
            .machines
            .iter()
            .filter(|machine| !machine.registered())
            .collect();
        // A node that has joined and is not registered yet is the same machine that is on its way: it counts once.
        let joined: BTreeSet<&Name> = waiting
            .iter()
            .filter_map(|machine| machine.status.provider_id.as_ref())
            .chain(waiting.iter().map(|machine| &machine.key.name))
            .collect();
        let departing = terms.departures.then(|| Departing::new(self, now));
        let leaves_room = |pod: &PodRecord, node: &NodeRecord| {
            let departing = departing.as_ref();
            departing.is_some_and(|departing| departing.leaves_room(pod, node))
        };
        for node in self.nodes.iter() {
            let machine = self.machine_of(&node.name);
            if machine.is_none()
                && (joined.contains(&node.provider_id) || joined.contains(&node.name))
            {
                continue;
            }
            // karpenter: a node whose machine is being stopped is empty and counts no more, not against budgets either.
            let stopping = |one: &MachineRecord| {
                one.deleting.is_some() && one.status.conditions.is_true(kinds::INSTANCE_TERMINATING)
            };
            if machine.is_some_and(|one| stopping(one)) {
                continue;
            }
            if let Some(machine) = machine {
                snapshot
                    .machines
                    .insert(node.name.clone(), machine.key.clone());
            }
            let pods = self
                .pods_on(&node.name)
                .filter(|pod| !pod.terminal && self.destination(pod, terms).is_none())
                .filter(|pod| !leaves_room(pod, node));
            let pods = pods.map(|pod| self.bound(pod, now)).collect();
            let mut lowered = self.lower_node(node, machine.map(AsRef::as_ref), terms, now);
            lowered.pods = pods;
            if let Some(foreign) = self.foreign_of(node, now) {
                starting(&mut lowered, foreign);
            }
            if let Some(machine) = machine {
                let coming = coming_to(machine);
                lowered.nominated |= !coming.is_empty();
                lowered.pods.extend(coming);
            }
            snapshot.problem.nodes.push(lowered);
        }
        for machine in self.foreign_on_the_way(now) {
            snapshot.problem.nodes.push(foreign(machine, terms));
        }
        for machine in waiting {
            let name: Name = machine.key.to_string().into();
            snapshot.machines.insert(name.clone(), machine.key.clone());
            let mut node = in_flight(machine, name, terms);
            node.pods = coming_to(machine);
            snapshot.problem.nodes.push(node);
        }
    }

    /// Machines of other controllers that are to become nodes. One that is overdue is not counted on.
    fn foreign_on_the_way(&self, now: Timestamp) -> impl Iterator<Item = &Arc<MachineRecord>> {
        let comes = move |one: &&Arc<MachineRecord>| {
            let node = |node: &Arc<NodeRecord>| is_node(one, node);
            expected(one, now) && !self.nodes.iter().any(node)
        };
        self.foreign.iter().filter(comes)
    }

    /// How long it is until the next machine of another controller is overdue and not counted on any more.
    pub fn foreign_overdue(&self, now: Timestamp) -> Option<Duration> {
        let left =
            |one: &Arc<MachineRecord>| FOREIGN_DUE.saturating_sub(clock::since(now, one.created));
        self.foreign
            .iter()
            .filter(|one| expected(one, now))
            .map(left)
            .min()
    }

    /// The machine of another controller that this node has become and that is not in use yet.
    fn foreign_of(&self, node: &NodeRecord, now: Timestamp) -> Option<&Arc<MachineRecord>> {
        let mut starting = self.foreign.iter().filter(|one| expected(one, now));
        starting.find(|one| is_node(one, node))
    }

    fn bound(&self, record: &PodRecord, now: Timestamp) -> Pod {
        let mut pod = lower(record, now);
        if !record.claims.is_empty()
            && let Ok(volumes) = self.volumes(&record.key.namespace, &record.claims)
        {
            Arc::make_mut(&mut pod.spec).volumes = volumes;
        }
        pod
    }

    /// Within the window before it expires, a machine is replaced like one that has drifted: within budgets, and with
    /// its replacement ready first.
    fn expires_soon(&self, machine: &MachineRecord, now: Timestamp) -> Option<String> {
        let window = self.pool(machine.pool.as_ref()?)?.expiry_window;
        let end = machine.created.checked_add(machine.expire_after?).ok()?;
        (window.is_positive() && end.checked_sub(window).ok()? <= now)
            .then(|| format!("expires at {end}"))
    }

    fn lower_node(
        &self,
        node: &NodeRecord,
        machine: Option<&MachineRecord>,
        terms: &Terms,
        now: Timestamp,
    ) -> Node {
        let initialized = machine.is_none_or(MachineRecord::initialized);
        let deleting = self.leaves(node);
        let mut taints = node.taints.clone();
        // Kept for pods that are about to move, or for whoever waits.
        taints.retain(|taint| &*taint.key != RESERVED);
        let mut allocatable = node.allocatable.clone();
        let mut capacity = node.capacity.clone();
        if let Some(machine) = machine
            && !initialized
        {
            // Device plugins report late: until then what was bought counts.
            fill(&mut allocatable, machine.allocatable());
            fill(&mut capacity, machine.capacity());
        }
        let last_pod_event = machine.and_then(|machine| {
            [
                self.last_pod_event(&node.name),
                machine.status.last_pod_event,
                machine.status.conditions.true_since(kinds::INITIALIZED),
            ]
            .into_iter()
            .flatten()
            .max()
        });
        // Node affinity can ask for the name as for a label.
        let mut own = node.labels.clone();
        own.insert(labels::NAME_FIELD.into(), node.name.clone());
        // For people only: no pod asks for it, and it would tell nodes apart that are alike.
        own.remove(annotations::INSTANCE_PRICE);
        let label = |key: &str| node.labels.get(key).cloned().unwrap_or_else(|| "".into());
        let limits = self.csi_nodes.get(&PodKey {
            namespace: "".into(),
            name: node.name.clone(),
        });
        Node {
            name: node.name.clone(),
            pool: machine.and_then(|machine| machine.pool.clone()),
            phase: if initialized {
                NodePhase::Ready
            } else {
                NodePhase::Starting
            },
            labels: own,
            taints,
            startup_taints: machine
                .map(|machine| machine.startup_taints.clone())
                .unwrap_or_default(),
            capacity,
            allocatable,
            pods: Vec::new(),
            // Some clouds write a word of their own over the label; what was bought stands on the machine object.
            instance_type: machine
                .and_then(|machine| machine.labels.get(labels::INSTANCE_TYPE).cloned())
                .unwrap_or_else(|| label(labels::INSTANCE_TYPE)),
            capacity_type: label(labels::CAPACITY_TYPE).parse().unwrap_or_default(),
            price: machine.and_then(|machine| price(machine, terms)),
            created: Some(machine.map_or(node.created, |machine| machine.created)),
            last_pod_event,
            drifted: machine
                .and_then(|machine| drifted(machine).or_else(|| self.expires_soon(machine, now))),
            deleting,
            reclaimed: machine.is_some_and(MachineRecord::interrupted),
            do_not_disrupt: node.do_not_disrupt
                || terms.own_node.as_ref() == Some(&node.name)
                || machine.is_some_and(do_not_disrupt),
            nominated: node.reserved()
                || self
                    .nominations
                    .get(&node.name)
                    .is_some_and(|until| *until > now),
            unready: !node.ready(),
            volume_limits: limits.map(|one| one.value.clone()).unwrap_or_default(),
        }
    }
}

/// A pool that must keep so many nodes lets no more go than it has beyond that.
fn keep_up(pool: &mut Pool, min_nodes: u32, nodes: &[Node]) {
    if min_nodes == 0 {
        return;
    }
    let own =
        |node: &&Node| node.pool.as_ref() == Some(&pool.name) && node.phase == NodePhase::Ready;
    let own = u32::try_from(nodes.iter().filter(own).count()).unwrap_or(u32::MAX);
    pool.disruption.budgets.push(Budget {
        amount: BudgetAmount::Nodes(own.saturating_sub(min_nodes)),
        reasons: vec![DisruptionReason::Empty, DisruptionReason::Underutilized],
        schedule: None,
        duration: None,
    });
}

fn do_not_disrupt(machine: &MachineRecord) -> bool {
    machine
        .annotations
        .get(annotations::DO_NOT_DISRUPT)
        .is_some_and(|text| &**text == "true")
}

fn drifted(machine: &MachineRecord) -> Option<String> {
    let condition = machine.status.conditions.get(kinds::DRIFTED)?;
    machine
        .status
        .conditions
        .is_true(kinds::DRIFTED)
        .then(|| match condition.message.as_str() {
            "" => condition.reason.to_string(),
            message => message.to_owned(),
        })
}

/// Whether a machine of another controller may still be waited for.
fn expected(machine: &MachineRecord, now: Timestamp) -> bool {
    machine.deleting.is_none()
        && !machine.initialized()
        && clock::since(now, machine.created) < FOREIGN_DUE
}

fn is_node(machine: &MachineRecord, node: &NodeRecord) -> bool {
    let status = &machine.status;
    status.node.as_ref() == Some(&node.name)
        || status
            .provider_id
            .as_ref()
            .is_some_and(|id| !id.is_empty() && *id == node.provider_id)
}

/// A machine of another controller as a node to come: pods that fit there are not planned for. It belongs to no pool
/// here, so that nothing is ever done to it.
fn foreign(machine: &MachineRecord, terms: &Terms) -> Node {
    let name = format!("{} of another controller", machine.key);
    Node {
        pool: None,
        price: None,
        do_not_disrupt: true,
        ..in_flight(machine, name.into(), terms)
    }
}

/// A node that another controller is about to take into use: its startup taints will go.
fn starting(node: &mut Node, machine: &MachineRecord) {
    node.phase = NodePhase::Starting;
    node.startup_taints.clone_from(&machine.startup_taints);
    node.startup_taints.push(Taint {
        key: UNREGISTERED.into(),
        value: "".into(),
        effect: Effect::NoExecute,
    });
    fill(&mut node.allocatable, machine.allocatable());
    fill(&mut node.capacity, machine.capacity());
}

fn in_flight(machine: &MachineRecord, name: Name, terms: &Terms) -> Node {
    let mut labels = machine.labels.clone();
    if let Some(offer) = machine.offer() {
        for (key, value) in &offer.labels {
            labels.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    let label = |labels: &Labels, key: &str| labels.get(key).cloned().unwrap_or_else(|| "".into());
    Node {
        name,
        pool: machine.pool.clone(),
        phase: NodePhase::InFlight,
        instance_type: label(&labels, labels::INSTANCE_TYPE),
        capacity_type: label(&labels, labels::CAPACITY_TYPE)
            .parse()
            .unwrap_or_default(),
        labels,
        taints: machine.taints.clone(),
        startup_taints: machine.startup_taints.clone(),
        capacity: machine.capacity().clone(),
        allocatable: machine.allocatable().clone(),
        price: price(machine, terms),
        created: Some(machine.created),
        deleting: machine.deleting.is_some(),
        do_not_disrupt: do_not_disrupt(machine),
        ..Node::default()
    }
}

fn fill(
    known: &mut joiner_core::resources::Resources,
    promised: &joiner_core::resources::Resources,
) {
    for (name, amount) in promised.iter() {
        if known.get(name) == 0 {
            known.set(name, amount);
        }
    }
}

/// What a machine costs now: as its catalogue says, else as was agreed.
pub(crate) fn price(machine: &MachineRecord, terms: &Terms) -> Option<Money> {
    let name = machine
        .pool
        .as_ref()
        .and_then(|pool| terms.pool_catalogs.get(pool))
        .cloned()
        .unwrap_or_else(|| machine.class.catalog());
    listed_price(machine, terms.catalogs.get(&name).map(AsRef::as_ref))
}

/// The same by one catalogue.
pub(crate) fn listed_price(machine: &MachineRecord, catalog: Option<&Catalog>) -> Option<Money> {
    let label = |key: &str| {
        machine
            .labels
            .get(key)
            .map(AsRef::as_ref)
            .unwrap_or_default()
    };
    let listed = catalog.and_then(|catalog| {
        let own = catalog
            .types
            .iter()
            .find(|one| &*one.name == label(labels::INSTANCE_TYPE))?;
        let offering = own.offerings.iter().find(|one| {
            let capacity_type: &str = one.capacity_type.into();
            &*one.zone == label(labels::ZONE) && capacity_type == label(labels::CAPACITY_TYPE)
        })?;
        Some(offering.price)
    });
    listed
        .or(machine.status.price)
        .or_else(|| machine.offer().map(|offer| offer.purchase.price))
}

fn lower(record: &PodRecord, now: Timestamp) -> Pod {
    Pod {
        name: record.key.to_string().into(),
        count: 1,
        spec: record.spec.clone(),
        created: Some(record.created),
        deletion_cost: record.deletion_cost,
        do_not_disrupt: record.active() && record.do_not_disrupt.active(now),
        daemon: record.owner == Owner::DaemonSet,
        unready: record.unready,
        stays_behind: !record.reschedulable(),
        ending: record.deleting.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::Observation;
    use crate::view::pods::daemon_set;
    use crate::view::samples::{at, bound, seen};
    use crate::view::volumes::named;
    use joiner_core::resources::CPU;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    /// A pod of the daemon set, as large as whoever admitted it made it.
    fn daemon(name: &str, second: i64, cpu: &str) -> Pod {
        let mut pod = bound(name, &json!([]));
        pod.metadata.creation_timestamp =
            serde_json::from_value(json!(at(second).to_string())).unwrap();
        pod.metadata.owner_references = serde_json::from_value(json!([
            {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "agent"}
        ]))
        .unwrap();
        pod.spec = serde_json::from_value(json!({"nodeName": "node", "containers": [
            {"name": "main", "resources": {"requests": {"cpu": cpu}}}
        ]}))
        .unwrap();
        pod
    }

    #[test]
    fn a_daemon_set_is_as_large_as_its_newest_pod() {
        let mut world = World::default();
        let set: k8s_openapi::api::apps::v1::DaemonSet = serde_json::from_value(json!({
            "metadata": {"namespace": "default", "name": "agent", "uid": "agent"},
            "spec": {"selector": {}, "template": {"spec": {"containers": [
                {"name": "main", "resources": {"requests": {"cpu": "100m"}}}
            ]}}},
        }))
        .unwrap();
        let known = named(&set, daemon_set(&set));
        let event = crate::dialect::Event::Changed(known);
        world.observe("daemonsets", Observation::DaemonSet(event), at(0));
        let cores = |world: &World| world.live_daemon_sets()[0].spec.requests.get(CPU);
        assert_eq!(cores(&world), 100);
        world.observe("pods", seen(daemon("old", 1, "1")), at(1));
        world.observe("pods", seen(daemon("new", 2, "2")), at(2));
        assert_eq!(cores(&world), 2000);
    }
}
