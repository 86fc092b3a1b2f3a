//! Keys that want attention: each at most once at a time, at the earliest time that anybody asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

/// A queue of keys.
#[derive(Debug)]
pub struct Queue<K>(Arc<Shared<K>>);

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Queue(self.0.clone())
    }
}

#[derive(Debug)]
struct Shared<K> {
    state: Mutex<State<K>>,
    changed: Notify,
}

#[derive(Debug)]
struct State<K> {
    due: BTreeSet<(Instant, K)>,
    when: BTreeMap<K, Instant>,
    running: BTreeMap<K, Option<Instant>>,
}

impl<K: Clone + Ord> Default for Queue<K> {
    fn default() -> Self {
        Queue(Arc::new(Shared {
            state: Mutex::new(State {
                due: BTreeSet::new(),
                when: BTreeMap::new(),
                running: BTreeMap::new(),
            }),
            changed: Notify::new(),
        }))
    }
}

impl<K: Clone + Ord> Queue<K> {
    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wants `key` looked at now.
    pub fn add(&self, key: K) {
        self.add_at(key, Instant::now());
    }

    /// Wants `key` looked at then, or earlier if somebody else does.
    pub fn add_at(&self, key: K, at: Instant) {
        self.state().put(key, at);
        self.0.changed.notify_one();
    }

    /// How many keys wait.
    pub fn len(&self) -> usize {
        self.state().due.len()
    }

    /// Whether no key waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The next key whose time has come. It is not given out again until the ticket is dropped.
    pub async fn next(&self) -> Ticket<K> {
        loop {
            let changed = self.0.changed.notified();
            let soonest = {
                let mut state = self.state();
                let first = state.due.first().cloned();
                match first {
                    Some((at, key)) if at <= Instant::now() => {
                        state.due.remove(&(at, key.clone()));
                        state.when.remove(&key);
                        state.running.insert(key.clone(), None);
                        return Ticket {
                            key,
                            queue: self.clone(),
                        };
                    }
                    other => other.map(|(at, _)| at),
                }
            };
            match soonest {
                Some(at) => {
                    tokio::select! {
                        biased;
                        () = changed => {}
                        () = tokio::time::sleep_until(at) => {}
                    }
                }
                None => changed.await,
            }
        }
    }
}

impl<K: Clone + Ord> State<K> {
    fn put(&mut self, key: K, at: Instant) {
        if let Some(again) = self.running.get_mut(&key) {
            *again = Some(again.map_or(at, |known| known.min(at)));
            return;
        }
        if let Some(known) = self.when.get(&key) {
            if *known <= at {
                return;
            }
            self.due.remove(&(*known, key.clone()));
        }
        self.when.insert(key.clone(), at);
        self.due.insert((at, key));
    }
}

/// A key that is being looked at.
pub struct Ticket<K: Clone + Ord> {
    /// The key.
    pub key: K,
    queue: Queue<K>,
}

impl<K: Clone + Ord> Drop for Ticket<K> {
    fn drop(&mut self) {
        let mut state = self.queue.state();
        if let Some(Some(again)) = state.running.remove(&self.key) {
            state.put(self.key.clone(), again);
        }
        drop(state);
        self.queue.0.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_key_is_never_given_out_twice_at_once_and_never_lost() {
        let queue = Queue::default();
        queue.add("a");
        let ticket = queue.next().await;
        queue.add("a");
        queue.add("b");
        assert_eq!(queue.next().await.key, "b");
        assert!(queue.is_empty());
        drop(ticket);
        assert_eq!(queue.next().await.key, "a");
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_wish_counts() {
        let queue = Queue::default();
        let now = Instant::now();
        queue.add_at("a", now + Duration::from_mins(1));
        queue.add_at("a", now + Duration::from_secs(5));
        queue.add_at("a", now + Duration::from_mins(2));
        let ticket = queue.next().await;
        assert_eq!((ticket.key, now.elapsed()), ("a", Duration::from_secs(5)));
        drop(ticket);
        assert!(queue.is_empty());
    }
}
