//! `DaemonSet`s: one pod on every node that will have it.
//!
//! kubernetes: `pkg/controller/daemon`. Pods are placed by the scheduler like others; the controller only pins each to
//! its node and gives it tolerations for what daemons must bear.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::history::{self, REVISION_LABEL};
use super::pods::{self, PodName, claim, concerned_owners, from_template, portion};
use super::{Action, Controller, Event, Moment, Plan, World};
use crate::cluster::Key;
use crate::cluster::fields::{Fields as _, place, set};
use crate::cluster::scheduler::taints::{Effect, Taint, Toleration, tolerated};
use crate::cluster::scheduler::{NodeAffinity, read_labels};

const RESOURCE: &str = "daemonsets.apps";
const KIND: (&str, &str) = ("apps/v1", "DaemonSet");

/// Taints that every daemon bears, with their effects.
const BORNE: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// The controller.
#[derive(Debug)]
pub(crate) struct DaemonSets;

impl Controller for DaemonSets {
    fn name(&self) -> &'static str {
        "daemonset"
    }

    fn concerned(&mut self, event: &Event<'_>, world: &World, keys: &mut Vec<Key>) {
        match event.resource {
            RESOURCE => keys.extend(event.object().map(Key::of)),
            "pods" => concerned_owners(event, KIND.1, RESOURCE, world, keys),
            "nodes" => {
                // Heartbeats do not matter, where pods may go does.
                let matters = |node: Option<&Arc<Value>>| {
                    node.map(|node| (node.labels().clone(), node.at(&["spec", "taints"]).clone()))
                };
                if matters(event.old) != matters(event.new) || event.new.is_none() {
                    keys.extend(world.list(RESOURCE).map(|set| Key::of(set)));
                }
            }
            _ => {}
        }
    }

    fn plan(&mut self, key: &Key, world: &World, now: Moment) -> Plan {
        let Some(owner) = world.get(RESOURCE, key) else {
            return Plan::default();
        };
        let claimed = claim(owner, KIND, "pods", world);
        let nodes: Vec<Arc<Value>> = world.list("nodes").map(Arc::clone).collect();
        let revisions = history::revisions(owner, world);
        let mut plan = reconcile(owner, &nodes, &claimed.own, &revisions, now.at);
        plan.actions.splice(0..0, claimed.actions);
        plan
    }
}

/// What a node means for a daemon set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Welcome {
    /// A pod should run there.
    Wanted,
    /// No pod should be started there; one that runs may stay.
    Tolerated,
    /// No pod may run there.
    Refused,
}

/// What to do about a daemon set.
pub(crate) fn reconcile(
    owner: &Arc<Value>,
    nodes: &[Arc<Value>],
    pods: &[Arc<Value>],
    revisions: &[Arc<Value>],
    now: Timestamp,
) -> Plan {
    let current = history::current(owner, KIND, revisions);
    let mut plan = Plan {
        actions: current.actions,
        again: None,
    };
    let template = daemon_template(owner);
    let claims = Claims::of(&template);
    let mut by_node: BTreeMap<&str, Vec<&Arc<Value>>> = BTreeMap::new();
    for pod in pods {
        by_node.entry(target_node(pod)).or_default().push(pod);
    }
    let update = Update::of(owner, &current.hash, now);
    let mut counts = Counts::default();
    let mut running: Vec<Vec<&Arc<Value>>> = Vec::new();
    for node in nodes {
        let here = by_node.remove(node.name()).unwrap_or_default();
        let welcome = claims.welcome(node);
        counts.add(welcome, &here, &update);
        if !owner.deleting() {
            keep_one(owner, node, welcome, &here, &template, &update, &mut plan);
        }
        if welcome == Welcome::Wanted {
            running.push(here);
        }
    }
    if !owner.deleting() {
        // Pods for nodes that are not there any more and that were never placed.
        let stray = by_node
            .values()
            .flatten()
            .filter(|pod| pod.text(&["spec", "nodeName"]).is_empty() && !pod.deleting());
        plan.actions
            .extend(stray.map(|pod| Action::delete("pods", pod)));
        update.roll(owner, &running, &template, &mut plan);
        let hash_of = |pod: &Value| pod.label(REVISION_LABEL).map(str::to_owned);
        plan.actions
            .extend(history::prune(owner, revisions, |revision| {
                revision.name() == current.name
                    || pods.iter().any(|pod| hash_of(pod) == hash_of(revision))
            }));
    }
    counts.write(owner, &mut plan);
    if let Some(wait) = pods::until_available(pods, update.min_ready, now) {
        plan.look_again(wait);
    }
    plan
}

/// The template with the tolerations that daemons have.
fn daemon_template(owner: &Value) -> Value {
    let mut template = owner.at(&["spec", "template"]).clone();
    let host_network = template.flag(&["spec", "hostNetwork"]);
    let list = place(&mut template, &["spec", "tolerations"]);
    if !list.is_array() {
        *list = json!([]);
    }
    if let Some(list) = list.as_array_mut() {
        let network = ("node.kubernetes.io/network-unavailable", "NoSchedule");
        for (key, effect) in BORNE.into_iter().chain(host_network.then_some(network)) {
            let toleration = json!({"key": key, "operator": "Exists", "effect": effect});
            if !list.contains(&toleration) {
                list.push(toleration);
            }
        }
    }
    template
}

/// What a template says about nodes, read once for all of them.
struct Claims<'a> {
    node: &'a str,
    affinity: NodeAffinity,
    tolerations: Vec<Toleration>,
}

impl<'a> Claims<'a> {
    fn of(template: &'a Value) -> Self {
        Self {
            node: template.text(&["spec", "nodeName"]),
            affinity: NodeAffinity::read(template),
            tolerations: Toleration::read_all(template),
        }
    }

    fn welcome(&self, node: &Value) -> Welcome {
        let named = self.node.is_empty() || self.node == node.name();
        if !named
            || !self
                .affinity
                .matches(node.name(), &read_labels(node.labels()))
        {
            return Welcome::Refused;
        }
        let taints = Taint::read_all(node);
        let mut unborne = taints
            .iter()
            .filter(|taint| taint.effect.is_hard() && !tolerated(taint, &self.tolerations))
            .peekable();
        if unborne.peek().is_none() {
            Welcome::Wanted
        } else if unborne.any(|taint| taint.effect == Effect::NoExecute) {
            Welcome::Refused
        } else {
            Welcome::Tolerated
        }
    }
}

/// The node a daemon pod is on or pinned to.
fn target_node(pod: &Value) -> &str {
    let placed = pod.text(&["spec", "nodeName"]);
    if !placed.is_empty() {
        return placed;
    }
    pod.items(&[
        "spec",
        "affinity",
        "nodeAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "nodeSelectorTerms",
    ])
    .iter()
    .flat_map(|term| term.items(&["matchFields"]))
    .find(|field| field.text(&["key"]) == "metadata.name")
    .and_then(|field| field.items(&["values"]).first()?.as_str())
    .unwrap_or_default()
}

fn daemon_pod(owner: &Value, node: &str, template: &Value, hash: &str) -> Action {
    let mut object = from_template(template, owner, KIND.0, KIND.1, &PodName::Generated);
    set(&mut object, &["metadata", "labels", REVISION_LABEL], hash);
    let generation = owner.generation().to_string();
    set(
        &mut object,
        &["metadata", "labels", "pod-template-generation"],
        generation,
    );
    // The pin takes the place of the required terms: whether they hold was decided when the node was chosen.
    let pin = json!({"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]},
    ]});
    let path = [
        "spec",
        "affinity",
        "nodeAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
    ];
    set(&mut object, &path, pin);
    Action::Create {
        resource: "pods",
        namespace: owner.namespace().to_owned(),
        object,
    }
}

/// Sees to it that a node has one pod or none, leaving updates aside.
fn keep_one(
    owner: &Arc<Value>,
    node: &Value,
    welcome: Welcome,
    here: &[&Arc<Value>],
    template: &Value,
    update: &Update<'_>,
    plan: &mut Plan,
) {
    let (ended, mut alive): (Vec<_>, Vec<_>) =
        here.iter().copied().partition(|pod| pods::finished(pod));
    for pod in ended.iter().filter(|pod| !pod.deleting()) {
        plan.push(Action::delete("pods", pod));
        let message = format!(
            "Found failed daemon pod {} on node {}, will try to kill it",
            Key::of(pod),
            node.name()
        );
        plan.push(Action::warn(owner, "FailedDaemonPod", message));
    }
    match welcome {
        Welcome::Refused => {
            let going = alive.iter().filter(|pod| !pod.deleting());
            plan.actions
                .extend(going.map(|pod| Action::delete("pods", pod)));
        }
        Welcome::Wanted if alive.is_empty() && ended.is_empty() => {
            plan.push(daemon_pod(owner, node.name(), template, update.hash));
        }
        Welcome::Wanted | Welcome::Tolerated => {
            // Of several the oldest stays; with a surge one old and one new pod are meant to be there.
            alive.retain(|pod| !pod.deleting());
            alive.sort_by_key(|pod| (pod.created(), pod.name().to_owned()));
            let (new, old): (Vec<_>, Vec<_>) =
                alive.iter().copied().partition(|pod| update.is_new(pod));
            let surplus: Vec<_> = if update.surge > 0 {
                old.into_iter()
                    .skip(1)
                    .chain(new.into_iter().skip(1))
                    .collect()
            } else {
                alive.into_iter().skip(1).collect()
            };
            plan.actions
                .extend(surplus.into_iter().map(|pod| Action::delete("pods", pod)));
        }
    }
}

/// How a daemon set replaces pods of an old template.
struct Update<'a> {
    hash: &'a str,
    rolling: bool,
    unavailable: &'a Value,
    surge: i64,
    min_ready: i64,
    now: Timestamp,
}

impl<'a> Update<'a> {
    fn of(owner: &'a Value, hash: &'a str, now: Timestamp) -> Self {
        let strategy = owner.at(&["spec", "updateStrategy"]);
        let scheduled = owner
            .int(&["status", "desiredNumberScheduled"])
            .unwrap_or_default();
        Self {
            hash,
            rolling: strategy.text(&["type"]) != "OnDelete",
            unavailable: strategy.at(&["rollingUpdate", "maxUnavailable"]),
            surge: portion(strategy.at(&["rollingUpdate", "maxSurge"]), scheduled, true)
                .unwrap_or_default(),
            min_ready: owner.int(&["spec", "minReadySeconds"]).unwrap_or_default(),
            now,
        }
    }

    fn is_new(&self, pod: &Value) -> bool {
        pod.label(REVISION_LABEL) == Some(self.hash)
    }

    fn available(&self, pod: &Value) -> bool {
        !pod.deleting() && pods::available(pod, self.min_ready, self.now)
    }

    /// Replaces old pods, as many at a time as the strategy allows.
    fn roll(&self, owner: &Value, running: &[Vec<&Arc<Value>>], template: &Value, plan: &mut Plan) {
        if !self.rolling {
            return;
        }
        let nodes = i64::try_from(running.len()).unwrap_or(i64::MAX);
        if self.surge > 0 {
            self.roll_with_surge(owner, running, template, plan);
            return;
        }
        let most = portion(self.unavailable, nodes, true).unwrap_or(1).max(1);
        let down = running
            .iter()
            .filter(|here| !here.iter().any(|pod| self.available(pod)));
        let mut budget = most - i64::try_from(down.count()).unwrap_or(i64::MAX);
        for here in running {
            for pod in here
                .iter()
                .filter(|pod| !pod.deleting() && !self.is_new(pod))
            {
                // An old pod that serves nobody costs nothing.
                let costs = i64::from(self.available(pod));
                if costs <= budget.max(0) {
                    budget -= costs;
                    plan.push(Action::delete("pods", pod));
                }
            }
        }
    }

    fn roll_with_surge(
        &self,
        owner: &Value,
        running: &[Vec<&Arc<Value>>],
        template: &Value,
        plan: &mut Plan,
    ) {
        let doubled = |here: &&Vec<&Arc<Value>>| {
            here.iter().any(|pod| self.is_new(pod)) && here.iter().any(|pod| !self.is_new(pod))
        };
        let mut budget =
            self.surge - i64::try_from(running.iter().filter(doubled).count()).unwrap_or(i64::MAX);
        for here in running {
            let new = here.iter().find(|pod| self.is_new(pod) && !pod.deleting());
            let old: Vec<_> = here
                .iter()
                .filter(|pod| !self.is_new(pod) && !pod.deleting())
                .collect();
            match (new, old.first()) {
                (Some(new), Some(_)) if self.available(new) => {
                    plan.actions
                        .extend(old.iter().map(|pod| Action::delete("pods", pod)));
                }
                (None, Some(old)) if budget > 0 => {
                    budget -= 1;
                    plan.push(daemon_pod(owner, target_node(old), template, self.hash));
                }
                _ => {}
            }
        }
    }
}

/// The numbers of a daemon set's status.
#[derive(Debug, Default)]
struct Counts {
    desired: i64,
    current: i64,
    misplaced: i64,
    ready: i64,
    available: i64,
    updated: i64,
}

impl Counts {
    fn add(&mut self, welcome: Welcome, here: &[&Arc<Value>], update: &Update<'_>) {
        let alive: Vec<_> = here.iter().filter(|pod| !pods::finished(pod)).collect();
        if welcome != Welcome::Wanted {
            self.misplaced += i64::from(!alive.is_empty());
            return;
        }
        self.desired += 1;
        let any = |holds: &dyn Fn(&Value) -> bool| i64::from(alive.iter().any(|pod| holds(pod)));
        self.current += i64::from(!alive.is_empty());
        self.ready += any(&pods::ready);
        self.available += any(&|pod| update.available(pod));
        self.updated += any(&|pod| update.is_new(pod));
    }

    fn write(&self, owner: &Value, plan: &mut Plan) {
        let mut object = owner.clone();
        for (field, number) in [
            ("desiredNumberScheduled", self.desired),
            ("currentNumberScheduled", self.current),
            ("numberMisscheduled", self.misplaced),
            ("numberReady", self.ready),
            ("observedGeneration", owner.generation()),
        ] {
            set(&mut object, &["status", field], number);
        }
        for (field, number) in [
            ("updatedNumberScheduled", self.updated),
            ("numberAvailable", self.available),
            ("numberUnavailable", self.desired - self.available),
        ] {
            if number == 0 {
                crate::cluster::fields::unset(&mut object, &["status", field]);
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner() -> Arc<Value> {
        Arc::new(json!({
            "metadata": {"name": "agent", "namespace": "a", "uid": "ds"},
            "spec": {"template": {"spec": {
                "nodeSelector": {"disk": "ssd"}, "containers": [{"name": "c"}],
            }}},
        }))
    }

    fn node(name: &str, disk: &str, taints: &Value) -> Arc<Value> {
        Arc::new(json!({
            "metadata": {"name": name, "labels": {"disk": disk}}, "spec": {"taints": taints},
        }))
    }

    fn created_for(plan: &Plan) -> Vec<&str> {
        let pods = plan.actions.iter().filter_map(|action| match action {
            Action::Create {
                resource: "pods",
                object,
                ..
            } => Some(target_node(object)),
            _ => None,
        });
        pods.collect()
    }

    #[test]
    fn pods_go_to_nodes_that_match_and_whose_taints_daemons_bear() {
        let nodes = [
            node("plain", "ssd", &json!([])),
            node("other", "hdd", &json!([])),
            node(
                "cordoned",
                "ssd",
                &json!([
                {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]),
            ),
            node(
                "dedicated",
                "ssd",
                &json!([{"key": "team", "value": "x", "effect": "NoSchedule"}]),
            ),
        ];
        let plan = reconcile(&owner(), &nodes, &[], &[], Timestamp::UNIX_EPOCH);
        assert_eq!(created_for(&plan), ["plain", "cordoned"]);
    }

    #[test]
    fn old_pods_are_replaced_one_at_a_time() {
        let nodes: Vec<_> = ["n1", "n2"]
            .iter()
            .map(|name| node(name, "ssd", &json!([])))
            .collect();
        let pod = |name: &str, node: &str, hash: &str| {
            Arc::new(json!({
                "metadata": {"name": name, "namespace": "a", "uid": name, "labels": {REVISION_LABEL: hash}},
                "spec": {"nodeName": node},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
            }))
        };
        let pods = [pod("p1", "n1", "old"), pod("p2", "n2", "old")];
        let plan = reconcile(&owner(), &nodes, &pods, &[], Timestamp::UNIX_EPOCH);
        let deleted = |plan: &Plan| -> Vec<String> {
            let names = plan.actions.iter().filter_map(|action| match action {
                Action::Delete { resource, key, .. } if resource == "pods" => {
                    Some(key.name.clone())
                }
                _ => None,
            });
            names.collect()
        };
        assert_eq!(deleted(&plan), ["p1"]);
        let mut by_hand = Value::clone(&owner());
        by_hand["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
        let plan = reconcile(
            &Arc::new(by_hand),
            &nodes,
            &pods,
            &[],
            Timestamp::UNIX_EPOCH,
        );
        assert!(deleted(&plan).is_empty());
    }
}
