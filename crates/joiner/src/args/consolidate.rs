//! `joiner consolidate`, as typed.

use std::path::PathBuf;

use clap::Args;

use super::{SettingsArgs, SolverArgs};

/// Plan which nodes to take away, round after round, offline.
#[derive(Args)]
#[command(
    after_help = "Exit status: 0 done; 1 files cannot be read or written; 2 wrong usage; 3 the input is \
                        malformed; 5 a plan broke a rule."
)]
pub(crate) struct ConsolidateArgs {
    /// Problem file with nodes.
    #[arg(long, value_name = "FILE")]
    pub(crate) problem: PathBuf,
    /// Rounds at most; it ends earlier when nothing is left to do.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) rounds: u32,
    /// Let spot machines be replaced by cheaper spot machines, whatever the pools say.
    #[arg(long)]
    pub(crate) spot_to_spot: bool,
    /// Write the cluster as it is in the end here, in Joiner's own form.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// How to decide.
    #[command(flatten)]
    pub(crate) settings: SettingsArgs,
    /// How hard to look.
    #[command(flatten)]
    pub(crate) solver: SolverArgs,
}
