//! What is remembered between calls. All of it can be lost: it saves calls, and room that lists do not show yet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use super::client::Task;
use super::headroom::Promise;
use super::mark::Proven;
use super::place::Place;
use super::settings::Size;
use super::shared::Shared;
use crate::{Machine, Uid};

/// How long a machine that is not ours is not looked at again.
const FOREIGN: Duration = Duration::from_mins(10);
/// How long a host is left alone after it failed; twice as long each further time.
const AVOIDED: Duration = Duration::from_mins(2);
const LONGEST_AVOIDED: Duration = Duration::from_mins(30);
/// How long the making of a machine waits that was ended by something that passes; twice as long each further time.
const AGAIN: Duration = Duration::from_secs(5);
const LONGEST_AGAIN: Duration = Duration::from_mins(1);

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

/// The making of a machine.
#[derive(Clone)]
pub(super) struct Attempt {
    /// Where, and as what.
    pub(super) place: Place,
    /// How often it was ended by something that passes, such as a lock that was not to be had in time.
    pub(super) times: u32,
    /// If it was: when it is begun again, and what ended it.
    pub(super) again: Option<(Timestamp, String)>,
}

#[derive(Default)]
pub(super) struct Memory {
    /// What all classes of this process know of the cluster.
    pub(super) shared: Arc<Shared>,
    /// Machines of ours, by number.
    pub(super) known: BTreeMap<u32, Known>,
    /// Machines that are not ours, by number: under which name, and when that was read.
    foreign: BTreeMap<u32, (Option<String>, Timestamp)>,
    /// What was last begun with a machine, by number.
    pub(super) tasks: BTreeMap<u32, Task>,
    /// What is being made, by number.
    pub(super) attempts: BTreeMap<u32, Attempt>,
    /// Machines that were made in vain and are gone, by their object: shown once more, so that it is told why.
    pub(super) failed: BTreeMap<Uid, Machine>,
    avoided: BTreeMap<String, Avoided>,
    /// What is wrong although it works.
    pub(super) concerns: Vec<String>,
}

pub(super) fn within(since: Timestamp, now: Timestamp, limit: Duration) -> bool {
    now.duration_since(since).unsigned_abs() < limit
}

impl Memory {
    pub(super) fn tidy(&mut self, now: Timestamp) {
        self.shared.tidy(now);
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
        self.shared.promise(vmid, promise, now);
    }

    pub(super) fn withdraw(&mut self, vmid: u32) {
        self.shared.withdraw(vmid);
    }

    /// A machine that was asked for in vain: nothing of it is there.
    pub(super) fn drop_attempt(&mut self, vmid: u32) {
        self.known.remove(&vmid);
        self.attempts.remove(&vmid);
        self.shared.withdraw(vmid);
        self.shared.leave(vmid);
    }

    /// A machine that is made: what is left is to set it up and to start it.
    pub(super) fn made(&mut self, vmid: u32) {
        self.attempts.remove(&vmid);
        self.shared.leave(vmid);
    }

    /// Lets the making of a machine wait a while; `false` if it is not known how it is made.
    pub(super) fn postpone(&mut self, vmid: u32, why: String, now: Timestamp) -> bool {
        self.shared.leave(vmid);
        let Some(attempt) = self.attempts.get_mut(&vmid) else {
            return false;
        };
        let wait = AGAIN
            .saturating_mul(2_u32.saturating_pow(attempt.times.min(8)))
            .min(LONGEST_AGAIN);
        attempt.times = attempt.times.saturating_add(1);
        attempt.again = Some((now.checked_add(wait).unwrap_or(now), why));
        true
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
        all.extend(self.shared.promises());
        all
    }

    /// The number that a machine was asked for under.
    pub(super) fn number_of(&self, uid: &Uid) -> Option<u32> {
        let mut known = self.known.iter();
        known
            .find(|(_, known)| known.proven.mark.uid == *uid)
            .map(|(vmid, _)| *vmid)
    }

    /// Machines whose making is begun again in a while, and why.
    pub(super) fn waiting(&self) -> Vec<(Known, String)> {
        let all = self.attempts.iter().filter_map(|(vmid, attempt)| {
            let (_, why) = attempt.again.as_ref()?;
            Some((self.known.get(vmid)?.clone(), why.clone()))
        });
        all.collect()
    }

    pub(super) fn recent(&self) -> BTreeSet<u32> {
        self.shared.recent()
    }

    /// A machine that is gone.
    pub(super) fn forget(&mut self, vmid: u32, now: Timestamp) {
        self.known.remove(&vmid);
        self.tasks.remove(&vmid);
        self.attempts.remove(&vmid);
        self.shared.forget(vmid, now);
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
}
