//! The truth: objects and machines as they are, followed change by change.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Deref;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use joiner_providers::{Machine, MachineId, NodeLink, Uid};
use serde_json::Value;

use super::family::{Family, Terms};
use super::journal::subject;
use super::records::Records;
use crate::clouds::watched::{CloudEvent, GroupEvent};
use joiner_embedded::api::{ChangeKind, Commit};
use joiner_embedded::cluster::fields::Fields as _;

/// The annotation in which a disruption under way stands.
pub(super) const INTENT: &str = "joiner.dev/disruption";
/// When a drain's time is up.
pub(super) const DEADLINE: &str = "karpenter.sh/nodeclaim-termination-timestamp";
/// The taint of a node that is to go.
const DISRUPTED: &str = "karpenter.sh/disrupted";
/// Who looks after a node or a machine object: the cluster's identity, a dot, the family.
pub(super) const MANAGED_BY: &str = "joiner.dev/managed-by";
/// On a node: UID of the machine object that it belongs to.
pub(super) const MACHINE_UID: &str = "joiner.dev/machine-uid";
/// Pods and nodes that bear it are left alone.
pub(super) const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// What the embedded controllers have not taken in yet is at most so old.
const NEWS: SignedDuration = SignedDuration::from_secs(2);
/// How long a decision may lie back that a change carries out.
const DECISION: SignedDuration = SignedDuration::from_mins(2);

/// A family, and the key of an object of its.
pub(super) type Id = (&'static str, String);

/// A machine object.
#[derive(Debug, Clone)]
pub(super) struct Claim {
    pub(super) family: &'static Family,
    object: Arc<Value>,
}

impl Deref for Claim {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.object
    }
}

impl Claim {
    pub(super) fn new(family: &'static Family, object: &Arc<Value>) -> Self {
        Claim {
            family,
            object: object.clone(),
        }
    }

    /// The pool that it belongs to.
    pub(super) fn pool(&self) -> Id {
        (self.family.name, (self.family.pool)(&self.object))
    }

    /// How the journal calls it.
    pub(super) fn subject(&self) -> String {
        subject(self.family.machines, &key(&self.object))
    }
}

/// A pool.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) name: String,
    pub(super) terms: Terms,
    object: Arc<Value>,
}

impl Deref for Pool {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.object
    }
}

/// A machine at a cloud.
#[derive(Debug)]
pub(super) struct Bought {
    pub(super) machine: Machine,
    pub(super) stopping: bool,
    /// The cloud has said that it will take it back.
    pub(super) announced: bool,
    /// The cloud has taken it back; its order is still on record.
    pub(super) taken: bool,
}

#[derive(Debug, Default)]
pub(super) struct Ledger {
    families: Vec<&'static Family>,
    pub(super) claims: BTreeMap<Id, Claim>,
    pub(super) nodes: BTreeMap<String, Arc<Value>>,
    pub(super) pools: BTreeMap<Id, Pool>,
    pub(super) budgets: BTreeMap<String, Arc<Value>>,
    pub(super) daemons: BTreeMap<String, Arc<Value>>,
    pub(super) pods: BTreeMap<String, Arc<Value>>,
    pub(super) volume_claims: BTreeMap<String, Arc<Value>>,
    pub(super) volumes: BTreeMap<String, Arc<Value>>,
    on_node: BTreeMap<String, BTreeSet<String>>,
    pub(super) machines: BTreeMap<MachineId, Bought>,
    /// Pods that were well until a moment ago: budgets may not know yet.
    lost: VecDeque<(Timestamp, Arc<Value>)>,
    /// Machine objects that went a short while ago, by pool.
    went: VecDeque<(Timestamp, Id)>,
    /// When pods were bound.
    bound: BTreeMap<String, Timestamp>,
    pub(super) bought: u64,
    /// What leads from a node to every machine that was ever bought for an object: the node may outlive it.
    links: BTreeMap<String, (MachineId, String)>,
    /// Labels among these.
    link_labels: BTreeSet<String>,
    /// Whose the machines are that bear no marks.
    pub(super) records: Records,
}

impl Ledger {
    /// Nothing yet, of these families.
    pub(super) fn new(families: Vec<&'static Family>) -> Self {
        Ledger {
            families,
            ..Self::default()
        }
    }

    /// The family whose machine objects these are.
    pub(super) fn of_machines(&self, resource: &str) -> Option<&'static Family> {
        let mut all = self.families.iter().copied();
        all.find(|one| one.machines == resource)
    }

    /// The family whose pools these are.
    pub(super) fn of_pools(&self, resource: &str) -> Option<&'static Family> {
        let mut all = self.families.iter().copied();
        all.find(|one| one.pools == resource)
    }

    pub(super) fn commit(&mut self, commit: &Commit<'_>) {
        if let Some(family) = self.of_machines(commit.resource) {
            let claim = Claim::new(family, commit.object);
            let id = (family.name, commit.key.to_owned());
            if commit.kind == ChangeKind::Deleted {
                self.went.push_back((commit.at, claim.pool()));
                self.claims.remove(&id);
            } else {
                self.claims.insert(id, claim);
            }
        }
        if let Some(family) = self.of_pools(commit.resource) {
            let id = (family.name, commit.key.to_owned());
            if commit.kind == ChangeKind::Deleted {
                self.pools.remove(&id);
            } else {
                let pool = Pool {
                    name: commit.key.to_owned(),
                    terms: (family.terms)(commit.object),
                    object: commit.object.clone(),
                };
                self.pools.insert(id, pool);
            }
        }
        match commit.resource {
            "pods" => self.pod(commit),
            "nodes" => put(&mut self.nodes, commit),
            "poddisruptionbudgets.policy" => put(&mut self.budgets, commit),
            "daemonsets.apps" => put(&mut self.daemons, commit),
            "configmaps" => self.record(commit),
            "persistentvolumeclaims" => put(&mut self.volume_claims, commit),
            "persistentvolumes" => put(&mut self.volumes, commit),
            _ => {}
        }
        prune(&mut self.lost, commit.at, NEWS);
        prune(&mut self.went, commit.at, DECISION);
    }

    fn pod(&mut self, commit: &Commit<'_>) {
        let before = commit.previous.filter(|pod| healthy(pod));
        if let Some(before) = before
            && (commit.kind == ChangeKind::Deleted || !healthy(commit.object))
        {
            self.lost.push_back((commit.at, before.clone()));
        }
        let node = commit.object.text(&["spec", "nodeName"]);
        if commit.kind == ChangeKind::Deleted {
            self.bound.remove(commit.key);
            if let Some(pods) = self.on_node.get_mut(node) {
                pods.remove(commit.key);
            }
        } else if !node.is_empty() {
            self.bound.entry(commit.key.to_owned()).or_insert(commit.at);
            self.on_node
                .entry(node.to_owned())
                .or_default()
                .insert(commit.key.to_owned());
        }
        put(&mut self.pods, commit);
    }

    /// A machine that bears no mark belongs to a machine object as soon as that is on record.
    fn record(&mut self, commit: &Commit<'_>) {
        let Some(order) = self.records.commit(commit) else {
            return;
        };
        let machine = order.record.machine.as_ref();
        let Some(bought) = machine.and_then(|id| self.machines.get_mut(id)) else {
            return;
        };
        bought.machine.uid = Some(Uid(order.uid.as_str().into()));
        let machine = bought.machine.clone();
        self.link(&machine);
    }

    fn bought(&mut self, machine: &Machine) {
        self.bought += 1;
        self.link(machine);
        let bought = Bought {
            machine: machine.clone(),
            stopping: false,
            announced: false,
            taken: false,
        };
        self.machines.insert(machine.id.clone(), bought);
    }

    pub(super) fn event(&mut self, event: &CloudEvent) {
        match event {
            CloudEvent::Launched(machine) => self.bought(machine),
            CloudEvent::Group(group, event) => {
                self.records.event(group, event);
                if let GroupEvent::Added(machine) = event {
                    self.bought(machine);
                }
            }
            CloudEvent::Booted(_) => {}
            CloudEvent::Announced(id) => {
                if let Some(bought) = self.machines.get_mut(id) {
                    bought.announced = true;
                }
            }
            CloudEvent::Taken(id) => {
                if let Some(bought) = self.machines.get_mut(id) {
                    bought.taken = true;
                }
            }
            CloudEvent::Terminating(id) => {
                if let Some(bought) = self.machines.get_mut(id) {
                    bought.stopping = true;
                }
            }
            CloudEvent::Gone { id, .. } => {
                self.machines.remove(id);
                self.records.gone(id);
            }
        }
    }

    /// Notes what leads from a node to a machine that was bought for an object.
    fn link(&mut self, machine: &Machine) {
        let Some(uid) = &machine.uid else {
            return;
        };
        for link in &machine.links {
            let text = match link {
                NodeLink::ProviderId(id) => format!("id {id}"),
                NodeLink::SystemUuid(uuid) => format!("uuid {}", uuid.to_lowercase()),
                NodeLink::Name(name) => format!("name {name}"),
                NodeLink::Label { key, value } => {
                    self.link_labels.insert(key.to_string());
                    format!("label {key}={value}")
                }
            };
            self.links
                .insert(text, (machine.id.clone(), uid.0.to_string()));
        }
    }

    /// The machine that a node grew out of and the UID that it was bought for, be they gone by now.
    fn origin(&self, node: &Value) -> Option<&(MachineId, String)> {
        let uuid = node.text(&["status", "nodeInfo", "systemUUID"]);
        let fixed = [
            format!("id {}", node.text(&["spec", "providerID"])),
            format!("uuid {}", uuid.to_lowercase()),
            format!("name {}", node.name()),
        ];
        let label = |key: &String| Some(format!("label {key}={}", node.label(key)?));
        let labels = self.link_labels.iter().filter_map(label);
        let mut all = fixed.into_iter().chain(labels);
        all.find_map(|text| self.links.get(&text))
    }

    /// Pods on a node.
    pub(super) fn pods_on(&self, node: &str) -> impl Iterator<Item = (&String, &Arc<Value>)> {
        self.on_node
            .get(node)
            .into_iter()
            .flatten()
            .filter_map(|key| self.pods.get_key_value(key))
    }

    /// When a pod was bound to its node.
    pub(super) fn bound(&self, pod: &str) -> Option<Timestamp> {
        self.bound.get(pod).copied()
    }

    /// The machine object with this UID.
    pub(super) fn claim_by_uid(&self, uid: &str) -> Option<&Claim> {
        self.claims.values().find(|claim| claim.uid() == uid)
    }

    /// Machine objects of a pool.
    pub(super) fn claims_of<'a>(&'a self, pool: &'a Id) -> impl Iterator<Item = &'a Claim> {
        self.claims.values().filter(move |one| one.pool() == *pool)
    }

    /// The pool of a machine object.
    pub(super) fn pool_of(&self, claim: &Claim) -> Option<&Pool> {
        self.pools.get(&claim.pool())
    }

    /// Machines that were bought for a UID.
    pub(super) fn machines_of<'a>(&'a self, uid: &'a str) -> impl Iterator<Item = &'a Bought> {
        self.machines
            .values()
            .filter(move |one| one.machine.uid.as_ref().is_some_and(|own| &*own.0 == uid))
    }

    /// Every machine with the UID that it was bought for; of those on no record yet, the one that waits for it.
    pub(super) fn owned(&self) -> impl Iterator<Item = (&Bought, &str)> {
        let marked = self.machines.values().filter_map(|one| {
            let uid = one.machine.uid.as_ref()?;
            Some((one, &*uid.0))
        });
        let presumed = self.records.presumed().into_iter();
        let presumed = presumed.filter_map(|(id, uid)| Some((self.machines.get(id)?, uid)));
        marked.chain(presumed)
    }

    /// The machine object that a node belongs to, by the machine behind both.
    pub(super) fn claim_of_node(&self, node: &Value) -> Option<&Claim> {
        self.claim_by_uid(self.uid_of_node(node)?)
    }

    /// The UID of the machine object, gone or not, whose machine a node grew out of; `None` for nodes of others.
    pub(super) fn uid_of_node(&self, node: &Value) -> Option<&str> {
        self.origin(node).map(|(_, uid)| uid.as_str())
    }

    /// The node that a machine became.
    pub(super) fn node_of(&self, id: &MachineId) -> Option<&Arc<Value>> {
        let grew = |node: &&Arc<Value>| self.origin(node).is_some_and(|(own, _)| own == id);
        self.nodes.values().find(grew)
    }

    /// Pods that were well a moment ago and are not any more.
    pub(super) fn lately_lost(&self) -> impl Iterator<Item = &Arc<Value>> {
        self.lost.iter().map(|(_, pod)| pod)
    }

    /// Machine objects of a pool that went a short while ago.
    pub(super) fn lately_gone(&self, pool: &Id) -> usize {
        self.went.iter().filter(|(_, of)| of == pool).count()
    }

    /// How the journal calls everything that belongs to a machine object.
    pub(super) fn circle(&self, claim: &Claim) -> Vec<String> {
        let node = claim.text(&["status", "nodeName"]);
        let mut all = vec![
            claim.subject(),
            subject("nodes", if node.is_empty() { claim.name() } else { node }),
            subject(claim.family.pools, &claim.pool().1),
        ];
        let uid = claim.uid();
        all.extend(
            self.machines_of(uid)
                .map(|one| subject("machine", &one.machine.id.0)),
        );
        let own = self.records.orders().filter(|one| one.uid == uid);
        all.extend(own.map(|one| subject("group", &one.record.group)));
        all.extend(
            self.pods_on(claim.text(&["status", "nodeName"]))
                .map(|(key, _)| subject("pods", key)),
        );
        all.sort();
        all.dedup();
        all
    }
}

fn put(table: &mut BTreeMap<String, Arc<Value>>, commit: &Commit<'_>) {
    if commit.kind == ChangeKind::Deleted {
        table.remove(commit.key);
    } else {
        table.insert(commit.key.to_owned(), commit.object.clone());
    }
}

fn prune<T>(queue: &mut VecDeque<(Timestamp, T)>, now: Timestamp, age: SignedDuration) {
    while queue
        .front()
        .is_some_and(|(at, _)| now.duration_since(*at) > age)
    {
        queue.pop_front();
    }
}

/// Namespace, if it has one, and name.
fn key(object: &Value) -> String {
    match object.namespace() {
        "" => object.name().to_owned(),
        namespace => format!("{namespace}/{}", object.name()),
    }
}

/// Whether a node that is to go keeps new pods away.
pub(super) fn keeps_away(node: &Value) -> bool {
    let taints = node.items(&["spec", "taints"]);
    taints.iter().any(|taint| taint.text(&["key"]) == DISRUPTED)
}

/// Whether a disruption budget counts a pod.
pub(super) fn healthy(pod: &Value) -> bool {
    pod.condition_true("Ready") && !pod.deleting()
}

/// Whether a pod has ended.
pub(super) fn ended(pod: &Value) -> bool {
    matches!(pod.text(&["status", "phase"]), "Succeeded" | "Failed")
}

/// Whether a pod is work that a drain has to wait for.
pub(super) fn is_work(pod: &Value) -> bool {
    let daemon = pod
        .controller()
        .is_some_and(|owner| matches!(owner.text(&["kind"]), "DaemonSet" | "Node"));
    let tolerates = pod
        .items(&["spec", "tolerations"])
        .iter()
        .any(|one| one.text(&["operator"]) == "Exists" && one.text(&["key"]).is_empty());
    !daemon && !tolerates && !ended(pod)
}
