//! What the scheduler writes: bindings, conditions, nominations, volume decisions, and the end of those preempted.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::pod::PodInfo;
use super::preempt::Preemption;
use super::volumes::{SELECTED_NODE, VolumeStep};
use super::{Key, Scheduler};
use crate::api::{DeleteOptions, Status};
use crate::cluster::fields::{Condition, Fields as _, set, set_condition, unset};
use crate::cluster::recorder::Tone;

impl Scheduler {
    /// Puts a pod on a node. If the server refuses, its backoff or its next change brings the pod back.
    pub(super) fn bind(&mut self, pod: &Arc<PodInfo>, node: &str) {
        let Key { namespace, name } = &pod.key;
        match self.api.bind(namespace, name, node) {
            Ok(()) => {
                self.pending.remove(&pod.key);
                let mut placed = PodInfo::clone(pod);
                node.clone_into(&mut placed.node);
                self.cache.place(Arc::new(placed), node);
                let message = format!("Successfully assigned {namespace}/{name} to {node}");
                if let Ok(object) = self.api.get("pods", namespace, name) {
                    self.events
                        .tell(&object, Tone::Normal, "Scheduled", &message);
                }
            }
            Err(error) => {
                tracing::debug!(pod = %pod.key, node, %error, "not bound");
                self.cache.remove(&pod.key);
                self.pending.retry(Arc::clone(pod), Instant::now());
            }
        }
    }

    /// Writes down why a pod has no place, and makes room for it where that was found to be possible.
    pub(super) fn report_stuck(
        &mut self,
        pod: &PodInfo,
        message: &str,
        preemption: Option<Preemption>,
    ) {
        let nominee = preemption.as_ref().map(|found| found.node.clone());
        if let Some(found) = preemption {
            self.make_room(pod, &found);
        }
        let Ok(held) = self.api.get("pods", &pod.key.namespace, &pod.key.name) else {
            return;
        };
        if held.uid() != pod.uid {
            return;
        }
        self.events
            .tell(&held, Tone::Warning, "FailedScheduling", message);
        let mut object = Value::clone(&held);
        let condition = Condition {
            kind: "PodScheduled",
            status: "False",
            reason: "Unschedulable",
            message,
        };
        let mut changed = set_condition(&mut object, condition, &self.api.clock().rfc3339());
        // A promise stays while its victims leave; one that preemption cannot keep is taken back.
        let promise = match nominee {
            Some(node) => node,
            None if message.contains("terminating pod on the nominated node") => {
                pod.nominated_node.clone()
            }
            None => String::new(),
        };
        if held.text(&["status", "nominatedNodeName"]) != promise {
            changed = true;
            if promise.is_empty() {
                unset(&mut object, &["status", "nominatedNodeName"]);
            } else {
                set(&mut object, &["status", "nominatedNodeName"], promise);
            }
        }
        if changed && let Err(error) = self.api.update_status("pods", object) {
            tracing::debug!(pod = %pod.key, %error, "condition not written");
        }
    }

    /// Ends the pods that stand in the way of a more important one.
    fn make_room(&mut self, pod: &PodInfo, found: &Preemption) {
        for victim in &found.victims {
            let Ok(held) = self.api.get("pods", &victim.namespace, &victim.name) else {
                continue;
            };
            if held.deleting() {
                continue;
            }
            let mut object = Value::clone(&held);
            let message = format!(
                "{}: preempting to accommodate a higher priority pod",
                self.name
            );
            let condition = Condition {
                kind: "DisruptionTarget",
                status: "True",
                reason: "PreemptionByScheduler",
                message: &message,
            };
            if set_condition(&mut object, condition, &self.api.clock().rfc3339())
                && let Err(error) = self.api.update_status("pods", object)
            {
                tracing::debug!(pod = %victim, %error, "victim not marked");
            }
            let message = format!("Preempted by pod {} on node {}", pod.uid, found.node);
            self.events.tell(&held, Tone::Normal, "Preempted", &message);
            let options = DeleteOptions::default();
            if let Err(error) = self
                .api
                .delete("pods", &victim.namespace, &victim.name, options)
            {
                tracing::debug!(pod = %victim, %error, "victim not deleted");
            }
        }
        self.withdraw_lower_promises(pod, &found.node);
    }

    /// Pods of lower priority that were promised the same node must look elsewhere.
    fn withdraw_lower_promises(&self, pod: &PodInfo, node: &str) {
        let promised = self.nominated.get(node).into_iter().flatten();
        for other in promised.filter(|other| other.priority < pod.priority) {
            let held = self.api.get("pods", &other.key.namespace, &other.key.name);
            let Ok(mut object) = held.map(|held| Value::clone(&held)) else {
                continue;
            };
            unset(&mut object, &["status", "nominatedNodeName"]);
            if let Err(error) = self.api.update_status("pods", object) {
                tracing::debug!(pod = %other.key, %error, "promise not withdrawn");
            }
        }
    }

    /// Tells the volume controller what was decided about a claim.
    pub(super) fn write_volume_step(&self, step: &VolumeStep, node: &str) -> Result<(), Status> {
        match step {
            VolumeStep::Provision { claim } => {
                let held = self
                    .api
                    .get("persistentvolumeclaims", &claim.namespace, &claim.name)?;
                let mut object = Value::clone(&held);
                set(
                    &mut object,
                    &["metadata", "annotations", SELECTED_NODE],
                    node,
                );
                self.api.update("persistentvolumeclaims", object)?;
            }
            VolumeStep::Bind { claim, volume } => {
                let held = self
                    .api
                    .get("persistentvolumeclaims", &claim.namespace, &claim.name)?;
                let kept = self.api.get("persistentvolumes", "", volume)?;
                let mut object = Value::clone(&kept);
                let reference = json!({
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                    "namespace": claim.namespace, "name": claim.name, "uid": held.uid(),
                });
                set(&mut object, &["spec", "claimRef"], reference);
                self.api.update("persistentvolumes", object)?;
            }
        }
        Ok(())
    }
}
