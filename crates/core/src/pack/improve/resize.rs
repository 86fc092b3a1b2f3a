//! The last step of packing: machines of custom size are resized to their pods, and what that frees is used.
//!
//! While packing only some sizes are looked at, and each machine counts as large as the next of them. Here every machine
//! counts as large as it will be.

use crate::pack::assign::LotId;
use crate::pack::compile::caps;
use crate::pack::compile::column_sets::{NOTHING, SetId};
use crate::pack::compile::custom::CustomMachine;
use crate::pack::compile::ids::ColumnId;
use crate::pack::compile::supply::{Ledger, Uses};
use crate::pack::dense::vector::Vector;
use crate::pack::packing::{Bin, Context, Packing};

// Half or twice of these changes no plan.

/// How many machines are resized to see whether they would be cheaper.
const MOST_LOOKS: usize = 8_000;
/// How many for pods that have none.
const LAST_LOOKS: usize = 50_000;

/// What is bought for a bin.
#[derive(Clone)]
struct Sized {
    column: ColumnId,
    cost: i64,
    uses: Uses,
}

/// Resizes the machines of a packing; it can be read afterwards, and not be packed any further.
pub(crate) fn resize(context: &mut Context<'_, '_>, packing: &mut Packing) {
    let mut resize = fitted(context, packing);
    resize.exchange_all(packing);
    resize.rearrange(packing);
    resize.place_the_rest(packing);
}

/// The same, with every pod left where it is.
pub(crate) fn fitted<'t, 'a, 'p>(
    context: &'t mut Context<'a, 'p>,
    packing: &mut Packing,
) -> Resizer<'t, 'a, 'p> {
    let mut resize = Resizer {
        bought: Vec::with_capacity(packing.bins.len()),
        context,
        looks: MOST_LOOKS,
    };
    resize.size_all(packing);
    resize
}

/// A packing while its machines are resized.
pub(crate) struct Resizer<'t, 'a, 'p> {
    context: &'t mut Context<'a, 'p>,
    /// By bin.
    bought: Vec<Sized>,
    /// How many more machines may be resized to see what they cost.
    looks: usize,
}

impl Resizer<'_, '_, '_> {
    fn size_all(&mut self, packing: &mut Packing) {
        let compiled = self.context.compiled;
        for bin in &packing.bins {
            let column = compiled.column(bin.column);
            let custom_type = compiled.custom_types.of(bin.column);
            let exact = custom_type.and_then(|custom_type| compiled.fitted(custom_type, &bin.load));
            let (cost, uses) = match exact {
                Some(exact) => (exact.cost, exact.uses),
                None => (column.cost, column.uses.clone()),
            };
            packing.ledger.give(&column.uses);
            packing.ledger.take(&uses);
            packing.cost += cost - column.cost;
            let column = bin.column;
            self.bought.push(Sized { column, cost, uses });
        }
    }

    /// Gives every bin what is cheapest for it by exact prices.
    fn exchange_all(&mut self, packing: &mut Packing) {
        for index in 0..packing.bins.len() {
            let old = self.bought[index].clone();
            let bin = &packing.bins[index];
            let best = self.cheapest(&packing.ledger, bin.set, &bin.load, Some(&old.uses));
            if let Some(best) = best.filter(|best| best.cost < old.cost) {
                self.replace(packing, index, best);
            }
        }
    }

    /// What is cheapest for a load, with what is given back for it.
    fn cheapest(
        &mut self,
        ledger: &Ledger,
        set: SetId,
        load: &Vector,
        back: Option<&Uses>,
    ) -> Option<Sized> {
        let compiled = self.context.compiled;
        self.looks = self.looks.saturating_sub(compiled.custom_types.all.len());
        let none = Uses::new();
        let back = back.unwrap_or(&none);
        let sets = &self.context.sets;
        let fixed = sets.list(set).iter().copied().find(|index| {
            let column = compiled.column(*index);
            compiled.custom_types.of(*index).is_none()
                && load.fits(&column.room)
                && ledger.can_swap(back, &column.uses)
                && sets.meets_min_values(compiled, set, *index, load)
        });
        let fixed = fixed.map(|index| {
            let column = compiled.column(index);
            Sized {
                column: index,
                cost: column.cost,
                uses: column.uses.clone(),
            }
        });
        let custom = (0..compiled.custom_types.all.len() as u32).filter_map(|custom_type| {
            let (column, exact) = self.custom(custom_type, set, load)?;
            let can = ledger.can_swap(back, &exact.uses);
            (can && sets.meets_min_values(compiled, set, column, load)).then_some(Sized {
                column,
                cost: exact.cost,
                uses: exact.uses,
            })
        });
        custom.chain(fixed).min_by_key(|one| (one.cost, one.column))
    }

    /// A machine of a make for a load, and the smallest of its columns that holds it.
    fn custom(
        &self,
        custom_type: u32,
        set: SetId,
        load: &Vector,
    ) -> Option<(ColumnId, CustomMachine)> {
        let compiled = self.context.compiled;
        let columns = &compiled.custom_types.all[custom_type as usize].columns;
        let allowed = |column: &ColumnId| self.context.sets.contains(set, *column);
        if !columns.iter().any(allowed) {
            return None;
        }
        let holds = |column: &&ColumnId| load.fits(&compiled.column(**column).room);
        let column = *columns.iter().find(holds)?;
        Some((column, compiled.fitted(custom_type, load)?))
    }

    fn replace(&mut self, packing: &mut Packing, index: usize, new: Sized) {
        let old = &self.bought[index];
        packing.ledger.give(&old.uses);
        packing.ledger.take(&new.uses);
        packing.cost += new.cost - old.cost;
        packing.bins[index].column = new.column;
        self.bought[index] = new;
    }

    /// Makes one machine of two, or moves pods from one to the other, where that costs less.
    fn rearrange(&mut self, packing: &mut Packing) {
        let mut first = 0;
        while first < packing.bins.len() && self.looks > 0 {
            let others = 0..packing.bins.len();
            let mut others = others.filter(|other| *other != first);
            let better = others.any(|second| self.join(packing, first, second))
                || (0..packing.bins.len()).any(|second| self.shift(packing, first, second));
            if better {
                first = 0;
            } else {
                first += 1;
            }
        }
    }

    fn join(&mut self, packing: &mut Packing, first: usize, second: usize) -> bool {
        let mut pods = packing.bins[first].pods.to_vec();
        for (lot, count) in &packing.bins[second].pods {
            add(&mut pods, *lot, *count);
        }
        let Some(both) = self.assemble(&pods) else {
            return false;
        };
        self.exchange(packing, &[first, second], vec![both])
    }

    /// Moves pods of one kind to another machine, or to one of their own where `to` is where they are.
    fn shift(&mut self, packing: &mut Packing, from: usize, to: usize) -> bool {
        let pods = packing.bins[from].pods.to_vec();
        if pods
            .iter()
            .any(|(lot, _)| self.context.has_host_affinity(*lot))
        {
            return false;
        }
        for (lot, count) in &pods {
            let mut counts = vec![1, *count];
            counts.dedup();
            for moved in counts {
                let mut rest = pods.clone();
                rest.retain_mut(|(own, left)| {
                    if own == lot {
                        *left -= moved;
                    }
                    *left > 0
                });
                if rest.is_empty() {
                    continue;
                }
                let mut there = if from == to {
                    Vec::new()
                } else {
                    packing.bins[to].pods.to_vec()
                };
                add(&mut there, *lot, moved);
                let (Some(rest), Some(there)) = (self.assemble(&rest), self.assemble(&there))
                else {
                    continue;
                };
                let old: &[usize] = if from == to { &[from] } else { &[from, to] };
                if self.exchange(packing, old, vec![rest, there]) {
                    return true;
                }
            }
        }
        false
    }

    /// A bin with these pods, if they may share a machine.
    fn assemble(&mut self, pods: &[(LotId, u32)]) -> Option<Bin> {
        let compiled = self.context.compiled;
        let (first, _) = pods.first()?;
        let mut bin = empty(self.context.lot(*first).set);
        for (lot, count) in pods {
            let set = self.context.lot(*lot).set;
            bin.set = self.context.sets.meet(compiled, bin.set, set);
            let own = &self.context.level(*lot).caps;
            if bin.set == NOTHING || caps::room(&bin.caps, own) < *count {
                return None;
            }
            for cap in own {
                caps::hold(&mut bin.caps, *cap, *count);
            }
            let requests = self.context.requests(*lot);
            bin.load.add(&requests.times(i64::from(*count)));
            bin.pods.push((*lot, *count));
        }
        Some(bin)
    }

    /// Puts new bins in the place of old ones, if they cost less together.
    fn exchange(&mut self, packing: &mut Packing, old: &[usize], new: Vec<Bin>) -> bool {
        let mut ledger = packing.ledger.clone();
        let mut saved = 0;
        for index in old {
            ledger.give(&self.bought[*index].uses);
            saved += self.bought[*index].cost;
        }
        let mut bought = Vec::with_capacity(new.len());
        for bin in &new {
            let Some(best) = self.cheapest(&ledger, bin.set, &bin.load, None) else {
                return false;
            };
            saved -= best.cost;
            if saved <= 0 {
                return false;
            }
            ledger.take(&best.uses);
            bought.push(best);
        }
        packing.ledger = ledger;
        packing.cost -= saved;
        let mut old = old.to_vec();
        old.sort_unstable();
        for index in old.into_iter().rev() {
            packing.bins.swap_remove(index);
            self.bought.swap_remove(index);
        }
        for (mut bin, best) in new.into_iter().zip(bought) {
            bin.column = best.column;
            packing.bins.push(bin);
            self.bought.push(best);
        }
        true
    }

    /// Pods for which nothing was left find room in what the others do not need.
    fn place_the_rest(&mut self, packing: &mut Packing) {
        self.looks = LAST_LOOKS;
        for lot in self.context.by_size() {
            if self.context.has_host_affinity(lot) {
                continue;
            }
            while packing.left[lot] > 0 && self.looks > 0 {
                if !self.enlarge_one(packing, lot) && !self.open_one(packing, lot) {
                    break;
                }
            }
        }
    }

    /// Puts a pod into the machine that gets dearer by the least.
    fn enlarge_one(&mut self, packing: &mut Packing, lot: LotId) -> bool {
        let compiled = self.context.compiled;
        let mut best: Option<(i64, usize, Sized)> = None;
        for index in 0..packing.bins.len() {
            let bin = &packing.bins[index];
            let load = bin.load.plus(self.context.requests(lot));
            let bears = self.context.may_use(lot, bin.column)
                && caps::room(&bin.caps, &self.context.level(lot).caps) > 0;
            if !bears {
                continue;
            }
            let set = self.context.lot(lot).set;
            let set = self.context.sets.meet(compiled, bin.set, set);
            let Sized { uses, cost, .. } = self.bought[index].clone();
            let new = self.cheapest(&packing.ledger, set, &load, Some(&uses));
            let Some(new) = new else { continue };
            let more = new.cost - cost;
            if best.as_ref().is_none_or(|(least, ..)| more < *least) {
                best = Some((more, index, new));
            }
        }
        let Some((_, index, new)) = best else {
            return false;
        };
        self.replace(packing, index, new);
        self.context.put(packing, index, lot, 1);
        true
    }

    fn open_one(&mut self, packing: &mut Packing, lot: LotId) -> bool {
        let set = self.context.lot(lot).set;
        let load = *self.context.requests(lot);
        if set == NOTHING {
            return false;
        }
        let Some(new) = self.cheapest(&packing.ledger, set, &load, None) else {
            return false;
        };
        packing.ledger.take(&new.uses);
        packing.cost += new.cost;
        packing.bins.push(Bin {
            column: new.column,
            ..empty(set)
        });
        self.bought.push(new);
        self.context.put(packing, packing.bins.len() - 1, lot, 1);
        true
    }
}

fn add(pods: &mut Vec<(LotId, u32)>, lot: LotId, count: u32) {
    match pods.iter_mut().find(|(known, _)| *known == lot) {
        Some((_, present)) => *present += count,
        None => pods.push((lot, count)),
    }
}

/// A bin without pods and without a machine.
fn empty(set: SetId) -> Bin {
    Bin {
        set,
        column: ColumnId(0),
        load: Vector::ZERO,
        caps: caps::HeldCaps::new(),
        pods: smallvec::SmallVec::new(),
    }
}
