//! What was done lately: the same decision about the same nodes, pods and prices is not carried out again and again.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::labels;
use joiner_core::problem::Problem;

use super::command::Command;
use crate::edge::clock;
use crate::edge::names::digest;

/// Decisions by digest, and when each was carried out.
#[derive(Debug, Default)]
pub struct Past(Mutex<BTreeMap<String, Timestamp>>);

impl Past {
    /// When the very same was done within the window, if it was.
    pub(super) fn when(
        &self,
        command: &str,
        window: Duration,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, at| clock::since(now, *at) < window);
        all.get(command).copied()
    }

    /// It is done now.
    pub(super) fn note(&self, command: String, now: Timestamp) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(command, now);
    }

    /// How many decisions are remembered.
    pub fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What a command does, without names: machines and pods that come again under other names are the same.
pub(super) fn essence(problem: &Problem, command: &Command<'_>) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;
    use joiner_core::plan::{Reason, Removal};
    use joiner_core::problem::{DisruptionReason, Node};

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
        essence(&problem(node, kind), &command)
    }

    #[test]
    fn the_same_under_another_name_is_the_same_for_as_long_as_the_window_lasts() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let (first, again) = (digest_of("node-a", "m-4"), digest_of("node-b", "m-4"));
        assert_eq!(first, again);
        assert_ne!(first, digest_of("node-a", "m-8"));
        let past = Past::default();
        let window = Duration::from_mins(10);
        assert_eq!(past.when(&first, window, at(0)), None);
        past.note(first, at(0));
        assert_eq!(past.when(&again, window, at(599)), Some(at(0)));
        assert_eq!(past.when(&again, window, at(600)), None);
        assert!(past.is_empty());
    }
}
