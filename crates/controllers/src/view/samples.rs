//! Pods for tests.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use joiner_core::name::Labels;
use joiner_core::resources::Resources;
use joiner_providers::Uid;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::{Observation, World};
use crate::dialect::Event;
use crate::record::{ClassKey, Key, MachineRecord, MachineStatus, Offer};

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

/// A machine object of the pool `pool` that nothing has been done about.
pub(crate) fn machine(name: &str, offers: Vec<Offer>) -> MachineRecord {
    MachineRecord {
        key: Key {
            dialect: "karpenter",
            namespace: "".into(),
            name: name.into(),
        },
        uid: Uid(name.into()),
        version: 1,
        generation: 1,
        created: at(0),
        deleting: None,
        finalizer: true,
        pool: Some("pool".into()),
        class: ClassKey::default(),
        labels: Labels::new(),
        annotations: Labels::new(),
        node_annotations: Labels::new(),
        requirements: Vec::new(),
        requests: Resources::new(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        expire_after: None,
        termination_grace: None,
        registration_timeout: None,
        max_price: None,
        offers: Arc::new(offers),
        status: MachineStatus::default(),
    }
}
