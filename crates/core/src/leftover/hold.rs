//! When a choice changes: not for a small saving, not soon after the last change, and never in a way that makes Karpenter
//! replace running nodes.
//!
//! Karpenter compares the labels of each NodeClaim with the requirements of its NodePool. A value that is added drifts
//! nothing; a value that is removed drifts every node that has it. So types and zones of running nodes stay offered until
//! the last such node has gone, unless the pool itself no longer allows them.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

use super::{Capacity, Choice, Market, Ranking, Wanted, rank, select};
use crate::name::Name;

/// How reluctant to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// A new choice must be cheaper per GPU by more than this.
    pub saving_percent: u32,
    /// Or its score better by at least this, at a price per GPU that is no higher than the saving.
    pub score_gain: u8,
    /// No change of a choice that works before it is so old.
    pub min_age: Duration,
    /// How many looks in a row must say so before a choice is given up, or the fallback is opened or closed.
    pub patience: u32,
}

impl Default for Policy {
    /// Ten percent pays for a change of plan and not for noise: GPU spot prices move by a few percent a day. Half an hour
    /// is the time that a GPU node with its images and model needs to become useful.
    fn default() -> Self {
        Policy {
            saving_percent: 10,
            score_gain: 3,
            min_age: Duration::from_mins(30),
            patience: 2,
        }
    }
}

/// What was offered until now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Types and zones.
    pub choice: Choice,
    /// Since when.
    pub since: Timestamp,
}

/// What looks in a row have said; starts anew with the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Looks in a row that found nothing viable in what is offered.
    pub failing: u32,
    /// Looks in a row that found viable spot while the fallback was open.
    pub recovering: u32,
    /// Whether the fallback is open.
    pub fallback: bool,
}

/// Types and zones of running nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InUse {
    /// Types.
    pub types: BTreeSet<Name>,
    /// Zones.
    pub zones: BTreeSet<Name>,
}

/// What became of the choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The first.
    First,
    /// Nothing viable and nothing held: there is nothing to offer.
    Nothing,
    /// As before.
    Kept(Kept),
    /// What is offered is no longer allowed by the pool.
    NotAllowed,
    /// What was offered is no longer viable.
    NotViable,
    /// Cheaper by so many percent per GPU.
    Cheaper(u32),
    /// A better score, from and to.
    BetterScore(u8, u8),
    /// There was room for more.
    Widened,
}

/// Why a choice was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It is still the best, or nearly.
    Good,
    /// Something better is there, but the last change is too recent.
    TooSoon,
    /// It is not viable now; one bad look is not enough.
    Patience,
    /// Nothing else is viable either.
    NoBetter,
}

impl Change {
    /// Whether something else is offered than before.
    pub fn is_new(&self) -> bool {
        !matches!(self, Change::Kept(_) | Change::Nothing)
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::First => f.write_str("first choice"),
            Change::Nothing => f.write_str("nothing is viable"),
            Change::Kept(Kept::Good) => f.write_str("kept: nothing is clearly better"),
            Change::Kept(Kept::TooSoon) => f.write_str("kept: the last change is too recent"),
            Change::Kept(Kept::Patience) => f.write_str("kept: not viable in this look alone"),
            Change::Kept(Kept::NoBetter) => f.write_str("kept: nothing else is viable either"),
            Change::NotAllowed => f.write_str("the pool no longer allows what was offered"),
            Change::NotViable => f.write_str("what was offered is no longer viable"),
            Change::Cheaper(percent) => write!(f, "cheaper by {percent}% per GPU"),
            Change::BetterScore(from, to) => write!(f, "placement score {to} instead of {from}"),
            Change::Widened => f.write_str("room for more types or zones"),
        }
    }
}

/// What becomes of the on-demand pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// Not wanted: new nodes are spot.
    Closed,
    /// Offered while no spot is viable.
    Open(Choice),
}

/// What to offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What is chosen, within the limits of the pool.
    pub chosen: Choice,
    /// What the NodePool allows: the choice, and what running nodes need to stay.
    pub offered: Choice,
    /// What became of the choice, and why.
    pub change: Change,
    /// The on-demand pool.
    pub fallback: Fallback,
    /// The quotes.
    pub ranking: Ranking,
    /// For the next look.
    pub memory: Memory,
}

/// Decides what a pool offers.
pub fn decide(
    market: &Market,
    wanted: &Wanted,
    held: Option<&Held>,
    in_use: &InUse,
    policy: &Policy,
    memory: Memory,
    now: Timestamp,
) -> Decision {
    let ranking = rank(market, wanted, wanted.capacity);
    let fresh = select(&ranking, wanted);
    let mut memory = memory;
    let held = held.filter(|held| !held.choice.is_empty());
    let (chosen, change) = match held {
        None if fresh.is_empty() => (Choice::default(), Change::Nothing),
        None => (fresh.clone(), Change::First),
        Some(held) => compare(&ranking, wanted, held, &fresh, policy, &mut memory, now),
    };
    let fallback = fallback(market, wanted, &fresh, held.is_none(), policy, &mut memory);
    let offered = with_running(&chosen, in_use, &ranking, market);
    Decision {
        chosen,
        offered,
        change,
        fallback,
        ranking,
        memory,
    }
}

fn compare(
    ranking: &Ranking,
    wanted: &Wanted,
    held: &Held,
    fresh: &Choice,
    policy: &Policy,
    memory: &mut Memory,
    now: Timestamp,
) -> (Choice, Change) {
    let keep = |why| (held.choice.clone(), Change::Kept(why));
    let fits = held
        .choice
        .types
        .iter()
        .all(|one| ranking.fitting.contains(one));
    let within =
        held.choice.types.len() <= wanted.max_types && held.choice.zones.len() <= wanted.max_zones;
    if !(fits && within) {
        memory.failing = 0;
        return if fresh.is_empty() {
            let mut less = held.choice.clone();
            less.types.retain(|one| ranking.fitting.contains(one));
            less.types.truncate(wanted.max_types);
            less.zones.truncate(wanted.max_zones);
            (less, Change::NotAllowed)
        } else {
            (fresh.clone(), Change::NotAllowed)
        };
    }
    let Some(new) = fresh.best(ranking) else {
        memory.failing = memory.failing.saturating_add(1);
        return keep(Kept::NoBetter);
    };
    let Some(old) = held.choice.best(ranking) else {
        memory.failing = memory.failing.saturating_add(1);
        if memory.failing < policy.patience {
            return keep(Kept::Patience);
        }
        memory.failing = 0;
        return (fresh.clone(), Change::NotViable);
    };
    memory.failing = 0;
    let below = 100_u32.saturating_sub(policy.saving_percent);
    let cheaper = new.per_gpu.is_below(old.per_gpu, below);
    let score = |choice: &Choice| choice.figures(ranking).1;
    let gain = match (score(&held.choice), score(fresh)) {
        (Some(old), Some(new)) if new >= old.saturating_add(policy.score_gain) => Some((old, new)),
        _ => None,
    };
    let old_age = Duration::try_from(now.duration_since(held.since)).unwrap_or_default();
    let change = if cheaper {
        let (old, new) = (old.per_gpu.money().nanos(), new.per_gpu.money().nanos());
        let saved = (i128::from(old) - i128::from(new)) * 100 / i128::from(old.max(1));
        Change::Cheaper(u32::try_from(saved).unwrap_or_default())
    } else if let Some((old, new)) = gain {
        Change::BetterScore(old, new)
    } else {
        let wider = widened(&held.choice, fresh, wanted);
        if wider == held.choice {
            return keep(Kept::Good);
        }
        if old_age < policy.min_age {
            return keep(Kept::TooSoon);
        }
        return (wider, Change::Widened);
    };
    if old_age < policy.min_age {
        return keep(Kept::TooSoon);
    }
    (fresh.clone(), change)
}

/// What is held, filled up with the best of what is new: nothing is removed, so nothing drifts.
fn widened(held: &Choice, fresh: &Choice, wanted: &Wanted) -> Choice {
    let fill = |old: &[Name], new: &[Name], room: usize| -> Vec<Name> {
        let more = new.iter().filter(|one| !old.contains(one));
        old.iter()
            .chain(more)
            .take(room.max(old.len()))
            .cloned()
            .collect()
    };
    Choice {
        types: fill(&held.types, &fresh.types, wanted.max_types),
        zones: fill(&held.zones, &fresh.zones, wanted.max_zones),
    }
}

/// The fallback opens after as many bad looks as a choice is given up after, at once when there is no choice to hold on to,
/// and closes after as many good ones.
fn fallback(
    market: &Market,
    wanted: &Wanted,
    fresh: &Choice,
    first: bool,
    policy: &Policy,
    memory: &mut Memory,
) -> Fallback {
    if wanted.capacity == Capacity::OnDemand || !wanted.fallback {
        memory.fallback = false;
        return Fallback::Closed;
    }
    if fresh.is_empty() {
        memory.recovering = 0;
        memory.fallback |= first || memory.failing >= policy.patience;
    } else if memory.fallback {
        memory.recovering = memory.recovering.saturating_add(1);
        if memory.recovering >= policy.patience {
            memory.fallback = false;
            memory.recovering = 0;
        }
    }
    if !memory.fallback {
        return Fallback::Closed;
    }
    let list = rank(market, wanted, Capacity::OnDemand);
    match select(&list, wanted) {
        none if none.is_empty() => Fallback::Closed,
        choice => Fallback::Open(choice),
    }
}

fn with_running(chosen: &Choice, in_use: &InUse, ranking: &Ranking, market: &Market) -> Choice {
    let mut offered = chosen.clone();
    if chosen.is_empty() {
        return offered;
    }
    for one in &in_use.types {
        if ranking.fitting.contains(one) && !offered.types.contains(one) {
            offered.types.push(one.clone());
        }
    }
    for zone in &in_use.zones {
        let has_subnet = market.subnets.as_ref().is_none_or(|all| all.contains(zone));
        if has_subnet && !offered.zones.contains(zone) {
            offered.zones.push(zone.clone());
        }
    }
    offered
}
