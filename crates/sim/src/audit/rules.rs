//! The hard rules of a pod about its place, judged in the plainest way, so that no mistake is shared with the packer or
//! the scheduler: selectors and node affinity, zones of volumes, affinity to other pods, and spreads that forbid.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::journal::subject;
use super::ledger::{Ledger, ended, is_work};
use super::{Finding, Invariant};
use joiner_embedded::api::{ChangeKind, Commit};
use joiner_embedded::cluster::fields::Fields as _;
use joiner_embedded::selector::{Requirement, Selector};

/// What a scheduler has not taken in yet is at most so old.
const NEWS: SignedDuration = SignedDuration::from_secs(2);

/// What is counted as being there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// What is there.
    Now,
    /// What was there a moment before this time: pods that go still count, and nodes that have just come do not.
    Before(Timestamp),
}

/// Says which values of a topology label count as domains although no node bears them.
pub(super) type More<'a> = &'a dyn Fn(&str) -> BTreeSet<String>;
/// What a node bears for a label.
pub(super) type Label<'a> = &'a dyn Fn(&str) -> Option<String>;
/// Pods by value of a topology label.
type Counts = BTreeMap<String, i64>;

/// A spread that forbids.
#[derive(Debug)]
struct Spread {
    key: String,
    most: i64,
    own: i64,
    counts: Counts,
    /// The fewest pods of any domain.
    least: i64,
}

/// The rules of one pod, with the pods counted that they are about.
#[derive(Debug)]
pub(super) struct Rules<'a> {
    pod: &'a Value,
    /// Required node affinity: one of the terms of each must hold.
    wanted: Vec<&'a [Value]>,
    /// Why it can be nowhere.
    stuck: Option<String>,
    spreads: Vec<Spread>,
    /// Values of a topology label where it must not be.
    away: Vec<(String, BTreeSet<String>)>,
    /// Values of a topology label where it must be.
    near: Vec<(String, BTreeSet<String>)>,
    /// What it wants to be near to is nowhere, and it is the like itself.
    first: bool,
}

/// Pods that stand on a node, with it.
fn standing(ledger: &Ledger, seen: Seen) -> Vec<(&Value, &Value)> {
    let lost = ledger.lately_lost().filter(|_| seen != Seen::Now);
    let pods = ledger.pods.values().chain(lost);
    pods.filter(|pod| !ended(pod))
        .filter_map(|pod| {
            let node = ledger.nodes.get(pod.text(&["spec", "nodeName"]))?;
            Some((&**pod, &**node))
        })
        .collect()
}

fn matches(term: &Value, of: &Value, pod: &Value) -> bool {
    pod.namespace() == of.namespace()
        && Selector::read(term.at(&["labelSelector"])).matches(pod.labels())
}

fn required<'a>(pod: &'a Value, kind: &str) -> &'a [Value] {
    pod.items(&[
        "spec",
        "affinity",
        kind,
        "requiredDuringSchedulingIgnoredDuringExecution",
    ])
}

/// Values of a topology label on nodes of pods.
fn values<'a>(
    standing: &[(&'a Value, &'a Value)],
    key: &str,
    of: impl Fn(&Value) -> bool,
) -> BTreeSet<String> {
    let own = standing.iter().filter(|(pod, _)| of(pod));
    own.filter_map(|(_, node)| node.label(key))
        .map(ToOwned::to_owned)
        .collect()
}

/// Whether labels are what a selector and one of the terms of each node affinity ask for.
fn suits(pod: &Value, wanted: &[&[Value]], label: Label<'_>) -> bool {
    let selector = pod.at(&["spec", "nodeSelector"]).as_object();
    let selected = selector
        .into_iter()
        .flatten()
        .all(|(key, value)| label(key).is_some_and(|has| *value == has));
    let holds = |expression: &Value| {
        Requirement::read(expression).is_some_and(|one| one.holds(label(&one.key).as_deref()))
    };
    let term = |term: &Value| term.items(&["matchExpressions"]).iter().all(holds);
    selected && wanted.iter().all(|terms| terms.iter().any(term))
}

impl<'a> Rules<'a> {
    /// The rules of a pod. `more` are values of a topology label that count as domains although no node bears them.
    pub(super) fn of(ledger: &'a Ledger, pod: &'a Value, seen: Seen, more: More<'_>) -> Self {
        let standing = standing(ledger, seen);
        let others: Vec<(&Value, &Value)> = standing
            .into_iter()
            .filter(|(other, _)| other.uid() != pod.uid())
            .collect();
        let near = required(pod, "podAffinity");
        let first = near.iter().all(|term| {
            matches(term, pod, pod) && !others.iter().any(|(other, _)| matches(term, pod, other))
        });
        let mut rules = Rules {
            pod,
            wanted: node_terms(pod),
            stuck: None,
            spreads: Vec::new(),
            away: Vec::new(),
            near: Vec::new(),
            first: first && !near.is_empty(),
        };
        rules.volumes(ledger);
        for term in near {
            let key = term.text(&["topologyKey"]);
            let there = values(&others, key, |other| matches(term, pod, other));
            rules.near.push((key.to_owned(), there));
        }
        for term in required(pod, "podAntiAffinity") {
            let key = term.text(&["topologyKey"]);
            let there = values(&others, key, |other| matches(term, pod, other));
            rules.away.push((key.to_owned(), there));
        }
        for (other, node) in &others {
            for term in required(other, "podAntiAffinity") {
                let key = term.text(&["topologyKey"]);
                if matches(term, other, pod)
                    && let Some(value) = node.label(key)
                {
                    let there = BTreeSet::from([value.to_owned()]);
                    rules.away.push((key.to_owned(), there));
                }
            }
        }
        let hard: Vec<&Value> = pod
            .items(&["spec", "topologySpreadConstraints"])
            .iter()
            .filter(|one| one.text(&["whenUnsatisfiable"]) == "DoNotSchedule")
            .collect();
        for constraint in &hard {
            let spread = rules.spread(ledger, &others, &hard, constraint, (seen, more));
            rules.spreads.push(spread);
        }
        rules
    }

    /// Where its volumes can be reached.
    fn volumes(&mut self, ledger: &'a Ledger) {
        for volume in self.pod.items(&["spec", "volumes"]) {
            let name = volume.text(&["persistentVolumeClaim", "claimName"]);
            if name.is_empty() {
                continue;
            }
            let key = format!("{}/{name}", self.pod.namespace());
            let Some(claim) = ledger.volume_claims.get(&key) else {
                self.stuck = Some(format!("there is no volume claim {name}"));
                continue;
            };
            let Some(volume) = ledger.volumes.get(claim.text(&["spec", "volumeName"])) else {
                // It is made where the pod goes.
                continue;
            };
            let path = ["spec", "nodeAffinity", "required", "nodeSelectorTerms"];
            let terms = volume.items(&path);
            if !terms.is_empty() {
                self.wanted.push(terms);
            }
        }
    }

    fn spread(
        &self,
        ledger: &Ledger,
        others: &[(&Value, &Value)],
        hard: &[&Value],
        constraint: &Value,
        (seen, more): (Seen, More<'_>),
    ) -> Spread {
        let key = constraint.text(&["topologyKey"]);
        let terms = node_terms(self.pod);
        // Only nodes where the pod may be by its own selector are domains, and only those with all the labels.
        let is_domain = |node: &Value| {
            let label = |key: &str| node.label(key).map(ToOwned::to_owned);
            let has = |one: &&Value| node.label(one.text(&["topologyKey"])).is_some();
            hard.iter().all(has) && suits(self.pod, &terms, &label)
        };
        let known = |node: &Value| match seen {
            Seen::Now => true,
            Seen::Before(at) => at.duration_since(node.created()) > NEWS,
        };
        let mut counts: Counts = more(key).into_iter().map(|value| (value, 0)).collect();
        for node in ledger.nodes.values() {
            if let Some(value) = node.label(key).filter(|_| is_domain(node) && known(node)) {
                counts.entry(value.to_owned()).or_insert(0);
            }
        }
        for (other, node) in others {
            let counted = seen != Seen::Now || !other.deleting();
            if counted
                && is_domain(node)
                && matches(constraint, self.pod, other)
                && let Some(value) = node.label(key)
            {
                *counts.entry(value.to_owned()).or_insert(0) += 1;
            }
        }
        Spread {
            key: key.to_owned(),
            most: constraint.int(&["maxSkew"]).unwrap_or(1),
            own: i64::from(matches(constraint, self.pod, self.pod)),
            least: counts.values().min().copied().unwrap_or(0),
            counts,
        }
    }

    /// Whether labels are those of a place where the pod may be, as far as its selectors go.
    pub(super) fn selects(&self, label: Label<'_>) -> bool {
        suits(self.pod, &self.wanted, label)
    }

    /// Which rule forbids a place with these labels.
    pub(super) fn broken(&self, label: Label<'_>) -> Option<String> {
        if let Some(why) = &self.stuck {
            return Some(why.clone());
        }
        if !self.selects(label) {
            return Some("the node is none that it, or its volume, asks for".to_owned());
        }
        for (key, there) in &self.away {
            if label(key).is_some_and(|value| there.contains(&value)) {
                return Some(format!("a pod that must be apart has the same {key}"));
            }
        }
        for (key, there) in &self.near {
            if !self.first && label(key).is_none_or(|value| !there.contains(&value)) {
                return Some(format!("no pod that it must be near to has the same {key}"));
            }
        }
        self.spreads.iter().find_map(|spread| {
            let key = &spread.key;
            let Some(value) = label(key) else {
                return Some(format!("the node has no {key}"));
            };
            // A new domain is one with nothing in it.
            let known = spread.counts.get(&value).copied();
            let (here, least) = (
                known.unwrap_or(0),
                if known.is_none() { 0 } else { spread.least },
            );
            (here + spread.own - least > spread.most).then(|| {
                format!(
                    "{value} has {here} of its like already, another {key} {least}, and the skew may be {}",
                    spread.most
                )
            })
        })
    }
}

fn node_terms(pod: &Value) -> Vec<&[Value]> {
    let path = [
        "spec",
        "affinity",
        "nodeAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "nodeSelectorTerms",
    ];
    let terms = pod.items(&path);
    if terms.is_empty() {
        Vec::new()
    } else {
        vec![terms]
    }
}

/// Judges where a pod is bound.
pub(super) fn judge_commit(ledger: &Ledger, commit: &Commit<'_>) -> Vec<Finding> {
    if commit.resource != "pods" || commit.kind != ChangeKind::Modified {
        return Vec::new();
    }
    let waited = |pod: &&std::sync::Arc<Value>| pod.text(&["spec", "nodeName"]).is_empty();
    let Some(before) = commit.previous.filter(waited) else {
        return Vec::new();
    };
    let name = commit.object.text(&["spec", "nodeName"]);
    let Some(node) = ledger.nodes.get(name).filter(|_| is_work(before)) else {
        return Vec::new();
    };
    let label = |key: &str| node.label(key).map(ToOwned::to_owned);
    let none = |_: &str| BTreeSet::new();
    let broken = |seen| Rules::of(ledger, before, seen, &none).broken(&label);
    // Who chose the place may not have seen what has just happened.
    let (Some(why), Some(_)) = (broken(Seen::Now), broken(Seen::Before(commit.at))) else {
        return Vec::new();
    };
    let key = commit.key;
    let message = format!("pod {key} was bound to node {name}: {why}");
    let about = vec![subject("pods", key), subject("nodes", name)];
    vec![Finding::new(Invariant::Placed, message, about)]
}
