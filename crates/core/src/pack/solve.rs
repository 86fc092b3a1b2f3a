//! Strategies compete; the cheapest plan that places the most pods wins.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::money::Money;
use crate::plan::Plan;

use super::assign::{Assignment, Dealing, Lot, mix};
use super::best_fit;
use super::binding;
use super::bins::{Context, Packing};
use super::bound::{self, Effort, Known};
use super::choice;
use super::compile::Compiled;
use super::first_fit::{self, Opening};
use super::generate::{self, Market};
use super::improve::Improver;
use super::ledger::Ledger;
use super::near;
use super::patterns;
use super::render;
use super::scenario::Scenario;
use super::sets::Sets;
use super::spill;
use super::stock::Taste;
use super::tailor;

/// How hard to look for a cheaper plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Attempts at improvement after the first valid plan: other ways to pack first, then a local search, one attempt a
    /// step. Zero for the first valid plan; more never make the plan worse.
    pub steps: u64,
    /// Of the only randomness there is.
    pub seed: u64,
    /// Workers; the plan does not depend on it.
    pub threads: usize,
}

/// Chosen so that five thousand pods take a tenth of a second on one core.
const DEFAULT_STEPS: u64 = 300;

/// Attempts of the local search between two looks at the clock, for callers who have one.
const ATTEMPTS: u64 = 16;

/// So few lots that every way to pack them takes little time.
const FEW_LOTS: usize = 512;
/// So many lots that all ways to mix large and small pods come to the same.
const MANY_LOTS: usize = 2048;

impl Default for Options {
    fn default() -> Self {
        Options {
            steps: DEFAULT_STEPS,
            seed: 0,
            threads: 1,
        }
    }
}

/// Ways to pack from scratch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strategy {
    Patterns(Taste),
    BestFit,
    OneForAll,
    Cheapest,
    FewNodes,
    Generate,
}

/// A packing and the sets its numbers refer to.
struct Candidate {
    packing: Packing,
    sets: Sets,
    market: Option<Market>,
}

/// A search that can be stopped between rounds. Plans only get cheaper.
pub(crate) struct Anytime<'a, 'p> {
    compiled: &'a Compiled<'p>,
    scenario: Scenario,
    options: Options,
    assignment: Assignment,
    ledger: Ledger,
    best: Candidate,
    /// The first packing, if pods of it may lose their turn: what comes after may lose more of them.
    first: Option<Candidate>,
    improver: Option<Improver>,
    /// What is known of the worth of pods beyond their size.
    market: Option<Market>,
    /// Steps done.
    steps: u64,
}

impl<'a, 'p> Anytime<'a, 'p> {
    /// Finds a first valid plan.
    pub(crate) fn new(compiled: &'a Compiled<'p>, scenario: &Scenario, options: &Options) -> Self {
        let plain = Self::dealt(compiled, scenario, options, Dealing::InTurn);
        let settled = plain.assignment.lots.is_empty();
        if settled || options.steps == 0 || !mix::is_worthwhile(compiled, scenario) {
            return plain;
        }
        let mixed = Self::dealt(compiled, scenario, options, Dealing::Mixed);
        if mixed.merit() < plain.merit() {
            mixed
        } else {
            plain
        }
    }

    fn dealt(
        compiled: &'a Compiled<'p>,
        scenario: &Scenario,
        options: &Options,
        dealing: Dealing,
    ) -> Self {
        let mut sets = Sets::new(compiled);
        let mut ledger = compiled.supply.ledger();
        let (mut assignment, mut packing) =
            spill::settle(compiled, &mut sets, scenario, dealing, &ledger);
        while let Some(narrower) = over_share(compiled, &packing, &ledger) {
            ledger = narrower;
            (assignment, packing) = spill::settle(compiled, &mut sets, scenario, dealing, &ledger);
        }
        let plain = sets.clone();
        let mut search = Anytime {
            compiled,
            scenario: scenario.clone(),
            options: options.clone(),
            assignment,
            ledger,
            best: Candidate {
                packing,
                sets,
                market: None,
            },
            market: None,
            first: None,
            improver: None,
            steps: 0,
        };
        // What an autoscaler without a plan does is the least to be expected, and takes next to no time.
        let (lots, ledger) = (&search.assignment.lots, &search.ledger);
        let plainest = attempt(compiled, lots, ledger, plain, Strategy::Cheapest, &[]);
        search.consider(plainest);
        search
    }

    /// Does some steps of improvement; false when the budget is spent or nothing can be gained.
    pub(crate) fn improve(&mut self) -> bool {
        let left = self.options.steps - self.steps;
        if left == 0 || self.assignment.lots.is_empty() {
            return false;
        }
        if self.steps == 0 {
            self.steps += self.compete(left);
            return true;
        }
        let done = self.improver.as_ref().is_some_and(Improver::is_done);
        let improvable = !self.best.packing.bins.is_empty() && !done;
        if improvable {
            let attempts = left.min(ATTEMPTS);
            self.search(attempts);
            self.steps += attempts;
        }
        improvable
    }

    /// Looks for a cheaper packing near the best one.
    fn search(&mut self, attempts: u64) {
        let limited = self.compiled.problem.settings.spot_share.is_some();
        let Candidate { packing, sets, .. } = &mut self.best;
        let mut context = Context {
            compiled: self.compiled,
            sets,
            lots: &self.assignment.lots,
            ledger: &self.ledger,
        };
        let seed = self.options.seed;
        let improver = self
            .improver
            .get_or_insert_with(|| Improver::new(&context, packing, seed, self.market.as_ref()));
        for _ in 0..attempts {
            if !limited {
                improver.attempt(&mut context, packing);
                continue;
            }
            // A share is of the machines there are in the end: fewer of them may be too few for it.
            let before = (improver.clone(), packing.clone());
            improver.attempt(&mut context, packing);
            if over_share(self.compiled, packing, &self.ledger).is_some() {
                (*improver, *packing) = before;
                improver.pass();
            }
        }
    }

    /// The best plan so far.
    pub(crate) fn plan(&self) -> Plan {
        let (plan, lost) = self.rendered(&self.best);
        let first = self.first.as_ref().filter(|_| lost > 0);
        // Pods that lose their turn may make the cheaper packing the worse one.
        let Some(first) = first else { return plan };
        let (other, _) = self.rendered(first);
        if standing(self.compiled, &other) < standing(self.compiled, &plan) {
            return other;
        }
        plan
    }

    /// A packing as a plan that can be bound, and how many pods found no turn to be bound.
    fn rendered(&self, candidate: &Candidate) -> (Plan, usize) {
        let (compiled, scenario) = (self.compiled, &self.scenario);
        let packing = &*self.tailored(candidate);
        let effort = if self.options.steps == 0 {
            Effort::Quick
        } else {
            Effort::Thorough
        };
        let known = Known {
            market: self.market.as_ref(),
            prices: self.improver.as_ref().and_then(Improver::prices),
        };
        let bound =
            bound::lower_bound(compiled, scenario, &self.assignment, packing, effort, known);
        let (mut plan, columns) = render::plan(compiled, &self.assignment, packing, bound);
        let poor = choice::unreplaceable(compiled, &plan);
        let unsure = self.assignment.needs_rehearsal(compiled, &packing.left) || !poor.is_empty();
        let lost = if unsure {
            binding::settle(compiled, scenario, &mut plan, &columns, poor)
        } else {
            0
        };
        (plan, lost)
    }

    /// A packing whose machines made to measure have the size that they will have.
    fn tailored<'c>(&self, candidate: &'c Candidate) -> Cow<'c, Packing> {
        if self.compiled.makes.is_empty() {
            return Cow::Borrowed(&candidate.packing);
        }
        let mut sets = candidate.sets.clone();
        let mut context = Context {
            compiled: self.compiled,
            sets: &mut sets,
            lots: &self.assignment.lots,
            ledger: &self.ledger,
        };
        let mut packing = candidate.packing.clone();
        tailor::tailor(&mut context, &mut packing);
        if over_share(self.compiled, &packing, &self.ledger).is_some() {
            // Fewer machines were too few for the share.
            packing = candidate.packing.clone();
            tailor::cut(&mut context, &mut packing);
        }
        Cow::Owned(packing)
    }

    /// Ways to pack that suit the problem, the most promising first.
    fn strategies(&mut self) -> Vec<Strategy> {
        let lots = &self.assignment.lots;
        let counts: Vec<u32> = lots.iter().map(|lot| lot.count).collect();
        let context = Context {
            compiled: self.compiled,
            sets: &mut self.best.sets,
            lots,
            ledger: &self.ledger,
        };
        let machines = self.best.packing.bins.len() as u64;
        let apart = best_fit::hosts_needed(&context, &counts);
        let crowded = apart * 2 > machines;
        let few = lots.len() <= FEW_LOTS;
        let mut strategies = Vec::new();
        if crowded {
            strategies.push(Strategy::BestFit);
        }
        // Where hosts are what is scarce, many machines are filled to compare and few are worth it. Of many pods that
        // may go anywhere, mixtures fill machines better.
        let many = lots.len() > MANY_LOTS && apart == 0;
        if few || !(crowded || many) {
            strategies.push(Strategy::Patterns(Taste::Large));
        }
        if few || apart == 0 {
            strategies.push(Strategy::Patterns(Taste::Mixed));
            if lots.len() <= MANY_LOTS {
                strategies.push(Strategy::Patterns(Taste::Even));
            }
        }
        // It learns from those before it.
        if lots.len() <= generate::MAX_LOTS {
            strategies.push(Strategy::Generate);
        }
        strategies.push(Strategy::OneForAll);
        if self.compiled.supply.limited() {
            strategies.push(Strategy::FewNodes);
        }
        strategies
    }

    /// Packs in other ways, at most so many; returns how many it were.
    fn compete(&mut self, most: u64) -> u64 {
        let mut strategies = self.strategies();
        strategies.truncate(usize::try_from(most).unwrap_or(usize::MAX));
        let learner = strategies
            .iter()
            .position(|strategy| *strategy == Strategy::Generate);
        let mut independent = strategies.clone();
        independent.retain(|strategy| *strategy != Strategy::Generate);
        let sets = &self.best.sets;
        let run = |strategy: Strategy, others: &[&Packing]| {
            let (lots, ledger) = (&self.assignment.lots, &self.ledger);
            attempt(self.compiled, lots, ledger, sets.clone(), strategy, others)
        };
        let mut found: Vec<Candidate> = if self.options.threads > 1 {
            use rayon::prelude::*;
            let all = independent.par_iter();
            all.map(|strategy| run(*strategy, &[])).collect()
        } else {
            let all = independent.iter();
            all.map(|strategy| run(*strategy, &[])).collect()
        };
        if let Some(position) = learner {
            // Only from those before it, so that more steps change nothing of what fewer find.
            let others = found.iter().take(position).map(|one| &one.packing);
            let others: Vec<&Packing> = others.collect();
            let candidate = run(Strategy::Generate, &others);
            found.push(candidate);
        }
        for mut candidate in found {
            self.market = candidate.market.take().or_else(|| self.market.take());
            self.consider(candidate);
        }
        strategies.len() as u64
    }

    /// Of the best packing so far.
    fn merit(&self) -> (Vec<(i32, u32)>, i64, usize) {
        merit(self.compiled, &self.assignment, &self.best.packing, &[])
    }

    fn consider(&mut self, candidate: Candidate) {
        let valid = over_share(self.compiled, &candidate.packing, &self.ledger).is_none();
        let new = merit(self.compiled, &self.assignment, &candidate.packing, &[]);
        if valid && new < self.merit() {
            let old = std::mem::replace(&mut self.best, candidate);
            let unsure = self
                .assignment
                .needs_rehearsal(self.compiled, &old.packing.left);
            if unsure && self.first.is_none() {
                self.first = Some(old);
            }
        }
    }
}

/// Less is better: pods without a place, those of high priority first; then cost; then machines.
pub(crate) fn standing(compiled: &Compiled<'_>, plan: &Plan) -> (Vec<(i32, u32)>, Money, usize) {
    (missing(compiled, plan), plan.cost, plan.launches.len())
}

/// Pods without a place, those of high priority first: less is better.
pub(crate) fn missing(compiled: &Compiled<'_>, plan: &Plan) -> Vec<(i32, u32)> {
    let mut missing: BTreeMap<i32, u32> = BTreeMap::new();
    for pod in plan.waiting() {
        let priority = compiled.pod(pod.home, pod.group).spec.priority;
        *missing.entry(priority).or_insert(0) += 1;
    }
    missing.into_iter().rev().collect()
}

fn attempt(
    compiled: &Compiled<'_>,
    lots: &[Lot],
    ledger: &Ledger,
    mut sets: Sets,
    strategy: Strategy,
    others: &[&Packing],
) -> Candidate {
    let mut context = Context {
        compiled,
        sets: &mut sets,
        lots,
        ledger,
    };
    let mut packing = context.empty();
    let mut market = None;
    match strategy {
        Strategy::Patterns(taste) => patterns::pack(&mut context, &mut packing, taste),
        Strategy::BestFit => best_fit::pack(&mut context, &mut packing),
        Strategy::Generate => {
            market = generate::pack(&mut context, &mut packing, others);
            patterns::pack(&mut context, &mut packing, Taste::Large);
        }
        Strategy::OneForAll => first_fit::pack(&mut context, &mut packing, Opening::OneForAll),
        Strategy::Cheapest => first_fit::pack(&mut context, &mut packing, Opening::Cheapest),
        Strategy::FewNodes => first_fit::pack(&mut context, &mut packing, Opening::Largest),
    }
    context.keep_choice(&mut packing);
    near::pack(&mut context, &mut packing);
    Candidate {
        packing,
        sets,
        market,
    }
}

/// Less is better: pods without a place, those of high priority first; then cost; then machines. `lost` are pods that
/// were packed in vain: class and count.
pub(crate) fn merit(
    compiled: &Compiled<'_>,
    assignment: &Assignment,
    packing: &Packing,
    lost: &[(u32, u32)],
) -> (Vec<(i32, u32)>, i64, usize) {
    let mut missing: BTreeMap<i32, u32> = BTreeMap::new();
    let lots = assignment.lots.iter().map(|lot| lot.class);
    let left = lots.zip(packing.left.iter().copied());
    let without = assignment.failed.iter().chain(lost).copied();
    for (class, left) in left.chain(without) {
        if left > 0 {
            let priority = compiled.profile(class).spec.priority;
            *missing.entry(priority).or_insert(0) += left;
        }
    }
    // From the highest priority down: the list that ends first, or has the lower entry first, is the better one.
    let missing = missing.into_iter().rev().collect();
    (missing, packing.cost, packing.bins.len())
}

/// A ledger that holds spot offerings to their share, if a packing exceeds it.
fn over_share(compiled: &Compiled<'_>, packing: &Packing, ledger: &Ledger) -> Option<Ledger> {
    let percent = compiled.problem.settings.spot_share?;
    let most = (packing.bins.len() as i64 * i64::from(percent) / 100).max(1);
    let mut counts: BTreeMap<u32, i64> = BTreeMap::new();
    let spot: Vec<u32> = compiled.supply.spot().collect();
    for bin in &packing.bins {
        for (counter, _) in &compiled.columns[bin.column as usize].uses {
            if spot.binary_search(counter).is_ok() {
                *counts.entry(*counter).or_insert(0) += 1;
            }
        }
    }
    if counts.values().all(|count| *count <= most) {
        return None;
    }
    let mut narrower = ledger.clone();
    for counter in spot {
        narrower.set(counter, most);
    }
    Some(narrower)
}
