//! Joiner and Karpenter on the same problems, judged by the same referee.
//!
//! The referee is a Go module that is not part of this repository: it generates problems, runs Karpenter's own
//! scheduler on them and judges solutions. Without it there is nothing to compare with; `cargo bench` needs nothing.

mod row;
mod tools;
mod trace;

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;

use self::row::Row;
use self::tools::Tools;

/// What to run.
#[derive(Args)]
pub(crate) struct BenchArgs {
    /// Source of the referee; its programs are built into the target directory.
    #[arg(long, value_name = "DIR")]
    referee: PathBuf,
    /// Kinds of generated problems.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "upstream,plain,batch,web,gpu"
    )]
    kinds: Vec<String>,
    /// Numbers of pods.
    #[arg(long, value_delimiter = ',', default_value = "1000")]
    pods: Vec<u32>,
    /// Numbers of instance types.
    #[arg(long, value_delimiter = ',', default_value = "400")]
    types: Vec<u32>,
    /// Seeds of the generator.
    #[arg(long, value_delimiter = ',', default_value = "1")]
    seeds: Vec<u32>,
    /// Run Karpenter too.
    #[arg(long)]
    karpenter: bool,
    /// Pods of a real cluster, as CSV with `cpu_milli`, `memory_mib` and `num_gpu`; needs --catalog.
    #[arg(long, value_name = "CSV", value_delimiter = ',', requires = "catalog")]
    trace: Vec<PathBuf>,
    /// Real machine types with prices, as JSON.
    #[arg(long, value_name = "JSON")]
    catalog: Option<PathBuf>,
    /// Further arguments for `joiner plan`, such as "--steps 1000".
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    joiner_args: String,
    /// Leave generated problems out, and run traces only.
    #[arg(long)]
    traces_only: bool,
}

pub(crate) fn run(args: &BenchArgs) -> Result<()> {
    let tools = Tools::build(&args.referee, args.karpenter)?;
    let mut rows = Vec::new();
    if !args.traces_only {
        for kind in &args.kinds {
            for types in &args.types {
                for pods in &args.pods {
                    for seed in &args.seeds {
                        let problem = tools.generate(kind, *pods, *types, *seed)?;
                        rows.push(measure(&tools, args, &problem)?);
                    }
                }
            }
        }
    }
    if let Some(catalog) = &args.catalog {
        for trace in &args.trace {
            let problem = trace::convert(trace, catalog, tools.folder())
                .with_context(|| format!("converting {}", trace.display()))?;
            rows.push(measure(&tools, args, &problem)?);
        }
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", row::table(&rows))?;
    let bad = rows.iter().filter(|row| !row.good()).count();
    anyhow::ensure!(
        bad == 0,
        "{bad} of {} rows are not as good as Karpenter's or not valid",
        rows.len()
    );
    Ok(())
}

fn measure(tools: &Tools, args: &BenchArgs, problem: &std::path::Path) -> Result<Row> {
    let mut more: Vec<&str> = args.joiner_args.split_whitespace().collect();
    let joiner = tools.joiner(problem, "joiner", &more)?;
    more.extend(["--steps", "0"]);
    let first = if args.joiner_args.contains("--steps") {
        None
    } else {
        Some(tools.joiner(problem, "first", &more)?)
    };
    let karpenter = if args.karpenter {
        Some(tools.karpenter(problem)?)
    } else {
        None
    };
    let row = Row {
        joiner,
        first,
        karpenter,
    };
    writeln!(std::io::stderr(), "{}", row.line())?;
    Ok(row)
}
