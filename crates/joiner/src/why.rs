//! `joiner why`: why a pod, node, pool or machine is as it is, and what would change it.

use std::fmt::Write as _;
use std::io::Write as _;

use comfy_table::{Table, presets};
use jiff::Timestamp;
use joiner_controllers::decisions::{Outcome, PoolVerdict, Said};

use crate::api::history::moment;
use crate::api::model::{Explanation, dollars};
use crate::args::{ReportFormat, WhyArgs};
use crate::ask::{self, Source};
use crate::failure::Failure;

/// Runs the command.
pub(crate) fn run(args: &WhyArgs) -> Result<(), Failure> {
    let found = ask::block_on(async {
        let source = Source::open(&args.ask).await?;
        source.why(args.kind, &args.name).await
    })?;
    let text = match args.ask.output {
        ReportFormat::Text => told(&found),
        ReportFormat::Json => serde_json::to_string_pretty(&found).unwrap_or_default() + "\n",
    };
    std::io::stdout()
        .lock()
        .write_all(text.as_bytes())
        .map_err(Failure::stdout)
}

/// The explanation for a person.
pub(crate) fn told(found: &Explanation) -> String {
    let mut text = format!("{} {}: {}\n", found.kind, found.name, found.standing);
    // Writing to a string cannot fail.
    let mut line = |said: &str| {
        let _ = writeln!(text, "{said}");
    };
    // What is known of a pool are facts, until something happens to it.
    if found.verdicts.is_empty() && (found.facts.is_empty() || !found.leading) {
        line(if found.leading {
            "Nothing was decided about it yet."
        } else {
            "This replica does not decide: ask the leader with --api."
        });
    }
    for (position, said) in found.verdicts.iter().enumerate() {
        if position == 0 {
            line("");
            line(&latest(said, found.at));
        } else {
            let at = moment(said.last, found.at);
            let before = match said.verdict.outcome {
                Outcome::Bought => format!("here since {at}"),
                _ => format!("before, at {at}"),
            };
            let verdict = &said.verdict;
            line(&format!(
                "  {before}: {} ({})",
                verdict.sentence, verdict.code
            ));
        }
    }
    if !found.facts.is_empty() {
        line("");
        found
            .facts
            .iter()
            .for_each(|fact| line(&format!("  {fact}")));
    }
    if !found.steps.is_empty() {
        line("\nLife of the machine:");
        for step in &found.steps {
            line(&format!(
                "  {}  {}={}  {}",
                moment(step.since, found.at),
                step.condition,
                step.status,
                step.sentence
            ));
        }
    }
    text
}

/// The verdict that stands, with its evidence and what would change it.
fn latest(said: &Said, now: Timestamp) -> String {
    let verdict = &said.verdict;
    let evidence = &verdict.evidence;
    let mut text = String::new();
    // With a line for each pool the sentence would only say the same again.
    if evidence.pools.is_empty() {
        let _ = write!(text, "{}: {}", verdict.code, verdict.sentence);
    } else {
        let _ = write!(
            text,
            "{}: no pool can place it; nearest miss first:\n{}",
            verdict.code,
            pools(&evidence.pools)
        );
    }
    if let Some(until) = evidence.until {
        let _ = write!(text, "\n  asked again at {}", moment(until, now));
    }
    if let Some(other) = &evidence.rejected {
        let _ = write!(
            text,
            "\n  cheapest alternative: {} at {} an hour",
            other.instance_type,
            dollars(other.price)
        );
    }
    if said.times > 1 {
        let _ = write!(
            text,
            "\n  the same {} times since {}",
            said.times,
            moment(said.first, now)
        );
    }
    if !verdict.remedies.is_empty() {
        text.push_str("\nWhat would help:");
        for remedy in &verdict.remedies {
            let _ = write!(text, "\n  - {remedy}");
        }
    }
    text
}

fn pools(all: &[PoolVerdict]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "  pool",
        "types",
        "allowed",
        "for sale",
        "large enough",
        "first obstacle",
    ]);
    for one in all {
        let mut because = format!("{}: {}", one.code, one.sentence);
        if !one.sold_out.is_empty() {
            let names: Vec<&str> = one.sold_out.iter().take(4).map(AsRef::as_ref).collect();
            let _ = write!(because, "; sold out: {}", names.join(", "));
        }
        table.add_row([
            format!("  {}", one.pool),
            one.types.to_string(),
            one.allowed.to_string(),
            one.offered.to_string(),
            one.large_enough.to_string(),
            because,
        ]);
    }
    let lines = table.to_string();
    let lines: Vec<&str> = lines.lines().map(str::trim_end).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use joiner_controllers::decisions::{Evidence, Verdict};

    use super::*;
    use crate::api::model::SCHEMA;

    #[test]
    fn a_pod_without_a_place_is_told_pool_by_pool_with_what_would_help() {
        let pool = |name: &str, code: &str, sentence: &str| PoolVerdict {
            pool: name.into(),
            code: code.to_owned(),
            types: 31,
            sentence: sentence.to_owned(),
            ..PoolVerdict::default()
        };
        let verdict = Verdict {
            code: "SoldOut".into(),
            sentence: "NodePool gpu-spot: every instance type that the pod could use is sold out"
                .to_owned(),
            evidence: Evidence {
                pools: vec![
                    pool(
                        "gpu-spot",
                        "SoldOut",
                        "every instance type that the pod could use is sold out",
                    ),
                    pool(
                        "default",
                        "Taint",
                        "pod does not tolerate taint gpu:NoSchedule",
                    ),
                ],
                ..Evidence::default()
            },
            remedies: vec!["Allow on-demand in pool gpu-spot.".to_owned()],
            ..Verdict::default()
        };
        let at = Timestamp::from_second(0).unwrap();
        let found = Explanation {
            schema_version: SCHEMA,
            at,
            kind: "pod".to_owned(),
            name: "ml/train-0".to_owned(),
            standing: "It has been pending for 4m12s.".to_owned(),
            leading: true,
            verdicts: vec![Said {
                first: at,
                last: at,
                times: 3,
                decision: 7,
                verdict: Arc::new(verdict),
            }],
            steps: Vec::new(),
            facts: vec![
                "PodDisruptionBudget ml/train allows 0 of its pods to be evicted now.".to_owned(),
            ],
        };
        let text = told(&found);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "pod ml/train-0: It has been pending for 4m12s.");
        assert_eq!(
            lines[2],
            "SoldOut: no pool can place it; nearest miss first:"
        );
        assert!(
            lines[4].contains("gpu-spot")
                && lines[4].contains("every instance type that the pod could use is sold out"),
            "{text}"
        );
        assert!(
            lines[5].contains("default") && lines[5].contains("Taint"),
            "{text}"
        );
        assert!(
            text.contains("What would help:\n  - Allow on-demand in pool gpu-spot."),
            "{text}"
        );
        assert!(text.contains("the same 3 times since 00:00:00"), "{text}");
    }
}
