//! The values of [`worth`](crate::pack::value::resource_values) for the lots of one packing.

use crate::pack::assign::LotId;
use crate::pack::compile::column_sets::SetId;
use crate::pack::compile::ids::{ColumnId, GroupId};
use crate::pack::compile::profile::NO_CAP;
use crate::pack::dense::intern::FixedMap;
use crate::pack::dense::typed::IdVec;
use crate::pack::dense::vector::{Vector, WIDTH};
use crate::pack::packing::Context;
use crate::pack::parts::Part;
use crate::pack::value::resource_values::{MAX_KINDS, PricedMachine, ResourceValues, appraise};

// What half and twice of these is worth: docs/benchmarks.md, "Tuning constants". Where no figure stands, it is less than 0.15%.

/// Groups of which a host takes only so many, beyond the largest few, are left out. With half, bounds of web are 0.1% lower;
/// with twice they are 0.2% higher, and web costs 0.2% more.
const MAX_GROUPS: usize = 8;
/// Into how many grades pods are sorted by the bargains that can hold them. With half or twice, bounds of traces are 1% higher;
/// with twice, 100 pods cost 0.2% more.
const MAX_GRADES: usize = 6;
/// How many kinds grades may make while packing. With half, web costs 0.2% more; with twice, 100 pods cost 0.2% more.
const PACKING_KINDS: usize = 12;
/// How many bargains are looked at for that.
const GRADING: usize = 15;
/// How many of the smallest pods of a kind are remembered one by one.
const MAX_SMALLEST: usize = 48;
/// A column of which fewer than this can be had sets no price.
pub(crate) const SCARCE_COPIES: i64 = 1 << 20;

/// Values of lots and bargains among columns.
#[derive(Clone, Debug)]
pub(crate) struct Appraisal {
    /// How many kinds of lots there are.
    sets: usize,
    /// Kind of each lot.
    pub(crate) kinds: IdVec<LotId, u8>,
    /// Indexes of real resources that matter.
    pub(crate) resources: Vec<usize>,
    pub(crate) values: ResourceValues,
    /// How many pods of each group with values of its own a machine takes.
    pub(crate) caps: Vec<u16>,
    /// What a pod of each lot is worth.
    pub(crate) worth: IdVec<LotId, f64>,
    /// Columns, best bargain first, with what their room is worth as a share of their cost.
    pub(crate) bargains: Vec<(f64, ColumnId)>,
}

impl Appraisal {
    /// Appraises what is left to be packed.
    pub(crate) fn new(context: &Context<'_, '_>, left: &IdVec<LotId, u32>) -> Self {
        Self::with_groups(context, left, &host_groups(context, left), PACKING_KINDS)
    }

    /// The same, telling more kinds apart: closer, and slower.
    pub(crate) fn fine(context: &Context<'_, '_>, left: &IdVec<LotId, u32>) -> Self {
        Self::with_groups(context, left, &host_groups(context, left), MAX_KINDS)
    }

    /// Appraises what is left to be packed, as if only resources were scarce.
    pub(crate) fn plain(context: &Context<'_, '_>, left: &IdVec<LotId, u32>) -> Self {
        Self::with_groups(context, left, &[], MAX_KINDS)
    }

    /// Appraises twice: first by what pods may use, then also by which of the bargains found can hold them at all. A
    /// pod that only fits machines that are no bargain is worth more for its size.
    fn with_groups(
        context: &Context<'_, '_>,
        left: &IdVec<LotId, u32>,
        groups: &[(GroupId, u16)],
        most: usize,
    ) -> Self {
        let coarse = Self::by(context, left, groups, Kinds::by_set(context, left));
        let sets = coarse.sets;
        let grades = (most / sets.max(1)).min(MAX_GRADES);
        if grades < 2 || !context.without.keeps(Part::Grades) {
            return coarse;
        }
        let fine = Kinds::by_grade(context, left, &coarse.bargains, grades);
        if fine.count == sets {
            return coarse;
        }
        Self::by(context, left, groups, fine)
    }

    fn by(
        context: &Context<'_, '_>,
        left: &IdVec<LotId, u32>,
        groups: &[(GroupId, u16)],
        kinds: Kinds,
    ) -> Self {
        let resources: Vec<usize> = (0..WIDTH)
            .filter(|index| {
                let asks = |lot: LotId| context.requests(lot).0[*index] > 0;
                left.ids().any(|lot| left[lot] > 0 && asks(lot))
            })
            .collect();
        let need = need(context, left, &kinds, &resources, groups);
        let columns = context.sets.union(context.compiled, &kinds.sets);
        let mut machines = Vec::with_capacity(columns.len());
        let mut all = Vec::with_capacity(columns.len());
        for index in &columns {
            let column = context.compiled.column(*index);
            let machine = PricedMachine {
                price: column.cost as f64,
                room: resources
                    .iter()
                    .map(|resource| column.room.0[*resource] as f64)
                    .chain(groups.iter().map(|(_, cap)| f64::from(*cap)))
                    .collect(),
                admits: kinds.admitted(context, *index),
            };
            if context.ledger.copies(&column.uses) >= SCARCE_COPIES {
                machines.push(machine.clone());
            }
            all.push(machine);
        }
        // Where everything is scarce, everything sets a price.
        let values = appraise(if machines.is_empty() { &all } else { &machines }, &need);
        let worth = worth(context, &kinds, &resources, groups, &values);
        let mut bargains: Vec<(f64, ColumnId)> = all
            .iter()
            .zip(&columns)
            .map(|(machine, column)| (values.potential(machine), *column))
            .collect();
        bargains.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        Appraisal {
            sets: kinds.count,
            kinds: kinds.of,
            resources,
            values,
            caps: groups.iter().map(|(_, cap)| *cap).collect(),
            worth,
            bargains,
        }
    }

    /// Whether groups that keep apart have values of their own.
    pub(crate) fn grouped(&self) -> bool {
        let of = self.values.of.first();
        of.is_some_and(|values| values.len() > self.resources.len())
    }

    /// The most that a vector of resources can be worth to any pods.
    pub(crate) fn most(&self, amounts: &Vector) -> f64 {
        let mut sum = 0.0;
        for (position, resource) in self.resources.iter().enumerate() {
            let mut top = 0.0;
            for values in &self.values.of {
                if values[position] > top {
                    top = values[position];
                }
            }
            let amount = amounts.0[*resource] as f64;
            if amount > 0.0 {
                sum += amount * top;
            }
        }
        sum
    }

    /// Value of a unit of a real resource to a lot.
    pub(crate) fn unit(&self, lot: LotId, position: usize) -> f64 {
        self.values.of[usize::from(self.kinds[lot])][position]
    }
}

struct Kinds {
    of: IdVec<LotId, u8>,
    /// The set of each kind, and of kinds that were merged.
    sets: Vec<SetId>,
    /// The smallest pods of each kind: what cannot hold any of these holds none of the kind.
    least: Vec<Vec<Vector>>,
    /// The kind that stands for all small ones, admitted everywhere.
    open: Option<usize>,
    count: usize,
}

impl Kinds {
    fn admitted(&self, context: &Context<'_, '_>, column: ColumnId) -> u32 {
        let mut admits = 0;
        let room = &context.compiled.column(column).room;
        for kind in 0..self.count {
            let may = self.open == Some(kind) || context.sets.contains(self.sets[kind], column);
            if may && self.least[kind].iter().any(|least| least.fits(room)) {
                admits |= 1 << kind;
            }
        }
        admits
    }

    /// Lots that may use the same columns are of one kind.
    fn by_set(context: &Context<'_, '_>, left: &IdVec<LotId, u32>) -> Self {
        let sets: Vec<(SetId, usize)> = context.lots.iter().map(|lot| (lot.set, 0)).collect();
        Self::by_key(context, left, &sets)
    }

    /// Lots that may use the same columns, and fit about as many of the best bargains, are of one kind.
    fn by_grade(
        context: &Context<'_, '_>,
        left: &IdVec<LotId, u32>,
        bargains: &[(f64, ColumnId)],
        grades: usize,
    ) -> Self {
        let mut best: FixedMap<SetId, Vec<ColumnId>> = FixedMap::default();
        let keys: Vec<(SetId, usize)> = context
            .lots
            .ids()
            .map(|lot| {
                let set = context.lot(lot).set;
                let best = best.entry(set).or_insert_with(|| {
                    let own = bargains.iter().map(|(_, column)| *column);
                    let own = own.filter(|column| context.sets.contains(set, *column));
                    own.take(GRADING).collect()
                });
                let requests = context.requests(lot);
                let fits =
                    |column: &&ColumnId| requests.fits(&context.compiled.column(**column).room);
                let held = best.iter().filter(fits).count();
                (set, held * (grades - 1) / best.len().max(1))
            })
            .collect();
        Self::by_key(context, left, &keys)
    }

    fn by_key(
        context: &Context<'_, '_>,
        left: &IdVec<LotId, u32>,
        keys: &[(SetId, usize)],
    ) -> Self {
        let mut sizes: FixedMap<(SetId, usize), u64> = FixedMap::default();
        for (key, left) in keys.iter().zip(left) {
            if *left > 0 {
                *sizes.entry(*key).or_insert(0) += u64::from(*left);
            }
        }
        let mut order: Vec<(SetId, usize)> = sizes.keys().copied().collect();
        order.sort_by_key(|key| (std::cmp::Reverse(sizes[key]), *key));
        let open = (order.len() > MAX_KINDS).then_some(MAX_KINDS - 1);
        let count = order.len().clamp(1, MAX_KINDS);
        let positions: FixedMap<(SetId, usize), usize> = order
            .iter()
            .enumerate()
            .map(|(position, key)| (*key, position.min(MAX_KINDS - 1)))
            .collect();
        let of: IdVec<LotId, u8> = keys
            .iter()
            // A lot of which nothing is left is of no kind, and asks for nothing.
            .map(|key| positions.get(key).copied().unwrap_or(0) as u8)
            .collect();
        let mut least: Vec<Vec<Vector>> = vec![Vec::new(); count];
        for (lot, kind) in of.pairs() {
            if left[lot] > 0 {
                keep_smallest(&mut least[usize::from(*kind)], context.requests(lot));
            }
        }
        Kinds {
            of,
            sets: order.into_iter().map(|(set, _)| set).collect(),
            least,
            open,
            count,
        }
    }
}

/// Adds a vector to a list of which none is below another. A list that gets long is replaced by what is below all.
fn keep_smallest(list: &mut Vec<Vector>, requests: &Vector) {
    if list.iter().any(|small| small.fits(requests)) {
        return;
    }
    list.retain(|large| !requests.fits(large));
    list.push(*requests);
    if list.len() > MAX_SMALLEST {
        let mut below = *requests;
        for other in list.iter() {
            for (low, amount) in below.0.iter_mut().zip(&other.0) {
                *low = (*low).min(*amount);
            }
        }
        *list = vec![below];
    }
}

/// Groups of pods that keep apart on hosts, largest first, with how many a host takes.
fn host_groups(context: &Context<'_, '_>, left: &IdVec<LotId, u32>) -> Vec<(GroupId, u16)> {
    let mut sizes: FixedMap<(GroupId, u16), u64> = FixedMap::default();
    if !context.without.keeps(Part::HostGroups) {
        return Vec::new();
    }
    for (lot, left) in left.pairs() {
        for cap in &context.level(lot).caps {
            if cap.matched && !cap.soft && cap.most != NO_CAP && cap.most > 0 {
                *sizes.entry((cap.group, cap.most)).or_insert(0) += u64::from(*left);
            }
        }
    }
    let mut groups: Vec<((GroupId, u16), u64)> = sizes.into_iter().collect();
    groups.sort_by_key(|((group, cap), size)| (std::cmp::Reverse(size / u64::from(*cap)), *group));
    groups.truncate(MAX_GROUPS);
    groups.into_iter().map(|(group, _)| group).collect()
}

fn in_group(context: &Context<'_, '_>, lot: LotId, (group, bound): (GroupId, u16)) -> bool {
    let caps = context.level(lot).caps.iter();
    let mut caps = caps.filter(|cap| cap.group == group && cap.most == bound);
    caps.any(|cap| cap.matched && !cap.soft)
}

fn need(
    context: &Context<'_, '_>,
    left: &IdVec<LotId, u32>,
    kinds: &Kinds,
    resources: &[usize],
    groups: &[(GroupId, u16)],
) -> Vec<Vec<f64>> {
    let mut need = vec![vec![0.0; resources.len() + groups.len()]; kinds.count];
    for (lot, count) in left.pairs() {
        if *count == 0 {
            continue;
        }
        let row = &mut need[usize::from(kinds.of[lot])];
        let requests = context.requests(lot);
        let count = f64::from(*count);
        for (slot, resource) in row.iter_mut().zip(resources) {
            *slot += requests.0[*resource] as f64 * count;
        }
        for (slot, group) in row[resources.len()..].iter_mut().zip(groups) {
            if in_group(context, lot, *group) {
                *slot += count;
            }
        }
    }
    need
}

fn worth(
    context: &Context<'_, '_>,
    kinds: &Kinds,
    resources: &[usize],
    groups: &[(GroupId, u16)],
    values: &ResourceValues,
) -> IdVec<LotId, f64> {
    context
        .lots
        .ids()
        .map(|lot| {
            let own = &values.of[usize::from(kinds.of[lot])];
            let requests = context.requests(lot);
            let mut sum = 0.0;
            for (resource, value) in resources.iter().zip(own) {
                sum += requests.0[*resource] as f64 * value;
            }
            for (group, value) in groups.iter().zip(&own[resources.len()..]) {
                if in_group(context, lot, *group) {
                    sum += value;
                }
            }
            sum
        })
        .collect()
}
