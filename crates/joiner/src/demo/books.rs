//! What is spent, and what would have been: kept event by event.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use joiner_core::money::Money;
use joiner_embedded::clock::Clock;
use joiner_providers::MachineId;
use joiner_sim::clouds::watched::CloudEvent;
use serde::Serialize;

/// Billionths of a dollar, times seconds: exact however long it goes on.
type NanoSeconds = i128;

#[derive(Debug, Default)]
struct Inner {
    since: Option<Timestamp>,
    machines: BTreeMap<MachineId, Money>,
    rate: Money,
    highest_rate: Money,
    bound: Money,
    bound_at: Option<Timestamp>,
    spent: NanoSeconds,
    kept: NanoSeconds,
    least: NanoSeconds,
    nodes_bought: u32,
    most_nodes: usize,
    taken_back: u32,
}

/// The books. Cheap to clone; clones are the same books.
#[derive(Clone, Debug)]
pub(crate) struct Books {
    inner: Arc<Mutex<Inner>>,
    clock: Clock,
}

/// What it came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Sum {
    /// Machines that were bought.
    pub(crate) nodes_bought: u32,
    /// The most at once.
    pub(crate) most_nodes: usize,
    /// Machines that the cloud took back.
    pub(crate) taken_back: u32,
    /// Dollars that were spent.
    pub(crate) dollars_spent: f64,
    /// Dollars that the same pods cost at the very least.
    pub(crate) dollars_lower_bound: f64,
    /// Dollars that it had cost if nothing had ever been taken away.
    pub(crate) dollars_never_scaling_down: f64,
}

impl Books {
    /// Empty books.
    pub(crate) fn new(clock: Clock) -> Self {
        Books {
            inner: Arc::default(),
            clock,
        }
    }

    /// Something happened at the cloud.
    pub(crate) fn happened(&self, event: &CloudEvent) {
        let mut books = self.upto(self.clock.now());
        match event {
            CloudEvent::Launched(machine) => {
                let price = machine.price.unwrap_or_default();
                books.machines.insert(machine.id.clone(), price);
                books.nodes_bought += 1;
            }
            CloudEvent::Gone { id, taken } => {
                books.machines.remove(id);
                books.taken_back += u32::from(*taken);
            }
            CloudEvent::Booted(_)
            | CloudEvent::Announced(_)
            | CloudEvent::Taken(_)
            | CloudEvent::Terminating(_) => return,
        }
        books.rate = books.machines.values().copied().sum();
        books.highest_rate = books.highest_rate.max(books.rate);
        books.most_nodes = books.most_nodes.max(books.machines.len());
    }

    /// Whether the bound was worked out longer ago than this.
    pub(crate) fn bound_is_older(&self, now: Timestamp, age: SignedDuration) -> bool {
        let at = self.lock().bound_at;
        at.is_none_or(|at| now.duration_since(at) >= age)
    }

    /// From now on nothing could cost less than this an hour.
    pub(crate) fn bound(&self, now: Timestamp, bound: Money) {
        let mut books = self.upto(now);
        books.bound = bound;
        books.bound_at = Some(now);
    }

    /// What it came to so far.
    pub(crate) fn sum(&self) -> Sum {
        let books = self.upto(self.clock.now());
        Sum {
            nodes_bought: books.nodes_bought,
            most_nodes: books.most_nodes,
            taken_back: books.taken_back,
            dollars_spent: dollars(books.spent),
            dollars_lower_bound: dollars(books.least.min(books.spent)),
            dollars_never_scaling_down: dollars(books.kept),
        }
    }

    /// The books, with everything up to a moment in them.
    fn upto(&self, now: Timestamp) -> MutexGuard<'_, Inner> {
        let mut books = self.lock();
        let since = books.since.unwrap_or(now);
        // Whole seconds; what is left over counts the next time.
        let seconds = now.duration_since(since).as_secs().max(0);
        let over = |rate: Money| i128::from(rate.nanos()) * i128::from(seconds);
        let (spent, kept, least) = (
            over(books.rate),
            over(books.highest_rate),
            over(books.bound),
        );
        books.spent += spent;
        books.kept += kept;
        books.least += least;
        books.since = Some(since + SignedDuration::from_secs(seconds));
        books
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Rates are an hour's.
fn dollars(sum: NanoSeconds) -> f64 {
    let nanos = i64::try_from(sum / 3600).unwrap_or(i64::MAX);
    Money::from_nanos(nanos).dollars()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use joiner_providers::{Machine, MachineState};

    use super::*;

    fn machine(id: &str, dollars: f64) -> Machine {
        Machine {
            id: MachineId(id.into()),
            uid: None,
            state: MachineState::Running,
            links: Vec::new(),
            instance_type: "m".into(),
            zone: "a".into(),
            region: "".into(),
            capacity_type: joiner_core::problem::CapacityType::Spot,
            price: Some(Money::from_dollars(dollars)),
            capacity: joiner_core::resources::Resources::new(),
            allocatable: joiner_core::resources::Resources::new(),
            labels: joiner_core::name::Labels::new(),
            created: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_goes_costs_no_longer_and_would_have() {
        let clock = Clock::virtual_time();
        let books = Books::new(clock.clone());
        books.happened(&CloudEvent::Launched(Box::new(machine("one", 2.0))));
        books.happened(&CloudEvent::Launched(Box::new(machine("two", 1.0))));
        books.bound(clock.now(), Money::from_dollars(0.5));
        tokio::time::sleep(Duration::from_hours(1)).await;
        books.happened(&CloudEvent::Gone {
            id: MachineId("one".into()),
            taken: false,
        });
        tokio::time::sleep(Duration::from_hours(2)).await;
        let sum = books.sum();
        let close = |left: f64, right: f64| (left - right).abs() < 1e-6;
        assert!(close(sum.dollars_spent, 5.0), "{sum:?}");
        assert!(close(sum.dollars_never_scaling_down, 9.0), "{sum:?}");
        assert!(close(sum.dollars_lower_bound, 1.5), "{sum:?}");
        assert_eq!((sum.nodes_bought, sum.most_nodes), (2, 2));
    }
}
