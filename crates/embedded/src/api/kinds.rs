//! What is special about each kind: defaults, admission, preparation, validation.
//!
//! The write path asks the functions here at fixed points; each looks at the table name and hands
//! on to the module of that kind. Custom resources take the same path and bring their own schema.

mod defaults;
mod metadata;
mod namespace;
mod others;
mod others_validate;
mod pod;
mod pod_spec;
mod pod_validate;
mod quantities;
mod service;
mod workloads;
mod workloads_validate;

use serde_json::{Value, json};

use super::{
    custom,
    field::Errors,
    meta,
    registry::Resource,
    schemas,
    state::State,
    status::{Named, Status},
    write::Part,
};
use crate::schema;

/// Fills in what the object leaves out.
pub(crate) fn default(resource: &Resource, object: &mut Value) {
    if let Some(custom) = &resource.custom {
        schema::default(object, &custom.posted.schema);
        return;
    }
    others::default_conditions(&resource.table, object);
    match resource.table.as_str() {
        "pods" => pod::default(object),
        "namespaces" => namespace::default(object),
        "services" => service::default(object),
        custom::DEFINITIONS => custom::default(object),
        table => {
            workloads::default(table, object);
            others::default(table, object);
        }
    }
}

/// Admission: what the server decides from the rest of the cluster.
pub(crate) fn admit_create(
    state: &State,
    resource: &Resource,
    object: &mut Value,
) -> Result<(), Status> {
    if resource.table == "pods" {
        pod::admit(state, object)
    } else {
        Ok(())
    }
}

/// Drops what a client can't set at creation, and sets what the server does.
pub(crate) fn prepare_create(
    state: &State,
    resource: &Resource,
    object: &mut Value,
) -> Result<(), Status> {
    // Nodes keep the status they are created with: a kubelet registers with it.
    if resource.has_status && resource.table != "nodes" {
        let empty = resource
            .custom
            .is_none()
            .then(|| schemas::empty_status(resource));
        meta::put(object, "status", empty);
    }
    others::write_zeros(&resource.table, object);
    match resource.table.as_str() {
        "pods" => pod::prepare_create(object, &state.clock.rfc3339()),
        "namespaces" => namespace::prepare_create(object),
        "jobs.batch" => workloads::prepare_job(object),
        custom::DEFINITIONS => custom::prepare_create(object),
        "services" => {
            service::allocate(state, object, None)?;
            others::prepare_create(state, &resource.table, object);
        }
        table => others::prepare_create(state, table, object),
    }
    Ok(())
}

/// Keeps the part that this write may not change.
pub(crate) fn prepare_update(
    state: &State,
    resource: &Resource,
    new: &mut Value,
    old: &Value,
    part: Part,
) -> Result<(), Status> {
    match part {
        Part::Main => {
            if resource.has_status {
                meta::put(new, "status", old.get("status").cloned());
            }
        }
        Part::Status => keep_all_but_status(resource, new, old),
        Part::Finalize => {
            let finalizers = new["spec"].get("finalizers").cloned();
            *new = old.clone();
            meta::put(
                new,
                "spec",
                Some(finalizers.map_or_else(|| json!({}), |list| json!({"finalizers": list}))),
            );
        }
        Part::Ephemeral | Part::Resize => pod::keep_all_but(new, old, part),
    }
    others::write_zeros(&resource.table, new);
    match resource.table.as_str() {
        "pods" => pod::prepare_update(new, old),
        "namespaces" if part == Part::Main => {
            meta::put(new, "spec", old.get("spec").cloned());
        }
        "services" if part == Part::Main => service::allocate(state, new, Some(old))?,
        "daemonsets.apps" if part == Part::Main => workloads::count_template(new, old),
        custom::DEFINITIONS => custom::prepare_update(new),
        _ => {}
    }
    Ok(())
}

/// A status write keeps everything of the old object but for managed fields; nodes and some others
/// let their status writers touch labels and annotations as well.
fn keep_all_but_status(resource: &Resource, new: &mut Value, old: &Value) {
    let status = new.get_mut("status").map(Value::take);
    let mut metadata = new.get_mut("metadata").map(Value::take).unwrap_or_default();
    // All but the status, which is the larger half of most objects.
    *new = match old.as_object() {
        Some(old) => {
            let rest = old.iter().filter(|(key, _)| *key != "status");
            rest.map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        }
        None => old.clone(),
    };
    meta::put(new, "status", status);
    let mut kept = vec!["managedFields"];
    let open = resource.custom.is_none()
        && !matches!(
            resource.table.as_str(),
            "deployments.apps" | "daemonsets.apps" | "poddisruptionbudgets.policy"
        );
    if open {
        kept.extend(["labels", "annotations", "finalizers", "ownerReferences"]);
    }
    if resource.table == "pods" {
        kept.retain(|field| {
            !matches!(
                *field,
                "labels" | "annotations" | "finalizers" | "ownerReferences"
            )
        });
    }
    for field in kept {
        match metadata.get_mut(field).map(Value::take) {
            Some(value) => meta::set(new, field, value),
            None => meta::unset(new, field),
        }
    }
}

/// Whether the desired state changed, so that the generation must grow.
pub(crate) fn desired_changed(resource: &Resource, new: &Value, old: &Value) -> bool {
    if resource.custom.is_some() || old.get("spec").is_none() {
        let ignored = |key: &str| key == "metadata" || (key == "status" && resource.has_status);
        return differs_outside(new, old, ignored);
    }
    let annotations = resource.table == "deployments.apps"
        && new["metadata"]["annotations"] != old["metadata"]["annotations"];
    annotations || new["spec"] != old["spec"]
}

fn differs_outside(new: &Value, old: &Value, ignored: impl Fn(&str) -> bool) -> bool {
    let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else {
        return new != old;
    };
    // Maps are sorted by key.
    let old = old.iter().filter(|(key, _)| !ignored(key));
    old.ne(new.iter().filter(|(key, _)| !ignored(key)))
}

/// Checks a new object.
pub(crate) fn validate_create(resource: &Resource, object: &Value) -> Errors {
    let mut errors = Errors::default();
    if let Some(custom) = &resource.custom {
        metadata::validate(resource, object, &mut errors);
        validate_custom(custom, object, None, Part::Main, &mut errors);
        return errors;
    }
    metadata::validate(resource, object, &mut errors);
    if resource.group == "events.k8s.io" {
        others_validate::new_event(object, &mut errors);
    }
    match resource.table.as_str() {
        "pods" => pod_validate::validate(&object["spec"], "spec", &mut errors),
        "services" => service::validate(object, &mut errors),
        custom::DEFINITIONS => custom::validate(object, &mut errors),
        table => {
            workloads_validate::validate(table, object, &mut errors);
            others_validate::validate(table, object, &mut errors);
        }
    }
    errors
}

fn validate_custom(
    custom: &super::registry::Custom,
    object: &Value,
    old: Option<&Value>,
    part: Part,
    errors: &mut Errors,
) {
    let found = match old {
        Some(old) => schema::validate_update(object, old, &custom.posted.schema),
        None => schema::validate(object, &custom.posted.schema),
    };
    let lists = schema::validate_lists(object, &custom.posted.schema);
    let sound = found.is_empty();
    let mut causes: Vec<_> = found.iter().chain(&lists).map(schemas::cause).collect();
    if part == Part::Status {
        // Only the status is looked at, and messages are told from there.
        causes.retain(|cause| cause.field.starts_with("status"));
        for cause in &mut causes {
            cause.message = cause.message.replacen("status.", "", 1);
        }
    }
    errors.extend(causes);
    if let Some(scale) = &custom.scale {
        scale.validate(object, part, errors);
    }
    if custom.posted.rules.is_empty() {
        return;
    }
    if sound {
        errors.extend(
            custom
                .posted
                .rules
                .check(object, old)
                .iter()
                .map(schemas::cause),
        );
    } else {
        // Rules are typed: they can't look at an object that the schema refuses.
        errors.shown_invalid(
            "<nil>",
            "null",
            "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
        );
    }
}

/// Checks a changed object.
pub(crate) fn validate_update(resource: &Resource, new: &Value, old: &Value, part: Part) -> Errors {
    let mut errors = Errors::default();
    metadata::validate_update(resource, new, old, &mut errors);
    if let Some(custom) = &resource.custom {
        validate_custom(custom, new, Some(old), part, &mut errors);
        return errors;
    }
    if part == Part::Status {
        return errors;
    }
    match resource.table.as_str() {
        "pods" => {
            if new["spec"] != old["spec"] {
                pod_validate::validate(&new["spec"], "spec", &mut errors);
            }
            pod::validate_update(new, old, part, &mut errors);
        }
        "services" => service::validate_update(new, old, &mut errors),
        custom::DEFINITIONS => custom::validate_update(new, old, &mut errors),
        table => {
            workloads_validate::validate_update(table, new, old, &mut errors);
            others_validate::validate_update(table, new, old, &mut errors);
        }
    }
    errors
}

/// Some objects can't be deleted at all.
pub(crate) fn admit_delete(resource: &Resource, object: &Value) -> Result<(), Status> {
    let name = meta::name(object);
    let protected =
        resource.table == "namespaces" && matches!(name, "default" | "kube-system" | "kube-public");
    if !protected {
        return Ok(());
    }
    Err(Status::forbidden(
        Named {
            group: "",
            what: "namespaces",
        },
        name,
        "this namespace may not be deleted",
    ))
}

/// What deletion changes besides the timestamps.
pub(crate) fn mark_deleting(resource: &Resource, object: &mut Value, now: &str) {
    match resource.table.as_str() {
        "namespaces" => namespace::mark_deleting(object),
        custom::DEFINITIONS => custom::mark_deleting(object, now),
        _ => {}
    }
}

/// Whether something must happen before the object may go.
pub(crate) fn has_finalizers(resource: &Resource, object: &Value) -> bool {
    let held = meta::finalizers(object).next().is_some();
    held || (resource.table == "namespaces" && namespace::has_finalizers(object))
}

/// The grace period of kinds that know one.
pub(crate) fn default_grace(resource: &Resource, object: &Value) -> Option<i64> {
    (resource.table == "pods").then(|| {
        object["spec"]["terminationGracePeriodSeconds"]
            .as_i64()
            .unwrap_or(30)
    })
}

/// A pod that nobody runs needs no grace.
pub(crate) fn limit_grace(object: &Value, seconds: i64) -> i64 {
    let unscheduled = object["spec"]["nodeName"]
        .as_str()
        .unwrap_or_default()
        .is_empty();
    let finished = matches!(
        object["status"]["phase"].as_str(),
        Some("Succeeded" | "Failed")
    );
    if unscheduled || finished { 0 } else { seconds }
}

/// Old APIs leave their pods behind unless told otherwise.
pub(crate) fn orphans_by_default(resource: &Resource) -> bool {
    matches!(
        resource.table.as_str(),
        "replicationcontrollers" | "jobs.batch"
    )
}

/// Follows up on a committed object.
pub(crate) fn after_commit(state: &mut State, resource: &Resource, object: &Value) {
    if resource.table == custom::DEFINITIONS {
        custom::after_commit(state, object);
    }
}

/// Follows up on an object that is gone.
pub(crate) fn after_removal(state: &mut State, resource: &Resource, object: &Value) {
    if resource.table == custom::DEFINITIONS {
        custom::after_removal(state, object);
    } else {
        custom::after_instance_removal(state, resource);
    }
}
