//! Local search: a few machines are taken away, their pods packed anew, and what comes out no dearer stays.
//!
//! The values of an [`Appraisal`] say how much of a machine's price its pods are worth; the rest is waste. Wasteful
//! machines are taken more often, and an attempt ends as soon as what it has bought, with what its other pods are
//! worth, comes to more than what was there before.

pub(crate) mod redistribute;
pub(crate) mod resize;

use crate::pack::assign::LotId;
use crate::pack::compile::caps;
use crate::pack::compile::column_sets::{NOTHING, SetId};
use crate::pack::compile::ids::ColumnId;
use crate::pack::compile::supply::Ledger;
use crate::pack::dense::intern::FixedMap;
use crate::pack::dense::seeded::SeededGenerator;
use crate::pack::dense::typed::IdVec;
use crate::pack::dense::vector::{Lead, lead_fits};
use crate::pack::fill::greedy::{Filling, GreedyFill, PodOrder};
use crate::pack::packing::{Bin, Context, Packing};
use crate::pack::parts::Part;
use crate::pack::value::appraisal::Appraisal;
use crate::pack::value::machine_prices::{self, Prices};

use self::redistribute::PodSet;

// Halved or doubled, each of the numbers below moves the mean price of eight sets of problems (the five kinds with 100, 1,000
// and 5,000 pods, a trace, consolidation) by less than 0.1%, which is chance, and the time by less than a tenth, unless more is
// said.

/// Machines taken away in one attempt, at least.
const MACHINES: usize = 2;
/// How much is taken away where machines are bought one by one.
const ONE_BY_ONE: Reach = Reach {
    machines: 10,
    pods: 120,
};
/// Where pods are redistributed over several: the more there are, the more can be redistributed at once. With the former
/// everywhere 5,000 pods take a quarter longer and cost the same; with the latter everywhere 1,000 pods take four fifths of the
/// time, and web costs 1.1% more, upstream 0.4%.
const REDISTRIBUTE_FEW: Redistribution = Redistribution {
    reach: Reach {
        machines: 26,
        pods: 700,
    },
    buying: 4,
    tries: 2,
};
const REDISTRIBUTE_MANY: Redistribution = Redistribution {
    reach: Reach {
        machines: 40,
        pods: 1_400,
    },
    buying: 12,
    tries: 1,
};
/// For each machine to be taken away so many are drawn: those that cannot trade pods with the others stay.
const DRAWS: usize = 4;
/// One in so many machines is taken away whatever it wastes.
const ANY: usize = 4;
/// Columns filled for comparison before the best is bought. Twice as many take a quarter longer, and make 100 pods 1.2% cheaper
/// in plain; with more pods they gain nothing.
const FILLED: usize = 3;
/// Columns of a set that are filled at all.
const BARGAINS: usize = 15;
/// A machine that pods worth this share of all of them may use is for all of them.
const MOST: f64 = 0.5;
/// Machines whose free room loose pods may take.
const VISITED: usize = 200;
/// Attempts in vain for each machine after which the search is over. With 16 one of 879 problems of up to seven pods stays
/// 12.5% above its optimum, with 24 none does, and 100 pods cost 0.05% less; more find nothing.
const PATIENCE: u64 = 24;
/// Fewer machines than this are tried as often as this many, and one as often as the other; nor are pods redistributed over
/// fewer.
const FEW_MACHINES: usize = 12;
const POD_ORDERS: [PodOrder; 3] = [PodOrder::Large, PodOrder::Mixed, PodOrder::Even];
/// So many pods of each lot in the mean, and the fillings of a linear program are bought whole but for a few: to redistribute
/// their pods takes batch twice the time and gains nothing, while 100 pods of as many lots come out 1.4% cheaper.
const ROUNDED: u64 = 8;
/// How far a score may be perturbed, as a share of it.
const PERTURBATION: f64 = 0.3;

/// How much is taken away in one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reach {
    /// Machines at most.
    machines: usize,
    /// No further machine is taken once so many pods are loose.
    pods: u32,
}

/// How pods are redistributed over several machines.
#[derive(Debug)]
struct Redistribution {
    reach: Reach,
    /// One in so many tries buys machines one by one all the same.
    buying: usize,
    /// Tries in one attempt.
    tries: usize,
}

/// A search that goes on from attempt to attempt.
#[derive(Clone, Debug)]
pub(crate) struct Improver {
    appraisal: Appraisal,
    greedy: GreedyFill,
    /// By lot: pods without a machine in the attempt at hand.
    loose: IdVec<LotId, u32>,
    /// By machine: the part of its price that its pods are not worth.
    waste: Vec<f64>,
    /// By set: columns by what their room is worth for the price, best first.
    bargains: FixedMap<SetId, Vec<ColumnId>>,
    /// How pods are redistributed, if they can be.
    redistribution: Option<&'static Redistribution>,
    seed: u64,
    attempts: u64,
    /// Attempts since the last one that made the packing cheaper.
    fruitless: u64,
}

/// What an attempt has come to so far.
struct Attempt {
    generator: SeededGenerator,
    ledger: Ledger,
    /// Lots with loose pods, most valuable first.
    lots: Vec<LotId>,
    /// Pods that go into room that other machines have free: machine, lot, count.
    reinserted: Vec<(usize, LotId, u32)>,
    bought: Vec<(ColumnId, Filling)>,
    /// What the machines taken away cost, less what was bought.
    budget: i64,
    /// What pods that are still loose are worth.
    worth: f64,
}

impl Improver {
    pub(crate) fn new(
        context: &Context<'_, '_>,
        packing: &Packing,
        seed: u64,
        generated: bool,
    ) -> Self {
        let counts: IdVec<LotId, u32> = context.lots.iter().map(|lot| lot.count).collect();
        let mut appraisal = Appraisal::new(context, &counts);
        let pods: u64 = counts.iter().map(|count| u64::from(*count)).sum();
        // Whole parts of a program's fillings are nearly all there is: redistributing finds nothing better.
        let rounded = generated && pods >= ROUNDED * counts.len() as u64;
        let keeps = |part| context.without.keeps(part);
        let several = packing.bins.len() >= FEW_MACHINES && keeps(Part::Redistribute);
        let redistribution =
            (!rounded && several && redistribute::is_applicable(context)).then(|| {
                if machine_prices::are_few(&counts) {
                    &REDISTRIBUTE_FEW
                } else {
                    &REDISTRIBUTE_MANY
                }
            });
        // What all pods may use is told apart best by the shape of pods.
        let alike = redistribute::are_alike(context, context.lots.ids());
        if redistribution.is_some()
            && alike
            && keeps(Part::MachinePrices)
            && let Some(prices) = Prices::find(context, &counts, &appraisal)
        {
            prices.refine(context, &counts, &mut appraisal);
        }
        let mut improver = Improver {
            greedy: GreedyFill::new(counts.len()),
            loose: IdVec::filled(0, counts.len()),
            waste: Vec::new(),
            bargains: FixedMap::default(),
            redistribution,
            appraisal,
            seed,
            attempts: 0,
            fruitless: 0,
        };
        improver.waste = packing
            .bins
            .iter()
            .map(|bin| improver.waste_of(context, bin))
            .collect();
        improver
    }

    fn waste_of(&self, context: &Context<'_, '_>, bin: &Bin) -> f64 {
        let mut waste = context.compiled.column(bin.column).cost as f64;
        for (lot, count) in &bin.pods {
            waste -= self.appraisal.worth[*lot] * f64::from(*count);
        }
        waste
    }

    /// Makes an attempt at a cheaper packing. It is never dearer afterwards.
    pub(crate) fn attempt(&mut self, context: &mut Context<'_, '_>, packing: &mut Packing) {
        for _ in 0..self
            .redistribution
            .map_or(1, |redistribution| redistribution.tries)
        {
            self.try_once(context, packing);
        }
    }

    fn try_once(&mut self, context: &mut Context<'_, '_>, packing: &mut Packing) {
        let mut generator = SeededGenerator::new(self.seed, self.attempts);
        self.attempts += 1;
        self.fruitless += 1;
        let several = packing.bins.len() >= FEW_MACHINES;
        let redistribution = self.redistribution.filter(|_| several);
        let redistribution =
            redistribution.filter(|redistribution| generator.below(redistribution.buying) > 0);
        let reach = redistribution.map_or(ONE_BY_ONE, |redistribution| redistribution.reach);
        let chosen = self.choose(context, packing, &mut generator, reach);
        if chosen.is_empty() {
            return;
        }
        let mut attempt = self.loosen(context, packing, &chosen, generator);
        let done = if redistribution.is_some() {
            self.distribute(context, packing, &chosen, &mut attempt)
        } else {
            if attempt.generator.below(2) == 0 {
                self.reinsert(context, packing, &chosen, &mut attempt);
            }
            self.repack(context, &mut attempt)
        };
        for lot in &attempt.lots {
            self.loose[*lot] = 0;
        }
        let fewer = attempt.bought.len() <= chosen.len();
        if done && (attempt.budget > 0 || (attempt.budget == 0 && fewer)) {
            if attempt.budget > 0 {
                self.fruitless = 0;
            }
            self.execute(context, packing, chosen, attempt);
        }
    }

    /// Leaves an attempt out.
    pub(crate) fn pass(&mut self) {
        self.attempts += 1;
        self.fruitless += 1;
    }

    /// Whether so many attempts were in vain that another one is not worth it.
    pub(crate) fn is_done(&self) -> bool {
        self.fruitless > PATIENCE * self.waste.len().max(FEW_MACHINES) as u64
    }

    /// Machines to take away, by index, highest first.
    fn choose(
        &self,
        context: &mut Context<'_, '_>,
        packing: &Packing,
        generator: &mut SeededGenerator,
        reach: Reach,
    ) -> Vec<usize> {
        let count = packing.bins.len();
        let most = MACHINES + generator.below(reach.machines - MACHINES + 1);
        let mut chosen: Vec<usize> = Vec::new();
        let mut pods = 0;
        let mut total = 0.0;
        let mut sums = Vec::with_capacity(count);
        for (bin, waste) in packing.bins.iter().zip(&self.waste) {
            // The more of its price a machine wastes, the more there is to gain from the same work.
            let cost = context.compiled.column(bin.column).cost.max(1);
            total += waste.max(0.0) * waste.max(0.0) / cost as f64;
            sums.push(total);
        }
        let mut common = None;
        for _ in 0..DRAWS * most {
            if count == 0 || chosen.len() == most.min(count) || pods > reach.pods {
                break;
            }
            let worst = if count <= FEW_MACHINES || generator.below(ANY) == 0 {
                generator.below(count)
            } else {
                let part = generator.unit() * total;
                sums.partition_point(|sum| *sum <= part).min(count - 1)
            };
            let bin = &packing.bins[worst];
            let movable = bin
                .pods
                .iter()
                .all(|(lot, _)| !context.has_host_affinity(*lot));
            // Machines that could not trade pods have nothing to gain from each other.
            let meeting = context
                .sets
                .meet(context.compiled, common.unwrap_or(bin.set), bin.set);
            if movable && meeting != NOTHING && !chosen.contains(&worst) {
                common = Some(meeting);
                chosen.push(worst);
                pods += bin.pods.iter().map(|(_, count)| count).sum::<u32>();
            }
        }
        chosen.sort_unstable_by(|a, b| b.cmp(a));
        chosen
    }

    fn loosen(
        &mut self,
        context: &Context<'_, '_>,
        packing: &Packing,
        chosen: &[usize],
        generator: SeededGenerator,
    ) -> Attempt {
        let mut attempt = Attempt {
            generator,
            ledger: packing.ledger.clone(),
            lots: Vec::new(),
            reinserted: Vec::new(),
            bought: Vec::new(),
            budget: 0,
            worth: 0.0,
        };
        for index in chosen {
            let bin = &packing.bins[*index];
            let column = context.compiled.column(bin.column);
            attempt.ledger.give(&column.uses);
            attempt.budget += column.cost;
            for (lot, count) in &bin.pods {
                if self.loose[*lot] == 0 {
                    attempt.lots.push(*lot);
                }
                self.loose[*lot] += count;
                attempt.worth += self.appraisal.worth[*lot] * f64::from(*count);
            }
        }
        let worth = &self.appraisal.worth;
        attempt.lots.sort_by(|a, b| {
            let (first, second) = (worth[*a], worth[*b]);
            second.total_cmp(&first).then(a.cmp(b))
        });
        attempt
    }

    /// Redistributes loose pods over cheaper machines, and buys one by one for those without a place; false if none are
    /// found, or the budget does not suffice.
    fn distribute(
        &mut self,
        context: &mut Context<'_, '_>,
        packing: &Packing,
        chosen: &[usize],
        attempt: &mut Attempt,
    ) -> bool {
        let bargains = self.bargains_for(context, &attempt.lots);
        if bargains.is_empty() {
            return false;
        }
        let pods = attempt.lots.iter();
        let pods = pods.map(|lot| (*lot, self.loose[*lot]));
        let pod_set = PodSet::new(context, &self.appraisal, pods);
        let chosen_columns = chosen.iter().map(|index| packing.bins[*index].column);
        let columns: Vec<ColumnId> = chosen_columns.collect();
        let Some(columns) = pod_set.propose(context, &mut attempt.generator, &columns, &bargains)
        else {
            return false;
        };
        for filling in pod_set.distribute(context, &self.appraisal, &columns) {
            let Some(column) = smallest(context, &attempt.ledger, &filling) else {
                return false;
            };
            self.buy(context, attempt, column, filling);
        }
        if attempt.lots.iter().any(|lot| self.loose[*lot] > 0) {
            self.reinsert(context, packing, chosen, attempt);
        }
        attempt.worth <= attempt.budget as f64 + 1.0 && self.repack(context, attempt)
    }

    /// The best columns for loose pods: those that pods worth most of all of them may use.
    fn bargains_for(&self, context: &Context<'_, '_>, lots: &[LotId]) -> Vec<ColumnId> {
        let mut total = 0.0;
        let mut sets: Vec<(SetId, f64)> = Vec::new();
        for lot in lots {
            let worth = self.appraisal.worth[*lot] * f64::from(self.loose[*lot]);
            let set = context.lot(*lot).set;
            total += worth;
            match sets.iter_mut().find(|(own, _)| *own == set) {
                Some((_, sum)) => *sum += worth,
                None => sets.push((set, worth)),
            }
        }
        let suits = |column: ColumnId| {
            let able = sets.iter();
            let able =
                able.filter(|(set, _)| context.sets.list(*set).binary_search(&column).is_ok());
            able.map(|(_, worth)| worth).sum::<f64>() >= total * MOST
        };
        let all = self.appraisal.bargains.iter().map(|(_, column)| *column);
        all.filter(|column| suits(*column)).take(BARGAINS).collect()
    }

    /// Buys a machine for a filling.
    fn buy(
        &mut self,
        context: &Context<'_, '_>,
        attempt: &mut Attempt,
        column: ColumnId,
        filling: Filling,
    ) {
        let bought = context.compiled.column(column);
        attempt.ledger.take(&bought.uses);
        attempt.budget -= bought.cost;
        attempt.worth -= filling.worth;
        for (lot, count) in &filling.picks {
            self.loose[*lot] -= count;
        }
        attempt.bought.push((column, filling));
    }

    /// Puts loose pods into room that other machines have free.
    fn reinsert(
        &mut self,
        context: &mut Context<'_, '_>,
        packing: &Packing,
        chosen: &[usize],
        attempt: &mut Attempt,
    ) {
        let count = packing.bins.len();
        let start = attempt.generator.below(count);
        if !context.without.keeps(Part::Reinsert) {
            return;
        }
        // Few pods fit anywhere: what decides is looked at first, side by side.
        let loose = attempt.lots.iter();
        let mut waiting: Vec<(LotId, Lead)> = loose
            .filter(|lot| self.loose[**lot] > 0)
            .map(|lot| (*lot, context.requests(*lot).lead()))
            .collect();
        for step in 0..count.min(VISITED) {
            let index = (start + step) % count;
            let bin = &packing.bins[index];
            let room = &context.compiled.column(bin.column).room;
            let free = room.minus(&bin.load).lead();
            if chosen.contains(&index) || !waiting.iter().any(|(_, need)| lead_fits(need, &free)) {
                continue;
            }
            let mut visited = bin.clone();
            for (lot, need) in &waiting {
                if !lead_fits(need, &free) || !context.may_use(*lot, bin.column) {
                    continue;
                }
                let loose = &mut self.loose[*lot];
                let take = context.room(&visited, *lot).min(*loose);
                if take == 0 {
                    continue;
                }
                let Some(set) = joins(context, &visited, *lot, take) else {
                    continue;
                };
                visited.set = set;
                let requests = context.requests(*lot).times(i64::from(take));
                visited.load.add(&requests);
                for cap in &context.level(*lot).caps {
                    caps::hold(&mut visited.caps, *cap, take);
                }
                *loose -= take;
                attempt.worth -= self.appraisal.worth[*lot] * f64::from(take);
                attempt.reinserted.push((index, *lot, take));
            }
            waiting.retain(|(lot, _)| self.loose[*lot] > 0);
        }
    }

    /// Buys machines until no pod is loose; false if the budget does not suffice.
    fn repack(&mut self, context: &mut Context<'_, '_>, attempt: &mut Attempt) -> bool {
        let mut lots = attempt.lots.clone();
        lots.retain(|lot| self.loose[*lot] > 0);
        let pod_order = POD_ORDERS[attempt.generator.below(POD_ORDERS.len())];
        self.greedy
            .take_in(context, &self.appraisal, pod_order, lots.clone());
        while !lots.is_empty() {
            // The most valuable pod has fewest places to go; now and then another one is asked.
            let leads = if attempt.generator.below(3) == 0 {
                lots[attempt.generator.below(lots.len())]
            } else {
                lots[0]
            };
            let Some((column, filling)) = self.best(context, attempt, leads) else {
                return false;
            };
            self.buy(context, attempt, column, filling);
            if let Some((_, filling)) = attempt.bought.last() {
                self.greedy.sweep(filling, &self.loose);
            }
            lots.retain(|lot| self.loose[*lot] > 0);
            // Rounding in sums must not end an attempt that would have come out even.
            if attempt.worth > attempt.budget as f64 + 1.0 {
                return false;
            }
        }
        true
    }

    /// The filling worth most for its price, of some columns that the leading lot may use.
    fn best(
        &mut self,
        context: &mut Context<'_, '_>,
        attempt: &mut Attempt,
        leads: LotId,
    ) -> Option<(ColumnId, Filling)> {
        let set = context.lot(leads).set;
        let count = self.rank(context, set);
        let mut best: Option<(f64, ColumnId, Filling)> = None;
        for _ in 0..FILLED.min(count) {
            let part = attempt.generator.unit();
            let index = (part * part * count as f64) as usize;
            let column = self.bargains[&set][index];
            if !attempt.ledger.can(&context.compiled.column(column).uses) {
                continue;
            }
            let generator = &mut attempt.generator;
            let filling = self.fill(context, column, generator);
            let Some(column) = smallest(context, &attempt.ledger, &filling) else {
                continue;
            };
            let cost = context.compiled.column(column).cost;
            let ratio = filling.worth / cost.max(1) as f64;
            if best.as_ref().is_none_or(|(most, ..)| ratio > *most) {
                best = Some((ratio, column, filling));
            }
        }
        best.map(|(_, column, filling)| (column, filling))
    }

    /// A filling of a column with loose pods, chosen with some chance.
    fn fill(
        &mut self,
        context: &Context<'_, '_>,
        column: ColumnId,
        generator: &mut SeededGenerator,
    ) -> Filling {
        let (appraisal, loose) = (&self.appraisal, &mut self.loose);
        let perturb = |score| score * (1.0 - PERTURBATION * generator.unit());
        let mut filling = self.greedy.fill(context, appraisal, loose, column, perturb);
        if context.without.keeps(Part::Polish) {
            self.greedy
                .polish(context, appraisal, loose, column, &mut filling);
        }
        filling
    }

    /// Sorts the columns of a set by what they are worth; returns how many are to be looked at.
    fn rank(&mut self, context: &Context<'_, '_>, set: SetId) -> usize {
        let all = &self.appraisal.bargains;
        let entry = self.bargains.entry(set).or_insert_with(|| {
            let own = all.iter().map(|(_, column)| *column);
            let own = own.filter(|column| context.sets.list(set).binary_search(column).is_ok());
            own.take(BARGAINS).collect()
        });
        entry.len()
    }

    fn execute(
        &mut self,
        context: &mut Context<'_, '_>,
        packing: &mut Packing,
        chosen: Vec<usize>,
        mut attempt: Attempt,
    ) {
        for index in chosen {
            // The last machine takes the place of the one that goes.
            let last = packing.bins.len() - 1;
            context.close(packing, index);
            self.waste.swap_remove(index);
            for (bin, ..) in &mut attempt.reinserted {
                if *bin == last {
                    *bin = index;
                }
            }
        }
        for (bin, lot, count) in attempt.reinserted {
            context.put(packing, bin, lot, count);
            self.waste[bin] -= self.appraisal.worth[lot] * f64::from(count);
        }
        for (column, filling) in attempt.bought {
            let set = context.lot(filling.picks[0].0).set;
            let Some(bin) = context.open(packing, column, set) else {
                debug_assert!(false, "an attempt bought what cannot be had");
                continue;
            };
            for (lot, count) in &filling.picks {
                context.put(packing, bin, *lot, *count);
            }
            self.waste.push(self.waste_of(context, &packing.bins[bin]));
        }
    }
}

/// What a machine and pods of a lot may both use, if that meets the `minValues` of the machine's pool.
fn joins(context: &mut Context<'_, '_>, bin: &Bin, lot: LotId, count: u32) -> Option<SetId> {
    let set = context.lot(lot).set;
    let set = context.sets.meet(context.compiled, bin.set, set);
    let load = bin
        .load
        .plus(&context.requests(lot).times(i64::from(count)));
    let chooses = context
        .sets
        .meets_min_values(context.compiled, set, bin.column, &load);
    chooses.then_some(set)
}

/// The cheapest column for a filling.
fn smallest(context: &mut Context<'_, '_>, ledger: &Ledger, filling: &Filling) -> Option<ColumnId> {
    let (first, others) = filling.picks.split_first()?;
    let mut set = context.lot(first.0).set;
    for (lot, _) in others {
        let other = context.lot(*lot).set;
        set = context.sets.meet(context.compiled, set, other);
    }
    context
        .sets
        .cheapest(context.compiled, ledger, set, &filling.load)
}
