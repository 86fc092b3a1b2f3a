//! Simulated clouds, one folder each, that speak the wire of the real ones; and the auditor that watches them together
//! with the embedded Kubernetes.

pub mod audit;
pub mod clouds;
