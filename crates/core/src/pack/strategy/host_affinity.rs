//! Pods with affinity over hosts: packed last, onto machines that carry the pods they need, or together onto one.

use crate::pack::assign::LotId;
use crate::pack::compile::caps;
use crate::pack::compile::ids::GroupId;
use crate::pack::dense::vector::Vector;
use crate::pack::packing::{Context, Packing};
use crate::pack::strategy::best_fit;

/// Packs the lots that the other strategies leave alone.
pub(crate) fn pack(context: &mut Context<'_, '_>, packing: &mut Packing) {
    let lots: Vec<LotId> = context
        .by_size()
        .into_iter()
        .filter(|lot| context.has_host_affinity(*lot))
        .collect();
    // One lot may wait for another: try again as long as a pod finds a place.
    loop {
        let before = packing.unpacked();
        for lot in &lots {
            join(context, packing, *lot);
            if packing.left[*lot] > 0 {
                start_group(context, packing, *lot, &lots);
            }
        }
        if packing.unpacked() == before || packing.unpacked() == 0 {
            break;
        }
    }
}

/// Onto machines that carry the pods the lot needs; a machine may be exchanged for a larger one.
fn join(context: &mut Context<'_, '_>, packing: &mut Packing, lot: LotId) {
    let compiled = context.compiled;
    for index in 0..packing.bins.len() {
        while packing.left[lot] > 0 {
            let bin = &packing.bins[index];
            let host_affinity = context
                .level(lot)
                .host_affinity
                .iter()
                .all(|rule| caps::carries(&bin.caps, rule.group));
            if !host_affinity || caps::room(&bin.caps, &context.level(lot).caps) == 0 {
                break;
            }
            let load = bin.load.plus(context.requests(lot));
            let set = context.sets.meet(compiled, bin.set, context.lot(lot).set);
            let best =
                context
                    .sets
                    .cheapest_instead(compiled, &packing.ledger, set, &load, bin.column);
            let Some(column) = best else { break };
            context.swap(packing, index, column);
            context.put(packing, index, lot, 1);
        }
    }
}

/// A place for pods that count themselves, if no pod that they need is anywhere yet: a machine of their own, or one that
/// is there, perhaps exchanged for a larger one, if that adds less to the bill.
fn start_group(context: &mut Context<'_, '_>, packing: &mut Packing, lot: LotId, lots: &[LotId]) {
    let host_affinity = context.level(lot).host_affinity.clone();
    let somewhere = |group: GroupId| {
        packing
            .bins
            .iter()
            .any(|bin| caps::carries(&bin.caps, group))
    };
    if host_affinity
        .iter()
        .any(|rule| !rule.own || somewhere(rule.group))
    {
        return;
    }
    let compiled = context.compiled;
    let set = context.lot(lot).set;
    // All that have to live on this machine.
    let mut total = Vector::ZERO;
    for other in lots {
        let together = context
            .level(*other)
            .host_affinity
            .iter()
            .any(|rule| host_affinity.iter().any(|own| own.group == rule.group));
        if together {
            let count = i64::from(packing.left[*other]);
            total.add(&context.requests(*other).times(count));
        }
    }
    let requests = *context.requests(lot);
    let alone = context
        .sets
        .cheapest(compiled, &packing.ledger, set, &total);
    let alone_costs = alone.map(|column| compiled.column(column).cost);
    let shared = best_fit::best_open(context, packing, lot, &total, 0);
    if let Some(bid) = shared.filter(|bid| alone_costs.is_none_or(|cost| bid.added < cost)) {
        let present = packing.bins[bid.bin].column;
        context.swap(packing, bid.bin, bid.column);
        if put_what_fits(context, packing, lot, bid.bin) {
            return;
        }
        context.swap(packing, bid.bin, present);
    }
    let column = alone.or_else(|| {
        // Of equals `max_by_key` takes the last, and the cheapest come first.
        let list = context.sets.list(set).iter().rev().copied();
        list.filter(|index| {
            let column = compiled.column(*index);
            requests.fits(&column.room) && packing.ledger.can(&column.uses)
        })
        .max_by_key(|index| requests.copies_in(&compiled.column(*index).room))
    });
    let Some(column) = column else { return };
    if let Some(bin) = context.open(packing, column, set)
        && !put_what_fits(context, packing, lot, bin)
    {
        context.close(packing, bin);
    }
}

/// Puts as many pods of a lot into a bin as it takes; false if that is none.
fn put_what_fits(
    context: &mut Context<'_, '_>,
    packing: &mut Packing,
    lot: LotId,
    bin: usize,
) -> bool {
    let take = context.room(&packing.bins[bin], lot).min(packing.left[lot]);
    if take > 0 {
        context.put(packing, bin, lot, take);
    }
    take > 0
}
