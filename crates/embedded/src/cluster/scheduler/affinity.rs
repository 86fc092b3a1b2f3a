//! Node selectors and node affinity.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::cluster::fields::Fields as _;
use crate::selector::{Operator, Requirement};

/// One node selector term: all its requirements must hold. A term without any matches nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NodeTerm {
    labels: Vec<Requirement>,
    fields: Vec<Requirement>,
    /// A requirement that could not be read makes the whole term match nothing.
    broken: bool,
}

impl NodeTerm {
    /// Reads a `NodeSelectorTerm`.
    pub(crate) fn read(term: &Value) -> Self {
        let mut out = Self::default();
        for (path, into) in [
            ("matchExpressions", &mut out.labels),
            ("matchFields", &mut out.fields),
        ] {
            for expression in term.items(&[path]) {
                match Requirement::read(expression) {
                    Some(requirement) => into.push(requirement),
                    None => out.broken = true,
                }
            }
        }
        out
    }

    /// Whether a node with this name and these labels matches.
    pub(crate) fn matches(&self, name: &str, labels: &BTreeMap<String, String>) -> bool {
        !self.broken
            && !self.is_empty()
            && self
                .labels
                .iter()
                .all(|one| one.holds(labels.get(&one.key).map(String::as_str)))
            && self
                .fields
                .iter()
                .all(|one| one.key == "metadata.name" && one.holds(Some(name)))
    }

    fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// The only node names that can match, where the term pins the name.
    fn pinned_names(&self) -> Option<&[String]> {
        self.fields
            .iter()
            .find(|one| one.key == "metadata.name" && one.operator == Operator::In)
            .map(|one| one.values.as_slice())
    }
}

/// Terms of which one must match, as in a `PersistentVolume`'s or a pod's required node affinity.
pub(crate) fn any_term_matches(
    terms: &[NodeTerm],
    name: &str,
    labels: &BTreeMap<String, String>,
) -> bool {
    terms.iter().any(|term| term.matches(name, labels))
}

/// Reads `nodeSelectorTerms`.
pub(crate) fn read_terms(selector: &Value) -> Vec<NodeTerm> {
    selector
        .items(&["nodeSelectorTerms"])
        .iter()
        .map(NodeTerm::read)
        .collect()
}

/// Everything a pod says about the nodes it wants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NodeAffinity {
    selector: Vec<(String, String)>,
    required: Option<Vec<NodeTerm>>,
    /// Weight and term of each preference.
    pub(crate) preferred: Vec<(i64, NodeTerm)>,
}

impl NodeAffinity {
    /// Reads `spec.nodeSelector` and `spec.affinity.nodeAffinity`.
    pub(crate) fn read(pod: &Value) -> Self {
        let selector = pod.at(&["spec", "nodeSelector"]).as_object();
        let affinity = pod.at(&["spec", "affinity", "nodeAffinity"]);
        let required = affinity.at(&["requiredDuringSchedulingIgnoredDuringExecution"]);
        Self {
            selector: selector
                .into_iter()
                .flatten()
                .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()))
                .collect(),
            required: required.is_object().then(|| read_terms(required)),
            preferred: affinity
                .items(&["preferredDuringSchedulingIgnoredDuringExecution"])
                .iter()
                .map(|term| {
                    let weight = term.int(&["weight"]).unwrap_or_default();
                    (weight, NodeTerm::read(term.at(&["preference"])))
                })
                .collect(),
        }
    }

    /// Whether a node satisfies the selector and the required terms.
    pub(crate) fn matches(&self, name: &str, labels: &BTreeMap<String, String>) -> bool {
        self.selector
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value))
            && self
                .required
                .as_ref()
                .is_none_or(|terms| any_term_matches(terms, name, labels))
    }

    /// The only nodes worth looking at, where every required term pins the name (as daemon pods do).
    pub(crate) fn pinned_names(&self) -> Option<Vec<&str>> {
        let terms = self.required.as_ref()?;
        let mut names = Vec::new();
        for term in terms {
            names.extend(term.pinned_names()?.iter().map(String::as_str));
        }
        (!names.is_empty()).then_some(names)
    }

    /// The weight of all preferences that a node satisfies.
    pub(crate) fn preference(&self, name: &str, labels: &BTreeMap<String, String>) -> i64 {
        let met = self
            .preferred
            .iter()
            .filter(|(_, term)| term.matches(name, labels));
        met.map(|(weight, _)| weight).sum()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn matches(spec: &Value, name: &str, labels: &[(&str, &str)]) -> bool {
        let labels = labels
            .iter()
            .map(|&(k, v)| (k.to_owned(), v.to_owned()))
            .collect();
        NodeAffinity::read(&json!({"spec": spec})).matches(name, &labels)
    }

    fn required(terms: &Value) -> Value {
        json!({"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
        }}})
    }

    #[test]
    fn terms_are_alternatives_and_expressions_in_one_are_not() {
        let spec = required(&json!([
            {"matchExpressions": [
                {"key": "zone", "operator": "In", "values": ["a"]},
                {"key": "gpu", "operator": "Exists"},
            ]},
            {"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["8"]}]},
        ]));
        assert!(matches(&spec, "n", &[("zone", "a"), ("gpu", "")]));
        assert!(!matches(&spec, "n", &[("zone", "a")]));
        assert!(matches(&spec, "n", &[("cores", "9")]));
        assert!(!matches(&spec, "n", &[("cores", "8")]));
    }

    #[test]
    fn an_empty_list_of_terms_and_an_empty_term_match_nothing() {
        assert!(!matches(&required(&json!([])), "n", &[]));
        assert!(!matches(&required(&json!([{}])), "n", &[]));
    }

    #[test]
    fn a_pinned_name_is_both_matched_and_reported() {
        let spec = required(&json!([
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
        ]));
        assert!(matches(&spec, "n1", &[]));
        assert!(!matches(&spec, "n2", &[]));
        let affinity = NodeAffinity::read(&json!({"spec": spec}));
        assert_eq!(affinity.pinned_names(), Some(vec!["n1"]));
    }

    #[test]
    fn the_node_selector_needs_every_label() {
        let spec = json!({"nodeSelector": {"a": "1", "b": "2"}});
        assert!(matches(&spec, "n", &[("a", "1"), ("b", "2"), ("c", "3")]));
        assert!(!matches(&spec, "n", &[("a", "1")]));
    }
}
