//! Selectors over labels, as pod affinity, topology spread and disruption budgets use them.

use serde::{Deserialize, Serialize};

use crate::name::{Labels, Name};
use crate::requirement::{Expression, RequirementError};
use crate::requirements::Requirements;

/// Which pods are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LabelSelector {
    /// Labels that must be equal.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub match_labels: Labels,
    /// Further conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<Expression>,
}

impl LabelSelector {
    /// Selects what carries this one label.
    pub fn label(key: &str, value: &str) -> Self {
        let match_labels = Labels::from([(Name::from(key), Name::from(value))]);
        LabelSelector {
            match_labels,
            match_expressions: Vec::new(),
        }
    }

    /// The selector as requirements, for repeated matching.
    pub fn requirements(&self) -> Result<Requirements, RequirementError> {
        let mut all = Requirements::parse(&self.match_expressions)?;
        all.require_all(&Requirements::from_labels(&self.match_labels));
        Ok(all)
    }

    /// Whether labels are selected. An empty selector selects everything; a malformed one nothing.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.requirements()
            .is_ok_and(|all| all.satisfied_by(labels))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requirement::Operator;

    #[test]
    fn labels_and_expressions_must_all_hold() {
        let mut selector = LabelSelector::label("app", "web");
        selector
            .match_expressions
            .push(Expression::new("tier", Operator::NotIn, &["test"]));
        let labels = |tier: &str| {
            Labels::from([
                ("app".into(), "web".into()),
                ("tier".into(), Name::from(tier)),
            ])
        };
        assert!(selector.matches(&labels("prod")));
        assert!(!selector.matches(&labels("test")));
        assert!(LabelSelector::default().matches(&Labels::new()));
    }
}
