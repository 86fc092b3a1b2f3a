//! Pod disruption budgets, as their status stood when observed.

use serde::{Deserialize, Serialize};

use crate::name::Name;
use crate::selector::LabelSelector;

/// When pods that are not ready may be evicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnhealthyPodEvictionPolicy {
    /// While enough others are healthy.
    #[default]
    IfHealthyBudget,
    /// Always.
    AlwaysAllow,
}

/// How many of a set of pods may be away.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PodDisruptionBudget {
    /// Namespace.
    pub namespace: Name,
    /// Name.
    pub name: Name,
    /// Which pods; an empty selector means all of the namespace, `None` none.
    pub selector: Option<LabelSelector>,
    /// How many more may go now.
    pub disruptions_allowed: u32,
    /// It will never let one go, however many are healthy.
    pub never: bool,
    /// When pods that are not ready may go.
    pub unhealthy_pod_eviction_policy: UnhealthyPodEvictionPolicy,
}
