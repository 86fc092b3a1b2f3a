//! Sets of fields: who owns what.
//!
//! A tree of elements; a node is in the set itself, or only leads to others that are, or both (`.` in `FieldsV1`).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::element::Element;

/// A set of paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldSet {
    entries: BTreeMap<Element, Node>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    member: bool,
    below: FieldSet,
}

impl Node {
    fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

impl FieldSet {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.values().all(Node::is_empty)
    }

    /// Adds a path; the empty path, the whole object, belongs to nobody.
    pub(super) fn insert(&mut self, path: &[Element]) {
        let Some((first, rest)) = path.split_first() else {
            return;
        };
        if !self.entries.contains_key(first) {
            self.entries.insert(first.clone(), Node::default());
        }
        if let Some(node) = self.entries.get_mut(first) {
            if rest.is_empty() {
                node.member = true;
            } else {
                node.below.insert(rest);
            }
        }
    }

    /// Whether a direct child is itself in the set.
    pub(super) fn has(&self, element: &Element) -> bool {
        self.entries.get(element).is_some_and(|node| node.member)
    }

    /// What is in the set below a child.
    pub(super) fn below(&self, element: &Element) -> Option<&Self> {
        let below = &self.entries.get(element)?.below;
        (!below.is_empty()).then_some(below)
    }

    pub(super) fn union(&self, other: &Self) -> Self {
        let mut out = self.clone();
        for (element, node) in &other.entries {
            match out.entries.get_mut(element) {
                Some(mine) => {
                    mine.member |= node.member;
                    mine.below = mine.below.union(&node.below);
                }
                None => {
                    out.entries.insert(element.clone(), node.clone());
                }
            }
        }
        out
    }

    fn combined(&self, keep: impl Fn(&Element, &Node) -> Node) -> Self {
        let entries = self.entries.iter().filter_map(|(element, node)| {
            let node = keep(element, node);
            (!node.is_empty()).then(|| (element.clone(), node))
        });
        Self {
            entries: entries.collect(),
        }
    }

    pub(super) fn intersection(&self, other: &Self) -> Self {
        self.combined(|element, node| match other.entries.get(element) {
            Some(theirs) => Node {
                member: node.member && theirs.member,
                below: node.below.intersection(&theirs.below),
            },
            None => Node::default(),
        })
    }

    pub(super) fn difference(&self, other: &Self) -> Self {
        self.combined(|element, node| match other.entries.get(element) {
            Some(theirs) => Node {
                member: node.member && !theirs.member,
                below: node.below.difference(&theirs.below),
            },
            None => node.clone(),
        })
    }

    /// As difference, but a member of `other` takes everything below it along.
    pub(super) fn without_trees(&self, other: &Self) -> Self {
        self.combined(|element, node| match other.entries.get(element) {
            Some(theirs) if theirs.member => Node::default(),
            Some(theirs) => Node {
                member: node.member,
                below: node.below.without_trees(&theirs.below),
            },
            None => node.clone(),
        })
    }

    /// Also counts structure fields as members that only lead to members.
    ///
    /// `descend` gives what is below a step, and says whether the step is a named field of a structure.
    pub(super) fn with_named_fields<T: Copy>(
        &self,
        place: T,
        descend: &impl Fn(T, &Element) -> (T, bool),
    ) -> Self {
        let entries = self.entries.iter().map(|(element, node)| {
            let (below, named) = descend(place, element);
            let leads = !node.below.is_empty();
            let node = Node {
                member: node.member || (named && leads),
                below: node.below.with_named_fields(below, descend),
            };
            (element.clone(), node)
        });
        Self {
            entries: entries.collect(),
        }
    }

    /// All paths, members before what is below them, as the real library lists them.
    pub(super) fn paths(&self) -> Vec<Vec<Element>> {
        let mut out = Vec::new();
        self.collect(&mut Vec::new(), &mut out);
        out
    }

    fn collect(&self, prefix: &mut Vec<Element>, out: &mut Vec<Vec<Element>>) {
        for (element, _) in self.entries.iter().filter(|(_, node)| node.member) {
            let mut path = prefix.clone();
            path.push(element.clone());
            out.push(path);
        }
        for (element, node) in &self.entries {
            prefix.push(element.clone());
            node.below.collect(prefix, out);
            prefix.pop();
        }
    }

    /// Reads `FieldsV1`.
    pub(super) fn from_json(fields: &Value) -> Option<Self> {
        let mut set = Self::default();
        for (key, below) in fields.as_object()? {
            if key == "." {
                continue;
            }
            let element = Element::parse(key)?;
            let inner = below.as_object()?;
            let node = Node {
                member: inner.is_empty() || inner.contains_key("."),
                below: Self::from_json(below)?,
            };
            set.entries.insert(element, node);
        }
        Some(set)
    }

    /// Writes `FieldsV1`.
    pub(super) fn to_json(&self) -> Value {
        let mut out = Map::new();
        for (element, node) in &self.entries {
            if node.is_empty() {
                continue;
            }
            let mut below = node.below.to_json();
            if node.member
                && let Value::Object(below) = &mut below
                && !below.is_empty()
            {
                below.insert(".".to_owned(), Value::Object(Map::new()));
            }
            out.insert(element.serialize(), below);
        }
        Value::Object(out)
    }
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::needless_pass_by_value,
        reason = "helpers take json!() literals"
    )]

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn set(fields: Value) -> FieldSet {
        FieldSet::from_json(&fields).unwrap()
    }

    #[test]
    fn fields_v1_survives_a_round_trip() {
        let fields = json!({
            "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
            "f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:image": {}}}, "f:args": {"v:\"x\"": {}}},
        });
        assert_eq!(set(fields.clone()).to_json(), fields);
    }

    #[test]
    fn a_difference_leaves_what_is_below_and_a_tree_difference_does_not() {
        let all = set(json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}}));
        let a = set(json!({"f:a": {}}));
        assert_eq!(
            all.difference(&a).to_json(),
            json!({"f:a": {"f:b": {}}, "f:c": {}})
        );
        assert_eq!(all.without_trees(&a).to_json(), json!({"f:c": {}}));
    }

    fn sets() -> impl Strategy<Value = FieldSet> {
        let path = prop::collection::vec("[a-c]", 1..4);
        prop::collection::vec(path, 0..6).prop_map(|paths| {
            let mut set = FieldSet::default();
            for path in paths {
                let path: Vec<Element> = path.iter().map(|name| Element::field(name)).collect();
                set.insert(&path);
            }
            set
        })
    }

    proptest! {
        #[test]
        fn sets_obey_the_laws_of_sets(a in sets(), b in sets()) {
            let paths = |set: &FieldSet| -> std::collections::BTreeSet<_> { set.paths().into_iter().collect() };
            prop_assert_eq!(paths(&a.union(&b)), &paths(&a) | &paths(&b));
            prop_assert_eq!(paths(&a.intersection(&b)), &paths(&a) & &paths(&b));
            prop_assert_eq!(paths(&a.difference(&b)), &paths(&a) - &paths(&b));
            prop_assert_eq!(FieldSet::from_json(&a.to_json()).unwrap(), a);
        }
    }
}
