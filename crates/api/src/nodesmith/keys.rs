//! Names with a meaning of their own: finalizers, labels, conditions, keys of Secrets.

/// Finalizer of claims: drained and given back before they go.
pub const CLAIM_FINALIZER: &str = "kubenodesmith.io/nodesmithclaim";
/// Finalizer of pools: their claims go first.
pub const POOL_FINALIZER: &str = "kubenodesmith.io/nodepool";
/// Label of nodes: the claim.
pub const CLAIM_LABEL: &str = "kubenodesmith.io/nodeclaim";
/// Label of nodes and claims that tells the pool, unless the pool says otherwise.
pub const POOL_LABEL: &str = "topology.kubenodesmith.io/pool";

/// Key of the Secret: name of the Proxmox API token, as `user@realm!name`.
pub const PROXMOX_TOKEN_ID: &str = "PROXMOX_TOKEN_ID";
/// Key of the Secret: the Proxmox API token.
pub const PROXMOX_SECRET: &str = "PROXMOX_SECRET";
/// Key of the Secret: accepts any certificate, if true.
pub const PROXMOX_SKIP_TLS_VERIFY: &str = "PROXMOX_SKIP_TLS_VERIFY";

/// Types of conditions.
pub mod condition {
    /// Claim: the machine was made.
    pub const LAUNCHED: &str = "Launched";
    /// Claim: the machine is a node.
    pub const REGISTERED: &str = "Registered";
    /// Claim: the node can take pods.
    pub const INITIALIZED: &str = "Initialized";
    /// Claim and control plane: usable as a whole.
    pub const READY: &str = "Ready";
    /// Claim: given up.
    pub const FAILED: &str = "Failed";
    /// Pool: it may grow.
    pub const AVAILABLE: &str = "Available";
    /// Pool: it is growing or shrinking.
    pub const PROGRESSING: &str = "Progressing";
}
