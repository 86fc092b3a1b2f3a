//! Buying the same again and again for the same pods: launched, preempted or never bound, empty, removed, launched.
//!
//! Whatever the cause, it looks the same from here: machines that were bought for pods of one kind (namespace and
//! shape) came into use, the pods did not last there, and pods of that kind wait again at once. Pods lose their
//! identity when they are preempted or evicted, so kinds are counted and not pods. After a few such machines the kind
//! waits before anything more is bought for it, longer each time; other pods of the pool do not.
//!
//! Pods that nobody makes anew were not wanted any more, and pods that are moved when their node makes way for another
//! had their use of it: neither says anything against the machine.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::name::Name;

use crate::edge::clock;
use crate::provision::Kind;
use crate::record::Key;
use crate::view::World;
use crate::view::pods::PodRecord;

/// A pod that stays as long has found its place.
const LASTING: Duration = Duration::from_mins(10);
/// How long a machine may be in use before a pod that it was bought for is bound to it.
const BOUND: Duration = Duration::from_secs(30);
/// A pod that is created sooner after another of its kind went comes in its stead. Later ones are new work.
const SUCCESSOR: Duration = Duration::from_secs(15);
/// Pods that went have been made anew after so long, or never are.
const SETTLED: Duration = Duration::from_secs(3);
/// How long a machine that was of no use is remembered.
const WINDOW: Duration = Duration::from_hours(1);
/// How many machines may be of no use to a kind within the window before it waits.
const PATIENCE: usize = 2;
/// The first wait, and the longest.
const WAIT: (Duration, Duration) = (Duration::from_mins(1), Duration::from_mins(15));
/// How many kinds are remembered for one machine.
const KINDS: usize = 8;

/// A machine that was bought for pods and has yet to prove its use.
#[derive(Clone, Debug)]
struct Purchase {
    machine: Key,
    uid: Name,
    pool: Name,
    kinds: Vec<Kind>,
    /// How many pods of each kind there were when it was bought, once that has been looked up.
    wanted: Vec<usize>,
    in_use: Option<Timestamp>,
    /// Since when one of its pods is there.
    hosts: Option<Timestamp>,
}

/// A machine that was of no use to a kind of pods.
#[derive(Clone, Debug)]
struct Waste {
    pool: Name,
    machine: Name,
    kind: Kind,
    /// How many pods of that kind there were when it was bought.
    wanted: usize,
    at: Timestamp,
    saw: &'static str,
    /// A pod of that kind waits again because of it.
    confirmed: bool,
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    machines: usize,
    until: Timestamp,
}

#[derive(Debug, Default)]
struct State {
    open: Vec<Purchase>,
    wasted: Vec<Waste>,
    holds: HashMap<Kind, Hold>,
}

/// Purchases that have yet to prove their use, and those that were of none.
#[derive(Debug, Default)]
pub struct Repeats(Mutex<State>);

/// Why nothing is bought for a kind of pods for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Repeated {
    /// The pool that bought most of the machines.
    pub(crate) pool: Name,
    /// What was seen.
    pub(crate) because: String,
    /// Whether this is news.
    pub(crate) news: bool,
}

/// What has become of a purchase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Open,
    Proven,
    Wasted(&'static str),
}

impl Repeats {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A machine was bought for these pods.
    pub(crate) fn bought<'p>(
        &self,
        machine: &crate::record::MachineRecord,
        pool: &Name,
        pods: impl Iterator<Item = &'p PodRecord>,
    ) {
        let mut kinds: Vec<Kind> = Vec::new();
        for kind in pods.map(Kind::of) {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
            if kinds.len() == KINDS {
                break;
            }
        }
        if kinds.is_empty() {
            return;
        }
        self.state().open.push(Purchase {
            machine: machine.key.clone(),
            uid: machine.uid.0.clone(),
            pool: pool.clone(),
            kinds,
            wanted: Vec::new(),
            in_use: None,
            hosts: None,
        });
    }

    /// Looks what has become of purchases.
    pub(crate) fn observe(&self, world: &World, now: Timestamp) {
        let mut state = self.state();
        let State { open, wasted, .. } = &mut *state;
        let mut census = Census::new(world);
        for purchase in open.iter_mut().filter(|one| one.wanted.is_empty()) {
            let kinds = purchase.kinds.iter();
            purchase.wanted = kinds.map(|kind| census.count(kind)).collect();
        }
        open.retain_mut(|purchase| match fate(purchase, world, now) {
            Fate::Open => true,
            Fate::Proven => false,
            Fate::Wasted(saw) => {
                let kinds = purchase.kinds.iter().zip(&purchase.wanted);
                wasted.extend(kinds.map(|(kind, wanted)| Waste {
                    pool: purchase.pool.clone(),
                    machine: purchase.machine.name.clone(),
                    kind: kind.clone(),
                    wanted: *wanted,
                    at: now,
                    saw,
                    confirmed: false,
                }));
                false
            }
        });
        let mut unwanted = |one: &Waste| {
            !one.confirmed
                && clock::since(now, one.at) >= SETTLED
                && census.count(&one.kind) < one.wanted
        };
        wasted.retain(|one| clock::since(now, one.at) < WINDOW && !unwanted(one));
        if state.wasted.is_empty() {
            state.holds.clear();
        }
    }

    /// Whether nothing is to be bought for a pod that waits, and why.
    pub(crate) fn holds(&self, pod: &PodRecord, now: Timestamp) -> Option<Repeated> {
        let mut state = self.state();
        // The common case costs nothing.
        if state.wasted.is_empty() {
            return None;
        }
        let kind = Kind::of(pod);
        let State { wasted, holds, .. } = &mut *state;
        let own = || wasted.iter().filter(|one| one.kind == kind);
        own().next()?;
        for one in wasted.iter_mut().filter(|one| one.kind == kind) {
            one.confirmed |= pod.created <= clock::after(one.at, SUCCESSOR);
        }
        let own: Vec<&Waste> = wasted
            .iter()
            .filter(|one| one.kind == kind && one.confirmed)
            .collect();
        let machines = own.len();
        let last = own.last().filter(|_| machines >= PATIENCE)?;
        let known = holds.get(&kind).copied();
        let news = known.is_none_or(|hold| hold.machines < machines);
        let until = match known {
            Some(hold) if !news => hold.until,
            _ => {
                let doublings = u32::try_from(machines - PATIENCE)
                    .unwrap_or(u32::MAX)
                    .min(10);
                clock::after(now, WAIT.0.saturating_mul(1 << doublings).min(WAIT.1))
            }
        };
        holds.insert(kind, Hold { machines, until });
        (until > now).then(|| Repeated {
            pool: last.pool.clone(),
            because: format!(
                "{machines} machines were bought within an hour for pods of namespace {} with these requests and did \
                 not help: {} (last: {}). No more is bought for them until {until}; look for a taint, a daemon set, a \
                 limit range, a priority or a scheduler plugin that keeps them off new nodes",
                pod.key.namespace, last.saw, last.machine
            ),
            news,
        })
    }
}

/// How many pods of some kinds there are, bound or waiting.
struct Census<'w> {
    world: &'w World,
    known: Vec<(Kind, usize)>,
}

impl<'w> Census<'w> {
    fn new(world: &'w World) -> Self {
        Census {
            world,
            known: Vec::new(),
        }
    }

    fn count(&mut self, kind: &Kind) -> usize {
        if let Some((_, count)) = self.known.iter().find(|(known, _)| known == kind) {
            return *count;
        }
        let pods = self.world.pods.iter();
        let pods = pods.filter(|pod| pod.active() && Kind::of(pod) == *kind);
        let count = pods.count();
        self.known.push((kind.clone(), count));
        count
    }
}

fn fate(purchase: &mut Purchase, world: &World, now: Timestamp) -> Fate {
    let machine = world.machines.get(&purchase.machine);
    let machine = machine.filter(|one| one.uid.0 == purchase.uid);
    // It makes way with its pods on it.
    if let Some(leaving) = machine.filter(|one| one.deleting.is_some())
        && purchase.hosts.is_some()
    {
        let node = leaving.status.node.as_deref().unwrap_or_default();
        let mut pods = world.pods_on(node);
        if pods.any(|pod| !pod.terminal && purchase.kinds.contains(&Kind::of(pod))) {
            return Fate::Proven;
        }
    }
    let Some(machine) = machine.filter(|one| one.deleting.is_none()) else {
        return match (purchase.in_use, purchase.hosts) {
            // It never came into use: others take care of that.
            (None, _) => Fate::Proven,
            (Some(_), None) => {
                Fate::Wasted("no pod was ever bound to them before they were removed")
            }
            (Some(_), Some(_)) => Fate::Wasted("the pods did not stay on them"),
        };
    };
    if !machine.initialized() {
        return Fate::Open;
    }
    let since = *purchase.in_use.get_or_insert(now);
    let node = machine.status.node.as_deref().unwrap_or_default();
    let mut own = world
        .pods_on(node)
        .filter(|pod| pod.deleting.is_none() && purchase.kinds.contains(&Kind::of(pod)));
    match own.next() {
        // What ends by itself has done what it came for.
        Some(pod) if pod.terminal => Fate::Proven,
        Some(_) => {
            let hosts = *purchase.hosts.get_or_insert(now);
            if clock::since(now, hosts) >= LASTING {
                Fate::Proven
            } else {
                Fate::Open
            }
        }
        None if purchase.hosts.is_some() => Fate::Wasted("the pods did not stay on them"),
        None if clock::since(now, since) >= BOUND => {
            Fate::Wasted("no pod was bound to them although they were in use")
        }
        None => Fate::Open,
    }
}
