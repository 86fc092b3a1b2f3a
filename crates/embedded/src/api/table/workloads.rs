//! Rows of workloads and what guards them.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    Cells, Printer,
    cells::{containers, each, has_condition, labels, number, selector, text_or},
    duration,
};
use crate::api::meta;

pub(super) fn layout(table: &str) -> Option<Cells> {
    Some(match table {
        "deployments.apps" => deployment,
        "replicasets.apps" | "replicationcontrollers" => replica_set,
        "daemonsets.apps" => daemon_set,
        "statefulsets.apps" => stateful_set,
        "controllerrevisions.apps" => revision,
        "jobs.batch" => job,
        "cronjobs.batch" => cron_job,
        "poddisruptionbudgets.policy" => budget,
        _ => return None,
    })
}

fn with_template(mut row: Vec<Value>, template: &Value, selected: Option<&Value>) -> Vec<Value> {
    let (names, images) = containers(&template["spec"]);
    row.extend([names, images]);
    row.extend(selected.map(|selected| json!(selector(selected))));
    row
}

fn name(object: &Value) -> Value {
    json!(meta::name(object))
}

fn deployment(printer: &Printer, object: &Value) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let row = vec![
        name(object),
        json!(format!(
            "{}/{}",
            number(&status["readyReplicas"]),
            number(&spec["replicas"])
        )),
        json!(number(&status["updatedReplicas"])),
        json!(number(&status["availableReplicas"])),
        printer.age(object),
    ];
    with_template(row, &spec["template"], Some(&spec["selector"]))
}

fn replica_set(printer: &Printer, object: &Value) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let row = vec![
        name(object),
        json!(number(&spec["replicas"])),
        json!(number(&status["replicas"])),
        json!(number(&status["readyReplicas"])),
        printer.age(object),
    ];
    with_template(row, &spec["template"], Some(&spec["selector"]))
}

fn daemon_set(printer: &Printer, object: &Value) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let row = vec![
        name(object),
        json!(number(&status["desiredNumberScheduled"])),
        json!(number(&status["currentNumberScheduled"])),
        json!(number(&status["numberReady"])),
        json!(number(&status["updatedNumberScheduled"])),
        json!(number(&status["numberAvailable"])),
        json!(labels(&spec["template"]["spec"]["nodeSelector"])),
        printer.age(object),
    ];
    with_template(row, &spec["template"], Some(&spec["selector"]))
}

/// Removes the annotation that only the served form of daemon sets has.
pub(super) fn hide_template_generation(object: &mut Value) {
    let annotations = object
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut);
    let Some(annotations) = annotations else {
        return;
    };
    annotations.remove("deprecated.daemonset.template.generation");
    if annotations.is_empty() {
        meta::unset(object, "annotations");
    }
}

fn stateful_set(printer: &Printer, object: &Value) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let row = vec![
        name(object),
        json!(format!(
            "{}/{}",
            number(&status["readyReplicas"]),
            number(&spec["replicas"])
        )),
        printer.age(object),
    ];
    with_template(row, &spec["template"], None)
}

fn revision(printer: &Printer, object: &Value) -> Vec<Value> {
    let owner = each(&object["metadata"]["ownerReferences"]).find(|one| one["controller"] == true);
    let controller = owner.map_or_else(
        || "<none>".to_owned(),
        |owner| {
            let kind = owner["kind"].as_str().unwrap_or_default().to_lowercase();
            let group = owner["apiVersion"].as_str().unwrap_or_default();
            let group = group.split_once('/').map_or("", |(group, _)| group);
            let kind = if group.is_empty() {
                kind
            } else {
                format!("{kind}.{group}")
            };
            format!("{kind}/{}", owner["name"].as_str().unwrap_or_default())
        },
    );
    vec![
        name(object),
        json!(controller),
        json!(number(&object["revision"])),
        printer.age(object),
    ]
}

fn job(printer: &Printer, object: &Value) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let succeeded = number(&status["succeeded"]);
    let completions = match spec["completions"].as_i64() {
        Some(wanted) => format!("{succeeded}/{wanted}"),
        None if number(&spec["parallelism"]) > 1 => {
            format!("{succeeded}/1 of {}", number(&spec["parallelism"]))
        }
        None => format!("{succeeded}/1"),
    };
    let time = |field: &str| {
        status[field]
            .as_str()
            .and_then(|text| text.parse::<Timestamp>().ok())
    };
    let took = match (time("startTime"), time("completionTime")) {
        (Some(start), Some(end)) => duration::human(end.duration_since(start)),
        (Some(start), None) => duration::human(printer.now.duration_since(start)),
        (None, _) => String::new(),
    };
    let shown = if has_condition(object, "Complete") {
        "Complete"
    } else if has_condition(object, "Failed") {
        "Failed"
    } else if meta::is_deleting(object) {
        "Terminating"
    } else {
        ["Suspended", "FailureTarget", "SuccessCriteriaMet"]
            .into_iter()
            .find(|kind| has_condition(object, kind))
            .unwrap_or("Running")
    };
    let row = vec![
        name(object),
        json!(shown),
        json!(completions),
        json!(took),
        printer.age(object),
    ];
    with_template(row, &spec["template"], Some(&spec["selector"]))
}

fn cron_job(printer: &Printer, object: &Value) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let last = &status["lastScheduleTime"];
    let suspend = match spec["suspend"].as_bool() {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    let row = vec![
        name(object),
        text_or(&spec["schedule"], ""),
        text_or(&spec["timeZone"], "<none>"),
        json!(suspend),
        json!(each(&status["active"]).len()),
        if last.is_string() {
            printer.since(last)
        } else {
            json!("<none>")
        },
        printer.age(object),
    ];
    let job = &spec["jobTemplate"]["spec"];
    with_template(row, &job["template"], Some(&job["selector"]))
}

fn budget(printer: &Printer, object: &Value) -> Vec<Value> {
    let spec = &object["spec"];
    vec![
        name(object),
        text_or(&spec["minAvailable"], "N/A"),
        text_or(&spec["maxUnavailable"], "N/A"),
        json!(number(&object["status"]["disruptionsAllowed"])),
        printer.age(object),
    ]
}
