//! Karpetrack's kinds: `karpetrack.io/v1alpha1` SpotNodePool and SpotNode, for Rackspace Spot.

pub mod keys;
mod spotnode;
mod spotnodepool;
mod validate;

pub use spotnode::{NodeResources, Phase, SpotNode, SpotNodeSpec, SpotNodeStatus};
pub use spotnodepool::{
    Category, ConsolidationPolicy, Disruption, ResourceLimits, SpotNodePool, SpotNodePoolSpec,
    SpotNodePoolStatus,
};
