//! When something scarce runs out: pods that the heaviest pool or the cheapest offering cannot take look further.

use super::assign::{Assignment, Lot, Place, affordable};
use super::bins::{Context, Packing};
use super::compile::Compiled;
use super::first_fit::{self, Opening};
use super::groups::Kind;
use super::ledger::Ledger;
use super::near;
use super::sets::{NOTHING, Sets};

/// Rounds of looking further: each may use up one more pool or offering.
const MAX_ROUNDS: usize = 16;

/// Packs first-fit, and splits lots that run out of machines until all that can be placed are.
pub(crate) fn settle_lots(
    compiled: &Compiled<'_>,
    sets: &mut Sets,
    assignment: &mut Assignment,
    ledger: &Ledger,
) -> Packing {
    for _ in 0..MAX_ROUNDS {
        let packing = first(compiled, sets, &assignment.lots, ledger);
        if packing.unpacked() == 0 || !split(compiled, sets, assignment, &packing) {
            return packing;
        }
    }
    first(compiled, sets, &assignment.lots, ledger)
}

fn first(compiled: &Compiled<'_>, sets: &mut Sets, lots: &[Lot], ledger: &Ledger) -> Packing {
    let mut context = Context {
        compiled,
        sets,
        lots,
        ledger,
    };
    let mut packing = context.empty();
    first_fit::pack(&mut context, &mut packing, Opening::BestShare);
    near::pack(&mut context, &mut packing);
    packing
}

/// Sends what was left over to columns that can still be had; says whether anything was sent.
fn split(
    compiled: &Compiled<'_>,
    sets: &mut Sets,
    assignment: &mut Assignment,
    packing: &Packing,
) -> bool {
    let mask = affordable(compiled, &packing.ledger);
    let mut sent = false;
    for index in 0..assignment.lots.len() {
        let left = packing.left[index];
        if left == 0 {
            continue;
        }
        let lot = assignment.lots[index].clone();
        let profile = compiled.profile(lot.class);
        let cell = (lot.cell != super::assign::ANYWHERE).then_some(lot.cell);
        // A pod with rules about domains keeps its level: its place in the order was found with it.
        let last = if cell.is_some() {
            lot.level as usize
        } else {
            profile.levels.len() - 1
        };
        let found = (lot.level as usize..=last).find_map(|level| {
            let set = sets.base(compiled, lot.class, level, cell, Some(&mask));
            let set = keep_counted(compiled, sets, &lot, set);
            (set != NOTHING && set != lot.set).then_some((level, set))
        });
        if let Some((level, set)) = found {
            sent = true;
            assignment.lots[index].count -= left;
            let moved = assignment.lots.len() as u32;
            assignment.lots.push(Lot {
                level: level as u32,
                set,
                count: left,
                ..lot
            });
            let events = assignment.events.iter_mut().rev();
            let own = events.filter(|event| event.place == Place::Lot(index as u32));
            for event in own.take(left as usize) {
                event.place = Place::Lot(moved);
            }
        }
    }
    sent
}

/// Narrows a set to the columns on which the spreads that counted a lot go on counting it, and those that did not go
/// on not counting it.
fn keep_counted(compiled: &Compiled<'_>, sets: &mut Sets, lot: &Lot, set: u32) -> u32 {
    if lot.cell == super::assign::ANYWHERE {
        return set;
    }
    let requests = &compiled.classes[lot.class as usize].requests;
    let mut set = set;
    for group in &compiled.profile(lot.class).matched {
        let Kind::Spread { filter, .. } = compiled.groups.all.get(*group).kind else {
            continue;
        };
        let bits = &compiled.demand_columns[filter as usize];
        let fitting = |sets: &Sets, set: u32, inside: bool| {
            sets.list(set).iter().any(|column| {
                requests.fits(&compiled.columns[*column as usize].room)
                    && bits.contains(*column as usize) == inside
            })
        };
        if fitting(sets, lot.set, true) {
            set = sets.within(compiled, set, bits);
        }
        if !fitting(sets, set, fitting(sets, lot.set, true)) {
            return NOTHING;
        }
    }
    set
}
