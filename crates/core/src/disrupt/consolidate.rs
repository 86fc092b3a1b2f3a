//! To save money: many nodes make way for fewer, cheaper or no machines, over the whole cluster at once.
//!
//! Every candidate is weighed: its price against what its pods would cost if everything were packed anew. Nodes in
//! order of that ratio are taken away, some or all of them, and the shape of the cluster that costs least wins, what
//! moving pods costs included.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::Causes;
use super::budgets::{Budgets, PodBudgets, give_both_back, take_both};
use super::candidate::{Candidate, Elsewhere, Standing};
use super::explain::Obstacle;
use super::trial::{Buying, Care, Trial, Trials};
use super::worth;
use crate::money::Money;
use crate::problem::{CapacityType, DisruptionReason, NodeId};

mod verify;

/// Shares of the candidates that are tried, in thousandths.
const SHARES: [usize; 9] = [1000, 900, 750, 600, 450, 300, 180, 80, 20];
/// What moving a pod costs, in percent of what pods cost in the mean: for less than that no pod is disturbed.
const MOVING: u32 = 2;
/// Nodes that are put back to see whether fewer moves do as well.
const MAX_RETURNS: usize = 6;
/// Two trials in a row that cost so much more than the best, in percent, end the search.
const WORSE: u32 = 3;
/// So much more ends it at once: what lies between is not better than the best either.
const MUCH_WORSE: u32 = 50;
/// So few nodes are looked at one by one.
const FEW: usize = 24;
/// One part in so many above the least that the cluster can cost is near enough to look no further, unless more than half
/// of all pods are moved for it.
const ENOUGH: i64 = 500;
/// Choices among these few.
const MAX_LOOKS: usize = 31;
/// Choices that are looked at closely before none is made.
const MAX_CHOICES: usize = 3;
/// How often nodes are looked at that budgets held back for others which stay after all.
const MAX_ROUNDS: usize = 3;
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
    let eligible: Vec<usize> = (0..candidates.len())
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
    let mut open = eligible;
    let mut found = None;
    for _ in 0..MAX_ROUNDS {
        let taken = within_budgets(trials, candidates, budgets, pods, open.clone());
        let search = Search {
            trials,
            candidates,
            forced: &forced,
            all: &all,
            obstacles: RefCell::default(),
        };
        found = search.best(&taken);
        let obstacles = search.obstacles.into_inner();
        let chosen = |node: &NodeId| found.as_ref().is_some_and(|one| one.removed.contains(node));
        for index in &taken {
            let candidate = &mut candidates[*index];
            if chosen(&candidate.node) {
                causes.insert(candidate.node, DisruptionReason::Underutilized);
            } else {
                candidate.obstacle = obstacles.get(&candidate.node).copied();
                give_both_back(trials.problem, budgets, pods, candidate);
            }
        }
        open.retain(|index| !taken.contains(index));
        if found.is_some() || taken.is_empty() || open.is_empty() {
            break;
        }
        // Budgets held these back for nodes that stay after all.
        for index in &open {
            candidates[*index].standing = Standing::Free;
        }
    }
    let found = found.unwrap_or(forced);
    look_again(trials, candidates, causes, &found);
    found
}

/// Whether pods of nodes that stay could really go nowhere: each of a few such nodes is tried by itself.
fn look_again(
    trials: &Trials<'_, '_>,
    candidates: &mut [Candidate],
    causes: &Causes,
    found: &Trial,
) {
    let staying = candidates.iter_mut().filter(|one| {
        let free = one.standing == Standing::Free && one.elsewhere == Elsewhere::Nowhere;
        free && !causes.contains_key(&one.node)
    });
    for (index, candidate) in staying.enumerate() {
        let mut removed = found.removed.clone();
        removed.insert(candidate.node);
        let alone = (index < FEW).then(|| trials.run(&removed, Buying::Allowed, Care::Rough));
        let placed = |trial: &Trial| !trial.stranded().contains(&candidate.node);
        if alone.as_ref().is_none_or(placed) {
            let shares = alone.map(|trial| worth::shares(trials.problem, &trial.plan));
            let share = shares.and_then(|shares| shares.get(&candidate.node).copied());
            let cost = share.unwrap_or_else(|| price(trials, candidate));
            candidate.elsewhere = Elsewhere::Cost(cost);
        }
    }
}

fn price(trials: &Trials<'_, '_>, candidate: &Candidate) -> Money {
    let node = trials.problem.node_at(candidate.node);
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
        candidate.elsewhere = match shares.get(&candidate.node) {
            _ if stranded.contains(&candidate.node) => Elsewhere::Nowhere,
            share => Elsewhere::Cost(share.copied().unwrap_or_default()),
        };
    }
    all
}

/// Those that all budgets allow together, the largest gain first; in order of price against what they are worth.
fn within_budgets(
    trials: &Trials<'_, '_>,
    candidates: &mut [Candidate],
    budgets: &mut Budgets,
    pods: &mut PodBudgets<'_>,
    mut eligible: Vec<usize>,
) -> Vec<usize> {
    // For all that is known, pods without another place are worth what they cost where they are.
    let worth = |candidate: &Candidate| candidate.elsewhere.cost_or(price(trials, candidate));
    let gain = |candidate: &Candidate| price(trials, candidate) - worth(candidate);
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
            Err((code, because, until)) => {
                candidate.standing = Standing::Held {
                    code,
                    because,
                    until,
                }
            }
        }
    }
    // As much by what its pods cost elsewhere as by how many they are: of two that gain the same, the one that disturbs
    // fewer goes first.
    let worth = |candidate: &Candidate| worth(candidate).dollars();
    let all = taken.iter().map(|index| &candidates[*index]);
    let (worths, pods) = all.fold((0.0, 0.0), |(worths, pods), one| {
        (worths + worth(one), pods + f64::from(one.pods))
    });
    let mean = worths / f64::max(pods, 1.0);
    let ratio = |index: &usize| {
        let candidate = &candidates[*index];
        let burden = worth(candidate) + mean * f64::from(candidate.pods);
        price(trials, candidate).dollars() / burden.max(1e-9)
    };
    taken.sort_by(|a, b| {
        let order = ratio(b).total_cmp(&ratio(a));
        order.then(candidates[*a].node.cmp(&candidates[*b].node))
    });
    taken
}

/// The same with one of these nodes back or gone as well, then with one back and another gone in its stead.
fn neighbours(
    removed: &BTreeSet<NodeId>,
    few: &[NodeId],
) -> impl Iterator<Item = BTreeSet<NodeId>> {
    let gone = few.iter().filter(|node| removed.contains(node));
    let left = few.iter().filter(|node| !removed.contains(node));
    let swaps = gone.flat_map(move |back| left.clone().map(move |gone| vec![*back, *gone]));
    let changes = few.iter().map(|node| vec![*node]).chain(swaps);
    changes.map(|nodes| {
        // Those that are gone come back, and the others go.
        let change = nodes.into_iter().collect();
        removed.symmetric_difference(&change).copied().collect()
    })
}

struct Search<'a, 'c, 'p> {
    trials: &'a Trials<'c, 'p>,
    candidates: &'a [Candidate],
    forced: &'a Trial,
    /// Everything that could go away, as tried when candidates were appraised.
    all: &'a Trial,
    /// By which rule nodes had to stay.
    obstacles: RefCell<BTreeMap<NodeId, Obstacle>>,
}

impl Search<'_, '_, '_> {
    /// The cheapest valid trial that takes some of these away beside those forced to go.
    fn best(&self, taken: &[usize]) -> Option<Trial> {
        // Spot must not make way for spot unless its pool says so; room that is there is another matter.
        let (locked, open): (Vec<usize>, Vec<usize>) =
            taken.iter().partition(|index| self.locked(**index));
        for removed in self.ranked(&open).into_iter().take(MAX_CHOICES) {
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
        let node = self.trials.problem.node_at(candidate.node);
        let pool = &self.trials.problem.pools[candidate.pool];
        node.capacity_type == CapacityType::Spot && !pool.disruption.spot_to_spot
    }

    fn with(&self, taken: &[usize]) -> BTreeSet<NodeId> {
        let mut removed = self.forced.removed.clone();
        removed.extend(taken.iter().map(|index| self.candidates[*index].node));
        removed
    }

    /// Tries prefixes of the order; best choice first.
    fn ranked(&self, order: &[usize]) -> Vec<BTreeSet<NodeId>> {
        // Of a few, each is tried by itself afterwards.
        let few = order.len() <= FEW;
        let mut lengths: Vec<usize> = SHARES
            .iter()
            .step_by(if few { 2 } else { 1 })
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
        trials.sort_by_key(|(length, trial)| (self.burden(trial), *length));
        let mut ranked: Vec<BTreeSet<NodeId>> = Vec::new();
        if let Some((_, best)) = trials.first() {
            if few {
                ranked.push(self.closely(order, best));
            } else {
                ranked.extend(self.fewer(best));
            }
        }
        ranked.extend(trials.into_iter().map(|(_, trial)| trial.removed));
        ranked
    }

    /// Each of a few nodes is left where it is, or taken away as well or in another's stead, for as long as that makes
    /// the whole cheaper: a node that goes takes room that others then have to buy, and the order in which they were
    /// tried cannot show that.
    fn closely(&self, few: &[usize], best: &Trial) -> BTreeSet<NodeId> {
        let few: Vec<NodeId> = few.iter().map(|at| self.candidates[*at].node).collect();
        let enough = self.least() + Money::from_nanos(self.least().nanos() / ENOUGH);
        let mut best = best.clone();
        let mut seen = BTreeSet::from([best.removed.clone()]);
        let mut looks = MAX_LOOKS;
        let moves_many = |trial: &Trial| trial.moved > self.all.moved / 2;
        while best.total > enough || moves_many(&best) {
            let unseen = neighbours(&best.removed, &few).filter(|removed| {
                removed.len() > self.forced.removed.len() && seen.insert(removed.clone())
            });
            let better = unseen.take(looks).find_map(|removed| {
                looks -= 1;
                let trial = self.trials.run(&removed, Buying::Allowed, Care::Rough);
                let better = self.burden(&trial) < self.burden(&best);
                (better && trial.stranded().is_empty()).then_some(trial)
            });
            match better {
                Some(trial) => best = trial,
                None => break,
            }
        }
        best.removed
    }

    /// What the cluster costs at least, whichever nodes are removed.
    fn least(&self) -> Money {
        self.all.total - self.all.plan.cost + self.all.plan.lower_bound
    }

    /// What a trial comes to, with what it costs to move pods.
    fn burden(&self, trial: &Trial) -> Money {
        let moved = |trial: &Trial| i64::try_from(trial.moved).unwrap_or(i64::MAX);
        let mean = Money::from_nanos(self.all.plan.cost.nanos() / moved(self.all).max(1));
        let moving = mean.percent(MOVING).nanos().saturating_mul(moved(trial));
        trial.total + Money::from_nanos(moving)
    }

    /// The same with some nodes left where they are, if that is as good: those whose like is bought, then one by one
    /// those with the most pods.
    fn fewer(&self, best: &Trial) -> Option<BTreeSet<NodeId>> {
        let mut found: Option<Trial> = None;
        let mut tried = BTreeSet::new();
        for _ in 0..MAX_RETURNS {
            let best = found.as_ref().unwrap_or(best);
            let mut back = self.twins(best);
            back.retain(|node| tried.insert(*node));
            if back.is_empty() {
                back.extend(self.fullest(best, &tried));
                tried.extend(back.iter().copied());
            }
            let mut removed = best.removed.clone();
            removed.retain(|node| !back.contains(node));
            if back.is_empty() || removed.len() == self.forced.removed.len() {
                break;
            }
            let trial = self.trials.run(&removed, Buying::Allowed, Care::Rough);
            if trial.stranded().is_empty() && self.burden(&trial) < self.burden(best) {
                found = Some(trial);
            }
        }
        found.map(|trial| trial.removed)
    }

    /// Whether a node goes in a trial and could stay.
    fn chosen(&self, trial: &Trial, node: NodeId) -> bool {
        trial.removed.contains(&node) && !self.forced.removed.contains(&node)
    }

    /// The node with the most pods of those that go and were not tried yet.
    fn fullest(&self, trial: &Trial, tried: &BTreeSet<NodeId>) -> Option<NodeId> {
        let going = self
            .candidates
            .iter()
            .filter(|one| self.chosen(trial, one.node));
        going
            .filter(|one| !tried.contains(&one.node))
            .max_by_key(|one| (one.pods, one.node))
            .map(|one| one.node)
    }

    /// Nodes that go although the like is bought.
    fn twins(&self, trial: &Trial) -> Vec<NodeId> {
        let mut bought: Vec<_> = trial
            .plan
            .launches
            .iter()
            .map(|launch| &launch.purchase)
            .collect();
        let mut twins = Vec::new();
        for node in trial
            .removed
            .iter()
            .filter(|node| self.chosen(trial, **node))
        {
            let kept = self.trials.problem.node_at(*node);
            let same = bought.iter().position(|one| {
                one.instance_type == kept.instance_type
                    && one.capacity_type == kept.capacity_type
                    && kept.price.is_some_and(|price| price <= one.price)
            });
            if let Some(at) = same {
                bought.swap_remove(at);
                twins.push(*node);
            }
        }
        twins
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
    fn largest_deletion(&self, order: &[usize]) -> Option<BTreeSet<NodeId>> {
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
    fn verified(&self, mut removed: BTreeSet<NodeId>, buying: Buying) -> Option<Trial> {
        for _ in 0..MAX_REPAIRS {
            if removed.len() == self.forced.removed.len() {
                return None;
            }
            let mut trial = self.trials.run(&removed, buying, Care::Fine);
            let because = |nodes: BTreeSet<NodeId>, obstacle| -> BTreeMap<NodeId, Obstacle> {
                nodes.into_iter().map(|node| (node, obstacle)).collect()
            };
            let mut stranded = trial.stranded();
            stranded.retain(|node| !self.forced.removed.contains(node));
            let mut back = because(stranded, Obstacle::Stranded);
            if back.is_empty() {
                back = verify::offenders(self.trials.problem, self.candidates, self.forced, &trial);
            }
            if back.is_empty() {
                verify::trim_alternatives(self.trials.problem, self.forced, &mut trial);
                // What is left to choose from may be too little now.
                back = verify::offenders(self.trials.problem, self.candidates, self.forced, &trial);
            }
            if back.is_empty() {
                let poor = verify::below_min_values(self.trials, self.forced, &trial);
                back = because(poor, Obstacle::MinValues);
            }
            if back.is_empty() {
                return (trial.total < self.forced.total).then_some(trial);
            }
            removed.retain(|node| !back.contains_key(node));
            self.obstacles.borrow_mut().extend(back);
        }
        None
    }
}
