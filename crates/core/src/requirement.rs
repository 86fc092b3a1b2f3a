//! What may stand in one label: a set of values, or everything but a set, within numeric bounds.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::name::Name;

/// An operator as users write it.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::Display,
    strum::EnumString,
)]
pub enum Operator {
    /// One of the values.
    In,
    /// None of the values, or no label at all.
    NotIn,
    /// Any value.
    Exists,
    /// No such label.
    DoesNotExist,
    /// An integer above the value.
    Gt,
    /// An integer below the value.
    Lt,
    /// An integer not below the value.
    Gte,
    /// An integer not above the value.
    Lte,
}

/// A requirement as users write it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Expression {
    /// Label key.
    pub key: Name,
    /// What the values mean.
    pub operator: Operator,
    /// Values; one integer for the comparing operators, none for `Exists` and `DoesNotExist`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Name>,
    /// How many different values the machine types left to choose from must offer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_values: Option<u32>,
}

impl Expression {
    /// `key operator values`.
    pub fn new(key: &str, operator: Operator, values: &[&str]) -> Self {
        let values = values.iter().map(|value| Name::from(*value)).collect();
        Expression {
            key: key.into(),
            operator,
            values,
            min_values: None,
        }
    }
}

/// Why an expression means nothing.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum RequirementError {
    /// `Gt` and its kin compare with exactly one integer.
    #[error("{key} {operator} needs one integer in values, got {values:?}")]
    NotOneInteger {
        /// Label key.
        key: Name,
        /// The operator.
        operator: Operator,
        /// What stood in `values`.
        values: Vec<Name>,
    },
}

/// The values that a label may have, and whether it may be missing.
///
/// Karpenter takes the empty set for "no such label"; here they are two, as Kubernetes binds no pod whose conditions
/// contradict each other. Both are written the same way.
/// karpenter: pkg/scheduling/requirement.go
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirement {
    /// `values` are what is excluded.
    complement: bool,
    values: BTreeSet<Name>,
    gte: Option<i64>,
    lte: Option<i64>,
    /// A label that is not there will do.
    absence: bool,
    min_values: Option<u32>,
}

impl Requirement {
    /// Reads an expression.
    pub fn parse(expression: &Expression) -> Result<Self, RequirementError> {
        let Expression {
            key,
            operator,
            values,
            min_values,
        } = expression;
        let bound = || match values.as_slice() {
            [value] => value.parse::<i64>().ok(),
            _ => None,
        };
        let comparing = |make: fn(i64) -> Requirement| {
            bound()
                .map(make)
                .ok_or_else(|| RequirementError::NotOneInteger {
                    key: key.clone(),
                    operator: *operator,
                    values: values.clone(),
                })
        };
        let mut requirement = match operator {
            Operator::In => Self::one_of(values.iter().cloned()),
            Operator::NotIn => Self::none_of(values.iter().cloned()),
            Operator::Exists => Self::exists(),
            Operator::DoesNotExist => Self::does_not_exist(),
            Operator::Gt => comparing(|n| {
                n.checked_add(1)
                    .map_or_else(Self::impossible, Self::at_least)
            })?,
            Operator::Lt => comparing(|n| {
                n.checked_sub(1)
                    .map_or_else(Self::impossible, Self::at_most)
            })?,
            Operator::Gte => comparing(Self::at_least)?,
            Operator::Lte => comparing(Self::at_most)?,
        };
        requirement.min_values = *min_values;
        Ok(requirement)
    }

    fn set(complement: bool, values: BTreeSet<Name>, absence: bool) -> Self {
        Requirement {
            complement,
            values,
            gte: None,
            lte: None,
            absence,
            min_values: None,
        }
    }

    /// One of these values.
    pub fn one_of(values: impl IntoIterator<Item = Name>) -> Self {
        Self::set(false, values.into_iter().collect(), false)
    }

    /// Exactly this value.
    pub fn is(value: Name) -> Self {
        Self::one_of([value])
    }

    /// Anything but these values, or no label.
    pub fn none_of(values: impl IntoIterator<Item = Name>) -> Self {
        Self::set(true, values.into_iter().collect(), true)
    }

    /// Any value.
    pub fn exists() -> Self {
        Self::set(true, BTreeSet::new(), false)
    }

    /// No such label.
    pub fn does_not_exist() -> Self {
        Self::set(false, BTreeSet::new(), true)
    }

    /// What neither a value nor the lack of one satisfies.
    pub fn impossible() -> Self {
        Self::set(false, BTreeSet::new(), false)
    }

    /// An integer from `n` on.
    pub fn at_least(n: i64) -> Self {
        Requirement {
            gte: Some(n),
            ..Self::exists()
        }
    }

    /// An integer up to `n`.
    pub fn at_most(n: i64) -> Self {
        Requirement {
            lte: Some(n),
            ..Self::exists()
        }
    }

    /// The operator that says the same, bounds aside.
    pub fn operator(&self) -> Operator {
        match (self.complement, self.values.is_empty()) {
            (true, false) => Operator::NotIn,
            (true, true) => Operator::Exists,
            (false, false) => Operator::In,
            (false, true) => Operator::DoesNotExist,
        }
    }

    /// The values allowed, if they can be listed.
    pub fn listed(&self) -> Option<&BTreeSet<Name>> {
        (!self.complement).then_some(&self.values)
    }

    /// The only value allowed.
    pub fn single(&self) -> Option<&Name> {
        self.listed()
            .filter(|values| values.len() == 1)
            .and_then(BTreeSet::first)
    }

    /// How many different values the types left must offer.
    pub fn min_values(&self) -> Option<u32> {
        self.min_values
    }

    /// Whether a label that is not there satisfies this.
    pub fn allows_absence(&self) -> bool {
        self.absence
    }

    /// Whether neither a value nor the lack of one satisfies this.
    pub fn is_impossible(&self) -> bool {
        !self.absence && self.some_value().is_none()
    }

    /// A value that satisfies this: the first of those listed, or the smallest number that nothing excludes.
    pub fn some_value(&self) -> Option<Name> {
        if !self.complement {
            return self.values.first().cloned();
        }
        let (first, step) = match (self.gte, self.lte) {
            (Some(least), _) => (least, 1),
            (None, Some(most)) => (most.min(0), -1),
            (None, None) => (0, 1),
        };
        let numbers = std::iter::successors(Some(first), |n: &i64| n.checked_add(step));
        numbers
            .take(self.values.len() + 1)
            .map(|n| Name::from(n.to_string()))
            .find(|value| self.allows(value))
    }

    /// Whether a label with this value satisfies this.
    pub fn allows(&self, value: &str) -> bool {
        self.values.contains(value) != self.complement && self.within_bounds(value)
    }

    fn within_bounds(&self, value: &str) -> bool {
        if self.gte.is_none() && self.lte.is_none() {
            return true;
        }
        value.parse::<i64>().is_ok_and(|n| {
            self.gte.is_none_or(|least| least <= n) && self.lte.is_none_or(|most| n <= most)
        })
    }

    /// What satisfies both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let gte = self.gte.max(other.gte);
        let lte = match (self.lte, other.lte) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let min_values = self.min_values.max(other.min_values);
        if let (Some(least), Some(most)) = (gte, lte)
            && least > most
        {
            return Requirement {
                min_values,
                ..Self::impossible()
            };
        }
        let complement = self.complement && other.complement;
        let values: BTreeSet<Name> = match (self.complement, other.complement) {
            (true, true) => self.values.union(&other.values).cloned().collect(),
            (true, false) => other.values.difference(&self.values).cloned().collect(),
            (false, true) => self.values.difference(&other.values).cloned().collect(),
            (false, false) => self.values.intersection(&other.values).cloned().collect(),
        };
        let mut result = Requirement {
            complement,
            values,
            gte,
            lte,
            absence: self.absence && other.absence,
            min_values,
        };
        if gte.is_some() || lte.is_some() {
            let kept = std::mem::take(&mut result.values);
            result.values = kept
                .into_iter()
                .filter(|value| result.within_bounds(value))
                .collect();
        }
        if !complement {
            (result.gte, result.lte) = (None, None);
        }
        result
    }

    /// Whether some label value satisfies both.
    pub fn intersects(&self, other: &Self) -> bool {
        let both = self.intersection(other);
        both.complement || !both.values.is_empty()
    }

    /// Whether a node side (`self`) and a pod side (`other`) go together: they share a value, or both are content
    /// with no label at all.
    pub fn compatible(&self, other: &Self) -> bool {
        self.intersects(other) || (self.absence && other.absence)
    }

    /// Whether the operator alone would let the label be missing.
    fn must_be_said_to_exist(&self) -> bool {
        !self.absence && matches!(self.operator(), Operator::NotIn | Operator::DoesNotExist)
    }

    /// As users would write it. What no single entry says takes more than one: exclusions beside a bound, or of a label
    /// that must be there.
    pub fn expressions(&self, key: &Name) -> Vec<Expression> {
        let entry = |operator, values| Expression {
            key: key.clone(),
            operator,
            values,
            min_values: self.min_values,
        };
        let number = |n: i64| vec![Name::from(n.to_string())];
        let mut entries = Vec::new();
        entries.extend(self.gte.map(|n| entry(Operator::Gte, number(n))));
        entries.extend(self.lte.map(|n| entry(Operator::Lte, number(n))));
        if entries.is_empty() && self.must_be_said_to_exist() {
            entries.push(entry(Operator::Exists, Vec::new()));
        }
        if entries.is_empty() || !self.complement || !self.values.is_empty() {
            entries.push(entry(
                self.operator(),
                self.values.iter().cloned().collect(),
            ));
        }
        entries
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = || {
            self.values
                .iter()
                .map(AsRef::as_ref)
                .collect::<Vec<&str>>()
                .join(", ")
        };
        match self.operator() {
            Operator::In => write!(f, "In [{}]", values())?,
            Operator::NotIn => write!(f, "NotIn [{}]", values())?,
            other => write!(f, "{other}")?,
        }
        if let Some(least) = self.gte {
            write!(f, " >={least}")?;
        }
        if let Some(most) = self.lte {
            write!(f, " <={most}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Requirement {
        let (operator, values) = text.split_once(' ').unwrap_or((text, ""));
        let values: Vec<&str> = values
            .split(',')
            .filter(|value| !value.is_empty())
            .collect();
        Requirement::parse(&Expression::new("key", operator.parse().unwrap(), &values)).unwrap()
    }

    /// Answers recorded from Karpenter.
    #[test]
    fn intersection_and_compatibility_agree_with_karpenter() {
        for (a, b, both, compatible) in [
            ("Exists", "DoesNotExist", "DoesNotExist", false),
            ("DoesNotExist", "DoesNotExist", "DoesNotExist", true),
            ("DoesNotExist", "NotIn 1", "DoesNotExist", true),
            ("DoesNotExist", "Gt 1", "DoesNotExist", false),
            ("DoesNotExist", "Gte 9", "DoesNotExist", false),
            ("DoesNotExist", "Lt 5", "DoesNotExist", false),
            ("DoesNotExist", "In a", "DoesNotExist", false),
            ("In 1,2,9", "NotIn 1", "In [2, 9]", true),
            ("In 1,2,9", "Gt 1", "In [2, 9]", true),
            ("In 1,2,9", "Lte 2", "In [1, 2]", true),
            ("In a", "Gt 1", "DoesNotExist", false),
            ("In 1,2,9", "In a", "DoesNotExist", false),
            ("In a", "NotIn a", "DoesNotExist", false),
            ("NotIn 1", "NotIn a", "NotIn [1, a]", true),
            ("NotIn 1", "Gt 1", "Exists >=2", true),
            ("NotIn 1", "Lt 5", "NotIn [1] <=4", true),
            ("NotIn a", "Gte 9", "Exists >=9", true),
            ("Gt 1", "Lt 5", "Exists >=2 <=4", true),
            ("Lt 5", "Gte 9", "DoesNotExist", false),
        ] {
            let (a, b) = (read(a), read(b));
            assert_eq!(a.intersection(&b).to_string(), both, "{a} and {b}");
            assert_eq!(b.intersection(&a).to_string(), both, "{b} and {a}");
            assert_eq!(a.compatible(&b), compatible, "{a} with {b}");
            assert_eq!(b.compatible(&a), compatible, "{b} with {a}");
        }
    }

    #[test]
    fn exclusions_beside_a_bound_are_written_out() {
        let both = read("NotIn 1").intersection(&read("Lt 5"));
        let written: Vec<String> = both
            .expressions(&"key".into())
            .iter()
            .map(|e| format!("{} {:?}", e.operator, e.values))
            .collect();
        assert_eq!(written, [r#"Lte ["4"]"#, r#"NotIn ["1"]"#]);
    }

    #[test]
    fn a_label_that_one_of_two_wants_to_exist_must_exist() {
        for (a, b, absence) in [
            ("Exists", "NotIn 1", false),
            ("NotIn 1", "Lt 5", false),
            ("NotIn 1", "NotIn a", true),
            ("NotIn 1", "DoesNotExist", true),
            ("In a", "In b", false),
            ("Exists", "DoesNotExist", false),
        ] {
            let (a, b) = (read(a), read(b));
            for both in [a.intersection(&b), b.intersection(&a)] {
                assert_eq!(both.allows_absence(), absence, "{a} and {b}");
                let written = both.expressions(&"key".into());
                let again = written.iter().map(|one| Requirement::parse(one).unwrap());
                let again = again.reduce(|a, b| a.intersection(&b));
                assert_eq!(again, Some(both), "{a} and {b}");
            }
        }
    }

    #[test]
    fn a_value_is_found_wherever_there_is_one() {
        for (text, value) in [
            ("In b,a", Some("a")),
            ("Exists", Some("0")),
            ("NotIn 0,1", Some("2")),
            ("Gte 100000", Some("100000")),
            ("Lt 0", Some("-1")),
            ("Lt 9", Some("0")),
            ("DoesNotExist", None),
        ] {
            assert_eq!(read(text).some_value().as_deref(), value, "{text}");
        }
        let between = read("Gte 5").intersection(&read("Lte 6"));
        let left = between.intersection(&read("NotIn 5"));
        assert_eq!(left.some_value().as_deref(), Some("6"));
        let none = left.intersection(&read("NotIn 6"));
        assert!(none.is_impossible() && !left.is_impossible());
        assert!(!read("DoesNotExist").is_impossible());
        assert!(read("In a").intersection(&read("In b")).is_impossible());
    }

    #[test]
    fn bounds_admit_integers_only() {
        let some = read("Gte 2");
        assert!(some.allows("2") && !some.allows("1") && !some.allows("two"));
        assert!(!read("Lt 0").allows("0"));
    }

    #[test]
    fn beyond_the_largest_integer_there_is_nothing() {
        for beyond in [format!("Gt {}", i64::MAX), format!("Lt {}", i64::MIN)] {
            assert_eq!(read(&beyond), Requirement::impossible());
        }
    }

    #[test]
    fn a_comparison_without_one_integer_is_refused() {
        for values in [vec![], vec!["x"], vec!["1", "2"]] {
            let error =
                Requirement::parse(&Expression::new("cores", Operator::Gt, &values)).unwrap_err();
            assert!(
                error.to_string().starts_with("cores Gt needs one integer"),
                "{error}"
            );
        }
    }
}
