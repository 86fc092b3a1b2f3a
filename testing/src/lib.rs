//! The real control plane for end-to-end tests, and the differential suite that runs on it.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use joiner_testing::ControlPlane;
//!
//! let cluster = ControlPlane::start().await?; // etcd and kube-apiserver, gone when `cluster` is dropped
//! let namespace = cluster.namespace("demo").await?;
//! cluster.kubectl(["get", "pods", "--namespace", namespace.name()]).await?;
//! # Ok(()) }
//! ```

mod browser;
mod client;
mod controlplane;
pub mod differential;
pub mod furnish;
pub mod kubectl;
mod large;
mod mirror;
mod process;
pub mod suite;

pub use browser::Browser;
pub use client::Client;
pub use controlplane::{Builder, ControlPlane, Namespace};
pub use large::Large;
pub use mirror::{Always, Mirror, Seen};
pub use process::{Process, Signal};
pub use xtask::controlplane::{Program, ensure};
