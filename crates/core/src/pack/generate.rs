//! Few kinds of pods, many of each: a linear program over fillings of whole machines, made as they are needed
//! (Gilmore and Gomory), and rounded by buying the whole parts and asking again for the rest.

use super::appraisal::Appraisal;
use super::bins::{Context, Packing};
use super::caps::{self, HostCaps};
use super::filler::Filler;
use super::simplex::{Solution, Tableau};

/// More lots than this are left to other strategies: the program grows with their square.
pub(crate) const MAX_LOTS: usize = 128;
/// Rounds of making fillings for one program.
const MAX_ROUNDS: usize = 200;
/// Fillings made in one round before values are found anew.
const PER_ROUND: usize = 12;
/// Fillings looked at for one machine before the best so far will do, times lots: where there are few, all of them can
/// be looked at.
const MAX_NODES: usize = 60_000;
/// The same for all machines together and each pod, when it has to be proven that none is better.
const PROOF_NODES: u64 = 150;
/// How much work one program is worth for each pod, in numbers of its tableau changed: to pack, and for a bound.
const PACKING_EFFORT: u64 = 50_000;
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
/// Programs solved for one packing, times lots. What is left then is little, and is left to others.
const PROGRAMS: usize = 640;
/// A filling that a program wants by this part is bought whole.
const LARGE_PART: f64 = 0.7;

/// A filling of a machine.
#[derive(Clone, Debug, PartialEq)]
struct Pattern {
    column: u32,
    /// Pods by position among the lots at hand.
    counts: Vec<u32>,
}

/// What so many pods are worth.
fn effort(left: &[u32], each: u64) -> u64 {
    let pods: u64 = left.iter().map(|count| u64::from(*count)).sum();
    pods.min(MANY_PODS) * each
}

/// Dollars, so that numbers of a program are of one size.
fn price(context: &Context<'_, '_>, column: u32) -> f64 {
    context.compiled.columns[column as usize].cost as f64 / 1e9
}

/// Packs what has no machine yet, if there are few enough kinds of it. Something may be left over.
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
    for _ in 0..PROGRAMS.div_ceil(lots.len()) {
        let left: Vec<u32> = lots.iter().map(|lot| packing.left[*lot as usize]).collect();
        if left.iter().all(|count| *count == 0) {
            break;
        }
        // What is bought next must not hold more than there is.
        patterns.retain(|pattern| {
            let mut pairs = pattern.counts.iter().zip(&left);
            pairs.all(|(count, left)| count <= left)
        });
        let solution = program(
            context,
            packing,
            &lots,
            &left,
            &columns,
            &mut patterns,
            effort(&left, PACKING_EFFORT),
        );
        if !buy(context, packing, &lots, &patterns, &solution.worth) {
            break;
        }
        keep_wanted(context, &mut patterns, &solution);
    }
    context.downsize(packing);
}

/// Forgets fillings that are far from being wanted.
fn keep_wanted(context: &Context<'_, '_>, patterns: &mut Vec<Pattern>, solution: &Solution) {
    patterns.retain(|pattern| {
        let mut value = 0.0;
        for (count, worth) in pattern.counts.iter().zip(&solution.point) {
            value += f64::from(*count) * worth;
        }
        value >= price(context, pattern.column) * 0.95
    });
}

/// Makes fillings until no machine has a better one; returns how many of each the program buys.
fn program(
    context: &Context<'_, '_>,
    packing: &Packing,
    lots: &[u32],
    left: &[u32],
    columns: &[u32],
    patterns: &mut Vec<Pattern>,
    effort: u64,
) -> Solution {
    singles(context, packing, lots, left, patterns);
    let objective: Vec<f64> = left.iter().map(|count| f64::from(*count)).collect();
    let mut tableau = Tableau::new(&objective);
    let add = |tableau: &mut Tableau, pattern: &Pattern| {
        let row: Vec<f64> = pattern.counts.iter().map(|one| f64::from(*one)).collect();
        tableau.add(&row, price(context, pattern.column));
    };
    for pattern in patterns.iter() {
        add(&mut tableau, pattern);
    }
    tableau.ascend();
    let mut solution = tableau.solution();
    let nodes = (MAX_NODES / lots.len().max(1)) as u32;
    let mut next = 0;
    let mut spent = 0;
    for _ in 0..MAX_ROUNDS {
        let mut found = 0;
        // Each round goes on where the last one stopped, and the last of all goes once round.
        for _ in 0..columns.len() {
            let column = columns[next];
            next = (next + 1) % columns.len();
            let bought = &context.compiled.columns[column as usize];
            if !packing.ledger.can(&bought.uses) {
                continue;
            }
            let least = price(context, column) * (1.0 + 1e-7);
            let filler = Filler::new(context, lots, left, &solution.point, column, least);
            spent += PREPARATION * lots.len() as u64;
            let Some(filler) = filler else { continue };
            let (found_counts, looked_at) = filler.search(nodes);
            spent += LOOK * u64::from(looked_at);
            let Some(counts) = found_counts else { continue };
            let pattern = Pattern { column, counts };
            if !patterns.contains(&pattern) {
                add(&mut tableau, &pattern);
                patterns.push(pattern);
                found += 1;
            }
            if found == PER_ROUND {
                break;
            }
        }
        if found == 0 || spent + tableau.effort() > effort {
            break;
        }
        tableau.descend();
        solution = tableau.solution();
    }
    solution
}

/// What the pods of all lots are worth at values that no filling of any machine exceeds: a bound on the cost of every
/// packing, closer than that from resources alone because it knows that pods are whole.
pub(crate) fn bound(context: &Context<'_, '_>) -> f64 {
    let lots: Vec<u32> = (0..context.lots.len() as u32).collect();
    if lots.is_empty() || lots.len() > MAX_LOTS {
        return 0.0;
    }
    let left: Vec<u32> = context.lots.iter().map(|lot| lot.count).collect();
    let appraisal = Appraisal::fine(context, &left);
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
    let values = program(
        context,
        &packing,
        &lots,
        &left,
        first,
        &mut patterns,
        effort(&left, PROOF_EFFORT).min(MOST_PROOF_EFFORT),
    )
    .point;
    let mut worst = 1.0;
    let mut budget = effort(&left, PROOF_NODES).min(MOST_PROOF_NODES) as u32;
    for column in &columns {
        let cost = price(context, *column);
        // Where nothing is paid, nothing is worth anything.
        if cost <= 0.0 {
            return 0.0;
        }
        let filler = Filler::new(context, &lots, &left, &values, *column, cost * worst);
        let Some(filler) = filler else { continue };
        let ceiling = filler.ceiling();
        let (found, looked_at) = filler.search(budget);
        let most = if looked_at > budget {
            Some(ceiling)
        } else {
            found.map(|counts| {
                let mut value = 0.0;
                for (count, worth) in counts.iter().zip(&values) {
                    value += f64::from(*count) * worth;
                }
                value
            })
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

/// Buys the whole parts and what is nearly whole, or else one of the filling that the program wants most.
fn buy(
    context: &mut Context<'_, '_>,
    packing: &mut Packing,
    lots: &[u32],
    patterns: &[Pattern],
    shares: &[f64],
) -> bool {
    let mut bought = false;
    let mut parts: Vec<(f64, usize)> = Vec::with_capacity(patterns.len());
    for (index, (pattern, share)) in patterns.iter().zip(shares).enumerate() {
        let whole = (share.max(0.0) + 1e-6) as u32;
        for _ in 0..whole {
            bought |= buy_one(context, packing, lots, pattern);
        }
        parts.push((share - f64::from(whole), index));
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
