//! Node lifecycle: silent nodes are marked, conditions become taints, and pods leave nodes they do not tolerate.
//!
//! kubernetes: `pkg/controller/nodelifecycle` and `pkg/controller/tainteviction`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{Action, Controller, ControllerOptions, Event, Moment, Plan, World};
use crate::cluster::Key;
use crate::cluster::fields::{Condition, Fields as _, set, set_condition};
use crate::cluster::scheduler::taints::{Effect, Taint, Toleration, UNSCHEDULABLE};

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const LEASES: &str = "leases.coordination.k8s.io";

/// Taints that follow a condition: its type, the status that means it, and the taint's key.
const CONDITION_TAINTS: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    (
        "MemoryPressure",
        "True",
        "node.kubernetes.io/memory-pressure",
    ),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    (
        "NetworkUnavailable",
        "True",
        "node.kubernetes.io/network-unavailable",
    ),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// The controller that watches over nodes.
#[derive(Debug)]
pub(crate) struct NodeLifecycle {
    options: ControllerOptions,
    /// When each node was last heard of, by this controller's own clock: a node's own times are not to be trusted.
    heard: BTreeMap<String, Timestamp>,
}

impl NodeLifecycle {
    pub(crate) fn new(options: ControllerOptions) -> Self {
        Self {
            options,
            heard: BTreeMap::new(),
        }
    }
}

impl Controller for NodeLifecycle {
    fn name(&self) -> &'static str {
        "nodelifecycle"
    }

    fn concerned(&mut self, event: &Event<'_>, _: &World, keys: &mut Vec<Key>) {
        match event.resource {
            "nodes" => {
                let Some(object) = event.object() else { return };
                if event.new.is_none() {
                    self.heard.remove(object.name());
                    return;
                }
                keys.push(Key::of(object));
            }
            LEASES => {
                let renewed = |one: Option<&Arc<Value>>| {
                    one.map(|one| one.at(&["spec", "renewTime"]).clone())
                };
                let lease = event
                    .new
                    .filter(|_| renewed(event.old) != renewed(event.new));
                if let Some(lease) = lease {
                    // Only remembered: a node that was well stays well, and one that was not is looked at soon.
                    let at = lease.time(&["spec", "renewTime"]).unwrap_or_default();
                    self.heard.insert(lease.name().to_owned(), at);
                }
            }
            _ => {}
        }
    }

    fn plan(&mut self, key: &Key, world: &World, now: Moment) -> Plan {
        let Some(node) = world.get("nodes", key) else {
            return Plan::default();
        };
        let beat = node
            .condition("Ready")
            .and_then(|ready| ready.time(&["lastHeartbeatTime"]))
            .unwrap_or_else(|| node.created());
        let heard = self
            .heard
            .get(&key.name)
            .copied()
            .unwrap_or_default()
            .max(beat);
        let pods: Vec<Arc<Value>> = world.pods_on(&key.name).map(Arc::clone).collect();
        reconcile(node, &pods, heard, self.options.node_grace, &now)
    }
}

/// What to do about a node that was last heard of at that time.
fn reconcile(
    node: &Arc<Value>,
    pods: &[Arc<Value>],
    heard: Timestamp,
    grace: Duration,
    now: &Moment,
) -> Plan {
    let mut plan = Plan::default();
    let silent = Duration::try_from(now.at.duration_since(heard)).unwrap_or_default();
    let mut object = Value::clone(node);
    if silent <= grace {
        // No sooner than this can it have been silent for too long; heartbeats until then need no look at all.
        plan.look_again(grace.saturating_sub(silent) + Duration::from_secs(1));
    } else {
        for kind in ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"] {
            let condition = Condition {
                kind,
                status: "Unknown",
                reason: "NodeStatusUnknown",
                message: "Kubelet stopped posting node status.",
            };
            let held = node.condition(kind);
            if kind == "Ready" || held.is_some() {
                let beat = held.map(|held| held.at(&["lastHeartbeatTime"]).clone());
                set_condition(&mut object, condition, &now.stamp);
                keep_heartbeat(&mut object, kind, beat);
            }
        }
    }
    let went_silent = object.at(&["status"]) != node.at(&["status"]);
    if went_silent {
        plan.push(Action::UpdateStatus {
            resource: "nodes",
            object: object.clone(),
        });
        let message = format!("Node {} status is now: NodeNotReady", node.name());
        plan.push(Action::note(node, "NodeNotReady", message));
        plan.actions
            .extend(pods.iter().filter_map(|pod| not_ready(pod, now)));
    }
    let taints = wanted_taints(&object, now);
    if taints != object.items(&["spec", "taints"]) {
        set(&mut object, &["spec", "taints"], taints);
        plan.push(Action::Update {
            resource: "nodes".to_owned(),
            object,
        });
    }
    plan
}

/// A pod on a silent node must not be taken to serve.
fn not_ready(pod: &Value, now: &Moment) -> Option<Action> {
    if !pod.condition_true("Ready") {
        return None;
    }
    let mut object = pod.clone();
    let condition = Condition {
        kind: "Ready",
        status: "False",
        reason: "",
        message: "",
    };
    set_condition(&mut object, condition, &now.stamp);
    Some(Action::UpdateStatus {
        resource: "pods",
        object,
    })
}

fn keep_heartbeat(object: &mut Value, kind: &str, beat: Option<Value>) {
    let conditions = object["status"]["conditions"].as_array_mut();
    let written = conditions
        .into_iter()
        .flatten()
        .find(|held| held.text(&["type"]) == kind);
    if let (Some(written), Some(beat)) = (written, beat) {
        set(written, &["lastHeartbeatTime"], beat);
    }
}

/// The node's taints, with those that conditions and cordoning call for and without those they do not any more.
fn wanted_taints(node: &Value, now: &Moment) -> Vec<Value> {
    let mut wanted: Vec<(&str, &str)> = Vec::new();
    for (kind, status, key) in CONDITION_TAINTS {
        if node
            .condition(kind)
            .is_some_and(|held| held.text(&["status"]) == status)
        {
            wanted.push((key, "NoSchedule"));
            if kind == "Ready" {
                wanted.push((key, "NoExecute"));
            }
        }
    }
    if node.flag(&["spec", "unschedulable"]) {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    let managed = |taint: &Value| {
        let key = taint.text(&["key"]);
        let by_condition = CONDITION_TAINTS.iter().any(|(_, _, known)| *known == key);
        (by_condition || key == UNSCHEDULABLE)
            && matches!(taint.text(&["effect"]), "NoSchedule" | "NoExecute")
    };
    let is_wanted =
        |taint: &Value| wanted.contains(&(taint.text(&["key"]), taint.text(&["effect"])));
    let held = node.items(&["spec", "taints"]);
    let mut taints: Vec<Value> = held
        .iter()
        .filter(|taint| !managed(taint) || is_wanted(taint))
        .cloned()
        .collect();
    for (key, effect) in wanted {
        let there = taints
            .iter()
            .any(|taint| taint.text(&["key"]) == key && taint.text(&["effect"]) == effect);
        if !there {
            taints.push(json!({"key": key, "effect": effect, "timeAdded": now.stamp}));
        }
    }
    taints
}

/// The controller that ends pods on nodes whose `NoExecute` taints they do not tolerate.
#[derive(Debug, Default)]
pub(crate) struct TaintEviction {
    /// When each pod must have left; a taint that goes and comes again starts a new count.
    leaving: BTreeMap<String, Timestamp>,
}

impl Controller for TaintEviction {
    fn name(&self) -> &'static str {
        "tainteviction"
    }

    fn concerned(&mut self, event: &Event<'_>, world: &World, keys: &mut Vec<Key>) {
        match event.resource {
            "nodes" => {
                let taints = |one: Option<&Arc<Value>>| {
                    one.map(|one| one.items(&["spec", "taints"]).to_vec())
                        .unwrap_or_default()
                };
                if let Some(node) = event.new
                    && taints(event.old) != taints(event.new)
                {
                    keys.extend(world.pods_on(node.name()).map(|pod| Key::of(pod)));
                }
            }
            "pods" => {
                let node = |pod: &Arc<Value>| pod.text(&["spec", "nodeName"]).to_owned();
                match (event.old, event.new) {
                    (Some(old), None) => {
                        self.leaving.remove(old.uid());
                    }
                    (old, Some(new)) if old.map(node) != Some(node(new)) => {
                        keys.push(Key::of(new));
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn plan(&mut self, key: &Key, world: &World, now: Moment) -> Plan {
        let Some(pod) = world.get("pods", key).filter(|pod| !pod.deleting()) else {
            return Plan::default();
        };
        let node = Key::new("", pod.text(&["spec", "nodeName"]));
        let Some(node) = world.get("nodes", &node) else {
            return Plan::default();
        };
        let Some(patience) = patience(pod, node) else {
            self.leaving.remove(pod.uid());
            return Plan::default();
        };
        let deadline = now.at.checked_add(patience).unwrap_or(Timestamp::MAX);
        let deadline = *self.leaving.entry(pod.uid().to_owned()).or_insert(deadline);
        if deadline > now.at {
            let mut plan = Plan::default();
            plan.look_again(
                Duration::try_from(deadline.duration_since(now.at)).unwrap_or_default(),
            );
            return plan;
        }
        end_by_taint(pod, &now).into()
    }
}

/// How long a pod bears its node's `NoExecute` taints; nothing where that is for ever.
fn patience(pod: &Value, node: &Value) -> Option<SignedDuration> {
    let taints: Vec<Taint> = Taint::read_all(node)
        .into_iter()
        .filter(|taint| taint.effect == Effect::NoExecute)
        .collect();
    let tolerations = Toleration::read_all(pod);
    let mut shortest: Option<i64> = None;
    for taint in &taints {
        let bearing: Vec<_> = tolerations
            .iter()
            .filter(|one| one.tolerates(taint))
            .collect();
        if bearing.is_empty() {
            return Some(SignedDuration::ZERO);
        }
        // Upstream takes the shortest of all tolerations that are used.
        let seconds = bearing.iter().filter_map(|one| one.seconds).min();
        shortest = shortest.into_iter().chain(seconds).min();
    }
    shortest.map(|seconds| SignedDuration::from_secs(seconds.max(0)))
}

fn end_by_taint(pod: &Arc<Value>, now: &Moment) -> Vec<Action> {
    let mut object = Value::clone(pod);
    let condition = Condition {
        kind: "DisruptionTarget",
        status: "True",
        reason: "DeletionByTaintManager",
        message: "Taint manager: deleting due to NoExecute taint",
    };
    set_condition(&mut object, condition, &now.stamp);
    let message = format!("Marking for deletion Pod {}", Key::of(pod));
    vec![
        Action::UpdateStatus {
            resource: "pods",
            object,
        },
        Action::note(pod, "TaintManagerEviction", message),
        Action::delete("pods", pod),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(seconds: i64) -> Moment {
        let at = Timestamp::from_second(seconds).unwrap();
        Moment {
            at,
            stamp: at.to_string(),
        }
    }

    fn node(ready: &str, taints: &Value) -> Arc<Value> {
        Arc::new(json!({
            "metadata": {"name": "n"}, "spec": {"taints": taints},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        }))
    }

    fn keys(taints: &[Value]) -> Vec<(&str, &str)> {
        taints
            .iter()
            .map(|taint| (taint.text(&["key"]), taint.text(&["effect"])))
            .collect()
    }

    #[test]
    fn a_silent_node_becomes_unknown_and_unreachable() {
        let node = node("True", &json!([{"key": "mine", "effect": "NoSchedule"}]));
        let grace = Duration::from_secs(50);
        let heard = Timestamp::from_second(0).unwrap();
        let early = reconcile(&node, &[], heard, grace, &moment(50));
        assert_eq!(
            early,
            Plan {
                actions: vec![],
                again: Some(Duration::from_secs(1))
            }
        );
        let pod = Arc::new(json!({
            "metadata": {"name": "p"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }));
        let plan = reconcile(&node, &[pod], heard, grace, &moment(51));
        let unready = plan.actions.iter().any(|action| {
            matches!(action, Action::UpdateStatus { resource: "pods", object } if !object.condition_true("Ready"))
        });
        assert!(unready, "its pods do not serve");
        let Some(Action::Update { object, .. }) = plan.actions.last() else {
            panic!("tainted")
        };
        assert_eq!(
            object.condition("Ready").unwrap().text(&["status"]),
            "Unknown"
        );
        assert_eq!(
            keys(object.items(&["spec", "taints"])),
            [
                ("mine", "NoSchedule"),
                (UNREACHABLE, "NoSchedule"),
                (UNREACHABLE, "NoExecute")
            ]
        );
    }

    #[test]
    fn a_node_that_is_well_again_loses_the_taints_of_its_illness_only() {
        let node = node(
            "True",
            &json!([
                {"key": NOT_READY, "effect": "NoSchedule"}, {"key": NOT_READY, "effect": "NoExecute"},
                {"key": "mine", "effect": "NoExecute"},
            ]),
        );
        assert_eq!(
            keys(&wanted_taints(&node, &moment(0))),
            [("mine", "NoExecute")]
        );
    }

    #[test]
    fn patience_is_the_shortest_toleration_and_none_is_no_patience() {
        let node = node(
            "True",
            &json!([{"key": UNREACHABLE, "effect": "NoExecute"}]),
        );
        let pod = |tolerations: Value| json!({"spec": {"tolerations": tolerations}});
        assert_eq!(patience(&pod(json!([])), &node), Some(SignedDuration::ZERO));
        let for_ever = json!([{"key": UNREACHABLE, "operator": "Exists"}]);
        assert_eq!(patience(&pod(for_ever), &node), None);
        let a_while = json!([
            {"key": UNREACHABLE, "operator": "Exists", "tolerationSeconds": 300},
            {"operator": "Exists", "tolerationSeconds": 60},
        ]);
        assert_eq!(
            patience(&pod(a_while), &node),
            Some(SignedDuration::from_secs(60))
        );
    }
}
