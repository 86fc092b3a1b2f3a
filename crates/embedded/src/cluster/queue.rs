//! A work queue: each key at most once, in the order of arrival, now or at a later time, with backoff after failures.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

/// The first wait after a failure (client-go: `DefaultControllerRateLimiter`).
const FIRST_WAIT: Duration = Duration::from_millis(5);
/// The longest wait after failures; shorter than client-go's 1000 s, since simulated time is watched by people and tests.
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// Keys waiting to be worked on.
#[derive(Debug)]
pub(crate) struct Queue<K> {
    ready: VecDeque<K>,
    queued: BTreeSet<K>,
    later: BTreeSet<(Instant, K)>,
    due: BTreeMap<K, Instant>,
    failures: BTreeMap<K, u32>,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self {
            ready: VecDeque::new(),
            queued: BTreeSet::new(),
            later: BTreeSet::new(),
            due: BTreeMap::new(),
            failures: BTreeMap::new(),
        }
    }
}

impl<K: Ord + Clone> Queue<K> {
    /// Adds a key to work on now.
    pub(crate) fn add(&mut self, key: K) {
        if self.queued.insert(key.clone()) {
            self.ready.push_back(key);
        }
    }

    /// Adds a key to work on at a time; an earlier time already given stands.
    pub(crate) fn add_at(&mut self, key: K, at: Instant) {
        if let Some(&held) = self.due.get(&key) {
            if held <= at {
                return;
            }
            self.later.remove(&(held, key.clone()));
        }
        self.due.insert(key.clone(), at);
        self.later.insert((at, key));
    }

    /// Adds a key again after a failure, later each time.
    pub(crate) fn retry(&mut self, key: K, now: Instant) {
        let failures = self.failures.entry(key.clone()).or_default();
        let wait = FIRST_WAIT
            .saturating_mul(1 << (*failures).min(20))
            .min(LONGEST_WAIT);
        *failures += 1;
        self.add_at(key, now + wait);
    }

    /// Forgets the failures of a key that was worked on well.
    pub(crate) fn forget(&mut self, key: &K) {
        self.failures.remove(key);
    }

    /// The next key that is due.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<K> {
        while let Some((at, key)) = self.later.first().cloned() {
            if at > now {
                break;
            }
            self.later.pop_first();
            self.due.remove(&key);
            self.add(key);
        }
        let key = self.ready.pop_front()?;
        self.queued.remove(&key);
        Some(key)
    }

    /// When the next key becomes due, if none is now.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.later.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_key_is_queued_once_and_in_order() {
        let now = Instant::now();
        let mut queue = Queue::default();
        for key in ["b", "a", "b"] {
            queue.add(key);
        }
        assert_eq!(queue.pop(now), Some("b"));
        assert_eq!(queue.pop(now), Some("a"));
        assert_eq!(queue.pop(now), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_of_several_times_counts() {
        let now = Instant::now();
        let second = Duration::from_secs(1);
        let mut queue = Queue::default();
        queue.add_at("a", now + second * 3);
        queue.add_at("a", now + second);
        queue.add_at("a", now + second * 2);
        assert_eq!(queue.next_due(), Some(now + second));
        assert_eq!(queue.pop(now), None);
        assert_eq!(queue.pop(now + second), Some("a"));
        assert_eq!(queue.pop(now + second * 5), None);
    }

    #[tokio::test(start_paused = true)]
    async fn failures_wait_longer_each_time_until_forgotten() {
        let now = Instant::now();
        let mut queue = Queue::default();
        queue.retry("a", now);
        assert_eq!(queue.next_due(), Some(now + FIRST_WAIT));
        queue.pop(now + FIRST_WAIT);
        queue.retry("a", now);
        assert_eq!(queue.next_due(), Some(now + FIRST_WAIT * 2));
        queue.pop(now + FIRST_WAIT * 2);
        queue.forget(&"a");
        queue.retry("a", now);
        assert_eq!(queue.next_due(), Some(now + FIRST_WAIT));
    }
}
