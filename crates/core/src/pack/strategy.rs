//! Ways to pack from scratch; the cheapest result wins.

pub(crate) mod bargains;
pub(crate) mod best_fit;
pub(crate) mod column_generation;
pub(crate) mod first_fit;
pub(crate) mod host_affinity;

use crate::pack::assign::LotId;
use crate::pack::compile::column_sets::NOTHING;
use crate::pack::dense::typed::IdVec;
use crate::pack::fill::greedy::PodOrder;
use crate::pack::packing::{Bin, Context, Packing};
use crate::pack::parts::Part;

use self::first_fit::Opening;

/// Ways to pack from scratch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    Bargains(PodOrder),
    BestFit,
    Cheapest,
    ColumnGeneration,
}

impl Strategy {
    /// The part that it is when parts are left out.
    pub(crate) fn part(self) -> Part {
        match self {
            Strategy::Bargains(PodOrder::Large) => Part::LargeFirst,
            Strategy::Bargains(PodOrder::Mixed) => Part::Mixed,
            Strategy::Bargains(PodOrder::Even) => Part::Even,
            Strategy::BestFit => Part::BestFit,
            Strategy::Cheapest => Part::Cheapest,
            Strategy::ColumnGeneration => Part::ColumnGeneration,
        }
    }

    /// Packs all lots. `others` are packings found before; column generation says beside its own what a pod of each
    /// lot is worth.
    pub(crate) fn pack(
        self,
        context: &mut Context<'_, '_>,
        others: &[&Packing],
    ) -> (Packing, Option<IdVec<LotId, f64>>) {
        let mut packing = context.empty();
        let mut lot_values = None;
        match self {
            Strategy::Bargains(pod_order) => bargains::pack(context, &mut packing, pod_order),
            Strategy::BestFit => best_fit::pack(context, &mut packing),
            Strategy::ColumnGeneration => {
                lot_values = column_generation::pack(context, &mut packing, others);
                bargains::pack(context, &mut packing, PodOrder::Large);
            }
            Strategy::Cheapest => first_fit::pack(context, &mut packing, Opening::Cheapest),
        }
        keep_min_values(context, &mut packing);
        host_affinity::pack(context, &mut packing);
        context.debug_check(&packing);
        (packing, lot_values)
    }
}

/// Takes apart machines that do not meet `minValues`, and packs their pods again pod by pod.
fn keep_min_values(context: &mut Context<'_, '_>, packing: &mut Packing) {
    let compiled = context.compiled;
    let poor = |bin: &Bin| {
        bin.set != NOTHING
            && !context
                .sets
                .meets_min_values(compiled, bin.set, bin.column, &bin.load)
    };
    let poor: Vec<usize> = (0..packing.bins.len())
        .filter(|index| poor(&packing.bins[*index]))
        .collect();
    if poor.is_empty() {
        return;
    }
    for index in poor.into_iter().rev() {
        context.close(packing, index);
    }
    first_fit::pack(context, packing, Opening::BestShare);
}
