//! Chores of this repository, as a library: the end-to-end harness calls the same code as the command line.

pub mod controlplane;
pub mod manifests;
