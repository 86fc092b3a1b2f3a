//! The embedded Kubernetes: API server, scheduler, workload controllers and kubelets in one process, on a virtual clock.

pub mod api;
pub mod apply;
pub mod clock;
pub mod cluster;
pub mod faults;
pub mod patch;
pub mod schema;
pub mod selector;
