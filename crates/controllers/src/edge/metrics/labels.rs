//! Label sets.

use prometheus_client::encoding::EncodeLabelSet;

/// Of what has no labels.
pub type Unlabelled = [(&'static str, &'static str); 0];

/// What runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Build {
    /// Version.
    pub version: String,
}

/// A machine object that was written.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Created {
    /// What for.
    pub reason: String,
    /// Pool.
    pub nodepool: String,
    /// Whether less variety had to do.
    pub min_values_relaxed: String,
}

/// A machine object that was asked to be deleted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Disrupted {
    /// Why.
    pub reason: String,
    /// Pool; empty for a machine that stands alone.
    pub nodepool: String,
    /// How it was paid for.
    pub capacity_type: String,
}

/// A machine that is gone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Terminated {
    /// Pool; empty for a machine that stood alone.
    pub nodepool: String,
    /// How it was paid for.
    pub capacity_type: String,
    /// Where it was.
    pub zone: String,
}

/// Nodes of a pool in a zone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PoolZone {
    /// Pool.
    pub nodepool: String,
    /// Zone.
    pub zone: String,
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
pub struct PoolLabel {
    /// Pool.
    pub nodepool: String,
}

/// A pool and a reason.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PoolReason {
    /// Pool.
    pub nodepool: String,
    /// Why.
    pub reason: String,
}

/// An amount that a pool has.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PoolResource {
    /// Resource.
    pub resource_type: String,
    /// Pool.
    pub nodepool: String,
}

/// A resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Resource {
    /// Resource.
    pub resource_type: String,
}

/// A loop.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Controller {
    /// Its name.
    pub controller: String,
}

/// A call to a cloud.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct CloudCall {
    /// Who asked.
    pub controller: String,
    /// What was asked.
    pub method: String,
    /// Of whom.
    pub provider: String,
}

/// A call to a cloud that failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct CloudError {
    /// Who asked.
    pub controller: String,
    /// What was asked.
    pub method: String,
    /// Of whom.
    pub provider: String,
    /// What went wrong.
    pub error: String,
}

/// An outcome.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Code {
    /// HTTP status or what stands for it.
    pub code: String,
}

/// A reason.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Reason {
    /// Why.
    pub reason: String,
}

/// A disruption.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Decision {
    /// `delete` or `replace`.
    pub decision: String,
    /// Why.
    pub reason: String,
    /// `empty`, `single`, `multi` or nothing.
    pub consolidation_type: String,
}

/// A disruption of nodes of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PoolDecision {
    /// Pool.
    pub nodepool: String,
    /// `delete` or `replace`.
    pub decision: String,
    /// Why.
    pub reason: String,
    /// `empty`, `single`, `multi` or nothing.
    pub consolidation_type: String,
}

/// A look for nodes that may go.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Evaluation {
    /// What for; empty for every reason at once.
    pub reason: String,
    /// How; empty for every way at once.
    pub consolidation_type: String,
}

/// A second look.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Validation {
    /// `empty`, `single`, `multi` or nothing.
    pub consolidation_type: String,
}

/// A promise.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Invariant {
    /// Its number in docs/reference/metrics.md.
    pub invariant: String,
}

impl Controller {
    /// The loop that makes plans for pods that wait.
    pub fn provisioner() -> Self {
        Controller {
            controller: super::PROVISIONER.to_owned(),
        }
    }
}
