//! Karpenter's own end-to-end suite on Joiner, on real control planes side by side.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Parser;
use joiner_testing::suite::{self, Settings, Verdict, cannot_pass};
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
    write!(out, "{}", table(&verdicts))?;
    let minutes = started.elapsed().as_secs_f64() / 60.0;
    let all_well = verdicts.iter().all(|one| word(one) != "FAILED");
    writeln!(out, "\nIt took {minutes:.1} minutes.")?;
    Ok(if all_well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn word(verdict: &Verdict) -> &'static str {
    match verdict.failure {
        None => "passed",
        Some(_) if cannot_pass(&verdict.spec.name).is_some() => "cannot pass",
        Some(_) => "FAILED",
    }
}

/// How many passed and which, in Markdown.
fn table(verdicts: &[Verdict]) -> String {
    let mut lines = vec!["| | specs |".to_owned(), "| --- | --- |".to_owned()];
    for said in ["passed", "cannot pass", "FAILED"] {
        let count = verdicts.iter().filter(|one| word(one) == said).count();
        lines.push(format!("| {said} | {count} |"));
    }
    lines.extend(["", "| spec | verdict | seconds |", "| --- | --- | --- |"].map(str::to_owned));
    lines.extend(verdicts.iter().map(|one| {
        let (name, seconds) = (&one.spec.name, one.took.as_secs());
        format!("| {name} | {} | {seconds} |", word(one))
    }));
    lines.join("\n") + "\n"
}

fn line(verdict: &Verdict) -> String {
    let seconds = verdict.took.as_secs();
    format!("{} {seconds:4} s  {}", word(verdict), verdict.spec.name)
}
