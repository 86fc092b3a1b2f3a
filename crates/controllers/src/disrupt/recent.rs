//! What was done lately: the same decision about the same nodes, pods and prices is not carried out again and again.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::labels;
use joiner_core::name::Name;
use joiner_core::problem::{DisruptionReason, Node, Problem};

use super::command::Command;
use crate::edge::clock;
use crate::edge::names::digest;
use crate::record::kinds;
use crate::view::World;

/// How long the next attempt waits after a replacement has failed, at first and at most.
const RETRY: (Duration, Duration) = (Duration::from_mins(5), Duration::from_hours(1));

/// Decisions by digest, and when each was first carried out; machines whose replacements failed; drains that ended.
#[derive(Debug, Default)]
pub struct RecentDisruptions {
    commands: Mutex<BTreeMap<String, Timestamp>>,
    failures: Mutex<Failures>,
    drains: Mutex<Drains>,
}

/// By the identity of the machine that was to be replaced: how often that failed in a row, and when last.
type Failures = BTreeMap<Name, (u32, Timestamp)>;

/// By pool: how many of its nodes were being drained when that was last counted, and when a drain last ended.
type Drains = BTreeMap<Name, (usize, Option<Timestamp>)>;

impl RecentDisruptions {
    /// A disruption of these machines was undone because what replaces them did not come into use.
    pub(super) fn replacement_failed<'m>(
        &self,
        machines: impl Iterator<Item = &'m Name>,
        now: Timestamp,
    ) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        // One that has not failed for long is forgotten, as are machines that are gone.
        failures.retain(|_, (_, last)| clock::since(now, *last) < RETRY.1 * 2);
        for uid in machines {
            let entry = failures.entry(uid.clone()).or_insert((0, now));
            *entry = (entry.0.saturating_add(1), now);
        }
    }

    /// When one of these machines may be replaced again, if not yet.
    pub(super) fn replacement_retry<'m>(
        &self,
        machines: impl Iterator<Item = &'m Name>,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        machines
            .filter_map(|uid| failures.get(uid))
            .map(|(times, last)| {
                let wait = RETRY.0.saturating_mul(1 << times.saturating_sub(1).min(6));
                clock::after(*last, wait.min(RETRY.1))
            })
            .max()
            .filter(|until| *until > now)
    }

    /// So many nodes of the pool are being drained now. Says when a drain last ended, if one has.
    pub(super) fn draining(&self, pool: &Name, count: usize, now: Timestamp) -> Option<Timestamp> {
        let mut drains = self.drains.lock().unwrap_or_else(PoisonError::into_inner);
        let (before, ended) = drains.entry(pool.clone()).or_default();
        if count < *before {
            *ended = Some(now);
        }
        *before = count;
        *ended
    }

    /// When the very same was done within the window, if it was.
    pub(super) fn when(
        &self,
        command: &str,
        window: Duration,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let mut all = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, at| clock::since(now, *at) < window);
        all.get(command).copied()
    }

    /// It is done now.
    pub(super) fn note(&self, command: String, now: Timestamp) {
        let mut all = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(command).or_insert(now);
    }

    /// How many decisions are remembered.
    pub fn len(&self) -> usize {
        self.commands
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What a command does, without names: machines and pods that come again under other names are the same. A drifted node
/// follows what its pool asks for now: once that has changed again, replacing it again is another decision.
pub(super) fn essence(world: &World, problem: &Problem, command: &Command<'_>) -> String {
    let mut parts: Vec<String> = Vec::new();
    for removal in &command.removals {
        let Some(node) = problem.nodes.iter().find(|one| one.name == removal.node) else {
            continue;
        };
        let mut pods: Vec<String> = node
            .pods
            .iter()
            .filter(|pod| pod.reschedulable())
            .map(|pod| format!("{}x{:?}", pod.count, pod.spec))
            .collect();
        pods.sort_unstable();
        let zone = node.labels.get(labels::ZONE);
        parts.push(format!(
            "- {} {:?} {} {zone:?} {} {:?} {pods:?}",
            removal.cause, node.pool, node.instance_type, node.capacity_type, node.price
        ));
        if removal.cause == DisruptionReason::Drifted {
            parts.push(format!("~ {:?} {}", node.pool, asked(world, node)));
        }
    }
    for launch in &command.launches {
        let one = &launch.purchase;
        parts.push(format!(
            "+ {} {} {} {} {}",
            launch.pool, one.instance_type, one.zone, one.capacity_type, one.price
        ));
    }
    parts.sort_unstable();
    let mut text = String::new();
    for part in parts {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{part}");
    }
    digest(&text)
}

/// What a drifted node is not: its pool's template as it is now, and what its class or cloud says about it.
fn asked(world: &World, node: &Node) -> String {
    let pool = node.pool.as_ref().and_then(|pool| world.pool(pool));
    let mut machines = world.machines.iter();
    let machine = machines.find(|one| one.status.node.as_ref() == Some(&node.name));
    let said = machine.and_then(|one| one.status.conditions.get(kinds::DRIFTED));
    let said = said.map(|one| (&one.reason, &one.message));
    format!("{:?} {said:?}", pool.map(|pool| &pool.hash))
}

#[cfg(test)]
mod tests {
    use super::*;
    use joiner_core::plan::{Reason, Removal};

    fn removal(node: &str) -> Removal {
        Removal {
            node: node.into(),
            cause: DisruptionReason::Underutilized,
            reason: Reason::Kept {
                because: String::new(),
            },
        }
    }

    fn problem(node: &str, kind: &str) -> Problem {
        Problem {
            nodes: vec![Node {
                name: node.into(),
                instance_type: kind.into(),
                ..Node::default()
            }],
            ..Problem::default()
        }
    }

    fn digest_of(node: &str, kind: &str) -> String {
        let removal = removal(node);
        let command = Command {
            removals: vec![&removal],
            launches: Vec::new(),
        };
        essence(&World::default(), &problem(node, kind), &command)
    }

    #[test]
    fn a_replacement_that_failed_is_tried_again_later_and_later() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let past = RecentDisruptions::default();
        let (one, other): (Name, Name) = ("one".into(), "other".into());
        let retry = |now| past.replacement_retry([&one, &other].into_iter(), at(now));
        assert_eq!(retry(0), None);
        past.replacement_failed([&one].into_iter(), at(0));
        assert_eq!(retry(1), Some(at(300)));
        assert_eq!(retry(300), None);
        past.replacement_failed([&one].into_iter(), at(900));
        assert_eq!(retry(901), Some(at(1500)));
        for _ in 0..9 {
            past.replacement_failed([&one].into_iter(), at(2000));
        }
        assert_eq!(retry(2000), Some(at(5600)));
    }

    #[test]
    fn a_drain_has_ended_when_fewer_nodes_are_drained_than_before() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let (past, pool) = (RecentDisruptions::default(), Name::from("pool"));
        assert_eq!(past.draining(&pool, 0, at(0)), None);
        assert_eq!(past.draining(&pool, 2, at(1)), None);
        assert_eq!(past.draining(&pool, 1, at(2)), Some(at(2)));
        assert_eq!(past.draining(&pool, 1, at(3)), Some(at(2)));
        assert_eq!(past.draining(&"other".into(), 0, at(4)), None);
    }

    #[test]
    fn the_same_under_another_name_is_the_same_for_as_long_as_the_window_lasts() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let (first, again) = (digest_of("node-a", "m-4"), digest_of("node-b", "m-4"));
        assert_eq!(first, again);
        assert_ne!(first, digest_of("node-a", "m-8"));
        let past = RecentDisruptions::default();
        let window = Duration::from_mins(10);
        assert_eq!(past.when(&first, window, at(0)), None);
        past.note(first, at(0));
        assert_eq!(past.when(&again, window, at(599)), Some(at(0)));
        assert_eq!(past.when(&again, window, at(600)), None);
        assert!(past.is_empty());
    }
}
