//! Pods that wait for a place.
//!
//! ```text
//!   new pod ──► active ──► attempt ──► bound
//!                 ▲           │ no node will do
//!                 │           ▼
//!   backoff ◄── something changed ◄── stuck        (gated pods wait for their gates outside)
//! ```
//!
//! kubernetes: `backend/queue/scheduling_queue.go`. A stuck pod is tried again only when something changed that its
//! rejections depend on, no sooner than its backoff, and after five minutes in any case.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::filter::Plugin;
use super::pod::PodInfo;
use crate::cluster::Key;

/// The first wait after a failed attempt.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait after failed attempts.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// A stuck pod is tried again after this long, whatever happened (or was missed).
const LONGEST_STUCK: Duration = Duration::from_mins(5);

/// The order in which pods are tried: by priority, then first come, first served.
type Turn = (Reverse<i64>, u64, Key);

/// Where a waiting pod is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    Active(Turn),
    Backoff(Instant),
    Stuck {
        plugins: BTreeSet<Plugin>,
        since: Instant,
        not_before: Instant,
    },
    Gated,
}

#[derive(Debug)]
struct Waiting {
    pod: Arc<PodInfo>,
    attempts: u32,
    stage: Stage,
}

/// All pods that wait for a place.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    pods: BTreeMap<Key, Waiting>,
    active: BTreeSet<Turn>,
    backoff: BTreeSet<(Instant, Key)>,
    /// By when they got stuck.
    stuck: BTreeSet<(Instant, Key)>,
    arrivals: u64,
}

impl Pending {
    /// Takes in a new pod or a new state of one. What changed about the pod itself may be what it was stuck on.
    pub(crate) fn put(&mut self, pod: Arc<PodInfo>) {
        let key = pod.key.clone();
        let attempts = self.detach(&key).map_or(0, |held| held.attempts);
        let stage = if pod.gates.is_empty() {
            self.turn(&pod)
        } else {
            Stage::Gated
        };
        self.attach(
            key,
            Waiting {
                pod,
                attempts,
                stage,
            },
        );
    }

    /// Takes in a pod whose place was found and could not be taken: it is tried again after its backoff, whatever
    /// happens. At once would be a loop without end where the server goes on refusing.
    pub(crate) fn retry(&mut self, pod: Arc<PodInfo>, now: Instant) {
        let key = pod.key.clone();
        let attempts = self.detach(&key).map_or(1, |held| held.attempts.max(1));
        let stage = Stage::Backoff(now + backoff(attempts));
        self.attach(
            key,
            Waiting {
                pod,
                attempts,
                stage,
            },
        );
    }

    /// Replaces what is known of a pod without moving it.
    pub(crate) fn refresh(&mut self, pod: Arc<PodInfo>) {
        if let Some(held) = self.pods.get_mut(&pod.key) {
            held.pod = pod;
        }
    }

    /// The pod of that key.
    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<PodInfo>> {
        self.pods.get(key).map(|held| &held.pod)
    }

    /// Forgets a pod.
    pub(crate) fn remove(&mut self, key: &Key) {
        self.detach(key);
    }

    /// The next pod to try. It stays known until it is removed or called stuck.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Arc<PodInfo>> {
        self.wake(now);
        let (_, _, key) = self.active.first()?.clone();
        let mut held = self.detach(&key)?;
        held.attempts += 1;
        let pod = Arc::clone(&held.pod);
        // Until the attempt's outcome is told, the pod counts as stuck on nothing in particular.
        held.stage = stuck(BTreeSet::new(), now, held.attempts);
        self.attach(key, held);
        Some(pod)
    }

    /// Notes that no node would do, and which rules said so.
    pub(crate) fn stick(&mut self, key: &Key, plugins: BTreeSet<Plugin>, now: Instant) {
        if let Some(mut held) = self.detach(key) {
            held.stage = stuck(plugins, now, held.attempts);
            self.attach(key.clone(), held);
        }
    }

    /// Tries stuck pods again for which `helps` says that what happened may help.
    pub(crate) fn stir(
        &mut self,
        now: Instant,
        helps: impl Fn(&PodInfo, &BTreeSet<Plugin>) -> bool,
    ) {
        let moved: Vec<Key> = self
            .stuck
            .iter()
            .map(|(_, key)| key)
            .filter(|key| {
                self.pods.get(key).is_some_and(|held| match &held.stage {
                    Stage::Stuck { plugins, .. } => plugins.is_empty() || helps(&held.pod, plugins),
                    _ => false,
                })
            })
            .cloned()
            .collect();
        for key in moved {
            self.unstick(&key, now);
        }
    }

    /// When there will be something to do, if there is nothing now.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let backoff = self.backoff.first().map(|(at, _)| *at);
        let oldest = self.stuck.first().map(|(since, _)| *since + LONGEST_STUCK);
        backoff.into_iter().chain(oldest).min()
    }

    fn wake(&mut self, now: Instant) {
        while let Some((at, key)) = self.backoff.first().cloned() {
            if at > now {
                break;
            }
            self.activate(&key);
        }
        while let Some((since, key)) = self.stuck.first().cloned() {
            if since + LONGEST_STUCK > now {
                break;
            }
            self.activate(&key);
        }
    }

    fn unstick(&mut self, key: &Key, now: Instant) {
        let Some(Stage::Stuck { not_before, .. }) = self.pods.get(key).map(|held| &held.stage)
        else {
            return;
        };
        let not_before = *not_before;
        if not_before <= now {
            self.activate(key);
        } else if let Some(mut held) = self.detach(key) {
            held.stage = Stage::Backoff(not_before);
            self.attach(key.clone(), held);
        }
    }

    fn activate(&mut self, key: &Key) {
        if let Some(mut held) = self.detach(key) {
            held.stage = self.turn(&held.pod);
            self.attach(key.clone(), held);
        }
    }

    fn turn(&mut self, pod: &PodInfo) -> Stage {
        self.arrivals += 1;
        Stage::Active((Reverse(pod.priority), self.arrivals, pod.key.clone()))
    }

    fn attach(&mut self, key: Key, waiting: Waiting) {
        match &waiting.stage {
            Stage::Active(turn) => {
                self.active.insert(turn.clone());
            }
            Stage::Backoff(at) => {
                self.backoff.insert((*at, key.clone()));
            }
            Stage::Stuck { since, .. } => {
                self.stuck.insert((*since, key.clone()));
            }
            Stage::Gated => {}
        }
        self.pods.insert(key, waiting);
    }

    fn detach(&mut self, key: &Key) -> Option<Waiting> {
        let held = self.pods.remove(key)?;
        match &held.stage {
            Stage::Active(turn) => {
                self.active.remove(turn);
            }
            Stage::Backoff(at) => {
                self.backoff.remove(&(*at, key.clone()));
            }
            Stage::Stuck { since, .. } => {
                self.stuck.remove(&(*since, key.clone()));
            }
            Stage::Gated => {}
        }
        Some(held)
    }
}

fn backoff(attempts: u32) -> Duration {
    let doublings = attempts.saturating_sub(1).min(10);
    FIRST_WAIT.saturating_mul(1 << doublings).min(LONGEST_WAIT)
}

fn stuck(plugins: BTreeSet<Plugin>, now: Instant, attempts: u32) -> Stage {
    Stage::Stuck {
        plugins,
        since: now,
        not_before: now + backoff(attempts),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, priority: i64) -> Arc<PodInfo> {
        Arc::new(PodInfo::read(
            &json!({"metadata": {"name": name}, "spec": {"priority": priority}}),
        ))
    }

    #[tokio::test(start_paused = true)]
    async fn priority_goes_before_arrival() {
        let now = Instant::now();
        let mut pending = Pending::default();
        for one in [pod("a", 0), pod("b", 5), pod("c", 0)] {
            pending.put(one);
        }
        let order: Vec<_> = std::iter::from_fn(|| pending.pop(now)).collect();
        let names: Vec<_> = order.iter().map(|pod| pod.key.name.as_str()).collect();
        assert_eq!(names, ["b", "a", "c"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stuck_pod_waits_for_a_change_that_helps_and_for_its_backoff() {
        let now = Instant::now();
        let mut pending = Pending::default();
        pending.put(pod("a", 0));
        let key = pending.pop(now).unwrap().key.clone();
        pending.stick(&key, BTreeSet::from([Plugin::NodeResourcesFit]), now);
        pending.stir(now, |_, plugins| plugins.contains(&Plugin::NodePorts));
        assert_eq!(pending.next_due(), Some(now + LONGEST_STUCK));
        pending.stir(now, |_, plugins| {
            plugins.contains(&Plugin::NodeResourcesFit)
        });
        assert!(pending.pop(now).is_none());
        assert_eq!(pending.next_due(), Some(now + FIRST_WAIT));
        assert!(pending.pop(now + FIRST_WAIT).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_pod_waits_for_its_backoff_and_no_longer() {
        let now = Instant::now();
        let mut pending = Pending::default();
        pending.put(pod("a", 0));
        let refused = pending.pop(now).unwrap();
        pending.retry(refused, now);
        assert!(pending.pop(now).is_none());
        assert_eq!(pending.next_due(), Some(now + FIRST_WAIT));
        assert!(pending.pop(now + FIRST_WAIT).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stuck_pod_is_tried_again_after_five_minutes_in_any_case() {
        let now = Instant::now();
        let mut pending = Pending::default();
        pending.put(pod("a", 0));
        let key = pending.pop(now).unwrap().key.clone();
        pending.stick(&key, BTreeSet::from([Plugin::NodeResourcesFit]), now);
        assert!(pending.pop(now + LONGEST_STUCK - FIRST_WAIT).is_none());
        assert!(pending.pop(now + LONGEST_STUCK).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn gated_pods_are_not_tried_until_the_gates_are_gone() {
        let now = Instant::now();
        let mut pending = Pending::default();
        let gated =
            json!({"metadata": {"name": "a"}, "spec": {"schedulingGates": [{"name": "g"}]}});
        pending.put(Arc::new(PodInfo::read(&gated)));
        assert!(pending.pop(now).is_none());
        pending.put(pod("a", 0));
        assert!(pending.pop(now).is_some());
    }
}
