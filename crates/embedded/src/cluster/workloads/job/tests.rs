//! Whole lives of jobs, with a small imitation of what the server and kubelets do in between.

use jiff::Timestamp;

use super::*;

fn moment(seconds: i64) -> Moment {
    let at = Timestamp::from_second(seconds).unwrap();
    Moment {
        at,
        stamp: crate::clock::rfc3339(at),
    }
}

fn job(spec: &Value) -> Arc<Value> {
    Arc::new(json!({"metadata": {"name": "sum", "namespace": "a", "uid": "j"}, "spec": spec}))
}

/// A job and its pods, on which plans are carried out.
struct Stage {
    job: Arc<Value>,
    pods: Vec<Arc<Value>>,
    made: usize,
}

impl Stage {
    fn new(spec: &Value) -> Self {
        Self {
            job: job(spec),
            pods: Vec::new(),
            made: 0,
        }
    }

    /// Plans and carries out until nothing is left to do at this moment.
    fn settle(&mut self, seconds: i64) {
        for _ in 0..20 {
            let plan = reconcile(&self.job, &self.pods, &moment(seconds));
            let idle = plan
                .actions
                .iter()
                .all(|action| matches!(action, Action::Tell { .. }));
            plan.actions
                .into_iter()
                .for_each(|action| self.carry_out(action));
            if idle {
                return;
            }
        }
        panic!("the plan never comes to rest");
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Create { mut object, .. } => {
                self.made += 1;
                let name = format!("p{}", self.made);
                set(&mut object, &["metadata", "name"], name.as_str());
                set(&mut object, &["metadata", "uid"], name);
                self.pods.push(Arc::new(object));
            }
            Action::UpdateStatus { object, .. } => self.job = Arc::new(object),
            Action::Update { object, .. } => {
                let held = self
                    .pods
                    .iter_mut()
                    .find(|pod| pod.uid() == object.uid())
                    .unwrap();
                *held = Arc::new(object);
            }
            Action::Delete { uid, .. } => self.pods.retain(|pod| pod.uid() != uid),
            Action::Tell { .. } | Action::Finalize { .. } => {}
        }
    }

    fn end(&mut self, name: &str, phase: &str, seconds: i64) {
        let pod = self.pods.iter_mut().find(|pod| pod.name() == name).unwrap();
        let mut ended = Value::clone(pod);
        set(
            &mut ended,
            &["status"],
            json!({"phase": phase, "containerStatuses": [
            {"state": {"terminated": {"finishedAt": moment(seconds).stamp}}}]}),
        );
        *pod = Arc::new(ended);
    }

    fn running(&self) -> Vec<&str> {
        self.pods
            .iter()
            .filter(|pod| pods::active(pod))
            .map(|pod| pod.name())
            .collect()
    }

    fn status(&self, field: &str) -> Value {
        self.job.at(&["status", field]).clone()
    }
}

#[test]
fn as_many_run_at_a_time_as_may_until_enough_have_succeeded() {
    let mut stage = Stage::new(&json!({"parallelism": 2, "completions": 3}));
    stage.settle(0);
    assert_eq!(stage.running(), ["p1", "p2"]);
    stage.end("p1", "Succeeded", 5);
    stage.settle(5);
    assert_eq!(stage.running(), ["p2", "p3"]);
    stage.end("p2", "Succeeded", 6);
    stage.end("p3", "Succeeded", 6);
    stage.settle(6);
    assert!(stage.job.condition_true("Complete"));
    assert_eq!(stage.status("succeeded"), 3);
    assert!(stage.pods.iter().all(|pod| !pod.has_finalizer(TRACKING)));
    stage.settle(7);
    assert_eq!(stage.status("succeeded"), 3, "nothing is counted twice");
}

#[test]
fn failures_wait_longer_each_time_and_are_too_many_in_the_end() {
    let mut stage = Stage::new(&json!({"backoffLimit": 1, "completions": 1}));
    stage.settle(0);
    stage.end("p1", "Failed", 100);
    stage.settle(101);
    assert!(stage.running().is_empty(), "it waits ten seconds first");
    stage.settle(110);
    assert_eq!(stage.running(), ["p2"]);
    stage.end("p2", "Failed", 120);
    stage.settle(120);
    assert!(stage.job.condition_true("Failed"));
    let failed = stage.job.condition("Failed").unwrap();
    assert_eq!(failed.text(&["reason"]), "BackoffLimitExceeded");
    assert_eq!(stage.status("failed"), 2);
}

#[test]
fn indexed_jobs_finish_every_index_once() {
    let mut stage = Stage::new(&json!({
        "completionMode": "Indexed", "parallelism": 2, "completions": 3,
    }));
    stage.settle(0);
    let index = |stage: &Stage, name: &str| {
        let pod = stage.pods.iter().find(|pod| pod.name() == name).unwrap();
        pod.annotation(INDEX).unwrap().to_owned()
    };
    assert_eq!(
        (index(&stage, "p1"), index(&stage, "p2")),
        ("0".into(), "1".into())
    );
    stage.end("p2", "Succeeded", 1);
    stage.settle(1);
    assert_eq!(index(&stage, "p3"), "2");
    assert_eq!(stage.status("completedIndexes"), "1");
    stage.end("p1", "Succeeded", 2);
    stage.end("p3", "Succeeded", 2);
    stage.settle(2);
    assert_eq!(stage.status("completedIndexes"), "0-2");
    assert!(stage.job.condition_true("Complete"));
}

#[test]
fn a_suspended_job_has_no_pods_and_starts_over_when_resumed() {
    let mut stage = Stage::new(&json!({"parallelism": 2, "completions": 2}));
    stage.settle(0);
    let mut suspended = Value::clone(&stage.job);
    set(&mut suspended, &["spec", "suspend"], true);
    stage.job = Arc::new(suspended);
    stage.settle(10);
    assert!(stage.running().is_empty());
    assert!(stage.job.condition_true("Suspended"));
    let mut resumed = Value::clone(&stage.job);
    set(&mut resumed, &["spec", "suspend"], false);
    stage.job = Arc::new(resumed);
    stage.settle(20);
    assert_eq!(stage.running().len(), 2);
    assert_eq!(stage.status("startTime"), "1970-01-01T00:00:20Z");
}

#[test]
fn a_deadline_ends_what_still_runs() {
    let mut stage = Stage::new(&json!({"activeDeadlineSeconds": 30, "completions": 1}));
    stage.settle(0);
    let plan = reconcile(&stage.job, &stage.pods, &moment(10));
    assert_eq!(plan.again, Some(Duration::from_secs(20)));
    stage.settle(30);
    assert!(stage.running().is_empty());
    assert_eq!(
        stage.job.condition("Failed").unwrap().text(&["reason"]),
        "DeadlineExceeded"
    );
}

#[test]
fn an_ended_job_goes_after_its_time_to_live() {
    let mut stage = Stage::new(&json!({"completions": 1, "ttlSecondsAfterFinished": 60}));
    stage.settle(0);
    stage.end("p1", "Succeeded", 5);
    stage.settle(5);
    let waiting = reconcile(&stage.job, &stage.pods, &moment(10));
    assert_eq!(waiting.again, Some(Duration::from_secs(55)));
    let over = reconcile(&stage.job, &stage.pods, &moment(65));
    assert!(
        matches!(over.actions.as_slice(), [Action::Delete { resource, .. }] if resource == RESOURCE)
    );
}
