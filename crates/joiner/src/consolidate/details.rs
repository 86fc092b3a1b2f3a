//! What a round of consolidation does, node by node: which go and why, what is bought, where pods move, what stays.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use joiner_core::plan::{Home, Plan, PodRef};
use joiner_core::problem::Problem;

use crate::plan::report::counted;

/// Lines of one kind after this many are counted, not shown.
const SHOWN: usize = 20;

/// The round as lines; empty if nothing is done.
pub(super) fn details(round: u32, problem: &Problem, plan: &Plan, prefix: &str) -> String {
    let mut out = String::new();
    let mut say = |verb: &str, lines: Vec<String>| {
        let more = lines.len().saturating_sub(SHOWN);
        for line in lines.into_iter().take(SHOWN) {
            // Writing to a text does not fail.
            let _ = writeln!(out, "  {verb:<8} {line}");
        }
        if more > 0 {
            let _ = writeln!(out, "  {verb:<8} and {more} more");
        }
    };
    let removals = plan.removals.iter();
    say(
        "remove",
        removals
            .map(|one| format!("{}: {}", one.node, one.reason))
            .collect(),
    );
    let launches = plan.launches.iter().enumerate();
    say(
        "launch",
        launches
            .map(|(position, launch)| {
                let one = &launch.purchase;
                format!(
                    "{prefix}{position}: {} as {} in zone {} for {} an hour, for {}: {}",
                    one.instance_type,
                    one.capacity_type,
                    one.zone,
                    one.price,
                    counted(launch.pods.len(), "pod"),
                    launch.reason
                )
            })
            .collect(),
    );
    say("move", moves(problem, plan, prefix));
    say("stay", stays(plan));
    if out.is_empty() {
        return out;
    }
    format!("\nRound {round}\n{out}")
}

/// How many pods go from which node to which.
fn moves(problem: &Problem, plan: &Plan, prefix: &str) -> Vec<String> {
    let mut all: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut count = |pods: &[PodRef], to: &str| {
        for pod in pods {
            let from = match pod.home {
                Home::Node(node) => problem
                    .nodes
                    .get(node.index())
                    .map_or_else(String::new, |node| node.name.to_string()),
                Home::Pending => "pending".to_owned(),
            };
            *all.entry((from, to.to_owned())).or_default() += 1;
        }
    };
    for (position, launch) in plan.launches.iter().enumerate() {
        count(&launch.pods, &format!("{prefix}{position}"));
    }
    for placement in &plan.placements {
        count(&placement.pods, &placement.node);
    }
    all.into_iter()
        .map(|((from, to), pods)| format!("{}: {from} to {to}", counted(pods, "pod")))
        .collect()
}

/// Nodes that stay, by reason.
fn stays(plan: &Plan) -> Vec<String> {
    let mut all: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for kept in &plan.kept {
        all.entry(kept.reason.to_string())
            .or_default()
            .push(&kept.node);
    }
    all.into_iter()
        .map(|(why, nodes)| match nodes.as_slice() {
            [one] => format!("{one}: {why}"),
            [first, ..] => format!("{} ({first}, …): {why}", counted(nodes.len(), "node")),
            [] => why,
        })
        .collect()
}
