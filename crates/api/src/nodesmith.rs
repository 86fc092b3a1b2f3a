//! KubeNodeSmith's kinds: `kubenodesmith.parawell.cloud/v1alpha1` NodeSmithControlPlane, NodeSmithPool,
//! NodeSmithProvider and NodeSmithClaim, for Proxmox VE and bare metal.

mod claim;
mod controlplane;
pub mod keys;
mod pool;
mod provider;
mod validate;

pub use claim::{
    ClaimLease, ClaimRequirements, NodeSmithClaim, NodeSmithClaimSpec, NodeSmithClaimStatus,
};
pub use controlplane::{
    NodeSmithControlPlane, NodeSmithControlPlaneSpec, NodeSmithControlPlaneStatus,
};
pub use pool::{
    MachineTemplate, NodeSmithPool, NodeSmithPoolSpec, NodeSmithPoolStatus, PoolLimits, ScalePolicy,
};
pub use provider::{
    NodeSmithProvider, NodeSmithProviderSpec, NodeSmithProviderStatus, ProviderType,
};
