//! Machine by machine: each bargain is filled with the pods that suit the room it has left, and the one whose filling
//! is worth most for its price is bought; with it all its like, as long as there are pods for the same filling.

use super::appraisal::Appraisal;
use super::bins::{Context, Packing};
use super::stock::{Filling, Stock};

/// How many machines are filled for comparison before the best is bought.
const COMPARED: usize = 24;

/// Packs what has no machine yet; returns how many fillings were tried.
pub(crate) fn pack(context: &mut Context<'_, '_>, packing: &mut Packing) -> u64 {
    let mut tried = 0;
    let mut total: u64 = packing.unpacked();
    let mut appraisal = Appraisal::new(context, &packing.left);
    let mut stock = stocked(context, &appraisal, packing);
    loop {
        let unpacked = packing.unpacked();
        if unpacked == 0 {
            break;
        }
        // What is left differs more and more from what was appraised.
        if unpacked * 2 < total && unpacked > 50 {
            total = unpacked;
            appraisal = Appraisal::new(context, &packing.left);
            stock = stocked(context, &appraisal, packing);
        }
        let Some((column, filling)) = best(context, packing, &appraisal, &mut stock, &mut tried)
        else {
            break;
        };
        buy(context, packing, column, &filling);
        stock.sweep(&filling, &packing.left);
    }
    context.downsize(packing);
    tried
}

fn stocked(context: &Context<'_, '_>, appraisal: &Appraisal, packing: &Packing) -> Stock {
    let lots = (0..context.lots.len() as u32)
        .filter(|lot| packing.left[*lot as usize] > 0 && !context.is_near(*lot))
        .collect();
    let mut stock = Stock::new(context.lots.len());
    stock.take_in(context, appraisal, lots);
    stock
}

/// The filling that is worth most for its price.
fn best(
    context: &mut Context<'_, '_>,
    packing: &Packing,
    appraisal: &Appraisal,
    stock: &mut Stock,
    tried: &mut u64,
) -> Option<(u32, Filling)> {
    let mut best: Option<(f64, u32, Filling)> = None;
    let mut compared = 0;
    for (potential, column) in &appraisal.bargains {
        let bought = &context.compiled.columns[*column as usize];
        if best.as_ref().is_some_and(|(ratio, ..)| ratio >= potential) {
            break;
        }
        if compared >= COMPARED && best.is_some() {
            break;
        }
        if !packing.ledger.can(&bought.uses) {
            continue;
        }
        let filling = stock.fill(context, appraisal, &packing.left, *column, |score| score);
        *tried += 1;
        if filling.picks.is_empty() {
            continue;
        }
        compared += 1;
        let ratio = if bought.cost > 0 {
            filling.worth / bought.cost as f64
        } else {
            f64::INFINITY
        };
        if best.as_ref().is_none_or(|(most, ..)| ratio > *most) {
            best = Some((ratio, *column, filling));
        }
    }
    best.map(|(_, column, filling)| (column, filling))
}

/// Buys a machine with its filling, as many times as there are pods for it.
fn buy(context: &mut Context<'_, '_>, packing: &mut Packing, column: u32, filling: &Filling) {
    let copies = filling
        .picks
        .iter()
        .map(|(lot, count)| packing.left[*lot as usize] / count)
        .min()
        .unwrap_or(0);
    for _ in 0..copies {
        let (first, _) = filling.picks[0];
        let set = context.lots[first as usize].set;
        let Some(bin) = context.open(packing, column, set) else {
            break;
        };
        for (lot, count) in &filling.picks {
            context.put(packing, bin, *lot, *count);
        }
    }
}
