//! The store: objects by resource and key, one global resource version, a bounded history.
//!
//! The history serves three readers: watches that resume, pages of a list that must all show the
//! same moment, and reads of an exact version. Each event carries the object before and after, so
//! the past is the present with the newer events undone.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use serde_json::Value;
use tokio::sync::mpsc;

use super::{local::ChangeKind, meta};

/// A committed change.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) version: u64,
    pub(crate) kind: ChangeKind,
    pub(crate) key: String,
    /// The object after the change; for a deletion its last state, carrying the new version.
    pub(crate) object: Arc<Value>,
    pub(crate) previous: Option<Arc<Value>>,
}

/// Changes as they are committed.
pub(crate) type Events = mpsc::UnboundedReceiver<Arc<Event>>;

/// The history does not reach back that far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Compacted;

#[derive(Debug, Default)]
struct Table {
    objects: BTreeMap<String, Arc<Value>>,
    history: VecDeque<Arc<Event>>,
    /// Versions up to and including this one can't be resumed from.
    compacted: u64,
    watchers: Vec<mpsc::UnboundedSender<Arc<Event>>>,
}

/// All objects of the embedded cluster.
#[derive(Debug)]
pub(crate) struct Store {
    tables: BTreeMap<String, Table>,
    version: u64,
    history_limit: usize,
}

/// A moment of one table.
pub(crate) struct Snapshot {
    pub(crate) objects: Vec<(String, Arc<Value>)>,
}

/// The key of an object: what follows the resource in its path.
pub(crate) fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() {
        name.to_owned()
    } else {
        format!("{namespace}/{name}")
    }
}

fn in_namespace(key: &str, namespace: &str) -> bool {
    namespace.is_empty()
        || key
            .strip_prefix(namespace)
            .is_some_and(|rest| rest.starts_with('/'))
}

impl Store {
    pub(crate) fn new(history_limit: usize) -> Self {
        // Version 1 is the empty store, as in etcd: 0 means "any" to clients.
        Self {
            tables: BTreeMap::new(),
            version: 1,
            history_limit,
        }
    }

    /// The newest resource version.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn get(&self, table: &str, key: &str) -> Option<&Arc<Value>> {
        self.tables.get(table)?.objects.get(key)
    }

    /// Objects of a table in key order, of one namespace or all.
    pub(crate) fn iter<'a>(
        &'a self,
        table: &str,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a String, &'a Arc<Value>)> {
        let from = if namespace.is_empty() {
            String::new()
        } else {
            format!("{namespace}/")
        };
        self.tables
            .get(table)
            .into_iter()
            .flat_map(move |table| table.objects.range(from.clone()..))
            .take_while(move |(key, _)| in_namespace(key, namespace))
    }

    pub(crate) fn len(&self, table: &str) -> usize {
        self.tables
            .get(table)
            .map_or(0, |table| table.objects.len())
    }

    /// The table as it was right after `version`.
    pub(crate) fn snapshot_at(
        &self,
        table: &str,
        namespace: &str,
        version: u64,
    ) -> Result<Snapshot, Compacted> {
        let current: Vec<_> = self
            .iter(table, namespace)
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        let Some(found) = self.tables.get(table) else {
            return Ok(Snapshot { objects: current });
        };
        if version < found.compacted {
            return Err(Compacted);
        }
        let mut newer = found
            .history
            .iter()
            .rev()
            .take_while(|event| event.version > version)
            .peekable();
        if newer.peek().is_none() {
            return Ok(Snapshot { objects: current });
        }
        let mut objects: BTreeMap<String, Arc<Value>> = current.into_iter().collect();
        for event in newer.filter(|event| in_namespace(&event.key, namespace)) {
            match &event.previous {
                Some(previous) => objects.insert(event.key.clone(), previous.clone()),
                None => objects.remove(&event.key),
            };
        }
        Ok(Snapshot {
            objects: objects.into_iter().collect(),
        })
    }

    /// Events after `version`, and a channel with all that follow.
    pub(crate) fn subscribe_after(
        &mut self,
        table: &str,
        version: u64,
    ) -> Result<(Vec<Arc<Event>>, Events), Compacted> {
        let found = self.tables.entry(table.to_owned()).or_default();
        if version < found.compacted {
            return Err(Compacted);
        }
        let missed = found
            .history
            .iter()
            .filter(|event| event.version > version)
            .cloned()
            .collect();
        Ok((missed, found.subscribe()))
    }

    /// A channel with every event from now on.
    pub(crate) fn subscribe(&mut self, table: &str) -> Events {
        self.tables.entry(table.to_owned()).or_default().subscribe()
    }

    /// Commits an object. The store stamps the resource version.
    pub(crate) fn put(&mut self, table: &str, key: String, mut object: Value) -> Arc<Event> {
        self.version += 1;
        meta::set(&mut object, "resourceVersion", self.version.to_string());
        let object = Arc::new(object);
        let found = self.tables.entry(table.to_owned()).or_default();
        let previous = found.objects.insert(key.clone(), object.clone());
        let kind = if previous.is_some() {
            ChangeKind::Modified
        } else {
            ChangeKind::Added
        };
        let event = Event {
            version: self.version,
            kind,
            key,
            object,
            previous,
        };
        found.commit(event, self.history_limit)
    }

    /// Removes an object.
    pub(crate) fn remove(&mut self, table: &str, key: &str) -> Option<Arc<Event>> {
        let found = self.tables.get_mut(table)?;
        let previous = found.objects.remove(key)?;
        self.version += 1;
        let mut object = (*previous).clone();
        meta::set(&mut object, "resourceVersion", self.version.to_string());
        let event = Event {
            version: self.version,
            kind: ChangeKind::Deleted,
            key: key.to_owned(),
            object: Arc::new(object),
            previous: Some(previous),
        };
        Some(found.commit(event, self.history_limit))
    }

    /// Forgets all history, so that every resume from an older version is refused.
    pub(crate) fn compact(&mut self) {
        let version = self.version;
        for table in self.tables.values_mut() {
            table.history.clear();
            table.compacted = version;
        }
    }

    /// Ends every watch of a table, or of all tables.
    pub(crate) fn cut_watches(&mut self, table: Option<&str>) {
        for (name, found) in &mut self.tables {
            if table.is_none_or(|table| table == name) {
                found.watchers.clear();
            }
        }
    }

    /// Begins a table whose past before now nobody knows.
    pub(crate) fn open_table(&mut self, table: &str) {
        let version = self.version;
        self.tables
            .entry(table.to_owned())
            .or_insert_with(|| Table {
                compacted: version,
                ..Table::default()
            });
    }

    /// Drops a table with its history and ends its watches.
    pub(crate) fn drop_table(&mut self, table: &str) {
        self.tables.remove(table);
    }
}

impl Table {
    fn subscribe(&mut self) -> Events {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.watchers.push(sender);
        receiver
    }

    fn commit(&mut self, event: Event, limit: usize) -> Arc<Event> {
        let event = Arc::new(event);
        self.watchers
            .retain(|watcher| watcher.send(event.clone()).is_ok());
        self.history.push_back(event.clone());
        while self.history.len() > limit {
            if let Some(gone) = self.history.pop_front() {
                self.compacted = gone.version;
            }
        }
        event
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(name: &str, value: i64) -> Value {
        json!({"metadata": {"name": name}, "value": value})
    }

    fn values(snapshot: &Snapshot) -> Vec<(String, i64)> {
        snapshot
            .objects
            .iter()
            .map(|(key, object)| (key.clone(), object["value"].as_i64().unwrap()))
            .collect()
    }

    #[test]
    fn every_commit_takes_the_next_version() {
        let mut store = Store::new(10);
        let one = store.put("pods", key("a", "x"), object("x", 1));
        let two = store.put("nodes", key("", "n"), object("n", 1));
        assert_eq!((one.version, two.version), (2, 3));
        assert_eq!(two.object["metadata"]["resourceVersion"], "3");
    }

    #[test]
    fn snapshot_shows_the_past_until_it_is_compacted() {
        let mut store = Store::new(3);
        store.put("pods", key("a", "x"), object("x", 1));
        let then = store.version();
        store.put("pods", key("a", "x"), object("x", 2));
        store.put("pods", key("a", "y"), object("y", 1));
        store.remove("pods", "a/x");
        let past = store.snapshot_at("pods", "a", then).unwrap();
        assert_eq!(values(&past), [("a/x".to_owned(), 1)]);
        store.put("pods", key("a", "z"), object("z", 1));
        assert!(store.snapshot_at("pods", "a", then).is_err());
    }

    #[test]
    fn namespaces_that_share_a_prefix_are_kept_apart() {
        let mut store = Store::new(10);
        store.put("pods", key("team", "x"), object("x", 1));
        store.put("pods", key("team-b", "y"), object("y", 1));
        assert_eq!(store.iter("pods", "team").count(), 1);
        assert_eq!(store.iter("pods", "").count(), 2);
    }

    #[test]
    fn a_watch_resumes_after_the_version_it_saw_last() {
        let mut store = Store::new(10);
        store.put("pods", key("a", "x"), object("x", 1));
        let seen = store.version();
        store.put("pods", key("a", "x"), object("x", 2));
        let (missed, mut follow) = store.subscribe_after("pods", seen).unwrap();
        assert_eq!(missed.len(), 1);
        store.remove("pods", "a/x");
        assert_eq!(follow.try_recv().unwrap().kind, ChangeKind::Deleted);
        store.compact();
        assert_eq!(store.subscribe_after("pods", seen).err(), Some(Compacted));
    }
}
