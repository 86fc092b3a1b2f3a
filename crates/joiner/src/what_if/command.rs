//! `joiner what-if` and `joiner savings`.

use std::fmt::Write as _;
use std::io::Write as _;

use comfy_table::{Table, presets};
use joiner_core::problem::Problem;

use super::{Change, Outcome};
use crate::api::model::{Overview, dollars};
use crate::args::{BaseArgs, ReportFormat, SavingsArgs, What, WhatIfArgs};
use crate::ask::{self, Source};
use crate::failure::Failure;
use crate::manifests;

/// Runs `joiner what-if`.
pub(crate) fn run(args: &WhatIfArgs) -> Result<(), Failure> {
    let (change, base) = change(&args.what)?;
    let problem = ask::problem(base.problem.as_deref())?;
    let outcome = ask::block_on(async {
        match problem {
            Some(problem) => ask::solved(problem, &change).await,
            None => Source::open(&base.ask).await?.what_if(&change).await,
        }
    })?;
    show(&outcome, base.ask.output)
}

/// What would become of a problem if its nodes were removed and replaced to save money: `joiner plan --rebalance`.
pub(crate) fn rebalanced(problem: Problem, format: ReportFormat) -> Result<(), Failure> {
    let change = Change {
        rebalance: true,
        ..Change::default()
    };
    let outcome = super::solve(problem, &change).map_err(Failure::Manifest)?;
    show(&outcome, format)
}

/// Prints what would become of it; pods without a place are a failure.
fn show(outcome: &Outcome, format: ReportFormat) -> Result<(), Failure> {
    print(&match format {
        ReportFormat::Text => told(outcome),
        ReportFormat::Json => json(outcome),
    })?;
    let stranded: usize = outcome.stranded.iter().map(|one| one.pods).sum();
    match stranded {
        0 => Ok(()),
        pods => Err(Failure::Unplaced(pods)),
    }
}

/// Runs `joiner savings`.
pub(crate) fn savings(args: &SavingsArgs) -> Result<(), Failure> {
    let (view, outcome) = ask::block_on(async {
        let source = Source::open(&args.ask).await?;
        let change = Change {
            rebalance: true,
            ..Change::default()
        };
        Ok((source.overview().await?, source.what_if(&change).await?))
    })?;
    print(&match args.ask.output {
        ReportFormat::Text => saved(&view, &outcome),
        ReportFormat::Json => json(&serde_json::json!({
            "schemaVersion": view.schema_version, "cost": view.cost, "bound": view.bound, "kept": view.kept,
            "waste": view.waste, "spotPercent": view.spot_percent, "rebalanced": outcome,
        })),
    })
}

fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

fn print(text: &str) -> Result<(), Failure> {
    std::io::stdout()
        .lock()
        .write_all(text.as_bytes())
        .map_err(Failure::stdout)
}

fn change(what: &What) -> Result<(Change, &BaseArgs), Failure> {
    let mut change = Change::default();
    let base = match what {
        What::Add { file, base } => {
            change.add = manifests::parts(file)?.pods;
            if change.add.is_empty() {
                let said = format!(
                    "{}: there are no pods in it, nor what makes pods",
                    file.display()
                );
                return Err(Failure::Manifest(said));
            }
            base
        }
        What::Remove { nodes, base } => {
            change.remove.clone_from(nodes);
            base
        }
        What::Price { prices, base } => {
            change.prices = prices.iter().cloned().collect();
            base
        }
        What::Pool { file, base } => {
            change.pools = manifests::parts(file)?.pools;
            if change.pools.is_empty() {
                let said = format!("{}: there is no NodePool in it", file.display());
                return Err(Failure::Manifest(said));
            }
            base
        }
        What::Rebalance { base } => {
            change.rebalance = true;
            base
        }
    };
    Ok((change, base))
}

fn told(outcome: &Outcome) -> String {
    let mut text = String::new();
    if !outcome.bought.is_empty() {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(["buy", "type", "zone", "paid", "pool", "pods", "each"]);
        for one in &outcome.bought {
            table.add_row([
                one.count.to_string(),
                one.instance_type.clone(),
                one.zone.clone(),
                one.capacity_type.clone(),
                one.pool.clone(),
                one.pods.to_string(),
                dollars(one.price),
            ]);
        }
        let _ = writeln!(text, "{table}");
    }
    for one in &outcome.gone {
        let _ = writeln!(text, "remove {}: {}", one.node, one.sentence);
    }
    for one in &outcome.stranded {
        let pods = match one.pods {
            1 => format!("Pod {} has no place", one.example),
            pods => format!("{pods} pods like {} have no place", one.example),
        };
        let _ = writeln!(text, "{pods}: {}", one.verdict.sentence);
        for remedy in &one.verdict.remedies {
            let _ = writeln!(text, "  - {remedy}");
        }
    }
    let change = outcome.after - outcome.before;
    let word = if change > 1e-9 {
        format!("{} more", dollars(change))
    } else if change < -1e-9 {
        format!(
            "{} less, {} a month",
            dollars(-change),
            dollars(-change * 730.0)
        )
    } else {
        "the same".to_owned()
    };
    let _ = writeln!(
        text,
        "{} an hour becomes {}: {word}. {} pods are moved, {} placed on nodes that are there. Nothing was changed.",
        dollars(outcome.before),
        dollars(outcome.after),
        outcome.moved,
        outcome.placed
    );
    text
}

fn saved(view: &Overview, outcome: &Outcome) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "now              {:>10} an hour, {} a month",
        view.cost.dollars(),
        view.cost.monthly()
    );
    let _ = writeln!(
        text,
        "rebalanced       {:>10} an hour: {} nodes go, {} are bought, {} pods move (joiner what-if rebalance)",
        dollars(outcome.after),
        outcome.gone.len(),
        outcome.bought.iter().map(|one| one.count).sum::<u32>(),
        outcome.moved
    );
    let _ = writeln!(
        text,
        "least possible   {:>10} an hour: {}",
        view.bound.dollars(),
        view.gap()
    );
    let _ = writeln!(
        text,
        "not requested    {:>10} an hour is paid for and free",
        view.waste.dollars()
    );
    let _ = writeln!(
        text,
        "spot             {:>10} of the cost",
        view.spot_percent.percent()
    );
    let _ = writeln!(
        text,
        "never removing   {:>10} an hour: {}",
        view.kept.dollars(),
        view.saved()
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_says_what_is_bought_what_goes_and_what_it_costs() {
        let outcome = Outcome {
            before: 1.0,
            after: 0.8,
            moved: 3,
            gone: vec![super::super::Gone {
                node: "n-1".to_owned(),
                sentence: "as asked".to_owned(),
            }],
            ..Outcome::default()
        };
        let text = told(&outcome);
        assert!(text.contains("remove n-1: as asked"), "{text}");
        assert!(
            text.contains(
                "$1.00 an hour becomes $0.800: $0.200 less, $146.00 a month. 3 pods are moved"
            ),
            "{text}"
        );
    }
}
