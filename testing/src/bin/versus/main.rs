//! Joiner beside Karpenter: the same pods and the same catalogue on the same real control plane, one after the other.

mod contestant;
mod price;
mod round;
mod table;
mod workload;

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Parser;

use contestant::Who;
use price::Catalogue;
use workload::Workload;

/// Joiner beside Karpenter, on a real control plane.
#[derive(Parser)]
pub(crate) struct Args {
    /// The binary of Joiner; measure a release build.
    #[arg(long, value_name = "FILE", default_value = "bin/joiner")]
    joiner: PathBuf,
    /// Instance types in the form of Karpenter's kwok provider; without it, those that Karpenter's provider has built in.
    #[arg(long, value_name = "FILE")]
    catalogue: Option<PathBuf>,
    /// How many pods there are at first.
    #[arg(long, default_value_t = 1000)]
    pods: usize,
    /// How many are left then.
    #[arg(long, default_value_t = 700)]
    then: usize,
    /// Run only this one.
    #[arg(long, value_enum)]
    only: Option<Who>,
    /// For how many seconds nothing may change before the cluster has its final shape.
    #[arg(long, default_value_t = 60)]
    quiet: u64,
    /// Keep the logs of the contestants in this directory.
    #[arg(long, value_name = "DIR")]
    logs: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    let joiner = std::path::absolute(&args.joiner)?;
    let file = match &args.catalogue {
        Some(file) => std::path::absolute(file)?,
        None => joiner_testing::furnish::karpenter_sources()?
            .join("kwok/cloudprovider/instance_types.json"),
    };
    let catalogue = Catalogue::read(&file)?;
    let workload = Workload::new(args.pods, args.then);
    let bounds = price::bounds(&joiner, &file, &workload)?;
    let mut results = Vec::new();
    for who in [Who::Joiner, Who::Karpenter] {
        if args.only.is_some_and(|only| only != who) {
            continue;
        }
        writeln!(
            std::io::stderr(),
            "{who}: a fresh control plane, {} pods",
            args.pods
        )?;
        let contestant = contestant::enter(who, &joiner, &file)
            .await
            .with_context(|| format!("starting {who}"))?;
        let quiet = Duration::from_secs(args.quiet);
        let result = round::play(&contestant, &workload, &catalogue, quiet).await;
        if let Some(directory) = &args.logs {
            contestant.keep_log(directory)?;
        }
        results.push((
            who,
            result.with_context(|| format!("{who}\n{}", contestant.log()))?,
        ));
    }
    table::print(&results, bounds, args.pods, args.then)
}
