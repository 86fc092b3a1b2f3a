//! `joiner plan`: the cheapest machines for pods that wait, from files, without a cluster.

mod measure;
pub(crate) mod report;

use std::io::Write;
use std::time::Instant;

use joiner_core::pack::{self, Options};
use joiner_core::plan::Plan;
use joiner_core::problem::Problem;
use joiner_core::problem::wire::{Measurements, Solution};

use crate::args::{Format, PlanArgs, ReportFormat, SolverArgs};
use crate::failure::Failure;
use crate::input;
use crate::manifests;
use crate::what_if;

/// Runs the command.
pub(crate) fn run(args: &PlanArgs) -> Result<(), Failure> {
    let mut problem = if let Some(path) = &args.problem {
        input::problem(path)?
    } else {
        let (problem, notes) = manifests::problem(&args.manifests, args.catalog.as_deref())?;
        for note in notes {
            // Standard error may be closed: the plan is what was asked for.
            let _ = writeln!(std::io::stderr(), "joiner: {note}");
        }
        problem
    };
    problem.settings = args.settings.over(&problem.settings);
    if args.rebalance {
        let format = match args.output {
            Format::Table => ReportFormat::Text,
            Format::Json => ReportFormat::Json,
        };
        return what_if::rebalanced(problem, format);
    }
    let (plan, measurements) = solve(&problem, args);
    input::judge(&problem, &plan, &args.solver)?;
    if let Some(path) = &args.out {
        let solution = Solution::new(&problem, &plan, measurements);
        input::write_json(path, &solution)?;
    } else {
        print(&problem, &plan, &measurements, args.output).map_err(Failure::stdout)?;
    }
    let unplaced = plan.unplaced.iter().map(|one| one.pods.len()).sum();
    if unplaced > 0 {
        return Err(Failure::Unplaced(unplaced));
    }
    Ok(())
}

/// Options of the solver, as meant.
pub(crate) fn options(args: &SolverArgs) -> Options {
    let defaults = Options::default();
    Options {
        steps: args.steps.unwrap_or(defaults.steps),
        seed: args.seed,
        threads: args.threads.max(1),
        without: args.without.iter().copied().collect(),
    }
}

/// Solves as often as asked; the plan is the last one, the time the median.
fn solve(problem: &Problem, args: &PlanArgs) -> (Plan, Measurements) {
    let mut times = Vec::new();
    let mut efforts = Vec::new();
    let mut plan = Plan::default();
    for _ in 0..args.runs {
        let (start, before) = (Instant::now(), measure::cpu_ms());
        plan = solve_once(problem, args, start);
        times.push(start.elapsed().as_secs_f64() * 1000.0);
        efforts.push(measure::cpu_ms() - before);
    }
    let measurements = Measurements {
        runs: args.runs,
        solve_ms: median(&times),
        solve_ms_all: times,
        solve_cpu_ms: median(&efforts),
        peak_rss_mib: measure::peak_rss_mib(),
        concurrency: args.solver.threads,
        ..Measurements::default()
    };
    (plan, measurements)
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

fn solve_once(problem: &Problem, args: &PlanArgs, start: Instant) -> Plan {
    let mut options = options(&args.solver);
    let Some(limit) = args.time_limit else {
        return pack::solve(problem, &options);
    };
    options.steps = u64::MAX;
    let limit = limit.unsigned_abs();
    pack::solve_while(problem, &options, || start.elapsed() < limit)
}

fn print(
    problem: &Problem,
    plan: &Plan,
    measurements: &Measurements,
    format: Format,
) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    match format {
        Format::Json => {
            serde_json::to_writer_pretty(&mut out, plan)?;
            writeln!(out)
        }
        Format::Table => write!(out, "{}", report::Report::new(problem, plan, measurements)),
    }
}
