//! The clouds and racks, one folder each, behind one trait.
//!
//! A folder holds the wire client, the catalogue and the launch logic of its cloud, and nothing of Kubernetes.

mod error;
pub mod http;
mod machine;
mod provider;
pub mod rackspace;

pub use error::ProviderError;
pub use machine::{
    LaunchRequest, Machine, MachineId, MachineState, NodeLink, Notice, NoticeKind, Uid,
};
pub use provider::{Provider, RepairPolicy, Timeouts};
