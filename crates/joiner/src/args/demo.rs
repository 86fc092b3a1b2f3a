//! `joiner demo`, as typed.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::ReportFormat;

/// What happens in the demo.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoryArg {
    /// A day of a shop on a simulated cloud.
    #[default]
    Shop,
    /// Own racks first, spot for the burst: Proxmox VE, bare metal and Rackspace Spot, simulated behind their APIs.
    Racks,
}

/// Arguments of `joiner demo`.
#[derive(Args)]
#[command(
    after_help = "With --once the story is told in virtual time, 13 hours within seconds, and the command ends: the same \
                  seed tells the same story. Lines are in colour on a terminal, unless NO_COLOR is set.\n\nExit status: 0 done; 1 the port cannot be had, or the file \
                  not written; 2 wrong usage; 7 something happened that must not."
)]
pub(crate) struct DemoArgs {
    /// What happens.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) story: StoryArg,
    /// Where the embedded API server listens; port 0 takes any that is free.
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    pub(crate) listen: SocketAddr,
    /// Where the page is; port 0 takes any that is free.
    #[arg(long, default_value = "127.0.0.1:8082", value_name = "ADDRESS")]
    pub(crate) page: SocketAddr,
    /// With --once, the story of the shop as one page that needs nothing else.
    #[arg(long, value_name = "FILE", requires = "once")]
    pub(crate) report: Option<PathBuf>,
    /// The kubeconfig to write.
    #[arg(long, default_value = "demo.kubeconfig", value_name = "FILE")]
    pub(crate) kubeconfig: PathBuf,
    /// Random seed.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Tell the story in virtual time, print the summary and end; nothing is served.
    #[arg(long)]
    pub(crate) once: bool,
    /// What to print with --once.
    #[arg(short, long, value_enum, default_value_t, requires = "once")]
    pub(crate) output: ReportFormat,
}
