//! What the story came to, beside the same days on the cloud alone.

use std::io::{self, Write};

use joiner_core::money::Money;
use serde::Serialize;

use super::bill::Sum;
use super::story::{End, Told};
use crate::demo::summary::Counts;

/// Everything.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Summary {
    /// Seed of the story.
    seed: u64,
    /// How long it lasted, in its own time.
    hours: f64,
    /// What was counted.
    #[serde(flatten)]
    counts: Counts,
    /// What own racks and cloud came to.
    own_first: Sum,
    /// What the same pods came to on the cloud alone.
    cloud_only: Sum,
    /// How every chapter ended, in virtual time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    chapters: Vec<End>,
    /// Hash over everything that happened at the cluster.
    hash: String,
}

impl Summary {
    pub(super) fn new(seed: u64, told: Told, compared: &Told) -> Self {
        Summary {
            seed,
            hours: told.hours,
            counts: told.counts,
            own_first: told.sum,
            cloud_only: compared.sum.clone(),
            chapters: told.ends,
            hash: told.hash,
        }
    }

    /// For people.
    pub(super) fn tell(&self, out: &mut impl Write) -> io::Result<()> {
        let (own, alone) = (&self.own_first, &self.cloud_only);
        writeln!(out, "\nWhat it came to, in {:.1} hours:", self.hours)?;
        writeln!(
            out,
            "  pods        {} were started, {} ran at once at most, {} were moved",
            self.counts.pods_started, self.counts.most_pods, self.counts.pods_moved
        )?;
        writeln!(
            out,
            "  own first   {} for {} spot servers ({} at once at most); own racks, {} machines at most, are worth {}",
            money(own.dollars_cloud),
            own.servers_won,
            own.most_servers,
            own.most_own,
            money(own.dollars_own)
        )?;
        writeln!(
            out,
            "  cloud only  {} for {} spot servers ({} at once at most)",
            money(alone.dollars_cloud),
            alone.servers_won,
            alone.most_servers
        )?;
        let share = |part: f64| 100.0 * part / alone.dollars_cloud.max(f64::MIN_POSITIVE);
        writeln!(
            out,
            "  so          the cloud's bill is {:.0}% of what it is without own racks; with what these are worth it \
             is {:.0}%",
            share(own.dollars_cloud),
            share(own.dollars())
        )
    }
}

fn money(dollars: f64) -> Money {
    Money::from_dollars(dollars)
}
