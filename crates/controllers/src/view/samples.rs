//! Pods for tests.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::{Observation, World};
use crate::dialect::Event;

/// So many seconds after all pods were made.
pub(crate) fn at(seconds: i64) -> Timestamp {
    let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    start + SignedDuration::from_secs(seconds)
}

/// A pod that waits, with conditions of its status.
pub(super) fn pod(name: &str, conditions: &Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {
            "namespace": "default", "name": name, "uid": name,
            "creationTimestamp": at(0).to_string(),
        },
        "spec": {"containers": []},
        "status": {"phase": "Pending", "conditions": conditions},
    }))
    .unwrap()
}

/// The same, bound to a node.
pub(crate) fn bound(name: &str, conditions: &Value) -> Pod {
    let mut pod = pod(name, conditions);
    pod.spec.as_mut().unwrap().node_name = Some("node".to_owned());
    pod
}

/// What a watch sees of a pod.
pub(super) fn seen(pod: Pod) -> Observation {
    Observation::Pod(Event::Changed(Box::new(pod)))
}

/// A cluster with nothing but these pods.
pub(crate) fn only(pods: Vec<Pod>) -> World {
    let mut world = World::default();
    for pod in pods {
        world.observe("pods", seen(pod), at(0));
    }
    world
}
