//! What pools of several dialects share: requirements on labels, and taints.

use joiner_core::requirement::{Expression, Operator as CoreOperator};
use joiner_core::taints as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a label compares to the values of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(inline, description = "")]
pub enum Operator {
    /// A number, at least the value.
    Gte,
    /// A number, at most the value.
    Lte,
    /// One of the values.
    In,
    /// None of the values, or absent.
    NotIn,
    /// Present, whatever its value.
    Exists,
    /// Absent.
    DoesNotExist,
    /// A number, above the value.
    Gt,
    /// A number, below the value.
    Lt,
}

impl From<Operator> for CoreOperator {
    fn from(operator: Operator) -> Self {
        match operator {
            Operator::Gte => CoreOperator::Gte,
            Operator::Lte => CoreOperator::Lte,
            Operator::In => CoreOperator::In,
            Operator::NotIn => CoreOperator::NotIn,
            Operator::Exists => CoreOperator::Exists,
            Operator::DoesNotExist => CoreOperator::DoesNotExist,
            Operator::Gt => CoreOperator::Gt,
            Operator::Lt => CoreOperator::Lt,
        }
    }
}

/// What a label of a machine must be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct NodeSelectorRequirement {
    /// Label that is looked at.
    pub key: String,
    /// How it compares to the values.
    pub operator: Operator,
    /// What it is compared to: at least one value for `In` and `NotIn`, exactly one number for `Gt`, `Lt`, `Gte` and
    /// `Lte`, none for `Exists` and `DoesNotExist`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub values: Vec<String>,
    /// How many different values the machines to choose from must offer, so that one sold-out type does not stop
    /// everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_values: Option<i64>,
}

impl NodeSelectorRequirement {
    /// `key` must be one of `values`.
    pub fn one_of<V: Into<String>>(key: &str, values: impl IntoIterator<Item = V>) -> Self {
        NodeSelectorRequirement {
            key: key.to_owned(),
            operator: Operator::In,
            values: values.into_iter().map(Into::into).collect(),
            min_values: None,
        }
    }

    /// As the core reads it.
    pub fn to_expression(&self) -> Expression {
        Expression {
            key: self.key.as_str().into(),
            operator: self.operator.into(),
            values: self
                .values
                .iter()
                .map(|value| value.as_str().into())
                .collect(),
            min_values: self.min_values.and_then(|count| u32::try_from(count).ok()),
        }
    }
}

/// What a taint does to pods that do not tolerate it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[schemars(inline, description = "")]
pub enum TaintEffect {
    /// They are not put there.
    NoSchedule,
    /// They are put there only if need be.
    PreferNoSchedule,
    /// They are not put there and are driven out.
    NoExecute,
}

/// Keeps pods that do not tolerate it away from a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Taint {
    /// Key.
    pub key: String,
    /// Value, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// What it does to pods that do not tolerate it.
    pub effect: TaintEffect,
    /// When it was put there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_added: Option<Time>,
}

impl Taint {
    /// As the core reads it.
    pub fn to_core(&self) -> core::Taint {
        core::Taint {
            key: self.key.as_str().into(),
            value: self.value.as_deref().unwrap_or_default().into(),
            effect: match self.effect {
                TaintEffect::NoSchedule => core::Effect::NoSchedule,
                TaintEffect::PreferNoSchedule => core::Effect::PreferNoSchedule,
                TaintEffect::NoExecute => core::Effect::NoExecute,
            },
        }
    }
}

impl From<core::Taint> for Taint {
    fn from(taint: core::Taint) -> Self {
        Taint {
            key: taint.key.to_string(),
            value: (!taint.value.is_empty()).then(|| taint.value.to_string()),
            effect: match taint.effect {
                core::Effect::NoSchedule => TaintEffect::NoSchedule,
                core::Effect::PreferNoSchedule => TaintEffect::PreferNoSchedule,
                core::Effect::NoExecute => TaintEffect::NoExecute,
            },
            time_added: None,
        }
    }
}
