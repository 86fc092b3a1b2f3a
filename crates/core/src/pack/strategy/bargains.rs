//! Machine by machine: each bargain is filled with the pods that suit the room it has left, and the one whose filling
//! is worth most for its price is bought; with it all its like, as long as there are pods for the same filling.

use crate::pack::compile::ids::ColumnId;
use crate::pack::dense::intern::FixedMap;
use crate::pack::fill::greedy::{Filling, GreedyFill, PodOrder};
use crate::pack::packing::{Context, Packing};
use crate::pack::parts::Part;
use crate::pack::value::appraisal::Appraisal;

/// How many machines are filled for comparison before the best is bought. With half, web costs 0.3% more and 100 pods 0.2%; with
/// twice, web costs 0.1% less, and everything takes 4% longer.
const COMPARED: usize = 24;

/// Packs what has no machine yet.
pub(crate) fn pack(context: &mut Context<'_, '_>, packing: &mut Packing, pod_order: PodOrder) {
    let mut unpacked = packing.unpacked();
    let mut total = unpacked;
    let mut appraisal = Appraisal::new(context, &packing.left);
    let mut greedy = greedy_fill_for(context, &appraisal, packing, pod_order);
    let mut known: FixedMap<ColumnId, (f64, Filling)> = FixedMap::default();
    while unpacked > 0 {
        // What is left differs more and more from what was appraised.
        if unpacked * 2 < total && unpacked > 50 && context.without.keeps(Part::NewValues) {
            total = unpacked;
            appraisal = Appraisal::new(context, &packing.left);
            greedy = greedy_fill_for(context, &appraisal, packing, pod_order);
            known.clear();
        }
        let best = best(context, packing, &appraisal, &mut greedy, &mut known);
        let Some((column, mut filling)) = best else {
            break;
        };
        if context.without.keeps(Part::Polish) {
            greedy.polish(context, &appraisal, &packing.left, column, &mut filling);
        }
        let packed = buy(context, packing, column, &filling);
        if packed == 0 {
            break;
        }
        unpacked -= packed;
        greedy.sweep(&filling, &packing.left);
    }
    context.downsize(packing);
}

fn greedy_fill_for(
    context: &Context<'_, '_>,
    appraisal: &Appraisal,
    packing: &Packing,
    pod_order: PodOrder,
) -> GreedyFill {
    let lots = context
        .lots
        .ids()
        .filter(|lot| packing.left[*lot] > 0 && !context.has_host_affinity(*lot))
        .collect();
    let mut greedy = GreedyFill::new(context.lots.len());
    greedy.take_in(context, appraisal, pod_order, lots);
    greedy
}

/// The filling that is worth most for its price. Fillings that are `known` will do as long as their pods are there:
/// they were chosen from more than there is now.
fn best(
    context: &Context<'_, '_>,
    packing: &mut Packing,
    appraisal: &Appraisal,
    greedy: &mut GreedyFill,
    known: &mut FixedMap<ColumnId, (f64, Filling)>,
) -> Option<(ColumnId, Filling)> {
    let mut best: Option<(f64, ColumnId)> = None;
    let mut compared = 0;
    for (potential, column) in &appraisal.bargains {
        let bought = context.compiled.column(*column);
        if best.is_some_and(|(ratio, _)| ratio >= *potential) {
            break;
        }
        if compared >= COMPARED && best.is_some() {
            break;
        }
        if !packing.ledger.can(&bought.uses) {
            continue;
        }
        let holds = known.get(column).is_some_and(|(_, filling)| {
            let mut picks = filling.picks.iter();
            picks.all(|(lot, count)| packing.left[*lot] >= *count)
        });
        if !holds {
            let filling = greedy.fill(context, appraisal, &mut packing.left, *column, |score| {
                score
            });
            let ratio = if bought.cost > 0 {
                filling.worth / bought.cost as f64
            } else {
                f64::INFINITY
            };
            known.insert(*column, (ratio, filling));
        }
        let (ratio, filling) = &known[column];
        if filling.picks.is_empty() {
            continue;
        }
        compared += 1;
        if best.is_none_or(|(most, _)| *ratio > most) {
            best = Some((*ratio, *column));
        }
    }
    let (_, column) = best?;
    Some((column, known[&column].1.clone()))
}

/// Buys a machine with its filling, as many times as there are pods for it; returns how many pods went in.
fn buy(
    context: &mut Context<'_, '_>,
    packing: &mut Packing,
    column: ColumnId,
    filling: &Filling,
) -> u64 {
    let mut packed = 0;
    let copies = filling
        .picks
        .iter()
        .map(|(lot, count)| packing.left[*lot] / count)
        .min()
        .unwrap_or(0);
    for _ in 0..copies {
        let (first, _) = filling.picks[0];
        let set = context.lot(first).set;
        let Some(bin) = context.open(packing, column, set) else {
            break;
        };
        for (lot, count) in &filling.picks {
            context.put(packing, bin, *lot, *count);
            packed += u64::from(*count);
        }
    }
    packed
}
