//! What was heard from the cloud and the API server. It can be lost at any time: everything in it can be asked again.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::name::Name;
use joiner_providers::{Machine, NodeLink, ProviderError};

use crate::edge::clients::WriteError;
use crate::edge::clock;

/// The first wait after a failure, and the longest.
///
/// karpenter: pkg/controllers/nodeclaim/lifecycle/controller.go, its rate limiter
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
/// The same for evictions.
///
/// karpenter: pkg/controllers/node/termination/terminator/eviction.go
const EVICT: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));
/// After so many failures in a row that are no answer they are told: a connection that breaks now and then is no news.
const TOLD: u32 = 3;
/// How often a cloud is asked about a machine that is on its way.
pub(super) const POLL: Duration = Duration::from_secs(10);

/// What the cloud last said about the machine.
#[derive(Clone, Debug, PartialEq)]
pub enum ProviderAnswer {
    /// It is there.
    Here(Box<Machine>),
    /// There is none; since when it says so, and how often it did.
    Absent {
        /// First time.
        since: Timestamp,
        /// Number of times in a row.
        times: u32,
    },
}

/// How the eviction of a pod goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Eviction {
    /// When to try again.
    pub next: Timestamp,
    /// How often it was refused.
    pub refusals: u32,
    /// What holds it back.
    pub blocked: Option<String>,
}

/// What was heard about one machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// What the cloud last said.
    pub cloud: Option<ProviderAnswer>,
    /// How its node is told from others; known even when the cloud no longer has it.
    pub links: Vec<NodeLink>,
    /// When it was last asked.
    pub asked: Option<Timestamp>,
    /// When its node was first seen.
    pub joined: Option<Timestamp>,
    /// Not before then.
    pub retry_at: Option<Timestamp>,
    /// Failures in a row.
    pub failures: u32,
    /// What went wrong last, in the cloud's words.
    pub trouble: Option<String>,
    /// The offer that was refused, by number.
    pub refused: Option<usize>,
    /// A purchase was asked for whose answer was lost: there may be a machine that nobody knows of yet.
    pub undecided: bool,
    /// The cloud was told to take it away and agreed.
    pub terminating: bool,
    /// Since when it has been at it.
    pub terminating_since: Option<Timestamp>,
    /// When the drain began, since we look.
    pub drain_began: Option<Timestamp>,
    /// Evictions under way, by pod identity.
    pub evictions: BTreeMap<Name, Eviction>,
    /// How large the pods were that were last asked to leave, and when.
    pub left: Option<(i32, Timestamp)>,
    /// When the node's labels were last put right.
    pub repaired: Option<Timestamp>,
}

impl Memory {
    /// The machine, if the cloud has it.
    pub fn machine(&self) -> Option<&Machine> {
        match &self.cloud {
            Some(ProviderAnswer::Here(machine)) => Some(machine),
            _ => None,
        }
    }

    /// Whether it is too early to ask the cloud again.
    pub fn must_wait(&self, now: Timestamp) -> Option<Timestamp> {
        self.retry_at.filter(|at| *at > now)
    }

    /// When the cloud should be asked about the machine again.
    pub fn next_poll(&self) -> Option<Timestamp> {
        self.asked.map(|asked| clock::after(asked, POLL))
    }

    /// The cloud answered a purchase.
    pub fn launched(
        &mut self,
        offer: usize,
        answer: Result<Machine, ProviderError>,
        now: Timestamp,
    ) {
        match answer {
            Ok(machine) => {
                self.undecided = false;
                self.here(machine, now);
            }
            Err(error @ (ProviderError::OutOfCapacity(_) | ProviderError::Quota(_))) => {
                self.refused = Some(offer);
                self.trouble = Some(error.to_string());
            }
            Err(error) => {
                self.undecided |= matches!(
                    error,
                    ProviderError::Transient(_) | ProviderError::NotFound(_)
                );
                self.failed(&error, now);
            }
        }
    }

    /// The cloud answered a question about the machine.
    pub fn seen(&mut self, answer: Result<Machine, ProviderError>, now: Timestamp) {
        self.asked = Some(now);
        match answer {
            Ok(machine) => self.here(machine, now),
            Err(ProviderError::NotFound(_)) => self.absent(now),
            Err(error) => self.failed(&error, now),
        }
    }

    /// The cloud answered a request to take the machine away.
    pub fn terminated(&mut self, answer: Result<(), ProviderError>, now: Timestamp) {
        self.asked = Some(now);
        match answer {
            Ok(()) => {
                self.terminating = true;
                self.terminating_since.get_or_insert(now);
                self.calm();
            }
            Err(ProviderError::NotFound(_)) => self.absent(now),
            Err(error) => self.failed(&error, now),
        }
    }

    /// The API server answered an eviction.
    pub fn evicted(&mut self, pod: &Name, answer: Result<(), WriteError>, now: Timestamp) {
        let entry = self.evictions.entry(pod.clone()).or_insert(Eviction {
            next: now,
            refusals: 0,
            blocked: None,
        });
        match answer {
            // It goes, or is gone, or was replaced by another of its name: the watch will tell.
            Ok(()) | Err(WriteError::Gone(_) | WriteError::Conflict(_)) => {
                entry.blocked = None;
                entry.refusals = 0;
                entry.next = clock::after(now, EVICT.1);
            }
            Err(error) => {
                let asked = match &error {
                    WriteError::HeldBack { retry_after, .. } => *retry_after,
                    _ => None,
                };
                let wait = EVICT
                    .0
                    .saturating_mul(1 << entry.refusals.min(6))
                    .min(EVICT.1);
                entry.refusals += 1;
                entry.next = clock::after(now, asked.map_or(wait, |asked| asked.min(EVICT.1)));
                match error {
                    WriteError::HeldBack { message, .. } | WriteError::Refused(message) => {
                        entry.blocked = Some(message);
                    }
                    // Whatever held it back does so still, for all we know.
                    other if entry.blocked.is_none() && entry.refusals >= TOLD => {
                        entry.blocked = Some(other.to_string());
                    }
                    _ => {}
                }
            }
        }
    }

    /// Something else went wrong: come back later.
    pub fn stumbled(&mut self, now: Timestamp) {
        let wait = RETRY
            .0
            .saturating_mul(1 << self.failures.min(6))
            .min(RETRY.1);
        self.failures += 1;
        self.retry_at = Some(clock::after(now, wait));
    }

    fn here(&mut self, machine: Machine, now: Timestamp) {
        self.asked = Some(now);
        self.links.clone_from(&machine.links);
        self.cloud = Some(ProviderAnswer::Here(Box::new(machine)));
        self.calm();
    }

    fn absent(&mut self, now: Timestamp) {
        self.cloud = Some(match self.cloud {
            Some(ProviderAnswer::Absent { since, times }) => ProviderAnswer::Absent {
                since,
                times: times.saturating_add(1),
            },
            _ => ProviderAnswer::Absent {
                since: now,
                times: 1,
            },
        });
        self.calm();
    }

    fn calm(&mut self) {
        self.failures = 0;
        self.retry_at = None;
        self.trouble = None;
    }

    fn failed(&mut self, error: &ProviderError, now: Timestamp) {
        self.trouble = Some(error.to_string());
        self.stumbled(now);
        if let ProviderError::Throttled {
            retry_after: Some(wait),
            ..
        } = error
        {
            self.retry_at = self.retry_at.max(Some(clock::after(now, *wait)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_cloud_that_asks_for_patience_gets_it() {
        let mut memory = Memory::default();
        let throttled = ProviderError::Throttled {
            message: "slow down".into(),
            retry_after: Some(Duration::from_secs(90)),
        };
        memory.seen(Err(throttled), at(0));
        assert_eq!(memory.must_wait(at(89)), Some(at(90)));
        assert_eq!(memory.must_wait(at(90)), None);
    }

    #[test]
    fn only_answers_that_settle_the_matter_settle_it() {
        let mut memory = Memory::default();
        memory.launched(0, Err(ProviderError::OutOfCapacity("none".into())), at(0));
        assert!(!memory.undecided);
        assert_eq!(memory.refused, Some(0));
        memory.launched(1, Err(ProviderError::Transient("reset".into())), at(1));
        assert!(memory.undecided);
    }

    #[test]
    fn a_connection_that_breaks_does_not_change_what_holds_a_pod_back() {
        let mut memory = Memory::default();
        let pod: Name = "u".into();
        let broken = || Err(WriteError::Unknown("connection reset".into()));
        memory.evicted(&pod, broken(), at(0));
        assert_eq!(memory.evictions[&pod].blocked, None);
        let held = WriteError::HeldBack {
            message: "budget".into(),
            retry_after: None,
        };
        memory.evicted(&pod, Err(held), at(1));
        for second in 2..9 {
            memory.evicted(&pod, broken(), at(second));
        }
        assert_eq!(memory.evictions[&pod].blocked.as_deref(), Some("budget"));
        let other: Name = "v".into();
        for second in 0..3 {
            memory.evicted(&other, broken(), at(second));
        }
        assert_eq!(
            memory.evictions[&other].blocked.as_deref(),
            Some("connection reset")
        );
    }

    #[test]
    fn an_eviction_that_is_refused_is_tried_less_and_less_often() {
        let mut memory = Memory::default();
        let pod: Name = "u".into();
        let held = || {
            Err(WriteError::HeldBack {
                message: "budget".into(),
                retry_after: None,
            })
        };
        memory.evicted(&pod, held(), at(0));
        let first = memory.evictions[&pod].next;
        for _ in 0..9 {
            memory.evicted(&pod, held(), at(0));
        }
        assert!(first < at(1));
        assert_eq!(memory.evictions[&pod].next, at(10));
        assert_eq!(memory.evictions[&pod].blocked.as_deref(), Some("budget"));
    }
}
