//! EC2, simulated, as far as it is read: the query protocol with signed requests, pages, throttling, prices that move and
//! placement scores that are limited by the day; STS for web identities; the price list.
//!
//! [`Ec2Cloud::router`] is the wire, for a client in this process or for a port. Instance types and zones are real; prices
//! and scores are made up, the same for the same seed and moment.

mod routes;
mod sign;
mod story;
mod xml;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use jiff::Timestamp;
use joiner_core::money::Money;

use joiner_embedded::clock::Clock;

const REGIONS: &str = include_str!("../../assets/ec2/regions.tsv");

/// A region.
#[derive(Clone, Debug, Default)]
pub(super) struct Region {
    /// Zone name to zone id.
    pub(super) zones: BTreeMap<String, String>,
    /// GPU type to the letters of its zones.
    pub(super) offered: BTreeMap<String, String>,
}

static ALL: LazyLock<BTreeMap<String, Region>> = LazyLock::new(|| {
    let lines = REGIONS.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(read).collect()
});

fn read(line: &str) -> Option<(String, Region)> {
    let mut cells = line.split('\t');
    let name = cells.next()?;
    let pairs = |text: &str, between: char, within: char| -> BTreeMap<String, String> {
        let all = text.split(between).filter_map(|one| one.split_once(within));
        all.map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    };
    let region = Region {
        zones: pairs(cells.next()?, ',', '='),
        offered: pairs(cells.next()?, ' ', ':'),
    };
    Some((name.to_owned(), region))
}

/// How the cloud behaves.
#[derive(Clone, Debug)]
pub struct Ec2CloudOptions {
    /// Key id that is accepted.
    pub key_id: String,
    /// Its secret; requests whose signature does not fit are refused.
    pub secret: String,
    /// Makes prices and scores.
    pub seed: u64,
    /// Whether prices move.
    pub moving: bool,
    /// Different requests for placement scores that are answered within a day.
    pub score_configurations: usize,
    /// Requests of one kind at once, and how many more a second.
    pub bucket: (f64, f64),
    /// Tags that subnets and security groups have; `None` for whatever is asked for.
    pub tags: Option<BTreeMap<String, String>>,
    /// Zone names with subnets; `None` for all.
    pub subnets: Option<BTreeSet<String>>,
    /// How long keys of a web identity are good.
    pub token_life: Duration,
}

impl Ec2CloudOptions {
    /// A calm market with the limits of the real one.
    pub fn calm(seed: u64) -> Self {
        Ec2CloudOptions {
            key_id: "AKIASIMULATED".to_owned(),
            secret: "simulated-secret".to_owned(),
            seed,
            moving: false,
            score_configurations: 10,
            bucket: (100.0, 20.0),
            tags: None,
            subnets: None,
            token_life: Duration::from_hours(1),
        }
    }
}

/// What goes wrong with a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ec2Fault {
    /// Refused with a status and a code.
    Refused(u16, String),
    /// The answer ends in the middle.
    Truncated,
    /// Something else answers.
    Says(u16, String),
}

#[derive(Default)]
struct Inner {
    faults: Vec<(String, Ec2Fault, u32)>,
    calls: Vec<(Timestamp, String)>,
    prices: BTreeMap<(String, String), Money>,
    scores: BTreeMap<String, u8>,
    gone: BTreeSet<(String, String)>,
    /// Regions that the account has not opted into.
    closed: BTreeSet<String>,
    /// Requests for scores, and when each was first made.
    asked: BTreeMap<String, Timestamp>,
    buckets: BTreeMap<String, (f64, Timestamp)>,
    /// Keys of web identities, and when they end.
    tokens: BTreeMap<String, Timestamp>,
}

/// The cloud. Cheap to clone; clones are the same cloud.
#[derive(Clone)]
pub struct Ec2Cloud {
    options: Arc<Ec2CloudOptions>,
    inner: Arc<Mutex<Inner>>,
    clock: Clock,
}

impl Ec2Cloud {
    /// Opens the cloud.
    pub fn new(options: Ec2CloudOptions, clock: Clock) -> Self {
        Ec2Cloud {
            options: Arc::new(options),
            inner: Arc::default(),
            clock,
        }
    }

    /// The wire.
    pub fn router(&self) -> Router {
        routes::router(self.clone())
    }

    /// The wire for a client in this process, which does not add the host that requests are signed for.
    pub fn in_process(&self, host: &'static str) -> Router {
        let add = move |mut request: axum::extract::Request| {
            let host = http::HeaderValue::from_static(host);
            request.headers_mut().insert(http::header::HOST, host);
            request
        };
        self.router().layer(tower::util::MapRequestLayer::new(add))
    }

    /// Lets the next `times` calls of an action go wrong; `*` stands for all actions.
    pub fn fail(&self, action: &str, fault: Ec2Fault, times: u32) {
        self.lock().faults.push((action.to_owned(), fault, times));
    }

    /// Nothing goes wrong any more that was asked to.
    pub fn forgive(&self) {
        self.lock().faults.clear();
    }

    /// Fixes a price in dollars; types and zones by name.
    pub fn set_price(&self, type_name: &str, zone: &str, dollars: f64) {
        let key = (type_name.to_owned(), zone.to_owned());
        self.lock().prices.insert(key, Money::from_dollars(dollars));
    }

    /// The account has not opted into a region.
    pub fn close_region(&self, region: &str) {
        self.lock().closed.insert(region.to_owned());
    }

    /// Fixes the score of a zone, or of a region as a whole, by name.
    pub fn set_score(&self, zone: &str, score: u8) {
        self.lock().scores.insert(zone.to_owned(), score);
    }

    /// There is no spot price of a type in a zone any more.
    pub fn withdraw(&self, type_name: &str, zone: &str) {
        let key = (type_name.to_owned(), zone.to_owned());
        self.lock().gone.insert(key);
    }

    /// Every call so far: when, and which action.
    pub fn calls(&self) -> Vec<(Timestamp, String)> {
        self.lock().calls.clone()
    }

    /// How often an action was called.
    pub fn count(&self, action: &str) -> usize {
        let inner = self.lock();
        inner.calls.iter().filter(|(_, one)| one == action).count()
    }

    /// The price of a type in a zone at a moment; `None` where there is none.
    pub fn price(&self, type_name: &str, zone: &str, at: Timestamp) -> Option<Money> {
        let key = (type_name.to_owned(), zone.to_owned());
        let inner = self.lock();
        if inner.gone.contains(&key) {
            return None;
        }
        if let Some(price) = inner.prices.get(&key) {
            return Some(*price);
        }
        drop(inner);
        story::price(&self.options, type_name, zone, at)
    }

    /// The score of a zone, by name, at a moment, for a set of enough types.
    pub fn score(&self, zone: &str, at: Timestamp) -> u8 {
        let fixed = self.lock().scores.get(zone).copied();
        fixed.unwrap_or_else(|| story::score(&self.options, zone, at))
    }

    /// The score of a region as a whole: that of its best zone, unless it is fixed.
    fn region_score(&self, name: &str, region: &Region, at: Timestamp) -> u8 {
        let fixed = self.lock().scores.get(name).copied();
        let best = || region.zones.keys().map(|zone| self.score(zone, at)).max();
        fixed.or_else(best).unwrap_or(1)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
