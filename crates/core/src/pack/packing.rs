//! Machines being filled.

use smallvec::SmallVec;

use crate::pack::assign::{Lot, LotId};
use crate::pack::compile::Compiled;
use crate::pack::compile::caps::{self, HeldCaps};
use crate::pack::compile::column_sets::{NOTHING, SetId, Sets};
use crate::pack::compile::ids::ColumnId;
use crate::pack::compile::profile::Level;
use crate::pack::compile::supply::Ledger;
use crate::pack::dense::typed::IdVec;
use crate::pack::dense::vector::Vector;
use crate::pack::parts::Without;

/// A machine to be bought and what it carries.
#[derive(Clone, Debug)]
pub(crate) struct Bin {
    /// Columns that all its pods may use.
    pub(crate) set: SetId,
    pub(crate) column: ColumnId,
    pub(crate) load: Vector,
    pub(crate) caps: HeldCaps,
    /// Lots and how many pods of each.
    pub(crate) pods: SmallVec<[(LotId, u32); 6]>,
}

/// Lots packed into machines.
#[derive(Clone, Debug)]
pub(crate) struct Packing {
    pub(crate) bins: Vec<Bin>,
    /// Pods of each lot that have no machine yet.
    pub(crate) left: IdVec<LotId, u32>,
    pub(crate) ledger: Ledger,
    pub(crate) cost: i64,
}

/// What strategies share: the problem, its sets and the lots.
pub(crate) struct Context<'a, 'p> {
    pub(crate) compiled: &'a Compiled<'p>,
    pub(crate) sets: &'a mut Sets,
    pub(crate) lots: &'a IdVec<LotId, Lot>,
    pub(crate) ledger: &'a Ledger,
    pub(crate) without: Without,
}

impl<'a> Context<'a, '_> {
    /// A lot by number.
    pub(crate) fn lot(&self, lot: LotId) -> &'a Lot {
        &self.lots[lot]
    }

    pub(crate) fn empty(&self) -> Packing {
        Packing {
            bins: Vec::new(),
            left: self.lots.iter().map(|lot| lot.count).collect(),
            ledger: self.ledger.clone(),
            cost: 0,
        }
    }

    pub(crate) fn requests(&self, lot: LotId) -> &Vector {
        &self.compiled.class(self.lot(lot).class).requests
    }

    pub(crate) fn level(&self, lot: LotId) -> &Level {
        let lot = self.lot(lot);
        &self.compiled.profile(lot.class).levels[lot.level]
    }

    pub(crate) fn priority(&self, lot: LotId) -> i32 {
        let lot = self.lot(lot);
        self.compiled.profile(lot.class).spec.priority
    }

    /// Whether a lot's pods must share a host with others.
    pub(crate) fn has_host_affinity(&self, lot: LotId) -> bool {
        !self.level(lot).host_affinity.is_empty()
    }

    /// How many pods of a lot a bin takes in its present column.
    pub(crate) fn room(&mut self, bin: &Bin, lot: LotId) -> u32 {
        let room = &self.compiled.column(bin.column).room;
        let requests = self.requests(lot);
        if !requests.fits_beside(&bin.load, room) {
            return 0;
        }
        let caps = &self.level(lot).caps;
        let most = if caps.is_empty() {
            u32::MAX
        } else {
            caps::room(&bin.caps, caps)
        };
        let copies = if most <= 1 {
            i64::from(most)
        } else {
            requests.copies_in(&room.minus(&bin.load))
        };
        let most = most.min(u32::try_from(copies).unwrap_or(u32::MAX));
        self.meets_min_values(bin, lot, most)
    }

    /// How many of `most` pods of a lot a bin takes before its pool's `minValues` are not met any more.
    pub(crate) fn meets_min_values(&mut self, bin: &Bin, lot: LotId, most: u32) -> u32 {
        let compiled = self.compiled;
        let pool = compiled.column(bin.column).pool;
        if most == 0 || !compiled.min_values.asks(pool) {
            return most;
        }
        let set = self.sets.meet(compiled, bin.set, self.lot(lot).set);
        let requests = *self.requests(lot);
        let suffices = |count: u32| {
            let load = bin.load.plus(&requests.times(i64::from(count)));
            self.sets.meets_min_values(compiled, set, bin.column, &load)
        };
        let (mut low, mut high) = (0, most);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if suffices(middle) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        low
    }

    /// Opens an empty bin; `None` if what is scarce does not suffice.
    pub(crate) fn open(
        &mut self,
        packing: &mut Packing,
        column: ColumnId,
        set: SetId,
    ) -> Option<usize> {
        let bought = self.compiled.column(column);
        if !packing.ledger.can(&bought.uses) {
            return None;
        }
        packing.ledger.take(&bought.uses);
        packing.cost += bought.cost;
        packing.bins.push(Bin {
            set,
            column,
            load: Vector::ZERO,
            caps: HeldCaps::new(),
            pods: SmallVec::new(),
        });
        Some(packing.bins.len() - 1)
    }

    /// Puts pods of a lot into a bin, without asking.
    pub(crate) fn put(&mut self, packing: &mut Packing, bin: usize, lot: LotId, count: u32) {
        let set = self.lot(lot).set;
        let requests = self.requests(lot).times(i64::from(count));
        let compiled = self.compiled;
        let bin = &mut packing.bins[bin];
        bin.load.add(&requests);
        bin.set = self.sets.meet(compiled, bin.set, set);
        for cap in &self.level(lot).caps {
            caps::hold(&mut bin.caps, *cap, count);
        }
        match bin.pods.iter_mut().find(|(own, _)| *own == lot) {
            Some((_, present)) => *present += count,
            None => bin.pods.push((lot, count)),
        }
        packing.left[lot] -= count;
    }

    /// Exchanges a bin's machine.
    pub(crate) fn swap(&self, packing: &mut Packing, bin: usize, column: ColumnId) {
        let columns = &self.compiled.columns;
        let old = &columns[packing.bins[bin].column];
        let new = &columns[column];
        packing.ledger.give(&old.uses);
        packing.ledger.take(&new.uses);
        packing.cost += new.cost - old.cost;
        packing.bins[bin].column = column;
    }

    /// Takes a bin out; its pods have no machine then.
    pub(crate) fn close(&self, packing: &mut Packing, bin: usize) {
        let bin = packing.bins.swap_remove(bin);
        let column = self.compiled.column(bin.column);
        packing.ledger.give(&column.uses);
        packing.cost -= column.cost;
        for (lot, count) in bin.pods {
            packing.left[lot] += count;
        }
    }

    /// Gives every bin the cheapest machine that holds what it carries.
    pub(crate) fn downsize(&self, packing: &mut Packing) {
        for index in 0..packing.bins.len() {
            let bin = &packing.bins[index];
            let best = self.sets.cheapest_instead(
                self.compiled,
                &packing.ledger,
                bin.set,
                &bin.load,
                bin.column,
            );
            if let Some(column) = best
                && self.compiled.column(column).cost < self.compiled.column(bin.column).cost
            {
                self.swap(packing, index, column);
            }
        }
    }

    /// Lots by priority, then by the largest part that a pod takes of the largest machine.
    pub(crate) fn by_size(&self) -> Vec<LotId> {
        let mut largest = Vector::ZERO;
        for column in &self.compiled.columns {
            for (most, amount) in largest.0.iter_mut().zip(&column.room.0) {
                *most = (*most).max(*amount);
            }
        }
        let mut order: Vec<LotId> = self.lots.ids().collect();
        order.sort_by_cached_key(|lot| {
            let share = crate::pack::assign::share_of(1 << 40, self.requests(*lot), &largest);
            (-i64::from(self.priority(*lot)), -share, *lot)
        });
        order
    }

    /// What every stage promises of the packing that it hands on, in debug builds: each pod is in one machine or left,
    /// each machine holds its pods and may be used by them, and the cost is what the machines cost.
    pub(crate) fn debug_check(&self, packing: &Packing) {
        if !cfg!(debug_assertions) {
            return;
        }
        let mut counts = packing.left.clone();
        let mut cost = 0;
        for bin in &packing.bins {
            let column = self.compiled.column(bin.column);
            cost += column.cost;
            debug_assert!(
                bin.load.fits(&column.room),
                "a machine is overfilled: {bin:?}"
            );
            for (lot, count) in &bin.pods {
                counts[*lot] += count;
                debug_assert!(
                    self.may_use(*lot, bin.column),
                    "pods of lot {lot} may not use their machine: {bin:?}"
                );
            }
        }
        debug_assert_eq!(cost, packing.cost, "the cost is not that of the machines");
        let mut lots = self.lots.iter().zip(&counts);
        debug_assert!(
            lots.all(|(lot, count)| lot.count == *count),
            "pods were lost or doubled: {counts:?} of {:?}",
            self.lots
        );
    }

    /// Whether a bin with this column may take pods of a lot at all.
    pub(crate) fn may_use(&self, lot: LotId, column: ColumnId) -> bool {
        let set = self.lot(lot).set;
        set != NOTHING && self.sets.contains(set, column)
    }
}

impl Packing {
    /// How many pods have no machine.
    pub(crate) fn unpacked(&self) -> u64 {
        self.left.iter().map(|count| u64::from(*count)).sum()
    }
}
