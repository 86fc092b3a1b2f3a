//! The embedded world: an in-process Kubernetes and simulated clouds, on a virtual clock.

pub mod api;
pub mod apply;
pub mod audit;
pub mod clock;
pub mod clouds;
pub mod cluster;
pub mod faults;
pub mod patch;
pub mod schema;
mod selector;
