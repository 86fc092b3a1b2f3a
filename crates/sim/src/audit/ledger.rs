//! The truth: objects and machines as they are, followed change by change.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use joiner_core::labels;
use joiner_providers::{Machine, MachineId};
use serde_json::Value;

use super::journal::subject;
use crate::clouds::sim::CloudEvent;
use joiner_embedded::api::{ChangeKind, Commit};
use joiner_embedded::cluster::fields::Fields as _;

/// The annotation in which a disruption under way stands.
pub(super) const INTENT: &str = "joiner.dev/disruption";
/// When a drain's time is up.
pub(super) const DEADLINE: &str = "karpenter.sh/nodeclaim-termination-timestamp";
/// The taint of a node that is to go.
const DISRUPTED: &str = "karpenter.sh/disrupted";
/// Pods and nodes that bear it are left alone.
pub(super) const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// What the embedded controllers have not taken in yet is at most so old.
const NEWS: SignedDuration = SignedDuration::from_secs(2);
/// How long a decision may lie back that a change carries out.
const DECISION: SignedDuration = SignedDuration::from_mins(2);

/// A machine at a cloud.
#[derive(Debug)]
pub(super) struct Bought {
    pub(super) machine: Machine,
    pub(super) stopping: bool,
    /// The cloud has said that it will take it back.
    pub(super) announced: bool,
}

#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) claims: BTreeMap<String, Arc<Value>>,
    pub(super) nodes: BTreeMap<String, Arc<Value>>,
    pub(super) pools: BTreeMap<String, Arc<Value>>,
    pub(super) budgets: BTreeMap<String, Arc<Value>>,
    pub(super) daemons: BTreeMap<String, Arc<Value>>,
    pub(super) pods: BTreeMap<String, Arc<Value>>,
    on_node: BTreeMap<String, BTreeSet<String>>,
    pub(super) machines: BTreeMap<MachineId, Bought>,
    /// Pods that were well until a moment ago: budgets may not know yet.
    lost: VecDeque<(Timestamp, Arc<Value>)>,
    /// Machine objects that went a short while ago, by pool.
    went: VecDeque<(Timestamp, String)>,
    /// When pods were bound.
    bound: BTreeMap<String, Timestamp>,
    pub(super) bought: u64,
    /// Every machine that was ever bought for an object: its node may outlive it.
    owned: BTreeSet<String>,
}

impl Ledger {
    pub(super) fn commit(&mut self, commit: &Commit<'_>) {
        match commit.resource {
            "pods" => self.pod(commit),
            "nodeclaims.karpenter.sh" => {
                if commit.kind == ChangeKind::Deleted {
                    self.went
                        .push_back((commit.at, pool_of(commit.object).to_owned()));
                }
                put(&mut self.claims, commit);
            }
            "nodes" => put(&mut self.nodes, commit),
            "nodepools.karpenter.sh" => put(&mut self.pools, commit),
            "poddisruptionbudgets.policy" => put(&mut self.budgets, commit),
            "daemonsets.apps" => put(&mut self.daemons, commit),
            _ => return,
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

    pub(super) fn event(&mut self, event: &CloudEvent) {
        match event {
            CloudEvent::Launched(machine) => {
                self.bought += 1;
                if machine.uid.is_some() {
                    self.owned.insert(machine.id.to_string());
                }
                let bought = Bought {
                    machine: machine.as_ref().clone(),
                    stopping: false,
                    announced: false,
                };
                self.machines.insert(machine.id.clone(), bought);
            }
            CloudEvent::Booted(_) => {}
            CloudEvent::Announced(id) => {
                if let Some(bought) = self.machines.get_mut(id) {
                    bought.announced = true;
                }
            }
            CloudEvent::Terminating(id) => {
                if let Some(bought) = self.machines.get_mut(id) {
                    bought.stopping = true;
                }
            }
            CloudEvent::Gone { id, .. } => {
                self.machines.remove(id);
            }
        }
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
    pub(super) fn claim_by_uid(&self, uid: &str) -> Option<&Arc<Value>> {
        self.claims.values().find(|claim| claim.uid() == uid)
    }

    /// Machines that were bought for a UID.
    pub(super) fn machines_of<'a>(&'a self, uid: &'a str) -> impl Iterator<Item = &'a Bought> {
        self.machines
            .values()
            .filter(move |one| one.machine.uid.as_ref().is_some_and(|own| &*own.0 == uid))
    }

    /// The machine object that a node belongs to, by the machine behind both.
    pub(super) fn claim_of_node(&self, node: &Value) -> Option<&Arc<Value>> {
        let id = node.text(&["spec", "providerID"]);
        self.claims
            .values()
            .find(|claim| !id.is_empty() && claim.text(&["status", "providerID"]) == id)
            .or_else(|| {
                let bought = self
                    .machines
                    .values()
                    .find(|one| &*one.machine.id.0 == id)?;
                self.claim_by_uid(&bought.machine.uid.as_ref()?.0)
            })
    }

    /// Whether a node grew out of a machine that Joiner bought, be it gone by now.
    pub(super) fn is_ours(&self, node: &Value) -> bool {
        self.owned.contains(node.text(&["spec", "providerID"]))
    }

    /// The node that a machine became.
    pub(super) fn node_of(&self, id: &MachineId) -> Option<&Arc<Value>> {
        self.nodes
            .values()
            .find(|node| node.text(&["spec", "providerID"]) == &*id.0)
    }

    /// Pods that were well a moment ago and are not any more.
    pub(super) fn lately_lost(&self) -> impl Iterator<Item = &Arc<Value>> {
        self.lost.iter().map(|(_, pod)| pod)
    }

    /// Machine objects of a pool that went a short while ago.
    pub(super) fn lately_gone(&self, pool: &str) -> usize {
        self.went.iter().filter(|(_, of)| of == pool).count()
    }

    /// How the journal calls everything that belongs to a machine object.
    pub(super) fn circle(&self, claim: &Value) -> Vec<String> {
        let mut all = vec![
            subject("nodeclaims", claim.name()),
            subject("nodes", claim.name()),
            subject("nodepools", pool_of(claim)),
        ];
        let uid = claim.uid();
        all.extend(
            self.machines_of(uid)
                .map(|one| subject("machine", &one.machine.id.0)),
        );
        let id = claim.text(&["status", "providerID"]);
        if !id.is_empty() {
            all.push(subject("machine", id));
        }
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

/// The pool of a machine object or node.
pub(super) fn pool_of(object: &Value) -> &str {
    object.label(labels::NODEPOOL).unwrap_or_default()
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
