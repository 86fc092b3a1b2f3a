//! The last step of packing: machines made to measure are cut to their pods, and what that frees is used.
//!
//! While packing only some sizes are looked at, and each machine counts as large as the next of them. Here every machine
//! counts as large as it will be.

use super::bins::{Bin, Context, Packing};
use super::caps;
use super::ledger::Uses;
use super::made::Exact;
use super::sets::NOTHING;
use super::vector::Vector;

/// With more machines than this, no two of them are compared.
const FEW_BINS: usize = 96;
/// How many machines are looked at for pods that have none.
const MOST_LOOKS: usize = 50_000;

/// What is bought for a bin.
#[derive(Clone)]
struct Bought {
    column: u32,
    cost: i64,
    uses: Uses,
}

/// Cuts the machines of a packing; it can be read afterwards, and not be packed any further.
pub(crate) fn tailor(context: &mut Context<'_, '_>, packing: &mut Packing) {
    let mut tailor = cut(context, packing);
    tailor.exchange_all(packing);
    tailor.join_pairs(packing);
    tailor.serve_the_rest(packing);
}

/// The same, with every pod left where it is.
pub(crate) fn cut<'t, 'a, 'p>(
    context: &'t mut Context<'a, 'p>,
    packing: &mut Packing,
) -> Tailor<'t, 'a, 'p> {
    let mut tailor = Tailor {
        bought: Vec::with_capacity(packing.bins.len()),
        context,
    };
    tailor.cut_all(packing);
    tailor
}

/// Packings while machines are cut.
pub(crate) struct Tailor<'t, 'a, 'p> {
    context: &'t mut Context<'a, 'p>,
    /// By bin.
    bought: Vec<Bought>,
}

impl Tailor<'_, '_, '_> {
    fn cut_all(&mut self, packing: &mut Packing) {
        let compiled = self.context.compiled;
        for bin in &packing.bins {
            let column = &compiled.columns[bin.column as usize];
            let make = compiled.makes.of(bin.column);
            let exact = make.and_then(|make| compiled.cut(make, &bin.load));
            let (cost, uses) = match exact {
                Some(exact) => (exact.cost, exact.uses),
                None => (column.cost, column.uses.clone()),
            };
            packing.ledger.give(&column.uses);
            packing.ledger.take(&uses);
            packing.cost += cost - column.cost;
            let column = bin.column;
            self.bought.push(Bought { column, cost, uses });
        }
    }

    /// Gives every bin what is cheapest for it by exact prices.
    fn exchange_all(&mut self, packing: &mut Packing) {
        for index in 0..packing.bins.len() {
            let old = self.bought[index].clone();
            let bin = &packing.bins[index];
            let best = self.cheapest(packing, bin.set, &bin.load, Some(&old.uses));
            if let Some(best) = best.filter(|best| best.cost < old.cost) {
                self.replace(packing, index, best);
            }
        }
    }

    /// What is cheapest for a load, with what is given back for it.
    fn cheapest(
        &self,
        packing: &Packing,
        set: u32,
        load: &Vector,
        back: Option<&Uses>,
    ) -> Option<Bought> {
        let compiled = self.context.compiled;
        let none = Uses::new();
        let back = back.unwrap_or(&none);
        let sets = &self.context.sets;
        let fixed = sets.list(set).iter().copied().find(|index| {
            let column = &compiled.columns[*index as usize];
            compiled.makes.of(*index).is_none()
                && load.fits(&column.room)
                && packing.ledger.can_swap(back, &column.uses)
                && sets.diverse(compiled, set, *index, load)
        });
        let fixed = fixed.map(|index| {
            let column = &compiled.columns[index as usize];
            Bought {
                column: index,
                cost: column.cost,
                uses: column.uses.clone(),
            }
        });
        let made = (0..compiled.makes.all.len() as u32).filter_map(|make| {
            let (column, exact) = self.made(make, set, load)?;
            let can = packing.ledger.can_swap(back, &exact.uses);
            (can && sets.diverse(compiled, set, column, load)).then_some(Bought {
                column,
                cost: exact.cost,
                uses: exact.uses,
            })
        });
        made.chain(fixed).min_by_key(|one| (one.cost, one.column))
    }

    /// A machine of a make for a load, and the smallest of its columns that holds it.
    fn made(&self, make: u32, set: u32, load: &Vector) -> Option<(u32, Exact)> {
        let compiled = self.context.compiled;
        let columns = &compiled.makes.all[make as usize].columns;
        let allowed = |column: &u32| self.context.sets.contains(set, *column);
        if !columns.iter().any(allowed) {
            return None;
        }
        let holds = |column: &&u32| load.fits(&compiled.columns[**column as usize].room);
        let column = *columns.iter().find(holds)?;
        Some((column, compiled.cut(make, load)?))
    }

    fn replace(&mut self, packing: &mut Packing, index: usize, new: Bought) {
        let old = &self.bought[index];
        packing.ledger.give(&old.uses);
        packing.ledger.take(&new.uses);
        packing.cost += new.cost - old.cost;
        packing.bins[index].column = new.column;
        self.bought[index] = new;
    }

    /// Makes one machine of two where that costs less.
    fn join_pairs(&mut self, packing: &mut Packing) {
        if packing.bins.len() > FEW_BINS {
            return;
        }
        let mut first = 0;
        while first < packing.bins.len() {
            let second = (first + 1..packing.bins.len())
                .find(|second| self.join(packing, first, *second));
            if second.is_none() {
                first += 1;
            }
        }
    }

    fn join(&mut self, packing: &mut Packing, first: usize, second: usize) -> bool {
        let makes = &self.context.compiled.makes;
        let made = |index: usize| makes.of(packing.bins[index].column).is_some();
        if !made(first) && !made(second) {
            return false;
        }
        let Some(both) = self.together(&packing.bins[first], &packing.bins[second]) else {
            return false;
        };
        let mut back = self.bought[first].uses.clone();
        back.extend(self.bought[second].uses.iter().copied());
        let before = self.bought[first].cost + self.bought[second].cost;
        let best = self.cheapest(packing, both.set, &both.load, Some(&back));
        let Some(best) = best.filter(|best| best.cost < before) else {
            return false;
        };
        packing.bins[first] = both;
        packing.bins.swap_remove(second);
        let gone = self.bought.swap_remove(second);
        packing.ledger.give(&gone.uses);
        packing.cost -= gone.cost;
        self.replace(packing, first, best);
        true
    }

    /// The pods of two bins in one, if they bear each other.
    fn together(&mut self, a: &Bin, b: &Bin) -> Option<Bin> {
        let compiled = self.context.compiled;
        let set = self.context.sets.meet(compiled, a.set, b.set);
        if set == NOTHING {
            return None;
        }
        let mut both = a.clone();
        both.set = set;
        both.load.add(&b.load);
        for (lot, count) in &b.pods {
            let own = &self.context.level(*lot).caps;
            if caps::room(&both.caps, own) < *count {
                return None;
            }
            for cap in own {
                caps::hold(&mut both.caps, *cap, *count);
            }
            match both.pods.iter_mut().find(|(known, _)| known == lot) {
                Some((_, present)) => *present += count,
                None => both.pods.push((*lot, *count)),
            }
        }
        Some(both)
    }

    /// Pods for which nothing was left find room in what the others do not need.
    fn serve_the_rest(&mut self, packing: &mut Packing) {
        let mut looks = MOST_LOOKS;
        for lot in self.context.by_size() {
            if self.context.is_near(lot) {
                continue;
            }
            while packing.left[lot as usize] > 0 && looks > 0 {
                looks = looks.saturating_sub(packing.bins.len() + 1);
                if !self.enlarge_one(packing, lot) && !self.open_one(packing, lot) {
                    break;
                }
            }
        }
    }

    /// Puts a pod into the machine that gets dearer by the least.
    fn enlarge_one(&mut self, packing: &mut Packing, lot: u32) -> bool {
        let compiled = self.context.compiled;
        let mut best: Option<(i64, usize, Bought)> = None;
        for index in 0..packing.bins.len() {
            let bin = &packing.bins[index];
            let load = bin.load.plus(self.context.requests(lot));
            let bears = self.context.may_use(lot, bin.column)
                && caps::room(&bin.caps, &self.context.level(lot).caps) > 0;
            if !bears {
                continue;
            }
            let set = self.context.lots[lot as usize].set;
            let set = self.context.sets.meet(compiled, bin.set, set);
            let old = &self.bought[index];
            let new = self.cheapest(packing, set, &load, Some(&old.uses));
            let Some(new) = new else { continue };
            let more = new.cost - old.cost;
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

    fn open_one(&mut self, packing: &mut Packing, lot: u32) -> bool {
        let set = self.context.lots[lot as usize].set;
        let load = *self.context.requests(lot);
        if set == NOTHING {
            return false;
        }
        let Some(new) = self.cheapest(packing, set, &load, None) else {
            return false;
        };
        packing.ledger.take(&new.uses);
        packing.cost += new.cost;
        packing.bins.push(Bin {
            set,
            column: new.column,
            load: Vector::ZERO,
            caps: caps::HostCaps::new(),
            pods: smallvec::SmallVec::new(),
        });
        self.bought.push(new);
        self.context.put(packing, packing.bins.len() - 1, lot, 1);
        true
    }
}
