//! The hard constraints: may this pod stand on that node, and if not, why not.
//!
//! A [`Cycle`] holds what is the same for all nodes in one attempt to place a pod (kubernetes: `PreFilter`), and `check`
//! asks about one node (kubernetes: `Filter`), in the upstream order of plugins, so that the reason given is the same.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::cache::{Cache, Counter, NodeInfo, Slot};
use super::pod::{PodInfo, Query, Spread, Term, Unsatisfiable};
use super::resources::{Resources, Shortfall};
use super::taints::{all_hard_tolerated, bears_cordon};
use super::volumes::Claims;

/// The rule that turned a node down; upstream plugin names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Plugin {
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
}

/// Why a node was turned down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rejection {
    pub(crate) plugin: Plugin,
    reasons: Reasons,
    /// Whether taking pods away from the node could change the answer.
    pub(crate) resolvable: bool,
}

/// Most rejections have one reason, known at compile time: with many nodes it must cost nothing to say so.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Reasons {
    One(&'static str),
    Short(Vec<Shortfall>),
}

impl Rejection {
    /// A reason that no preemption can remove.
    pub(crate) fn never(plugin: Plugin, reason: &'static str) -> Self {
        Self {
            plugin,
            reasons: Reasons::One(reason),
            resolvable: false,
        }
    }

    /// A reason that preemption might remove.
    pub(crate) fn maybe(plugin: Plugin, reason: &'static str) -> Self {
        Self {
            plugin,
            reasons: Reasons::One(reason),
            resolvable: true,
        }
    }

    /// The reasons, in upstream's words.
    pub(crate) fn reasons(&self) -> impl Iterator<Item = &str> {
        let (one, short) = match &self.reasons {
            Reasons::One(reason) => (Some(*reason), &[][..]),
            Reasons::Short(short) => (None, short.as_slice()),
        };
        one.into_iter().chain(short.iter().map(|one| &*one.reason))
    }
}

/// Pods that have been promised a node by preemption and are not there yet, by node name.
pub(crate) type Nominated = BTreeMap<String, Vec<Arc<PodInfo>>>;

/// Pods of one rule, summed over each value of a topology label.
#[derive(Debug)]
struct Domains<'a> {
    key: &'a str,
    counts: BTreeMap<&'a str, u32>,
}

impl Domains<'_> {
    fn of(&self, node: &NodeInfo) -> Option<u32> {
        let value = node.labels.get(self.key)?;
        Some(self.counts.get(value.as_str()).copied().unwrap_or_default())
    }
}

#[derive(Debug)]
struct SpreadState<'a> {
    constraint: &'a Spread,
    counter: Option<&'a Counter>,
    domains: Domains<'a>,
    /// The smallest number in any domain, as the skew is measured from it.
    least: i64,
    self_match: i64,
}

/// One attempt to place one pod.
#[derive(Debug)]
pub(crate) struct Cycle<'a> {
    pub(crate) cache: &'a Cache,
    pub(crate) pod: &'a PodInfo,
    nominated: &'a Nominated,
    spread: Vec<SpreadState<'a>>,
    affinity: Vec<Domains<'a>>,
    anti_affinity: Vec<Domains<'a>>,
    /// Topology values that pods already standing there keep this pod out of.
    kept_out: BTreeMap<&'a str, BTreeSet<&'a str>>,
    /// No pod anywhere matches the affinity, and the pod matches it itself.
    first_of_its_kind: bool,
    pub(crate) claims: Claims<'a>,
}

/// Makes the cache count everything that placing this pod asks about.
pub(crate) fn watch_rules(cache: &mut Cache, pod: &PodInfo) {
    for constraint in &pod.spread {
        cache.watch(&constraint.query);
    }
    if !pod.affinity.is_empty() {
        cache.watch(&Query::all_of(&pod.affinity));
    }
    for term in &pod.anti_affinity {
        cache.watch(&term.query);
    }
    for (_, term) in &pod.preferred {
        cache.watch(&term.query);
    }
}

impl<'a> Cycle<'a> {
    /// Prepares an attempt; `watch_rules` must have been called for the pod. The error is a reason that is the same for
    /// every node.
    pub(crate) fn prepare(
        cache: &'a Cache,
        pod: &'a PodInfo,
        nominated: &'a Nominated,
    ) -> Result<Self, (Plugin, String)> {
        let claims = Claims::find(cache, pod).map_err(|why| (Plugin::VolumeBinding, why))?;
        let affinity_query = Query::all_of(&pod.affinity);
        let affinity: Vec<_> = pod
            .affinity
            .iter()
            .map(|term| sum(cache, &affinity_query, term))
            .collect();
        let nobody = affinity.iter().all(|domains| domains.counts.is_empty());
        Ok(Self {
            cache,
            pod,
            nominated,
            spread: spread_states(cache, pod),
            first_of_its_kind: nobody && affinity_query.matches(pod, cache.namespaces()),
            affinity,
            anti_affinity: pod
                .anti_affinity
                .iter()
                .map(|term| sum(cache, &term.query, term))
                .collect(),
            kept_out: kept_out(cache, pod),
            claims,
        })
    }

    /// Whether the pod may stand on a node.
    pub(crate) fn check(&self, slot: usize) -> Result<(), Rejection> {
        let here = self.cache.slot(slot);
        let Some(node) = &here.node else {
            return Err(Rejection::never(
                Plugin::NodeName,
                "node(s) had unknown conditions",
            ));
        };
        check_node(self.pod, &here.name, node)?;
        self.check_room(here, node)?;
        if !self.claims.is_empty() {
            self.claims.check(self.cache, self.pod, slot, node)?;
        }
        self.check_spread(node)?;
        self.check_neighbours(node)
    }

    /// Ports and resources, with room left for pods that were promised this node and matter no less.
    fn check_room(&self, here: &Slot, node: &NodeInfo) -> Result<(), Rejection> {
        let pod = self.pod;
        let promised: Vec<_> = if self.nominated.is_empty() {
            Vec::new()
        } else {
            let here_promised = self.nominated.get(&here.name).into_iter().flatten();
            let counts = |other: &&Arc<PodInfo>| {
                other.priority >= pod.priority
                    && other.key != pod.key
                    && !here.pods.contains_key(&other.key)
            };
            here_promised.filter(counts).collect()
        };
        let port_taken = pod.ports.iter().any(|wanted| {
            here.port_taken(wanted)
                || promised
                    .iter()
                    .any(|other| other.ports.iter().any(|port| port.conflicts(wanted)))
        });
        if port_taken {
            return Err(Rejection::maybe(
                Plugin::NodePorts,
                "node(s) didn't have free ports for the requested pod ports",
            ));
        }
        let used: Cow<'_, Resources> = if promised.is_empty() {
            Cow::Borrowed(&here.used)
        } else {
            let mut used = here.used.clone();
            for other in &promised {
                used.add(&other.requests);
            }
            Cow::Owned(used)
        };
        let pods = here.pods.len() + promised.len();
        if pod.requests.fit(&node.allocatable, &used, pods) {
            return Ok(());
        }
        let short = pod.requests.shortfalls(&node.allocatable, &used, pods);
        Err(Rejection {
            plugin: Plugin::NodeResourcesFit,
            resolvable: short.iter().all(|one| one.resolvable),
            reasons: Reasons::Short(short),
        })
    }

    fn check_spread(&self, node: &NodeInfo) -> Result<(), Rejection> {
        for state in &self.spread {
            let Some(here) = state.domains.of(node) else {
                return Err(Rejection::never(
                    Plugin::PodTopologySpread,
                    "node(s) didn't match pod topology spread constraints (missing required label)",
                ));
            };
            if i64::from(here) + state.self_match - state.least > state.constraint.max_skew {
                return Err(Rejection::maybe(
                    Plugin::PodTopologySpread,
                    "node(s) didn't match pod topology spread constraints",
                ));
            }
        }
        Ok(())
    }

    fn check_neighbours(&self, node: &NodeInfo) -> Result<(), Rejection> {
        let mut missing = false;
        for domains in &self.affinity {
            match domains.of(node) {
                // Every topology label must be there, even for the first pod of its kind.
                None => return Err(affinity_rejection()),
                Some(count) => missing |= count == 0,
            }
        }
        if missing && !self.first_of_its_kind {
            return Err(affinity_rejection());
        }
        if self
            .anti_affinity
            .iter()
            .any(|domains| domains.of(node).is_some_and(|count| count > 0))
        {
            return Err(Rejection::maybe(
                Plugin::InterPodAffinity,
                "node(s) didn't match pod anti-affinity rules",
            ));
        }
        let kept_out = self.kept_out.iter().any(|(key, values)| {
            node.labels
                .get(*key)
                .is_some_and(|value| values.contains(value.as_str()))
        });
        if kept_out {
            return Err(Rejection::maybe(
                Plugin::InterPodAffinity,
                "node(s) didn't satisfy existing pods anti-affinity rules",
            ));
        }
        Ok(())
    }
}

/// What depends on the Node object alone.
pub(crate) fn check_node(pod: &PodInfo, name: &str, node: &NodeInfo) -> Result<(), Rejection> {
    if node.unschedulable && !bears_cordon(&pod.tolerations) {
        return Err(Rejection::never(
            Plugin::NodeUnschedulable,
            "node(s) were unschedulable",
        ));
    }
    if !all_hard_tolerated(&node.taints, &pod.tolerations) {
        return Err(Rejection::never(
            Plugin::TaintToleration,
            "node(s) had untolerated taint(s)",
        ));
    }
    if !pod.node_affinity.matches(name, &node.labels) {
        return Err(Rejection::never(
            Plugin::NodeAffinity,
            "node(s) didn't match Pod's node affinity/selector",
        ));
    }
    Ok(())
}

fn affinity_rejection() -> Rejection {
    Rejection::never(
        Plugin::InterPodAffinity,
        "node(s) didn't match pod affinity rules",
    )
}

/// Sums a counter over the values of a term's topology label.
fn sum<'a>(cache: &'a Cache, query: &Query, term: &'a Term) -> Domains<'a> {
    let mut counts = BTreeMap::new();
    if let Some(counter) = cache.count(query).filter(|counter| counter.total > 0) {
        for &slot in cache.nodes() {
            let count = counter.at(slot);
            let node = cache.slot(slot).node.as_ref();
            let value = node.and_then(|node| node.labels.get(&term.topology_key));
            if let (Some(value), true) = (value, count > 0) {
                *counts.entry(value.as_str()).or_default() += count;
            }
        }
    }
    Domains {
        key: &term.topology_key,
        counts,
    }
}

fn kept_out<'a>(cache: &'a Cache, pod: &PodInfo) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let mut out: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (term, counter) in cache.holders() {
        if !term.query.matches(pod, cache.namespaces()) {
            continue;
        }
        for &slot in cache.nodes() {
            let node = cache
                .slot(slot)
                .node
                .as_ref()
                .filter(|_| counter.at(slot) > 0);
            if let Some(value) = node.and_then(|node| node.labels.get(&term.topology_key)) {
                out.entry(term.topology_key.as_str())
                    .or_default()
                    .insert(value);
            }
        }
    }
    out
}

fn spread_states<'a>(cache: &'a Cache, pod: &'a PodInfo) -> Vec<SpreadState<'a>> {
    let hard: Vec<_> = pod
        .spread
        .iter()
        .filter(|constraint| constraint.unsatisfiable == Unsatisfiable::DoNotSchedule)
        .collect();
    let mut states: Vec<_> = hard
        .iter()
        .map(|constraint| SpreadState {
            constraint,
            counter: cache.count(&constraint.query),
            domains: Domains {
                key: &constraint.topology_key,
                counts: BTreeMap::new(),
            },
            least: 0,
            self_match: i64::from(constraint.query.matches(pod, cache.namespaces())),
        })
        .collect();
    if states.is_empty() {
        return states;
    }
    let honors_taints = hard.iter().any(|constraint| constraint.honor_taints);
    let mut values: Vec<&'a str> = Vec::with_capacity(hard.len());
    for &slot in cache.nodes() {
        let here = cache.slot(slot);
        let Some(node) = &here.node else { continue };
        // Only nodes that have all the topology labels are domains of any of them.
        values.clear();
        let found = hard
            .iter()
            .map_while(|constraint| node.labels.get(&constraint.topology_key));
        values.extend(found.map(String::as_str));
        if values.len() < hard.len() {
            continue;
        }
        let by_affinity = pod.node_affinity.matches(&here.name, &node.labels);
        let by_taints = !honors_taints || all_hard_tolerated(&node.taints, &pod.tolerations);
        for (state, value) in states.iter_mut().zip(&values) {
            let constraint = state.constraint;
            if constraint.honor_affinity && !by_affinity || constraint.honor_taints && !by_taints {
                continue;
            }
            let matching = state.counter.map_or(0, |counter| counter.at(slot));
            *state.domains.counts.entry(value).or_default() += matching;
        }
    }
    for state in &mut states {
        let domains = i64::try_from(state.domains.counts.len()).unwrap_or(i64::MAX);
        let least = state
            .domains
            .counts
            .values()
            .min()
            .copied()
            .unwrap_or(u32::MAX);
        // Fewer domains than wanted: the missing ones count as empty.
        state.least = if domains < state.constraint.min_domains {
            0
        } else {
            i64::from(least)
        };
    }
    states
}
