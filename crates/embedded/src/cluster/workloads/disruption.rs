//! `PodDisruptionBudget`s: how many pods may be disrupted now.
//!
//! kubernetes: `pkg/controller/disruption`. The expected number of pods is what their controllers were told to have, not
//! what is there: a budget must not shrink because pods are missing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::pods::{portion, ready};
use super::{Action, Controller, Event, Moment, Plan, World};
use crate::cluster::Key;
use crate::cluster::fields::{Condition, Fields as _, place, set, set_condition};
use crate::selector::Selector;

const RESOURCE: &str = "poddisruptionbudgets.policy";
/// An eviction that was granted and whose pod is still there after this long is taken to have been refused.
const DISRUPTION_TIMEOUT_SECONDS: i64 = 120;

/// The controller.
#[derive(Debug)]
pub(crate) struct Disruption;

impl Controller for Disruption {
    fn name(&self) -> &'static str {
        "disruption"
    }

    fn concerned(&mut self, event: &Event<'_>, world: &World, keys: &mut Vec<Key>) {
        let Some(object) = event.object() else { return };
        match event.resource {
            RESOURCE => keys.push(Key::of(object)),
            "pods" => {
                for budget in world.in_namespace(RESOURCE, object.namespace()) {
                    let selector = Selector::read(budget.at(&["spec", "selector"]));
                    let concerns = |pod: &Arc<Value>| selector.matches(pod.labels());
                    if event.old.is_some_and(concerns) || event.new.is_some_and(concerns) {
                        keys.push(Key::of(budget));
                    }
                }
            }
            "replicasets.apps"
            | "deployments.apps"
            | "statefulsets.apps"
            | "replicationcontrollers" => {
                // Only the number of replicas matters here.
                let replicas =
                    |one: Option<&Arc<Value>>| one.map(|one| one.at(&["spec", "replicas"]).clone());
                if replicas(event.old) != replicas(event.new) {
                    keys.extend(
                        world
                            .in_namespace(RESOURCE, object.namespace())
                            .map(|one| Key::of(one)),
                    );
                }
            }
            _ => {}
        }
    }

    fn plan(&mut self, key: &Key, world: &World, now: Moment) -> Plan {
        let Some(budget) = world.get(RESOURCE, key) else {
            return Plan::default();
        };
        let selector = Selector::read(budget.at(&["spec", "selector"]));
        let pods: Vec<Arc<Value>> = world
            .in_namespace("pods", &key.namespace)
            .filter(|pod| selector.matches(pod.labels()))
            .map(Arc::clone)
            .collect();
        let scale = controller_scale(&pods, world);
        reconcile(budget, &pods, scale, &now)
    }
}

/// The replicas that the controllers of these pods were told to have; a sentence where one cannot be told.
fn controller_scale(pods: &[Arc<Value>], world: &World) -> Result<i64, String> {
    let mut scales: BTreeMap<String, i64> = BTreeMap::new();
    for pod in pods {
        let Some(owner) = pod.controller() else {
            return Err(format!("found no controllers for pod \"{}\"", pod.name()));
        };
        let Some((_, found)) = world.by_uid(owner.text(&["uid"])) else {
            return Err(format!("found no controllers for pod \"{}\"", pod.name()));
        };
        // A replica set of a deployment stands for the deployment.
        let top = found
            .controller()
            .filter(|_| owner.text(&["kind"]) == "ReplicaSet")
            .and_then(|above| world.by_uid(above.text(&["uid"])))
            .map_or(found, |(_, above)| above);
        let Some(replicas) = top.int(&["spec", "replicas"]) else {
            let kind = owner.text(&["kind"]);
            return Err(format!("{kind} does not implement the scale subresource"));
        };
        scales.insert(top.uid().to_owned(), replicas);
    }
    Ok(scales.values().sum())
}

/// What to write about a budget whose selector matches these pods.
fn reconcile(
    budget: &Arc<Value>,
    pods: &[Arc<Value>],
    scale: Result<i64, String>,
    now: &Moment,
) -> Plan {
    let mut plan = Plan::default();
    let mut object = Value::clone(budget);
    if !object.at(&["status"]).is_object() {
        set(&mut object, &["status"], serde_json::json!({}));
    }
    forget_old_disruptions(&mut object, pods, now, &mut plan);
    let disrupted = |pod: &Value| {
        object
            .at(&["status", "disruptedPods", pod.name()])
            .is_string()
    };
    let healthy = pods
        .iter()
        .filter(|pod| ready(pod) && !pod.deleting() && !disrupted(pod));
    let healthy = i64::try_from(healthy.count()).unwrap_or(i64::MAX);
    let stamp = &now.stamp;
    match wanted(budget, pods.len(), scale) {
        Ok((expected, desired)) => {
            let allowed = if expected <= 0 {
                0
            } else {
                (healthy - desired).max(0)
            };
            for (field, number) in [
                ("currentHealthy", healthy),
                ("desiredHealthy", desired),
                ("expectedPods", expected),
                ("disruptionsAllowed", allowed),
            ] {
                set(&mut object, &["status", field], number);
            }
            let (status, reason) = if allowed > 0 {
                ("True", "SufficientPods")
            } else {
                ("False", "InsufficientPods")
            };
            let condition = Condition {
                kind: "DisruptionAllowed",
                status,
                reason,
                message: "",
            };
            set_condition(&mut object, condition, stamp);
        }
        // What cannot be counted must not be disrupted.
        Err(why) => {
            set(&mut object, &["status", "disruptionsAllowed"], 0);
            let condition = Condition {
                kind: "DisruptionAllowed",
                status: "False",
                reason: "SyncFailed",
                message: &why,
            };
            set_condition(&mut object, condition, stamp);
            for field in ["currentHealthy", "desiredHealthy", "expectedPods"] {
                let slot = place(&mut object, &["status", field]);
                if slot.is_null() {
                    *slot = 0.into();
                }
            }
            plan.push(Action::warn(
                budget,
                "CalculateExpectedPodCountFailed",
                format!("Failed to calculate the number of expected pods: {why}"),
            ));
        }
    }
    set_observed(&mut object);
    if object.at(&["status"]) == budget.at(&["status"]) {
        plan.actions.clear();
    } else {
        plan.push(Action::UpdateStatus {
            resource: RESOURCE,
            object,
        });
    }
    plan
}

/// How many pods there should be, and how many of them must be healthy.
fn wanted(
    budget: &Value,
    present: usize,
    scale: Result<i64, String>,
) -> Result<(i64, i64), String> {
    let least = budget.at(&["spec", "minAvailable"]);
    let most = budget.at(&["spec", "maxUnavailable"]);
    if !most.is_null() {
        let expected = scale?;
        let lost = portion(most, expected, true).unwrap_or_default();
        Ok((expected, (expected - lost).max(0)))
    } else if least.is_string() {
        let expected = scale?;
        Ok((expected, portion(least, expected, true).unwrap_or_default()))
    } else {
        let present = i64::try_from(present).unwrap_or(i64::MAX);
        Ok((present, least.as_i64().unwrap_or(1)))
    }
}

fn set_observed(object: &mut Value) {
    let generation = object.generation();
    set(object, &["status", "observedGeneration"], generation);
    // The condition tells of the same generation.
    if let Some(conditions) = place(object, &["status", "conditions"]).as_array_mut() {
        for condition in conditions {
            set(condition, &["observedGeneration"], generation);
            for field in ["reason", "message"] {
                let slot = place(condition, &[field]);
                if slot.is_null() {
                    *slot = "".into();
                }
            }
        }
    }
}

/// Drops granted evictions whose pods are gone, going, or still there long after.
fn forget_old_disruptions(object: &mut Value, pods: &[Arc<Value>], now: &Moment, plan: &mut Plan) {
    let Some(held) = object.at(&["status", "disruptedPods"]).as_object().cloned() else {
        return;
    };
    for (name, at) in held {
        let pod = pods.iter().find(|pod| pod.name() == name);
        let at = at
            .as_str()
            .and_then(|text| text.parse::<jiff::Timestamp>().ok());
        let left = at.map_or(0, |at| {
            at.as_second() + DISRUPTION_TIMEOUT_SECONDS - now.at.as_second()
        });
        if pod.is_none_or(|pod| pod.deleting()) || left <= 0 {
            crate::cluster::fields::unset(object, &["status", "disruptedPods", &name]);
        } else {
            plan.look_again(Duration::from_secs(u64::try_from(left).unwrap_or_default()));
        }
    }
    let empty = object
        .at(&["status", "disruptedPods"])
        .as_object()
        .is_some_and(serde_json::Map::is_empty);
    if empty {
        crate::cluster::fields::unset(object, &["status", "disruptedPods"]);
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    fn moment(seconds: i64) -> Moment {
        let at = Timestamp::from_second(seconds).unwrap();
        Moment {
            at,
            stamp: at.to_string(),
        }
    }

    fn pods(ready: usize, unready: usize) -> Vec<Arc<Value>> {
        (0..ready + unready)
            .map(|number| {
                let status = if number < ready { "True" } else { "False" };
                Arc::new(json!({
                    "metadata": {"name": format!("p{number}")},
                    "status": {"conditions": [{"type": "Ready", "status": status}]},
                }))
            })
            .collect()
    }

    fn allowed(spec: &Value, pods: &[Arc<Value>], scale: Result<i64, String>) -> Value {
        let budget = Arc::new(json!({"metadata": {"name": "b", "generation": 2}, "spec": spec}));
        let plan = reconcile(&budget, pods, scale, &moment(0));
        let Some(Action::UpdateStatus { object, .. }) = plan.actions.last() else {
            panic!("a status is written")
        };
        assert_eq!(object["status"]["observedGeneration"], 2);
        object.at(&["status"]).clone()
    }

    #[test]
    fn numbers_and_percentages_of_what_should_be_there() {
        let status = allowed(&json!({"minAvailable": 2}), &pods(3, 1), Ok(4));
        assert_eq!(status["disruptionsAllowed"], 1);
        assert_eq!(status["expectedPods"], 4);
        let status = allowed(&json!({"maxUnavailable": 1}), &pods(3, 1), Ok(4));
        assert_eq!(
            (&status["desiredHealthy"], &status["disruptionsAllowed"]),
            (&json!(3), &json!(0))
        );
        let status = allowed(&json!({"minAvailable": "50%"}), &pods(4, 0), Ok(5));
        assert_eq!(
            (&status["desiredHealthy"], &status["disruptionsAllowed"]),
            (&json!(3), &json!(1))
        );
        let status = allowed(&json!({"maxUnavailable": "30%"}), &pods(4, 0), Ok(4));
        assert_eq!(status["disruptionsAllowed"], 2);
    }

    #[test]
    fn what_cannot_be_counted_is_not_disrupted() {
        let status = allowed(
            &json!({"maxUnavailable": 1}),
            &pods(3, 0),
            Err("no".to_owned()),
        );
        assert_eq!(status["disruptionsAllowed"], 0);
        assert_eq!(status["conditions"][0]["reason"], "SyncFailed");
    }

    #[test]
    fn granted_evictions_count_until_the_pod_goes_or_the_time_is_over() {
        let budget = Arc::new(json!({
            "metadata": {"name": "b"}, "spec": {"minAvailable": 1},
            "status": {"disruptedPods": {"p0": "1970-01-01T00:00:00Z", "gone": "1970-01-01T00:00:00Z"}},
        }));
        let status_at = |seconds| {
            let plan = reconcile(&budget, &pods(2, 0), Ok(2), &moment(seconds));
            match plan.actions.last() {
                Some(Action::UpdateStatus { object, .. }) => object.at(&["status"]).clone(),
                _ => Value::Null,
            }
        };
        let soon = status_at(10);
        assert_eq!(soon["currentHealthy"], 1);
        assert!(soon["disruptedPods"]["gone"].is_null());
        let late = status_at(121);
        assert_eq!(late["currentHealthy"], 2);
    }
}
