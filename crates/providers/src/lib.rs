//! The clouds and racks, one folder each, behind one trait.
//!
//! A folder holds the wire client, the catalogue and the launch logic of its cloud, and nothing of Kubernetes.

pub mod aws;
mod error;
pub mod http;
mod ledger;
mod machine;
pub mod ovhcloud;
mod provider;
pub mod proxmox;
pub mod rackspace;
pub mod redfish;

pub use error::ProviderError;
pub use ledger::{Ledger, LedgerEntry, MemoryLedger};
pub use machine::{
    LaunchRequest, Machine, MachineId, MachineState, NodeLink, Notice, NoticeKind, Owner, Uid,
};
pub use provider::{Provider, RepairPolicy, Timeouts};
