//! Joiner and Karpenter on the same problems, judged by the same referee.
//!
//! The referee is a Go module that is not part of this repository: it generates problems, runs Karpenter's own
//! scheduler on them and judges solutions. Without it there is nothing to compare with; `cargo bench` needs nothing.

mod ablation;
pub(crate) mod plots;
mod row;
mod seeds;
mod summary;
mod tools;
mod trace;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;

use self::row::{Group, Row};
use self::seeds::Seeds;
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
    /// Seeds of the generator: numbers and ranges such as 1-20.
    #[arg(long, value_delimiter = ',', default_value = "1")]
    seeds: Vec<Seeds>,
    /// Run Karpenter too.
    #[arg(long)]
    karpenter: bool,
    /// Run Karpenter on the first N seeds only: it takes most of the time.
    #[arg(long, value_name = "N", requires = "karpenter")]
    karpenter_seeds: Option<usize>,
    /// Run Karpenter on problems of at most so many pods.
    #[arg(long, value_name = "PODS", requires = "karpenter")]
    karpenter_pods: Option<u32>,
    /// Stop Karpenter after this time, as its provisioner does after 1m; what it has placed by then counts.
    #[arg(long, value_name = "TIME", requires = "karpenter")]
    karpenter_timeout: Option<String>,
    /// Pods of a real cluster, as CSV with `cpu_milli`, `memory_mib` and `num_gpu`; needs --catalog.
    #[arg(long, value_name = "CSV", value_delimiter = ',', requires = "catalog")]
    trace: Vec<PathBuf>,
    /// Real machine types with prices, as JSON.
    #[arg(long, value_name = "JSON")]
    catalog: Option<PathBuf>,
    /// For each of these seeds another trace like each one given: as many of its pods, drawn with replacement.
    #[arg(
        long,
        value_name = "SEEDS",
        value_delimiter = ',',
        requires = "catalog"
    )]
    resample: Vec<Seeds>,
    /// Further arguments for `joiner plan`, such as "--steps 1000".
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    joiner_args: String,
    /// Leave generated problems out, and run traces only.
    #[arg(long)]
    traces_only: bool,
    /// Parts of the packer to leave out, one at a time, or `all`: a second table says what each is worth.
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    without: Vec<String>,
    /// Add the figures to those in this folder, and draw all of them there.
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Write the tables to this file too.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: &BenchArgs) -> Result<()> {
    ablation::parts(&args.without)?;
    let tools = Tools::build(&args.referee, args.karpenter)?;
    let mut rows = Vec::new();
    if !args.traces_only {
        generated(&tools, args, &mut rows)?;
    }
    if let Some(catalog) = &args.catalog {
        for trace in &args.trace {
            traced(&tools, args, trace, catalog, &mut rows)
                .with_context(|| format!("converting {}", trace.display()))?;
        }
    }
    let mut table = summary::table(&rows).to_string();
    if !args.without.is_empty() {
        table = format!("{table}\n\n{}", ablation::table(&rows));
    }
    writeln!(std::io::stdout(), "{table}")?;
    if let Some(path) = &args.out {
        fs::write(path, table + "\n").with_context(|| format!("writing {}", path.display()))?;
    }
    if let Some(folder) = &args.plots {
        plots::update(folder, &rows)?;
    }
    let bad = rows.iter().filter(|row| !row.good()).count();
    anyhow::ensure!(
        bad == 0,
        "{bad} of {} plans are not as good as Karpenter's or not valid",
        rows.len()
    );
    Ok(())
}

/// Problems of the referee's generator.
fn generated(tools: &Tools, args: &BenchArgs, rows: &mut Vec<Row>) -> Result<()> {
    let most = args.karpenter_pods.unwrap_or(u32::MAX);
    let first = args.karpenter_seeds.unwrap_or(usize::MAX);
    for kind in &args.kinds {
        for types in &args.types {
            for pods in &args.pods {
                let group = Group::new(kind, Some(*types));
                for (position, seed) in seeds::all(&args.seeds).enumerate() {
                    let problem = tools.generate(kind, *pods, *types, seed)?;
                    let beside = args.karpenter && position < first && *pods <= most;
                    rows.push(measure(tools, args, &group, &problem, beside)?);
                }
            }
        }
    }
    Ok(())
}

/// A trace, and others like it.
fn traced(
    tools: &Tools,
    args: &BenchArgs,
    path: &Path,
    catalog: &Path,
    rows: &mut Vec<Row>,
) -> Result<()> {
    let trace = trace::Trace::read(path, catalog)?;
    let problem = trace.write(tools.folder(), None)?;
    let group = Group::new(trace.name(), None);
    rows.push(measure(tools, args, &group, &problem, args.karpenter)?);
    let first = args.karpenter_seeds.unwrap_or(usize::MAX);
    let group = Group::new(&format!("{}, resampled", trace.name()), None);
    for (position, seed) in seeds::all(&args.resample).enumerate() {
        let problem = trace.write(tools.folder(), Some(seed))?;
        let beside = args.karpenter && position < first;
        rows.push(measure(tools, args, &group, &problem, beside)?);
    }
    Ok(())
}

fn measure(
    tools: &Tools,
    args: &BenchArgs,
    group: &Group,
    problem: &Path,
    beside: bool,
) -> Result<Row> {
    let mut more: Vec<&str> = args.joiner_args.split_whitespace().collect();
    let joiner = tools.joiner(problem, "joiner", &more)?;
    let mut without = Vec::new();
    for part in ablation::parts(&args.without)? {
        let name = part.to_string();
        let mut more = more.clone();
        more.extend(["--without", &name]);
        without.push((part, tools.joiner(problem, &name, &more)?));
    }
    more.extend(["--steps", "0"]);
    let first = if args.joiner_args.contains("--steps") {
        None
    } else {
        Some(tools.joiner(problem, "first", &more)?)
    };
    let karpenter = if beside {
        Some(tools.karpenter(problem, args.karpenter_timeout.as_deref())?)
    } else {
        None
    };
    let row = Row {
        group: group.clone(),
        joiner,
        first,
        without,
        karpenter,
    };
    writeln!(std::io::stderr(), "{}", row.line())?;
    Ok(row)
}
