//! What a kubelet does about one pod: take it on or refuse it, report it, and let go of it when it has ended.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;

use super::behaviour::Behaviour;
use super::lifecycle::{Run, Stage};
use super::status::report;
use super::{Fleet, Work};
use crate::api::DeleteOptions;
use crate::cluster::Key;
use crate::cluster::fields::{Fields as _, set};
use crate::cluster::recorder::Tone;
use crate::cluster::scheduler::{NodeAffinity, Resources, pod_requests, read_labels};

/// Why a kubelet does not take a pod on.
#[derive(Debug, PartialEq, Eq)]
struct Refusal {
    reason: String,
    message: String,
}

impl Fleet {
    /// Brings one pod up to date with the time and with what is asked of it.
    pub(super) fn sync_pod(&mut self, key: &Key) {
        let Ok(pod) = self.api.get("pods", &key.namespace, &key.name) else {
            self.runs.remove(key);
            return;
        };
        let node = pod.text(&["spec", "nodeName"]).to_owned();
        if !self.machines.contains_key(&node) {
            return;
        }
        let now = self.api.clock().now();
        if self.runs.get(key).is_none_or(|run| run.uid != pod.uid())
            && !self.take_on(key, &pod, &node, now)
        {
            return;
        }
        let Some(run) = self.runs.get_mut(key) else {
            return;
        };
        let before = run.stage;
        let next = run.advance(&pod, now);
        let stopped = run.is_stopped();
        let started = matches!(run.stage, Stage::Running { .. }) && before != run.stage;
        if let Some(at) = next {
            let wait = Duration::try_from(at.duration_since(now)).unwrap_or_default();
            self.work
                .add_at(Work::Pod(key.clone()), Instant::now() + wait);
        }
        let written = self.write_status(key, &pod, &node, now);
        if started {
            self.tell_started(&pod);
        }
        if stopped && written {
            self.let_go(key);
        }
    }

    /// Ends a pod because its node shuts down.
    pub(super) fn end_with_node(&mut self, key: &Key) {
        let now = self.api.clock().now();
        let Ok(pod) = self.api.get("pods", &key.namespace, &key.name) else {
            return;
        };
        let node = pod.text(&["spec", "nodeName"]).to_owned();
        let Some(run) = self.runs.get_mut(key) else {
            return;
        };
        if matches!(run.stage, Stage::Done(_)) {
            return;
        }
        run.kill(now);
        let Some(machine) = self.machines.get(&node) else {
            return;
        };
        let mut object = report(&pod, run, &machine.address, now);
        set(&mut object, &["status", "reason"], "Terminated");
        let message = "Pod was terminated in response to imminent node shutdown.";
        set(&mut object, &["status", "message"], message);
        if let Err(error) = self.api.update_status("pods", object) {
            tracing::debug!(pod = %key, %error, "end not reported");
        }
        self.runs.remove(key);
        if pod.deleting() {
            self.let_go(key);
        }
    }

    /// Takes a pod on, unless it has already ended or cannot be here. Says whether there is something to run.
    fn take_on(&mut self, key: &Key, pod: &Arc<Value>, node: &str, now: Timestamp) -> bool {
        self.runs.remove(key);
        if matches!(pod.text(&["status", "phase"]), "Succeeded" | "Failed") {
            if pod.deleting() {
                self.let_go(key);
            }
            return false;
        }
        if let Some(refusal) = self.refusal(key, pod, node) {
            self.refuse(pod, &refusal);
            return false;
        }
        let Some(machine) = self.machines.get_mut(node) else {
            return false;
        };
        let address = if pod.flag(&["spec", "hostNetwork"]) {
            machine.address.clone()
        } else {
            machine.next_pod_address += 1;
            let (number, own) = (machine.number, machine.next_pod_address);
            format!(
                "10.{}.{}.{}",
                64 + (number >> 8 & 127),
                number & 255,
                own % 254 + 1
            )
        };
        let behaviour = Behaviour::read(pod, &self.options.pods);
        self.runs
            .insert(key.clone(), Run::admit(pod, behaviour, address, now));
        true
    }

    /// Why a pod cannot be taken on: the scheduler is not the only one who binds pods.
    fn refusal(&self, key: &Key, pod: &Value, node: &str) -> Option<Refusal> {
        let object = self.api.get("nodes", "", node).ok()?;
        if !NodeAffinity::read(pod).matches(node, &read_labels(object.labels())) {
            return Some(Refusal {
                reason: "NodeAffinity".to_owned(),
                message: "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector".to_owned(),
            });
        }
        let mut used = Resources::default();
        let mut count = 0;
        for other in self
            .by_node
            .get(node)
            .into_iter()
            .flatten()
            .map(|(other, _)| other)
        {
            if other != key && self.runs.get(other).is_some_and(|run| !run.is_over()) {
                let held = self.api.get("pods", &other.namespace, &other.name);
                if let Ok(held) = held {
                    used.add(&pod_requests(&held));
                }
                count += 1;
            }
        }
        let total = Resources::read(object.at(&["status", "allocatable"]));
        let short = pod_requests(pod).shortfalls(&total, &used, count);
        let what = short
            .first()?
            .reason
            .replace("Insufficient ", "")
            .replace("Too many ", "");
        Some(Refusal {
            reason: format!("OutOf{what}"),
            message: format!("Pod was rejected: Node didn't have enough resource: {what}"),
        })
    }

    fn refuse(&mut self, pod: &Value, refusal: &Refusal) {
        let mut object = pod.clone();
        set(&mut object, &["status", "phase"], "Failed");
        set(&mut object, &["status", "reason"], refusal.reason.as_str());
        set(
            &mut object,
            &["status", "message"],
            refusal.message.as_str(),
        );
        self.events
            .tell(pod, Tone::Warning, &refusal.reason, &refusal.message);
        if let Err(error) = self.api.update_status("pods", object) {
            tracing::debug!(pod = %Key::of(pod), %error, "refusal not reported");
        }
    }

    /// Reports the pod if there is something new, and says whether the server now knows the truth.
    fn write_status(&mut self, key: &Key, pod: &Value, node: &str, now: Timestamp) -> bool {
        let (Some(run), Some(machine)) = (self.runs.get(key), self.machines.get(node)) else {
            return false;
        };
        let object = report(pod, run, &machine.address, now);
        if object.at(&["status"]) == pod.at(&["status"]) {
            return true;
        }
        match self.api.update_status("pods", object) {
            Ok(written) => {
                self.work.forget(&Work::Pod(key.clone()));
                let version = written.text(&["metadata", "resourceVersion"]).to_owned();
                if let Some(held) = self.by_node.get_mut(node) {
                    held.insert(key.clone(), version);
                }
                true
            }
            Err(error) => {
                tracing::debug!(pod = %key, %error, "status not written, will try again");
                self.work.retry(Work::Pod(key.clone()), Instant::now());
                false
            }
        }
    }

    /// Removes a pod that has ended for good.
    fn let_go(&mut self, key: &Key) {
        let options = DeleteOptions {
            grace_period_seconds: Some(0),
            ..DeleteOptions::default()
        };
        if let Err(error) = self.api.delete("pods", &key.namespace, &key.name, options) {
            tracing::debug!(pod = %key, %error, "ended pod not removed");
        }
    }

    fn tell_started(&mut self, pod: &Value) {
        for container in pod.items(&["spec", "containers"]) {
            let (name, image) = (container.text(&["name"]), container.text(&["image"]));
            let pulled = format!("Container image \"{image}\" already present on machine");
            self.events.tell(pod, Tone::Normal, "Pulled", &pulled);
            self.events.tell(
                pod,
                Tone::Normal,
                "Created",
                &format!("Created container: {name}"),
            );
            self.events.tell(
                pod,
                Tone::Normal,
                "Started",
                &format!("Started container {name}"),
            );
        }
    }
}
