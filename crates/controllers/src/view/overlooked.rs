//! Pods that the scheduler has not come to, although it has found no place for others.
//!
//! When a thousand pods come at once, it takes the scheduler five seconds to say of each that there is no place for it.
//! Whoever waits for that buys machines five seconds late, and the scheduler has worked in vain.

use std::time::Duration;

use jiff::Timestamp;

use super::World;
use super::pods::PodRecord;
use crate::edge::clock;

/// How long the scheduler takes over a pod that it comes to at once.
const SOON: Duration = Duration::from_secs(1);

/// Which pods the scheduler is behind with.
pub(super) struct Overlooked {
    now: Timestamp,
    /// Those of a higher priority may push others out, and need no machine then; `None` if it is not behind.
    priority: Option<i32>,
}

impl Overlooked {
    pub(super) fn new(world: &World, now: Timestamp) -> Self {
        let behind = world.pods.iter().any(|pod| pod.provisionable())
            && world.pods.iter().any(|pod| pod.untried && pod.waits());
        let least = || {
            let pods = world.pods.iter();
            let placed = pods.filter(|pod| pod.node.is_some() && pod.active());
            placed.map(|pod| pod.spec.priority).min()
        };
        Overlooked {
            now,
            priority: behind.then(|| least().unwrap_or(i32::MAX)),
        }
    }

    /// Whether it is behind with this one.
    pub(super) fn holds(&self, pod: &PodRecord) -> bool {
        let harmless = self.priority.is_some_and(|most| pod.spec.priority <= most);
        harmless && pod.untried && pod.waits() && clock::since(self.now, pod.created) >= SOON
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::samples::{at, bound, pod, seen};
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    fn of_priority(mut pod: Pod, priority: i32) -> Pod {
        pod.spec.as_mut().unwrap().priority = Some(priority);
        pod
    }

    fn untried(priority: i32) -> Pod {
        of_priority(pod("untried", &json!([])), priority)
    }

    fn in_vain() -> Pod {
        let said = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]);
        pod("in-vain", &said)
    }

    fn placed(priority: i32) -> Pod {
        of_priority(bound("placed", &json!([])), priority)
    }

    /// Those that the scheduler is behind with, so many seconds after all have come.
    fn overlooked(pods: Vec<Pod>, after: i64) -> Vec<String> {
        let mut world = World::default();
        for pod in pods {
            world.observe("pods", seen(pod), at(after));
        }
        let overlooked = Overlooked::new(&world, at(after));
        let pods = world.pods.iter().filter(|pod| overlooked.holds(pod));
        pods.map(|pod| pod.key.name.to_string()).collect()
    }

    #[test]
    fn the_scheduler_is_behind_when_it_has_no_place_for_some_and_no_word_for_others() {
        assert_eq!(overlooked(vec![untried(0), in_vain()], 1), ["untried"]);
        assert!(overlooked(vec![untried(0), in_vain()], 0).is_empty());
        assert!(overlooked(vec![untried(0), placed(0)], 9).is_empty());
    }

    #[test]
    fn pods_that_could_push_others_out_are_left_to_the_scheduler() {
        let among = |priority| vec![untried(priority), in_vain(), placed(5)];
        assert_eq!(overlooked(among(5), 9), ["untried"]);
        assert!(overlooked(among(6), 9).is_empty());
    }
}
