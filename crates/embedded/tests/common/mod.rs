//! What the cluster tests share: a cluster on virtual time, short ways to write objects, and waiting.
#![allow(
    dead_code,
    clippy::expect_used,
    clippy::panic,
    reason = "only tests use this, and each test binary a part of it"
)]

use std::sync::Arc;
use std::time::Duration;

use joiner_embedded::api::Local;
use joiner_embedded::cluster::kubelet::NodeSpec;
use joiner_embedded::cluster::{Cluster, ClusterOptions};
use serde_json::{Value, json};

/// A cluster with nodes of 4 CPUs, named `n1`, `n2` and so on.
pub(crate) async fn cluster(nodes: usize) -> Cluster {
    let cluster = Cluster::start(&ClusterOptions::default());
    for number in 1..=nodes {
        cluster
            .kubelets()
            .boot(NodeSpec::named(format!("n{number}")));
    }
    until("nodes are ready", || {
        cluster.api().list("nodes").len() == nodes
    })
    .await;
    cluster
}

/// Waits (in virtual time) for something to become true.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..1200 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    panic!("ten minutes passed and still not: {what}");
}

/// Lets virtual time pass.
pub(crate) async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// The pods whose `app` label is this, by name.
pub(crate) fn pods(api: &Local, app: &str) -> Vec<Arc<Value>> {
    let mut pods = api.list("pods");
    pods.retain(|pod| pod["metadata"]["labels"]["app"] == app);
    pods
}

/// The pods of an app that are ready and not on their way out.
pub(crate) fn ready(api: &Local, app: &str) -> Vec<Arc<Value>> {
    let mut pods = pods(api, app);
    pods.retain(|pod| {
        let conditions = pod["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        pod["metadata"]["deletionTimestamp"].is_null()
            && conditions
                .iter()
                .any(|one| one["type"] == "Ready" && one["status"] == "True")
    });
    pods
}

/// A string in an object, "" where there is none.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The name of an object.
pub(crate) fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// The node that a pod is on.
pub(crate) fn node_of(api: &Local, pod: &str) -> String {
    let pod = api.get("pods", "default", pod).expect("the pod is there");
    text(&pod, "/spec/nodeName").to_owned()
}

/// A condition of an object.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .find(|one| one["type"] == kind)
        .unwrap_or(&Value::Null)
}

/// A pod template of an app.
pub(crate) fn template(app: &str, image: &str, cpu: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{
            "name": "main", "image": image, "resources": {"requests": {"cpu": cpu}},
        }]},
    })
}

/// A pod of an app that asks for some CPU.
pub(crate) fn pod(name: &str, cpu: &str) -> Value {
    let mut pod = template(name, "example.com/app:1", cpu);
    pod["metadata"]["name"] = json!(name);
    pod
}

/// A deployment of an app.
pub(crate) fn deployment(app: &str, replicas: usize) -> Value {
    json!({
        "metadata": {"name": app},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": app}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "progressDeadlineSeconds": 600, "revisionHistoryLimit": 10,
            "template": template(app, "example.com/app:1", "100m"),
        },
    })
}

/// Changes an object in place.
pub(crate) fn edit(api: &Local, resource: &str, name: &str, change: impl FnOnce(&mut Value)) {
    let namespace = if resource == "nodes" { "" } else { "default" };
    let mut object = Value::clone(&api.get(resource, namespace, name).expect("it is there"));
    change(&mut object);
    api.update(resource, object)
        .expect("the change is accepted");
}

/// Waits until a deployment has rolled out all replicas.
pub(crate) async fn rolled_out(api: &Local, app: &str, replicas: usize) {
    until("the deployment is complete", || {
        let Ok(deployment) = api.get("deployments.apps", "default", app) else {
            return false;
        };
        let status = &deployment["status"];
        status["observedGeneration"] == deployment["metadata"]["generation"]
            && status["updatedReplicas"] == replicas
            && status["availableReplicas"] == replicas
            && status["replicas"] == replicas
    })
    .await;
}
