//! What is wrong with an object, field by field.
//!
//! Most mistakes are refused at admission by the rules in the CRDs. These checks are for what got past them: objects
//! that were stored under the original CRDs, which are laxer, and relations that a schema cannot express. Every
//! message names the field, the value and the way out.

use std::collections::BTreeSet;
use std::fmt;

use joiner_core::requirement::Requirement;

use crate::scheduling::{NodeSelectorRequirement, Operator, Taint};
use crate::text::Quantity;

/// One field that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Path of the field, such as `spec.disruption.budgets[1].nodes`.
    pub field: String,
    /// What is wrong with it and what to write instead.
    pub problem: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}

/// Objects that can be checked.
pub trait Validate {
    /// Everything that is wrong, in the order of the fields; empty if nothing is.
    fn validate(&self) -> Vec<Violation>;
}

/// Collects violations.
#[derive(Default)]
pub(crate) struct Check(Vec<Violation>);

impl Check {
    /// Notes why a value could not be read, if so.
    pub(crate) fn read<T, E: fmt::Display>(
        &mut self,
        field: &str,
        value: Result<T, E>,
    ) -> Option<T> {
        match value {
            Ok(value) => Some(value),
            Err(error) => {
                self.fail(field, error.to_string());
                None
            }
        }
    }

    /// A limit: a quantity that is not negative.
    pub(crate) fn limit(&mut self, field: &str, quantity: &Quantity) {
        let negative = self
            .read(field, quantity.milli())
            .is_some_and(|amount| amount < 0);
        self.that(!negative, field, || {
            format!(
                "{quantity} is negative and would allow nothing: write 0 or more, or leave it out"
            )
        });
    }

    /// Notes a problem unless `holds`.
    pub(crate) fn that(&mut self, holds: bool, field: &str, problem: impl FnOnce() -> String) {
        if !holds {
            self.fail(field, problem());
        }
    }

    /// Notes a problem.
    pub(crate) fn fail(&mut self, field: &str, problem: String) {
        self.0.push(Violation {
            field: field.to_owned(),
            problem,
        });
    }

    /// Everything noted.
    pub(crate) fn done(self) -> Vec<Violation> {
        self.0
    }

    /// Labels that a node can have and that are not ours to give away.
    pub(crate) fn labels<'a>(
        &mut self,
        field: &str,
        labels: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) {
        for (key, value) in labels {
            let field = format!("{field}[{key}]");
            self.label_key(&field, key);
            self.that(is_label_value(value), &field, || {
                format!("{value:?} is not a label value: at most 63 letters, digits, dots, dashes and underscores, beginning and ending with a letter or digit")
            });
        }
    }

    /// A label key that may be asked for or given.
    fn label_key(&mut self, field: &str, key: &str) {
        self.that(is_qualified_name(key), field, || {
            format!("{key:?} is not a label key: write name or domain/name")
        });
        self.that(!is_restricted(key), field, || {
            format!("{key:?} is set by Joiner itself: leave it out")
        });
    }

    /// Requirements of a pool: they mean something and are not about our own bookkeeping.
    pub(crate) fn requirements(&mut self, field: &str, requirements: &[NodeSelectorRequirement]) {
        for (index, requirement) in requirements.iter().enumerate() {
            self.label_key(&format!("{field}[{index}].key"), &requirement.key);
        }
        self.expressions(field, requirements);
    }

    /// Requirements on any label: they mean something.
    pub(crate) fn expressions(&mut self, field: &str, requirements: &[NodeSelectorRequirement]) {
        for (index, requirement) in requirements.iter().enumerate() {
            let field = format!("{field}[{index}]");
            self.read(&field, Requirement::parse(&requirement.to_expression()));
            let empty = requirement.operator == Operator::In && requirement.values.is_empty();
            self.that(!empty, &format!("{field}.values"), || {
                "is empty, so that nothing can be in it: list values, or use Exists".to_owned()
            });
        }
    }

    /// Taints that can stand beside each other on one node.
    pub(crate) fn taints(&mut self, lists: [(&str, &[Taint]); 2]) {
        let mut seen = BTreeSet::new();
        for (field, taints) in lists {
            for (index, taint) in taints.iter().enumerate() {
                let field = format!("{field}[{index}]");
                self.that(is_qualified_name(&taint.key), &field, || {
                    format!(
                        "{:?} is not a taint key: write name or domain/name",
                        taint.key
                    )
                });
                let value = taint.value.as_deref().unwrap_or_default();
                self.that(is_label_value(value), &field, || {
                    format!("{value:?} is not a taint value: at most 63 letters, digits, dots, dashes and underscores")
                });
                self.that(seen.insert((&taint.key, taint.effect)), &field, || {
                    format!(
                        "{:?} with effect {:?} is there already: a node has each pair of key and effect once",
                        taint.key, taint.effect
                    )
                });
            }
        }
    }
}

/// Labels that Karpenter's own bookkeeping lives in.
fn is_restricted(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let ours = domain == "karpenter.sh" || domain.ends_with(".karpenter.sh");
    (ours && key != "karpenter.sh/capacity-type") || key == "kubernetes.io/hostname"
}

fn is_name(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let ends = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && ends(bytes.first())
        && ends(bytes.last())
        && bytes.iter().all(|b| inner(*b))
}

fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_name(text)
}

fn is_qualified_name(text: &str) -> bool {
    match text.split_once('/') {
        None => is_name(text),
        Some((domain, name)) => {
            let part = |part: &str| {
                part.bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
                    && !part.is_empty()
                    && !part.starts_with('-')
                    && !part.ends_with('-')
            };
            domain.len() <= 253 && domain.split('.').all(part) && is_name(name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduling::TaintEffect;

    fn problems(check: Check) -> Vec<String> {
        check.done().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn names_are_what_kubernetes_calls_names() {
        for good in [
            "a",
            "team",
            "a.b_c-d",
            "example.com/team",
            "nvidia.com/gpu.present",
        ] {
            assert!(is_qualified_name(good), "{good}");
        }
        for bad in [
            "",
            "-a",
            "a-",
            "a b",
            "Example.com/x",
            "/x",
            "x/",
            "a..b/x",
            "a/b/c",
            &"x".repeat(64),
        ] {
            assert!(!is_qualified_name(bad), "{bad}");
        }
    }

    #[test]
    fn labels_of_our_own_bookkeeping_are_refused_by_name() {
        let mut check = Check::default();
        let labels = [
            "karpenter.sh/nodepool",
            "x.karpenter.sh/y",
            "kubernetes.io/hostname",
            "karpenter.sh/capacity-type",
        ]
        .map(|key| (key.to_owned(), "v".to_owned()));
        check.labels(
            "spec.labels",
            labels.iter().map(|(key, value)| (key, value)),
        );
        let problems = problems(check);
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert!(problems[0].starts_with("spec.labels[karpenter.sh/nodepool]: "));
    }

    #[test]
    fn one_key_and_effect_may_not_come_twice_even_across_lists() {
        let taint = |effect| Taint {
            key: "a".into(),
            value: None,
            effect,
            time_added: None,
        };
        let mut check = Check::default();
        check.taints([
            (
                "spec.taints",
                &[
                    taint(TaintEffect::NoSchedule),
                    taint(TaintEffect::NoExecute),
                ],
            ),
            ("spec.startupTaints", &[taint(TaintEffect::NoSchedule)]),
        ]);
        let problems = problems(check);
        assert_eq!(problems.len(), 1);
        assert!(
            problems[0].starts_with("spec.startupTaints[0]: "),
            "{problems:?}"
        );
    }
}
