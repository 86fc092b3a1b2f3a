//! Room that pods on their way out leave to others before a new node could be there.
//!
//! A rolling update deletes old pods as it makes new ones. For the scheduler an ending pod takes its room until it is
//! gone, so the new ones wait, and machines that are bought for them are empty a minute later.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::World;
use super::nodes::NodeRecord;
use super::pods::{Owner, PodRecord};
use crate::edge::clock;

/// Room that is free within this is waited for. No cloud has a new node in use sooner, so to buy instead helps no pod.
const SOON: Duration = Duration::from_mins(1);
/// How long after its deadline a pod may still be there: the kubelet ends it at the deadline, and its object goes once
/// its containers are gone.
const MARGIN: Duration = Duration::from_secs(15);

/// Which pods are about to leave their room to others.
pub(super) struct Departing {
    now: Timestamp,
    /// The scheduler makes room for pods of its own choice by ending others: that room is taken already.
    preempting: bool,
}

impl Departing {
    pub(super) fn new(world: &World, now: Timestamp) -> Self {
        let preempts = |pod: &Arc<PodRecord>| pod.preempting && pod.node.is_none() && pod.active();
        Departing {
            now,
            preempting: world.pods.iter().any(preempts),
        }
    }

    /// Whether the room of a pod on this node is as good as free.
    pub(super) fn leaves_room(&self, pod: &PodRecord, node: &NodeRecord) -> bool {
        // Its kubelet must be there to end it.
        !self.preempting && node.ready() && remaining(pod, self.now).is_some()
    }
}

/// How long a pod on its way out may still be there, if its room will be free soon.
fn remaining(pod: &PodRecord, now: Timestamp) -> Option<Duration> {
    let end = pod.deleting?;
    // A daemon set and a stateful set put another in its place; a volume must be detached first, which takes its time.
    if pod.terminal || pod.owner != Owner::Other || !pod.claims.is_empty() {
        return None;
    }
    let late = clock::since(now, end);
    (clock::since(end, now) <= SOON && late < MARGIN)
        .then(|| clock::since(end, now) + MARGIN.saturating_sub(late))
}

impl World {
    /// How long it is until the room of some pod on its way out is not counted on any more, if pods wait for room.
    pub fn departure_overdue(&self, now: Timestamp) -> Option<Duration> {
        if !self.pods.iter().any(|pod| pod.waits()) {
            return None;
        }
        let bound = self.pods.iter().filter(|pod| pod.node.is_some());
        bound.filter_map(|pod| remaining(pod, now)).min()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    use super::*;
    use crate::dialect::Event;
    use crate::view::Observation;
    use crate::view::nodes::lower_node;
    use crate::view::problem::Terms;
    use crate::view::samples::{at, bound, pod, seen};

    /// A pod on the node that is to be gone so many seconds after all have come.
    fn ending(seconds: i64, change: impl FnOnce(&mut Value)) -> Pod {
        let mut pod = serde_json::to_value(bound("old", &json!([]))).unwrap();
        pod["metadata"]["deletionTimestamp"] = json!(at(seconds).to_string());
        change(&mut pod);
        serde_json::from_value(pod).unwrap()
    }

    fn owned(version: &str, kind: &str) -> impl FnOnce(&mut Value) {
        let owner = json!([
            {"apiVersion": version, "kind": kind, "name": "own", "uid": "own", "controller": true}]);
        move |pod: &mut Value| pod["metadata"]["ownerReferences"] = owner
    }

    fn waiting(change: impl FnOnce(&mut Value)) -> Pod {
        let said = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]);
        let mut pod = serde_json::to_value(pod("new", &said)).unwrap();
        change(&mut pod);
        serde_json::from_value(pod).unwrap()
    }

    fn world(pods: Vec<Pod>, ready: &str) -> World {
        let mut world = World::default();
        let node = json!({"metadata": {"name": "node", "uid": "node"}, "status": {"conditions": [
            {"type": "Ready", "status": ready, "lastTransitionTime": at(0).to_string()}]}});
        let node = lower_node(serde_json::from_value(node).unwrap());
        world.observe("nodes", Observation::Node(Event::Changed(node)), at(0));
        for pod in pods {
            world.observe("pods", seen(pod), at(0));
        }
        world
    }

    /// Whether the node is empty for plans of what to buy, so many seconds after all have come.
    fn is_free(world: &World, seconds: i64) -> bool {
        let room = |departures: bool| {
            let terms = Terms {
                departures,
                ..Terms::default()
            };
            let problem = world.problem(&terms, at(seconds)).problem;
            problem.nodes[0].pods.is_empty()
        };
        assert!(!room(false), "plans of what may go count the pod");
        room(true)
    }

    fn is_left(old: Pod) -> bool {
        is_free(&world(vec![old, waiting(|_| ())], "True"), 0)
    }

    #[test]
    fn a_pod_that_ends_before_a_new_node_could_be_there_leaves_its_room() {
        assert!(is_left(ending(30, |_| ())));
        assert!(is_left(ending(60, |_| ())));
        assert!(!is_left(ending(61, |_| ())), "a node may be there first");
        let lives = world(vec![bound("old", &json!([])), waiting(|_| ())], "True");
        assert!(!is_free(&lives, 0));
    }

    #[test]
    fn a_pod_that_has_not_ended_in_time_takes_its_room_again() {
        let world = world(vec![ending(30, |_| ()), waiting(|_| ())], "True");
        assert!(is_free(&world, 44));
        assert!(!is_free(&world, 45));
        let overdue = |seconds| world.departure_overdue(at(seconds));
        assert_eq!(overdue(0), Some(Duration::from_secs(45)));
        assert_eq!(overdue(40), Some(Duration::from_secs(5)));
        assert_eq!(overdue(45), None);
    }

    #[test]
    fn nothing_is_looked_at_again_when_no_pod_waits() {
        let world = world(vec![ending(30, |_| ())], "True");
        assert_eq!(world.departure_overdue(at(0)), None);
    }

    #[test]
    fn pods_that_are_replaced_in_their_place_leave_no_room() {
        assert!(!is_left(ending(30, owned("apps/v1", "DaemonSet"))));
        assert!(!is_left(ending(30, owned("apps/v1", "StatefulSet"))));
        assert!(!is_left(ending(30, owned("v1", "Node"))));
        assert!(is_left(ending(30, owned("apps/v1", "ReplicaSet"))));
    }

    #[test]
    fn a_pod_whose_volume_must_be_detached_leaves_no_room() {
        let mounts = |pod: &mut Value| {
            pod["spec"]["volumes"] =
                json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
        };
        assert!(!is_left(ending(30, mounts)));
    }

    #[test]
    fn a_node_whose_kubelet_does_not_answer_has_no_room_to_come() {
        let pods = vec![ending(30, |_| ()), waiting(|_| ())];
        assert!(!is_free(&world(pods, "Unknown"), 0));
    }

    #[test]
    fn room_that_the_scheduler_makes_for_a_pod_is_that_pods() {
        let preempts = |pod: &mut Value| pod["status"]["nominatedNodeName"] = json!("node");
        let pods = vec![ending(30, |_| ()), waiting(preempts)];
        assert!(!is_free(&world(pods, "True"), 0));
    }

    #[test]
    fn host_ports_go_with_the_pod_that_has_them() {
        let ports = |pod: &mut Value| {
            pod["spec"]["containers"] =
                json!([{"name": "main", "ports": [{"containerPort": 80, "hostPort": 80}]}]);
        };
        assert!(is_left(ending(30, ports)));
    }
}
