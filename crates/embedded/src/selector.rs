//! Label selectors, compiled once and matched often: as objects carry them (`matchLabels` and `matchExpressions`).
//! [`crate::api`] reads those of queries into the same requirements.

use std::collections::BTreeMap;

use serde_json::Value;

/// How one requirement compares a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    /// One of the values.
    In,
    /// None of the values.
    NotIn,
    /// Any value.
    Exists,
    /// No value.
    DoesNotExist,
    /// A number above the value.
    Gt,
    /// A number below the value.
    Lt,
}

impl Operator {
    /// The operator that an API object names.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "In" => Self::In,
            "NotIn" => Self::NotIn,
            "Exists" => Self::Exists,
            "DoesNotExist" => Self::DoesNotExist,
            "Gt" => Self::Gt,
            "Lt" => Self::Lt,
            _ => return None,
        })
    }
}

/// One requirement on one label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirement {
    /// Key of the label.
    pub key: String,
    /// How it is compared.
    pub operator: Operator,
    /// With what.
    pub values: Vec<String>,
}

impl Requirement {
    /// Whether a label's value (or its absence) satisfies the requirement.
    pub fn holds(&self, value: Option<&str>) -> bool {
        match self.operator {
            Operator::In => value.is_some_and(|value| self.values.iter().any(|one| one == value)),
            // A label that is not there is "not in" any set, as in apimachinery.
            Operator::NotIn => {
                value.is_none_or(|value| !self.values.iter().any(|one| one == value))
            }
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Gt | Operator::Lt => {
                let bound = self
                    .values
                    .first()
                    .and_then(|bound| bound.parse::<i64>().ok());
                let value = value.and_then(|value| value.parse::<i64>().ok());
                match (value, bound) {
                    (Some(value), Some(bound)) if self.operator == Operator::Gt => value > bound,
                    (Some(value), Some(bound)) => value < bound,
                    _ => false,
                }
            }
        }
    }

    /// The requirement that an API object (`key`, `operator`, `values`) states.
    pub fn read(expression: &Value) -> Option<Self> {
        Some(Self {
            key: expression["key"].as_str().unwrap_or_default().to_owned(),
            operator: Operator::parse(expression["operator"].as_str()?)?,
            values: expression["values"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|value| value.as_str().map(str::to_owned))
                .collect(),
        })
    }
}

/// A compiled label selector.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Selector {
    /// Matches no object: a selector that is absent or cannot be read.
    Nothing,
    /// Matches objects that meet every requirement; all objects where there is none.
    All(Vec<Requirement>),
}

impl Selector {
    /// Objects that meet every requirement.
    pub fn all(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort();
        Self::All(requirements)
    }

    /// Compiles a `LabelSelector`; `null` selects nothing and `{}` everything.
    pub fn read(selector: &Value) -> Self {
        if !selector.is_object() {
            return Self::Nothing;
        }
        let mut requirements = Vec::new();
        if let Some(labels) = selector["matchLabels"].as_object() {
            for (key, value) in labels {
                requirements.push(Requirement {
                    key: key.clone(),
                    operator: Operator::In,
                    values: value.as_str().map(str::to_owned).into_iter().collect(),
                });
            }
        }
        for expression in selector["matchExpressions"]
            .as_array()
            .into_iter()
            .flatten()
        {
            match Requirement::read(expression) {
                Some(requirement) => requirements.push(requirement),
                None => return Self::Nothing,
            }
        }
        Self::all(requirements)
    }

    /// Whether there is nothing to match: absent, or without requirements.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Nothing) || matches!(self, Self::All(list) if list.is_empty())
    }

    /// Whether labels (a JSON map, or null) match.
    pub fn matches(&self, labels: &Value) -> bool {
        self.matches_by(|key| labels.get(key).and_then(Value::as_str))
    }

    /// Whether labels held as a map match.
    pub fn matches_map(&self, labels: &BTreeMap<String, String>) -> bool {
        self.matches_by(|key| labels.get(key).map(String::as_str))
    }

    /// Adds a requirement (pod `matchLabelKeys`); a selector of nothing stays one.
    #[must_use]
    pub fn and(mut self, requirement: Requirement) -> Self {
        if let Self::All(list) = &mut self {
            list.push(requirement);
            list.sort();
        }
        self
    }

    fn matches_by<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        match self {
            Self::Nothing => false,
            Self::All(list) => list.iter().all(|one| one.holds(label(&one.key))),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn absent_selects_nothing_and_empty_selects_everything() {
        assert!(!Selector::read(&Value::Null).matches(&json!({"a": "b"})));
        assert!(Selector::read(&json!({})).matches(&Value::Null));
        assert!(Selector::read(&json!({})).is_empty());
    }

    #[test]
    fn every_operator_reads_present_and_absent_labels() {
        let holds = |operator, values: &[&str], value| {
            Requirement {
                key: "k".into(),
                operator,
                values: values.iter().map(|&v| v.to_owned()).collect(),
            }
            .holds(value)
        };
        assert!(holds(Operator::In, &["a"], Some("a")));
        assert!(!holds(Operator::In, &["a"], None));
        assert!(holds(Operator::NotIn, &["a"], None));
        assert!(!holds(Operator::NotIn, &["a"], Some("a")));
        assert!(holds(Operator::Exists, &[], Some("")));
        assert!(holds(Operator::DoesNotExist, &[], None));
        assert!(holds(Operator::Gt, &["3"], Some("4")));
        assert!(!holds(Operator::Gt, &["3"], Some("x")));
        assert!(holds(Operator::Lt, &["3"], Some("2")));
        assert!(!holds(Operator::Lt, &["3"], None));
    }

    #[test]
    fn expressions_and_labels_must_all_hold() {
        let selector = Selector::read(&json!({
            "matchLabels": {"app": "web"},
            "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["db"]}],
        }));
        assert!(selector.matches(&json!({"app": "web"})));
        assert!(!selector.matches(&json!({"app": "web", "tier": "db"})));
        assert!(!selector.matches(&json!({"tier": "front"})));
    }
}
