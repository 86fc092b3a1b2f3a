//! When something scarce runs out: pods that the heaviest pool, the cheapest domain or all of their preferences leave without
//! a machine look further.

use crate::pack::assign::topology::Topology;
use crate::pack::assign::{Assigner, Assignment, LotId, LotLimits, NodeFilling, Place};
use crate::pack::compile::Compiled;
use crate::pack::compile::column_sets::Sets;
use crate::pack::compile::ids::{ClassId, ColumnId, DemandId};
use crate::pack::compile::supply::Ledger;
use crate::pack::dense::typed::Id as _;
use crate::pack::dense::typed::IdVec;
use crate::pack::packing::{Context, Packing};
use crate::pack::parts::Without;
use crate::pack::scenario::{Queue, Scenario};
use crate::pack::search::score::{Missing, Score};
use crate::pack::strategy::first_fit::{self, Opening};
use crate::pack::strategy::host_affinity;

/// Rounds of looking further: each may use up one more pool, domain or offering, or give up one more preference.
const MAX_ROUNDS: usize = 16;

/// Assigns pods and packs them first-fit; when something runs out, as often as that helps.
pub(crate) fn assign_and_pack(
    compiled: &Compiled<'_>,
    sets: &mut Sets,
    scenario: &Scenario,
    node_filling: NodeFilling,
    ledger: &Ledger,
) -> (Assignment, Packing) {
    let mut round =
        |lot_limits: &LotLimits| round(compiled, sets, scenario, node_filling, ledger, lot_limits);
    let first = round(&LotLimits::default());
    if first.packing.unpacked() == 0 {
        return (first.assignment, first.packing);
    }
    let mut best = look_further(compiled, &mut round, LotLimits::default(), first);
    let preferences = |queue: &Queue| compiled.profile(queue.class).levels.len() > 1;
    if !best.missing.is_empty() && best.assignment.queues.iter().any(preferences) {
        let lot_limits = LotLimits::without_preferences();
        let first = round(&lot_limits);
        let other = look_further(compiled, &mut round, lot_limits, first);
        if other.missing < best.missing {
            best = other;
        }
    }
    (best.assignment, best.packing)
}

/// Pods assigned and packed.
struct Round {
    assignment: Assignment,
    packing: Packing,
    /// Pods without a place.
    missing: Missing,
}

/// Assigns and packs again for as long as pods are left over that might go elsewhere.
fn look_further(
    compiled: &Compiled<'_>,
    round: &mut impl FnMut(&LotLimits) -> Round,
    mut lot_limits: LotLimits,
    first: Round,
) -> Round {
    let mut helpful = lot_limits.learn(compiled, &first.assignment, &first.packing.left);
    let mut best = first;
    for _ in 1..MAX_ROUNDS {
        if !helpful || best.missing.is_empty() {
            break;
        }
        let next = round(&lot_limits);
        helpful = lot_limits.learn(compiled, &next.assignment, &next.packing.left);
        let better = (&next.missing, next.packing.cost) < (&best.missing, best.packing.cost);
        if better {
            best = next;
        }
    }
    best
}

fn round(
    compiled: &Compiled<'_>,
    sets: &mut Sets,
    scenario: &Scenario,
    node_filling: NodeFilling,
    ledger: &Ledger,
    lot_limits: &LotLimits,
) -> Round {
    let assignment = Assigner::new(compiled, sets, scenario, lot_limits).run(node_filling);
    let mut context = Context {
        compiled,
        sets,
        lots: &assignment.lots,
        ledger,
        without: Without::default(),
    };
    let mut packing = context.empty();
    first_fit::pack(&mut context, &mut packing, Opening::BestShare);
    host_affinity::pack(&mut context, &mut packing);
    context.debug_check(&packing);
    if packing.unpacked() == 0 && lot_limits.is_new() {
        return Round {
            assignment,
            packing,
            missing: Missing::default(),
        };
    }
    let score = |packing: &Packing| Score::of_packing(compiled, &assignment, packing, &[]);
    // Few large machines, and important pods first, whichever pods they must share a host with.
    for opening in [Opening::BestShare, Opening::Largest] {
        if packing.unpacked() == 0 {
            break;
        }
        let other = in_turn(&mut context, opening);
        let better = score(&other) < score(&packing);
        if better {
            packing = other;
        }
    }
    context.debug_check(&packing);
    let lost = lost(compiled, sets, scenario, &assignment, &packing);
    let missing = Score::of_packing(compiled, &assignment, &packing, &lost).missing;
    Round {
        assignment,
        packing,
        missing,
    }
}

/// Packs first-fit, one priority after the other, and pods that gave up host affinity after those that have it.
fn in_turn(context: &mut Context<'_, '_>, opening: Opening) -> Packing {
    let lots = context.lots.ids();
    let mut turns: Vec<_> = lots.clone().map(|lot| turn(context, lot)).collect();
    turns.sort_unstable();
    turns.dedup();
    // Otherwise no pod is packed out of turn.
    if !lots.clone().any(|lot| context.has_host_affinity(lot)) {
        turns = turns.last().copied().into_iter().collect();
    }
    let mut packing = context.empty();
    let mut waiting = std::mem::take(&mut packing.left);
    packing.left = IdVec::filled(0, waiting.len());
    for now in turns {
        for lot in lots.clone().filter(|lot| turn(context, *lot) <= now) {
            packing.left[lot] += std::mem::take(&mut waiting[lot]);
        }
        first_fit::pack_as_opened(context, &mut packing, opening);
        host_affinity::pack(context, &mut packing);
    }
    context.downsize(&mut packing);
    packing
}

/// When a lot is packed: by priority, and after others if its pods gave up the preference to share a host.
fn turn(context: &Context<'_, '_>, lot: LotId) -> (std::cmp::Reverse<i32>, bool) {
    let class = context.lot(lot).class;
    let first = context.compiled.profile(class).levels.first();
    let preferred = first.is_some_and(|level| !level.host_affinity.is_empty());
    let alone = preferred && !context.has_host_affinity(lot);
    (std::cmp::Reverse(context.priority(lot)), alone)
}

/// Pods that were packed and yet cannot be bound, because pods that their rules count on were not: class and count.
fn lost(
    compiled: &Compiled<'_>,
    sets: &Sets,
    scenario: &Scenario,
    assignment: &Assignment,
    packing: &Packing,
) -> Vec<(ClassId, u32)> {
    let mut lost: Vec<(ClassId, u32)> = Vec::new();
    if !assignment.needs_bind_simulation(compiled, &packing.left) {
        return lost;
    }
    let lots = assignment.lots.iter().zip(&packing.left);
    let mut packed: IdVec<LotId, u32> = lots.map(|(lot, left)| lot.count - left).collect();
    let mut topology = Topology::new(compiled, &scenario.removed);
    for event in &assignment.events {
        let profile = compiled.profile(event.class);
        let Some(level) = profile.levels.last() else {
            continue;
        };
        let (cell, counting, at) = match event.place {
            Place::Node(node) => {
                let cell = compiled.nodes[node].cell;
                (cell, &compiled.demand_nodes, Some(node.index()))
            }
            Place::Lot(lot) if packed[lot] == 0 => continue,
            Place::Lot(lot) => {
                packed[lot] -= 1;
                let lot = &assignment.lots[lot];
                // All columns of the set count alike: it was narrowed to those that do, if there are any.
                let column = sets.list(lot.set).first().copied();
                (
                    lot.cell,
                    &compiled.demand_columns,
                    column.map(ColumnId::index),
                )
            }
        };
        if !topology.allows(compiled, profile, level, cell) {
            lost.push((event.class, 1));
            continue;
        }
        let counted = |filter: DemandId| at.is_some_and(|at| counting[filter].contains(at));
        topology.add(compiled, profile, level, cell, 1, counted);
    }
    lost
}

#[cfg(test)]
mod tests;
