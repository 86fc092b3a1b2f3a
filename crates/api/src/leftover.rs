//! `gpu.devplatforms.io/v1alpha1` LeftoverNodePool, for cheap GPUs on AWS.

mod leftovernodepool;
mod validate;

pub use leftovernodepool::{
    CapacityType, LeftoverNodePool, LeftoverNodePoolSpec, LeftoverNodePoolStatus, RegionPolicy,
    RegionStatus,
};
