//! What a set of labels must look like, key by key.

use std::collections::BTreeMap;
use std::fmt;

use crate::labels;
use crate::name::{Labels, Name};
use crate::requirement::{Expression, Requirement, RequirementError};

/// Requirements by label key, all of which must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirements(BTreeMap<Name, Requirement>);

/// The first key on which two sides do not go together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Incompatible {
    /// The node side does not have the label at all.
    #[error("label {key:?} does not have known values")]
    Undefined {
        /// Label key.
        key: Name,
    },
    /// The two share no value.
    #[error("key {key}, {wanted} not in {offered}")]
    Disjoint {
        /// Label key.
        key: Name,
        /// What the pod side wants.
        wanted: Box<Requirement>,
        /// What the node side has.
        offered: Box<Requirement>,
    },
}

impl Requirements {
    /// No requirement.
    pub const fn new() -> Self {
        Requirements(BTreeMap::new())
    }

    /// Reads expressions; those on one key are combined.
    pub fn parse<'a>(
        expressions: impl IntoIterator<Item = &'a Expression>,
    ) -> Result<Self, RequirementError> {
        let mut all = Self::new();
        for expression in expressions {
            all.require(&expression.key, &Requirement::parse(expression)?);
        }
        Ok(all)
    }

    /// Exactly these labels.
    pub fn from_labels(given: &Labels) -> Self {
        let mut all = Self::new();
        for (key, value) in given {
            all.require(key, &Requirement::is(value.clone()));
        }
        all
    }

    /// Adds a requirement to what its key already has to satisfy.
    pub fn require(&mut self, key: &Name, requirement: &Requirement) {
        let canonical = labels::canonical(key);
        if let Some(present) = self.0.get_mut(canonical) {
            *present = present.intersection(requirement);
            return;
        }
        let key = if canonical == &**key {
            key.clone()
        } else {
            canonical.into()
        };
        self.0.insert(key, requirement.clone());
    }

    /// Adds all of `other`.
    pub fn require_all(&mut self, other: &Requirements) {
        for (key, requirement) in &other.0 {
            self.require(key, requirement);
        }
    }

    /// The requirement on a key.
    pub fn get(&self, key: &str) -> Option<&Requirement> {
        self.0.get(labels::canonical(key))
    }

    /// Keys and requirements, ordered by key.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &Requirement)> {
        self.0.iter()
    }

    /// The first key of which something is required that can never be.
    pub fn contradiction(&self) -> Option<&Name> {
        let mut all = self.0.iter();
        all.find(|(_, one)| one.is_impossible()).map(|(key, _)| key)
    }

    /// Whether anything is required.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a node whose labels satisfy `self` can satisfy `pod` too. A key that `self` leaves open is open to the
    /// pod where `may_be_undefined` says so; otherwise the node does not have it.
    ///
    /// karpenter: pkg/scheduling/requirements.go, `Compatible`
    pub fn compatible(
        &self,
        pod: &Requirements,
        may_be_undefined: impl Fn(&str) -> bool,
    ) -> Result<(), Incompatible> {
        for (key, wanted) in &pod.0 {
            match self.0.get(key) {
                Some(offered) if !offered.compatible(wanted) => {
                    return Err(Incompatible::Disjoint {
                        key: key.clone(),
                        wanted: Box::new(wanted.clone()),
                        offered: Box::new(offered.clone()),
                    });
                }
                None if !wanted.allows_absence() && !may_be_undefined(key) => {
                    return Err(Incompatible::Undefined { key: key.clone() });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether labels as they stand on a node satisfy every requirement.
    pub fn satisfied_by(&self, given: &Labels) -> bool {
        self.0
            .iter()
            .all(|(key, requirement)| match given.get(key) {
                Some(value) => requirement.allows(value),
                None => requirement.allows_absence(),
            })
    }
}

impl fmt::Display for Requirements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (key, requirement)) in self.0.iter().enumerate() {
            let comma = if position == 0 { "" } else { ", " };
            write!(f, "{comma}{key} {requirement}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requirement::Operator::{self, DoesNotExist, Exists, Gt, In, NotIn};

    fn wants(operator: Operator, values: &[&str]) -> Requirements {
        Requirements::parse(&[Expression::new("example.com/team", operator, values)]).unwrap()
    }

    #[test]
    fn a_custom_label_that_the_node_lacks_can_only_be_refused() {
        let node = Requirements::new();
        for (pod, fits) in [
            (wants(In, &["a"]), false),
            (wants(Exists, &[]), false),
            (wants(Gt, &["1"]), false),
            (wants(NotIn, &["a"]), true),
            (wants(DoesNotExist, &[]), true),
        ] {
            assert_eq!(
                node.compatible(&pod, labels::is_well_known).is_ok(),
                fits,
                "{pod}"
            );
        }
    }

    #[test]
    fn a_well_known_label_may_be_left_open_on_a_new_node() {
        let pod = Requirements::parse(&[Expression::new(labels::ZONE, In, &["a"])]).unwrap();
        assert!(
            Requirements::new()
                .compatible(&pod, labels::is_well_known)
                .is_ok()
        );
        assert_eq!(
            Requirements::new()
                .compatible(&pod, |_| false)
                .unwrap_err()
                .to_string(),
            r#"label "topology.kubernetes.io/zone" does not have known values"#
        );
    }

    #[test]
    fn two_expressions_on_one_key_must_both_hold() {
        let both = Requirements::parse(&[
            Expression::new("k", In, &["a", "b"]),
            Expression::new("k", NotIn, &["a"]),
        ])
        .unwrap();
        assert_eq!(both.to_string(), "k In [b]");
    }

    #[test]
    fn a_beta_label_and_its_stable_name_are_one_key() {
        let old =
            Requirements::parse(&[Expression::new("beta.kubernetes.io/arch", In, &["arm64"])])
                .unwrap();
        assert!(old.get(labels::ARCH).is_some());
    }
}
