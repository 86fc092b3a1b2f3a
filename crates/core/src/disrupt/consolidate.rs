//! To save money: many nodes make way for fewer, cheaper or no machines, over the whole cluster at once.
//!
//! Every candidate is weighed: its price against what its pods would cost if everything were packed anew. Nodes in
//! order of that ratio are taken away, some or all of them, and the shape of the cluster that costs least wins; among
//! shapes that cost nearly the same, the one that moves the fewest pods.

use std::collections::BTreeSet;

use super::Causes;
use super::budgets::{Budgets, PodBudgets, give_both_back, take_both};
use super::candidate::{Candidate, Standing};
use super::trial::{Buying, Care, Trial, Trials};
use super::worth;
use crate::money::Money;
use crate::problem::{CapacityType, DisruptionReason};

mod verify;

/// Shares of the candidates that are tried, in thousandths.
const SHARES: [usize; 9] = [1000, 900, 750, 600, 450, 300, 180, 80, 20];
/// Of the largest saving, this share may be left for fewer moves, in thousandths.
const SPARE: i64 = 10;
/// Two trials in a row that cost so much more than the best, in percent, end the search.
const WORSE: u32 = 3;
/// So much more ends it at once: what lies between is not better than the best either.
const MUCH_WORSE: u32 = 50;
/// Choices that are looked at closely before none is made.
const MAX_CHOICES: usize = 3;
/// Rounds of putting nodes back that break a rule.
const MAX_REPAIRS: usize = 6;

/// Chooses nodes beside those forced to go; gives back the trial with all of them away.
pub(super) fn choose(
    trials: &mut Trials<'_, '_>,
    candidates: &mut [Candidate],
    budgets: &mut Budgets,
    pods: &mut PodBudgets<'_>,
    causes: &mut Causes,
    forced: Trial,
) -> Trial {
    let mut eligible: Vec<usize> = (0..candidates.len())
        .filter(|index| {
            let candidate = &candidates[*index];
            candidate.standing == Standing::Free
                && !candidate.empty
                && !causes.contains_key(&candidate.node)
        })
        .collect();
    if eligible.is_empty() {
        return forced;
    }
    let all = appraise(trials, candidates, &eligible, &forced);
    eligible.retain(|index| candidates[*index].elsewhere.is_some());
    let taken = within_budgets(trials, candidates, budgets, pods, eligible);
    let search = Search {
        trials,
        candidates,
        forced: &forced,
        all: &all,
    };
    let found = search.best(&taken);
    let chosen = found
        .as_ref()
        .map(|trial| trial.removed.clone())
        .unwrap_or_default();
    for index in taken {
        let candidate = &candidates[index];
        if chosen.contains(&candidate.node) {
            causes.insert(candidate.node, DisruptionReason::Underutilized);
        } else {
            give_both_back(trials.problem, budgets, pods, candidate);
        }
    }
    found.unwrap_or(forced)
}

fn price(trials: &Trials<'_, '_>, candidate: &Candidate) -> Money {
    let node = &trials.problem.nodes[candidate.node as usize];
    node.price.unwrap_or_default() + trials.problem.settings.node_surcharge
}

/// Learns what the pods of each candidate would cost if all candidates went.
fn appraise(
    trials: &Trials<'_, '_>,
    candidates: &mut [Candidate],
    eligible: &[usize],
    forced: &Trial,
) -> Trial {
    let mut removed = forced.removed.clone();
    removed.extend(eligible.iter().map(|index| candidates[*index].node));
    let all = trials.run(&removed, Buying::Allowed, Care::Rough);
    let stranded = all.stranded();
    let shares = worth::shares(trials.problem, &all.plan);
    for index in eligible {
        let candidate = &mut candidates[*index];
        let price = price(trials, candidate);
        candidate.elsewhere = match shares.get(&candidate.node) {
            // Room on nodes that stay may still take what no machine can be bought for.
            _ if stranded.contains(&candidate.node) => Some(price),
            share => Some(share.copied().unwrap_or_default()),
        };
    }
    all
}

/// Those that all budgets let go together, the largest gain first; in order of price against what they are worth.
fn within_budgets(
    trials: &Trials<'_, '_>,
    candidates: &mut [Candidate],
    budgets: &mut Budgets,
    pods: &mut PodBudgets<'_>,
    mut eligible: Vec<usize>,
) -> Vec<usize> {
    let gain =
        |candidate: &Candidate| price(trials, candidate) - candidate.elsewhere.unwrap_or_default();
    eligible.sort_by_key(|index| {
        let candidate = &candidates[*index];
        (std::cmp::Reverse(gain(candidate)), candidate.node)
    });
    let reason = DisruptionReason::Underutilized;
    let mut taken = Vec::new();
    for index in eligible {
        let candidate = &mut candidates[index];
        match take_both(trials.problem, budgets, pods, candidate, reason) {
            Ok(()) => taken.push(index),
            Err((because, until)) => candidate.standing = Standing::Held { because, until },
        }
    }
    let ratio = |index: &usize| {
        let candidate = &candidates[*index];
        let worth = candidate.elsewhere.unwrap_or_default().dollars();
        price(trials, candidate).dollars() / worth.max(1e-9)
    };
    taken.sort_by(|a, b| {
        let order = ratio(b).total_cmp(&ratio(a));
        order.then(candidates[*a].node.cmp(&candidates[*b].node))
    });
    taken
}

struct Search<'a, 'c, 'p> {
    trials: &'a Trials<'c, 'p>,
    candidates: &'a [Candidate],
    forced: &'a Trial,
    /// Everything that could go away, as tried when candidates were appraised.
    all: &'a Trial,
}

impl Search<'_, '_, '_> {
    /// The cheapest valid trial that takes some of these away beside those forced to go.
    fn best(&self, taken: &[usize]) -> Option<Trial> {
        // Spot must not make way for spot unless its pool says so; room that is there is another matter.
        let (locked, open): (Vec<usize>, Vec<usize>) =
            taken.iter().partition(|index| self.locked(**index));
        let ranked = self.ranked(&open).into_iter().take(MAX_CHOICES);
        for removed in ranked {
            if let Some(trial) = self.verified(removed, Buying::Allowed) {
                return Some(trial);
            }
        }
        let everything = if locked.is_empty() {
            open
        } else {
            taken.to_vec()
        };
        let removed = self.largest_deletion(&everything)?;
        self.verified(removed, Buying::Forbidden)
    }

    fn locked(&self, index: usize) -> bool {
        let candidate = &self.candidates[index];
        let node = &self.trials.problem.nodes[candidate.node as usize];
        let pool = &self.trials.problem.pools[candidate.pool];
        node.capacity_type == CapacityType::Spot && !pool.disruption.spot_to_spot
    }

    fn with(&self, taken: &[usize]) -> BTreeSet<u32> {
        let mut removed = self.forced.removed.clone();
        removed.extend(taken.iter().map(|index| self.candidates[*index].node));
        removed
    }

    /// Tries prefixes of the order; best choice first.
    fn ranked(&self, order: &[usize]) -> Vec<BTreeSet<u32>> {
        let mut lengths: Vec<usize> = SHARES
            .iter()
            .map(|share| (order.len() * share).div_ceil(1000))
            .chain([1])
            .filter(|length| (1..=order.len()).contains(length))
            .collect();
        lengths.dedup();
        let mut trials: Vec<(usize, Trial)> = Vec::new();
        let mut rising = 0;
        for length in lengths {
            let trial = self.rough(&order[..length]);
            let least = trials.iter().map(|(_, known)| known.total).min();
            // The fewer go, the less is gained, once the best length is passed.
            let worse = least.is_some_and(|least| trial.total > least + least.percent(WORSE));
            let much = least.is_some_and(|least| trial.total > least + least.percent(MUCH_WORSE));
            rising = if worse { rising + 1 } else { 0 };
            trials.push((length, trial));
            if rising == 2 || much {
                break;
            }
        }
        self.refine(order, &mut trials);
        trials.retain(|(_, trial)| trial.total < self.forced.total && trial.stranded().is_empty());
        let Some(least) = trials.iter().map(|(_, trial)| trial.total).min() else {
            return Vec::new();
        };
        let saving = self.forced.total - least;
        let enough = least + Money::from_nanos(saving.nanos() / 1000 * SPARE);
        // Of those that save nearly the most, the one that moves the fewest pods; then the others, by cost.
        trials.sort_by_key(|(length, trial)| {
            let plenty = trial.total <= enough;
            let cost = if plenty { Money::ZERO } else { trial.total };
            (!plenty, cost, trial.moved, *length)
        });
        trials.into_iter().map(|(_, trial)| trial.removed).collect()
    }

    fn rough(&self, taken: &[usize]) -> Trial {
        let removed = self.with(taken);
        if removed == self.all.removed {
            return self.all.clone();
        }
        self.trials.run(&removed, Buying::Allowed, Care::Rough)
    }

    /// Looks once more on both sides of the best length.
    fn refine(&self, order: &[usize], trials: &mut Vec<(usize, Trial)>) {
        let best = trials
            .iter()
            .filter(|(_, trial)| trial.stranded().is_empty())
            .min_by_key(|(length, trial)| (trial.total, *length));
        let Some((best, least)) = best.map(|(length, trial)| (*length, trial.total)) else {
            return;
        };
        let near = |trial: &Trial| trial.total <= least + least.percent(MUCH_WORSE);
        let near = || {
            trials
                .iter()
                .filter(|(_, trial)| near(trial))
                .map(|(length, _)| *length)
        };
        let below = near().filter(|length| *length < best).max();
        let above = near().filter(|length| *length > best).min();
        for neighbour in [below, above].into_iter().flatten() {
            let middle = usize::midpoint(best, neighbour);
            if middle != best && middle != neighbour {
                trials.push((middle, self.rough(&order[..middle])));
            }
        }
    }

    /// The longest prefix found whose pods all fit on nodes that stay.
    fn largest_deletion(&self, order: &[usize]) -> Option<BTreeSet<u32>> {
        let fits = |length: usize| {
            let removed = self.with(&order[..length]);
            let trial = self.trials.run(&removed, Buying::Forbidden, Care::Rough);
            trial.stranded().is_empty().then_some(removed)
        };
        let (mut low, mut high) = (0, order.len());
        let mut found = None;
        while low < high {
            let middle = (low + high).div_ceil(2);
            match fits(middle) {
                Some(removed) => {
                    found = Some(removed);
                    low = middle;
                }
                None => high = middle - 1,
            }
        }
        found
    }

    /// The trial made carefully, without nodes whose going breaks a rule.
    fn verified(&self, mut removed: BTreeSet<u32>, buying: Buying) -> Option<Trial> {
        for _ in 0..MAX_REPAIRS {
            if removed.len() == self.forced.removed.len() {
                return None;
            }
            let mut trial = self.trials.run(&removed, buying, Care::Fine);
            let mut back = trial.stranded();
            back.retain(|node| !self.forced.removed.contains(node));
            if back.is_empty() {
                back = verify::offenders(self.trials.problem, self.candidates, self.forced, &trial);
            }
            if back.is_empty() {
                verify::trim_alternatives(self.trials.problem, self.forced, &mut trial);
                back = verify::without_choice(self.trials, self.forced, &trial);
            }
            if back.is_empty() {
                return (trial.total < self.forced.total).then_some(trial);
            }
            removed.retain(|node| !back.contains(node));
        }
        None
    }
}
