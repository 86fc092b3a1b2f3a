//! Strategies compete; the cheapest plan that places the most pods wins.

mod reassign;
pub(crate) mod score;

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::pack::assign::{Assignment, LotId, NodeFilling, mix};
use crate::pack::bound::{self, Effort};
use crate::pack::compile::Compiled;
use crate::pack::compile::column_sets::Sets;
use crate::pack::compile::supply::{CounterId, Ledger};
use crate::pack::dense::typed::IdVec;
use crate::pack::fill::greedy::PodOrder;
use crate::pack::improve::Improver;
use crate::pack::improve::resize;
use crate::pack::output::bind_order;
use crate::pack::output::{alternatives, render};
use crate::pack::packing::{Context, Packing};
use crate::pack::parts::{Part, Without};
use crate::pack::scenario::Scenario;
use crate::pack::strategy::Strategy;
use crate::pack::strategy::best_fit;
use crate::pack::strategy::column_generation;
use crate::plan::Plan;

use self::score::Score;

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
    /// Parts that are left out, to measure what they are worth.
    pub without: Without,
}

/// Chosen so that five thousand pods take a tenth of a second on one core.
const DEFAULT_STEPS: u64 = 300;

/// Attempts of the local search between two looks at the clock, for callers that have one.
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
            without: Without::default(),
        }
    }
}

/// A packing and the sets its numbers refer to.
struct PackingCandidate {
    packing: Packing,
    sets: Sets,
    lot_values: Option<IdVec<LotId, f64>>,
}

/// A search that can be stopped between rounds. Plans only get cheaper.
pub(crate) struct Anytime<'a, 'p> {
    compiled: &'a Compiled<'p>,
    scenario: Scenario,
    options: Options,
    assignment: Assignment,
    ledger: Ledger,
    best: PackingCandidate,
    /// The first packing, if pods of it may find no turn to be bound: what comes after may lose more of them.
    first: Option<PackingCandidate>,
    improver: Option<Improver>,
    /// What a pod of each lot is worth as a whole pod, where column generation has found it.
    lot_values: Option<IdVec<LotId, f64>>,
    /// Steps done.
    steps: u64,
}

impl<'a, 'p> Anytime<'a, 'p> {
    /// Finds a first valid plan.
    pub(crate) fn new(compiled: &'a Compiled<'p>, scenario: &Scenario, options: &Options) -> Self {
        let plain = Self::first_plan(compiled, scenario, options, NodeFilling::ByClass);
        let nothing_to_buy = plain.assignment.lots.is_empty();
        let mixes =
            options.without.keeps(Part::MixedNodes) && mix::is_worthwhile(compiled, scenario);
        if nothing_to_buy || options.steps == 0 || !mixes {
            return plain;
        }
        let mixed = Self::first_plan(compiled, scenario, options, NodeFilling::Mixed);
        if mixed.score() < plain.score() {
            mixed
        } else {
            plain
        }
    }

    fn first_plan(
        compiled: &'a Compiled<'p>,
        scenario: &Scenario,
        options: &Options,
        node_filling: NodeFilling,
    ) -> Self {
        let mut sets = Sets::new(compiled);
        let mut ledger = compiled.supply.ledger();
        let (mut assignment, mut packing) =
            reassign::assign_and_pack(compiled, &mut sets, scenario, node_filling, &ledger);
        while let Some(narrower) = over_share(compiled, &packing, &ledger) {
            ledger = narrower;
            (assignment, packing) =
                reassign::assign_and_pack(compiled, &mut sets, scenario, node_filling, &ledger);
        }
        let plain = sets.clone();
        let mut search = Anytime {
            compiled,
            scenario: scenario.clone(),
            options: options.clone(),
            assignment,
            ledger,
            best: PackingCandidate {
                packing,
                sets,
                lot_values: None,
            },
            lot_values: None,
            first: None,
            improver: None,
            steps: 0,
        };
        // What an autoscaler without a plan does is the least to be expected, and takes next to no time.
        if options.without.keeps(Part::Cheapest) {
            let plainest = search.packed(plain, Strategy::Cheapest, &[]);
            search.consider(plainest);
        }
        search
    }

    /// Does some steps of improvement; false when the budget is spent or nothing can be gained.
    pub(crate) fn improve(&mut self) -> bool {
        let left = self.options.steps - self.steps;
        if left == 0 || self.assignment.lots.is_empty() {
            return false;
        }
        if self.steps == 0 {
            // Where every way to pack is left out, that is a step too.
            self.steps += self.compete(left).max(1);
            return true;
        }
        let done = self.improver.as_ref().is_some_and(Improver::is_done);
        let improves = self.options.without.keeps(Part::Improve);
        let improvable = improves && !self.best.packing.bins.is_empty() && !done;
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
        let PackingCandidate { packing, sets, .. } = &mut self.best;
        let mut context = Context {
            compiled: self.compiled,
            sets,
            lots: &self.assignment.lots,
            ledger: &self.ledger,
            without: self.options.without,
        };
        let seed = self.options.seed;
        let improver = self.improver.get_or_insert_with(|| {
            Improver::new(&context, packing, seed, self.lot_values.is_some())
        });
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
        context.debug_check(packing);
    }

    /// The best plan so far.
    pub(crate) fn plan(&self) -> Plan {
        let (plan, lost) = self.rendered(&self.best);
        let first = self.first.as_ref().filter(|_| lost > 0);
        // Pods that cannot be bound may make the cheaper packing the worse one.
        let Some(first) = first else { return plan };
        let (other, _) = self.rendered(first);
        if Score::of_plan(self.compiled, &other) < Score::of_plan(self.compiled, &plan) {
            return other;
        }
        plan
    }

    /// A packing as a plan that can be bound, and how many pods found no turn to be bound.
    fn rendered(&self, candidate: &PackingCandidate) -> (Plan, usize) {
        let (compiled, scenario) = (self.compiled, &self.scenario);
        let packing = &*self.resized(candidate);
        let effort = Effort {
            thorough: self.options.steps > 0,
            without: self.options.without,
        };
        let known = self.lot_values.as_ref();
        let bound =
            bound::lower_bound(compiled, scenario, &self.assignment, packing, effort, known);
        let (mut plan, columns) = render::plan(compiled, &self.assignment, packing, bound);
        let poor = alternatives::below_min_values(compiled, &plan);
        let unsure = self
            .assignment
            .needs_bind_simulation(compiled, &packing.left)
            || !poor.is_empty();
        let lost = if unsure {
            bind_order::order_bindings(compiled, scenario, &mut plan, &columns, poor)
        } else {
            0
        };
        (plan, lost)
    }

    /// A packing whose machines of custom size have the size that they will have.
    fn resized<'c>(&self, candidate: &'c PackingCandidate) -> Cow<'c, Packing> {
        if self.compiled.custom_types.is_empty() {
            return Cow::Borrowed(&candidate.packing);
        }
        let mut sets = candidate.sets.clone();
        let mut context = Context {
            compiled: self.compiled,
            sets: &mut sets,
            lots: &self.assignment.lots,
            ledger: &self.ledger,
            without: self.options.without,
        };
        let mut packing = candidate.packing.clone();
        resize::resize(&mut context, &mut packing);
        if over_share(self.compiled, &packing, &self.ledger).is_some() {
            // Fewer machines were too few for the share.
            packing = candidate.packing.clone();
            resize::fitted(&mut context, &mut packing);
        }
        Cow::Owned(packing)
    }

    /// Ways to pack that suit the problem, the most promising first.
    fn strategies(&mut self) -> Vec<Strategy> {
        let lots = &self.assignment.lots;
        let counts: IdVec<LotId, u32> = lots.iter().map(|lot| lot.count).collect();
        let context = Context {
            compiled: self.compiled,
            sets: &mut self.best.sets,
            lots,
            ledger: &self.ledger,
            without: self.options.without,
        };
        let machines = self.best.packing.bins.len() as u64;
        let apart = best_fit::machines_needed(&context, &counts);
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
            strategies.push(Strategy::Bargains(PodOrder::Large));
        }
        if few || apart == 0 {
            strategies.push(Strategy::Bargains(PodOrder::Mixed));
            if lots.len() <= MANY_LOTS {
                strategies.push(Strategy::Bargains(PodOrder::Even));
            }
        }
        // It learns from those before it.
        if lots.len() <= column_generation::MAX_LOTS {
            strategies.push(Strategy::ColumnGeneration);
        }
        strategies.retain(|strategy| self.options.without.keeps(strategy.part()));
        strategies
    }

    /// Packs in other ways, at most so many; returns how many it were.
    fn compete(&mut self, most: u64) -> u64 {
        let mut strategies = self.strategies();
        strategies.truncate(usize::try_from(most).unwrap_or(usize::MAX));
        let learner = strategies
            .iter()
            .position(|strategy| *strategy == Strategy::ColumnGeneration);
        let mut independent = strategies.clone();
        independent.retain(|strategy| *strategy != Strategy::ColumnGeneration);
        let sets = &self.best.sets;
        let run =
            |strategy: Strategy, others: &[&Packing]| self.packed(sets.clone(), strategy, others);
        let mut found: Vec<PackingCandidate> = if self.options.threads > 1 {
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
            let candidate = run(Strategy::ColumnGeneration, &others);
            found.push(candidate);
        }
        for mut candidate in found {
            self.lot_values = candidate
                .lot_values
                .take()
                .or_else(|| self.lot_values.take());
            self.consider(candidate);
        }
        strategies.len() as u64
    }

    /// All lots packed in one way.
    fn packed(&self, mut sets: Sets, strategy: Strategy, others: &[&Packing]) -> PackingCandidate {
        let mut context = Context {
            compiled: self.compiled,
            sets: &mut sets,
            lots: &self.assignment.lots,
            ledger: &self.ledger,
            without: self.options.without,
        };
        let (packing, lot_values) = strategy.pack(&mut context, others);
        PackingCandidate {
            packing,
            sets,
            lot_values,
        }
    }

    /// Of the best packing so far.
    fn score(&self) -> Score {
        Score::of_packing(self.compiled, &self.assignment, &self.best.packing, &[])
    }

    fn consider(&mut self, candidate: PackingCandidate) {
        let valid = over_share(self.compiled, &candidate.packing, &self.ledger).is_none();
        let new = Score::of_packing(self.compiled, &self.assignment, &candidate.packing, &[]);
        if valid && new < self.score() {
            let old = std::mem::replace(&mut self.best, candidate);
            let unsure = self
                .assignment
                .needs_bind_simulation(self.compiled, &old.packing.left);
            if unsure && self.first.is_none() {
                self.first = Some(old);
            }
        }
    }
}

/// A ledger that holds spot offerings to their share, if a packing exceeds it.
fn over_share(compiled: &Compiled<'_>, packing: &Packing, ledger: &Ledger) -> Option<Ledger> {
    let percent = compiled.problem.settings.spot_share?;
    let most = (packing.bins.len() as i64 * i64::from(percent) / 100).max(1);
    let mut counts: BTreeMap<CounterId, i64> = BTreeMap::new();
    let spot: Vec<CounterId> = compiled.supply.spot().collect();
    for bin in &packing.bins {
        for (counter, _) in &compiled.column(bin.column).uses {
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
