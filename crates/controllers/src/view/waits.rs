//! How long pods wait: from their making, and from the first plan that had a place for them.
//!
//! What was there before us says nothing about how long anything takes.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::Touched;
use super::pods::{PodKey, PodRecord};
use crate::edge::clock;

/// How long a pod has waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Since it was made.
    pub made: Duration,
    /// Since a plan first had a place for it, if one had to be made.
    pub placed: Option<Duration>,
}

/// Pods that we have seen come and that have not been ready yet.
#[derive(Debug, Default)]
pub(super) struct Waits(BTreeMap<PodKey, Planned>);

/// What plans had for a pod so far.
#[derive(Debug, Default)]
struct Planned {
    considered: bool,
    placed: Option<Timestamp>,
}

impl Waits {
    /// Which they are.
    pub(super) fn pods(&self) -> impl Iterator<Item = &PodKey> {
        self.0.keys()
    }

    /// A plan has a place for a pod, or has none; whether it is the first plan for it.
    pub(super) fn consider(&mut self, pod: &PodKey, placed: bool, now: Timestamp) -> bool {
        let Some(planned) = self.0.get_mut(pod) else {
            return false;
        };
        if placed {
            planned.placed.get_or_insert(now);
        }
        !std::mem::replace(&mut planned.considered, true)
    }

    /// How long a pod has waited, when it need not wait any more.
    pub(super) fn follow(
        &mut self,
        before: Option<&PodRecord>,
        after: Option<&PodRecord>,
        now: Timestamp,
    ) -> Vec<Touched> {
        let Some(pod) = after else {
            if let Some(gone) = before {
                self.0.remove(&gone.key);
            }
            return Vec::new();
        };
        let wait = |planned: Option<&Planned>, then: Timestamp| Wait {
            made: clock::since(then, pod.created),
            placed: planned
                .and_then(|planned| planned.placed)
                .map(|placed| clock::since(then, placed)),
        };
        let mut touched = Vec::new();
        if pod.node.is_some() && before.is_some_and(|before| before.node.is_none()) {
            touched.push(Touched::Bound(wait(self.0.get(&pod.key), now)));
        }
        match pod.ready {
            Some(ready) => {
                let planned = self.0.remove(&pod.key);
                touched.extend(planned.map(|one| Touched::Started(wait(Some(&one), ready))));
            }
            None if before.is_none() && pod.active() => {
                self.0.insert(pod.key.clone(), Planned::default());
            }
            None => {}
        }
        touched
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::World;
    use crate::view::samples::{at, bound, pod, seen};
    use serde_json::{Value, json};

    fn ready(when: i64) -> Value {
        json!([{"type": "Ready", "status": "True", "lastTransitionTime": at(when).to_string()}])
    }

    /// A pod comes, is bound after nine seconds and ready after twelve; plans have a place for it or not in between.
    fn story(plans: &[(i64, bool)]) -> (Vec<Touched>, Vec<Wait>) {
        let mut world = World::default();
        world.observe("pods", seen(pod("web", &json!([]))), at(1));
        let key = world.pods.iter().next().unwrap().key.clone();
        let mut told = Vec::new();
        for (when, placed) in plans {
            told.extend(world.consider([(key.clone(), *placed)], at(*when)));
        }
        let mut touched = world.observe("pods", seen(bound("web", &json!([]))), at(9));
        touched.extend(world.observe("pods", seen(bound("web", &ready(12))), at(13)));
        let waits = touched.into_iter().filter_map(|one| match one {
            Touched::Bound(wait) | Touched::Started(wait) => Some(wait),
            _ => None,
        });
        (told, waits.collect())
    }

    fn wait(made: u64, placed: Option<u64>) -> Wait {
        Wait {
            made: Duration::from_secs(made),
            placed: placed.map(Duration::from_secs),
        }
    }

    #[test]
    fn a_pod_that_needs_no_plan_waits_from_its_making() {
        let (told, waits) = story(&[]);
        assert_eq!(told, []);
        assert_eq!(waits, [wait(9, None), wait(12, None)]);
    }

    #[test]
    fn a_pod_waits_for_its_machine_from_the_first_plan_that_has_a_place_for_it() {
        let (told, waits) = story(&[(2, false), (4, true), (5, true)]);
        assert_eq!(told, [Touched::Considered(Duration::from_secs(2))]);
        assert_eq!(waits, [wait(9, Some(5)), wait(12, Some(8))]);
    }
}
