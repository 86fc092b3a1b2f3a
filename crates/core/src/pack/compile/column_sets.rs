//! Sets of columns that pods may use, numbered, each with a short list of those worth buying.

use crate::pack::compile::Compiled;
use crate::pack::compile::columns::beats;
use crate::pack::compile::ids::{CellId, ClassId, ColumnId, DemandId, GroupId, LevelId};
use crate::pack::compile::min_values;
use crate::pack::compile::supply::Ledger;
use crate::pack::dense::bits::Bits;
use crate::pack::dense::intern::{FixedMap, Interner};
use crate::pack::dense::typed::Id as _;
use crate::pack::dense::vector::Vector;

/// The number of a set of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SetId(u32);

/// The set without members.
pub(crate) const NOTHING: SetId = SetId(0);

/// Sets of columns.
#[derive(Clone, Debug)]
pub(crate) struct Sets {
    bits: Interner<Bits>,
    /// Members that no other member beats, cheapest first.
    lists: Vec<Box<[ColumnId]>>,
    meets: FixedMap<(SetId, SetId), SetId>,
    bases: FixedMap<(DemandId, Option<CellId>, Vec<GroupId>), Vec<SetId>>,
}

impl Sets {
    pub(crate) fn new(compiled: &Compiled<'_>) -> Self {
        let mut sets = Sets {
            bits: Interner::default(),
            lists: Vec::new(),
            meets: FixedMap::default(),
            bases: FixedMap::default(),
        };
        sets.intern(compiled, Bits::empty(compiled.columns.len()));
        sets
    }

    fn intern(&mut self, compiled: &Compiled<'_>, bits: Bits) -> SetId {
        if let Some(id) = self.bits.find(&bits) {
            return SetId(id);
        }
        let mut list: Vec<ColumnId> = Vec::new();
        for index in bits.iter() {
            let column = compiled.column(ColumnId::at(index));
            let beaten = list.iter().any(|other| {
                let other = compiled.column(*other);
                !compiled.min_values.asks(other.pool)
                    && beats(
                        (&other.cost, &other.room, &other.uses),
                        (&column.cost, &column.room, &column.uses),
                    )
            });
            if !beaten {
                list.push(ColumnId::at(index));
            }
        }
        self.lists.push(list.into_boxed_slice());
        SetId(self.bits.id(bits))
    }

    pub(crate) fn contains(&self, set: SetId, column: ColumnId) -> bool {
        self.bits.get(set.0).contains(column.index())
    }

    pub(crate) fn list(&self, set: SetId) -> &[ColumnId] {
        &self.lists[set.0 as usize]
    }

    /// Members of any of the sets, cheapest first, but for those that another member of at least the same sets beats.
    ///
    /// The lists of the sets will not do: what is beaten by one column in one set and by another in the next may still
    /// be the only machine for pods of both.
    pub(crate) fn union(&self, compiled: &Compiled<'_>, sets: &[SetId]) -> Vec<ColumnId> {
        let mut sets = sets.to_vec();
        sets.sort_unstable();
        sets.dedup();
        if let [only] = sets[..] {
            return self.list(only).to_vec();
        }
        let mut unbeaten = Bits::empty(compiled.columns.len());
        let (mut any, mut several) = (unbeaten.clone(), unbeaten.clone());
        for set in &sets {
            let own = self.bits.get(set.0);
            let mut again = own.clone();
            again.intersect(&any);
            several.unite(&again);
            any.unite(own);
            for column in self.list(*set) {
                unbeaten.insert(column.index());
            }
        }
        // A column that is unbeaten in one set is unbeaten in all of them, and one that is beaten in its only set is beaten;
        // one in several sets may be beaten by another in each.
        several.unite(&unbeaten);
        let mut kept: Vec<ColumnId> = Vec::new();
        for index in several.iter() {
            let beaten = || {
                let mut others = kept.iter();
                others.any(|other| self.beaten_in_all(compiled, &sets, ColumnId::at(index), *other))
            };
            if unbeaten.contains(index) || !beaten() {
                kept.push(ColumnId::at(index));
            }
        }
        kept
    }

    /// Whether one column beats another and is in all of the sets that the other is in.
    fn beaten_in_all(
        &self,
        compiled: &Compiled<'_>,
        sets: &[SetId],
        column: ColumnId,
        by: ColumnId,
    ) -> bool {
        let own = compiled.column(column);
        let other = compiled.column(by);
        beats(
            (&other.cost, &other.room, &other.uses),
            (&own.cost, &own.room, &own.uses),
        ) && !compiled.min_values.asks(other.pool)
            && sets
                .iter()
                .all(|set| !self.contains(*set, column) || self.contains(*set, by))
    }

    /// What is in both.
    pub(crate) fn meet(&mut self, compiled: &Compiled<'_>, a: SetId, b: SetId) -> SetId {
        if a == b {
            return a;
        }
        let key = (a.min(b), a.max(b));
        if let Some(id) = self.meets.get(&key) {
            return *id;
        }
        let mut bits = self.bits.get(a.0).clone();
        bits.intersect(self.bits.get(b.0));
        let id = self.intern(compiled, bits);
        self.meets.insert(key, id);
        id
    }

    /// What is in a set and in `bits`.
    pub(crate) fn within(&mut self, compiled: &Compiled<'_>, set: SetId, bits: &Bits) -> SetId {
        let mut both = self.bits.get(set.0).clone();
        both.intersect(bits);
        self.intern(compiled, both)
    }

    /// All columns that meet a demand.
    pub(crate) fn demanded(&mut self, compiled: &Compiled<'_>, demand: DemandId) -> SetId {
        self.intern(compiled, compiled.demand_columns[demand].clone())
    }

    /// Columns that a class may be bought for, at a level and in a cell (`None` for any): those of the heaviest pools
    /// that can hold it, or of lighter ones further down (`tier`).
    pub(crate) fn base(
        &mut self,
        compiled: &Compiled<'_>,
        class: ClassId,
        level: LevelId,
        cell: Option<CellId>,
        tier: usize,
    ) -> SetId {
        let profile = compiled.profile(class);
        let Some(level) = profile.levels.find(level) else {
            return NOTHING;
        };
        let requests = &compiled.class(class).requests;
        let ports: Vec<GroupId> = level
            .caps
            .iter()
            .filter(|cap| cap.matched && cap.most == 1)
            .map(|cap| cap.group)
            .filter(|group| compiled.columns.iter().any(|one| one.ports.contains(group)))
            .collect();
        let key = (level.demand, cell, ports);
        if let Some(tiers) = self.bases.get(&key) {
            return self.holding(compiled, tiers, requests, tier);
        }
        let mut bits = compiled.demand_columns[level.demand].clone();
        if let Some(cell) = cell {
            bits.intersect(&compiled.cell_columns[cell]);
        }
        for (index, column) in compiled.columns.iter().enumerate() {
            if !key.2.is_empty() && column.ports.iter().any(|port| key.2.contains(port)) {
                bits.remove(index);
            }
        }
        let mut tiers = Vec::new();
        for columns in &compiled.tiers {
            let mut own = bits.clone();
            own.intersect(columns);
            if !own.is_empty() {
                tiers.push(self.intern(compiled, own));
            }
        }
        let found = self.holding(compiled, &tiers, requests, tier);
        self.bases.insert(key, tiers);
        found
    }

    fn holding(
        &self,
        compiled: &Compiled<'_>,
        tiers: &[SetId],
        requests: &Vector,
        tier: usize,
    ) -> SetId {
        let tiers = tiers.iter().copied();
        let mut holding = tiers.filter(|set| self.holds(compiled, *set, requests));
        holding.nth(tier).unwrap_or(NOTHING)
    }

    fn holds(&self, compiled: &Compiled<'_>, set: SetId, load: &Vector) -> bool {
        self.list(set).iter().any(|index| {
            let column = compiled.column(*index);
            load.fits(&column.room) && self.meets_min_values(compiled, set, *index, load)
        })
    }

    /// The cheapest column of a set that holds a load and can be had.
    pub(crate) fn cheapest(
        &self,
        compiled: &Compiled<'_>,
        ledger: &Ledger,
        set: SetId,
        load: &Vector,
    ) -> Option<ColumnId> {
        self.list(set).iter().copied().find(|index| {
            let column = compiled.column(*index);
            load.fits(&column.room)
                && ledger.can(&column.uses)
                && self.meets_min_values(compiled, set, *index, load)
        })
    }

    /// The same, for a machine that is already reckoned as `old`.
    pub(crate) fn cheapest_instead(
        &self,
        compiled: &Compiled<'_>,
        ledger: &Ledger,
        set: SetId,
        load: &Vector,
        old: ColumnId,
    ) -> Option<ColumnId> {
        let old = &compiled.column(old).uses;
        self.list(set).iter().copied().find(|index| {
            let column = compiled.column(*index);
            load.fits(&column.room)
                && ledger.can_swap(old, &column.uses)
                && self.meets_min_values(compiled, set, *index, load)
        })
    }

    /// Whether the machines that could hold a load in this column's pool meet its `minValues`.
    pub(crate) fn meets_min_values(
        &self,
        compiled: &Compiled<'_>,
        set: SetId,
        column: ColumnId,
        load: &Vector,
    ) -> bool {
        let pool = compiled.column(column).pool;
        if !compiled.min_values.asks(pool) {
            return true;
        }
        let members = self.bits.get(set.0).iter();
        min_values::columns_meet_min_values(
            &compiled.min_values,
            &compiled.offers,
            pool,
            members.map(|index| compiled.column(ColumnId::at(index))),
            load,
        )
    }
}
