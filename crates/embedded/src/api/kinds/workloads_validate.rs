//! Checks of workloads: selectors, templates, and what may not change.

use serde_json::{Map, Value};

use super::{super::field::Errors, metadata, pod_validate};
use crate::selector::Selector;

const IMMUTABLE: &str = "field is immutable";

/// Checks a new workload.
pub(super) fn validate(table: &str, object: &Value, errors: &mut Errors) {
    let spec = &object["spec"];
    match table {
        "deployments.apps" => {
            not_negative(spec, "replicas", errors);
            selector_and_template(spec, "deployment", errors);
            for field in [
                "minReadySeconds",
                "revisionHistoryLimit",
                "progressDeadlineSeconds",
            ] {
                not_negative(spec, field, errors);
            }
        }
        "replicasets.apps" => {
            not_negative(spec, "replicas", errors);
            not_negative(spec, "minReadySeconds", errors);
            selector_and_template(spec, "deployment", errors);
        }
        "statefulsets.apps" => {
            not_negative(spec, "replicas", errors);
            selector_and_template(spec, "statefulset", errors);
        }
        "daemonsets.apps" => {
            selector_and_template(spec, "daemonset", errors);
            not_negative(spec, "minReadySeconds", errors);
        }
        "jobs.batch" => validate_job(spec, "spec", errors),
        "cronjobs.batch" => {
            if spec["schedule"].as_str().unwrap_or_default().is_empty() {
                errors.required("spec.schedule", "");
            }
            validate_job_template(
                &spec["jobTemplate"]["spec"],
                "spec.jobTemplate.spec",
                errors,
            );
        }
        _ => {}
    }
}

fn not_negative(spec: &Value, field: &str, errors: &mut Errors) {
    if spec[field].as_i64().is_some_and(|number| number < 0) {
        errors.invalid(
            &format!("spec.{field}"),
            &spec[field],
            "must be greater than or equal to 0",
        );
    }
}

fn selector_and_template(spec: &Value, what: &str, errors: &mut Errors) {
    let selector = &spec["selector"];
    if selector.is_null() {
        errors.required("spec.selector", "");
    } else {
        let empty = |field: &str| match &selector[field] {
            Value::Object(map) => map.is_empty(),
            Value::Array(list) => list.is_empty(),
            _ => true,
        };
        if empty("matchLabels") && empty("matchExpressions") {
            errors.invalid(
                "spec.selector",
                selector,
                &format!("empty selector is invalid for {what}"),
            );
        }
        validate_selector(selector, "spec.selector", errors);
    }
    let template = &spec["template"];
    let labels = &template["metadata"]["labels"];
    // A missing selector matches nothing.
    if !Selector::read(selector).matches(labels) {
        errors.invalid(
            "spec.template.metadata.labels",
            labels,
            "`selector` does not match template `labels`",
        );
    }
    metadata::labels(labels, "spec.template.metadata.labels", errors);
    metadata::annotations(
        &template["metadata"]["annotations"],
        "spec.template.metadata.annotations",
        errors,
    );
    pod_validate::validate(&template["spec"], "spec.template.spec", errors);
    let policy = &template["spec"]["restartPolicy"];
    if policy.as_str().is_some_and(|policy| policy != "Always") {
        errors.unsupported("spec.template.spec.restartPolicy", policy, &["Always"]);
    }
    if template["spec"]["activeDeadlineSeconds"].is_i64() {
        errors.forbidden(
            "spec.template.spec.activeDeadlineSeconds",
            &format!(
                "activeDeadlineSeconds in {} is not Supported",
                capital(what)
            ),
        );
    }
}

fn capital(what: &str) -> &str {
    match what {
        "daemonset" => "DaemonSet",
        "statefulset" => "StatefulSet",
        _ => "ReplicaSet",
    }
}

/// Checks a `metav1.LabelSelector`.
pub(super) fn validate_selector(selector: &Value, path: &str, errors: &mut Errors) {
    metadata::labels(
        &selector["matchLabels"],
        &format!("{path}.matchLabels"),
        errors,
    );
    for (index, expression) in selector["matchExpressions"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        let path = format!("{path}.matchExpressions[{index}]");
        let values = expression["values"].as_array().map_or(0, Vec::len);
        match expression["operator"].as_str() {
            Some("In" | "NotIn") if values == 0 => errors.required(
                &format!("{path}.values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            ),
            Some("Exists" | "DoesNotExist") if values > 0 => errors.forbidden(
                &format!("{path}.values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            ),
            Some("In" | "NotIn" | "Exists" | "DoesNotExist") => {}
            _ => errors.invalid(
                &format!("{path}.operator"),
                &expression["operator"],
                "not a valid selector operator",
            ),
        }
        let key = expression["key"].as_str().unwrap_or_default();
        errors.name_problems(
            &format!("{path}.key"),
            key,
            super::super::names::qualified_name(key),
        );
    }
}

fn validate_job(spec: &Value, path: &str, errors: &mut Errors) {
    validate_job_template(spec, path, errors);
    if spec["selector"].is_null() {
        errors.required(&format!("{path}.selector"), "");
    }
}

fn validate_job_template(spec: &Value, path: &str, errors: &mut Errors) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
    ] {
        if spec[field].as_i64().is_some_and(|number| number < 0) {
            errors.invalid(
                &format!("{path}.{field}"),
                &spec[field],
                "must be greater than or equal to 0",
            );
        }
    }
    let template = &spec["template"];
    metadata::labels(
        &template["metadata"]["labels"],
        &format!("{path}.template.metadata.labels"),
        errors,
    );
    pod_validate::validate(&template["spec"], &format!("{path}.template.spec"), errors);
    let policy = &template["spec"]["restartPolicy"];
    let policy_path = format!("{path}.template.spec.restartPolicy");
    match policy.as_str() {
        Some("Always") => {
            errors.required(&policy_path, "valid values: \"OnFailure\", \"Never\"");
        }
        Some("OnFailure" | "Never") | None => {}
        Some(_) => errors.unsupported(&policy_path, policy, &["OnFailure", "Never"]),
    }
}

/// Checks what may not change in a workload.
pub(super) fn validate_update(table: &str, new: &Value, old: &Value, errors: &mut Errors) {
    let (after, before) = (&new["spec"], &old["spec"]);
    match table {
        "deployments.apps" | "replicasets.apps" | "daemonsets.apps" => {
            same(after, before, "selector", errors);
        }
        "statefulsets.apps" => {
            let rest = |spec: &Value| -> Map<String, Value> {
                const MUTABLE: [&str; 7] = [
                    "replicas",
                    "ordinals",
                    "template",
                    "updateStrategy",
                    "revisionHistoryLimit",
                    "persistentVolumeClaimRetentionPolicy",
                    "minReadySeconds",
                ];
                let map = spec.as_object().cloned().unwrap_or_default();
                map.into_iter()
                    .filter(|(key, _)| !MUTABLE.contains(&key.as_str()))
                    .collect()
            };
            if rest(after) != rest(before) {
                errors.forbidden(
                    "spec",
                    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
                );
            }
        }
        "jobs.batch" => {
            same(after, before, "selector", errors);
            same(after, before, "completionMode", errors);
            let suspended = before["suspend"] == true && old["status"]["startTime"].is_null();
            if !suspended {
                same(after, before, "template", errors);
            }
        }
        _ => return,
    }
    validate(table, new, errors);
}

fn same(after: &Value, before: &Value, field: &str, errors: &mut Errors) {
    if after[field] != before[field] {
        errors.invalid(&format!("spec.{field}"), &after[field], IMMUTABLE);
    }
}
