//! Taints and tolerations, as `k8s.io/component-helpers/scheduling/corev1` compares them.

use serde_json::Value;

use crate::cluster::fields::Fields as _;

/// The taint that cordoning stands for.
pub(crate) const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// What a taint does to pods that do not tolerate it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Effect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

impl Effect {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "NoSchedule" => Self::NoSchedule,
            "PreferNoSchedule" => Self::PreferNoSchedule,
            "NoExecute" => Self::NoExecute,
            _ => return None,
        })
    }

    /// Whether the effect keeps a pod from being placed at all.
    pub(crate) fn is_hard(self) -> bool {
        self != Self::PreferNoSchedule
    }
}

/// One taint of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Taint {
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) effect: Effect,
}

impl Taint {
    /// The taints in `spec.taints` of a node.
    pub(crate) fn read_all(node: &Value) -> Vec<Self> {
        node.items(&["spec", "taints"])
            .iter()
            .filter_map(|taint| {
                Some(Self {
                    key: taint.text(&["key"]).to_owned(),
                    value: taint.text(&["value"]).to_owned(),
                    effect: Effect::parse(taint.text(&["effect"]))?,
                })
            })
            .collect()
    }
}

/// One toleration of a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Toleration {
    key: String,
    exists: bool,
    value: String,
    effect: Option<Effect>,
    /// How long a `NoExecute` taint is borne; for ever where it is not given.
    pub(crate) seconds: Option<i64>,
}

impl Toleration {
    /// The tolerations of a pod or pod template.
    pub(crate) fn read_all(pod: &Value) -> Vec<Self> {
        pod.items(&["spec", "tolerations"])
            .iter()
            .map(|toleration| Self {
                key: toleration.text(&["key"]).to_owned(),
                exists: toleration.text(&["operator"]) == "Exists",
                value: toleration.text(&["value"]).to_owned(),
                effect: Effect::parse(toleration.text(&["effect"])),
                seconds: toleration.int(&["tolerationSeconds"]),
            })
            .collect()
    }

    /// Whether this toleration bears that taint.
    pub(crate) fn tolerates(&self, taint: &Taint) -> bool {
        if self.effect.is_some_and(|effect| effect != taint.effect) {
            return false;
        }
        if self.key.is_empty() {
            return self.exists;
        }
        self.key == taint.key && (self.exists || self.value == taint.value)
    }
}

/// Whether any of the tolerations bears the taint.
pub(crate) fn tolerated(taint: &Taint, tolerations: &[Toleration]) -> bool {
    tolerations
        .iter()
        .any(|toleration| toleration.tolerates(taint))
}

/// Whether every taint that keeps pods off a node is borne.
pub(crate) fn all_hard_tolerated(taints: &[Taint], tolerations: &[Toleration]) -> bool {
    taints
        .iter()
        .all(|taint| !taint.effect.is_hard() || tolerated(taint, tolerations))
}

/// Whether a pod may be placed on a cordoned node.
pub(crate) fn bears_cordon(tolerations: &[Toleration]) -> bool {
    let cordon = Taint {
        key: UNSCHEDULABLE.to_owned(),
        value: String::new(),
        effect: Effect::NoSchedule,
    };
    tolerated(&cordon, tolerations)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn bears(toleration: &Value, taint: &Value) -> bool {
        let node = json!({"spec": {"taints": [taint]}});
        let pod = json!({"spec": {"tolerations": [toleration]}});
        all_hard_tolerated(&Taint::read_all(&node), &Toleration::read_all(&pod))
    }

    #[test]
    fn tolerations_match_by_key_operator_value_and_effect() {
        let taint = json!({"key": "k", "value": "v", "effect": "NoSchedule"});
        assert!(bears(
            &json!({"key": "k", "operator": "Equal", "value": "v"}),
            &taint
        ));
        assert!(bears(
            &json!({"key": "k", "value": "v", "effect": "NoSchedule"}),
            &taint
        ));
        assert!(bears(&json!({"key": "k", "operator": "Exists"}), &taint));
        assert!(bears(&json!({"operator": "Exists"}), &taint));
        assert!(!bears(&json!({"key": "k", "value": "w"}), &taint));
        assert!(!bears(
            &json!({"key": "k", "operator": "Exists", "effect": "NoExecute"}),
            &taint
        ));
        assert!(!bears(&json!({"key": "j", "operator": "Exists"}), &taint));
    }

    #[test]
    fn preferences_do_not_keep_pods_away() {
        let taint = json!({"key": "k", "effect": "PreferNoSchedule"});
        assert!(bears(&json!({"key": "other"}), &taint));
    }
}
