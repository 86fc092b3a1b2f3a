//! Node classes become providers: one module for each kind of a real cloud. Which kinds a process serves is decided where
//! it is put together.

pub mod nodesmith;
pub mod ovhcloud;
pub mod proxmox;
pub mod rackspace;
pub mod redfish;
