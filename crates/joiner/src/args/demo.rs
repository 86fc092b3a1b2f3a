//! `joiner demo`, as typed.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// Arguments of `joiner demo`.
#[derive(Args)]
pub(crate) struct DemoArgs {
    /// Where the embedded API server listens; port 0 takes any that is free.
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    pub(crate) listen: SocketAddr,
    /// The kubeconfig to write.
    #[arg(long, default_value = "demo.kubeconfig", value_name = "FILE")]
    pub(crate) kubeconfig: PathBuf,
    /// Seed of every random choice.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}
