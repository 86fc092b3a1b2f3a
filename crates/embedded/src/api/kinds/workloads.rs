//! Defaults of workloads, and the selector that the server gives to jobs.

use serde_json::{Value, json};

use super::{
    super::meta,
    defaults::{fill, inner, items, spec},
    pod_spec,
};

/// Fills in a workload; does nothing for other kinds.
pub(super) fn default(table: &str, object: &mut Value) {
    match table {
        "deployments.apps" => deployment(object),
        "replicasets.apps" | "replicationcontrollers" => replica_set(object),
        "statefulsets.apps" => stateful_set(object),
        "daemonsets.apps" => daemon_set(object),
        "jobs.batch" => job(object),
        "cronjobs.batch" => cron_job(object),
        "podtemplates" => {
            if let Some(map) = object.as_object_mut() {
                template(map);
            }
        }
        _ => {}
    }
}

fn template(parent: &mut serde_json::Map<String, Value>) {
    if let Some(spec) = inner(parent, "template").and_then(|template| meta::child(template, "spec"))
    {
        pod_spec::default(spec);
    }
}

fn deployment(object: &mut Value) {
    let Some(spec) = spec(object) else { return };
    fill(spec, "replicas", 1);
    fill(spec, "revisionHistoryLimit", 10);
    fill(spec, "progressDeadlineSeconds", 600);
    if let Some(strategy) = meta::child(spec, "strategy") {
        fill(strategy, "type", "RollingUpdate");
        if strategy.get("type") == Some(&json!("RollingUpdate"))
            && let Some(rolling) = meta::child(strategy, "rollingUpdate")
        {
            fill(rolling, "maxUnavailable", "25%");
            fill(rolling, "maxSurge", "25%");
        }
    }
    template(spec);
}

fn replica_set(object: &mut Value) {
    let Some(spec) = spec(object) else { return };
    fill(spec, "replicas", 1);
    template(spec);
}

fn stateful_set(object: &mut Value) {
    let Some(spec) = spec(object) else { return };
    fill(spec, "podManagementPolicy", "OrderedReady");
    fill(spec, "replicas", 1);
    fill(spec, "revisionHistoryLimit", 10);
    if let Some(strategy) = meta::child(spec, "updateStrategy") {
        fill(strategy, "type", "RollingUpdate");
        if strategy.get("type") == Some(&json!("RollingUpdate"))
            && let Some(rolling) = meta::child(strategy, "rollingUpdate")
        {
            fill(rolling, "partition", 0);
        }
    }
    if let Some(policy) = meta::child(spec, "persistentVolumeClaimRetentionPolicy") {
        fill(policy, "whenDeleted", "Retain");
        fill(policy, "whenScaled", "Retain");
    }
    for claim in items(spec, "volumeClaimTemplates") {
        fill(claim, "apiVersion", "v1");
        fill(claim, "kind", "PersistentVolumeClaim");
        if let Some(spec) = meta::child(claim, "spec") {
            fill(spec, "volumeMode", "Filesystem");
        }
        if let Some(status) = meta::child(claim, "status") {
            fill(status, "phase", "Pending");
        }
    }
    template(spec);
}

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn template_generation(object: &Value) -> i64 {
    let text = object["metadata"]["annotations"][TEMPLATE_GENERATION].as_str();
    text.and_then(|text| text.parse().ok()).unwrap_or(1)
}

fn set_template_generation(object: &mut Value, generation: i64) {
    if let Some(annotations) = object
        .get_mut("metadata")
        .and_then(Value::as_object_mut)
        .and_then(|metadata| meta::child(metadata, "annotations"))
    {
        annotations.insert(
            TEMPLATE_GENERATION.to_owned(),
            json!(generation.to_string()),
        );
    }
}

/// Counts changes of the template in an annotation that old clients read.
pub(super) fn count_template(new: &mut Value, old: &Value) {
    let changed = new["spec"]["template"] != old["spec"]["template"];
    set_template_generation(new, template_generation(old) + i64::from(changed));
}

fn daemon_set(object: &mut Value) {
    let generation = template_generation(object);
    set_template_generation(object, generation);
    let Some(spec) = spec(object) else { return };
    fill(spec, "revisionHistoryLimit", 10);
    if let Some(strategy) = meta::child(spec, "updateStrategy") {
        fill(strategy, "type", "RollingUpdate");
        if strategy.get("type") == Some(&json!("RollingUpdate"))
            && let Some(rolling) = meta::child(strategy, "rollingUpdate")
        {
            fill(rolling, "maxUnavailable", 1);
            fill(rolling, "maxSurge", 0);
        }
    }
    template(spec);
}

fn job(object: &mut Value) {
    let labels = object["spec"]["template"]["metadata"]
        .get("labels")
        .cloned();
    if let Some(labels) =
        labels.filter(|labels| labels.as_object().is_some_and(|map| !map.is_empty()))
        && object["metadata"]["labels"]
            .as_object()
            .is_none_or(serde_json::Map::is_empty)
    {
        meta::set(object, "labels", labels);
    }
    if let Some(spec) = spec(object) {
        job_spec(spec);
    }
}

fn job_spec(spec: &mut serde_json::Map<String, Value>) {
    let missing = |spec: &serde_json::Map<String, Value>, field: &str| {
        spec.get(field).is_none_or(Value::is_null)
    };
    if missing(spec, "completions") && missing(spec, "parallelism") {
        fill(spec, "completions", 1);
    }
    fill(spec, "parallelism", 1);
    let backoff = if missing(spec, "backoffLimitPerIndex") {
        6
    } else {
        i32::MAX
    };
    fill(spec, "backoffLimit", backoff);
    fill(spec, "completionMode", "NonIndexed");
    fill(spec, "suspend", false);
    fill(spec, "manualSelector", false);
    let replacement = if missing(spec, "podFailurePolicy") {
        "TerminatingOrFailed"
    } else {
        "Failed"
    };
    fill(spec, "podReplacementPolicy", replacement);
    template(spec);
}

fn cron_job(object: &mut Value) {
    let Some(spec) = spec(object) else { return };
    fill(spec, "concurrencyPolicy", "Allow");
    fill(spec, "suspend", false);
    fill(spec, "successfulJobsHistoryLimit", 3);
    fill(spec, "failedJobsHistoryLimit", 1);
    if let Some(job) = inner(spec, "jobTemplate").and_then(|template| inner(template, "spec")) {
        template(job);
    }
}

/// Gives a new job the selector and labels that tie its pods to it.
pub(super) fn prepare_job(object: &mut Value) {
    let (uid, name) = (meta::uid(object).to_owned(), meta::name(object).to_owned());
    let unlabelled = object["metadata"]["labels"]
        .as_object()
        .is_none_or(serde_json::Map::is_empty);
    let Some(spec) = spec(object) else { return };
    if spec.get("manualSelector") == Some(&json!(true)) {
        return;
    }
    if let Some(metadata) =
        meta::child(spec, "template").and_then(|template| meta::child(template, "metadata"))
        && let Some(labels) = meta::child(metadata, "labels")
    {
        for (label, value) in [
            ("batch.kubernetes.io/controller-uid", &uid),
            ("controller-uid", &uid),
            ("batch.kubernetes.io/job-name", &name),
            ("job-name", &name),
        ] {
            labels.insert(label.to_owned(), json!(value));
        }
    }
    if let Some(labels) =
        meta::child(spec, "selector").and_then(|selector| meta::child(selector, "matchLabels"))
    {
        labels.insert("batch.kubernetes.io/controller-uid".to_owned(), json!(uid));
    }
    if unlabelled {
        // A job without labels of its own shares those of its template.
        let labels = object["spec"]["template"]["metadata"]["labels"].clone();
        meta::set(object, "labels", labels);
    }
}
