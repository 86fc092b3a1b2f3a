//! Machine by machine: each bargain is filled with the pods that suit the room it has left, and the one whose filling
//! is worth most for its price is bought; with it all its like, as long as there are pods for the same filling.

use super::appraisal::Appraisal;
use super::bins::{Context, Packing};
use super::caps::{self, HostCaps};
use super::intern::FixedMap;
use super::vector::{CPU, MEMORY, PODS, Vector, WIDTH};

/// How many machines are filled for comparison before the best is bought.
const COMPARED: usize = 24;

/// Lots of one kind and one shape, largest first.
struct Bucket {
    lots: Vec<u32>,
}

/// What goes into one machine.
#[derive(Clone, Debug, Default)]
struct Filling {
    picks: Vec<(u32, u32)>,
    worth: f64,
}

/// Lots in buckets, and scratch space for fillings.
struct Stock {
    buckets: Vec<Bucket>,
    used: Vec<u32>,
    starts: Vec<usize>,
}

/// Packs what has no machine yet; returns how many fillings were tried.
pub(crate) fn pack(context: &mut Context<'_, '_>, packing: &mut Packing) -> u64 {
    let mut tried = 0;
    let mut total: u64 = packing.unpacked();
    let mut appraisal = Appraisal::new(context, &packing.left);
    let mut stock = Stock::new(context, &appraisal, packing);
    loop {
        let unpacked = packing.unpacked();
        if unpacked == 0 {
            break;
        }
        // What is left differs more and more from what was appraised.
        if unpacked * 2 < total && unpacked > 50 {
            total = unpacked;
            appraisal = Appraisal::new(context, &packing.left);
            stock = Stock::new(context, &appraisal, packing);
        }
        let Some((column, filling)) = best(context, packing, &appraisal, &mut stock, &mut tried)
        else {
            break;
        };
        buy(context, packing, column, &filling);
        stock.sweep(packing);
    }
    context.downsize(packing);
    tried
}

/// The filling that is worth most for its price.
fn best(
    context: &mut Context<'_, '_>,
    packing: &Packing,
    appraisal: &Appraisal,
    stock: &mut Stock,
    tried: &mut u64,
) -> Option<(u32, Filling)> {
    let mut best: Option<(f64, u32, Filling)> = None;
    let mut compared = 0;
    for (potential, column) in &appraisal.bargains {
        let bought = &context.compiled.columns[*column as usize];
        if best.as_ref().is_some_and(|(ratio, ..)| ratio >= potential) {
            break;
        }
        if compared >= COMPARED && best.is_some() {
            break;
        }
        if !packing.ledger.can(&bought.uses) {
            continue;
        }
        let filling = stock.fill(context, packing, appraisal, *column);
        *tried += 1;
        if filling.picks.is_empty() {
            continue;
        }
        compared += 1;
        let ratio = if bought.cost > 0 {
            filling.worth / bought.cost as f64
        } else {
            f64::INFINITY
        };
        if best.as_ref().is_none_or(|(most, ..)| ratio > *most) {
            best = Some((ratio, *column, filling));
        }
    }
    best.map(|(_, column, filling)| (column, filling))
}

/// Buys a machine with its filling, as many times as there are pods for it.
fn buy(context: &mut Context<'_, '_>, packing: &mut Packing, column: u32, filling: &Filling) {
    let copies = filling
        .picks
        .iter()
        .map(|(lot, count)| packing.left[*lot as usize] / count)
        .min()
        .unwrap_or(0);
    for _ in 0..copies {
        let (first, _) = filling.picks[0];
        let set = context.lots[first as usize].set;
        let Some(bin) = context.open(packing, column, set) else {
            break;
        };
        for (lot, count) in &filling.picks {
            context.put(packing, bin, *lot, *count);
        }
    }
}

impl Stock {
    fn new(context: &Context<'_, '_>, appraisal: &Appraisal, packing: &Packing) -> Self {
        let mut index: FixedMap<(u8, u32, [i64; WIDTH]), usize> = FixedMap::default();
        let mut buckets: Vec<Bucket> = Vec::new();
        let mut lots: Vec<u32> = (0..context.lots.len() as u32)
            .filter(|lot| packing.left[*lot as usize] > 0 && !context.is_near(*lot))
            .collect();
        lots.sort_by_key(|lot| {
            let requests = context.requests(*lot);
            (
                std::cmp::Reverse((requests.0[CPU], requests.0[MEMORY])),
                *lot,
            )
        });
        for lot in lots {
            let requests = context.requests(lot);
            let mut devices = requests.0;
            (devices[CPU], devices[MEMORY], devices[PODS]) = (0, 0, 0);
            let kind = appraisal.kinds[lot as usize];
            let key = (kind, slope(requests), devices);
            let at = *index.entry(key).or_insert_with(|| {
                buckets.push(Bucket { lots: Vec::new() });
                buckets.len() - 1
            });
            buckets[at].lots.push(lot);
        }
        Stock {
            starts: vec![0; buckets.len()],
            buckets,
            used: vec![0; context.lots.len()],
        }
    }

    /// Forgets lots that are used up, now and then.
    fn sweep(&mut self, packing: &Packing) {
        for bucket in &mut self.buckets {
            let dead = bucket
                .lots
                .iter()
                .take_while(|lot| packing.left[**lot as usize] == 0)
                .count();
            if dead > 16 || dead == bucket.lots.len() {
                bucket.lots.retain(|lot| packing.left[*lot as usize] > 0);
            }
        }
    }

    /// Fills a machine: of the largest fitting pod of each shape, the one that makes best use of the room left.
    fn fill(
        &mut self,
        context: &Context<'_, '_>,
        packing: &Packing,
        appraisal: &Appraisal,
        column: u32,
    ) -> Filling {
        let room = context.compiled.columns[column as usize].room;
        let mut left = room;
        let mut held = HostCaps::new();
        let mut filling = Filling::default();
        let admits: Vec<usize> = (0..self.buckets.len())
            .filter(|index| {
                let bucket = &self.buckets[*index];
                bucket
                    .lots
                    .first()
                    .is_some_and(|lot| context.may_use(*lot, column))
            })
            .collect();
        for index in &admits {
            let lots = &self.buckets[*index].lots;
            self.starts[*index] =
                lots.partition_point(|lot| context.requests(*lot).0[CPU] > left.0[CPU]);
        }
        loop {
            let mut best: Option<(f64, u32)> = None;
            let shares = shares(appraisal, &left, &room);
            for index in &admits {
                let Some(lot) = self.first_fit(context, packing, *index, &left, &held) else {
                    continue;
                };
                let score = score(context, appraisal, &shares, lot);
                if best.is_none_or(|(most, _)| score > most) {
                    best = Some((score, lot));
                }
            }
            let Some((_, lot)) = best else { break };
            left.subtract(context.requests(lot));
            for cap in &context.level(lot).caps {
                caps::hold(&mut held, *cap, 1);
            }
            self.used[lot as usize] += 1;
            filling.worth += appraisal.worth[lot as usize];
            match filling.picks.last_mut() {
                Some((last, count)) if *last == lot => *count += 1,
                _ => filling.picks.push((lot, 1)),
            }
        }
        for (lot, _) in &filling.picks {
            self.used[*lot as usize] = 0;
        }
        merge(&mut filling.picks);
        filling
    }

    /// The largest pod of a bucket that fits; what does not fit now will not fit later either.
    fn first_fit(
        &mut self,
        context: &Context<'_, '_>,
        packing: &Packing,
        bucket: usize,
        left: &Vector,
        held: &HostCaps,
    ) -> Option<u32> {
        let lots = &self.buckets[bucket].lots;
        let start = &mut self.starts[bucket];
        while let Some(lot) = lots.get(*start) {
            let available = packing.left[*lot as usize] > self.used[*lot as usize];
            if available && context.requests(*lot).fits(left) {
                let wanted = &context.level(*lot).caps;
                if wanted.is_empty() || caps::room(held, wanted) > 0 {
                    return Some(*lot);
                }
            }
            *start += 1;
        }
        None
    }
}

/// How much of each resource is left: what is nearly used up counts little, so that shapes are chosen that leave the
/// rest usable.
fn shares(appraisal: &Appraisal, left: &Vector, room: &Vector) -> Vec<f64> {
    appraisal
        .resources
        .iter()
        .map(|resource| {
            let room = room.0[*resource] as f64;
            if room > 0.0 {
                left.0[*resource] as f64 / room
            } else {
                0.0
            }
        })
        .collect()
}

fn score(context: &Context<'_, '_>, appraisal: &Appraisal, shares: &[f64], lot: u32) -> f64 {
    let requests = context.requests(lot);
    let mut sum = 0.0;
    for (position, resource) in appraisal.resources.iter().enumerate() {
        let amount = requests.0[*resource] as f64;
        sum += amount * appraisal.unit(lot, position) * shares[position];
    }
    sum
}

fn merge(picks: &mut Vec<(u32, u32)>) {
    picks.sort_unstable();
    picks.dedup_by(|later, earlier| {
        let same = later.0 == earlier.0;
        if same {
            earlier.1 += later.1;
        }
        same
    });
}

/// Memory per processor in steps of a half octave.
fn slope(requests: &Vector) -> u32 {
    let cpu = requests.0[CPU].max(1);
    let memory = requests.0[MEMORY].max(1);
    // Steps of sqrt(2) by comparing squares, so that no logarithm is needed.
    let ratio =
        i128::from(memory) * i128::from(memory) / (i128::from(cpu) * i128::from(cpu)).max(1);
    128 - ratio.max(1).leading_zeros()
}
