//! `StatefulSet`s: numbered pods with their own claims, made, replaced and given up in order.
//!
//! kubernetes: `pkg/controller/statefulset/stateful_set_control.go`.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::history::{self, REVISION_LABEL};
use super::pods::{self, PodName, claim, concerned_owners, from_template};
use super::{Action, Controller, Event, Moment, Plan, World};
use crate::cluster::Key;
use crate::cluster::fields::{Fields as _, place, set, unset};

const RESOURCE: &str = "statefulsets.apps";
const KIND: (&str, &str) = ("apps/v1", "StatefulSet");

/// The controller.
#[derive(Debug)]
pub(crate) struct StatefulSets;

impl Controller for StatefulSets {
    fn name(&self) -> &'static str {
        "statefulset"
    }

    fn concerned(&mut self, event: &Event<'_>, world: &World, keys: &mut Vec<Key>) {
        match event.resource {
            RESOURCE => keys.extend(event.object().map(Key::of)),
            "pods" => concerned_owners(event, KIND.1, RESOURCE, world, keys),
            _ => {}
        }
    }

    fn plan(&mut self, key: &Key, world: &World, now: Moment) -> Plan {
        let Some(owner) = world.get(RESOURCE, key) else {
            return Plan::default();
        };
        let claimed = claim(owner, KIND, "pods", world);
        let revisions = history::revisions(owner, world);
        let held_claims = |name: &str| {
            world
                .get("persistentvolumeclaims", &Key::new(&key.namespace, name))
                .is_some()
        };
        let mut plan = reconcile(owner, &claimed.own, &revisions, held_claims, now.at);
        plan.actions.splice(0..0, claimed.actions);
        plan
    }
}

/// Whether a pod was made from a revision; pods carry its name in full.
fn is_of(pod: &Value, revision: &str) -> bool {
    pod.label(REVISION_LABEL) == Some(revision)
}

fn healthy(pod: &Value) -> bool {
    pod.text(&["status", "phase"]) == "Running" && pods::ready(pod) && !pod.deleting()
}

/// A stateful set at one moment.
struct Set<'a> {
    owner: &'a Arc<Value>,
    now: Timestamp,
    min_ready: i64,
    first: i64,
    wanted: i64,
    in_order: bool,
    /// Pods below this ordinal stay as they are in a rolling update.
    partition: i64,
    current: String,
    update: String,
    pods: BTreeMap<i64, &'a Arc<Value>>,
}

/// What to do about a stateful set. `has_claim` tells which claims are already there.
pub(crate) fn reconcile(
    owner: &Arc<Value>,
    pods: &[Arc<Value>],
    revisions: &[Arc<Value>],
    has_claim: impl Fn(&str) -> bool,
    now: Timestamp,
) -> Plan {
    let newest = history::current(owner, KIND, revisions);
    let mut plan = Plan {
        actions: newest.actions,
        again: None,
    };
    let known = |name: &str| revisions.iter().any(|revision| revision.name() == name);
    let current = owner.text(&["status", "currentRevision"]);
    let rolling = owner.at(&["spec", "updateStrategy", "rollingUpdate"]);
    let ordinal = |pod: &Value| {
        pod.name()
            .strip_prefix(owner.name())?
            .strip_prefix('-')?
            .parse::<i64>()
            .ok()
    };
    let set = Set {
        owner,
        now,
        min_ready: owner.int(&["spec", "minReadySeconds"]).unwrap_or_default(),
        first: owner
            .int(&["spec", "ordinals", "start"])
            .unwrap_or_default(),
        wanted: owner.int(&["spec", "replicas"]).unwrap_or(1),
        in_order: owner.text(&["spec", "podManagementPolicy"]) != "Parallel",
        partition: rolling.int(&["partition"]).unwrap_or_default(),
        current: if known(current) {
            current.to_owned()
        } else {
            newest.name.clone()
        },
        update: newest.name.clone(),
        pods: pods
            .iter()
            .filter_map(|pod| Some((ordinal(pod)?, pod)))
            .collect(),
    };
    if !owner.deleting() {
        set.step(revisions, &has_claim, &mut plan);
        plan.actions
            .extend(history::prune(owner, revisions, |revision| {
                revision.name() == set.current
                    || revision.name() == set.update
                    || pods.iter().any(|pod| is_of(pod, revision.name()))
            }));
    }
    set.write_status(&mut plan);
    if let Some(wait) = pods::until_available(pods, set.min_ready, now) {
        plan.look_again(wait);
    }
    plan
}

impl Set<'_> {
    fn available(&self, pod: &Value) -> bool {
        healthy(pod) && pods::available(pod, self.min_ready, self.now)
    }

    fn end(&self) -> i64 {
        self.first + self.wanted
    }

    /// One step towards what is wanted; in order means that each pod waits for the one before.
    fn step(&self, revisions: &[Arc<Value>], has_claim: &dyn Fn(&str) -> bool, plan: &mut Plan) {
        for ordinal in self.first..self.end() {
            match self.pods.get(&ordinal) {
                None => {
                    self.create(ordinal, revisions, has_claim, plan);
                    if self.in_order {
                        return;
                    }
                }
                Some(pod) if pods::finished(pod) && !pod.deleting() => {
                    let message = format!(
                        "StatefulSet {} is recreating failed Pod {}",
                        Key::of(self.owner),
                        pod.name()
                    );
                    plan.push(Action::warn(self.owner, "RecreatingFailedPod", message));
                    plan.push(Action::delete("pods", pod));
                    if self.in_order {
                        return;
                    }
                }
                // A pod on its way out, not ready or not ready for long enough holds back those after it.
                Some(pod) if self.in_order && !self.available(pod) => return,
                Some(_) => {}
            }
        }
        if self.give_up_surplus(plan) {
            return;
        }
        self.roll(plan);
    }

    /// Gives up pods beyond the wanted number, highest first. Says whether that is not finished.
    fn give_up_surplus(&self, plan: &mut Plan) -> bool {
        let surplus = self
            .pods
            .iter()
            .rev()
            .filter(|(ordinal, _)| **ordinal < self.first || **ordinal >= self.end());
        let mut busy = false;
        for (_, pod) in surplus {
            busy = true;
            if !pod.deleting() {
                plan.push(Action::delete("pods", pod));
                let (owner, name) = (Key::of(self.owner).name, pod.name());
                let message = format!("delete Pod {name} in StatefulSet {owner} successful");
                plan.push(Action::note(self.owner, "SuccessfulDelete", message));
            }
            if self.in_order {
                return true;
            }
        }
        busy
    }

    /// Replaces pods of an old revision, from the highest down, one at a time.
    fn roll(&self, plan: &mut Plan) {
        if self.owner.text(&["spec", "updateStrategy", "type"]) == "OnDelete" {
            return;
        }
        let lowest = self.first.max(self.first + self.partition);
        for ordinal in (lowest..self.end()).rev() {
            let Some(pod) = self.pods.get(&ordinal) else {
                return;
            };
            if !is_of(pod, &self.update) && !pod.deleting() {
                plan.push(Action::delete("pods", pod));
                return;
            }
            if !self.available(pod) {
                return;
            }
        }
    }

    fn create(
        &self,
        ordinal: i64,
        revisions: &[Arc<Value>],
        has_claim: &dyn Fn(&str) -> bool,
        plan: &mut Plan,
    ) {
        // Below the partition pods keep the revision they had.
        let keeps_old = self.owner.text(&["spec", "updateStrategy", "type"]) != "OnDelete"
            && ordinal < self.first + self.partition;
        let revision = if keeps_old {
            &self.current
        } else {
            &self.update
        };
        let template = revisions
            .iter()
            .find(|held| held.name() == revision)
            .map_or_else(
                || self.owner.at(&["spec", "template"]),
                |held| held.at(&["data", "spec", "template"]),
            );
        let name = format!("{}-{ordinal}", self.owner.name());
        let mut pod = from_template(template, self.owner, KIND.0, KIND.1, &PodName::Fixed(&name));
        for (label, value) in [
            (REVISION_LABEL, revision.as_str()),
            ("statefulset.kubernetes.io/pod-name", &name),
            ("apps.kubernetes.io/pod-index", &ordinal.to_string()),
        ] {
            set(&mut pod, &["metadata", "labels", label], value);
        }
        set(&mut pod, &["spec", "hostname"], name.as_str());
        let subdomain = self.owner.text(&["spec", "serviceName"]);
        if !subdomain.is_empty() {
            set(&mut pod, &["spec", "subdomain"], subdomain);
        }
        self.add_claims(&name, &mut pod, has_claim, plan);
        let namespace = self.owner.namespace().to_owned();
        plan.push(Action::Create {
            resource: "pods",
            namespace,
            object: pod,
        });
        let owner = self.owner.name();
        let message = format!("create Pod {name} in StatefulSet {owner} successful");
        plan.push(Action::note(self.owner, "SuccessfulCreate", message));
    }

    fn add_claims(
        &self,
        pod_name: &str,
        pod: &mut Value,
        has_claim: &dyn Fn(&str) -> bool,
        plan: &mut Plan,
    ) {
        let templates = self.owner.items(&["spec", "volumeClaimTemplates"]);
        if templates.is_empty() {
            return;
        }
        let mut volumes: Vec<Value> = pod
            .items(&["spec", "volumes"])
            .iter()
            .filter(|volume| {
                templates
                    .iter()
                    .all(|one| one.name() != volume.text(&["name"]))
            })
            .cloned()
            .collect();
        for template in templates {
            let claim = format!("{}-{pod_name}", template.name());
            volumes.push(json!({
                "name": template.name(), "persistentVolumeClaim": {"claimName": claim},
            }));
            if !has_claim(&claim) {
                let mut object = json!({
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                    "metadata": template.at(&["metadata"]), "spec": template.at(&["spec"]),
                });
                set(&mut object, &["metadata", "name"], claim);
                set(
                    &mut object,
                    &["metadata", "namespace"],
                    self.owner.namespace(),
                );
                let labels = self.owner.at(&["spec", "selector", "matchLabels"]);
                for (key, value) in labels.as_object().into_iter().flatten() {
                    set(&mut object, &["metadata", "labels", key], value.clone());
                }
                plan.push(Action::Create {
                    resource: "persistentvolumeclaims",
                    namespace: self.owner.namespace().to_owned(),
                    object,
                });
            }
        }
        *place(pod, &["spec", "volumes"]) = Value::Array(volumes);
    }

    fn write_status(&self, plan: &mut Plan) {
        let count = |holds: &dyn Fn(&Value) -> bool| {
            let found = self
                .pods
                .values()
                .filter(|pod| !pods::finished(pod) && holds(pod));
            i64::try_from(found.count()).unwrap_or(i64::MAX)
        };
        let updated = count(&|pod| is_of(pod, &self.update) && !pod.deleting());
        let ready = count(&|pod| healthy(pod));
        // The update is done when every pod is of it and ready: then it is what is current.
        let done = updated == self.wanted && ready == self.wanted;
        let current = if done { &self.update } else { &self.current };
        let mut object = Value::clone(self.owner);
        set(
            &mut object,
            &["status", "observedGeneration"],
            self.owner.generation(),
        );
        set(
            &mut object,
            &["status", "currentRevision"],
            current.as_str(),
        );
        set(
            &mut object,
            &["status", "updateRevision"],
            self.update.as_str(),
        );
        set(&mut object, &["status", "replicas"], count(&|_| true));
        set(
            &mut object,
            &["status", "availableReplicas"],
            count(&|pod| self.available(pod)),
        );
        for (field, number) in [
            ("readyReplicas", ready),
            (
                "currentReplicas",
                count(&|pod| is_of(pod, current) && !pod.deleting()),
            ),
            ("updatedReplicas", updated),
        ] {
            if number == 0 {
                unset(&mut object, &["status", field]);
            } else {
                set(&mut object, &["status", field], number);
            }
        }
        if *place(&mut object, &["status", "collisionCount"]) == Value::Null {
            set(&mut object, &["status", "collisionCount"], 0);
        }
        if object.at(&["status"]) != self.owner.at(&["status"]) {
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

    fn owner(replicas: i64, policy: &str, partition: i64) -> Arc<Value> {
        Arc::new(json!({
            "metadata": {"name": "db", "namespace": "a", "uid": "u"},
            "spec": {
                "replicas": replicas, "podManagementPolicy": policy, "serviceName": "db",
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}},
                "template": {"spec": {"containers": [{"name": "c"}]}},
                "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}],
            },
        }))
    }

    fn pod(ordinal: i64, ready: bool, revision: &str) -> Arc<Value> {
        Arc::new(json!({
            "metadata": {"name": format!("db-{ordinal}"), "uid": format!("{ordinal}"),
                         "labels": {REVISION_LABEL: revision}},
            "status": {"phase": "Running", "conditions": [
                {"type": "Ready", "status": if ready { "True" } else { "False" }}]},
        }))
    }

    fn done(plan: &Plan) -> Vec<String> {
        plan.actions
            .iter()
            .filter_map(|action| match action {
                Action::Create {
                    resource: "controllerrevisions.apps",
                    ..
                } => None,
                Action::Create { object, .. } => Some(format!("+{}", object.name())),
                Action::Delete { key, .. } => Some(format!("-{}", key.name)),
                _ => None,
            })
            .collect()
    }

    fn newest(owner: &Arc<Value>) -> String {
        history::current(owner, KIND, &[]).name
    }

    fn plan(owner: &Arc<Value>, pods: &[Arc<Value>]) -> Vec<String> {
        done(&reconcile(
            owner,
            pods,
            &[],
            |_| false,
            Timestamp::UNIX_EPOCH,
        ))
    }

    #[test]
    fn each_pod_waits_for_the_one_before_it() {
        let owner = owner(3, "OrderedReady", 0);
        let now = newest(&owner);
        assert_eq!(plan(&owner, &[]), ["+data-db-0", "+db-0"]);
        assert!(plan(&owner, &[pod(0, false, &now)]).is_empty());
        assert_eq!(plan(&owner, &[pod(0, true, &now)]), ["+data-db-1", "+db-1"]);
    }

    #[test]
    fn parallel_pods_do_not_wait() {
        let owner = owner(2, "Parallel", 0);
        assert_eq!(
            plan(&owner, &[]),
            ["+data-db-0", "+db-0", "+data-db-1", "+db-1"]
        );
    }

    #[test]
    fn surplus_pods_go_from_the_highest_down() {
        let owner = owner(1, "OrderedReady", 0);
        let now = newest(&owner);
        let pods = [pod(0, true, &now), pod(1, true, &now), pod(2, true, &now)];
        assert_eq!(plan(&owner, &pods), ["-db-2"]);
    }

    #[test]
    fn updates_go_from_the_highest_down_to_the_partition() {
        let sets = owner(3, "OrderedReady", 1);
        let now = newest(&sets);
        let old = || {
            [
                pod(0, true, "old"),
                pod(1, true, "old"),
                pod(2, true, "old"),
            ]
        };
        assert_eq!(plan(&sets, &old()), ["-db-2"]);
        assert_eq!(
            plan(
                &sets,
                &[pod(0, true, "old"), pod(1, true, "old"), pod(2, true, &now)]
            ),
            ["-db-1"]
        );
        let most = [pod(0, true, "old"), pod(1, true, &now), pod(2, true, &now)];
        assert!(plan(&sets, &most).is_empty());
    }
}
