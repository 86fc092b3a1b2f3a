//! Node classes: one file for each kind that a provider is made from.

mod memory;
pub(crate) mod ovhcloud;
pub(crate) mod proxmox;
pub(crate) mod rackspace;
pub(crate) mod redfish;
pub(crate) mod sim;
