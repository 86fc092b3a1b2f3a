//! `joiner render`, as typed.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::AwsArgs;

/// Arguments of `joiner render`.
#[derive(Args)]
pub(crate) struct RenderArgs {
    /// From what.
    #[command(subcommand)]
    pub(crate) from: RenderFrom,
}

/// From what.
#[derive(Subcommand)]
pub(crate) enum RenderFrom {
    /// The NodePool and `EC2NodeClass` of `LeftoverNodePools`, and why each instance type is in them or not.
    Leftover(Box<RenderLeftoverArgs>),
}

/// Versions of `EC2NodeClass`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClassVersionArg {
    /// Since Karpenter 1.0.
    #[default]
    V1,
    /// Until Karpenter 1.0.
    V1beta1,
}

/// Arguments of `joiner render leftover`.
#[derive(Args)]
#[command(
    after_help = "Exit status: 0 done; 1 AWS cannot be read; 2 wrong usage; 3 the file is no LeftoverNodePool."
)]
pub(crate) struct RenderLeftoverArgs {
    /// File with `LeftoverNodePools`.
    pub(crate) file: PathBuf,
    /// Version of the `EC2NodeClass`.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) class_version: ClassVersionArg,
    /// Say of every instance type why it is chosen or not, and how the regions of `spec.regions` compare, as comments.
    #[arg(long)]
    pub(crate) explain: bool,
    /// Ask a simulated EC2 instead of AWS.
    #[arg(long)]
    pub(crate) mock_mode: bool,
    /// AWS.
    #[command(flatten)]
    pub(crate) aws: AwsArgs,
}
