//! How a simulation went, for people and for programs.

use std::io::{self, Write};

use jiff::{SignedDuration, Timestamp};
use joiner_sim::audit::{Invariant, Violation};
use serde::Serialize;

/// How one world went.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Outcome {
    /// Its seed.
    pub(crate) seed: u64,
    /// Hash over everything that happened: the same in every run of the seed.
    pub(crate) hash: String,
    /// How long it lasted, in its own time.
    pub(crate) seconds: u64,
    /// How many changes its API server saw.
    pub(crate) changes: u64,
    /// How many machines were bought.
    pub(crate) machines_bought: u64,
    /// How many requests to the API server went wrong.
    pub(crate) faults: u64,
    /// How often a process of Joiner died.
    pub(crate) deaths: u64,
    /// What must never have happened.
    pub(crate) violations: Vec<Violated>,
}

/// A violation in its world.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Violated {
    /// What did not hold.
    pub(crate) invariant: Invariant,
    /// Seconds into the world.
    pub(crate) after_seconds: i64,
    /// What did not hold, when it was seen, what happened instead.
    pub(crate) at: Timestamp,
    /// In a sentence.
    pub(crate) message: String,
    /// The last lines about everything that it concerns.
    pub(crate) history: Vec<String>,
}

impl Violated {
    /// A violation in a world that started then.
    pub(crate) fn new(violation: Violation, start: Timestamp) -> Self {
        Violated {
            invariant: violation.invariant,
            after_seconds: violation.at.duration_since(start).as_secs(),
            at: violation.at,
            message: violation.message,
            history: violation.history,
        }
    }
}

/// The command that runs a world again.
pub(crate) fn replay(seed: u64, hours: u32, faults: &str) -> String {
    format!("joiner simulate --seeds {seed} --hours {hours} --faults {faults}")
}

/// One world, in a line; its violations in many.
pub(crate) fn tell(out: &mut impl Write, one: &Outcome, command: &str) -> io::Result<()> {
    let hours = one.seconds / 3600;
    let minutes = one.seconds / 60 % 60;
    writeln!(
        out,
        "seed {}: {}, {hours}h {minutes:02}m, {} changes, {} machines bought, {} faults, {} deaths, hash {}",
        one.seed,
        if one.violations.is_empty() {
            "ok"
        } else {
            "WRONG"
        },
        one.changes,
        one.machines_bought,
        one.faults,
        one.deaths,
        one.hash,
    )?;
    for violated in &one.violations {
        let after = SignedDuration::from_secs(violated.after_seconds);
        writeln!(
            out,
            "\n  seed {} at {} ({after:#} in): {}\n  {}",
            one.seed, violated.at, violated.invariant, violated.message
        )?;
        for line in &violated.history {
            writeln!(out, "    {line}")?;
        }
    }
    if !one.violations.is_empty() {
        writeln!(out, "\n  again: {command}\n")?;
    }
    Ok(())
}

/// All worlds together.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Summary {
    /// How each went, by seed.
    pub(crate) seeds: Vec<Outcome>,
    /// How many violations there were.
    pub(crate) violations: usize,
    /// How many hours all worlds lasted together, in their own time.
    pub(crate) cluster_hours: u64,
}

impl Summary {
    /// Sums up.
    pub(crate) fn new(mut seeds: Vec<Outcome>) -> Self {
        seeds.sort_by_key(|one| one.seed);
        Summary {
            violations: seeds.iter().map(|one| one.violations.len()).sum(),
            cluster_hours: seeds.iter().map(|one| one.seconds).sum::<u64>() / 3600,
            seeds,
        }
    }

    /// In a line.
    pub(crate) fn tell(&self, out: &mut impl Write, took: std::time::Duration) -> io::Result<()> {
        let sum = |of: fn(&Outcome) -> u64| self.seeds.iter().map(of).sum::<u64>();
        writeln!(
            out,
            "{} worlds, {} cluster-hours in {:.0} s: {} changes, {} machines bought, {} faults, {} deaths, {} violations",
            self.seeds.len(),
            self.cluster_hours,
            took.as_secs_f64(),
            sum(|one| one.changes),
            sum(|one| one.machines_bought),
            sum(|one| one.faults),
            sum(|one| one.deaths),
            self.violations,
        )
    }
}
