//! Karpenter's own kinds: `karpenter.sh/v1` NodePool and NodeClaim, `karpenter.sh/v1alpha1` NodeOverlay, and
//! `autoscaling.x-k8s.io/v1beta1` CapacityBuffer.
//!
//! The wire format is Karpenter's, field by field; where a cluster has Karpenter's CRDs already, these types read and
//! write them as they are.

mod capacitybuffer;
pub mod keys;
mod nodeclaim;
mod nodeoverlay;
mod nodepool;
mod schema;
mod validate;

pub use capacitybuffer::{
    CapacityBuffer, CapacityBufferSpec, CapacityBufferStatus, LocalObjectRef, ScalableRef,
};
pub use nodeclaim::{NodeClaim, NodeClaimSpec, NodeClaimStatus, ResourceRequirements};
pub use nodeoverlay::{NodeOverlay, NodeOverlaySpec, NodeOverlayStatus};
pub use nodepool::{
    Budget, ConsolidationPolicy, Disruption, DisruptionReason, NodeClaimTemplate,
    NodeClaimTemplateMeta, NodeClaimTemplateSpec, NodeClassRef, NodePool, NodePoolSpec,
    NodePoolStatus,
};
