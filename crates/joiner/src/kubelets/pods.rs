//! Pods: taken on, reported, and let go of when they have ended.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use futures::StreamExt as _;
use jiff::Timestamp;
use joiner_controllers::dialect::{Event, Malformed};
use joiner_controllers::edge::clients::WriteError;
use joiner_controllers::view::watch::{Need, events_of};
use joiner_embedded::cluster::kubelet::behaviour::{Behaviour, PodDefaults};
use joiner_embedded::cluster::kubelet::{Run, report};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, Preconditions,
};
use kube::runtime::watcher;
use serde_json::{Map, Value, json};
use tracing::debug;

use super::{Kubelets, State, Work};

/// Annotations that say how a pod behaves begin with this.
const BEHAVIOUR: &str = "sim.joiner.dev/";

/// Namespace and name of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PodKey {
    namespace: String,
    name: String,
}

impl fmt::Display for PodKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A pod on a machine of ours.
pub(super) struct Held {
    pub(super) node: String,
    /// The pod while there is something to do about it. One that simply runs is not kept: whatever happens to it, the
    /// watch brings it again.
    pod: Option<Arc<Value>>,
    /// The version that was written here, which is no news.
    written: String,
    run: Option<Run>,
}

/// A pod as the API server has it, without what no kubelet here looks at.
pub(super) struct Seen {
    key: PodKey,
    node: String,
    pod: Value,
}

/// What to do about a pod.
enum Step {
    /// Nothing, until something happens.
    Rest,
    /// Say how it is.
    Report { pod: Arc<Value>, status: Value },
    /// Remove it: it has ended.
    LetGo { uid: String },
}

impl Kubelets {
    fn pods_of(&self, namespace: &str) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<Pod>(&());
        Api::namespaced_with(self.clients.writes.clone(), namespace, &resource)
    }

    /// Takes in what happens to pods that have a node.
    pub(super) async fn watch_pods(&self) {
        let resource = ApiResource::erase::<Pod>(&());
        let api: Api<DynamicObject> = Api::all_with(self.clients.reads.clone(), &resource);
        let bound = watcher::Config::default().fields("spec.nodeName!=");
        let mut seen = events_of(api, bound, "Pod", Need::Required, |object| {
            Ok::<_, Malformed>(Seen::read(object))
        });
        let mut listed = BTreeSet::new();
        while let Some(event) = seen.next().await {
            match event {
                Event::Started => listed.clear(),
                Event::Listed(seen) => {
                    listed.insert(seen.key.clone());
                    self.take_in(seen);
                }
                Event::Complete => self.state().pods.retain(|key, _| listed.contains(key)),
                Event::Changed(seen) => self.take_in(seen),
                Event::Gone(seen) => drop(self.state().pods.remove(&seen.key)),
                Event::Malformed(_) => {}
            }
        }
    }

    /// Asks which pods a node has.
    pub(super) async fn find_pods(&self, node: &str) -> Result<(), kube::Error> {
        let resource = ApiResource::erase::<Pod>(&());
        let api: Api<DynamicObject> = Api::all_with(self.clients.reads.clone(), &resource);
        let here = ListParams::default().fields(&format!("spec.nodeName={node}"));
        for object in api.list(&here).await? {
            self.take_in(Seen::read(object));
        }
        Ok(())
    }

    fn take_in(&self, seen: Seen) {
        let mut state = self.state();
        let machine = state.machines.get(&seen.node);
        if machine.is_none_or(|machine| !machine.own()) {
            return;
        }
        let held = state.pods.entry(seen.key.clone()).or_insert_with(|| Held {
            node: seen.node,
            pod: None,
            written: String::new(),
            run: None,
        });
        if seen.pod["metadata"]["resourceVersion"] == held.written.as_str() {
            return;
        }
        held.pod = Some(Arc::new(seen.pod));
        drop(state);
        self.queue.add(Work::Pod(seen.key));
    }

    /// Brings one pod up to date with the time and with what is asked of it.
    pub(super) async fn sync_pod(&self, key: &PodKey) {
        let step = {
            let now = self.clock.now();
            let (step, next) = self.state().step(key, &self.options.pods, now);
            if let Some(then) = next {
                self.at(Work::Pod(key.clone()), now, then);
            }
            step
        };
        let done = match step {
            Step::Rest => Ok(()),
            Step::Report { pod, status } => self.report_pod(key, &pod, &status).await,
            Step::LetGo { uid } => self.let_go(key, uid).await,
        };
        match done {
            // Whoever took the pod away tells the watch too.
            Ok(()) | Err(WriteError::Gone(_) | WriteError::Conflict(_)) => {}
            Err(error) => {
                debug!(pod = %key, %error, "not written, will try again");
                self.again(Work::Pod(key.clone()));
            }
        }
    }

    async fn report_pod(
        &self,
        key: &PodKey,
        pod: &Arc<Value>,
        status: &Value,
    ) -> Result<(), WriteError> {
        // The identity in the patch makes it fail on another pod of the same name.
        let patch = json!({"metadata": {"uid": pod["metadata"]["uid"]}, "status": status});
        // Strategic: conditions of others, an eviction's above all, stay as they are.
        let written = self
            .pods_of(&key.namespace)
            .patch_status(&key.name, &PatchParams::default(), &Patch::Strategic(patch))
            .await?;
        let seen = Seen::read(written);
        let mut state = self.state();
        let Some(held) = state.pods.get_mut(key) else {
            return Ok(());
        };
        let version = seen.pod["metadata"]["resourceVersion"].as_str();
        version.unwrap_or_default().clone_into(&mut held.written);
        // What the watch brought meanwhile may be newer.
        if held
            .pod
            .as_ref()
            .is_some_and(|known| Arc::ptr_eq(known, pod))
        {
            held.pod = Some(Arc::new(seen.pod));
        }
        drop(state);
        self.queue.add(Work::Pod(key.clone()));
        Ok(())
    }

    async fn let_go(&self, key: &PodKey, uid: String) -> Result<(), WriteError> {
        let now = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions {
                uid: Some(uid),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        self.pods_of(&key.namespace).delete(&key.name, &now).await?;
        Ok(())
    }
}

impl State {
    /// What to do about a pod now, and when to look again.
    fn step(
        &mut self,
        key: &PodKey,
        defaults: &PodDefaults,
        now: Timestamp,
    ) -> (Step, Option<Timestamp>) {
        let State { machines, pods } = self;
        let Some(held) = pods.get_mut(key) else {
            return (Step::Rest, None);
        };
        let (Some(pod), Some(machine)) = (held.pod.clone(), machines.get_mut(&held.node)) else {
            return (Step::Rest, None);
        };
        if machine.stopped {
            return (Step::Rest, None);
        }
        let metadata = &pod["metadata"];
        let uid = metadata["uid"].as_str().unwrap_or_default().to_owned();
        let ended = matches!(
            pod["status"]["phase"].as_str(),
            Some("Succeeded" | "Failed")
        );
        if held.run.as_ref().is_none_or(|run| !run.is_of(&uid)) {
            if ended {
                let deleting = !metadata["deletionTimestamp"].is_null();
                held.pod = None;
                let step = if deleting {
                    Step::LetGo { uid }
                } else {
                    Step::Rest
                };
                return (step, None);
            }
            let address = match pod["status"]["podIP"].as_str() {
                Some(address) => address.to_owned(),
                None if pod["spec"]["hostNetwork"] == true => machine.address.clone(),
                None => machine.pod_address(),
            };
            let behaviour = Behaviour::read(&pod, defaults);
            held.run = Some(Run::resume(&pod, behaviour, address, now));
        }
        let Some(run) = held.run.as_mut() else {
            return (Step::Rest, None);
        };
        let next = run.advance(&pod, now);
        let after = report(&pod, run, &machine.address, now);
        let status = difference(&pod["status"], &after["status"]);
        if !status.is_empty() {
            let status = Value::Object(status);
            return (Step::Report { pod, status }, next);
        }
        if run.is_stopped() {
            return (Step::LetGo { uid }, None);
        }
        if next.is_none() {
            held.pod = None;
        }
        (Step::Rest, next)
    }
}

/// The fields that changed, as a strategic merge patch.
fn difference(before: &Value, after: &Value) -> Map<String, Value> {
    let fields = after.as_object().into_iter().flatten();
    let changed = fields.filter(|(field, value)| before.get(field) != Some(*value));
    changed
        .map(|(field, value)| match field.as_str() {
            "conditions" => (field.clone(), conditions(&before[field], value)),
            _ => (field.clone(), value.clone()),
        })
        .collect()
}

/// The conditions that changed. What one no longer says has to be taken back: they are merged one by one.
fn conditions(before: &Value, after: &Value) -> Value {
    let list = |all: &Value| all.as_array().cloned().unwrap_or_default();
    let before = list(before);
    let changed = list(after).into_iter().filter(|one| !before.contains(one));
    changed
        .map(|mut one| {
            for said in ["reason", "message"] {
                if one.get(said).is_none() {
                    one[said] = Value::Null;
                }
            }
            one
        })
        .collect()
}

impl Seen {
    fn read(object: DynamicObject) -> Self {
        let metadata = object.metadata;
        let spec = &object.data["spec"];
        let key = PodKey {
            namespace: metadata.namespace.unwrap_or_default(),
            name: metadata.name.unwrap_or_default(),
        };
        let annotations = metadata.annotations.unwrap_or_default();
        let annotations: Map<String, Value> = annotations
            .into_iter()
            .filter(|(name, _)| name.starts_with(BEHAVIOUR))
            .map(|(name, value)| (name, Value::String(value)))
            .collect();
        let pod = json!({
            "metadata": {
                "namespace": key.namespace, "name": key.name, "annotations": annotations,
                "uid": metadata.uid, "resourceVersion": metadata.resource_version,
                "generation": metadata.generation,
                "deletionTimestamp": metadata.deletion_timestamp,
                "deletionGracePeriodSeconds": metadata.deletion_grace_period_seconds,
            },
            "spec": {
                "nodeName": spec["nodeName"], "hostNetwork": spec["hostNetwork"],
                "restartPolicy": spec["restartPolicy"], "readinessGates": spec["readinessGates"],
                "containers": containers(&spec["containers"]),
                "initContainers": containers(&spec["initContainers"]),
            },
            "status": object.data["status"],
        });
        let node = spec["nodeName"].as_str().unwrap_or_default().to_owned();
        Seen { key, node, pod }
    }
}

/// Containers without what only matters to those who really run them.
fn containers(all: &Value) -> Vec<Value> {
    let all = all.as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter()
        .map(|one| {
            json!({
                "name": one["name"], "image": one["image"], "restartPolicy": one["restartPolicy"],
                "readinessProbe": {
                    "initialDelaySeconds": one["readinessProbe"]["initialDelaySeconds"],
                },
                "lifecycle": {"preStop": one["lifecycle"]["preStop"]},
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_holds_what_changed_and_takes_back_what_is_no_longer_said() {
        let same = json!({"type": "PodScheduled", "status": "True"});
        let before = json!({
            "phase": "Running", "hostIP": "10.0.0.1",
            "conditions": [same, {"type": "Ready", "status": "False", "message": "not yet"}],
        });
        let after = json!({
            "phase": "Running", "hostIP": "10.0.0.1", "podIP": "10.64.0.1",
            "conditions": [same, {"type": "Ready", "status": "True"}],
        });
        let ready = json!({"type": "Ready", "status": "True", "reason": null, "message": null});
        assert_eq!(
            Value::Object(difference(&before, &after)),
            json!({"podIP": "10.64.0.1", "conditions": [ready]})
        );
        assert!(difference(&after, &after).is_empty());
    }
}
