//! Karpenter's own end-to-end suite on Joiner, on real control planes side by side.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Parser;
use joiner_testing::suite::{self, Settings, Verdict};
use regex::Regex;

/// Karpenter's own end-to-end suite on Joiner.
#[derive(Parser)]
struct Args {
    /// The binary of Joiner.
    #[arg(long, value_name = "FILE", default_value = "bin/joiner")]
    joiner: PathBuf,
    /// Run the specs whose names match one of these expressions; without it, all.
    #[arg(long, value_name = "REGEX")]
    focus: Vec<Regex>,
    /// Leave out the specs whose names match one of these expressions.
    #[arg(long, value_name = "REGEX")]
    skip: Vec<Regex>,
    /// How many clusters work side by side.
    #[arg(long, default_value_t = 8)]
    benches: usize,
    /// Minutes that one spec may take.
    #[arg(long, default_value_t = 20)]
    limit: u64,
    /// Keep the logs of specs that fail in this directory.
    #[arg(long, value_name = "DIR")]
    logs: Option<PathBuf>,
    /// Only list the specs.
    #[arg(long)]
    list: bool,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let mut specs = suite::list().await?;
    specs.retain(|spec| {
        let wanted = args.focus.is_empty() || args.focus.iter().any(|one| one.is_match(&spec.name));
        wanted && !args.skip.iter().any(|one| one.is_match(&spec.name))
    });
    let mut out = std::io::stdout();
    if args.list {
        for spec in &specs {
            writeln!(out, "{:3}  {}", spec.index + 1, spec.name)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let settings = Settings {
        joiner: std::path::absolute(&args.joiner)?,
        benches: args.benches,
        limit: Duration::from_secs(args.limit * 60),
        logs: args.logs.as_ref().map(std::path::absolute).transpose()?,
    };
    anyhow::ensure!(
        settings.joiner.is_file(),
        "--joiner {} is not there: build it first (make build)",
        settings.joiner.display()
    );
    let started = Instant::now();
    let all = specs.len();
    let done = std::sync::atomic::AtomicUsize::new(0);
    let told = |verdict: &Verdict| {
        let count = done.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        let _ = writeln!(std::io::stderr(), "{count:3}/{all} {}", line(verdict));
        if let Some(failure) = &verdict.failure {
            let _ = writeln!(std::io::stderr(), "{failure}\n");
        }
    };
    let verdicts = suite::run(&settings, specs, told)
        .await
        .context("running Karpenter's suite")?;
    for verdict in &verdicts {
        writeln!(out, "{:3}  {}", verdict.spec.index + 1, line(verdict))?;
    }
    let passed = verdicts.iter().filter(|one| one.failure.is_none()).count();
    let minutes = started.elapsed().as_secs_f64() / 60.0;
    writeln!(
        out,
        "{passed} of {} passed in {minutes:.1} minutes",
        verdicts.len()
    )?;
    Ok(if passed == verdicts.len() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn line(verdict: &Verdict) -> String {
    let word = match verdict.failure {
        None => "passed",
        Some(_) => "FAILED",
    };
    let seconds = verdict.took.as_secs();
    format!("{word} {seconds:4} s  {}", verdict.spec.name)
}
