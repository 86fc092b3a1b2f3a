//! What keeps the cluster in order beside provisioning and disruption: garbage, repair, interruption notices, buffers and
//! the status of pools.

pub mod buffers;
mod gates;
pub(crate) mod gc;
pub(crate) mod interruption;
pub(crate) mod pools;
pub(crate) mod repair;
pub(crate) mod visits;
