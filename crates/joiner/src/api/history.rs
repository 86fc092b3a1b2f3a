//! What was measured since this process began: cost with its bound, and prices. Bounded: when it is full, every other
//! measurement goes and they are made half as often.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use joiner_controllers::context::Context;
use joiner_core::name::Name;
use joiner_core::pack;
use joiner_core::problem::{CapacityType, Limits, Problem};

use super::fleet::Fleet;
use super::model::{PricePoint, Sample};

/// How many measurements are kept.
const SAMPLES: usize = 720;
/// Of how many offerings prices are kept, and how many changes of each.
const OFFERINGS: usize = 64;
const PRICES: usize = 120;

/// Catalogue, type, zone, how it is paid for.
pub(crate) type Offer = (Name, Name, Name, CapacityType);

/// What was measured. Cheap to clone; clones are the same history.
#[derive(Clone, Default)]
pub(crate) struct History(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    samples: Vec<Sample>,
    stride: u32,
    skipped: u32,
    highest: f64,
    bound: Option<f64>,
    prices: BTreeMap<Offer, Vec<PricePoint>>,
}

/// How often to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Every {
    /// What it costs.
    pub(crate) sample: Duration,
    /// The least that it could cost.
    pub(crate) bound: Duration,
}

impl History {
    /// All measurements, the oldest first.
    pub(crate) fn samples(&self) -> Vec<Sample> {
        self.lock().samples.clone()
    }

    /// The least that the cluster could cost, and what it had cost if nothing had ever been removed.
    pub(crate) fn bounds(&self, cost: f64) -> (Option<f64>, f64) {
        let inner = self.lock();
        (
            inner.bound.map(|bound| bound.min(cost)),
            inner.highest.max(cost),
        )
    }

    /// Prices of an offering so far.
    pub(crate) fn prices(&self, offer: &Offer) -> Vec<PricePoint> {
        self.lock().prices.get(offer).cloned().unwrap_or_default()
    }

    /// Takes a measurement.
    pub(crate) fn measure(&self, fleet: &Fleet, waiting: usize) {
        let cost = Fleet::cost(fleet.nodes.iter()).value;
        let mut inner = self.lock();
        inner.highest = inner.highest.max(cost);
        inner.note_prices(fleet);
        let sample = Sample {
            at: fleet.at,
            cost,
            bound: inner.bound.map(|bound| bound.min(cost)),
            kept: inner.highest,
            nodes: fleet.nodes.len(),
            pods: fleet.pods_bound,
            waiting,
        };
        inner.add(sample);
    }

    /// The least that the cluster could cost from now on.
    pub(crate) fn bound(&self, bound: f64) {
        self.lock().bound = Some(bound);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn add(&mut self, sample: Sample) {
        if self.skipped + 1 < self.stride {
            self.skipped += 1;
            return;
        }
        self.skipped = 0;
        self.samples.push(sample);
        if self.samples.len() >= SAMPLES {
            let mut odd = false;
            self.samples.retain(|_| {
                odd = !odd;
                odd
            });
            self.stride = self.stride.max(1) * 2;
        }
    }

    /// Prices of what we hold; those of other offerings once they are known.
    fn note_prices(&mut self, fleet: &Fleet) {
        let held: BTreeSet<(&str, &str, &str)> = fleet
            .nodes
            .iter()
            .filter(|node| node.machine.is_some())
            .map(|node| (&*node.instance_type, &*node.zone, &*node.capacity_type))
            .collect();
        for catalog in fleet.costs.terms.catalogs.values() {
            for kind in &catalog.types {
                for offering in &kind.offerings {
                    let way: &str = offering.capacity_type.into();
                    let offer = (
                        catalog.name.clone(),
                        kind.name.clone(),
                        offering.zone.clone(),
                        offering.capacity_type,
                    );
                    let known = self.prices.contains_key(&offer);
                    let wanted = held.contains(&(&*kind.name, &*offering.zone, way));
                    if !known && (!wanted || self.prices.len() >= OFFERINGS) {
                        continue;
                    }
                    let price = offering.price.dollars();
                    let points = self.prices.entry(offer).or_default();
                    #[expect(
                        clippy::float_cmp,
                        reason = "a price that has not changed is the same"
                    )]
                    let same = points.last().is_some_and(|last| last.price == price);
                    if !same {
                        points.push(PricePoint {
                            at: fleet.at,
                            price,
                        });
                        if points.len() > PRICES {
                            points.remove(0);
                        }
                    }
                }
            }
        }
    }
}

/// The least that the pods of this moment can cost an hour on fresh machines at the prices of this moment.
pub(crate) fn floor(mut problem: Problem) -> f64 {
    let nodes = std::mem::take(&mut problem.nodes);
    let (ours, others): (Vec<_>, Vec<_>) = nodes.into_iter().partition(|node| node.pool.is_some());
    problem.nodes = others;
    for node in ours {
        let work = node
            .pods
            .into_iter()
            .filter(|pod| !pod.daemon && !pod.stays_behind);
        problem.pods.extend(work);
    }
    // What is full or sold out now was bought before: a bound must not count on its price.
    for pool in &mut problem.pools {
        pool.limits = Limits::default();
        pool.closed = None;
    }
    for kind in problem.catalogs.iter_mut().flat_map(|one| &mut one.types) {
        for offering in &mut kind.offerings {
            offering.available = true;
            offering.left = None;
            offering.stock = None;
        }
    }
    let quick = pack::Options {
        steps: 0,
        ..pack::Options::default()
    };
    pack::solve(&problem, &quick).lower_bound.dollars()
}

/// Measures for ever.
pub(crate) async fn run(board: crate::board::Board, watched: super::Watched, every: Every) {
    let mut since_bound: Option<tokio::time::Instant> = None;
    loop {
        if let Some(context) = board.context()
            && context.view.synced()
        {
            let due = since_bound.is_none_or(|at| at.elapsed() >= every.bound);
            if due {
                since_bound = Some(tokio::time::Instant::now());
                bound(&context, watched.history()).await;
            }
            let fleet = watched.fleet(&context);
            let waiting = context
                .view
                .read()
                .pods
                .iter()
                .filter(|pod| pod.waits())
                .count();
            watched.history().measure(&fleet, waiting);
        }
        tokio::time::sleep(every.sample).await;
    }
}

async fn bound(context: &Arc<Context>, history: &History) {
    let problem = context.snapshot().problem;
    // In virtual time everything happens on one thread.
    let in_place = context.settings.solve_on == joiner_controllers::SolveOn::Caller;
    let found = if in_place {
        floor(problem)
    } else {
        match tokio::task::spawn_blocking(move || floor(problem)).await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(%error, "the least cost was not worked out");
                return;
            }
        }
    };
    history.bound(found);
}

/// A moment, as it is written.
pub(crate) fn clock(at: Timestamp) -> String {
    at.strftime("%H:%M:%S").to_string()
}

/// A moment as it is written now: with its day where it is another than today.
pub(crate) fn moment(at: Timestamp, now: Timestamp) -> String {
    let day = |at: Timestamp| at.strftime("%Y-%m-%d").to_string();
    if day(at) == day(now) {
        clock(at)
    } else {
        format!("{} {}", day(at), clock(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_other_days_are_written_with_their_day() {
        let [day, night] = ["2026-11-18T12:00:00Z", "2026-11-19T00:00:01Z"];
        let [day, night]: [Timestamp; 2] = [day, night].map(|at| at.parse().unwrap());
        assert_eq!(moment(night, night), "00:00:01");
        assert_eq!(moment(day, night), "2026-11-18 12:00:00");
    }

    #[test]
    fn a_history_that_is_full_keeps_its_beginning_in_less_detail() {
        let mut inner = Inner::default();
        for second in 0..5000 {
            inner.add(Sample {
                at: Timestamp::from_second(second).unwrap(),
                cost: 1.0,
                bound: None,
                kept: 1.0,
                nodes: 1,
                pods: 1,
                waiting: 0,
            });
        }
        assert!(inner.samples.len() < SAMPLES);
        assert!(inner.samples.len() > SAMPLES / 3);
        assert_eq!(inner.samples[0].at, Timestamp::UNIX_EPOCH);
        assert!(inner.samples.windows(2).all(|pair| pair[0].at < pair[1].at));
    }
}
