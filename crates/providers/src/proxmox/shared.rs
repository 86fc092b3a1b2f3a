//! What all classes of this process know together of one cluster: room and numbers that are promised, and what is being
//! made where. Classes of any family that choose a host at the same moment see each other's choice.
//!
//! Proxmox locks a storage while it makes a volume there, and gives up after some seconds: many machines at once end in
//! lock timeouts. So there are only so many turns for each host and each storage.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Mutex as AsyncMutex;

use super::client::Task;
use super::headroom::Promise;
use super::memory::within;

/// How many machines are made on one host at once.
pub const PER_HOST: usize = 4;
/// How many machines are made on one storage at once.
pub const PER_STORAGE: usize = 2;
/// How long a number rests after it was used: a late call that still means the old machine by it is over by then.
const REST: Duration = Duration::from_mins(10);
/// How long a promise holds that no list confirms.
const PROMISED: Duration = Duration::from_mins(2);
/// How long a turn lasts whose end is never heard of.
const LONGEST_TURN: Duration = Duration::from_mins(15);

/// All clusters that classes of this process use, by name: the name that stock is known by in catalogues.
#[derive(Default)]
pub struct Clusters(Mutex<BTreeMap<String, Arc<Shared>>>);

impl Clusters {
    /// The cluster of this name.
    pub(super) fn of(&self, cluster: &str) -> Arc<Shared> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(cluster.to_owned()).or_default())
    }
}

/// Where a machine is made: a host, and the storages of its disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Location {
    pub(super) host: String,
    /// Storages by name, and whether all hosts share them.
    pub(super) storages: BTreeMap<String, bool>,
}

impl Location {
    /// Everything that has a number of turns, and how many.
    fn turns(&self) -> impl Iterator<Item = (String, usize)> {
        let storages = self.storages.iter().map(|(name, shared)| {
            let owner = if *shared { "" } else { &self.host };
            (format!("storage {owner}/{name}"), PER_STORAGE)
        });
        std::iter::once((format!("host {}", self.host), PER_HOST)).chain(storages)
    }
}

/// A machine that is being made.
struct Making {
    location: Location,
    task: Option<Task>,
    since: Timestamp,
}

/// Who is at work where no turn is left: the name of the place, and the tasks whose end would free one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Occupied {
    pub(super) place: String,
    pub(super) by: BTreeMap<u32, Option<Task>>,
}

/// One cluster.
#[derive(Default)]
pub(super) struct Shared {
    /// Held while host and number of a machine are chosen.
    pub(super) placing: AsyncMutex<()>,
    room: Mutex<Room>,
}

#[derive(Default)]
struct Room {
    /// Room that is promised, by number, and since when.
    promises: BTreeMap<u32, (Promise, Timestamp)>,
    /// Numbers that were handed out or freed lately.
    recent: BTreeMap<u32, Timestamp>,
    /// What is being made, by number.
    making: BTreeMap<u32, Making>,
}

impl Shared {
    fn room(&self) -> MutexGuard<'_, Room> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tidy(&self, now: Timestamp) {
        let mut room = self.room();
        room.recent.retain(|_, at| within(*at, now, REST));
        room.promises
            .retain(|_, (_, at)| within(*at, now, PROMISED));
        room.making
            .retain(|_, one| within(one.since, now, LONGEST_TURN));
    }

    pub(super) fn promise(&self, vmid: u32, promise: Promise, now: Timestamp) {
        let mut room = self.room();
        room.promises.insert(vmid, (promise, now));
        room.recent.insert(vmid, now);
    }

    /// A promise is still needed: its machine is on its way.
    pub(super) fn confirm(&self, vmid: u32, now: Timestamp) {
        if let Some((_, at)) = self.room().promises.get_mut(&vmid) {
            *at = now;
        }
    }

    pub(super) fn withdraw(&self, vmid: u32) {
        self.room().promises.remove(&vmid);
    }

    pub(super) fn promises(&self) -> BTreeMap<u32, Promise> {
        let room = self.room();
        let all = room.promises.iter();
        all.map(|(vmid, (one, _))| (*vmid, one.clone())).collect()
    }

    pub(super) fn recent(&self) -> BTreeSet<u32> {
        self.room().recent.keys().copied().collect()
    }

    /// A machine that is gone.
    pub(super) fn forget(&self, vmid: u32, now: Timestamp) {
        let mut room = self.room();
        room.promises.remove(&vmid);
        room.making.remove(&vmid);
        room.recent.insert(vmid, now);
    }

    /// Takes a turn at everything that making a machine there needs, or says what has none left.
    pub(super) fn enter(
        &self,
        vmid: u32,
        location: &Location,
        now: Timestamp,
    ) -> Result<(), Occupied> {
        let mut room = self.room();
        room.making
            .retain(|_, one| within(one.since, now, LONGEST_TURN));
        for (place, most) in location.turns() {
            let others = room.making.iter().filter(|(other, one)| {
                **other != vmid && one.location.turns().any(|(used, _)| used == place)
            });
            let by: BTreeMap<u32, Option<Task>> = others
                .map(|(other, one)| (*other, one.task.clone()))
                .collect();
            if by.len() >= most {
                return Err(Occupied { place, by });
            }
        }
        let making = Making {
            location: location.clone(),
            task: None,
            since: now,
        };
        room.making.insert(vmid, making);
        Ok(())
    }

    /// What a turn is used for.
    pub(super) fn begun(&self, vmid: u32, task: &Task) {
        if let Some(one) = self.room().making.get_mut(&vmid) {
            one.task = Some(task.clone());
        }
    }

    /// Gives a turn back.
    pub(super) fn leave(&self, vmid: u32) {
        self.room().making.remove(&vmid);
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::Size;
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn location(host: &str, storages: &[(&str, bool)]) -> Location {
        let storages = storages.iter();
        Location {
            host: host.to_owned(),
            storages: storages
                .map(|(name, shared)| ((*name).to_owned(), *shared))
                .collect(),
        }
    }

    #[test]
    fn promises_and_numbers_are_forgotten_in_time() {
        let shared = Shared::default();
        let size = Size {
            cores: 1,
            memory_mib: 1024,
        };
        let promise = Promise {
            host: "n1".to_owned(),
            size,
        };
        shared.promise(1250, promise, at(0));
        shared.tidy(at(100));
        assert_eq!(shared.promises().len(), 1);
        shared.confirm(1250, at(100));
        shared.tidy(at(219));
        assert_eq!(shared.promises().len(), 1, "it is still on its way");
        shared.tidy(at(221));
        assert!(shared.promises().is_empty());
        assert!(shared.recent().contains(&1250));
        shared.tidy(at(601));
        assert!(shared.recent().is_empty());
    }

    #[test]
    fn a_host_and_a_storage_have_so_many_turns_and_no_more() {
        let shared = Shared::default();
        let diskless = location("n1", &[]);
        for vmid in 0..4 {
            assert_eq!(shared.enter(vmid, &diskless, at(0)), Ok(()));
        }
        let occupied = shared.enter(4, &diskless, at(0)).unwrap_err();
        assert_eq!(occupied.place, "host n1");
        assert_eq!(occupied.by.len(), PER_HOST);
        assert_eq!(
            shared.enter(2, &diskless, at(0)),
            Ok(()),
            "a machine that has a turn keeps it"
        );
        // A storage that all hosts share is one; one that they do not is another on each.
        for (vmid, host) in [(10, "n2"), (11, "n3")] {
            assert_eq!(
                shared.enter(vmid, &location(host, &[("ceph", true)]), at(0)),
                Ok(())
            );
        }
        let occupied = shared
            .enter(12, &location("n2", &[("ceph", true)]), at(0))
            .unwrap_err();
        assert_eq!(occupied.place, "storage /ceph");
        let own = location("n2", &[("local-zfs", false)]);
        assert_eq!(shared.enter(13, &own, at(0)), Ok(()));
        shared.leave(10);
        assert_eq!(
            shared.enter(12, &location("n2", &[("ceph", true)]), at(0)),
            Ok(())
        );
        // A turn whose end is never heard of ends.
        assert!(shared.enter(4, &diskless, at(899)).is_err());
        assert_eq!(shared.enter(4, &diskless, at(900)), Ok(()));
    }
}
