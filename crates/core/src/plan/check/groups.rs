//! Which pods a rule about other pods is about.

use std::collections::BTreeSet;

use crate::labels;
use crate::name::Name;
use crate::problem::{AffinityTerm, PodSpec, Problem};
use crate::requirement::Requirement;
use crate::requirements::Requirements;

/// A selector over pods in a set of namespaces, and the key whose domains matter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Term {
    pub(super) key: Name,
    pub(super) namespaces: BTreeSet<Name>,
    pub(super) wanted: Requirements,
}

impl Term {
    pub(super) fn selects(&self, spec: &PodSpec) -> bool {
        self.namespaces.contains(&spec.namespace) && self.wanted.satisfied_by(&spec.labels)
    }
}

/// An affinity term as the pod `owner` means it; `None` if it selects nothing.
pub(super) fn namespaced(problem: &Problem, owner: &PodSpec, term: &AffinityTerm) -> Option<Term> {
    let wanted = term.selector.as_ref()?.requirements().ok()?;
    let mut namespaces: BTreeSet<Name> = term.namespaces.iter().cloned().collect();
    if let Some(selector) = &term.namespace_selector {
        let all = problem.namespaces.iter();
        namespaces.extend(
            all.filter(|(_, labels)| selector.matches(labels))
                .map(|(name, _)| name.clone()),
        );
        // An empty selector means every namespace, also those that are not described.
        if selector.match_labels.is_empty() && selector.match_expressions.is_empty() {
            namespaces.insert(owner.namespace.clone());
            let nodes = problem.nodes.iter().flat_map(|node| &node.pods);
            namespaces.extend(
                problem
                    .pods
                    .iter()
                    .chain(nodes)
                    .map(|pod| pod.spec.namespace.clone()),
            );
        }
    } else if namespaces.is_empty() {
        namespaces.insert(owner.namespace.clone());
    }
    Some(Term {
        key: labels::canonical(&term.topology_key).into(),
        namespaces,
        wanted,
    })
}

/// The pods that required affinity of the pod `owner` asks for, by key: pods that match all its terms. One term that
/// selects nothing leaves none.
pub(super) fn company(problem: &Problem, owner: &PodSpec) -> BTreeSet<Term> {
    let terms: Option<Vec<Term>> = owner
        .affinity
        .iter()
        .map(|term| namespaced(problem, owner, term))
        .collect();
    let (mut wanted, mut shared) = (Requirements::new(), None);
    for term in terms.iter().flatten() {
        wanted.require_all(&term.wanted);
        shared = Some(match shared {
            None => term.namespaces.clone(),
            Some(names) => &names & &term.namespaces,
        });
    }
    let namespaces = match terms {
        Some(_) => shared.unwrap_or_default(),
        None => BTreeSet::new(),
    };
    let keys = owner.affinity.iter().map(|term| &term.topology_key);
    keys.map(|key| Term {
        key: labels::canonical(key).into(),
        namespaces: namespaces.clone(),
        wanted: wanted.clone(),
    })
    .collect()
}

/// The pods that a spread of `owner` counts: none without a selector, and its key must be there all the same. `None` if
/// the selector cannot be read.
pub(super) fn counted(owner: &PodSpec, spread: &crate::problem::Spread) -> Option<Term> {
    let mut namespaces = BTreeSet::new();
    let mut wanted = Requirements::new();
    if let Some(selector) = &spread.selector {
        wanted = selector.requirements().ok()?;
        namespaces.insert(owner.namespace.clone());
    }
    for key in &spread.match_label_keys {
        if let Some(value) = owner.labels.get(key) {
            wanted.require(key, &Requirement::is(value.clone()));
        }
    }
    Some(Term {
        key: labels::canonical(&spread.topology_key).into(),
        namespaces,
        wanted,
    })
}
