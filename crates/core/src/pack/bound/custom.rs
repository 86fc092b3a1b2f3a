//! The bound where machines are of custom size: values were found with some of their sizes, and must hold for all.
//!
//! A machine's price and what its room is worth both grow evenly with its size, as long as the same pods fit. So sizes
//! are parted into cells; values that hold at the corners of a cell, for all pods that fit its largest size, hold for
//! every size in it.

use std::collections::BTreeMap;

use crate::name::Name;
use crate::pack::compile::custom::CustomType;
use crate::pack::compile::ids::ColumnId;
use crate::pack::compile::sizing::{self, SizeSteps};
use crate::pack::dense::vector::Vector;
use crate::pack::packing::Context;
use crate::pack::value::appraisal::Appraisal;
use crate::problem::{Host, Range};
use crate::resources::{CPU, MEMORY, Resources};

/// Into how many parts sizes of processors and memory are parted, and those of other resources.
const PARTS: (i64, i64) = (16, 4);
/// How many ways to lower values are compared.
const MAX_SCALES: usize = 24;
/// More machines than this on one host are not reckoned with.
const MOST_MACHINES: i64 = 4096;
/// Prices are rounded down part by part: billionths that a machine may cost less than in proportion.
const ROUNDING: f64 = 2.0;

/// What is left of a bound, given what pods are worth together by an appraisal.
pub(super) fn hold(context: &Context<'_, '_>, appraisal: &Appraisal, total: f64) -> f64 {
    let compiled = context.compiled;
    let custom_types = &compiled.custom_types.all;
    let kind_needs = KindNeeds::of(context, appraisal);
    let known: Vec<Judged<'_>> = custom_types
        .iter()
        .enumerate()
        .filter_map(|(index, custom_type)| {
            Judged::new(context, appraisal, &kind_needs, index, custom_type)
        })
        .collect();
    // Values may be lowered until no machine of custom size is worth more than its price, or be left as they are, with
    // what hosts can give beyond their price taken off.
    let mut scales: Vec<f64> = known.iter().map(|one| one.ratio).collect();
    scales.retain(|ratio| *ratio > 1.0 && ratio.is_finite());
    scales.sort_by(f64::total_cmp);
    scales.dedup();
    let apart = scales.len().div_ceil(MAX_SCALES).max(1);
    let last = scales.last().copied();
    let scales = scales.into_iter().step_by(apart).chain(last).chain([1.0]);
    let mut best = 0.0;
    for scale in scales {
        let mut by_host: BTreeMap<(u32, &Name), Vec<&Judged<'_>>> = BTreeMap::new();
        for one in known.iter().filter(|one| one.ratio > scale) {
            let hosts = by_host.entry((one.catalog, &one.host.name));
            hosts.or_default().push(one);
        }
        let gifts: f64 = by_host
            .values()
            .map(|custom_types| gift(custom_types, scale))
            .sum();
        let bound = total / scale - gifts;
        if bound > best {
            best = bound;
        }
    }
    best
}

/// For every kind of pods: what each asks for at least, and where it may go.
struct KindNeeds {
    least: Vec<Option<Vector>>,
    /// By make and kind.
    admitted: Vec<Vec<bool>>,
}

impl KindNeeds {
    fn of(context: &Context<'_, '_>, appraisal: &Appraisal) -> Self {
        let kinds = appraisal.values.of.len();
        let custom_types = &context.compiled.custom_types.all;
        let mut least: Vec<Option<Vector>> = vec![None; kinds];
        let mut admitted = vec![vec![false; kinds]; custom_types.len()];
        for (lot, kind) in appraisal.kinds.pairs() {
            let kind = usize::from(*kind);
            let requests = context.requests(lot);
            match &mut least[kind] {
                Some(least) => {
                    for (low, amount) in least.0.iter_mut().zip(&requests.0) {
                        *low = (*low).min(*amount);
                    }
                }
                none => *none = Some(*requests),
            }
            for (custom_type, admitted) in custom_types.iter().zip(&mut admitted) {
                let may = |column: &ColumnId| context.may_use(lot, *column);
                admitted[kind] = admitted[kind] || custom_type.columns.iter().any(may);
            }
        }
        KindNeeds { least, admitted }
    }
}

/// A make, and how far values exceed prices there.
struct Judged<'a> {
    catalog: u32,
    range: &'a Range,
    host: &'a Host,
    daemons: &'a Resources,
    extra: f64,
    /// What a unit of each resource is worth to the pods that value it most.
    tops: Vec<(Name, f64)>,
    /// What pods that keep apart are worth beside their size.
    apart: f64,
    /// The most that a machine's room is worth, as a share of its price.
    ratio: f64,
}

impl<'a> Judged<'a> {
    fn new(
        context: &Context<'a, '_>,
        appraisal: &Appraisal,
        kind_needs: &KindNeeds,
        index: usize,
        custom_type: &'a CustomType,
    ) -> Option<Self> {
        let compiled = context.compiled;
        let (range, host) = compiled.source(custom_type)?;
        let admitted = &kind_needs.admitted[index];
        if !admitted.contains(&true) {
            return None;
        }
        let names = appraisal.resources.iter();
        let names = names.map(|resource| Name::from(compiled.table.name(*resource)));
        let (values, apart) = tops(appraisal, admitted);
        let mut judged = Judged {
            catalog: compiled.offers[custom_type.offer].catalog,
            range,
            host,
            daemons: &custom_type.daemons,
            extra: custom_type.extra as f64 - ROUNDING,
            tops: names.zip(values).collect(),
            apart,
            ratio: 0.0,
        };
        for (low, high) in judged.cells()? {
            let room = compiled.table.vector(&judged.room(&high));
            let fits = |kind: usize| kind_needs.least[kind].is_some_and(|least| least.fits(&room));
            let here: Vec<bool> = admitted
                .iter()
                .enumerate()
                .map(|(kind, may)| *may && fits(kind))
                .collect();
            let (values, apart) = tops(appraisal, &here);
            for corner in corners(&low, &high) {
                let room = compiled.table.vector(&judged.room(&corner));
                let mut worth = apart;
                for (resource, value) in appraisal.resources.iter().zip(&values) {
                    worth += room.0[*resource].max(0) as f64 * value;
                }
                let ratio = judged.share(worth, &corner);
                if ratio > judged.ratio {
                    judged.ratio = ratio;
                }
            }
        }
        Some(judged)
    }

    /// What pods may use of a machine.
    fn room(&self, size: &Resources) -> Resources {
        let mut room = sizing::allocatable(self.range, size);
        room.subtract(self.daemons);
        room
    }

    /// Worth as a share of what a machine costs.
    fn share(&self, worth: f64, size: &Resources) -> f64 {
        let price = |name: &str| self.unit_price(name) * size.get(name) as f64;
        let machine = self.range.prices.machine.nanos() as f64;
        let cost = machine + price(CPU) + price(MEMORY) + self.extra;
        if worth <= 0.0 {
            0.0
        } else if cost <= 0.0 {
            f64::INFINITY
        } else {
            worth / cost
        }
    }

    fn unit_price(&self, name: &str) -> f64 {
        match name {
            CPU => self.range.prices.core.nanos() as f64 / 1000.0,
            MEMORY => self.range.prices.memory_gib.nanos() as f64 / (1_i64 << 30) as f64,
            _ => 0.0,
        }
    }

    /// Cells of sizes, each as its smallest and its largest one.
    fn cells(&self) -> Option<Vec<(Resources, Resources)>> {
        let mut cells = vec![(self.range.max.clone(), self.range.max.clone())];
        for resource in sizing::sized(self.range) {
            let steps = SizeSteps::of(self.range, self.host, resource)?;
            let asked = self.tops.iter().any(|(name, _)| &**name == resource);
            let parts = match resource {
                CPU | MEMORY => PARTS.0,
                _ if asked => PARTS.1,
                _ => 1,
            };
            let taken = self.range.overhead.get(resource) + self.daemons.get(resource);
            let first = steps.holding(taken).unwrap_or(0);
            let spans = spans(first, steps.count, parts);
            let finer = cells.iter().flat_map(|(low, high)| {
                let spans = spans.iter();
                spans.map(|(from, to)| {
                    let low = low.clone().with(resource, steps.at(*from));
                    (low, high.clone().with(resource, steps.at(*to)))
                })
            });
            cells = finer.collect();
        }
        Some(cells)
    }
}

/// Steps from the first to the last, in so many spans.
fn spans(first: i64, last: i64, parts: i64) -> Vec<(i64, i64)> {
    let count = (last - first).max(0) + 1;
    let edge = |part: i64| first + count * part / parts;
    (0..parts)
        .map(|part| (edge(part), edge(part + 1) - 1))
        .filter(|(from, to)| from <= to)
        .collect()
}

/// Sizes that have the smallest or the largest amount of each resource.
fn corners(low: &Resources, high: &Resources) -> Vec<Resources> {
    let mut all = vec![low.clone()];
    for (name, amount) in high
        .iter()
        .filter(|(name, amount)| low.get(name) != *amount)
    {
        let more: Vec<Resources> = all
            .iter()
            .map(|one| one.clone().with(name, amount))
            .collect();
        all.extend(more);
    }
    all
}

/// The highest values that any of these kinds gives to resources, and all groups of pods that keep apart together.
fn tops(appraisal: &Appraisal, kinds: &[bool]) -> (Vec<f64>, f64) {
    let width = appraisal.resources.len() + appraisal.caps.len();
    let mut tops = vec![0.0; width];
    for (values, _) in appraisal
        .values
        .of
        .iter()
        .zip(kinds)
        .filter(|(_, may)| **may)
    {
        for (top, value) in tops.iter_mut().zip(values) {
            if *value > *top {
                *top = *value;
            }
        }
    }
    let groups = tops.split_off(appraisal.resources.len());
    let groups = groups.iter().zip(&appraisal.caps);
    (
        tops,
        groups.map(|(value, cap)| value * f64::from(*cap)).sum(),
    )
}

/// The most that machines on a host can be worth beyond their price, whatever sizes they have.
fn gift(custom_types: &[&Judged<'_>], scale: f64) -> f64 {
    // By resource: what a unit is worth beyond its price, and how much of it there is, on one machine and on the host.
    let mut gains: BTreeMap<&str, (f64, i64, Option<i64>)> = BTreeMap::new();
    let mut each = f64::NEG_INFINITY;
    let mut most: i64 = 0;
    for one in custom_types {
        let mut own = one.apart / scale - one.extra - one.range.prices.machine.nanos() as f64;
        let mut machines = one.range.left.map_or(i64::MAX, i64::from);
        for name in sizing::sized(one.range) {
            let worth = one.tops.iter().find(|(known, _)| &**known == name);
            let worth = worth.map_or(0.0, |(_, value)| value / scale);
            let taken = one.range.overhead.get(name) + one.daemons.get(name);
            let free = one
                .host
                .free
                .contains(name)
                .then(|| one.host.free.get(name));
            let (least, largest) = (one.range.min.get(name), one.range.max.get(name));
            own -= worth * taken as f64;
            let gain = worth - one.unit_price(name);
            if gain < 0.0 {
                own += gain * least.max(taken) as f64;
            } else {
                let known = gains.entry(name).or_insert((gain, largest, free));
                known.0 = known.0.max(gain);
                known.1 = known.1.max(largest);
                known.2 = known.2.zip(free).map(|(one, other)| one.max(other));
            }
            if let Some(free) = free.filter(|_| least > 0 && one.range.step.get(name) > 0) {
                machines = machines.min(free / least);
            }
        }
        each = each.max(own);
        most = most.saturating_add(machines);
    }
    let total = |machines: i64| {
        let mut sum = each * machines as f64;
        for (gain, largest, free) in gains.values() {
            let amount = largest.saturating_mul(machines);
            sum += gain * free.map_or(amount, |free| amount.min(free)) as f64;
        }
        sum
    };
    let mut best = 0.0;
    for machines in 1..=MOST_MACHINES.min(most) {
        let sum = total(machines);
        if sum <= best {
            return best;
        }
        best = sum;
    }
    if most > MOST_MACHINES {
        f64::INFINITY
    } else {
        best
    }
}
