//! Machines that grow: each pod goes where it adds least to the bill, be it into room that is there, a larger machine
//! for one that is open, or a new one. Strong where pods keep apart and every host carries few of them.

use crate::pack::assign::LotId;
use crate::pack::compile::caps;
use crate::pack::compile::ids::{ColumnId, GroupId};
use crate::pack::compile::profile::NO_CAP;
use crate::pack::dense::intern::FixedMap;
use crate::pack::dense::typed::IdVec;
use crate::pack::dense::vector::Vector;
use crate::pack::packing::{Context, Packing};

/// How many hosts the pods of one part need that keep apart. With half, upstream costs 0.24% more; with twice, 0.15%.
const PART: u64 = 100;
/// How many open machines are looked at for one pod: a part has more of them only where few pods keep apart. Half or twice
/// changes no plan.
const LOOKED_AT: usize = 320;

/// What it costs to put a pod somewhere; the derived order is the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Bid {
    /// Billionths of a dollar added to the bill.
    pub(crate) added: i64,
    /// Room that stays unused, in thousandths of the machine.
    slack: i64,
    pub(crate) bin: usize,
    pub(crate) column: ColumnId,
}

/// Packs what has no machine yet.
///
/// Where there are many, pods are distributed evenly over parts, each with machines of its own. So every pod sees all machines
/// of its part while they grow; what is best among a hundred is near the best of all, and what was best among those that
/// happened to be looked at was not.
pub(crate) fn pack(context: &mut Context<'_, '_>, packing: &mut Packing) {
    let order = order(context, packing);
    let left = packing.left.clone();
    let hosts = machines_needed(context, &left);
    let parts = hosts.div_ceil(PART).max(1);
    for part in 0..parts {
        let first = packing.bins.len();
        let mut distributed = 0;
        for lot in &order {
            let end = distributed + u64::from(left[*lot]);
            let upto = |end: u64| (end + parts - 1 - part) / parts;
            let share = upto(end) - upto(distributed);
            distributed = end;
            if !context.has_host_affinity(*lot) {
                place(context, packing, *lot, share, first);
            }
        }
    }
    context.downsize(packing);
}

/// Places so many pods of a lot on machines that were opened since the first of them, or on new ones.
fn place(
    context: &mut Context<'_, '_>,
    packing: &mut Packing,
    lot: LotId,
    count: u64,
    first: usize,
) {
    let set = context.lot(lot).set;
    for _ in 0..count {
        let requests = *context.requests(lot);
        let open = best_open(context, packing, lot, &requests, first);
        let alone = context
            .sets
            .cheapest(context.compiled, &packing.ledger, set, &requests);
        let alone_costs = alone.map(|column| context.compiled.column(column).cost);
        match (open, alone) {
            (Some(bid), _) if alone_costs.is_none_or(|cost| bid.added < cost) => {
                if bid.column != packing.bins[bid.bin].column {
                    context.swap(packing, bid.bin, bid.column);
                }
                context.put(packing, bid.bin, lot, 1);
            }
            (_, Some(column)) => {
                let Some(bin) = context.open(packing, column, set) else {
                    return;
                };
                context.put(packing, bin, lot, 1);
            }
            (_, None) => return,
        }
    }
}

/// How many hosts the pods that keep apart need at least: those of the group that needs most.
pub(crate) fn machines_needed(context: &Context<'_, '_>, left: &IdVec<LotId, u32>) -> u64 {
    crowds(context, left).values().copied().max().unwrap_or(0)
}

/// How many hosts each group of pods that keep apart needs.
fn crowds(context: &Context<'_, '_>, left: &IdVec<LotId, u32>) -> FixedMap<GroupId, u64> {
    let mut crowds: FixedMap<GroupId, u64> = FixedMap::default();
    for (lot, left) in left.pairs() {
        for cap in &context.level(lot).caps {
            if cap.matched && cap.most != NO_CAP && cap.most > 0 {
                *crowds.entry(cap.group).or_insert(0) += u64::from(*left) / u64::from(cap.most);
            }
        }
    }
    crowds
}

/// Pods that keep apart from many others come first, since they need the hosts; then the largest.
fn order(context: &Context<'_, '_>, packing: &Packing) -> Vec<LotId> {
    let crowds = crowds(context, &packing.left);
    let most = crowds.values().copied().max().unwrap_or(0);
    let crowded = |lot: LotId| {
        let caps = context.level(lot).caps.iter();
        let own = caps.filter(|cap| cap.matched && cap.most != NO_CAP);
        own.filter_map(|cap| crowds.get(&cap.group))
            .any(|crowd| crowd * 2 >= most && most > 1)
    };
    let mut order = context.by_size();
    order.sort_by_key(|lot| (-i64::from(context.priority(*lot)), !crowded(*lot)));
    order
}

/// Where pods of a lot, and what comes with them, add least to the bill, among machines opened since the first.
pub(crate) fn best_open(
    context: &mut Context<'_, '_>,
    packing: &Packing,
    lot: LotId,
    requests: &Vector,
    first: usize,
) -> Option<Bid> {
    let first = first.max(packing.bins.len().saturating_sub(LOOKED_AT));
    let mut best: Option<Bid> = None;
    for index in first..packing.bins.len() {
        if let Some(bid) = bid(context, packing, lot, requests, index)
            && best.is_none_or(|best| bid < best)
        {
            best = Some(bid);
        }
    }
    best
}

fn bid(
    context: &mut Context<'_, '_>,
    packing: &Packing,
    lot: LotId,
    requests: &Vector,
    index: usize,
) -> Option<Bid> {
    let compiled = context.compiled;
    let bin = &packing.bins[index];
    let set = context.sets.meet(compiled, bin.set, context.lot(lot).set);
    if set == crate::pack::compile::column_sets::NOTHING {
        return None;
    }
    let wanted = &context.level(lot).caps;
    if !wanted.is_empty() && caps::room(&bin.caps, wanted) == 0 {
        return None;
    }
    let load = bin.load.plus(requests);
    let present = compiled.column(bin.column);
    let column = if load.fits(&present.room) && context.sets.contains(set, bin.column) {
        bin.column
    } else {
        // The cheapest machine for less was the present one: none before it can do.
        let list = context.sets.list(set);
        let start = list.partition_point(|other| *other < bin.column);
        list[start..].iter().copied().find(|index| {
            let column = compiled.column(*index);
            load.fits(&column.room) && packing.ledger.can_swap(&present.uses, &column.uses)
        })?
    };
    if !context.sets.meets_min_values(compiled, set, column, &load) {
        return None;
    }
    let chosen = compiled.column(column);
    let mut slack = 0;
    for (room, load) in chosen.room.0.iter().zip(&load.0).take(2) {
        if *room > 0 {
            slack += (room - load) * 1000 / room;
        }
    }
    Some(Bid {
        added: chosen.cost - present.cost,
        slack,
        bin: index,
        column,
    })
}
