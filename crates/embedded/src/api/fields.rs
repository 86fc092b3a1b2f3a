//! Field selectors: which fields each kind can be selected by, and how they read.

use serde_json::Value;

use super::{meta, registry::Resource, selector::FieldSelector, status::Status};

/// Fields besides name and namespace, by table.
fn selectable(resource: &Resource) -> &'static [&'static str] {
    match resource.table.as_str() {
        "pods" => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        "nodes" => &["spec.unschedulable"],
        "namespaces" => &["status.phase"],
        "secrets" => &["type"],
        "services" => &["spec.clusterIP", "spec.type"],
        "replicationcontrollers" | "replicasets.apps" => &["status.replicas"],
        "jobs.batch" => &["status.successful"],
        "events" => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        _ => &[],
    }
}

/// Whether every object of a kind prints a value for a flag that is usually left out.
fn read(object: &Value, field: &str) -> String {
    match field {
        "spec.unschedulable" | "spec.hostNetwork" => object["spec"][&field[5..]]
            .as_bool()
            .unwrap_or_default()
            .to_string(),
        "status.successful" => object["status"]["succeeded"]
            .as_i64()
            .unwrap_or_default()
            .to_string(),
        "status.replicas" => object["status"]["replicas"]
            .as_i64()
            .unwrap_or_default()
            .to_string(),
        "source" => {
            let component = object["source"]["component"].as_str().unwrap_or_default();
            let component = if component.is_empty() {
                object["reportingComponent"].as_str().unwrap_or_default()
            } else {
                component
            };
            component.to_owned()
        }
        _ => field
            .split('.')
            .try_fold(object, |value, part| value.get(part))
            .map(text)
            .unwrap_or_default(),
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// The new event API selects by its own names for the same fields.
fn stored_name(resource: &Resource, field: &str) -> String {
    if resource.group != "events.k8s.io" {
        return field.to_owned();
    }
    if let Some(rest) = field.strip_prefix("regarding.") {
        return format!("involvedObject.{rest}");
    }
    match field {
        "reportingController" => "reportingComponent".to_owned(),
        _ => field.to_owned(),
    }
}

/// Refuses fields that the kind can't be selected by.
pub(crate) fn check(resource: &Resource, selector: &FieldSelector) -> Result<(), Status> {
    for field in selector.fields() {
        let stored = stored_name(resource, field);
        let known = matches!(stored.as_str(), "metadata.name" | "metadata.namespace")
            || selectable(resource).contains(&stored.as_str())
            || resource
                .custom
                .as_ref()
                .is_some_and(|custom| custom.selectable.contains(&stored));
        if !known {
            let what = if resource.custom.is_some() {
                format!("field label not supported: {field}")
            } else {
                // Most kinds speak through a conversion function of their own, with these words.
                unknown_field(resource, field)
            };
            return Err(Status::bad_request(what));
        }
    }
    Ok(())
}

fn unknown_field(resource: &Resource, field: &str) -> String {
    match resource.table.as_str() {
        "pods"
        | "nodes"
        | "namespaces"
        | "secrets"
        | "services"
        | "events"
        | "replicationcontrollers"
        | "replicasets.apps"
        | "jobs.batch" => {
            format!("field label not supported: {field}")
        }
        _ => format!(
            "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        ),
    }
}

/// Whether an object passes.
pub(crate) fn matches(resource: &Resource, selector: &FieldSelector, object: &Value) -> bool {
    selector.is_empty()
        || selector.matches(|field| match field {
            "metadata.name" => meta::name(object).to_owned(),
            "metadata.namespace" => meta::namespace(object).to_owned(),
            _ => read(object, &stored_name(resource, field)),
        })
}
