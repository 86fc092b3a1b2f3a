//! The other side of every cloud that Joiner can buy from.

pub mod ec2;
pub mod faulty;
pub mod ovhcloud;
pub mod proxmox;
pub mod rackspace;
pub mod redfish;
pub mod sim;
pub mod watched;
