//! One attempt to place one pod: filter, score, or preempt, as a function of the cache alone.

use std::collections::{BTreeMap, BTreeSet};

use super::cache::Cache;
use super::filter::{Cycle, Nominated, Plugin, Rejection, watch_rules};
use super::pod::PodInfo;
use super::preempt::{self, Budget, Preemption};
use super::score;
use super::volumes::VolumeStep;

/// Below this many nodes all of them are looked at (kubernetes: `minFeasibleNodesToFind`).
const FEWEST_FEASIBLE: usize = 100;

/// What came of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Bind the pod there, after these steps for its volumes.
    Place {
        node: String,
        steps: Vec<VolumeStep>,
    },
    /// No node will do.
    Stuck {
        message: String,
        plugins: BTreeSet<Plugin>,
        preemption: Option<Preemption>,
    },
}

/// Tries to place a pod. `start` moves on from attempt to attempt, so that in a large cluster not always the same nodes
/// are looked at.
pub(crate) fn attempt(
    cache: &mut Cache,
    pod: &PodInfo,
    nominated: &Nominated,
    budgets: &[Budget],
    start: &mut usize,
) -> Outcome {
    let all = cache.nodes().len();
    if all == 0 {
        return Outcome::Stuck {
            message: "no nodes available to schedule pods".to_owned(),
            plugins: BTreeSet::new(),
            preemption: None,
        };
    }
    watch_rules(cache, pod);
    let mut rejected = Rejected::default();
    let mut plugins = BTreeSet::new();
    let message = match Cycle::prepare(cache, pod, nominated) {
        Err((plugin, why)) => {
            plugins.insert(plugin);
            format!("0/{all} nodes are available: {why}.")
        }
        Ok(cycle) => {
            let feasible = look_around(&cycle, start, &mut rejected);
            if let Some(placed) = choose(&cycle, &feasible) {
                return placed;
            }
            plugins.extend(rejected.iter().map(|why| why.plugin));
            fit_message(all, &histogram(&rejected, all))
        }
    };
    if rejected.count < all && plugins.is_empty() {
        plugins.insert(Plugin::NodeAffinity);
    }
    match preempt::find(cache, pod, nominated, budgets, &rejected) {
        Ok(preemption) => Outcome::Stuck {
            message,
            plugins,
            preemption: Some(preemption),
        },
        Err(why) => Outcome::Stuck {
            message: format!("{message} preemption: {why}"),
            plugins,
            preemption: None,
        },
    }
}

/// "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) ….", in upstream's order of the counted strings.
pub(crate) fn fit_message(all: usize, reasons: &BTreeMap<String, usize>) -> String {
    let mut counted: Vec<String> = reasons
        .iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    counted.sort();
    if counted.is_empty() {
        return format!("0/{all} nodes are available:");
    }
    format!("0/{all} nodes are available: {}.", counted.join(", "))
}

/// Why each node was turned down, by slot.
#[derive(Debug, Default)]
pub(crate) struct Rejected {
    by_slot: Vec<Option<Rejection>>,
    count: usize,
}

impl Rejected {
    fn put(&mut self, slot: usize, why: Rejection) {
        if self.by_slot.len() <= slot {
            self.by_slot.resize(slot + 1, None);
        }
        self.count += usize::from(self.by_slot[slot].replace(why).is_none());
    }

    /// Why this node was turned down, if it was.
    pub(crate) fn get(&self, slot: usize) -> Option<&Rejection> {
        self.by_slot.get(slot)?.as_ref()
    }

    fn iter(&self) -> impl Iterator<Item = &Rejection> {
        self.by_slot.iter().flatten()
    }
}

fn histogram(rejected: &Rejected, all: usize) -> BTreeMap<String, usize> {
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for reason in rejected.iter().flat_map(Rejection::reasons) {
        // Looking up before owning: with many nodes the same few reasons come again and again.
        match reasons.get_mut(reason) {
            Some(count) => *count += 1,
            None => {
                reasons.insert(reason.to_owned(), 1);
            }
        }
    }
    if all > rejected.count {
        let unlooked = "node(s) didn't satisfy plugin(s) [NodeAffinity]".to_owned();
        *reasons.entry(unlooked).or_default() += all - rejected.count;
    }
    reasons
}

/// The nodes that will do, up to as many as are worth comparing.
fn look_around(cycle: &Cycle<'_>, start: &mut usize, rejected: &mut Rejected) -> Vec<usize> {
    let cache = cycle.cache;
    let mut feasible = Vec::new();
    let mut ask = |slot: usize, feasible: &mut Vec<usize>| match cycle.check(slot) {
        Ok(()) => feasible.push(slot),
        Err(why) => rejected.put(slot, why),
    };
    // A promise made by preemption is tried first and kept if it holds.
    if let Some(slot) = cache.node_named(&cycle.pod.nominated_node)
        && cycle.check(slot).is_ok()
    {
        return vec![slot];
    }
    if let Some(names) = cycle.pod.node_affinity.pinned_names() {
        let slots: BTreeSet<usize> = names
            .iter()
            .filter_map(|name| cache.node_named(name))
            .collect();
        for slot in slots {
            ask(slot, &mut feasible);
        }
        return feasible;
    }
    let nodes = cache.nodes();
    let wanted = enough_feasible(nodes.len());
    let mut looked_at = 0;
    for offset in 0..nodes.len() {
        looked_at += 1;
        ask(nodes[(*start + offset) % nodes.len()], &mut feasible);
        if feasible.len() >= wanted {
            break;
        }
    }
    *start = (*start + looked_at) % nodes.len();
    feasible
}

/// kubernetes: `numFeasibleNodesToFind` with its default percentage.
fn enough_feasible(all: usize) -> usize {
    if all < FEWEST_FEASIBLE {
        return all;
    }
    let percentage = 50_usize.saturating_sub(all / 125).max(5);
    (all * percentage / 100).max(FEWEST_FEASIBLE)
}

fn choose(cycle: &Cycle<'_>, feasible: &[usize]) -> Option<Outcome> {
    let slot = score::best(cycle, feasible)?;
    let here = cycle.cache.slot(slot);
    let steps = if cycle.claims.is_empty() {
        Vec::new()
    } else {
        cycle
            .claims
            .steps(cycle.cache, &here.name, here.node.as_ref()?)?
    };
    Some(Outcome::Place {
        node: here.name.clone(),
        steps,
    })
}

#[cfg(test)]
mod tests;
