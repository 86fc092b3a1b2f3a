//! `joiner plan`, as typed.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};
use jiff::SignedDuration;
use joiner_core::pack::Part;

use super::SettingsArgs;

/// What to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table for people.
    #[default]
    Table,
    /// The plan, with a reason for all of it.
    Json,
}

/// How hard to look.
#[derive(Args, Clone, Debug)]
pub(crate) struct SolverArgs {
    /// Attempts at improvement after the first valid plan; 0 stops there. The same steps give the same plan anywhere.
    #[arg(long, value_name = "N")]
    pub(crate) steps: Option<u64>,
    /// Threads. The plan does not depend on it.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) threads: usize,
    /// Random seed.
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Judge the plan by every rule (always done in debug builds).
    #[arg(long)]
    pub(crate) check: bool,
    /// Leave parts of the packer out, to measure what they are worth; `cargo xtask bench --without` does.
    #[arg(long, value_name = "PART", value_delimiter = ',', hide = true)]
    pub(crate) without: Vec<Part>,
}

/// Plan the cheapest machines for pods that wait, offline.
#[derive(Args)]
#[command(
    group = ArgGroup::new("input").required(true).args(["problem", "manifests"]),
    after_help = "Examples:\n  joiner plan --problem problem.json\n  joiner plan -f pool.yaml -f workloads/ --catalog types.json\n  joiner plan \
                  --problem disrupt-7.json --rebalance\n\n\
                  Exit status: 0 everything has a place; 1 files cannot be read or written; 2 wrong usage; \
                        3 the input is malformed; 4 some pods have no place; 5 the plan broke a rule."
)]
pub(crate) struct PlanArgs {
    /// Problem file: Joiner's own JSON, or the form that solvers are compared on.
    #[arg(long, value_name = "FILE")]
    pub(crate) problem: Option<PathBuf>,
    /// Kubernetes YAML, a file or a directory: workloads, NodePools, nodes. Can be given several times.
    #[arg(short = 'f', long, value_name = "PATH")]
    pub(crate) manifests: Vec<PathBuf>,
    /// Catalogue for node classes that name none: Joiner's own JSON or Karpenter's kwok instance types. A SimNodeClass
    /// needs none.
    #[arg(
        long,
        value_name = "FILE",
        requires = "manifests",
        conflicts_with = "problem"
    )]
    pub(crate) catalog: Option<PathBuf>,
    /// Then remove and replace nodes to save money, as far as budgets allow: what goes, what is bought, what it costs before
    /// and after.
    #[arg(long, conflicts_with_all = ["out", "time_limit", "runs"])]
    pub(crate) rebalance: bool,
    /// Write the solution here instead of printing a table.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// What to print.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
    /// Improve for at most so long instead of counting steps, such as 500ms; ends earlier when nothing can be gained.
    #[arg(long, value_name = "TIME", conflicts_with = "steps")]
    pub(crate) time_limit: Option<SignedDuration>,
    /// Solve so often and report the median time.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,
    /// How to decide.
    #[command(flatten)]
    pub(crate) settings: SettingsArgs,
    /// How hard to look.
    #[command(flatten)]
    pub(crate) solver: SolverArgs,
}
