//! Taints and what tolerates them.

use serde::{Deserialize, Serialize};

use crate::name::Name;

/// What a taint does to pods that do not tolerate it.
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
pub enum Effect {
    /// They are not put there.
    NoSchedule,
    /// They are put there only if need be.
    PreferNoSchedule,
    /// They are not put there and are driven out.
    NoExecute,
}

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Taint {
    /// Key.
    pub key: Name,
    /// Value; empty if there is none.
    #[serde(default, skip_serializing_if = "str_is_empty")]
    pub value: Name,
    /// What it does.
    pub effect: Effect,
}

impl Taint {
    /// One without a value that keeps new pods away.
    pub fn no_schedule(key: &str) -> Self {
        Taint {
            key: key.into(),
            value: "".into(),
            effect: Effect::NoSchedule,
        }
    }
}

/// How a toleration compares values.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum TolerationOperator {
    /// The values are equal.
    #[default]
    Equal,
    /// Any value.
    Exists,
    /// The taint's value is an integer above the toleration's.
    Gt,
    /// The taint's value is an integer below the toleration's.
    Lt,
}

/// A taint that a pod tolerates.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Toleration {
    /// Key; empty with `Exists` for every key.
    #[serde(default, skip_serializing_if = "str_is_empty")]
    pub key: Name,
    /// How values compare.
    #[serde(default)]
    pub operator: TolerationOperator,
    /// Value to compare with.
    #[serde(default, skip_serializing_if = "str_is_empty")]
    pub value: Name,
    /// Effect; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
}

fn str_is_empty(text: &Name) -> bool {
    text.is_empty()
}

impl Toleration {
    /// Tolerates everything.
    pub fn everything() -> Self {
        Toleration {
            operator: TolerationOperator::Exists,
            ..Self::default()
        }
    }

    /// Whether this covers the taint.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        if self.effect.is_some_and(|effect| effect != taint.effect) {
            return false;
        }
        if !self.key.is_empty() && self.key != taint.key {
            return false;
        }
        match self.operator {
            TolerationOperator::Exists => true,
            // Only `Exists` may leave the key out.
            _ if self.key.is_empty() => false,
            TolerationOperator::Equal => self.value == taint.value,
            TolerationOperator::Gt => compare(&taint.value, &self.value, |taint, own| taint > own),
            TolerationOperator::Lt => compare(&taint.value, &self.value, |taint, own| taint < own),
        }
    }
}

fn compare(taint: &str, own: &str, holds: impl Fn(i64, i64) -> bool) -> bool {
    matches!((taint.parse(), own.parse()), (Ok(taint), Ok(own)) if holds(taint, own))
}

/// The first taint that none of the tolerations covers.
pub fn untolerated<'a>(
    taints: impl IntoIterator<Item = &'a Taint>,
    tolerations: &[Toleration],
) -> Option<&'a Taint> {
    taints
        .into_iter()
        .find(|taint| !tolerations.iter().any(|one| one.tolerates(taint)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taint(value: &str, effect: Effect) -> Taint {
        Taint {
            key: "gpu".into(),
            value: value.into(),
            effect,
        }
    }

    fn toleration(key: &str, operator: TolerationOperator, value: &str) -> Toleration {
        Toleration {
            key: key.into(),
            operator,
            value: value.into(),
            effect: None,
        }
    }

    #[test]
    fn tolerations_match_by_key_value_and_effect() {
        use TolerationOperator::{Equal, Exists};
        let yes = taint("yes", Effect::NoSchedule);
        assert!(toleration("gpu", Equal, "yes").tolerates(&yes));
        assert!(!toleration("gpu", Equal, "no").tolerates(&yes));
        assert!(toleration("gpu", Exists, "").tolerates(&yes));
        assert!(toleration("", Exists, "").tolerates(&yes));
        assert!(!toleration("", Equal, "yes").tolerates(&yes));
        assert!(!toleration("cpu", Exists, "").tolerates(&yes));
        let narrow = Toleration {
            effect: Some(Effect::NoExecute),
            ..Toleration::everything()
        };
        assert!(!narrow.tolerates(&yes));
    }

    #[test]
    fn comparing_tolerations_read_the_taint_as_a_number() {
        let level = taint("5", Effect::NoSchedule);
        assert!(toleration("gpu", TolerationOperator::Gt, "4").tolerates(&level));
        assert!(!toleration("gpu", TolerationOperator::Lt, "4").tolerates(&level));
        assert!(!toleration("gpu", TolerationOperator::Gt, "x").tolerates(&level));
    }

    #[test]
    fn the_first_taint_that_no_toleration_covers_is_named() {
        let taints = [
            taint("a", Effect::NoSchedule),
            taint("b", Effect::NoExecute),
        ];
        let tolerations = [toleration("gpu", TolerationOperator::Equal, "a")];
        assert_eq!(untolerated(&taints, &tolerations), Some(&taints[1]));
    }
}
