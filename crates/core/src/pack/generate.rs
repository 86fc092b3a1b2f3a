//! Few kinds of pods, many of each: a linear program over fillings of whole machines, made as they are needed
//! (Gilmore and Gomory), and rounded by buying the whole parts and asking again for the rest.

use super::appraisal::Appraisal;
use super::bins::{Context, Packing};
use super::caps::{self, HostCaps};
use super::simplex;
use super::vector::{Vector, WIDTH};

/// More lots than this are left to other strategies: the program grows with their square.
pub(crate) const MAX_LOTS: usize = 128;
/// Rounds of making fillings for one program.
const MAX_ROUNDS: usize = 60;
/// Fillings looked at for one machine before the best so far will do.
const MAX_NODES: u32 = 400;
/// The same, when it has to be proven that none is better.
const PROOF_NODES: u32 = 100_000;
/// Machines whose room is worth less than this share of their price are not filled.
const BARGAIN: f64 = 0.5;

/// A lot on offer for one machine: lot, position, value, and the most that may be taken.
type Item = (u32, usize, f64, u32);

/// A filling of a machine.
#[derive(Clone, Debug, PartialEq)]
struct Pattern {
    column: u32,
    /// Pods by position among the lots at hand.
    counts: Vec<u32>,
}

/// Packs what has no machine yet, if there are few enough kinds of it.
pub(crate) fn pack(context: &mut Context<'_, '_>, packing: &mut Packing) {
    let lots: Vec<u32> = (0..context.lots.len() as u32)
        .filter(|lot| packing.left[*lot as usize] > 0 && !context.is_near(*lot))
        .collect();
    if lots.is_empty() || lots.len() > MAX_LOTS {
        return;
    }
    let appraisal = Appraisal::new(context, &packing.left);
    let columns: Vec<u32> = appraisal
        .bargains
        .iter()
        .filter(|(potential, _)| *potential >= BARGAIN)
        .map(|(_, column)| *column)
        .collect();
    let mut patterns: Vec<Pattern> = Vec::new();
    loop {
        let left: Vec<u32> = lots.iter().map(|lot| packing.left[*lot as usize]).collect();
        if left.iter().all(|count| *count == 0) {
            break;
        }
        // What is bought next must not hold more than there is.
        patterns.retain(|pattern| {
            let mut pairs = pattern.counts.iter().zip(&left);
            pairs.all(|(count, left)| count <= left)
        });
        let solution = program(context, packing, &lots, &left, &columns, &mut patterns);
        if !buy(context, packing, &lots, &patterns, &solution.worth) {
            break;
        }
    }
    context.downsize(packing);
}

/// Makes fillings until no machine has a better one; returns how many of each the program buys.
fn program(
    context: &Context<'_, '_>,
    packing: &Packing,
    lots: &[u32],
    left: &[u32],
    columns: &[u32],
    patterns: &mut Vec<Pattern>,
) -> simplex::Solution {
    singles(context, packing, lots, left, patterns);
    let objective: Vec<f64> = left.iter().map(|count| f64::from(*count)).collect();
    let mut round = 0;
    loop {
        round += 1;
        let mut rows = Vec::with_capacity(patterns.len() * lots.len());
        let mut limits = Vec::with_capacity(patterns.len());
        for pattern in patterns.iter() {
            rows.extend(pattern.counts.iter().map(|count| f64::from(*count)));
            limits.push(context.compiled.columns[pattern.column as usize].cost as f64);
        }
        let solution = simplex::maximise(&rows, &limits, &objective);
        let mut found = false;
        for column in columns {
            let bought = &context.compiled.columns[*column as usize];
            if !packing.ledger.can(&bought.uses) {
                continue;
            }
            let mut filler = Filler::new(context, lots, left, &solution.point, *column);
            filler.search(bought.room);
            let better = filler.best > bought.cost as f64 * (1.0 + 1e-7);
            let pattern = Pattern {
                column: *column,
                counts: filler.chosen,
            };
            if better && !patterns.contains(&pattern) {
                patterns.push(pattern);
                found = true;
            }
        }
        if !found || round == MAX_ROUNDS {
            return solution;
        }
    }
}

/// What the pods of all lots are worth at values that no filling of any machine exceeds: a bound on the cost of every
/// packing, closer than that from resources alone because it knows that pods are whole.
pub(crate) fn bound(context: &Context<'_, '_>) -> f64 {
    let lots: Vec<u32> = (0..context.lots.len() as u32).collect();
    if lots.is_empty() || lots.len() > MAX_LOTS {
        return 0.0;
    }
    let left: Vec<u32> = context.lots.iter().map(|lot| lot.count).collect();
    let appraisal = Appraisal::new(context, &left);
    let packing = context.empty();
    let columns: Vec<u32> = appraisal
        .bargains
        .iter()
        .map(|(_, column)| *column)
        .collect();
    let bargains = appraisal.bargains.iter();
    let promising = bargains
        .take_while(|(potential, _)| *potential >= BARGAIN)
        .count();
    let mut patterns = Vec::new();
    let first = &columns[..promising];
    let values = program(context, &packing, &lots, &left, first, &mut patterns).point;
    let mut worst = 1.0;
    for column in &columns {
        let bought = &context.compiled.columns[*column as usize];
        let mut filler = Filler::new(context, &lots, &left, &values, *column);
        let ceiling = filler.ceiling(0, &bought.room);
        if ceiling <= bought.cost as f64 * worst {
            continue;
        }
        filler.budget = PROOF_NODES;
        filler.search(bought.room);
        let most = if filler.nodes > filler.budget {
            ceiling
        } else {
            filler.best
        };
        let ratio = most / bought.cost.max(1) as f64;
        if ratio > worst {
            worst = ratio;
        }
    }
    let mut total = 0.0;
    for (value, count) in values.iter().zip(&left) {
        total += value * f64::from(*count);
    }
    total / worst
}

/// For each lot the machine in which its pods alone cost least: with these every program has an answer.
fn singles(
    context: &Context<'_, '_>,
    packing: &Packing,
    lots: &[u32],
    left: &[u32],
    patterns: &mut Vec<Pattern>,
) {
    for (position, lot) in lots.iter().enumerate() {
        if left[position] == 0 {
            continue;
        }
        let requests = context.requests(*lot);
        let cap = caps::room(&HostCaps::new(), &context.level(*lot).caps);
        let set = context.lots[*lot as usize].set;
        let best = context
            .sets
            .list(set)
            .iter()
            .filter_map(|index| {
                let column = &context.compiled.columns[*index as usize];
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

/// Buys the whole parts, or else one of the filling that the program wants most.
fn buy(
    context: &mut Context<'_, '_>,
    packing: &mut Packing,
    lots: &[u32],
    patterns: &[Pattern],
    shares: &[f64],
) -> bool {
    let mut bought = false;
    for (pattern, share) in patterns.iter().zip(shares) {
        let whole = if *share >= 1.0 - 1e-6 {
            (share + 1e-6) as u32
        } else {
            0
        };
        for _ in 0..whole {
            bought |= buy_one(context, packing, lots, pattern);
        }
    }
    if bought {
        return true;
    }
    // A filling that is wanted by a large part wastes little when it is bought whole.
    let mut order: Vec<usize> = (0..patterns.len()).collect();
    order.sort_by(|a, b| shares[*b].total_cmp(&shares[*a]).then(a.cmp(b)));
    order
        .into_iter()
        .any(|index| buy_one(context, packing, lots, &patterns[index]))
}

fn buy_one(
    context: &mut Context<'_, '_>,
    packing: &mut Packing,
    lots: &[u32],
    pattern: &Pattern,
) -> bool {
    let enough = |(count, lot): (&u32, &u32)| *count <= packing.left[*lot as usize];
    if !pattern.counts.iter().zip(lots).all(enough) {
        return false;
    }
    let first = pattern.counts.iter().position(|count| *count > 0);
    let Some(first) = first else { return false };
    let set = context.lots[lots[first] as usize].set;
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

/// Looks for the most valuable filling of one machine, most valuable pods for their size first.
struct Filler<'a, 'p> {
    context: &'a Context<'a, 'p>,
    items: Vec<Item>,
    /// How many of each the machine would take if pods could be cut.
    parts: Vec<f64>,
    /// What a unit of each resource can be worth at most, from each item on, if it were the only scarce one.
    rates: Vec<[f64; 4]>,
    /// What units are worth together, so that no item is worth more than what it takes.
    prices: [f64; WIDTH],
    counts: Vec<u32>,
    chosen: Vec<u32>,
    best: f64,
    nodes: u32,
    budget: u32,
}

impl<'a, 'p> Filler<'a, 'p> {
    fn new(
        context: &'a Context<'a, 'p>,
        lots: &[u32],
        left: &[u32],
        values: &[f64],
        column: u32,
    ) -> Self {
        let room = &context.compiled.columns[column as usize].room;
        let items: Vec<Item> = lots
            .iter()
            .enumerate()
            .filter(|(position, lot)| {
                left[*position] > 0
                    && values[*position] > 0.0
                    && context.requests(**lot).fits(room)
                    && context.may_use(**lot, column)
            })
            .map(|(position, lot)| (*lot, position, values[position], left[position]))
            .collect();
        let (prices, parts) = prices(context, &items, room);
        let density = |item: &Item| {
            let takes = takes(&prices, context.requests(item.0));
            if takes > 0.0 { item.2 / takes } else { 0.0 }
        };
        let mut keyed: Vec<(f64, f64, Item)> = items
            .into_iter()
            .zip(parts)
            .map(|(item, part)| (density(&item), part, item))
            .collect();
        keyed.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.2.1.cmp(&b.2.1)));
        let parts: Vec<f64> = keyed.iter().map(|(_, part, _)| *part).collect();
        let items: Vec<Item> = keyed.into_iter().map(|(_, _, item)| item).collect();
        let mut rates = vec![[0.0; 4]; items.len() + 1];
        for index in (0..items.len()).rev() {
            rates[index] = rates[index + 1];
            let requests = context.requests(items[index].0);
            for (rate, amount) in rates[index].iter_mut().zip(&requests.0) {
                let own = if *amount > 0 {
                    items[index].2 / *amount as f64
                } else {
                    f64::INFINITY
                };
                if own > *rate {
                    *rate = own;
                }
            }
        }
        Filler {
            context,
            items,
            parts,
            rates,
            prices,
            counts: vec![0; lots.len()],
            chosen: vec![0; lots.len()],
            best: 0.0,
            nodes: 0,
            budget: MAX_NODES,
        }
    }

    /// Looks for the most valuable filling.
    fn search(&mut self, room: Vector) {
        self.round_down(room);
        self.descend(0, room, &HostCaps::new(), 0.0);
    }

    /// The whole parts of the filling with cut pods, and what else fits, best value for room first.
    fn round_down(&mut self, room: Vector) {
        let mut left = room;
        let mut held = HostCaps::new();
        let mut value = 0.0;
        for whole in [true, false] {
            for index in 0..self.items.len() {
                let (lot, position, worth, most) = self.items[index];
                let requests = self.context.requests(lot);
                let caps = &self.context.level(lot).caps;
                let wanted = if whole {
                    self.parts[index].max(0.0) as u32
                } else {
                    u32::MAX
                };
                let most = most - self.counts[position];
                let fits = requests.copies_in(&left).clamp(0, i64::from(most)) as u32;
                let take = fits.min(caps::room(&held, caps)).min(wanted);
                if take > 0 {
                    left.subtract(&requests.times(i64::from(take)));
                    for cap in caps {
                        caps::hold(&mut held, *cap, take);
                    }
                    self.counts[position] += take;
                    value += worth * f64::from(take);
                }
            }
        }
        self.best = value;
        self.chosen.clone_from(&self.counts);
        self.counts.fill(0);
    }

    /// What the items from one on can be worth at most in the room that is left.
    fn ceiling(&self, index: usize, left: &Vector) -> f64 {
        let mut ceiling = f64::INFINITY;
        for (rate, amount) in self.rates[index].iter().zip(&left.0) {
            if *rate < f64::INFINITY {
                let most = rate * *amount as f64;
                if most < ceiling {
                    ceiling = most;
                }
            }
        }
        let mut together = 0.0;
        for (price, amount) in self.prices.iter().zip(&left.0) {
            together += price * *amount as f64;
        }
        if together < ceiling {
            together
        } else {
            ceiling
        }
    }

    fn descend(&mut self, index: usize, left: Vector, held: &HostCaps, value: f64) {
        self.nodes += 1;
        if value > self.best {
            self.best = value;
            self.chosen.clone_from(&self.counts);
        }
        if index == self.items.len() || self.nodes > self.budget {
            return;
        }
        if value + self.ceiling(index, &left) <= self.best {
            return;
        }
        let (lot, position, worth, most) = self.items[index];
        let requests = *self.context.requests(lot);
        let caps = &self.context.level(lot).caps;
        let fits = requests.copies_in(&left).clamp(0, i64::from(most)) as u32;
        let take = fits.min(caps::room(held, caps));
        for count in (0..=take).rev() {
            let mut rest = left;
            rest.subtract(&requests.times(i64::from(count)));
            let mut here = held.clone();
            if count > 0 {
                for cap in caps {
                    caps::hold(&mut here, *cap, count);
                }
            }
            self.counts[position] = count;
            self.descend(index + 1, rest, &here, value + worth * f64::from(count));
            if self.nodes > self.budget {
                break;
            }
        }
        self.counts[position] = 0;
    }
}

/// How many of each item fit if pods could be cut, and the prices of resources at which the room of a machine is worth
/// least while no item is worth more than it takes.
fn prices(context: &Context<'_, '_>, items: &[Item], room: &Vector) -> ([f64; WIDTH], Vec<f64>) {
    let mut rows = Vec::new();
    let mut limits = Vec::new();
    let mut asked: Vec<usize> = Vec::new();
    for (resource, amount) in room.0.iter().enumerate() {
        let requests = || {
            items
                .iter()
                .map(|item| context.requests(item.0).0[resource])
        };
        if requests().all(|amount| amount == 0) {
            continue;
        }
        // Shares of the room instead of amounts, so that numbers are of one size.
        let whole = (*amount).max(1) as f64;
        rows.extend(requests().map(|amount| amount as f64 / whole));
        limits.push(if *amount > 0 { 1.0 } else { 0.0 });
        asked.push(resource);
    }
    let objective: Vec<f64> = items.iter().map(|item| item.2).collect();
    let solution = simplex::maximise(&rows, &limits, &objective);
    let mut prices = [0.0; WIDTH];
    for (resource, share) in asked.into_iter().zip(&solution.worth) {
        prices[resource] = share.max(0.0) / room.0[resource].max(1) as f64;
    }
    // Whatever the program says, no item may be worth more than what it takes.
    let mut worst = 1.0;
    for item in items {
        let takes = takes(&prices, context.requests(item.0));
        let ratio = if takes > 0.0 {
            item.2 / takes
        } else {
            f64::INFINITY
        };
        if ratio > worst {
            worst = ratio;
        }
    }
    for price in &mut prices {
        *price *= worst;
    }
    (prices, solution.point)
}

fn takes(prices: &[f64; WIDTH], requests: &Vector) -> f64 {
    let mut takes = 0.0;
    for (price, amount) in prices.iter().zip(&requests.0) {
        takes += price * *amount as f64;
    }
    takes
}
