//! What is spent, and what would have been: kept event by event. A running machine is billed at today's price, as spot
//! markets do it, whatever it cost when it was bought.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use joiner_core::money::Money;
use joiner_core::name::Name;
use joiner_core::problem::{CapacityType, Catalog};
use joiner_embedded::clock::Clock;
use joiner_providers::{Machine, MachineId};
use joiner_sim::clouds::watched::CloudEvent;
use serde::Serialize;

/// Billionths of a dollar, times seconds: exact however long it goes on.
type NanoSeconds = i128;

/// What a machine is sold as: type, zone, capacity type.
type Offer = (Name, Name, CapacityType);

#[derive(Debug, Default)]
struct Inner {
    since: Option<Timestamp>,
    machines: BTreeMap<MachineId, Offer>,
    prices: BTreeMap<Offer, Money>,
    /// The dearest set of machines that ever ran at once.
    dearest: Vec<Offer>,
    bound: Money,
    bound_at: Option<Timestamp>,
    spent: NanoSeconds,
    kept: NanoSeconds,
    least: NanoSeconds,
    nodes_bought: u32,
    most_nodes: usize,
    /// Machines that the cloud has announced it will take back.
    announced: BTreeSet<MachineId>,
}

impl Inner {
    /// What these cost an hour at today's prices.
    fn rate<'a>(&self, offers: impl IntoIterator<Item = &'a Offer>) -> Money {
        let prices = offers.into_iter().filter_map(|one| self.prices.get(one));
        prices.copied().sum()
    }

    /// Remembers what runs now if it is dearer than anything before.
    fn compare(&mut self) {
        self.most_nodes = self.most_nodes.max(self.machines.len());
        if self.rate(self.machines.values()) > self.rate(&self.dearest) {
            self.dearest = self.machines.values().cloned().collect();
        }
    }
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
    /// Dollars that were spent.
    pub(crate) dollars_spent: f64,
    /// Dollars that the same pods cost at the very least: packed anew at every moment, at the lowest prices ever seen.
    pub(crate) dollars_lower_bound: f64,
    /// Dollars that the dearest set of machines that ran at once had cost, kept for ever.
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
                let offer = offer(machine);
                books
                    .prices
                    .insert(offer.clone(), machine.price.unwrap_or_default());
                books.machines.insert(machine.id.clone(), offer);
                books.nodes_bought += 1;
            }
            CloudEvent::Gone { id, .. } => {
                books.machines.remove(id);
            }
            CloudEvent::Announced(id) => {
                books.announced.insert(id.clone());
            }
            CloudEvent::Booted(_)
            | CloudEvent::Taken(_)
            | CloudEvent::Terminating(_)
            | CloudEvent::Group(..) => return,
        }
        books.compare();
    }

    /// From now on offerings cost what the catalogue says.
    pub(crate) fn priced(&self, catalog: &Catalog) {
        let mut books = self.upto(self.clock.now());
        for kind in &catalog.types {
            for one in &kind.offerings {
                let offer = (kind.name.clone(), one.zone.clone(), one.capacity_type);
                books.prices.insert(offer, one.price);
            }
        }
        books.compare();
    }

    /// What all machines cost an hour at today's prices.
    pub(crate) fn rate(&self) -> Money {
        let books = self.lock();
        books.rate(books.machines.values())
    }

    /// Whether the cloud has announced that it takes a machine back.
    pub(crate) fn announced(&self, id: &str) -> bool {
        self.lock().announced.contains(&MachineId(id.into()))
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
            over(books.rate(books.machines.values())),
            over(books.rate(&books.dearest)),
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

fn offer(machine: &Machine) -> Offer {
    (
        machine.instance_type.clone(),
        machine.zone.clone(),
        machine.capacity_type,
    )
}

/// Rates are an hour's.
fn dollars(sum: NanoSeconds) -> f64 {
    let nanos = i64::try_from(sum / 3600).unwrap_or(i64::MAX);
    Money::from_nanos(nanos).dollars()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use joiner_core::problem::{InstanceType, Offering};
    use joiner_providers::MachineState;

    use super::*;

    fn machine(id: &str, dollars: f64) -> Machine {
        Machine {
            id: MachineId(id.into()),
            uid: None,
            state: MachineState::Running,
            links: Vec::new(),
            instance_type: id.into(),
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

    #[tokio::test(start_paused = true)]
    async fn a_running_machine_is_billed_at_the_price_of_the_day() {
        let clock = Clock::virtual_time();
        let books = Books::new(clock.clone());
        books.happened(&CloudEvent::Launched(Box::new(machine("one", 1.0))));
        tokio::time::sleep(Duration::from_hours(1)).await;
        let dearer = Offering {
            zone: "a".into(),
            region: "".into(),
            capacity_type: CapacityType::Spot,
            price: Money::from_dollars(3.0),
            available: true,
            left: None,
            reservation: None,
            stock: None,
        };
        books.priced(&Catalog {
            types: vec![InstanceType {
                name: "one".into(),
                capacity: joiner_core::resources::Resources::new(),
                labels: joiner_core::name::Labels::new(),
                overhead: joiner_core::resources::Resources::new(),
                offerings: vec![dearer],
                quotas: Vec::new(),
            }],
            ..Catalog::default()
        });
        assert_eq!(books.rate(), Money::from_dollars(3.0));
        tokio::time::sleep(Duration::from_hours(1)).await;
        let sum = books.sum();
        assert!((sum.dollars_spent - 4.0).abs() < 1e-6, "{sum:?}");
    }
}
