//! Deployments: roll from one `ReplicaSet` to the next.
//!
//! kubernetes: `pkg/controller/deployment`. This file finds the new and the old replica sets, keeps revisions and
//! status; `rollout.rs` decides the numbers.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::history::{bare_template, fingerprint};
use super::pods::{self, claim, concerned_owners};
use super::rollout::{self, Limits, Scale};
use super::{Action, Controller, Event, Moment, Plan, World};
use crate::cluster::Key;
use crate::cluster::fields::{
    Condition, Fields as _, controller_ref, remove_condition, set, set_condition, unset,
};

const RESOURCE: &str = "deployments.apps";
const SETS: &str = super::replicaset::RESOURCE;
const KIND: (&str, &str) = ("apps/v1", "Deployment");
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
pub(super) const MOST: &str = "deployment.kubernetes.io/max-replicas";
const HASH_LABEL: &str = "pod-template-hash";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The controller.
#[derive(Debug)]
pub(crate) struct Deployments;

impl Controller for Deployments {
    fn name(&self) -> &'static str {
        "deployment"
    }

    fn concerned(&mut self, event: &Event<'_>, world: &World, keys: &mut Vec<Key>) {
        match event.resource {
            RESOURCE => keys.extend(event.object().map(Key::of)),
            SETS => concerned_owners(event, KIND.1, RESOURCE, world, keys),
            // Recreate waits for the last old pod to be gone.
            "pods" if event.new.is_none() => {
                let set = event
                    .old
                    .and_then(|pod| pod.controller())
                    .map(|set| set.text(&["uid"]));
                let owner = set
                    .and_then(|uid| world.by_uid(uid))
                    .and_then(|(_, set)| Some((set.namespace(), set.controller()?)));
                if let Some((namespace, owner)) = owner {
                    keys.push(Key::new(namespace, owner.text(&["name"])));
                }
            }
            _ => {}
        }
    }

    fn plan(&mut self, key: &Key, world: &World, now: Moment) -> Plan {
        let Some(deployment) = world.get(RESOURCE, key) else {
            return Plan::default();
        };
        let claimed = claim(deployment, KIND, SETS, world);
        let old_pods_left = claimed.own.iter().any(|set| {
            let pods = world.controlled(set.uid(), "pods");
            !is_new(deployment, set) && pods.iter().any(|pod| !pods::finished(pod))
        });
        let mut plan = reconcile(deployment, &claimed.own, old_pods_left, &now);
        plan.actions.splice(0..0, claimed.actions);
        plan
    }
}

fn is_new(deployment: &Value, set: &Value) -> bool {
    bare_template(set.at(&["spec", "template"]))
        == bare_template(deployment.at(&["spec", "template"]))
}

/// What to do about a deployment that has these replica sets. `old_pods_left` says whether pods of old ones still run.
pub(crate) fn reconcile(
    deployment: &Arc<Value>,
    sets: &[Arc<Value>],
    old_pods_left: bool,
    now: &Moment,
) -> Plan {
    let mut plan = Plan::default();
    // The oldest of several equal ones is the one in use, as upstream's `FindNewReplicaSet` has it.
    let new = sets
        .iter()
        .filter(|set| is_new(deployment, set))
        .min_by_key(|set| (set.created(), set.name().to_owned()));
    let mut old: Vec<&Arc<Value>> = sets
        .iter()
        .filter(|set| new.is_none_or(|new| new.uid() != set.uid()))
        .collect();
    old.sort_by_key(|set| (set.created(), set.name().to_owned()));
    if deployment.deleting() {
        write_status(deployment, new, sets, now, &mut plan);
        return plan;
    }
    let limits = Limits::of(deployment);
    let paused = deployment.flag(&["spec", "paused"]);
    let revision = next_revision(new, &old);
    let mut scales: Vec<Scale<'_>> = Vec::new();
    let scaling = rollout::is_scaling(deployment, sets);
    match new {
        Some(new) => keep_revision(deployment, new, revision, &mut plan),
        None if paused || scaling => {}
        None if limits.recreate => {
            scales.extend(rollout::give_up_all(&old));
            if scales.is_empty() && !old_pods_left {
                create_set(deployment, limits.wanted, revision, &mut plan);
            }
        }
        None => {
            let first = rollout::first_scale(&limits, &old);
            create_set(deployment, first, revision, &mut plan);
        }
    }
    if paused || scaling {
        scales = rollout::scale_in_proportion(&limits, new, &old);
    } else if let Some(new) = new {
        scales = if limits.recreate {
            rollout::recreate(&limits, new, &old, old_pods_left)
        } else {
            rollout::roll(&limits, new, &old)
        };
    }
    perform_scales(deployment, &limits, &scales, &mut plan);
    if scales.is_empty() && !paused && rollout::is_complete(deployment, &limits) {
        plan.actions.extend(clean_up(deployment, &old));
    }
    write_status(deployment, new, sets, now, &mut plan);
    plan
}

fn revision_of(set: &Value) -> i64 {
    set.annotation(REVISION)
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}

fn next_revision(new: Option<&Arc<Value>>, old: &[&Arc<Value>]) -> i64 {
    let newest_old = old
        .iter()
        .map(|set| revision_of(set))
        .max()
        .unwrap_or_default();
    // A set that is already the newest keeps its number.
    new.map_or(newest_old + 1, |new| revision_of(new).max(newest_old + 1))
}

fn keep_revision(deployment: &Value, new: &Arc<Value>, revision: i64, plan: &mut Plan) {
    let held = revision_of(new);
    if held < revision {
        let mut object = Value::clone(new);
        if held > 0 {
            let history = match new.annotation(REVISION_HISTORY) {
                Some(history) if !history.is_empty() => format!("{history},{held}"),
                _ => held.to_string(),
            };
            set(
                &mut object,
                &["metadata", "annotations", REVISION_HISTORY],
                history,
            );
        }
        set(
            &mut object,
            &["metadata", "annotations", REVISION],
            revision.to_string(),
        );
        plan.push(Action::Update {
            resource: SETS.to_owned(),
            object,
        });
    }
    mark_revision(deployment, revision, plan);
}

fn mark_revision(deployment: &Value, revision: i64, plan: &mut Plan) {
    if deployment.annotation(REVISION) != Some(revision.to_string().as_str()) {
        let mut object = deployment.clone();
        set(
            &mut object,
            &["metadata", "annotations", REVISION],
            revision.to_string(),
        );
        plan.push(Action::Update {
            resource: RESOURCE.to_owned(),
            object,
        });
    }
}

fn create_set(deployment: &Arc<Value>, replicas: i64, revision: i64, plan: &mut Plan) {
    let mut template = bare_template(deployment.at(&["spec", "template"]));
    let collisions = deployment
        .int(&["status", "collisionCount"])
        .unwrap_or_default();
    let hash = fingerprint(&template, collisions);
    set(
        &mut template,
        &["metadata", "labels", HASH_LABEL],
        hash.as_str(),
    );
    let mut selector = deployment.at(&["spec", "selector"]).clone();
    set(&mut selector, &["matchLabels", HASH_LABEL], hash.as_str());
    let mut annotations = deployment.at(&["metadata", "annotations"]).clone();
    if !annotations.is_object() {
        annotations = json!({});
    }
    unset(&mut annotations, &[LAST_APPLIED]);
    let limits = Limits::of(deployment);
    for (key, value) in [
        (REVISION, revision),
        (DESIRED, limits.wanted),
        (MOST, limits.wanted + limits.surge),
    ] {
        set(&mut annotations, &[key], value.to_string());
    }
    let name = format!("{}-{hash}", deployment.name());
    plan.push(Action::Create {
        resource: SETS,
        namespace: deployment.namespace().to_owned(),
        object: json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {
                "name": name, "namespace": deployment.namespace(),
                "labels": template.at(&["metadata", "labels"]), "annotations": annotations,
                "ownerReferences": [controller_ref(deployment, KIND.0, KIND.1)],
            },
            "spec": {
                "replicas": replicas, "selector": selector, "template": template,
                "minReadySeconds": deployment.int(&["spec", "minReadySeconds"]).unwrap_or_default(),
            },
        }),
    });
    let message = format!("Scaled up replica set {name} from 0 to {replicas}");
    plan.push(Action::note(deployment, "ScalingReplicaSet", message));
    mark_revision(deployment, revision, plan);
}

fn perform_scales(deployment: &Arc<Value>, limits: &Limits, scales: &[Scale<'_>], plan: &mut Plan) {
    for scale in scales {
        let mut object = Value::clone(scale.set);
        let from = scale.set.int(&["spec", "replicas"]).unwrap_or_default();
        set(&mut object, &["spec", "replicas"], scale.to);
        let annotations = ["metadata", "annotations"];
        let most = limits.wanted + limits.surge;
        for (key, value) in [(DESIRED, limits.wanted), (MOST, most)] {
            set(
                &mut object,
                &[annotations[0], annotations[1], key],
                value.to_string(),
            );
        }
        // An annotation written in the same plan must not be lost with the older copy.
        let newest = plan.actions.iter().find_map(|action| match action {
            Action::Update { object, .. } if object.uid() == scale.set.uid() => {
                Some(object.at(&annotations).clone())
            }
            _ => None,
        });
        if let Some(newest) = newest {
            for key in [REVISION, REVISION_HISTORY] {
                if let Some(text) = newest.at(&[key]).as_str() {
                    set(&mut object, &[annotations[0], annotations[1], key], text);
                }
            }
        }
        if from != scale.to {
            let direction = if scale.to > from { "up" } else { "down" };
            let name = scale.set.name();
            let message = format!(
                "Scaled {direction} replica set {name} from {from} to {}",
                scale.to
            );
            plan.push(Action::note(deployment, "ScalingReplicaSet", message));
        }
        plan.push(Action::Update {
            resource: SETS.to_owned(),
            object,
        });
    }
}

/// Old replica sets beyond the number that is kept for going back.
fn clean_up(deployment: &Value, old: &[&Arc<Value>]) -> Vec<Action> {
    let keep = deployment
        .int(&["spec", "revisionHistoryLimit"])
        .unwrap_or(10);
    let mut idle: Vec<_> = old
        .iter()
        .filter(|set| {
            set.int(&["spec", "replicas"]) == Some(0)
                && set.int(&["status", "replicas"]).unwrap_or_default() == 0
                && !set.deleting()
        })
        .collect();
    idle.sort_by_key(|set| (revision_of(set), set.created()));
    let surplus = idle
        .len()
        .saturating_sub(usize::try_from(keep).unwrap_or_default());
    idle.into_iter()
        .take(surplus)
        .map(|set| Action::delete(SETS, set))
        .collect()
}

fn write_status(
    deployment: &Arc<Value>,
    new: Option<&Arc<Value>>,
    sets: &[Arc<Value>],
    now: &Moment,
    plan: &mut Plan,
) {
    let limits = Limits::of(deployment);
    let total = |field: &str| -> i64 {
        sets.iter()
            .filter_map(|set| set.int(&["status", field]))
            .sum()
    };
    let available = total("availableReplicas");
    let replicas = total("replicas");
    let updated = new
        .and_then(|new| new.int(&["status", "replicas"]))
        .unwrap_or_default();
    let mut object = Value::clone(deployment);
    set(
        &mut object,
        &["status", "observedGeneration"],
        deployment.generation(),
    );
    for (field, number) in [
        ("replicas", replicas),
        ("updatedReplicas", updated),
        ("readyReplicas", total("readyReplicas")),
        ("availableReplicas", available),
        (
            "unavailableReplicas",
            (rollout::scale_of(sets) - available).max(0),
        ),
    ] {
        if number == 0 {
            unset(&mut object, &["status", field]);
        } else {
            set(&mut object, &["status", field], number);
        }
    }
    let enough = available >= limits.wanted - limits.unavailable;
    let condition = if enough {
        Condition {
            kind: "Available",
            status: "True",
            reason: "MinimumReplicasAvailable",
            message: "Deployment has minimum availability.",
        }
    } else {
        Condition {
            kind: "Available",
            status: "False",
            reason: "MinimumReplicasUnavailable",
            message: "Deployment does not have minimum availability.",
        }
    };
    set_stamped(&mut object, condition, &now.stamp);
    write_progress(&mut object, deployment, new, &limits, now, plan);
    if object.at(&["status"]) != deployment.at(&["status"]) {
        plan.push(Action::UpdateStatus {
            resource: RESOURCE,
            object,
        });
    }
}

/// Writes a condition of a deployment, which also has the time of its last update.
fn set_stamped(object: &mut Value, condition: Condition<'_>, stamp: &str) {
    let held = object
        .condition(condition.kind)
        .map(|held| held.at(&["lastUpdateTime"]).clone());
    let changed = set_condition(object, condition, stamp);
    let update_time = held.filter(|_| !changed).unwrap_or_else(|| json!(stamp));
    let conditions = object["status"]["conditions"].as_array_mut();
    let written = conditions
        .into_iter()
        .flatten()
        .find(|held| held.text(&["type"]) == condition.kind);
    if let Some(written) = written {
        set(written, &["lastUpdateTime"], update_time);
    }
}

fn write_progress(
    object: &mut Value,
    deployment: &Value,
    new: Option<&Arc<Value>>,
    limits: &Limits,
    now: &Moment,
    plan: &mut Plan,
) {
    let Some(deadline) = deployment.int(&["spec", "progressDeadlineSeconds"]) else {
        remove_condition(object, "Progressing");
        return;
    };
    let name = new.map_or_else(|| deployment.name().to_owned(), |new| new.name().to_owned());
    let held = deployment
        .condition("Progressing")
        .cloned()
        .unwrap_or_default();
    let told = |kind: &str| held.text(&["reason"]) == kind;
    let (status, reason, message) = if deployment.flag(&["spec", "paused"]) {
        (
            "Unknown",
            "DeploymentPaused",
            "Deployment is paused".to_owned(),
        )
    } else if rollout::is_complete(object, limits) {
        let message = format!("ReplicaSet \"{name}\" has successfully progressed.");
        ("True", "NewReplicaSetAvailable", message)
    } else if held.is_null() {
        (
            "True",
            "NewReplicaSetCreated",
            format!("Created new replica set \"{name}\""),
        )
    } else if made_progress(object, deployment)
        || told("NewReplicaSetAvailable")
        || told("DeploymentPaused")
    {
        (
            "True",
            "ReplicaSetUpdated",
            format!("ReplicaSet \"{name}\" is progressing."),
        )
    } else {
        let since = held.time(&["lastUpdateTime"]).unwrap_or(now.at);
        let left = since.as_second() + deadline - now.at.as_second();
        if left > 0 {
            plan.look_again(Duration::from_secs(u64::try_from(left).unwrap_or_default()));
            return;
        }
        (
            "False",
            "ProgressDeadlineExceeded",
            format!("ReplicaSet \"{name}\" has timed out progressing."),
        )
    };
    if status != "False" && reason != "NewReplicaSetAvailable" && reason != "DeploymentPaused" {
        plan.look_again(Duration::from_secs(
            u64::try_from(deadline).unwrap_or_default(),
        ));
    }
    // Progress renews the condition even where its words stay the same: the deadline counts from it.
    if made_progress(object, deployment) && told(reason) {
        remove_condition(object, "Progressing");
        let since = held.text(&["lastTransitionTime"]);
        set_stamped(
            object,
            Condition {
                kind: "Progressing",
                status,
                reason,
                message: &message,
            },
            since,
        );
        set_stamp_only(object, &now.stamp);
        return;
    }
    set_stamped(
        object,
        Condition {
            kind: "Progressing",
            status,
            reason,
            message: &message,
        },
        &now.stamp,
    );
}

fn set_stamp_only(object: &mut Value, stamp: &str) {
    let conditions = object["status"]["conditions"].as_array_mut();
    let written = conditions
        .into_iter()
        .flatten()
        .find(|held| held.text(&["type"]) == "Progressing");
    if let Some(written) = written {
        set(written, &["lastUpdateTime"], stamp);
    }
}

/// Whether a new status is closer to the goal than the old one.
fn made_progress(new: &Value, old: &Value) -> bool {
    let number = |object: &Value, field: &str| object.int(&["status", field]).unwrap_or_default();
    let outdated = |object: &Value| number(object, "replicas") - number(object, "updatedReplicas");
    number(new, "updatedReplicas") > number(old, "updatedReplicas")
        || outdated(new) < outdated(old)
        || number(new, "readyReplicas") > number(old, "readyReplicas")
        || number(new, "availableReplicas") > number(old, "availableReplicas")
}
