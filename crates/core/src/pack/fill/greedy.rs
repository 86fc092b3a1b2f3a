//! Greedy fill: the candidates for the machine being filled, sorted so that the next pod is found by looking at few.

use crate::pack::assign::LotId;
use crate::pack::compile::caps::{self, HeldCaps};
use crate::pack::compile::column_sets::SetId;
use crate::pack::compile::ids::ColumnId;
use crate::pack::dense::intern::FixedMap;
use crate::pack::dense::typed::IdVec;
use crate::pack::dense::vector::{CPU, LEAD, Lead, MEMORY, PODS, Vector, WIDTH, lead_fits};
use crate::pack::packing::Context;
use crate::pack::value::appraisal::Appraisal;

/// Which pods are put into a machine first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PodOrder {
    /// The most valuable ones.
    Large,
    /// Those that take most of what is least used so far, large ones a little preferred: where machines run out of
    /// slots before they run out of processors, this mixes large pods with small ones.
    Mixed,
    /// The same, large ones not preferred, but small ones left for the end: they fill other machines better.
    Even,
}

// What half and twice of these is worth: docs/benchmarks.md, "Tuning constants".

/// Exchanges of single pods in one filling. With half, web costs 0.15% more and plain 0.08%; twice is worth nothing.
const EXCHANGES: usize = 4;
/// Pods looked at in the place of one. With half, plain costs 0.07% more; with twice, plain costs 0.06% more and web 0.25% less.
const LOOKED_AT: usize = 16;

/// Pods worth less than this share of what a slot of the machine costs are left for the end. With 0.2, web costs 0.4% more and
/// plain 0.2%; with 0.8, web costs 0.3% more.
const SMALL: f64 = 0.4;

impl PodOrder {
    /// By what a pod's worth is divided to make its score.
    fn divisor(self, worth: f64) -> f64 {
        match self {
            PodOrder::Large => 1.0,
            PodOrder::Mixed => {
                let root = worth.sqrt();
                root * root.sqrt() * root.sqrt().sqrt()
            }
            PodOrder::Even => worth,
        }
    }
}

/// A lot with what is looked at most, so that looking at many touches little memory.
#[derive(Clone, Copy, Debug)]
struct Entry {
    lot: LotId,
    /// Its pods keep apart from others on hosts.
    capped: bool,
    requests: Lead,
    worth: f64,
    /// How much the requests weigh in the choice, by position among the resources that matter.
    weights: [f64; LEAD],
}

/// Lots that may use the same columns, of one kind, shape and perhaps size, largest first.
#[derive(Clone, Debug, Default)]
struct Bucket {
    lots: Vec<Entry>,
    /// Lots in the list that are used up.
    dead: usize,
}

/// The largest lot of a bucket that fits into the machine at hand. Side by side with those of other buckets, so that
/// the next pod is chosen without a look into any bucket.
#[derive(Clone, Copy, Debug)]
struct Front {
    entry: Entry,
    bucket: usize,
    /// Its place in the bucket.
    at: usize,
}

/// What goes into one machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filling {
    /// Lots and how many pods of each.
    pub(crate) picks: Vec<(LotId, u32)>,
    pub(crate) worth: f64,
    pub(crate) load: Vector,
}

impl Filling {
    /// One more pod of a lot.
    pub(crate) fn pick(&mut self, lot: LotId) {
        match self.picks.last_mut() {
            Some((last, count)) if *last == lot => *count += 1,
            _ => self.picks.push((lot, 1)),
        }
    }
}

/// Lots in buckets, and scratch space for fillings.
#[derive(Clone, Debug)]
pub(crate) struct GreedyFill {
    buckets: Vec<Bucket>,
    /// By lot: the bucket it is in.
    bucket_of: IdVec<LotId, usize>,
    /// Of the buckets that have anything for the machine at hand.
    fronts: Vec<Front>,
    /// All of them, most valuable first.
    ranked: Vec<Entry>,
    /// Lots in the ranking that are used up.
    dead: usize,
    /// By lot: pods in the filling at hand, while single ones are exchanged.
    used: IdVec<LotId, u32>,
    /// Whether more resources are counted than an entry carries.
    wide: bool,
    pod_order: PodOrder,
}

impl GreedyFill {
    /// No candidates yet; `lots` is how many lots there are.
    pub(crate) fn new(lots: usize) -> Self {
        GreedyFill {
            buckets: Vec::new(),
            bucket_of: IdVec::filled(0, lots),
            fronts: Vec::new(),
            ranked: Vec::new(),
            dead: 0,
            used: IdVec::filled(0, lots),
            wide: false,
            pod_order: PodOrder::Large,
        }
    }

    /// Makes these lots the candidates.
    pub(crate) fn take_in(
        &mut self,
        context: &Context<'_, '_>,
        appraisal: &Appraisal,
        pod_order: PodOrder,
        mut lots: Vec<LotId>,
    ) {
        let mut index: FixedMap<(SetId, u8, u32, u32, [i64; WIDTH]), usize> = FixedMap::default();
        self.buckets.clear();
        self.ranked.clear();
        self.dead = 0;
        self.wide = context.compiled.table.width() > LEAD;
        self.pod_order = pod_order;
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
            let kind = appraisal.kinds[lot];
            let set = context.lot(lot).set;
            let next = self.buckets.len();
            // Only the first of a bucket that fits is looked at: for mixtures there is one for each size.
            let size = match pod_order {
                PodOrder::Large => 0,
                PodOrder::Mixed | PodOrder::Even => i64::BITS - requests.0[CPU].leading_zeros(),
            };
            let key = (set, kind, slope(requests), size, devices);
            let at = *index.entry(key).or_insert(next);
            if at == next {
                self.buckets.push(Bucket::default());
            }
            let mut entry = Entry {
                lot,
                capped: !context.level(lot).caps.is_empty(),
                requests: requests.lead(),
                worth: appraisal.worth[lot],
                weights: [0.0; LEAD],
            };
            let divisor = pod_order.divisor(appraisal.worth[lot]);
            for (position, resource) in appraisal.resources.iter().enumerate().take(LEAD) {
                let amount = requests.0[*resource] as f64;
                let worth = amount * appraisal.unit(lot, position);
                entry.weights[position] = if divisor > 0.0 { worth / divisor } else { 0.0 };
            }
            self.ranked.push(entry);
            self.buckets[at].lots.push(entry);
            self.bucket_of[lot] = at;
        }
        self.ranked
            .sort_by(|a, b| b.worth.total_cmp(&a.worth).then(a.lot.cmp(&b.lot)));
    }

    /// Forgets lots that a filling used up. Lists are gone through only when half of them is dead, so that forgetting
    /// costs no more than filling.
    pub(crate) fn sweep(&mut self, filling: &Filling, left: &IdVec<LotId, u32>) {
        for (lot, _) in &filling.picks {
            if left[*lot] > 0 {
                continue;
            }
            self.dead += 1;
            let bucket = &mut self.buckets[self.bucket_of[*lot]];
            bucket.dead += 1;
            if bucket.dead * 2 > bucket.lots.len() {
                bucket.lots.retain(|entry| left[entry.lot] > 0);
                bucket.dead = 0;
            }
        }
        if self.dead * 8 > self.ranked.len() {
            self.ranked.retain(|entry| left[entry.lot] > 0);
            self.dead = 0;
        }
    }

    /// Fills a machine: of the largest fitting pod of each shape, the one that makes best use of the room left.
    /// `perturb` may change a score, to look for other fillings. What is `available` is the same afterwards as before.
    pub(crate) fn fill(
        &mut self,
        context: &Context<'_, '_>,
        appraisal: &Appraisal,
        available: &mut IdVec<LotId, u32>,
        column: ColumnId,
        mut perturb: impl FnMut(f64) -> f64,
    ) -> Filling {
        let bought = context.compiled.column(column);
        let room = bought.room;
        let mut floor = match self.pod_order {
            PodOrder::Large | PodOrder::Mixed => 0.0,
            PodOrder::Even => SMALL * bought.cost as f64 / room.0[PODS].max(1) as f64,
        };
        let mut left = room;
        let mut held = HeldCaps::new();
        let mut filling = Filling::default();
        self.open(context, column);
        loop {
            self.advance(context, available, &left, &held);
            let mut best: Option<(f64, LotId)> = None;
            let shares = shares(appraisal, &left, &room);
            let worthy = self.fronts.iter().map(|front| &front.entry);
            for entry in worthy.filter(|entry| entry.worth >= floor) {
                let mut score = 0.0;
                for (weight, share) in entry.weights.iter().zip(&shares) {
                    score += weight * share;
                }
                let score = perturb(score);
                if best.is_none_or(|(most, _)| score > most) {
                    best = Some((score, entry.lot));
                }
            }
            let Some((_, lot)) = best else {
                if floor > 0.0 {
                    floor = 0.0;
                    continue;
                }
                break;
            };
            left.subtract(context.requests(lot));
            for cap in &context.level(lot).caps {
                caps::hold(&mut held, *cap, 1);
            }
            available[lot] -= 1;
            filling.worth += appraisal.worth[lot];
            filling.pick(lot);
        }
        for (lot, count) in &filling.picks {
            available[*lot] += count;
        }
        merge(&mut filling.picks);
        filling.load = room.minus(&left);
        filling
    }

    /// Exchanges single pods of a filling for more valuable ones that fit in their place.
    pub(crate) fn polish(
        &mut self,
        context: &Context<'_, '_>,
        appraisal: &Appraisal,
        available: &IdVec<LotId, u32>,
        column: ColumnId,
        filling: &mut Filling,
    ) {
        let room = &context.compiled.column(column).room;
        let mut touched: Vec<LotId> = Vec::with_capacity(filling.picks.len() + EXCHANGES);
        for (lot, count) in &filling.picks {
            self.used[*lot] = *count;
            touched.push(*lot);
        }
        for _ in 0..EXCHANGES {
            let free = room.minus(&filling.load);
            let found = self.exchange(context, appraisal, available, column, &touched, &free);
            let Some((gain, out, into)) = found else {
                break;
            };
            filling.worth += gain;
            filling.load.subtract(context.requests(out));
            filling.load.add(context.requests(into));
            self.used[out] -= 1;
            self.used[into] += 1;
            touched.push(into);
        }
        touched.sort_unstable();
        touched.dedup();
        filling.picks.clear();
        for lot in touched {
            let count = std::mem::take(&mut self.used[lot]);
            if count > 0 {
                filling.picks.push((lot, count));
            }
        }
    }

    /// The exchange of one pod for another that gains most: what it gains, the lot that leaves and the lot that comes.
    fn exchange(
        &self,
        context: &Context<'_, '_>,
        appraisal: &Appraisal,
        available: &IdVec<LotId, u32>,
        column: ColumnId,
        touched: &[LotId],
        free: &Vector,
    ) -> Option<(f64, LotId, LotId)> {
        let slack = appraisal.most(free);
        let mut best: Option<(f64, LotId, LotId)> = None;
        for out in touched {
            // Pods that keep apart from others stay where they are.
            if self.used[*out] == 0 || !context.level(*out).caps.is_empty() {
                continue;
            }
            let worth = appraisal.worth[*out];
            let space = free.plus(context.requests(*out));
            let start = self
                .ranked
                .partition_point(|entry| entry.worth > worth + slack);
            for entry in self.ranked[start..].iter().take(LOOKED_AT) {
                let gain = entry.worth - worth;
                let least = best.map_or(worth * 1e-6, |(most, ..)| most);
                if gain <= least {
                    break;
                }
                let lot = entry.lot;
                let fits = lead_fits(&entry.requests, &space.lead())
                    && !entry.capped
                    && self.used[lot] < available[lot]
                    && (!self.wide || context.requests(lot).fits(&space))
                    && context.may_use(lot, column);
                if fits {
                    best = Some((gain, *out, lot));
                    break;
                }
            }
        }
        best
    }

    /// Begins a machine: every bucket that may use it has its largest lot in front.
    fn open(&mut self, context: &Context<'_, '_>, column: ColumnId) {
        let most = context.compiled.column(column).room.0[CPU];
        self.fronts.clear();
        for (index, bucket) in self.buckets.iter().enumerate() {
            let may_use = |entry: &Entry| context.may_use(entry.lot, column);
            if !bucket.lots.first().is_some_and(may_use) {
                continue;
            }
            let at = bucket
                .lots
                .partition_point(|entry| entry.requests[CPU] > most);
            if let Some(entry) = bucket.lots.get(at) {
                self.fronts.push(Front {
                    entry: *entry,
                    bucket: index,
                    at,
                });
            }
        }
    }

    /// Brings the next lot to the front wherever one does not fit any more: it will not fit later either.
    fn advance(
        &mut self,
        context: &Context<'_, '_>,
        available: &IdVec<LotId, u32>,
        left: &Vector,
        held: &HeldCaps,
    ) {
        let room = left.lead();
        let fits = |entry: &Entry| {
            lead_fits(&entry.requests, &room)
                && available[entry.lot] > 0
                && (!self.wide || context.requests(entry.lot).fits(left))
                && (!entry.capped || caps::room(held, &context.level(entry.lot).caps) > 0)
        };
        let buckets = &self.buckets;
        self.fronts.retain_mut(|front| {
            if fits(&front.entry) {
                return true;
            }
            let bucket = &buckets[front.bucket].lots;
            let behind = &bucket[front.at + 1..];
            let Some(further) = behind.iter().position(fits) else {
                return false;
            };
            front.entry = behind[further];
            front.at += 1 + further;
            true
        });
    }
}

/// How much of each resource is left: what is nearly used up counts little, so that shapes are chosen that leave the
/// rest usable.
fn shares(appraisal: &Appraisal, left: &Vector, room: &Vector) -> [f64; LEAD] {
    let mut shares = [0.0; LEAD];
    for (share, resource) in shares.iter_mut().zip(&appraisal.resources) {
        let room = room.0[*resource] as f64;
        if room > 0.0 {
            *share = left.0[*resource] as f64 / room;
        }
    }
    shares
}

fn merge(picks: &mut Vec<(LotId, u32)>) {
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
