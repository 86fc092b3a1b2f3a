//! Few kinds of pods, many of each: a linear program over fillings of whole machines, generated as they are needed
//! (Gilmore and Gomory), and rounded by buying the whole parts and asking again for the rest.

use crate::pack::assign::LotId;
use crate::pack::compile::caps::{self, HeldCaps};
use crate::pack::compile::ids::ColumnId;
use crate::pack::dense::typed::IdVec;
use crate::pack::fill::exact::{EmptyMachine, ExactFill};
use crate::pack::packing::{Context, Packing};
use crate::pack::parts::{Part, Without};
use crate::pack::value::appraisal::Appraisal;
use crate::pack::value::simplex::{LpSolution, Tableau};

// Halved or doubled, each of the numbers below moves the mean price of every set of problems by at most 0.15% and the time by
// at most 7%, unless more is said (docs/benchmarks.md, "Tuning constants").

/// More lots than this are left to other strategies: the program grows with their square. With half, traces cost 3.6% more;
/// with twice, none of the problems changes.
pub(crate) const MAX_LOTS: usize = 128;
/// Rounds of making fillings for one program.
const MAX_ROUNDS: usize = 200;
/// Fillings made in one round before values are found anew.
const PER_ROUND: usize = 24;
/// Fillings looked at for one machine before the best so far will do, times lots: where there are few, all of them can
/// be looked at.
const MAX_NODES: usize = 60_000;
/// So few lots that fillings of them can be looked through.
const FEW_LOTS: usize = 16;
/// Beginnings of fillings that are kept where there are more: when none is found that is better, more of them.
const WIDTHS: [usize; 2] = [24, 128];
/// Fillings looked at for all machines together and each pod to prove that none is worth more than its machine.
const PROOF_NODES: u64 = 150;
/// How much work one program is worth for each pod, in numbers of its tableau changed: to pack, and for a bound.
const PACKING_EFFORT: u64 = 60_000;
const PROOF_EFFORT: u64 = 10_000;
/// A bound is for information: this is the most it may take.
const MOST_PROOF_EFFORT: u64 = 20_000_000;
const MOST_PROOF_NODES: u64 = 150_000;
/// Pods beyond this are worth no more work.
const MANY_PODS: u64 = 8_000;
/// What preparing to fill a machine takes for each lot, and a look at a filling, where a number of a program takes one.
const PREPARATION: u64 = 40;
const LOOK: u64 = 100;
/// Machines whose room is worth less than this share of their price are not filled.
const BARGAIN: f64 = 0.2;
/// Programs solved for one packing. What is left then is little, and is left to others.
const PROGRAMS: usize = 64;
/// How much of the effort the first of them may take, in percent.
const FIRST_SHARE: u64 = 70;
/// A filling that a program wants by this part is bought whole.
const LARGE_PART: f64 = 0.7;
/// Fillings worth less than this share of their machine's price are forgotten before the next program.
const WANTED: f64 = 0.96;

/// Fillings taken over from other packings, times lots.
const SEEDS: usize = 3;

/// A filling of a machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pattern {
    column: ColumnId,
    /// Pods by position among the lots at hand.
    counts: Vec<u32>,
}

/// What so many pods are worth.
fn effort(left: &[u32], each: u64) -> u64 {
    let pods: u64 = left.iter().map(|count| u64::from(*count)).sum();
    pods.min(MANY_PODS) * each
}

/// How many beginnings of fillings are kept: few lots can be looked through as they are.
fn widths(lots: usize, without: Without) -> &'static [usize] {
    if lots > FEW_LOTS && without.keeps(Part::Beam) {
        &WIDTHS
    } else {
        &[0]
    }
}

/// Dollars, so that numbers of a program are of one size.
fn price(context: &Context<'_, '_>, column: ColumnId) -> f64 {
    context.compiled.column(column).cost as f64 / 1e9
}

/// Packs what has no machine yet, if there are few enough kinds of it, and says what a pod of each lot is worth. Something
/// may be left over. Fillings of other packings are taken over where they are good.
pub(crate) fn pack(
    context: &mut Context<'_, '_>,
    packing: &mut Packing,
    others: &[&Packing],
) -> Option<IdVec<LotId, f64>> {
    let lots: Vec<LotId> = context
        .lots
        .ids()
        .filter(|lot| packing.left[*lot] > 0 && !context.has_host_affinity(*lot))
        .collect();
    if lots.is_empty() || lots.len() > MAX_LOTS {
        return None;
    }
    let appraisal = Appraisal::new(context, &packing.left);
    let columns: Vec<ColumnId> = appraisal
        .bargains
        .iter()
        .filter(|(potential, _)| *potential >= BARGAIN)
        .map(|(_, column)| *column)
        .collect();
    let effort = effort(&packing.left, PACKING_EFFORT);
    let others = if context.without.keeps(Part::Seeds) {
        others
    } else {
        &[]
    };
    let mut patterns = taken_over(context, &appraisal, &lots, others);
    let mut lot_values = None;
    let mut spent = 0;
    let programs = if context.without.keeps(Part::LaterPrograms) {
        PROGRAMS
    } else {
        1
    };
    for _ in 0..programs {
        let left: Vec<u32> = lots.iter().map(|lot| packing.left[*lot]).collect();
        if left.iter().all(|count| *count == 0) {
            break;
        }
        let mut program = PatternProgram::new(context, packing, &lots, &left, &columns, patterns);
        let share = if lot_values.is_none() {
            FIRST_SHARE
        } else {
            100
        };
        let most = (effort * share / 100).saturating_sub(spent);
        // What is left after the first is little.
        let widths = widths(lots.len(), context.without);
        let widths = if lot_values.is_none() {
            widths
        } else {
            &widths[..1]
        };
        let solution = program.solve(context, packing, most, widths);
        spent += program.spent();
        if lot_values.is_none() {
            let mut worth = appraisal.worth.clone();
            for (lot, value) in lots.iter().zip(&solution.point) {
                worth[*lot] = value * 1e9;
            }
            lot_values = Some(worth);
        }
        if !buy(context, packing, &lots, &program.patterns, &solution) {
            break;
        }
        patterns = program.wanted(context, packing, &solution);
    }
    context.downsize(packing);
    lot_values
}

/// Fillings of machines in other packings, those that are worth most for their price.
fn taken_over(
    context: &Context<'_, '_>,
    appraisal: &Appraisal,
    lots: &[LotId],
    others: &[&Packing],
) -> Vec<Pattern> {
    let mut patterns: Vec<Pattern> = Vec::new();
    for bin in others.iter().flat_map(|packing| &packing.bins) {
        let mut counts = vec![0; lots.len()];
        let known = bin.pods.iter().all(|(lot, count)| {
            let position = lots.binary_search(lot);
            position.map(|position| counts[position] = *count).is_ok()
        });
        if known {
            let column = bin.column;
            patterns.push(Pattern { column, counts });
        }
    }
    patterns.sort_unstable();
    patterns.dedup();
    let worth: Vec<f64> = lots.iter().map(|lot| appraisal.worth[*lot]).collect();
    let mut rated: Vec<(f64, Pattern)> = patterns
        .into_iter()
        .map(|pattern| {
            (
                value(&pattern, &worth) / price(context, pattern.column),
                pattern,
            )
        })
        .collect();
    rated.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    rated.truncate(SEEDS * lots.len());
    rated.into_iter().map(|(_, pattern)| pattern).collect()
}

/// What the pods of a filling are worth.
fn value(pattern: &Pattern, values: &[f64]) -> f64 {
    let mut value = 0.0;
    for (count, worth) in pattern.counts.iter().zip(values) {
        value += f64::from(*count) * worth;
    }
    value
}

/// A linear program over fillings, which are made as they are needed.
struct PatternProgram<'a> {
    lots: &'a [LotId],
    left: &'a [u32],
    /// Positions of lots of which something is left: the variables of the program.
    active: Vec<usize>,
    columns: &'a [ColumnId],
    /// By column.
    machines: Vec<EmptyMachine>,
    patterns: Vec<Pattern>,
    tableau: Tableau,
    /// The column to be looked at next.
    next: usize,
    looked: u64,
}

impl<'a> PatternProgram<'a> {
    fn new(
        context: &Context<'_, '_>,
        packing: &Packing,
        lots: &'a [LotId],
        left: &'a [u32],
        columns: &'a [ColumnId],
        mut patterns: Vec<Pattern>,
    ) -> Self {
        singles(context, packing, lots, left, &mut patterns);
        let active: Vec<usize> = (0..left.len()).filter(|lot| left[*lot] > 0).collect();
        let objective: Vec<f64> = active.iter().map(|lot| f64::from(left[*lot])).collect();
        let mut program = PatternProgram {
            lots,
            left,
            active,
            columns,
            machines: columns
                .iter()
                .map(|column| EmptyMachine::new(context, lots, *column))
                .collect(),
            patterns: Vec::new(),
            tableau: Tableau::new(&objective),
            next: 0,
            looked: 0,
        };
        for pattern in patterns {
            program.add(context, pattern);
        }
        program
    }

    fn add(&mut self, context: &Context<'_, '_>, pattern: Pattern) {
        let active = self.active.iter();
        let row: Vec<f64> = active.map(|lot| f64::from(pattern.counts[*lot])).collect();
        self.tableau.add(&row, price(context, pattern.column));
        self.patterns.push(pattern);
    }

    /// What it took so far.
    fn spent(&self) -> u64 {
        self.looked + self.tableau.effort()
    }

    /// What pods of all lots are worth, and how many of each filling are bought.
    fn solution(&self) -> LpSolution {
        let found = self.tableau.solution();
        let mut point = vec![0.0; self.lots.len()];
        for (lot, value) in self.active.iter().zip(found.point) {
            point[*lot] = value;
        }
        let worth = found.worth;
        LpSolution { point, worth }
    }

    /// Makes fillings until no machine has a better one, with one width of looking for them after the other.
    fn solve(
        &mut self,
        context: &Context<'_, '_>,
        packing: &Packing,
        effort: u64,
        mut widths: &[usize],
    ) -> LpSolution {
        self.tableau.ascend();
        let mut solution = self.solution();
        for _ in 0..MAX_ROUNDS {
            let Some((width, wider)) = widths.split_first() else {
                break;
            };
            if self.spent() > effort {
                break;
            }
            if self.generate(context, packing, &solution.point, *width) == 0 {
                widths = wider;
                continue;
            }
            self.tableau.descend();
            solution = self.solution();
        }
        solution
    }

    /// Adds fillings that are worth more than their machines; returns how many it were.
    fn generate(
        &mut self,
        context: &Context<'_, '_>,
        packing: &Packing,
        values: &[f64],
        width: usize,
    ) -> usize {
        let nodes = (MAX_NODES / self.lots.len().max(1)) as u32;
        let mut found = 0;
        // Each round goes on where the last one stopped, and the last of all goes once round.
        for _ in 0..self.columns.len() {
            let at = self.next;
            let column = self.columns[at];
            self.next = (at + 1) % self.columns.len();
            let bought = context.compiled.column(column);
            if !packing.ledger.can(&bought.uses) {
                continue;
            }
            let least = price(context, column) * (1.0 + 1e-7);
            let (lots, left) = (self.lots, self.left);
            let machine = &mut self.machines[at];
            let exact_fill = ExactFill::new(context, machine, lots, left, values, least);
            self.looked += PREPARATION * lots.len() as u64;
            let Some(exact_fill) = exact_fill else {
                continue;
            };
            let (counts, looked_at) = exact_fill.search(nodes, width);
            self.looked += LOOK * u64::from(looked_at);
            let Some(counts) = counts else { continue };
            let pattern = Pattern { column, counts };
            if !self.patterns.contains(&pattern) {
                self.add(context, pattern);
                found += 1;
            }
            if found == PER_ROUND {
                break;
            }
        }
        found
    }

    /// Fillings worth keeping for what is left: what is bought next must not hold more than there is.
    fn wanted(
        self,
        context: &Context<'_, '_>,
        packing: &Packing,
        solution: &LpSolution,
    ) -> Vec<Pattern> {
        let left: Vec<u32> = self.lots.iter().map(|lot| packing.left[*lot]).collect();
        let mut patterns = self.patterns;
        patterns.retain_mut(|pattern| {
            for (count, left) in pattern.counts.iter_mut().zip(&left) {
                *count = (*count).min(*left);
            }
            value(pattern, &solution.point) >= price(context, pattern.column) * WANTED
        });
        patterns.sort_unstable();
        patterns.dedup();
        patterns
    }
}

/// What the pods of all lots are worth at values that no filling of any machine exceeds: a bound on the cost of every
/// packing, closer than that from resources alone because it knows that pods are whole. Values that are `known` save
/// looking for them; whether they are right is found out all the same.
pub(crate) fn bound(context: &Context<'_, '_>, known: Option<Vec<f64>>) -> f64 {
    let lots: Vec<LotId> = context.lots.ids().collect();
    if lots.is_empty() || lots.len() > MAX_LOTS {
        return 0.0;
    }
    let left: IdVec<LotId, u32> = context.lots.iter().map(|lot| lot.count).collect();
    let appraisal = Appraisal::fine(context, &left);
    let columns: Vec<ColumnId> = appraisal
        .bargains
        .iter()
        .map(|(_, column)| *column)
        .collect();
    let values: Vec<f64> = if let Some(nanos) = known {
        nanos.into_iter().map(|value| value / 1e9).collect()
    } else {
        let bargains = appraisal.bargains.iter();
        let promising = bargains
            .take_while(|(potential, _)| *potential >= BARGAIN)
            .count();
        let effort = effort(&left, PROOF_EFFORT).min(MOST_PROOF_EFFORT);
        let (packing, first) = (context.empty(), &columns[..promising]);
        let mut program = PatternProgram::new(context, &packing, &lots, &left, first, Vec::new());
        let widths = &widths(lots.len(), context.without)[..1];
        program.solve(context, &packing, effort, widths).point
    };
    let mut worst = 1.0;
    let mut budget = effort(&left, PROOF_NODES).min(MOST_PROOF_NODES) as u32;
    for column in &columns {
        let cost = price(context, *column);
        // Where nothing is paid, nothing is worth anything.
        if cost <= 0.0 {
            return 0.0;
        }
        let mut machine = EmptyMachine::new(context, &lots, *column);
        let exact_fill = ExactFill::new(context, &mut machine, &lots, &left, &values, cost * worst);
        let Some(exact_fill) = exact_fill else {
            continue;
        };
        let ceiling = exact_fill.ceiling();
        // One machine that is hard to judge must leave something for the others.
        let share = budget / 4 + 1;
        let (found, looked_at) = exact_fill.search(share, 0);
        let most = if looked_at > share {
            Some(ceiling)
        } else {
            let column = *column;
            found.map(|counts| value(&Pattern { column, counts }, &values))
        };
        budget = budget.saturating_sub(looked_at);
        if let Some(most) = most
            && most / cost > worst
        {
            worst = most / cost;
        }
    }
    let mut total = 0.0;
    for (value, count) in values.iter().zip(&left) {
        total += value * f64::from(*count);
    }
    total * 1e9 / worst
}

/// For each lot the machine in which its pods alone cost least: with these every program has an answer.
fn singles(
    context: &Context<'_, '_>,
    packing: &Packing,
    lots: &[LotId],
    left: &[u32],
    patterns: &mut Vec<Pattern>,
) {
    for (position, lot) in lots.iter().enumerate() {
        if left[position] == 0 {
            continue;
        }
        let requests = context.requests(*lot);
        let cap = caps::room(&HeldCaps::new(), &context.level(*lot).caps);
        let set = context.lot(*lot).set;
        let best = context
            .sets
            .list(set)
            .iter()
            .filter_map(|index| {
                let column = context.compiled.column(*index);
                let copies = requests.copies_in(&column.room).clamp(0, i64::from(cap)) as u32;
                let copies = copies.min(left[position]);
                let can = copies > 0 && packing.ledger.can(&column.uses);
                can.then(|| (column.cost / i64::from(copies), *index, copies))
            })
            .min();
        if let Some((_, column, copies)) = best {
            let mut counts = vec![0; lots.len()];
            counts[position] = copies;
            let pattern = Pattern { column, counts };
            if !patterns.contains(&pattern) {
                patterns.push(pattern);
            }
        }
    }
}

/// Buys the whole parts and what is nearly whole, or else one of the filling that the program wants most.
fn buy(
    context: &mut Context<'_, '_>,
    packing: &mut Packing,
    lots: &[LotId],
    patterns: &[Pattern],
    solution: &LpSolution,
) -> bool {
    let mut bought = false;
    let mut parts: Vec<(f64, usize)> = Vec::new();
    for (index, (pattern, share)) in patterns.iter().zip(&solution.worth).enumerate() {
        let whole = (share.max(0.0) + 1e-6) as u32;
        for _ in 0..whole {
            bought |= buy_one(context, packing, lots, pattern);
        }
        let part = share - f64::from(whole);
        if part > 0.0 {
            parts.push((part, index));
        }
    }
    // A filling that is wanted by a large part wastes little when it is bought whole.
    parts.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    for (part, index) in parts {
        if bought && part < LARGE_PART {
            break;
        }
        bought |= buy_one(context, packing, lots, &patterns[index]);
    }
    bought
}

fn buy_one(
    context: &mut Context<'_, '_>,
    packing: &mut Packing,
    lots: &[LotId],
    pattern: &Pattern,
) -> bool {
    let enough = |(count, lot): (&u32, &LotId)| *count <= packing.left[*lot];
    if !pattern.counts.iter().zip(lots).all(enough) {
        return false;
    }
    let first = pattern.counts.iter().position(|count| *count > 0);
    let Some(first) = first else { return false };
    let set = context.lot(lots[first]).set;
    let Some(bin) = context.open(packing, pattern.column, set) else {
        return false;
    };
    for (count, lot) in pattern.counts.iter().zip(lots) {
        if *count > 0 {
            context.put(packing, bin, *lot, *count);
        }
    }
    true
}
