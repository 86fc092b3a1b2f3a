//! What is paid: to the cloud as the cloud counts it, and what own hardware is worth as long as it is in use.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use joiner_core::labels;
use joiner_core::money::Money;
use joiner_embedded::api::Local;
use joiner_embedded::clock::Clock;
use joiner_sim::clouds::rackspace::{Class, RackspaceCloud, built_in};
use serde::Serialize;
use serde_json::Value;

/// How often it is looked at what there is.
const EVERY: Duration = Duration::from_secs(5);
/// The annotation in which a machine's price stands, in dollars per hour.
const PRICE: &str = "joiner.dev/price";
/// The pool of the cloud.
pub(super) const CLOUD: &str = "spot";

/// What it came to so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sum {
    /// Dollars for servers of the cloud.
    pub(super) dollars_cloud: f64,
    /// Dollars that own hardware was worth.
    pub(super) dollars_own: f64,
    /// Servers of the cloud that were ever won.
    pub(super) servers_won: usize,
    /// The most of them at once.
    pub(super) most_servers: usize,
    /// The most machines on own hardware at once.
    pub(super) most_own: usize,
}

impl Sum {
    /// Both together.
    pub(super) fn dollars(&self) -> f64 {
        self.dollars_cloud + self.dollars_own
    }
}

/// What there is at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    /// Server classes of what the cloud has given, by the name of the pool there.
    pub(super) servers: Vec<(String, String)>,
    /// What they cost an hour.
    pub(super) cloud: Money,
    /// Machines on own hardware.
    pub(super) own: usize,
    /// What these are worth an hour.
    pub(super) worth: Money,
}

#[derive(Debug, Default)]
struct Inner {
    cloud: i128,
    own: i128,
    won: BTreeSet<String>,
    most_servers: usize,
    most_own: usize,
}

/// The bill. Cheap to clone; clones are the same bill.
#[derive(Clone, Debug)]
pub(super) struct Bill {
    inner: Arc<Mutex<Inner>>,
    clock: Clock,
}

impl Bill {
    /// Nothing was spent yet.
    pub(super) fn new(clock: Clock) -> Self {
        Bill {
            inner: Arc::default(),
            clock,
        }
    }

    /// Counts until it is dropped.
    pub(super) async fn keep(&self, api: &Local, cloud: &RackspaceCloud) {
        let mut last = self.clock.now();
        loop {
            tokio::time::sleep(EVERY).await;
            let now = self.clock.now();
            let passed = now.duration_since(last).as_millis().max(0);
            last = now;
            let held = held(api, cloud);
            let mut bill = self.lock();
            bill.cloud += i128::from(held.cloud.nanos()) * passed;
            bill.own += i128::from(held.worth.nanos()) * passed;
            bill.most_servers = bill.most_servers.max(held.servers.len());
            bill.most_own = bill.most_own.max(held.own);
            bill.won
                .extend(held.servers.into_iter().map(|(name, _)| name));
        }
    }

    /// What it came to so far.
    pub(super) fn sum(&self) -> Sum {
        let bill = self.lock();
        Sum {
            dollars_cloud: dollars(bill.cloud),
            dollars_own: dollars(bill.own),
            servers_won: bill.won.len(),
            most_servers: bill.most_servers,
            most_own: bill.most_own,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Billionths of a dollar an hour, times milliseconds.
fn dollars(sum: i128) -> f64 {
    let nanos = i64::try_from(sum / 3_600_000).unwrap_or(i64::MAX);
    Money::from_nanos(nanos).dollars()
}

/// What there is now. The cloud is asked what it has given, not Joiner what it believes to have.
pub(super) fn held(api: &Local, cloud: &RackspaceCloud) -> Held {
    let classes = built_in();
    let mut held = Held::default();
    for pool in cloud.pools() {
        if pool["status"]["wonCount"] != 1 {
            continue;
        }
        let class = text(&pool, "/spec/serverClass");
        held.cloud += price(&classes, class);
        let name = text(&pool, "/metadata/name").to_owned();
        held.servers.push((name, class.to_owned()));
    }
    for claim in api.list("nodeclaims.karpenter.sh") {
        let launched = claim.pointer("/status/providerID").is_some();
        let own = claim["metadata"]["labels"][labels::NODEPOOL] != CLOUD;
        if launched && own {
            let worth = claim["metadata"]["annotations"][PRICE].as_str();
            let worth = worth.and_then(|text| text.parse().ok());
            held.worth += worth.map(Money::from_dollars).unwrap_or_default();
            held.own += 1;
        }
    }
    held
}

/// What a winner pays an hour in a calm market.
pub(super) fn price(classes: &[Class], name: &str) -> Money {
    let class = classes.iter().find(|class| class.name == name);
    let mills = class.map_or(0, |class| class.base.max(class.reserve.unwrap_or(0)));
    Money::from_nanos(i64::from(mills) * 1_000_000)
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}
