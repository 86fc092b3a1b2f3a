//! Largest pods first, each into the first machine with room, else into a new one that suits it best. Quick, and the
//! measure that every other plan must beat.

use crate::pack::assign::LotId;
use crate::pack::assign::share_of;
use crate::pack::compile::ids::ColumnId;
use crate::pack::dense::room_tree::RoomTree;
use crate::pack::dense::vector::Vector;
use crate::pack::packing::{Context, Packing};

/// Which machine is opened for a pod that fits no open one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// The one in which the pod costs least by the resource it takes most of.
    BestShare,
    /// The cheapest that holds the pod: what an autoscaler without a plan does.
    Cheapest,
    /// The one that holds most pods of the kind: few nodes, where nodes are what is scarce.
    Largest,
}

/// Packs what has no machine yet.
pub(crate) fn pack(context: &mut Context<'_, '_>, packing: &mut Packing, opening: Opening) {
    pack_as_opened(context, packing, opening);
    context.downsize(packing);
}

/// The same, with machines as they were opened: others may still come.
pub(crate) fn pack_as_opened(
    context: &mut Context<'_, '_>,
    packing: &mut Packing,
    opening: Opening,
) {
    let order = context.by_size();
    let mut room_tree = RoomTree::default();
    for index in 0..packing.bins.len() {
        room_tree.push(&free(context, packing, index));
    }
    for lot in order {
        if context.has_host_affinity(lot) {
            continue;
        }
        into_open(context, packing, &mut room_tree, lot);
        while packing.left[lot] > 0 {
            let Some(bin) = open_for(context, packing, lot, opening) else {
                break;
            };
            let room = context.room(&packing.bins[bin], lot);
            let take = room.min(packing.left[lot]);
            if take == 0 {
                context.close(packing, bin);
                break;
            }
            context.put(packing, bin, lot, take);
            room_tree.push(&free(context, packing, bin));
        }
    }
}

fn into_open(
    context: &mut Context<'_, '_>,
    packing: &mut Packing,
    room_tree: &mut RoomTree,
    lot: LotId,
) {
    let requests = *context.requests(lot);
    let mut start = 0;
    while packing.left[lot] > 0 {
        let Some(index) = room_tree.next(start, &requests) else {
            break;
        };
        start = index + 1;
        let bin = &packing.bins[index];
        if !context.may_use(lot, bin.column) {
            continue;
        }
        let take = context.room(bin, lot).min(packing.left[lot]);
        if take > 0 {
            context.put(packing, index, lot, take);
            room_tree.set(index, &free(context, packing, index));
        }
    }
}

fn free(context: &Context<'_, '_>, packing: &Packing, index: usize) -> Vector {
    let bin = &packing.bins[index];
    let column = context.compiled.column(bin.column);
    column.room.minus(&bin.load)
}

fn open_for(
    context: &mut Context<'_, '_>,
    packing: &mut Packing,
    lot: LotId,
    opening: Opening,
) -> Option<usize> {
    let set = context.lot(lot).set;
    let column = match opening {
        Opening::Largest => largest(context, packing, lot)?,
        Opening::Cheapest => {
            let requests = context.requests(lot);
            let (compiled, ledger) = (context.compiled, &packing.ledger);
            context.sets.cheapest(compiled, ledger, set, requests)?
        }
        Opening::BestShare => best_share(context, packing, lot)?,
    };
    context.open(packing, column, set)
}

/// The column that holds most pods of a lot, the cheapest of several.
fn largest(context: &Context<'_, '_>, packing: &Packing, lot: LotId) -> Option<ColumnId> {
    let requests = context.requests(lot);
    let columns = context.sets.list(context.lot(lot).set).iter();
    columns
        .copied()
        .filter(|index| {
            let column = context.compiled.column(*index);
            requests.fits(&column.room) && packing.ledger.can(&column.uses)
        })
        .max_by_key(|index| {
            let column = context.compiled.column(*index);
            (
                requests.copies_in(&column.room),
                std::cmp::Reverse((column.cost, *index)),
            )
        })
}

/// The column in which a pod of a lot costs least.
pub(crate) fn best_share(
    context: &Context<'_, '_>,
    packing: &Packing,
    lot: LotId,
) -> Option<ColumnId> {
    let set = context.lot(lot).set;
    let requests = context.requests(lot);
    let columns = context.sets.list(set).iter().copied();
    columns
        .filter_map(|index| {
            let column = context.compiled.column(index);
            (requests.fits(&column.room)
                && packing.ledger.can(&column.uses)
                && context
                    .sets
                    .meets_min_values(context.compiled, set, index, requests))
            .then(|| (share_of(column.cost, requests, &column.room), index))
        })
        .min()
        .map(|(_, index)| index)
}
