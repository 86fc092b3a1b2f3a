//! `joiner prices`, as typed.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use joiner_providers::rackspace::prices::FEED_URL;

use super::AwsArgs;

/// Whose prices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PriceSource {
    /// Rackspace Spot, from its public price feed.
    Rackspace,
    /// GPU instances of AWS, from EC2.
    Aws,
    /// OVHcloud, from its public catalogue; `OVH_ENDPOINT` says which.
    Ovhcloud,
}

/// How to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum PriceFormat {
    /// A table for people.
    #[default]
    Table,
    /// One document.
    Json,
    /// One line for each class, with a heading.
    Csv,
}

/// Arguments of `joiner prices`.
#[derive(Args)]
#[command(
    after_help = "Reserve and on-demand prices are not in the public feed: they are shown when a refresh token is \
                  given.\n\nExit status: 0 done; 1 the feed cannot be read; 2 wrong usage."
)]
pub(crate) struct PricesArgs {
    /// Whose prices.
    #[arg(long, value_enum, default_value = "rackspace")]
    pub(crate) provider: PriceSource,
    /// Where the price feed is.
    #[arg(long, value_name = "URL", default_value = FEED_URL, conflicts_with = "feed_file")]
    pub(crate) feed_url: String,
    /// Read the price feed from a file instead.
    #[arg(long, value_name = "FILE")]
    pub(crate) feed_file: Option<PathBuf>,
    /// Only these regions.
    #[arg(long, value_name = "REGION", value_delimiter = ',')]
    pub(crate) region: Vec<String>,
    /// Only these categories: gp, ch, mh, gpu, bm; for OVHcloud families such as b3.
    #[arg(long, value_name = "CATEGORY", value_delimiter = ',')]
    pub(crate) category: Vec<String>,
    /// Refresh token, to show reserve and on-demand prices too.
    #[arg(
        long,
        env = "RACKSPACE_SPOT_REFRESH_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN"
    )]
    pub(crate) refresh_token: Option<String>,
    /// Of AWS: GPU instances, by price per GPU.
    #[arg(long)]
    pub(crate) gpu: bool,
    /// Of AWS: only these families, or those that begin so.
    #[arg(long, value_name = "FAMILY", value_delimiter = ',')]
    pub(crate) family: Vec<String>,
    /// Of AWS: ask a simulated EC2.
    #[arg(long)]
    pub(crate) mock_mode: bool,
    /// AWS.
    #[command(flatten)]
    pub(crate) aws: AwsArgs,
    /// What to print.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: PriceFormat,
}
