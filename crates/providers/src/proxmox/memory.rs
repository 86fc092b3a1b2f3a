//! What is remembered between calls. All of it can be lost: it saves calls, and room that lists do not show yet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use super::client::Task;
use super::headroom::Promise;
use super::mark::Proven;
use super::settings::Size;
use crate::{Machine, Uid};

/// How long a number rests after it was used: whoever still means the old machine by it has then noticed.
const REST: Duration = Duration::from_mins(10);
/// How long a promise holds that no list confirms.
const PROMISED: Duration = Duration::from_mins(2);
/// How long a machine that is not ours is not looked at again.
const FOREIGN: Duration = Duration::from_mins(10);
/// How long a host is left alone after it failed; twice as long each further time.
const AVOIDED: Duration = Duration::from_mins(2);
const LONGEST_AVOIDED: Duration = Duration::from_mins(30);

/// A machine of ours as it was last read.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) proven: Proven,
    pub(super) size: Size,
}

/// A host that failed.
#[derive(Clone, Debug)]
struct Avoided {
    until: Timestamp,
    times: u32,
    why: String,
}

#[derive(Default)]
pub(super) struct Memory {
    /// Machines of ours, by number.
    pub(super) known: BTreeMap<u32, Known>,
    /// Machines that are not ours, by number: under which name, and when that was read.
    foreign: BTreeMap<u32, (Option<String>, Timestamp)>,
    /// Room that is promised, by number, and since when.
    promises: BTreeMap<u32, (Promise, Timestamp)>,
    /// Numbers that were handed out or freed lately.
    recent: BTreeMap<u32, Timestamp>,
    /// What was last begun with a machine, by number.
    pub(super) tasks: BTreeMap<u32, Task>,
    /// Machines that were made in vain and are gone, by their object: shown once more, so that it is told why.
    pub(super) failed: BTreeMap<Uid, Machine>,
    avoided: BTreeMap<String, Avoided>,
    /// What is wrong although it works.
    pub(super) concerns: Vec<String>,
}

fn within(since: Timestamp, now: Timestamp, limit: Duration) -> bool {
    now.duration_since(since).unsigned_abs() < limit
}

impl Memory {
    pub(super) fn tidy(&mut self, now: Timestamp) {
        self.recent.retain(|_, at| within(*at, now, REST));
        self.promises
            .retain(|_, (_, at)| within(*at, now, PROMISED));
        self.foreign.retain(|_, (_, at)| within(*at, now, FOREIGN));
        self.avoided
            .retain(|_, one| one.until > now || within(one.until, now, LONGEST_AVOIDED));
        if self.failed.len() > 1000 {
            self.failed.clear();
        }
    }

    pub(super) fn is_foreign(&self, vmid: u32, name: Option<&String>) -> bool {
        self.foreign
            .get(&vmid)
            .is_some_and(|(known, _)| known.as_ref() == name && name.is_some())
    }

    pub(super) fn note_foreign(&mut self, vmid: u32, name: Option<String>, now: Timestamp) {
        self.known.remove(&vmid);
        self.foreign.insert(vmid, (name, now));
    }

    pub(super) fn promise(&mut self, vmid: u32, host: &str, size: Size, now: Timestamp) {
        let promise = Promise {
            host: host.to_owned(),
            size,
        };
        self.promises.insert(vmid, (promise, now));
        self.recent.insert(vmid, now);
    }

    pub(super) fn withdraw(&mut self, vmid: u32) {
        self.promises.remove(&vmid);
    }

    /// Promised room: what is being made, and what is known of machines that are.
    pub(super) fn promises(&self) -> BTreeMap<u32, Promise> {
        let made = self.known.iter().map(|(vmid, known)| {
            let promise = Promise {
                // Where it is now is told by the list.
                host: String::new(),
                size: known.size,
            };
            (*vmid, promise)
        });
        let mut all: BTreeMap<u32, Promise> = made.collect();
        all.extend(
            self.promises
                .iter()
                .map(|(vmid, (one, _))| (*vmid, one.clone())),
        );
        all
    }

    /// The number that a machine was asked for under.
    pub(super) fn number_of(&self, uid: &Uid) -> Option<u32> {
        let mut known = self.known.iter();
        known
            .find(|(_, known)| known.proven.mark.uid == *uid)
            .map(|(vmid, _)| *vmid)
    }

    pub(super) fn recent(&self) -> BTreeSet<u32> {
        self.recent.keys().copied().collect()
    }

    /// A machine that is gone.
    pub(super) fn forget(&mut self, vmid: u32, now: Timestamp) {
        self.known.remove(&vmid);
        self.tasks.remove(&vmid);
        self.promises.remove(&vmid);
        self.recent.insert(vmid, now);
    }

    pub(super) fn avoid(&mut self, host: &str, why: &str, now: Timestamp) {
        let times = self
            .avoided
            .get(host)
            .map_or(1, |one| one.times.saturating_add(1));
        let wait = AVOIDED
            .saturating_mul(2_u32.saturating_pow(times.min(8) - 1))
            .min(LONGEST_AVOIDED);
        let until = now.checked_add(wait).unwrap_or(now);
        let why = why.to_owned();
        self.avoided
            .insert(host.to_owned(), Avoided { until, times, why });
    }

    /// A host that works after all.
    pub(super) fn trust(&mut self, host: &str) {
        self.avoided.remove(host);
    }

    pub(super) fn avoided(&self, now: Timestamp) -> BTreeMap<String, String> {
        self.avoided
            .iter()
            .filter(|(_, one)| one.until > now)
            .map(|(host, one)| (host.clone(), one.why.clone()))
            .collect()
    }
}

/// One caller at a time for each machine.
#[derive(Default)]
pub(super) struct Turns(Mutex<BTreeMap<Uid, Arc<AsyncMutex<()>>>>);

impl Turns {
    /// Waits for the others.
    pub(super) async fn take(&self, uid: &Uid) -> OwnedMutexGuard<()> {
        let turn = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Nobody waits where only the map holds the turn.
            all.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(all.entry(uid.clone()).or_default())
        };
        turn.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn a_host_that_fails_again_is_avoided_for_longer() {
        let mut memory = Memory::default();
        memory.avoid("n1", "start failed", at(0));
        assert!(memory.avoided(at(119)).contains_key("n1"));
        assert!(memory.avoided(at(121)).is_empty());
        memory.avoid("n1", "start failed", at(121));
        assert!(memory.avoided(at(121 + 239)).contains_key("n1"));
        memory.trust("n1");
        assert!(memory.avoided(at(122)).is_empty());
    }

    #[test]
    fn promises_and_numbers_are_forgotten_in_time() {
        let mut memory = Memory::default();
        let size = Size {
            cores: 1,
            memory_mib: 1024,
        };
        memory.promise(1250, "n1", size, at(0));
        memory.tidy(at(100));
        assert_eq!(memory.promises().len(), 1);
        memory.tidy(at(121));
        assert!(memory.promises().is_empty());
        assert!(memory.recent().contains(&1250));
        memory.tidy(at(601));
        assert!(memory.recent().is_empty());
    }
}
