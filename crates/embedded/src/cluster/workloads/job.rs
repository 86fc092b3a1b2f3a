//! Jobs: pods that run to their end, so many at a time until enough have.
//!
//! kubernetes: `pkg/controller/job`. Every pod carries a finalizer until its end has been counted in the job's status, so
//! that none is counted twice and none is lost: ends are first noted as uncounted, then the finalizers go, then they are
//! added to the totals.

mod indexes;
mod status;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use self::indexes::Indexes;
use super::pods::{self, PodName, from_template};
use super::{Action, Controller, Event, Moment, Plan, World};
use crate::api::{DeleteOptions, Propagation};
use crate::cluster::Key;
use crate::cluster::fields::{Condition, Fields as _, remove_finalizer, set, set_condition};

const RESOURCE: &str = "jobs.batch";
const KIND: (&str, &str) = ("batch/v1", "Job");
const TRACKING: &str = "batch.kubernetes.io/job-tracking";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The wait before a failed pod is replaced; it doubles with each failure.
const FIRST_BACKOFF_SECONDS: i64 = 10;
/// The longest wait before a failed pod is replaced.
const LONGEST_BACKOFF_SECONDS: i64 = 600;

/// The controller.
#[derive(Debug)]
pub(crate) struct Jobs;

impl Controller for Jobs {
    fn name(&self) -> &'static str {
        "job"
    }

    fn concerned(&mut self, event: &Event<'_>, world: &World, keys: &mut Vec<Key>) {
        match event.resource {
            RESOURCE => {
                keys.extend(event.object().map(Key::of));
                let gone = event.old.filter(|_| event.new.is_none());
                keys.extend(gone.map(|job| lost(job.uid())));
            }
            "pods" => {
                for pod in event.old.into_iter().chain(event.new) {
                    let owner = pod
                        .controller()
                        .filter(|owner| owner.text(&["kind"]) == KIND.1);
                    let Some(owner) = owner else { continue };
                    keys.push(match world.by_uid(owner.text(&["uid"])) {
                        Some(_) => Key::new(pod.namespace(), owner.text(&["name"])),
                        None => lost(owner.text(&["uid"])),
                    });
                }
            }
            _ => {}
        }
    }

    fn plan(&mut self, key: &Key, world: &World, now: Moment) -> Plan {
        if key.namespace.is_empty() {
            return release(&key.name, world).into();
        }
        let Some(job) = world.get(RESOURCE, key) else {
            return Plan::default();
        };
        reconcile(job, &world.controlled(job.uid(), "pods"), &now)
    }
}

/// The key of a job that is gone: its uid, since its name may have been taken over.
fn lost(uid: &str) -> Key {
    Key::new("", uid)
}

/// Pods whose job is gone are not held back by it.
fn release(uid: &str, world: &World) -> Vec<Action> {
    if world.by_uid(uid).is_some() {
        return Vec::new();
    }
    let pods = world.controlled(uid, "pods");
    pods.iter()
        .filter(|pod| pod.has_finalizer(TRACKING))
        .map(|pod| without_finalizer(pod))
        .collect()
}

fn without_finalizer(pod: &Value) -> Action {
    let mut object = pod.clone();
    remove_finalizer(&mut object, TRACKING);
    Action::Update {
        resource: "pods".to_owned(),
        object,
    }
}

/// A job with what is known of its pods.
struct View<'a> {
    job: &'a Arc<Value>,
    pods: &'a [Arc<Value>],
    now: &'a Moment,
    active: Vec<&'a Arc<Value>>,
    succeeded: i64,
    failed: i64,
    indexes: Option<Indexes>,
}

/// Why a job is over.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    Complete(&'static str),
    Failed {
        reason: &'static str,
        message: String,
    },
}

/// What to do about a job that has these pods.
pub(crate) fn reconcile(job: &Arc<Value>, pods: &[Arc<Value>], now: &Moment) -> Plan {
    if finished(job) {
        return after_the_end(job, pods, now);
    }
    let mut object = Value::clone(job);
    if object.at(&["status"]).is_null() {
        set(&mut object, &["status"], json!({}));
    }
    let counted = status::count_ends(&mut object, pods);
    let active: Vec<&Arc<Value>> = pods.iter().filter(|pod| pods::active(pod)).collect();
    let total = |of: &str| {
        let uncounted = object
            .items(&["status", "uncountedTerminatedPods", of])
            .len();
        object.int(&["status", of]).unwrap_or_default()
            + i64::try_from(uncounted).unwrap_or_default()
    };
    let indexes = Indexes::of(job, pods);
    let view = View {
        job,
        pods,
        now,
        active,
        succeeded: indexes
            .as_ref()
            .map_or_else(|| total("succeeded"), Indexes::completed),
        failed: total("failed"),
        indexes,
    };
    let mut plan = Plan::default();
    let verdict = view.verdict(&mut plan);
    let mut deeds = Vec::new();
    if let Some(verdict) = &verdict {
        view.wind_up(&mut object, verdict, &mut deeds);
    } else {
        view.keep_going(&mut object, &mut deeds, &mut plan);
    }
    status::write_numbers(&mut object, &view, &deeds);
    if object.at(&["status"]) != job.at(&["status"]) {
        plan.push(Action::UpdateStatus {
            resource: RESOURCE,
            object,
        });
    }
    // Only when the status holds their ends may pods be let go.
    plan.actions
        .extend(counted.into_iter().map(|pod| without_finalizer(pod)));
    plan.actions.append(&mut deeds);
    plan
}

fn finished(job: &Value) -> bool {
    job.condition_true("Complete") || job.condition_true("Failed")
}

/// A job that is over: its last pods are released, and after its time to live it goes itself.
fn after_the_end(job: &Arc<Value>, pods: &[Arc<Value>], now: &Moment) -> Plan {
    let mut plan = Plan::default();
    for pod in pods {
        if pods::active(pod) {
            plan.push(Action::delete("pods", pod));
        } else if pod.has_finalizer(TRACKING) {
            plan.push(without_finalizer(pod));
        }
    }
    let Some(ttl) = job.int(&["spec", "ttlSecondsAfterFinished"]) else {
        return plan;
    };
    let ended = ["Complete", "Failed"]
        .iter()
        .find_map(|kind| job.condition(kind)?.time(&["lastTransitionTime"]))
        .unwrap_or(now.at);
    let left = ended.as_second() + ttl - now.at.as_second();
    if left > 0 {
        plan.look_again(Duration::from_secs(u64::try_from(left).unwrap_or_default()));
    } else if !job.deleting() {
        plan.push(Action::Delete {
            resource: RESOURCE.to_owned(),
            key: Key::of(job),
            uid: job.uid().to_owned(),
            options: DeleteOptions {
                propagation: Some(Propagation::Foreground),
                ..DeleteOptions::default()
            },
        });
    }
    plan
}

impl View<'_> {
    fn wanted(&self) -> Option<i64> {
        self.job.int(&["spec", "completions"])
    }

    fn parallelism(&self) -> i64 {
        self.job.int(&["spec", "parallelism"]).unwrap_or(1)
    }

    /// Whether the job is over, and how.
    fn verdict(&self, plan: &mut Plan) -> Option<Verdict> {
        let limit = self.job.int(&["spec", "backoffLimit"]).unwrap_or(6);
        // Restarts within pods count like failed pods where pods restart.
        let restarts: i64 = if self
            .job
            .text(&["spec", "template", "spec", "restartPolicy"])
            == "OnFailure"
        {
            self.active.iter().map(|pod| restarts_of(pod)).sum()
        } else {
            0
        };
        if self.failed > limit || (restarts > 0 && restarts > limit) {
            return Some(Verdict::Failed {
                reason: "BackoffLimitExceeded",
                message: "Job has reached the specified backoff limit".to_owned(),
            });
        }
        let suspended = self.job.flag(&["spec", "suspend"]);
        let deadline = self.job.int(&["spec", "activeDeadlineSeconds"]);
        let begun = self.job.time(&["status", "startTime"]);
        if let (Some(deadline), Some(begun), false) = (deadline, begun, suspended) {
            let left = begun.as_second() + deadline - self.now.at.as_second();
            if left <= 0 {
                return Some(Verdict::Failed {
                    reason: "DeadlineExceeded",
                    message: "Job was active longer than specified deadline".to_owned(),
                });
            }
            plan.look_again(Duration::from_secs(u64::try_from(left).unwrap_or_default()));
        }
        let complete = match self.wanted() {
            Some(wanted) => self.succeeded >= wanted,
            // A work queue is done when one pod has found it empty and none works any more.
            None => self.succeeded > 0 && self.active.is_empty(),
        };
        complete.then_some(Verdict::Complete("CompletionsReached"))
    }

    /// Ends what still runs; when nothing does, the job is called over.
    fn wind_up(&self, object: &mut Value, verdict: &Verdict, deeds: &mut Vec<Action>) {
        for pod in &self.active {
            deeds.push(Action::delete("pods", pod));
        }
        let (first, last, reason, message) = match verdict {
            Verdict::Complete(reason) => (
                "SuccessCriteriaMet",
                "Complete",
                *reason,
                "Reached expected number of succeeded pods".to_owned(),
            ),
            Verdict::Failed { reason, message } => {
                ("FailureTarget", "Failed", *reason, message.clone())
            }
        };
        let stamp = &self.now.stamp;
        let condition = |kind| Condition {
            kind,
            status: "True",
            reason,
            message: &message,
        };
        set_condition(object, condition(first), stamp);
        let still_running = self.pods.iter().any(|pod| !pods::finished(pod));
        let uncounted = object.at(&["status", "uncountedTerminatedPods"]);
        let all_counted = ["succeeded", "failed"]
            .iter()
            .all(|of| uncounted.items(&[of]).is_empty());
        if still_running || !all_counted {
            return;
        }
        set_condition(object, condition(last), stamp);
        if last == "Complete" {
            set(object, &["status", "completionTime"], stamp.as_str());
            deeds.push(Action::note(
                self.job,
                "Completed",
                "Job completed".to_owned(),
            ));
        } else {
            deeds.push(Action::warn(self.job, reason_of(verdict), message.clone()));
        }
    }

    /// Starts and stops pods so that as many run as should.
    fn keep_going(&self, object: &mut Value, deeds: &mut Vec<Action>, plan: &mut Plan) {
        let stamp = &self.now.stamp;
        if self.job.flag(&["spec", "suspend"]) {
            for pod in &self.active {
                deeds.push(Action::delete("pods", pod));
            }
            let condition = Condition {
                kind: "Suspended",
                status: "True",
                reason: "JobSuspended",
                message: "Job suspended",
            };
            set_condition(object, condition, stamp);
            crate::cluster::fields::unset(object, &["status", "startTime"]);
            return;
        }
        if object.condition_true("Suspended") {
            let condition = Condition {
                kind: "Suspended",
                status: "False",
                reason: "JobResumed",
                message: "Job resumed",
            };
            set_condition(object, condition, stamp);
        }
        if object.at(&["status", "startTime"]).is_null() {
            set(object, &["status", "startTime"], stamp.as_str());
            if let Some(deadline) = self.job.int(&["spec", "activeDeadlineSeconds"]) {
                plan.look_again(Duration::from_secs(
                    u64::try_from(deadline).unwrap_or_default(),
                ));
            }
        }
        let active = i64::try_from(self.active.len()).unwrap_or(i64::MAX);
        let wanted = match self.wanted() {
            Some(wanted) => self.parallelism().min(wanted - self.succeeded).max(0),
            // A work queue that has had a success starts no more pods.
            None if self.succeeded > 0 => active,
            None => self.parallelism(),
        };
        if active > wanted {
            let mut surplus = self.active.clone();
            surplus.sort_by_key(|pod| {
                (
                    pods::ready(pod),
                    std::cmp::Reverse(pod.created()),
                    Key::of(pod),
                )
            });
            let number = usize::try_from(active - wanted).unwrap_or_default();
            deeds.extend(
                surplus
                    .into_iter()
                    .take(number)
                    .map(|pod| Action::delete("pods", pod)),
            );
        } else if active < wanted && !self.job.deleting() {
            if let Some(wait) = self.backoff() {
                plan.look_again(wait);
                return;
            }
            self.start(usize::try_from(wanted - active).unwrap_or_default(), deeds);
        }
    }

    fn start(&self, number: usize, deeds: &mut Vec<Action>) {
        let indexes: Vec<Option<i64>> = match &self.indexes {
            Some(indexes) => indexes.free().take(number).map(Some).collect(),
            None => vec![None; number],
        };
        for index in indexes {
            let object = self.pod(index);
            let namespace = self.job.namespace().to_owned();
            deeds.push(Action::Create {
                resource: "pods",
                namespace,
                object,
            });
        }
    }

    fn pod(&self, index: Option<i64>) -> Value {
        let job = self.job;
        let template = job.at(&["spec", "template"]);
        let prefix = index.map(|index| format!("{}-{index}-", job.name()));
        let name = prefix
            .as_deref()
            .map_or(PodName::Generated, PodName::Prefix);
        let mut pod = from_template(template, job, KIND.0, KIND.1, &name);
        for (label, value) in [
            ("batch.kubernetes.io/controller-uid", job.uid()),
            ("batch.kubernetes.io/job-name", job.name()),
            ("controller-uid", job.uid()),
            ("job-name", job.name()),
        ] {
            set(&mut pod, &["metadata", "labels", label], value);
        }
        set(&mut pod, &["metadata", "finalizers"], json!([TRACKING]));
        if let Some(index) = index {
            let text = index.to_string();
            set(&mut pod, &["metadata", "annotations", INDEX], text.as_str());
            set(&mut pod, &["metadata", "labels", INDEX], text.as_str());
            set(
                &mut pod,
                &["spec", "hostname"],
                format!("{}-{index}", job.name()),
            );
        }
        pod
    }

    /// How long to wait before the next pod, after failures in a row.
    fn backoff(&self) -> Option<Duration> {
        let ends = |phase: &str| {
            let ended = self
                .pods
                .iter()
                .filter(|pod| pod.text(&["status", "phase"]) == phase);
            ended.filter_map(|pod| end_of(pod)).max()
        };
        let last_failure = ends("Failed")?;
        let since_success = ends("Succeeded").filter(|at| *at >= last_failure);
        if since_success.is_some() {
            return None;
        }
        let failures = u32::try_from(self.failed.max(1) - 1)
            .unwrap_or_default()
            .min(10);
        let wait = (FIRST_BACKOFF_SECONDS << failures).min(LONGEST_BACKOFF_SECONDS);
        let left = last_failure + wait - self.now.at.as_second();
        (left > 0).then(|| Duration::from_secs(u64::try_from(left).unwrap_or_default()))
    }
}

fn reason_of(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Complete(reason) | Verdict::Failed { reason, .. } => reason,
    }
}

fn restarts_of(pod: &Value) -> i64 {
    pod.items(&["status", "containerStatuses"])
        .iter()
        .filter_map(|status| status.int(&["restartCount"]))
        .sum()
}

/// When a pod's last container ended, in seconds.
fn end_of(pod: &Value) -> Option<i64> {
    pod.items(&["status", "containerStatuses"])
        .iter()
        .filter_map(|status| status.time(&["state", "terminated", "finishedAt"]))
        .map(jiff::Timestamp::as_second)
        .max()
}

/// The uids in a list of the status.
fn uids(list: &[Value]) -> BTreeSet<&str> {
    list.iter().filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests;
