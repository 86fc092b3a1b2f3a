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
    /// Nodes that were taken away, by why.
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
        let times = |dollars: f64| {
            if sum.dollars_spent > 0.0 {
                dollars / sum.dollars_spent
            } else {
                1.0
            }
        };
        writeln!(out, "\nWhat it came to, in {:.1} hours:", self.hours)?;
        writeln!(
            out,
            "  pods    {} were started, {} ran at once at most, {} were moved",
            counts.pods_started, counts.most_pods, counts.pods_moved
        )?;
        writeln!(
            out,
            "  nodes   {} were bought, {} at once at most; taken away: {}",
            sum.nodes_bought,
            sum.most_nodes,
            if removed.is_empty() {
                "none".to_owned()
            } else {
                removed.join(", ")
            }
        )?;
        writeln!(out, "  spent   {}", money(sum.dollars_spent))?;
        writeln!(
            out,
            "          {} is the least that these pods could have cost: {:.0}% of it was needed",
            money(sum.dollars_lower_bound),
            times(sum.dollars_lower_bound) * 100.0
        )?;
        writeln!(
            out,
            "          {} is what it costs never to scale down: {:.1} times as much",
            money(sum.dollars_never_scaling_down),
            times(sum.dollars_never_scaling_down)
        )
    }
}

fn money(dollars: f64) -> Money {
    Money::from_dollars(dollars)
}
