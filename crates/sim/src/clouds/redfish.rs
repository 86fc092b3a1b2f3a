//! Bare metal, simulated: BMCs that speak Redfish the way real ones do, each with a host behind it that boots from the
//! network and becomes a node.

mod bmc;
mod models;
mod routes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use jiff::Timestamp;
use joiner_embedded::clock::Clock;
use serde_json::{Value, json};
use tokio::sync::Notify;

pub use self::bmc::HostSetup;
use self::bmc::{Bmc, Order};
pub use self::models::{BootPlace, Model, Property, Versions};
pub use super::rackspace::CallFault;
use super::sim::Rack;

#[derive(Default)]
struct Inner {
    bmcs: BTreeMap<String, Bmc>,
    /// Calls that begin with the text meet the fault, so many times.
    faults: Vec<(String, CallFault, u32)>,
    calls: Vec<String>,
    /// What hosts were when another process ended that are not there yet.
    remembered: BTreeMap<String, Value>,
}

/// What a host is at one moment, for tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostTruth {
    /// Whether it has power or is about to.
    pub power: bool,
    /// Whether its next boot is changed.
    pub armed: bool,
    /// Its asset tag.
    pub asset_tag: String,
    /// Boots from the network.
    pub network_boots: u32,
    /// Boots from elsewhere.
    pub other_boots: u32,
    /// Sessions that are open.
    pub sessions: usize,
    /// Sessions that were ever opened.
    pub opened: u64,
    /// Logins that were refused.
    pub refused_logins: u32,
    /// Orders that would have disturbed somebody else's work.
    pub disturbed: u32,
}

/// Many BMCs, each known by its host and port. Cheap to clone; clones are the same.
#[derive(Clone)]
pub struct RedfishFleet {
    inner: Arc<Mutex<Inner>>,
    clock: Clock,
    rack: Arc<dyn Rack>,
    changed: Arc<Notify>,
}

impl RedfishFleet {
    /// No hosts yet. Nothing boots until [`RedfishFleet::run`] is polled.
    pub fn new(clock: Clock, rack: Arc<dyn Rack>) -> Self {
        RedfishFleet {
            inner: Arc::default(),
            clock,
            rack,
            changed: Arc::default(),
        }
    }

    /// Adds a host, in place of one with the same BMC.
    pub fn add(&self, setup: HostSetup) {
        let mut inner = self.lock();
        inner.bmcs.insert(setup.authority.clone(), Bmc::new(setup));
    }

    /// Adds a host unless its BMC is there already.
    pub fn add_missing(&self, setup: HostSetup) {
        let now = self.clock.now();
        let mut inner = self.lock();
        if inner.bmcs.contains_key(&setup.authority) {
            return;
        }
        let authority = setup.authority.clone();
        let mut bmc = Bmc::new(setup);
        if let Some(memory) = inner.remembered.remove(&authority) {
            bmc.restore(&memory, now);
        }
        inner.bmcs.insert(authority, bmc);
        drop(inner);
        self.wake();
    }

    /// What every host is, for [`RedfishFleet::restore`] in another process.
    pub fn memory(&self) -> Value {
        let inner = self.lock();
        let mut all = inner.remembered.clone();
        all.extend(
            inner
                .bmcs
                .iter()
                .map(|(key, bmc)| (key.clone(), bmc.memory())),
        );
        json!(all)
    }

    /// Goes on where another process ended.
    pub fn restore(&self, memory: &Value) {
        let now = self.clock.now();
        let mut inner = self.lock();
        for (authority, memory) in memory.as_object().into_iter().flatten() {
            if let Some(bmc) = inner.bmcs.get_mut(authority) {
                bmc.restore(memory, now);
            } else {
                inner.remembered.insert(authority.clone(), memory.clone());
            }
        }
        drop(inner);
        self.wake();
    }

    /// Forgets what runs: another process plays these BMCs from now on.
    pub fn rest(&self) {
        let nodes: Vec<String> = {
            let mut inner = self.lock();
            inner.remembered.clear();
            inner.bmcs.values_mut().filter_map(Bmc::rest).collect()
        };
        for node in &nodes {
            self.rack.kill(node);
        }
    }

    /// The wire of all of them.
    pub fn router(&self) -> Router {
        routes::router(self.clone())
    }

    /// Powers hosts on and off when it is time, until it is dropped.
    pub async fn run(&self) {
        loop {
            let next = self.act();
            let wait = next.map(|at| {
                Duration::try_from(at.duration_since(self.clock.now())).unwrap_or_default()
            });
            tokio::select! {
                biased;
                () = self.changed.notified() => {}
                () = tokio::time::sleep(wait.unwrap_or(Duration::MAX)), if wait.is_some() => {}
            }
        }
    }

    /// Lets the next `times` calls that begin so (`POST bmc/redfish/…`) go wrong.
    pub fn fail(&self, call: &str, fault: CallFault, times: u32) {
        self.lock().faults.push((call.to_owned(), fault, times));
    }

    /// Nothing goes wrong any more that was asked to.
    pub fn forgive(&self) {
        self.lock().faults.clear();
    }

    /// Somebody uses a host for something else.
    pub fn occupy(&self, authority: &str) {
        self.with(authority, Bmc::occupy);
    }

    /// Somebody cuts the power of a host by hand.
    pub fn unplug(&self, authority: &str) {
        let now = self.clock.now();
        self.with(authority, |bmc| bmc.unplug(now));
        self.wake();
    }

    /// Changes what a host is.
    pub fn change(&self, authority: &str, change: impl FnOnce(&mut HostSetup)) {
        self.with(authority, |bmc| change(&mut bmc.setup));
    }

    /// Every session ends, as when a BMC restarts.
    pub fn end_sessions(&self, authority: &str) {
        self.with(authority, |bmc| bmc.sessions.clear());
    }

    /// Opens sessions that nobody closes.
    pub fn leave_sessions(&self, authority: &str, count: usize) {
        let now = self.clock.now();
        self.with(authority, |bmc| {
            for number in 0..count as u64 {
                bmc.sessions
                    .insert(format!("left-{number}"), (1_000_000 + number, now));
            }
        });
    }

    /// The BMC restarts: sessions end, and for so many reads it does not say whether its host is on.
    pub fn restart_bmc(&self, authority: &str, reads: u32) {
        self.with(authority, |bmc| {
            bmc.sessions.clear();
            bmc.unaware = reads;
        });
    }

    /// The next `times` boot changes are accepted and not kept.
    pub fn forget_boot(&self, authority: &str, times: u32) {
        self.with(authority, |bmc| bmc.forgetful = times);
    }

    /// The next `times` orders to power on are accepted and not carried out.
    pub fn stick(&self, authority: &str, times: u32) {
        self.with(authority, |bmc| bmc.stuck = times);
    }

    /// Something is changed by hand: versions that were read before are out of date.
    pub fn touch(&self, authority: &str) {
        self.with(authority, Bmc::touch);
    }

    /// What was to go wrong and was not met yet: the call without its BMC, and the fault.
    pub fn unmet(&self) -> BTreeSet<String> {
        let inner = self.lock();
        let faults = inner.faults.iter().filter(|(_, _, times)| *times > 0);
        let named = faults.map(|(call, fault, _)| {
            let (method, rest) = call.split_once(' ').unwrap_or_default();
            let path = rest
                .find('/')
                .and_then(|at| rest.get(at..))
                .unwrap_or_default();
            format!("{method} {path}: {fault:?}")
        });
        named.collect()
    }

    /// What a host is.
    pub fn truth(&self, authority: &str) -> Option<HostTruth> {
        let now = self.clock.now();
        self.with(authority, |bmc| bmc.end_idle(now));
        self.with(authority, |bmc| HostTruth {
            power: bmc.has_power(),
            armed: bmc.is_armed(),
            asset_tag: bmc.asset_tag().to_owned(),
            network_boots: bmc.boots.0,
            other_boots: bmc.boots.1,
            sessions: bmc.sessions.len(),
            opened: bmc.opened,
            refused_logins: bmc.refused_logins,
            disturbed: bmc.disturbed,
        })
    }

    /// How many hosts have power.
    pub fn powered(&self) -> usize {
        self.lock()
            .bmcs
            .values()
            .filter(|bmc| bmc.has_power())
            .count()
    }

    /// Every call so far, as `METHOD host/path`.
    pub fn calls(&self) -> Vec<String> {
        self.lock().calls.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, authority: &str, act: impl FnOnce(&mut Bmc) -> T) -> Option<T> {
        self.lock().bmcs.get_mut(authority).map(act)
    }

    fn wake(&self) {
        self.changed.notify_one();
    }

    fn take_fault(&self, line: &str) -> Option<CallFault> {
        let mut inner = self.lock();
        inner.calls.push(line.to_owned());
        let found = inner
            .faults
            .iter_mut()
            .find(|(text, _, times)| *times > 0 && line.starts_with(text.as_str()));
        let (_, fault, times) = found?;
        *times -= 1;
        Some(fault.clone())
    }

    /// Does what is due and says when to come again.
    fn act(&self) -> Option<Timestamp> {
        let now = self.clock.now();
        let mut orders = Vec::new();
        let mut next: Option<Timestamp> = None;
        {
            let mut inner = self.lock();
            for bmc in inner.bmcs.values_mut() {
                let (more, at) = bmc.due(now);
                orders.extend(more);
                next = next.into_iter().chain(at).min();
            }
        }
        for order in orders {
            match order {
                Order::Boot(spec) => self.rack.boot(*spec),
                Order::Kill(name) => self.rack.kill(&name),
            }
        }
        next
    }
}
