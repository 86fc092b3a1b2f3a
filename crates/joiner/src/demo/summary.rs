//! What the story came to.

use std::collections::BTreeMap;
use std::io::{self, Write};

use joiner_core::money::Money;
use serde::Serialize;

use super::books::Sum;

/// What was counted while the story was told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Counts {
    /// Pods that were created.
    pub(crate) pods_started: u32,
    /// The most that ran at once.
    pub(crate) most_pods: usize,
    /// Pods that were moved from one node to another.
    pub(crate) pods_moved: u32,
    /// Nodes that were removed, by why.
    pub(crate) nodes_removed: BTreeMap<String, u32>,
}

/// Everything.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Summary {
    /// Seed of the story.
    pub(crate) seed: u64,
    /// How long it lasted, in its own time.
    pub(crate) hours: f64,
    /// What was counted.
    #[serde(flatten)]
    pub(crate) counts: Counts,
    /// What was spent, and what would have been.
    #[serde(flatten)]
    pub(crate) sum: Sum,
    /// Hash over everything that happened at the cluster.
    pub(crate) hash: String,
}

impl Summary {
    /// For people.
    pub(crate) fn tell(&self, out: &mut impl Write) -> io::Result<()> {
        let (counts, sum) = (&self.counts, &self.sum);
        let removed: Vec<String> = counts
            .nodes_removed
            .iter()
            .map(|(why, count)| format!("{count} {}", why.to_lowercase()))
            .collect();
        let removed = if removed.is_empty() {
            "none".to_owned()
        } else {
            removed.join(", ")
        };
        let share = |part: f64, whole: f64| {
            if whole > 0.0 {
                part / whole * 100.0
            } else {
                0.0
            }
        };
        let saved = sum.dollars_never_scaling_down - sum.dollars_spent;
        writeln!(out, "\nSummary of {:.1} hours", self.hours)?;
        writeln!(
            out,
            "  saved   {} ({:.0}%) against never scaling down, which costs {}",
            Money::from_dollars(saved.max(0.0)),
            share(saved.max(0.0), sum.dollars_never_scaling_down),
            Money::from_dollars(sum.dollars_never_scaling_down)
        )?;
        writeln!(
            out,
            "  spent   {}, every machine billed at the price of the moment",
            Money::from_dollars(sum.dollars_spent)
        )?;
        writeln!(
            out,
            "  bound   {}: no autoscaler can do it for less. It assumes machines that start at once, pods that move\n          \
             for nothing at every moment, and the lowest price that each machine ever had",
            Money::from_dollars(sum.dollars_lower_bound)
        )?;
        writeln!(
            out,
            "  pods    {} started, at most {} at once, {} moved",
            counts.pods_started, counts.most_pods, counts.pods_moved
        )?;
        writeln!(
            out,
            "  nodes   {} bought, at most {} at once; removed: {removed}",
            sum.nodes_bought, sum.most_nodes
        )
    }
}
