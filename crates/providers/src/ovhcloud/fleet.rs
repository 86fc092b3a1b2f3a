//! What is known of pools, nodes and machines: one shared reading, and which node is whose machine.
//!
//! A machine is an entry in the ledger: written before the pool grows, given a node once one is there that nobody else
//! has, and erased when the node is gone. How large a pool should be follows from its entries alone, so every write can
//! be repeated after a crash or a lost answer and comes to the same.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::name::Name;
use serde::{Deserialize, Serialize};

use super::types::{Node, NodePool};
use crate::ProviderError;

/// A pool that was just made may not be listed, or answer 404, for so long.
pub(super) const APPEARS: Duration = Duration::from_mins(3);
/// How long a machine that leaves before it has a node waits for one, so that the right node can be named.
pub(super) const NODE_APPEARS: Duration = Duration::from_mins(3);
/// A node that is not listed any more is gone after this, if it was not to go.
const MISSING: Duration = Duration::from_secs(30);
/// A removal that has had no effect is asked for again after this.
const AGAIN: Duration = Duration::from_mins(2);

/// A machine in the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry {
    /// Name of the pool that its node comes from.
    pub(super) pool: String,
    /// Flavour.
    pub(super) flavor: String,
    /// Zone.
    pub(super) zone: String,
    /// Id of its node, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<String>,
    /// When it was asked for.
    pub(super) at: Timestamp,
    /// When it was told to go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) leaving: Option<Timestamp>,
}

/// The nodes of one pool as they were read.
#[derive(Clone, Debug)]
pub(super) struct PoolNodes {
    pub(super) nodes: Vec<Node>,
    pub(super) read: Timestamp,
    print: Print,
}

/// What of a pool changes when its nodes do.
type Print = (String, u32, u32, u32, Option<Timestamp>);

fn print(pool: &NodePool) -> Print {
    (
        pool.status.clone(),
        pool.desired_nodes,
        pool.current_nodes,
        pool.available_nodes,
        pool.updated_at,
    )
}

/// A pool that was made and is not listed yet.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub(super) at: Timestamp,
    pub(super) id: Option<String>,
    pub(super) desired: u32,
}

/// The last removal that was asked of a pool.
#[derive(Clone, Debug)]
pub(super) struct Ordered {
    at: Timestamp,
    desired: u32,
    victims: BTreeSet<String>,
}

/// Everything that is known.
#[derive(Default)]
pub(super) struct Fleet {
    /// Leadership in which the entries were loaded.
    pub(super) term: Option<u64>,
    pub(super) entries: BTreeMap<Name, Entry>,
    /// Our pools by name.
    pub(super) pools: BTreeMap<String, NodePool>,
    /// How many pools of the cluster are listed, whoever made them.
    pub(super) pool_count: usize,
    /// Nodes by pool id.
    pub(super) nodes: BTreeMap<String, PoolNodes>,
    /// When the pools were read.
    pub(super) read: Option<Timestamp>,
    /// When reading them last failed, and why.
    pub(super) failed: Option<(Timestamp, ProviderError)>,
    pub(super) made: BTreeMap<String, Made>,
    pub(super) ordered: BTreeMap<String, Ordered>,
    /// When each pool was last told to grow.
    pub(super) grown: BTreeMap<String, Timestamp>,
    /// When the entries were loaded: what the process before told its pools, and when, is not known.
    pub(super) began: Option<Timestamp>,
    pub(super) missing: BTreeMap<Name, Timestamp>,
    pub(super) empty: BTreeMap<String, Timestamp>,
}

/// What a pool should be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) desired: u32,
    pub(super) victims: Vec<String>,
}

/// What there is in a pool.
#[derive(Default)]
struct Tally {
    /// Machines that stay, with or without a node as yet, and nodes that are no machine's.
    staying: usize,
    /// Machines that leave and wait for a node, so that it can be named.
    waiting: usize,
    /// Machines whose nodes the service has lost: it makes others in their place.
    lost: usize,
    /// Nodes that are to go.
    victims: Vec<String>,
}

pub(super) fn passed(now: Timestamp, since: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}

impl Fleet {
    /// Takes over a list of all pools of the cluster.
    pub(super) fn take_pools(
        &mut self,
        all: Vec<NodePool>,
        owns: impl Fn(&NodePool) -> bool,
        now: Timestamp,
    ) {
        self.pool_count = all.len();
        self.pools = all
            .into_iter()
            .filter(|pool| owns(pool))
            .map(|pool| (pool.name.clone(), pool))
            .collect();
        let pools = &self.pools;
        self.made
            .retain(|name, made| !pools.contains_key(name) && passed(now, made.at) < APPEARS);
        let ids: BTreeSet<&String> = pools.values().map(|pool| &pool.id).collect();
        self.nodes.retain(|id, _| ids.contains(id));
        self.ordered.retain(|name, _| pools.contains_key(name));
        let made = &self.made;
        self.grown
            .retain(|name, _| pools.contains_key(name) || made.contains_key(name));
        self.empty.retain(|name, _| pools.contains_key(name));
        self.read = Some(now);
    }

    /// How many pools the cluster has in all, those included that are not listed yet.
    pub(super) fn count(&self) -> usize {
        self.pool_count + self.made.len()
    }

    /// Takes over the nodes of one pool, read when the pool looked as it does now.
    pub(super) fn take_nodes(&mut self, name: &str, nodes: Vec<Node>, now: Timestamp) {
        if let Some(pool) = self.pools.get(name) {
            let print = print(pool);
            self.nodes.insert(
                pool.id.clone(),
                PoolNodes {
                    nodes,
                    read: now,
                    print,
                },
            );
        }
    }

    /// Pools whose nodes have to be read again, the longest unread first.
    pub(super) fn stale(&self, now: Timestamp, trust: Duration) -> Vec<(String, String)> {
        let mut stale: Vec<(Option<Timestamp>, &NodePool)> = self
            .pools
            .values()
            .filter_map(|pool| match self.nodes.get(&pool.id) {
                None => Some((None, pool)),
                Some(known) => {
                    let old = passed(now, known.read) >= trust;
                    let moved = known.print != print(pool) || self.in_motion(&pool.name, known);
                    (old || moved).then_some((Some(known.read), pool))
                }
            })
            .collect();
        stale.sort_by(|a, b| (a.0, &a.1.name).cmp(&(b.0, &b.1.name)));
        stale
            .into_iter()
            .map(|(_, pool)| (pool.name.clone(), pool.id.clone()))
            .collect()
    }

    /// The id of a pool whose nodes were read longer ago than `age`.
    pub(super) fn aged(&self, name: &str, now: Timestamp, age: Duration) -> Option<String> {
        let pool = self.pools.get(name)?;
        let known = self.nodes.get(&pool.id);
        let old = known.is_none_or(|known| passed(now, known.read) >= age);
        old.then(|| pool.id.clone())
    }

    fn in_motion(&self, name: &str, known: &PoolNodes) -> bool {
        let coming = |node: &Node| node.status != "READY";
        known.nodes.iter().any(coming)
            || self
                .entries
                .values()
                .any(|one| one.pool == name && (one.node.is_none() || one.leaving.is_some()))
    }

    /// Whether the nodes of every pool have been read at least once.
    pub(super) fn unread(&self) -> usize {
        self.pools
            .values()
            .filter(|pool| !self.nodes.contains_key(&pool.id))
            .count()
    }

    pub(super) fn nodes_of(&self, name: &str) -> &[Node] {
        self.pools
            .get(name)
            .and_then(|pool| self.nodes.get(&pool.id))
            .map_or(&[], |known| known.nodes.as_slice())
    }

    fn given(&self) -> BTreeSet<&str> {
        self.entries
            .values()
            .filter_map(|entry| entry.node.as_deref())
            .collect()
    }

    /// Nodes of a pool that are nobody's machine.
    pub(super) fn strays(&self, name: &str) -> Vec<&Node> {
        let given = self.given();
        let mut strays: Vec<&Node> = self
            .nodes_of(name)
            .iter()
            .filter(|node| !node.is_leaving() && !given.contains(node.id.as_str()))
            .collect();
        strays.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        strays
    }

    /// Which nodes of a pool go to which machines now: the oldest node to the machine that waits longest, and only then
    /// to machines that leave before they had one.
    pub(super) fn bindings(&self, name: &str) -> Vec<(Name, Entry)> {
        let mut waiting: Vec<(&Name, &Entry)> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.pool == name && entry.node.is_none())
            .collect();
        if waiting.is_empty() {
            return Vec::new();
        }
        waiting.sort_by_key(|(uid, entry)| (entry.leaving.is_some(), entry.at, *uid));
        let bound = waiting.into_iter().zip(self.strays(name));
        bound
            .map(|((uid, entry), node)| {
                let node = Some(node.id.clone());
                let entry = entry.clone();
                (uid.clone(), Entry { node, ..entry })
            })
            .collect()
    }

    /// Machines that are gone: their nodes are not listed any more.
    pub(super) fn gone(&mut self, now: Timestamp) -> Vec<Name> {
        let mut gone = Vec::new();
        let mut missing = BTreeMap::new();
        for (uid, entry) in &self.entries {
            let pool = self.pools.get(&entry.pool);
            let known = pool.and_then(|pool| self.nodes.get(&pool.id));
            let away = match (pool, known) {
                (None, _) => !self.made.contains_key(&entry.pool),
                (Some(_), None) => false,
                (Some(pool), Some(known)) => {
                    if let Some(node) = &entry.node {
                        !known
                            .nodes
                            .iter()
                            .any(|one| one.id == *node && one.status != "DELETED")
                    } else {
                        // It had no node and its pool is empty by our order.
                        let ordered = self.ordered.get(&entry.pool);
                        pool.desired_nodes == 0
                            && known.nodes.is_empty()
                            && ordered.is_none_or(|order| known.read > order.at)
                    }
                }
            };
            if !away {
                continue;
            }
            if entry.leaving.is_some() {
                gone.push(uid.clone());
            } else if entry.node.is_some() {
                let since = self.missing.get(uid).copied().unwrap_or(now);
                missing.insert(uid.clone(), since);
                if passed(now, since) >= MISSING {
                    gone.push(uid.clone());
                }
            }
        }
        self.missing = missing;
        gone
    }

    /// Machines that leave without a node and need not wait for one any longer: none came, or the pool is broken. While
    /// the pool may still be growing, the node may be on its way.
    pub(super) fn given_up(&self, name: &str, now: Timestamp) -> Vec<Name> {
        let broken = self.pools.get(name).is_some_and(NodePool::is_broken);
        let grown = self.grown.get(name).or(self.began.as_ref());
        let grows = grown.is_some_and(|at| passed(now, *at) < NODE_APPEARS);
        self.entries
            .iter()
            .filter(|(_, entry)| entry.pool == name && entry.node.is_none())
            .filter(|(_, entry)| {
                entry
                    .leaving
                    .is_some_and(|since| broken || (!grows && passed(now, since) >= NODE_APPEARS))
            })
            .map(|(uid, _)| uid.clone())
            .collect()
    }

    /// What a pool should be: `given_up` are machines that are not counted any more.
    ///
    /// The service replaces a node that it loses, and when a pool shrinks by more nodes than were named it chooses the
    /// others itself. So a pool never shrinks by a node that is not listed yet while others stay in it: the node is waited
    /// for, and then given to a machine or named.
    pub(super) fn order(&self, name: &str, given_up: &[Name]) -> Order {
        let count = self.tally(name, given_up);
        let victims = count.victims;
        let told = self.told_size(name);
        // What it was told to remove before, it does not count any more.
        let last = self.ordered.get(name).filter(|last| last.desired == told);
        let known = |id: &&String| last.is_some_and(|last| last.victims.contains(*id));
        let new = victims.iter().filter(|id| !known(id)).count();
        let told = usize::try_from(told).unwrap_or(usize::MAX);
        let least = told.saturating_sub(new + given_up.len());
        let desired = if count.staying + count.lost == 0 {
            // Where nothing stays, any node may go: nothing has to be waited for.
            0
        } else {
            least.max(count.staying + count.waiting)
        };
        Order {
            desired: u32::try_from(desired).unwrap_or(u32::MAX),
            victims,
        }
    }

    /// How many nodes a pool was told to have.
    fn told_size(&self, name: &str) -> u32 {
        let told = self.pools.get(name).map(|pool| pool.desired_nodes);
        let told = told.or_else(|| self.made.get(name).map(|made| made.desired));
        told.unwrap_or(0)
    }

    /// Whether an order takes nodes away from a pool in which others stay.
    pub(super) fn shrinks(&self, name: &str, order: &Order) -> bool {
        let fewer = order.desired < self.told_size(name) || !order.victims.is_empty();
        fewer && order.desired > 0
    }

    fn tally(&self, name: &str, given_up: &[Name]) -> Tally {
        let live: BTreeSet<&str> = self
            .nodes_of(name)
            .iter()
            .filter(|node| !node.is_leaving())
            .map(|node| node.id.as_str())
            .collect();
        let mut count = Tally {
            staying: self.strays(name).len(),
            ..Tally::default()
        };
        let own = self.entries.iter().filter(|(_, one)| one.pool == name);
        for (uid, entry) in own {
            let listed = entry.node.as_deref().filter(|id| live.contains(id));
            match (entry.leaving, &entry.node, listed) {
                (None, None, _) | (None, Some(_), Some(_)) => count.staying += 1,
                (None, Some(_), None) => count.lost += 1,
                (Some(_), None, _) if !given_up.contains(uid) => count.waiting += 1,
                (Some(_), _, Some(id)) => count.victims.push(id.to_owned()),
                (Some(_), _, None) => {}
            }
        }
        count
    }

    /// Whether a pool has been told already.
    pub(super) fn is_told(&self, name: &str, order: &Order, now: Timestamp) -> bool {
        let Some(pool) = self.pools.get(name) else {
            return self
                .made
                .get(name)
                .map_or(order.desired == 0, |made| made.desired == order.desired);
        };
        if pool.desired_nodes != order.desired {
            return false;
        }
        order.victims.is_empty()
            || self.ordered.get(name).is_some_and(|last| {
                passed(now, last.at) < AGAIN
                    && order.victims.iter().all(|id| last.victims.contains(id))
            })
    }

    /// Notes what a pool was told.
    pub(super) fn told(&mut self, name: &str, order: &Order, now: Timestamp) {
        if order.desired > self.told_size(name) {
            self.grown.insert(name.to_owned(), now);
        }
        if let Some(pool) = self.pools.get_mut(name) {
            pool.desired_nodes = order.desired;
        }
        if let Some(made) = self.made.get_mut(name) {
            made.desired = order.desired;
        }
        let ordered = Ordered {
            at: now,
            desired: order.desired,
            victims: order.victims.iter().cloned().collect(),
        };
        self.ordered.insert(name.to_owned(), ordered);
    }

    /// How many places of a pool are taken: machines, also those that leave, and strays.
    pub(super) fn taken(&self, name: &str) -> usize {
        let own = self.entries.values().filter(|one| one.pool == name).count();
        own + self.strays(name).len()
    }

    /// A machine of the pool that leaves without a node: a new one can have its place.
    pub(super) fn free_place(&self, name: &str) -> Option<Name> {
        self.entries
            .iter()
            .find(|(_, one)| one.pool == name && one.node.is_none() && one.leaving.is_some())
            .map(|(uid, _)| uid.clone())
    }

    /// Pools of ours that nothing is in, and since when: since they were last told anything, or since that was first seen,
    /// whichever is longer ago. A process that has just begun has seen nothing for long, and may not live for long.
    pub(super) fn note_empty(&mut self, now: Timestamp) -> Vec<(String, String, Timestamp)> {
        let used: BTreeSet<&str> = self.entries.values().map(|one| one.pool.as_str()).collect();
        let empty: Vec<(String, String, Option<Timestamp>)> = self
            .pools
            .values()
            .filter(|pool| !used.contains(pool.name.as_str()) && !pool.is_leaving())
            .filter(|pool| {
                self.nodes
                    .get(&pool.id)
                    .is_some_and(|known| known.nodes.is_empty())
            })
            .map(|pool| {
                let told = pool.updated_at.filter(|_| pool.desired_nodes == 0);
                (pool.name.clone(), pool.id.clone(), told)
            })
            .collect();
        let names: BTreeSet<&String> = empty.iter().map(|(name, ..)| name).collect();
        self.empty.retain(|name, _| names.contains(name));
        empty
            .into_iter()
            .map(|(name, id, told)| {
                let seen = *self.empty.entry(name.clone()).or_insert(now);
                let since = told.map_or(seen, |told| told.min(seen));
                (name, id, since)
            })
            .collect()
    }
}

pub(super) fn not_leading() -> ProviderError {
    ProviderError::Transient(
        "this process is not the leader: it may not buy or remove OVHcloud nodes".to_owned(),
    )
}
