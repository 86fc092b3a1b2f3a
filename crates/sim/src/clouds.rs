//! The other side of every cloud that Joiner can buy from.

pub mod faulty;
pub mod proxmox;
pub mod rackspace;
pub mod redfish;
pub mod sim;
