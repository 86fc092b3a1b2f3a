//! Preemption: which pods of lower priority would have to go, on which node.
//!
//! kubernetes: `framework/preemption/preemption.go` and `plugins/defaultpreemption`. All lower pods of a node are taken
//! away; if the pod then fits, they are put back one by one, those that a disruption budget protects first and the more
//! important before the less, and those that do not fit any more are the victims.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::attempt::Rejected;
use super::cache::Cache;
use super::filter::{Cycle, Nominated};
use super::pod::PodInfo;
use crate::cluster::Key;
use crate::cluster::fields::Fields as _;
use crate::selector::Selector;

const NO_VICTIMS: &str = "No preemption victims found for incoming pod";
/// As many candidates as upstream looks for: a tenth of the nodes, and no fewer than this.
const FEWEST_CANDIDATES: usize = 100;

/// Whom to take away and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Preemption {
    pub(crate) node: String,
    pub(crate) victims: Vec<Key>,
}

/// A `PodDisruptionBudget` as preemption reads it.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    namespace: String,
    selector: Selector,
    allowed: i64,
    already_counted: Vec<String>,
}

impl Budget {
    /// Reads a `PodDisruptionBudget`.
    pub(crate) fn read(budget: &Value) -> Self {
        Self {
            namespace: budget.namespace().to_owned(),
            selector: Selector::read(budget.at(&["spec", "selector"])),
            allowed: budget
                .int(&["status", "disruptionsAllowed"])
                .unwrap_or_default(),
            already_counted: budget
                .at(&["status", "disruptedPods"])
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, _)| name.clone())
                .collect(),
        }
    }

    fn protects(&self, pod: &PodInfo) -> bool {
        self.namespace == pod.key.namespace
            && !pod.labels.is_empty()
            && !self.selector.is_empty()
            && self.selector.matches_map(&pod.labels)
            && !self.already_counted.contains(&pod.key.name)
    }
}

/// What one node would cost. The derived order is the policy: less is better.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cost {
    broken_budgets: usize,
    highest_priority: i64,
    sum_of_priorities: i64,
    victims: usize,
    /// The longest-running of the most important victims should be as young as possible.
    earliest_start: Reverse<Timestamp>,
    name: String,
}

/// The best preemption, or the sentence that says why there is none.
pub(crate) fn find(
    cache: &mut Cache,
    pod: &PodInfo,
    nominated: &Nominated,
    budgets: &[Budget],
    rejected: &Rejected,
) -> Result<Preemption, String> {
    if !pod.may_preempt {
        return Err("not eligible due to preemptionPolicy=Never.".to_owned());
    }
    if waits_for_victims(cache, pod, rejected) {
        return Err("not eligible due to a terminating pod on the nominated node.".to_owned());
    }
    let all = cache.nodes().len();
    let enough = (all / 10).max(FEWEST_CANDIDATES);
    let mut best: Option<(Cost, Preemption)> = None;
    let mut candidates = 0;
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let mut tried = 0;
    // Where all pods matter alike, which is the rule, no node need be looked into.
    let nobody_lower = cache
        .lowest_priority()
        .is_none_or(|lowest| lowest >= pod.priority);
    for slot in cache.nodes().to_vec() {
        if !rejected.get(slot).is_some_and(|why| why.resolvable) {
            continue;
        }
        tried += 1;
        if nobody_lower {
            continue;
        }
        match victims_on(cache, pod, nominated, budgets, slot) {
            Ok((victims, broken_budgets)) => {
                let name = cache.slot(slot).name.clone();
                let cost = cost(&victims, broken_budgets, &name);
                if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                    let victims = victims.iter().map(|victim| victim.key.clone()).collect();
                    best = Some((
                        cost,
                        Preemption {
                            node: name,
                            victims,
                        },
                    ));
                }
                candidates += 1;
                if candidates >= enough {
                    break;
                }
            }
            Err(why) => {
                for reason in why {
                    *reasons.entry(reason).or_default() += 1;
                }
            }
        }
    }
    if nobody_lower && tried > 0 {
        reasons.insert(NO_VICTIMS.to_owned(), tried);
    }
    if all > tried {
        *reasons
            .entry("Preemption is not helpful for scheduling".to_owned())
            .or_default() += all - tried;
    }
    best.map(|(_, found)| found)
        .ok_or_else(|| super::attempt::fit_message(all, &reasons))
}

/// Whether the pod was promised a node and those who must leave it are still on their way out.
fn waits_for_victims(cache: &Cache, pod: &PodInfo, rejected: &Rejected) -> bool {
    let Some(slot) = cache.node_named(&pod.nominated_node) else {
        return false;
    };
    if rejected.get(slot).is_some_and(|why| !why.resolvable) {
        return false;
    }
    cache
        .slot(slot)
        .pods
        .values()
        .any(|other| other.priority < pod.priority && other.preempted)
}

/// The victims on one node, most important first, and how many budgets would be broken.
fn victims_on(
    cache: &mut Cache,
    pod: &PodInfo,
    nominated: &Nominated,
    budgets: &[Budget],
    slot: usize,
) -> Result<(Vec<Arc<PodInfo>>, usize), Vec<String>> {
    let node = cache.slot(slot).name.clone();
    let mut lower: Vec<Arc<PodInfo>> = cache
        .slot(slot)
        .pods
        .values()
        .filter(|other| other.priority < pod.priority)
        .map(Arc::clone)
        .collect();
    if lower.is_empty() {
        return Err(vec![NO_VICTIMS.to_owned()]);
    }
    lower.sort_by(|a, b| importance(a).cmp(&importance(b)));
    for other in &lower {
        cache.remove(&other.key);
    }
    let fits = |cache: &Cache| match Cycle::prepare(cache, pod, nominated) {
        Ok(cycle) => cycle
            .check(slot)
            .map_err(|why| why.reasons().map(str::to_owned).collect::<Vec<_>>()),
        Err((_, why)) => Err(vec![why]),
    };
    let emptied = fits(cache);
    let mut victims = Vec::new();
    let mut broken = 0;
    if emptied.is_ok() {
        let (protected, free) = split_by_budget(&lower, budgets);
        for (others, counts) in [(protected, 1), (free, 0)] {
            for other in others {
                cache.place(Arc::clone(&other), &node);
                if fits(cache).is_err() {
                    cache.remove(&other.key);
                    broken += counts;
                    victims.push(other);
                }
            }
        }
        victims.sort_by(|a, b| importance(a).cmp(&importance(b)));
    }
    // Whatever was found, the cache must show the world as it is.
    for other in lower {
        cache.place(other, &node);
    }
    emptied.map(|()| (victims, broken))
}

/// Orders pods from the most to the least important: by priority, then the longest-running first.
fn importance(pod: &PodInfo) -> (Reverse<i64>, Timestamp, &Key) {
    (
        Reverse(pod.priority),
        pod.started.unwrap_or(pod.created),
        &pod.key,
    )
}

/// Pods whose leaving would break a budget, and the others.
fn split_by_budget(
    pods: &[Arc<PodInfo>],
    budgets: &[Budget],
) -> (Vec<Arc<PodInfo>>, Vec<Arc<PodInfo>>) {
    let mut left: Vec<i64> = budgets.iter().map(|budget| budget.allowed).collect();
    pods.iter().map(Arc::clone).partition(|pod| {
        let mut broken = false;
        for (budget, left) in budgets.iter().zip(&mut left) {
            if budget.protects(pod) {
                *left -= 1;
                broken |= *left < 0;
            }
        }
        broken
    })
}

fn cost(victims: &[Arc<PodInfo>], broken_budgets: usize, name: &str) -> Cost {
    let highest = victims
        .iter()
        .map(|victim| victim.priority)
        .max()
        .unwrap_or(i64::MIN);
    let starts = victims
        .iter()
        .filter(|victim| victim.priority == highest)
        .map(|victim| victim.started.unwrap_or(victim.created));
    Cost {
        broken_budgets,
        highest_priority: highest,
        // Shifted so that a few victims of negative priority do not look worse than many.
        sum_of_priorities: victims
            .iter()
            .map(|victim| victim.priority + i64::from(i32::MAX) + 1)
            .sum(),
        victims: victims.len(),
        earliest_start: Reverse(starts.min().unwrap_or_default()),
        name: name.to_owned(),
    }
}
