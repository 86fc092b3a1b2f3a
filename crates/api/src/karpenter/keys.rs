//! Names with a meaning of their own: finalizers, annotations, taints, conditions.
//!
//! Labels of nodes stand in `joiner_core::labels`, where decisions are made from them.

/// Finalizer of claims and of their nodes: drained and given back before they go.
pub const TERMINATION_FINALIZER: &str = "karpenter.sh/termination";
/// Annotation of pools and claims: what the claim was made from, to notice drift.
pub const NODEPOOL_HASH: &str = "karpenter.sh/nodepool-hash";
/// Annotation of pools and claims: how that was computed; hashes of different versions are not compared.
pub const NODEPOOL_HASH_VERSION: &str = "karpenter.sh/nodepool-hash-version";
/// Annotation of pods and nodes that must not be disturbed, if `true`.
pub const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// Annotation of claims: when their grace period ends.
pub const TERMINATION_TIMESTAMP: &str = "karpenter.sh/nodeclaim-termination-timestamp";
/// Label of nodes whose taints are kept by somebody else, if `true`.
pub const DO_NOT_SYNC_TAINTS: &str = "karpenter.sh/do-not-sync-taints";
/// Taint of nodes that are on their way out; keeps new pods away.
pub const DISRUPTED_TAINT: &str = "karpenter.sh/disrupted";
/// Taint of nodes that no claim has recognised yet; keeps all pods away.
pub const UNREGISTERED_TAINT: &str = "karpenter.sh/unregistered";

/// Types of conditions.
pub mod condition {
    /// Usable as a whole.
    pub const READY: &str = "Ready";
    /// Pool: it says what can be done.
    pub const VALIDATION_SUCCEEDED: &str = "ValidationSucceeded";
    /// Pool: its node class is ready.
    pub const NODE_CLASS_READY: &str = "NodeClassReady";
    /// Pool: its machines become nodes.
    pub const NODE_REGISTRATION_HEALTHY: &str = "NodeRegistrationHealthy";
    /// Claim: the machine was bought.
    pub const LAUNCHED: &str = "Launched";
    /// Claim: the machine is a node.
    pub const REGISTERED: &str = "Registered";
    /// Claim: the node can take pods.
    pub const INITIALIZED: &str = "Initialized";
    /// Claim: quiet for long enough to be looked at.
    pub const CONSOLIDATABLE: &str = "Consolidatable";
    /// Claim: no longer what its pool asks for.
    pub const DRIFTED: &str = "Drifted";
    /// Claim: chosen to go, and why.
    pub const DISRUPTION_REASON: &str = "DisruptionReason";
    /// Claim: its pods are gone.
    pub const DRAINED: &str = "Drained";
    /// Claim: its volumes are detached.
    pub const VOLUMES_DETACHED: &str = "VolumesDetached";
    /// Claim: the machine is being given back.
    pub const INSTANCE_TERMINATING: &str = "InstanceTerminating";
    /// Claim: the node has what the machine was said to have.
    pub const CONSISTENT_STATE_FOUND: &str = "ConsistentStateFound";
}
