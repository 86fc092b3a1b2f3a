//! Pods left behind: on nodes that are gone, or deleted before they had a node.
//!
//! kubernetes: `pkg/controller/podgc`.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::pods::finished;
use super::{Action, Controller, ControllerOptions, Event, Moment, Plan, World};
use crate::cluster::Key;
use crate::cluster::fields::{Condition, Fields as _, set, set_condition};

/// Ended pods beyond this number are removed, oldest first (kubernetes: `--terminated-pod-gc-threshold`).
const MOST_ENDED: usize = 12_500;

/// The controller. It has a single key: the whole cluster.
#[derive(Debug)]
pub(crate) struct PodGc {
    every: Duration,
    /// Pods are removed from a missing node only when it is still missing at the next look.
    missing: Vec<String>,
}

impl PodGc {
    pub(crate) fn new(options: ControllerOptions) -> Self {
        Self {
            every: options.pod_gc_every,
            missing: Vec::new(),
        }
    }
}

impl Controller for PodGc {
    fn name(&self) -> &'static str {
        "podgc"
    }

    fn concerned(&mut self, event: &Event<'_>, _: &World, keys: &mut Vec<Key>) {
        let gone_node = event.resource == "nodes" && event.new.is_none();
        let unplaced = event.resource == "pods"
            && event
                .new
                .is_some_and(|pod| pod.deleting() && pod.text(&["spec", "nodeName"]).is_empty());
        // A pod that was bound to a node while that was going, or by hand to one that never was.
        let first_bound = event.resource == "pods"
            && event.old.is_none()
            && event
                .new
                .is_some_and(|pod| !pod.text(&["spec", "nodeName"]).is_empty());
        if gone_node || unplaced || first_bound {
            keys.push(Key::default());
        }
    }

    fn plan(&mut self, _: &Key, world: &World, now: Moment) -> Plan {
        let mut plan = Plan::default();
        let missing: Vec<String> = world
            .nodes_with_pods()
            .filter(|name| world.get("nodes", &Key::new("", name)).is_none())
            .map(str::to_owned)
            .collect();
        for name in missing.iter().filter(|name| self.missing.contains(name)) {
            for pod in world.pods_on(name) {
                plan.actions.extend(remove_orphan(pod, &now));
            }
        }
        self.missing = missing;
        let unplaced = world
            .list("pods")
            .filter(|pod| pod.deleting() && pod.text(&["spec", "nodeName"]).is_empty());
        plan.actions
            .extend(unplaced.map(|pod| Action::remove("pods", pod)));
        let mut ended: Vec<&Arc<Value>> = world.list("pods").filter(|pod| finished(pod)).collect();
        if ended.len() > MOST_ENDED {
            ended.sort_by_key(|pod| (pod.created(), Key::of(pod)));
            let surplus = ended.len() - MOST_ENDED;
            plan.actions.extend(
                ended
                    .into_iter()
                    .take(surplus)
                    .map(|pod| Action::remove("pods", pod)),
            );
        }
        if !self.missing.is_empty() {
            plan.look_again(self.every);
        }
        plan
    }
}

/// Says why a pod on a missing node has failed, and removes it.
fn remove_orphan(pod: &Arc<Value>, now: &Moment) -> Vec<Action> {
    let mut actions = Vec::new();
    if !finished(pod) {
        let mut object = Value::clone(pod);
        set(&mut object, &["status", "phase"], "Failed");
        let condition = Condition {
            kind: "DisruptionTarget",
            status: "True",
            reason: "DeletionByPodGC",
            message: "PodGC: node no longer exists",
        };
        set_condition(&mut object, condition, &now.stamp);
        actions.push(Action::UpdateStatus {
            resource: "pods",
            object,
        });
    }
    actions.push(Action::remove("pods", pod));
    actions
}
