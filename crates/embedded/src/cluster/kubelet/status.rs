//! What a kubelet reports about a pod.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::lifecycle::{Run, Stage};
use crate::clock::rfc3339;
use crate::cluster::fields::{Condition, Fields as _, set, set_condition};

/// The pod with the status that its run has at this moment.
pub fn report(pod: &Value, run: &Run, host: &str, now: Timestamp) -> Value {
    let mut object = pod.clone();
    let ready = run.is_ready(now);
    let phase = phase(run);
    set(&mut object, &["status", "phase"], phase);
    set(&mut object, &["status", "hostIP"], host);
    set(&mut object, &["status", "hostIPs"], json!([{"ip": host}]));
    set(&mut object, &["status", "startTime"], rfc3339(run.admitted));
    set(
        &mut object,
        &["status", "observedGeneration"],
        pod.generation(),
    );
    if !matches!(run.stage, Stage::Creating) {
        set(&mut object, &["status", "podIP"], run.address.as_str());
        set(
            &mut object,
            &["status", "podIPs"],
            json!([{"ip": run.address}]),
        );
    }
    set(
        &mut object,
        &["status", "containerStatuses"],
        main_statuses(pod, run, ready),
    );
    let init = init_statuses(pod, run);
    if !init.is_empty() {
        set(&mut object, &["status", "initContainerStatuses"], init);
    }
    write_conditions(&mut object, pod, run, ready, now);
    object
}

fn phase(run: &Run) -> &'static str {
    match run.stage {
        Stage::Creating | Stage::Init { .. } => "Pending",
        Stage::Running { .. } | Stage::BackOff { .. } => "Running",
        Stage::Stopping { running, .. } => {
            if running.is_some() {
                "Running"
            } else {
                "Pending"
            }
        }
        Stage::Done(ended) => {
            if ended.code == 0 {
                "Succeeded"
            } else {
                "Failed"
            }
        }
        Stage::Stopped { code, .. } => {
            if code == 0 {
                "Succeeded"
            } else {
                "Failed"
            }
        }
    }
}

fn write_conditions(object: &mut Value, pod: &Value, run: &Run, ready: bool, now: Timestamp) {
    let finished = matches!(run.stage, Stage::Done(_) | Stage::Stopped { .. });
    let completed = finished && phase(run) == "Succeeded";
    let initialized = !matches!(run.stage, Stage::Creating | Stage::Init { .. })
        || (pod.items(&["spec", "initContainers"]).is_empty());
    let (why, what) = if completed {
        ("PodCompleted", String::new())
    } else if finished {
        ("PodFailed", String::new())
    } else {
        let names: Vec<_> = pod
            .items(&["spec", "containers"])
            .iter()
            .map(|container| container.text(&["name"]))
            .collect();
        (
            "ContainersNotReady",
            format!("containers with unready status: [{}]", names.join(" ")),
        )
    };
    let gates_met = pod
        .items(&["spec", "readinessGates"])
        .iter()
        .all(|gate| pod.condition_true(gate.text(&["conditionType"])));
    let conditions = [
        (
            "PodReadyToStartContainers",
            !matches!(run.stage, Stage::Creating) && !finished,
            "",
            "",
        ),
        (
            "Initialized",
            initialized,
            "ContainersNotInitialized",
            "containers with incomplete status",
        ),
        ("Ready", ready && gates_met, why, what.as_str()),
        ("ContainersReady", ready, why, what.as_str()),
        ("PodScheduled", true, "", ""),
    ];
    let now = rfc3339(now);
    for (kind, holds, reason, message) in conditions {
        let explain = !holds || (kind == "Initialized" && completed);
        let condition = Condition {
            kind,
            status: if holds { "True" } else { "False" },
            reason: if explain { reason } else { "" },
            message: if explain { message } else { "" },
        };
        set_condition(object, condition, &now);
    }
}

fn main_statuses(pod: &Value, run: &Run, ready: bool) -> Value {
    let has_init = !pod.items(&["spec", "initContainers"]).is_empty();
    let mut last = json!({});
    if let Some(ended) = run.last {
        last = terminated(ended.code, ended.started, ended.finished);
    }
    let (state, started) = match run.stage {
        Stage::Creating | Stage::Init { .. } => {
            let reason = if has_init {
                "PodInitializing"
            } else {
                "ContainerCreating"
            };
            (json!({"waiting": {"reason": reason}}), false)
        }
        Stage::Running { since }
        | Stage::Stopping {
            running: Some(since),
            ..
        } => (json!({"running": {"startedAt": rfc3339(since)}}), true),
        Stage::BackOff { .. } => (json!({"waiting": {"reason": "CrashLoopBackOff"}}), false),
        Stage::Done(ended) => (terminated(ended.code, ended.started, ended.finished), false),
        Stage::Stopped {
            running: Some(since),
            at,
            code,
        } => (terminated(code, since, at), false),
        Stage::Stopping { running: None, .. } => {
            (json!({"waiting": {"reason": "ContainerCreating"}}), false)
        }
        Stage::Stopped {
            running: None, at, ..
        } => (terminated(super::lifecycle::KILLED, at, at), false),
    };
    let statuses = pod.items(&["spec", "containers"]).iter().map(|container| {
        container_status(container, pod, run.restarts, &state, &last, ready, started)
    });
    Value::Array(statuses.collect())
}

fn init_statuses(pod: &Value, run: &Run) -> Vec<Value> {
    let none = json!({});
    let over = matches!(run.stage, Stage::Done(_) | Stage::Stopped { .. });
    pod.items(&["spec", "initContainers"])
        .iter()
        .enumerate()
        .map(|(index, container)| {
            let sidecar = container.text(&["restartPolicy"]) == "Always";
            let (state, ready) = match run.init.get(index) {
                None => (json!({"waiting": {"reason": "PodInitializing"}}), false),
                Some((since, Some(finished))) => (terminated(0, *since, *finished), true),
                Some((since, None)) if over => {
                    let end = match run.stage {
                        Stage::Done(ended) => ended.finished,
                        Stage::Stopped { at, .. } => at,
                        _ => *since,
                    };
                    (terminated(0, *since, end), false)
                }
                Some((since, None)) => {
                    (json!({"running": {"startedAt": rfc3339(*since)}}), sidecar)
                }
            };
            let started = sidecar && ready;
            container_status(container, pod, 0, &state, &none, ready, started)
        })
        .collect()
}

fn container_status(
    container: &Value,
    pod: &Value,
    restarts: u32,
    state: &Value,
    last: &Value,
    ready: bool,
    started: bool,
) -> Value {
    let image = container.text(&["image"]);
    let name = container.text(&["name"]);
    let mut status = json!({
        "name": name, "image": image, "imageID": "", "state": state, "lastState": last,
        "ready": ready, "started": started, "restartCount": restarts,
    });
    if state.at(&["waiting"]).is_null() {
        // Ids only have to be stable and unique; a real runtime's are hashes too.
        set(
            &mut status,
            &["containerID"],
            format!("containerd://{}-{name}-{restarts}", pod.uid()),
        );
        set(
            &mut status,
            &["imageID"],
            format!("sim.joiner.dev/image/{image}"),
        );
    }
    status
}

fn terminated(code: i64, started: Timestamp, finished: Timestamp) -> Value {
    json!({"terminated": {
        "exitCode": code, "reason": if code == 0 { "Completed" } else { "Error" },
        "startedAt": rfc3339(started), "finishedAt": rfc3339(finished),
    }})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::kubelet::behaviour::{Behaviour, PodDefaults};

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_000 + seconds).unwrap()
    }

    fn observed(pod: &Value, seconds: i64) -> Value {
        let behaviour = Behaviour::read(pod, &PodDefaults::default());
        let mut run = Run::admit(pod, behaviour, "10.1.0.1".into(), at(0));
        run.advance(pod, at(seconds));
        report(pod, &run, "10.0.0.1", at(seconds))
    }

    #[test]
    fn a_pod_goes_from_creating_to_ready() {
        let pod = json!({"metadata": {"uid": "u"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let early = observed(&pod, 0);
        assert_eq!(early.text(&["status", "phase"]), "Pending");
        let waiting = &early["status"]["containerStatuses"][0]["state"]["waiting"];
        assert_eq!(waiting.text(&["reason"]), "ContainerCreating");
        assert!(!early.condition_true("Ready"));
        assert!(early.at(&["status", "podIP"]).is_null());
        let later = observed(&pod, 3);
        assert_eq!(later.text(&["status", "phase"]), "Running");
        assert_eq!(later.text(&["status", "podIP"]), "10.1.0.1");
        assert!(later.condition_true("Ready") && later.condition_true("ContainersReady"));
    }

    #[test]
    fn readiness_gates_hold_back_the_pod_and_not_its_containers() {
        let pod = json!({"spec": {
            "containers": [{"name": "c"}], "readinessGates": [{"conditionType": "example.com/lb"}],
        }});
        let seen = observed(&pod, 3);
        assert!(!seen.condition_true("Ready") && seen.condition_true("ContainersReady"));
    }

    #[test]
    fn the_end_of_a_job_pod_is_told_with_its_exit_code() {
        let pod = json!({
            "metadata": {"annotations": {"sim.joiner.dev/run-seconds": "1", "sim.joiner.dev/exit-code": "3"}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]},
        });
        let seen = observed(&pod, 10);
        assert_eq!(seen.text(&["status", "phase"]), "Failed");
        let end = &seen["status"]["containerStatuses"][0]["state"]["terminated"];
        assert_eq!(end.int(&["exitCode"]), Some(3));
        assert_eq!(end.text(&["finishedAt"]), "1970-01-01T00:16:43Z");
    }
}
