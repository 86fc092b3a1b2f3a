//! Objects of one kind, by key: never replaced by an older self, never brought back from the dead.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::name::Name;

use crate::edge::clock;

/// How long the identity of a deleted object is remembered: longer than any watch can be behind.
const TOMBSTONE: Duration = Duration::from_mins(10);

/// An object that can be kept.
pub trait Stored {
    /// What it is found by.
    type Key: Clone + Ord;
    /// Its key.
    fn key(&self) -> Self::Key;
    /// Its identity.
    fn uid(&self) -> &Name;
    /// Its version; grows with every change.
    fn version(&self) -> u64;
}

/// What a write to the store did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    /// It is new, or newer than what was there.
    Applied {
        /// What was there.
        before: Option<Arc<T>>,
    },
    /// What is there is newer, or it is known to be gone.
    Ignored,
}

/// A relist under way.
#[derive(Debug)]
struct Listing<K> {
    keys: BTreeSet<K>,
    newest: u64,
}

/// Objects of one kind.
#[derive(Debug)]
pub struct Store<T: Stored> {
    objects: BTreeMap<T::Key, Arc<T>>,
    tombstones: BTreeMap<Name, Timestamp>,
    /// Lists under way, by source: several may feed one store, each with its own part of the objects.
    listings: BTreeMap<Name, Listing<T::Key>>,
    /// Which source an object was last seen by; what we wrote ourselves has none yet.
    origins: BTreeMap<T::Key, Name>,
    sources: BTreeSet<Name>,
    doubtful: BTreeSet<T::Key>,
}

impl<T: Stored> Default for Store<T> {
    fn default() -> Self {
        Store {
            objects: BTreeMap::new(),
            tombstones: BTreeMap::new(),
            listings: BTreeMap::new(),
            origins: BTreeMap::new(),
            sources: BTreeSet::new(),
            doubtful: BTreeSet::new(),
        }
    }
}

impl<T: Stored> Store<T> {
    /// One object.
    pub fn get(&self, key: &T::Key) -> Option<&Arc<T>> {
        self.objects.get(key)
    }

    /// All objects, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.objects.values()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Takes in what was seen by a source, or written by ourselves: then `source` is empty.
    pub fn apply(&mut self, object: T, source: &str) -> Outcome<T> {
        let key = object.key();
        if !source.is_empty()
            && self
                .origins
                .get(&key)
                .is_none_or(|known| &**known != source)
        {
            self.origins.insert(key.clone(), source.into());
        }
        if let Some(listing) = self.listings.get_mut(source) {
            listing.keys.insert(key.clone());
            listing.newest = listing.newest.max(object.version());
        }
        if self.tombstones.contains_key(object.uid()) {
            return Outcome::Ignored;
        }
        if let Some(known) = self.objects.get(&key) {
            let same = known.uid() == object.uid();
            // Of two objects with one name the one with the later version is the living one.
            let stale = if same {
                object.version() <= known.version()
            } else {
                object.version() < known.version()
            };
            if stale && object.version() != u64::MAX {
                return Outcome::Ignored;
            }
        }
        self.doubtful.remove(&key);
        let before = self.objects.insert(key, Arc::new(object));
        Outcome::Applied { before }
    }

    /// Takes out what is gone; another object of that name stays.
    pub fn remove(&mut self, key: &T::Key, uid: &Name, now: Timestamp) -> Option<Arc<T>> {
        self.tombstones
            .retain(|_, at| clock::since(now, *at) < TOMBSTONE);
        self.tombstones.insert(uid.clone(), now);
        self.doubtful.remove(key);
        if self
            .objects
            .get(key)
            .is_some_and(|known| known.uid() == uid)
        {
            self.origins.remove(key);
            return self.objects.remove(key);
        }
        None
    }

    /// A new list begins.
    pub fn start(&mut self, source: &str) {
        self.sources.insert(source.into());
        let listing = Listing {
            keys: BTreeSet::new(),
            newest: 0,
        };
        self.listings.insert(source.into(), listing);
    }

    /// The list is complete: what it does not have is gone, unless it is newer than anything in the list. Then the list
    /// may simply be old, and the object is doubtful until the watch or a read decides. What is there but cannot be read
    /// any more stays as it was last understood. Returns what is gone.
    pub fn complete(
        &mut self,
        source: &str,
        now: Timestamp,
        unreadable: impl Fn(&Name) -> bool,
    ) -> Vec<Arc<T>> {
        let Some(listing) = self.listings.remove(source) else {
            return Vec::new();
        };
        // What another source has seen is none of this one's business.
        let own = |key: &T::Key| {
            self.origins
                .get(key)
                .is_none_or(|origin| &**origin == source)
        };
        let absent: Vec<Arc<T>> = self
            .objects
            .iter()
            .filter(|(key, _)| !listing.keys.contains(key) && own(key))
            .map(|(_, object)| object.clone())
            .collect();
        let mut gone = Vec::new();
        for object in absent {
            if unreadable(object.uid()) {
                continue;
            }
            // What nobody has seen yet may belong to another source.
            let unseen = self.sources.len() > 1 && !self.origins.contains_key(&object.key());
            if unseen || object.version() > listing.newest {
                self.doubtful.insert(object.key());
            } else {
                gone.extend(self.remove(&object.key(), object.uid(), now));
            }
        }
        gone
    }

    /// A read did not find it, and reads can be old: it is doubtful until the watch or another read decides.
    pub fn doubt(&mut self, key: &T::Key) {
        if self.objects.contains_key(key) {
            self.doubtful.insert(key.clone());
        }
    }

    /// What a list or a read left open.
    pub fn doubtful(&self) -> impl Iterator<Item = &T::Key> {
        self.doubtful.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Thing(&'static str, Name, u64);

    impl Stored for Thing {
        type Key = &'static str;
        fn key(&self) -> &'static str {
            self.0
        }
        fn uid(&self) -> &Name {
            &self.1
        }
        fn version(&self) -> u64 {
            self.2
        }
    }

    fn thing(name: &'static str, uid: &str, version: u64) -> Thing {
        Thing(name, uid.into(), version)
    }

    const SOURCE: &str = "things";

    fn now() -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    #[test]
    fn an_object_is_never_replaced_by_an_older_self() {
        let mut store = Store::default();
        store.apply(thing("a", "1", 5), SOURCE);
        assert_eq!(store.apply(thing("a", "1", 4), SOURCE), Outcome::Ignored);
        assert_eq!(store.apply(thing("a", "1", 5), SOURCE), Outcome::Ignored);
        assert!(matches!(
            store.apply(thing("a", "1", 6), SOURCE),
            Outcome::Applied { before: Some(_) }
        ));
    }

    #[test]
    fn a_deleted_object_does_not_come_back_but_its_name_may() {
        let mut store = Store::default();
        store.apply(thing("a", "1", 5), SOURCE);
        assert!(store.remove(&"a", &"1".into(), now()).is_some());
        assert_eq!(store.apply(thing("a", "1", 7), SOURCE), Outcome::Ignored);
        assert!(matches!(
            store.apply(thing("a", "2", 8), SOURCE),
            Outcome::Applied { before: None }
        ));
        assert_eq!(store.remove(&"a", &"1".into(), now()), None);
        assert_eq!(store.len(), 1);
    }

    #[test]
    fn what_a_read_did_not_find_stays_until_the_watch_says_that_it_is_gone() {
        let mut store = Store::default();
        store.apply(thing("a", "1", 5), SOURCE);
        store.doubt(&"a");
        store.doubt(&"unknown");
        assert_eq!(store.doubtful().collect::<Vec<_>>(), [&"a"]);
        store.apply(thing("a", "1", 6), SOURCE);
        assert_eq!(store.doubtful().count(), 0);
    }

    #[test]
    fn a_list_removes_what_it_lacks_but_not_what_is_newer_than_it() {
        let mut store = Store::default();
        store.apply(thing("old", "1", 5), SOURCE);
        store.apply(thing("own", "2", 20), SOURCE);
        store.start(SOURCE);
        store.apply(thing("other", "3", 10), SOURCE);
        let gone = store.complete(SOURCE, now(), |_| false);
        assert_eq!(gone.iter().map(|one| one.0).collect::<Vec<_>>(), ["old"]);
        assert_eq!(store.doubtful().collect::<Vec<_>>(), [&"own"]);
        store.apply(thing("own", "2", 21), SOURCE);
        assert_eq!(store.doubtful().count(), 0);
    }

    #[test]
    fn a_list_of_one_source_says_nothing_about_what_another_has_seen() {
        let mut store = Store::default();
        for (source, name) in [("red", "a"), ("blue", "b")] {
            store.start(source);
            store.apply(thing(name, name, 5), source);
            assert!(store.complete(source, now(), |_| false).is_empty());
        }
        store.apply(thing("own", "own", 6), "");
        assert_eq!(store.len(), 3);
        // Both list at once, and one of them has lost its object.
        store.start("red");
        store.start("blue");
        store.apply(thing("b", "b", 7), "blue");
        store.apply(thing("c", "c", 9), "red");
        let gone = store.complete("red", now(), |_| false);
        assert_eq!(gone.iter().map(|one| one.0).collect::<Vec<_>>(), ["a"]);
        assert!(store.complete("blue", now(), |_| false).is_empty());
        assert_eq!(store.doubtful().collect::<Vec<_>>(), [&"own"]);
    }

    #[test]
    fn tombstones_do_not_pile_up() {
        let mut store: Store<Thing> = Store::default();
        let later = clock::after(now(), TOMBSTONE * 2);
        for uid in 0..100 {
            store.remove(&"x", &uid.to_string().into(), now());
        }
        store.remove(&"x", &"last".into(), later);
        assert_eq!(store.tombstones.len(), 1);
    }
}
