//! `joiner consolidate`: rounds of disruption on a cluster from a file.

mod details;

use std::io::Write;
use std::time::{Duration, Instant};

use comfy_table::{Table, presets};
use joiner_core::disrupt;
use joiner_core::money::Money;
use joiner_core::plan::{Home, Plan, apply};
use joiner_core::problem::Problem;

use crate::args::ConsolidateArgs;
use crate::failure::Failure;
use crate::{input, plan};

/// Runs the command.
pub(crate) fn run(args: &ConsolidateArgs) -> Result<(), Failure> {
    let mut problem = input::problem(&args.problem)?;
    problem.settings = args.settings.over(&problem.settings);
    if args.spot_to_spot {
        for pool in &mut problem.pools {
            pool.disruption.spot_to_spot = true;
        }
    }
    let options = plan::options(&args.solver);
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "round", "removed", "bought", "moved", "nodes", "an hour", "ms",
    ]);
    let pods = |problem: &Problem| -> u32 {
        let nodes = problem.nodes.iter().flat_map(|node| &node.pods);
        nodes.map(|pod| pod.count).sum()
    };
    table.add_row(row("-", &Plan::default(), &problem, Duration::ZERO));
    let mut spent = Duration::ZERO;
    let mut told = String::new();
    for round in 1..=args.rounds {
        let start = Instant::now();
        let plan = disrupt::plan(&problem, &options);
        let took = start.elapsed();
        spent += took;
        input::judge(&problem, &plan, &args.solver)?;
        let done = plan.removals.is_empty() && plan.launches.is_empty();
        let prefix = format!("round-{round}-");
        told.push_str(&details::details(round, &problem, &plan, &prefix));
        problem = apply(&problem, &plan, &prefix);
        table.add_row(row(&round.to_string(), &plan, &problem, took));
        if done {
            break;
        }
    }
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{table}\n{} pods, {:.0} ms in all\n{told}",
        pods(&problem),
        spent.as_secs_f64() * 1e3
    )
    .map_err(Failure::stdout)?;
    match &args.out {
        Some(path) => input::write_json(path, &problem),
        None => Ok(()),
    }
}

fn row(round: &str, plan: &Plan, problem: &Problem, took: Duration) -> [String; 7] {
    let launched = plan.launches.iter().flat_map(|launch| &launch.pods);
    let placed = plan.placements.iter().flat_map(|one| &one.pods);
    let moved = launched
        .chain(placed)
        .filter(|pod| pod.home != Home::Pending);
    let prices = problem
        .nodes
        .iter()
        .map(|node| node.price.unwrap_or_default());
    [
        round.to_owned(),
        plan.removals.len().to_string(),
        plan.launches.len().to_string(),
        moved.count().to_string(),
        problem.nodes.len().to_string(),
        prices.sum::<Money>().to_string(),
        format!("{:.0}", took.as_secs_f64() * 1e3),
    ]
}
