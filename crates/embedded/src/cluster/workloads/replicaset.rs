//! `ReplicaSet`s: keep a number of equal pods.
//!
//! kubernetes: `pkg/controller/replicaset`.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::pods::{self, PodName, claim, concerned_owners, from_template};
use super::{Action, Controller, Event, Moment, Plan, World};
use crate::cluster::Key;
use crate::cluster::fields::{Fields as _, set, unset};
use crate::selector::Selector;

/// The resource of `ReplicaSet`s.
pub(crate) const RESOURCE: &str = "replicasets.apps";
const KIND: (&str, &str) = ("apps/v1", "ReplicaSet");
/// Pods made in one go; the rest follows when these are seen (kubernetes: `BurstReplicas`).
const BURST: usize = 500;

/// The controller.
#[derive(Debug)]
pub(crate) struct ReplicaSets;

impl Controller for ReplicaSets {
    fn name(&self) -> &'static str {
        "replicaset"
    }

    fn concerned(&mut self, event: &Event<'_>, world: &World, keys: &mut Vec<Key>) {
        match event.resource {
            RESOURCE => keys.extend(event.object().map(Key::of)),
            "pods" => concerned_owners(event, KIND.1, RESOURCE, world, keys),
            _ => {}
        }
    }

    fn plan(&mut self, key: &Key, world: &World, now: Moment) -> Plan {
        let Some(set) = world.get(RESOURCE, key) else {
            return Plan::default();
        };
        let claimed = claim(set, KIND, "pods", world);
        let mut plan = reconcile(set, &claimed.own, now.at);
        plan.actions.splice(0..0, claimed.actions);
        plan
    }
}

/// What to do about a replica set that has these pods.
pub(crate) fn reconcile(owner: &Arc<Value>, pods: &[Arc<Value>], now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let alive: Vec<Arc<Value>> = pods
        .iter()
        .filter(|pod| pods::active(pod))
        .map(Arc::clone)
        .collect();
    let wanted = usize::try_from(owner.int(&["spec", "replicas"]).unwrap_or(1)).unwrap_or_default();
    if !owner.deleting() {
        if alive.len() < wanted {
            let template = owner.at(&["spec", "template"]);
            for _ in 0..(wanted - alive.len()).min(BURST) {
                plan.push(Action::Create {
                    resource: "pods",
                    namespace: owner.namespace().to_owned(),
                    object: from_template(template, owner, KIND.0, KIND.1, &PodName::Generated),
                });
            }
        } else if alive.len() > wanted {
            for pod in first_to_go(&alive).into_iter().take(alive.len() - wanted) {
                plan.push(Action::delete("pods", pod));
            }
        }
    }
    write_status(owner, &alive, now, &mut plan);
    plan
}

/// Pods in the order in which they are given up, as upstream's `ActivePodsWithRanks` sorts them.
fn first_to_go(pods: &[Arc<Value>]) -> Vec<&Arc<Value>> {
    let mut on_node: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in pods {
        *on_node.entry(pod.text(&["spec", "nodeName"])).or_default() += 1;
    }
    let mut sorted: Vec<&Arc<Value>> = pods.iter().collect();
    sorted.sort_by_cached_key(|pod| {
        let node = pod.text(&["spec", "nodeName"]);
        let phase = match pod.text(&["status", "phase"]) {
            "Running" => 2,
            "Unknown" => 1,
            _ => 0,
        };
        let cost = pod
            .annotation("controller.kubernetes.io/pod-deletion-cost")
            .and_then(|text| text.parse::<i64>().ok())
            .unwrap_or_default();
        let restarts = pod
            .items(&["status", "containerStatuses"])
            .iter()
            .filter_map(|status| status.int(&["restartCount"]))
            .max()
            .unwrap_or_default();
        (
            !node.is_empty(),
            phase,
            pods::ready(pod),
            cost,
            Reverse(on_node.get(node).copied().unwrap_or_default()),
            Reverse(pods::ready_since(pod)),
            Reverse(restarts),
            Reverse(pod.created()),
            pod.name().to_owned(),
        )
    });
    sorted
}

fn write_status(owner: &Arc<Value>, alive: &[Arc<Value>], now: Timestamp, plan: &mut Plan) {
    let min_ready = owner.int(&["spec", "minReadySeconds"]).unwrap_or_default();
    let labels = Selector::read(&json!({
        "matchLabels": owner.at(&["spec", "template", "metadata", "labels"]),
    }));
    let count = |holds: &dyn Fn(&Value) -> bool| alive.iter().filter(|pod| holds(pod)).count();
    let mut object = Value::clone(owner);
    set(&mut object, &["status", "replicas"], alive.len());
    set(
        &mut object,
        &["status", "observedGeneration"],
        owner.generation(),
    );
    for (field, number) in [
        (
            "fullyLabeledReplicas",
            count(&|pod| labels.matches(pod.labels())),
        ),
        ("readyReplicas", count(&pods::ready)),
        (
            "availableReplicas",
            count(&|pod| pods::available(pod, min_ready, now)),
        ),
    ] {
        if number == 0 {
            unset(&mut object, &["status", field]);
        } else {
            set(&mut object, &["status", field], number);
        }
    }
    if object.at(&["status"]) != owner.at(&["status"]) {
        plan.push(Action::UpdateStatus {
            resource: RESOURCE,
            object,
        });
    }
    if let Some(wait) = pods::until_available(alive, min_ready, now) {
        plan.look_again(wait);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(replicas: i64) -> Arc<Value> {
        Arc::new(json!({
            "metadata": {"name": "web", "namespace": "a", "uid": "rs", "generation": 1},
            "spec": {"replicas": replicas, "template": {
                "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]},
            }},
        }))
    }

    fn pod(name: &str, node: &str, ready: bool) -> Arc<Value> {
        Arc::new(json!({
            "metadata": {"name": name, "namespace": "a", "uid": name, "labels": {"app": "web"}},
            "spec": {"nodeName": node},
            "status": {"phase": if node.is_empty() { "Pending" } else { "Running" }, "conditions": [
                {"type": "Ready", "status": if ready { "True" } else { "False" },
                 "lastTransitionTime": "1970-01-01T00:00:00Z"},
            ]},
        }))
    }

    fn deleted(plan: &Plan) -> Vec<&str> {
        let names = plan.actions.iter().filter_map(|action| match action {
            Action::Delete { key, .. } => Some(key.name.as_str()),
            _ => None,
        });
        names.collect()
    }

    #[test]
    fn missing_pods_are_made_from_the_template() {
        let plan = reconcile(&owner(3), &[pod("p", "n", true)], Timestamp::UNIX_EPOCH);
        let made: Vec<_> = plan
            .actions
            .iter()
            .filter_map(|action| match action {
                Action::Create { object, .. } => Some(object),
                _ => None,
            })
            .collect();
        assert_eq!(made.len(), 2);
        assert_eq!(made[0].text(&["metadata", "generateName"]), "web-");
        assert_eq!(made[0].label("app"), Some("web"));
        assert_eq!(made[0].controller().unwrap().text(&["uid"]), "rs");
    }

    #[test]
    fn the_least_useful_pods_go_first() {
        let pods = [
            pod("crowded-1", "n1", true),
            pod("crowded-2", "n1", true),
            pod("alone", "n2", true),
            pod("unready", "n3", false),
            pod("unplaced", "", false),
        ];
        let plan = reconcile(&owner(2), &pods, Timestamp::UNIX_EPOCH);
        assert_eq!(deleted(&plan), ["unplaced", "unready", "crowded-1"]);
    }

    #[test]
    fn ended_pods_do_not_count_and_nothing_to_do_is_nothing_done() {
        let mut over = Value::clone(&pod("over", "n", false));
        over["status"]["phase"] = json!("Failed");
        let pods = [pod("p", "n", true), Arc::new(over)];
        let first = reconcile(&owner(1), &pods, Timestamp::UNIX_EPOCH);
        let [Action::UpdateStatus { object, .. }] = first.actions.as_slice() else {
            panic!("only the status is written: {first:?}");
        };
        assert_eq!(object.int(&["status", "readyReplicas"]), Some(1));
        assert_eq!(object.int(&["status", "fullyLabeledReplicas"]), Some(1));
        let again = reconcile(&Arc::new(object.clone()), &pods, Timestamp::UNIX_EPOCH);
        assert_eq!(again, Plan::default());
    }
}
