//! Other machines for the pods of a few: some are exchanged for cheaper ones that have the room all the same, and all
//! pods are redistributed, the largest first, each to the machine whose free room keeps its shape best.
//!
//! Filling one machine after the other leaves the pods that go badly together for the last. Distributed over all at once,
//! they leave a hundredth of the room unused or less, so that what a mixture of machines costs is all that matters.

use crate::pack::assign::LotId;
use crate::pack::compile::caps::{self, HeldCaps};
use crate::pack::compile::ids::ColumnId;
use crate::pack::dense::seeded::SeededGenerator;
use crate::pack::dense::vector::{LEAD, Lead, lead_fits};
use crate::pack::fill::greedy::Filling;
use crate::pack::packing::Context;
use crate::pack::value::appraisal::Appraisal;

// As in the local search at large, half or twice of each of these is worth less than 0.1% where it was tried.

/// Mixtures proposed before pods are distributed over one.
const PROPOSALS: usize = 200;
/// Machines that may go in one exchange.
const GOING: usize = 14;
/// Kinds of machines that may come, beside the last one.
const COMING: usize = 4;
/// Of each kind there come one, two, four and so on, up to so many doublings and one.
const ALIKE: usize = 5;
/// So many of the largest pods must fit somewhere for a mixture to be worth a try.
const LARGEST: usize = 3;
/// What every resource weighs at least, however little it is worth: none may run out early.
const LEAST_WEIGHT: f64 = 0.02;

/// A number for each of the leading resources.
type Amounts = [f64; LEAD];

/// A pod to be distributed.
#[derive(Clone, Copy, Debug)]
struct PodItem {
    lot: LotId,
    need: Amounts,
    worth: f64,
}

/// Pods to be distributed.
#[derive(Clone, Debug)]
pub(crate) struct PodSet {
    /// The most valuable first.
    pods: Vec<PodItem>,
    /// What they ask for together.
    need: Lead,
    /// Whether more than room decides where they go.
    picky: bool,
}

/// A machine that pods are distributed to.
#[derive(Clone, Debug)]
struct TargetMachine {
    column: ColumnId,
    cost: f64,
    free: Amounts,
    /// One over its room.
    scale: Amounts,
    /// How much of its price each resource is worth.
    weights: Amounts,
    imbalance: f64,
    /// Positions among the pods of the set.
    pods: Vec<usize>,
    /// Pods with anti-affinity or host spreads that are here.
    caps: HeldCaps,
}

/// Whether pods ask for nothing but leading resources: others are not looked at when pods are distributed.
pub(crate) fn is_applicable(context: &Context<'_, '_>) -> bool {
    let plain = |lot: LotId| {
        let beyond = &context.requests(lot).0[LEAD..];
        beyond.iter().all(|amount| *amount == 0)
    };
    context.lots.ids().all(plain)
}

/// Whether all these pods may use the same machines, and nothing but room decides where they go.
pub(crate) fn are_alike(context: &Context<'_, '_>, mut lots: impl Iterator<Item = LotId>) -> bool {
    let mut set = None;
    lots.all(|lot| {
        let level = context.level(lot);
        let own = context.lot(lot).set;
        level.host_affinity.is_empty() && level.caps.is_empty() && *set.get_or_insert(own) == own
    })
}

impl PodSet {
    /// Takes up pods, given as lots and how many of each.
    pub(crate) fn new(
        context: &Context<'_, '_>,
        appraisal: &Appraisal,
        lots: impl Iterator<Item = (LotId, u32)> + Clone,
    ) -> Self {
        let mut pod_set = PodSet {
            pods: Vec::new(),
            need: [0; LEAD],
            picky: !are_alike(context, lots.clone().map(|(lot, _)| lot)),
        };
        for (lot, count) in lots {
            let need = context.requests(lot).lead();
            shift(&mut pod_set.need, &need, i64::from(count));
            let pod = PodItem {
                lot,
                need: need.map(|amount| amount as f64),
                worth: appraisal.worth[lot],
            };
            let copies = std::iter::repeat_n(pod, count as usize);
            pod_set.pods.extend(copies);
        }
        pod_set
            .pods
            .sort_by(|a, b| b.worth.total_cmp(&a.worth).then(a.lot.cmp(&b.lot)));
        pod_set
    }

    /// Machines that cost less than those that are there, and have the room that all pods together need.
    pub(crate) fn propose(
        &self,
        context: &Context<'_, '_>,
        generator: &mut SeededGenerator,
        columns: &[ColumnId],
        bargains: &[ColumnId],
    ) -> Option<Vec<ColumnId>> {
        let mut spare = self.need.map(|need| -need);
        for column in columns {
            shift(&mut spare, &room(context, *column), 1);
        }
        (0..PROPOSALS).find_map(|_| {
            let mixture = exchanged(context, generator, columns, bargains, spare)?;
            self.holds_largest(context, &mixture).then_some(mixture)
        })
    }

    /// Whether the largest pods have a place, each by itself.
    fn holds_largest(&self, context: &Context<'_, '_>, mixture: &[ColumnId]) -> bool {
        let mut largest = self.pods.iter().take(LARGEST);
        largest.all(|pod| {
            let need = context.requests(pod.lot).lead();
            let mut open = mixture
                .iter()
                .filter(|column| !self.picky || context.may_use(pod.lot, **column));
            open.any(|column| lead_fits(&need, &room(context, *column)))
        })
    }

    /// Distributes the pods; returns what each machine got. Some pods may have found no place.
    pub(crate) fn distribute(
        &self,
        context: &Context<'_, '_>,
        appraisal: &Appraisal,
        columns: &[ColumnId],
    ) -> Vec<Filling> {
        let mut machines: Vec<TargetMachine> = columns
            .iter()
            .map(|column| TargetMachine::new(context, appraisal, *column))
            .collect();
        for (index, pod) in self.pods.iter().enumerate() {
            let (mut least, mut best) = (f64::INFINITY, None);
            for (at, machine) in machines.iter().enumerate() {
                let harm = machine.harm(&pod.need);
                if harm < least && (!self.picky || machine.accepts(context, pod.lot)) {
                    (least, best) = (harm, Some(at));
                }
            }
            if let Some(at) = best {
                machines[at].take(index, &pod.need);
                for cap in &context.level(pod.lot).caps {
                    caps::hold(&mut machines[at].caps, *cap, 1);
                }
            }
        }
        let filled = machines.iter().filter(|machine| !machine.pods.is_empty());
        let distributed = filled.map(|machine| {
            let pods = machine.pods.iter();
            let lots = pods.map(|pod| self.pods[*pod].lot).collect();
            filling(context, appraisal, lots)
        });
        distributed.collect()
    }
}

impl TargetMachine {
    fn new(context: &Context<'_, '_>, appraisal: &Appraisal, column: ColumnId) -> Self {
        let cost = context.compiled.column(column).cost.max(1) as f64;
        let free = room(context, column).map(|room| room as f64);
        let mut weights = [0.0; LEAD];
        let mut total = 0.0;
        for (position, resource) in appraisal.resources.iter().enumerate() {
            if *resource < LEAD {
                let value = appraisal.values.of[0][position] * free[*resource];
                weights[*resource] = (value / cost).max(LEAST_WEIGHT);
                total += weights[*resource];
            }
        }
        TargetMachine {
            column,
            cost,
            free,
            scale: free.map(|room| if room > 0.0 { 1.0 / room } else { 0.0 }),
            weights: weights.map(|weight| weight / total),
            imbalance: 0.0,
            pods: Vec::new(),
            caps: HeldCaps::new(),
        }
    }

    /// Whether a pod may come here, be there room or not.
    fn accepts(&self, context: &Context<'_, '_>, lot: LotId) -> bool {
        let caps = &context.level(lot).caps;
        context.may_use(lot, self.column) && (caps.is_empty() || caps::room(&self.caps, caps) > 0)
    }

    /// How far the free room would be out of shape without so much of it; infinitely if there is less.
    fn without(&self, need: &Amounts) -> f64 {
        let left: Amounts = std::array::from_fn(|at| self.free[at] - need[at]);
        let shares: Amounts = std::array::from_fn(|at| left[at] * self.scale[at]);
        let parts: Amounts = std::array::from_fn(|at| shares[at] * self.weights[at]);
        let squares: Amounts = std::array::from_fn(|at| shares[at] * parts[at]);
        if left.iter().any(|left| *left < 0.0) {
            return f64::INFINITY;
        }
        let (mean, square) = (sum(&parts), sum(&squares));
        // What is out of shape by the same amount is worse where little is left to put it right.
        (square - mean * mean) / (mean + 0.01)
    }

    /// What it costs to put a pod here: the shape that it spoils.
    fn harm(&self, need: &Amounts) -> f64 {
        (self.without(need) - self.imbalance) * self.cost
    }

    fn take(&mut self, pod: usize, need: &Amounts) {
        self.imbalance = self.without(need);
        for (free, need) in self.free.iter_mut().zip(need) {
            *free -= need;
        }
        self.pods.push(pod);
    }
}

/// In pairs, as processors add.
fn sum([first, second, third, fourth]: &Amounts) -> f64 {
    (first + third) + (second + fourth)
}

fn room(context: &Context<'_, '_>, column: ColumnId) -> Lead {
    context.compiled.column(column).room.lead()
}

/// Adds amounts so many times; takes them off if that is negative.
fn shift(sums: &mut Lead, amounts: &Lead, times: i64) {
    for (sum, amount) in sums.iter_mut().zip(amounts) {
        *sum += times * amount;
    }
}

/// A cheaper mixture with some machines in the place of others, if chance finds one. `spare` is the room that the
/// present one has too much.
fn exchanged(
    context: &Context<'_, '_>,
    generator: &mut SeededGenerator,
    columns: &[ColumnId],
    bargains: &[ColumnId],
    mut spare: Lead,
) -> Option<Vec<ColumnId>> {
    let cost = |column: ColumnId| context.compiled.column(column).cost;
    let suffices = |spare: &Lead| spare.iter().all(|amount| *amount >= 0);
    let mut mixture = columns.to_vec();
    let mut budget = 0;
    for _ in 0..=generator.below(GOING) {
        if !mixture.is_empty() {
            let gone = mixture.swap_remove(generator.below(mixture.len()));
            budget += cost(gone);
            shift(&mut spare, &room(context, gone), -1);
        }
    }
    for _ in 0..generator.below(COMING + 1) {
        let part = generator.unit();
        let new = bargains[(part * part * bargains.len() as f64) as usize];
        let most = generator.below(ALIKE) + 1;
        for _ in 0..1 << generator.below(most) {
            if suffices(&spare) || budget <= 0 {
                break;
            }
            budget -= cost(new);
            shift(&mut spare, &room(context, new), 1);
            mixture.push(new);
        }
    }
    if budget > 0 && !suffices(&spare) {
        // The cheapest one that has all that is missing.
        let enough = |column: ColumnId| {
            let mut spare = spare;
            shift(&mut spare, &room(context, column), 1);
            suffices(&spare)
        };
        let affordable = bargains.iter().filter(|column| cost(**column) < budget);
        let last = affordable
            .filter(|column| enough(**column))
            .min_by_key(|column| cost(**column))?;
        mixture.push(*last);
        return Some(mixture);
    }
    (budget > 0).then_some(mixture)
}

fn filling(context: &Context<'_, '_>, appraisal: &Appraisal, mut lots: Vec<LotId>) -> Filling {
    let mut filling = Filling::default();
    lots.sort_unstable();
    for lot in lots {
        filling.load.add(context.requests(lot));
        filling.worth += appraisal.worth[lot];
        filling.pick(lot);
    }
    filling
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(cpu: f64, memory: f64) -> TargetMachine {
        TargetMachine {
            column: ColumnId(0),
            cost: 1.0,
            free: [cpu, memory, 0.0, 0.0],
            scale: [1.0 / 10.0, 1.0 / 10.0, 0.0, 0.0],
            weights: [0.5, 0.5, 0.0, 0.0],
            imbalance: 0.0,
            pods: Vec::new(),
            caps: HeldCaps::new(),
        }
    }

    #[test]
    fn a_pod_does_least_harm_where_it_puts_the_shape_right() {
        let mut crooked = machine(10.0, 10.0);
        crooked.take(0, &[6.0, 2.0, 0.0, 0.0]);
        let straight = machine(10.0, 10.0);
        let (cpu, memory) = ([3.0, 1.0, 0.0, 0.0], [1.0, 5.0, 0.0, 0.0]);
        assert!(
            crooked.harm(&memory) < 0.0,
            "it mends what the other spoilt"
        );
        assert!(crooked.harm(&memory) < straight.harm(&memory));
        assert!(crooked.harm(&cpu) > straight.harm(&cpu));
    }

    #[test]
    fn what_spoils_the_shape_is_worse_where_little_is_left() {
        let (full, empty) = (machine(4.0, 4.0), machine(10.0, 10.0));
        let need = [2.0, 0.0, 0.0, 0.0];
        assert!(full.harm(&need) > empty.harm(&need));
        assert!(full.harm(&[5.0, 0.0, 0.0, 0.0]).is_infinite(), "no room");
    }
}
