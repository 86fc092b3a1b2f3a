//! Rows of pods: the aggregate that people read first.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    Cells, Printer,
    cells::{each, has_condition, number, text_or},
};
use crate::api::meta;

pub(super) fn layout(table: &str) -> Option<Cells> {
    (table == "pods").then_some(cells as Cells)
}

/// What a finished pod's row says about it.
pub(super) fn completion(table: &str, object: &Value) -> Option<Value> {
    if table != "pods" {
        return None;
    }
    let (reason, message) = match object["status"]["phase"].as_str() {
        Some("Succeeded") => ("Succeeded", "The pod has completed successfully."),
        Some("Failed") => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!({"type": "Completed", "status": "True", "reason": reason, "message": message}))
}

/// What has been counted while walking over container statuses.
#[derive(Default)]
struct Counts {
    ready: usize,
    restarts: i64,
    sidecar_restarts: i64,
    last_restart: Option<Timestamp>,
    last_sidecar_restart: Option<Timestamp>,
}

fn cells(printer: &Printer, pod: &Value) -> Vec<Value> {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let is_sidecar = |name: &Value| {
        each(&spec["initContainers"])
            .any(|container| container["name"] == *name && container["restartPolicy"] == "Always")
    };
    let sidecars = each(&spec["initContainers"])
        .filter(|one| one["restartPolicy"] == "Always")
        .count();
    let total = each(&spec["containers"]).len() + sidecars;

    let mut counts = Counts::default();
    let mut reason = first_reason(status);
    let initializing = init_reason(pod, &mut counts, is_sidecar);
    let initialized = has_condition(pod, "Initialized");
    if initializing.is_none() || initialized {
        counts.restarts = counts.sidecar_restarts;
        counts.last_restart = counts.last_sidecar_restart;
        reason = main_reason(pod, &mut counts, initializing.unwrap_or(reason));
    } else if let Some(initializing) = initializing {
        reason = initializing;
    }
    if meta::is_deleting(pod) {
        if status["reason"] == "NodeLost" {
            "Unknown".clone_into(&mut reason);
        } else if !matches!(status["phase"].as_str(), Some("Succeeded" | "Failed")) {
            "Terminating".clone_into(&mut reason);
        }
    }
    let restarts = match counts.last_restart {
        Some(at) if counts.restarts != 0 => {
            let ago = printer.since(&json!(at.to_string()));
            format!(
                "{} ({} ago)",
                counts.restarts,
                ago.as_str().unwrap_or_default()
            )
        }
        _ => counts.restarts.to_string(),
    };
    vec![
        json!(meta::name(pod)),
        json!(format!("{}/{total}", counts.ready)),
        json!(reason),
        json!(restarts),
        printer.age(pod),
        text_or(&status["podIPs"][0]["ip"], "<none>"),
        text_or(&spec["nodeName"], "<none>"),
        text_or(&status["nominatedNodeName"], "<none>"),
        json!(readiness_gates(pod)),
    ]
}

fn first_reason(status: &Value) -> String {
    let gated = each(&status["conditions"])
        .any(|one| one["type"] == "PodScheduled" && one["reason"] == "SchedulingGated");
    if gated {
        return "SchedulingGated".to_owned();
    }
    let reason = status["reason"].as_str().unwrap_or_default();
    let reason = if reason.is_empty() {
        status["phase"].as_str().unwrap_or_default()
    } else {
        reason
    };
    reason.to_owned()
}

fn restarted_at(container: &Value) -> Option<Timestamp> {
    container["lastState"]["terminated"]["finishedAt"]
        .as_str()?
        .parse()
        .ok()
}

/// The reason of an initialisation that is not over.
fn init_reason(
    pod: &Value,
    counts: &mut Counts,
    is_sidecar: impl Fn(&Value) -> bool,
) -> Option<String> {
    let all = each(&pod["spec"]["initContainers"]).len();
    for (index, container) in each(&pod["status"]["initContainerStatuses"]).enumerate() {
        let sidecar = is_sidecar(&container["name"]);
        counts.restarts += number(&container["restartCount"]);
        counts.last_restart = counts.last_restart.max(restarted_at(container));
        if sidecar {
            counts.sidecar_restarts += number(&container["restartCount"]);
            counts.last_sidecar_restart = counts.last_sidecar_restart.max(restarted_at(container));
        }
        let (terminated, waiting) = (
            &container["state"]["terminated"],
            &container["state"]["waiting"],
        );
        if terminated.is_object() && number(&terminated["exitCode"]) == 0 {
            continue;
        }
        if sidecar && container["started"] == true {
            counts.ready += usize::from(container["ready"] == true);
            continue;
        }
        if terminated.is_object() {
            return Some(format!("Init:{}", ended(terminated)));
        }
        let why = waiting["reason"].as_str().unwrap_or_default();
        if !why.is_empty() && why != "PodInitializing" {
            return Some(format!("Init:{why}"));
        }
        return Some(format!("Init:{index}/{all}"));
    }
    None
}

fn ended(terminated: &Value) -> String {
    match terminated["reason"].as_str() {
        Some(reason) if !reason.is_empty() => reason.to_owned(),
        _ if number(&terminated["signal"]) != 0 => {
            format!("Signal:{}", number(&terminated["signal"]))
        }
        _ => format!("ExitCode:{}", number(&terminated["exitCode"])),
    }
}

fn main_reason(pod: &Value, counts: &mut Counts, so_far: String) -> String {
    let mut reason = so_far;
    let mut running = false;
    for container in each(&pod["status"]["containerStatuses"]).rev() {
        counts.restarts += number(&container["restartCount"]);
        counts.last_restart = counts.last_restart.max(restarted_at(container));
        let state = &container["state"];
        let waiting = state["waiting"]["reason"].as_str().unwrap_or_default();
        if !waiting.is_empty() {
            waiting.clone_into(&mut reason);
        } else if state["terminated"].is_object() {
            reason = ended(&state["terminated"]);
        } else if container["ready"] == true && state["running"].is_object() {
            running = true;
            counts.ready += 1;
        }
    }
    if reason == "Completed" && running {
        let ready = has_condition(pod, "Ready");
        return if ready {
            "Running".to_owned()
        } else {
            "NotReady".to_owned()
        };
    }
    reason
}

fn readiness_gates(pod: &Value) -> String {
    let gates = each(&pod["spec"]["readinessGates"]);
    let all = gates.len();
    if all == 0 {
        return "<none>".to_owned();
    }
    let open = gates
        .filter(|gate| {
            gate["conditionType"]
                .as_str()
                .is_some_and(|kind| has_condition(pod, kind))
        })
        .count();
    format!("{open}/{all}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(pod: &Value) -> Vec<String> {
        let printer = Printer {
            now: Timestamp::from_second(100).unwrap(),
        };
        cells(&printer, pod)
            .iter()
            .map(|cell| cell.as_str().unwrap_or_default().to_owned())
            .collect()
    }

    #[test]
    fn a_running_pod_counts_its_ready_containers() {
        let pod = json!({
            "metadata": {"name": "a", "creationTimestamp": "1970-01-01T00:00:00Z"},
            "spec": {"containers": [{"name": "x"}, {"name": "y"}], "nodeName": "n1"},
            "status": {"phase": "Running", "containerStatuses": [
                {"name": "x", "ready": true, "restartCount": 0, "state": {"running": {}}},
                {"name": "y", "ready": false, "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                 "lastState": {"terminated": {"finishedAt": "1970-01-01T00:01:30Z"}}},
            ]},
        });
        assert_eq!(
            row(&pod)[..5],
            ["a", "1/2", "CrashLoopBackOff", "3 (10s ago)", "100s"]
        );
    }

    #[test]
    fn deletion_and_gates_show_as_status() {
        let mut pod =
            json!({"metadata": {"name": "a"}, "spec": {}, "status": {"phase": "Pending"}});
        assert_eq!(row(&pod)[2], "Pending");
        pod["status"]["conditions"] =
            json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]);
        assert_eq!(row(&pod)[2], "SchedulingGated");
        pod["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:00Z");
        assert_eq!(row(&pod)[2], "Terminating");
    }
}
