//! Where the server meets the schemas: reading objects, applying, and tracking who owns what.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    registry::Resource,
    status::{Cause, Details, Status},
    view,
};
use crate::{
    apply::{self, ApplyError, Conflicts},
    schema::{self, Builtins, FieldError, Schema},
};

/// The schema of a resource. A built-in kind without one (there is none such) is open.
pub(crate) fn of(resource: &Resource) -> Schema {
    if let Some(custom) = &resource.custom {
        return custom.posted.schema.clone();
    }
    builtin(&resource.group, &resource.version, &resource.kind)
        .cloned()
        .unwrap_or_else(Schema::open)
}

fn builtin(group: &str, version: &str, kind: &str) -> Option<&'static Schema> {
    match Builtins::load() {
        Ok(builtins) => builtins.kind(group, version, kind),
        Err(error) => {
            tracing::error!(%error, "the schemas of built-in kinds can't be read");
            None
        }
    }
}

/// The status of a new object of a built-in kind: numbers that Go writes although they are zero.
pub(crate) fn empty_status(resource: &Resource) -> Value {
    let mut carrier = json!({"status": {}});
    match schema::decode(&mut carrier, &of(resource)) {
        Ok(_) => carrier["status"].take(),
        Err(_) => json!({}),
    }
}

/// Reads an object as its schema says: drops what it does not know and normalises the rest.
///
/// Returns what a strict client would be refused for (`unknown field "x"`), or the decoder's
/// complaint about a wrong type. `raw` is the JSON it came from, for duplicate fields.
pub(crate) fn decode(
    resource: &Resource,
    object: &mut Value,
    raw: &[u8],
) -> Result<Vec<String>, String> {
    let mut problems: Vec<String> = schema::duplicate_fields(raw)
        .into_iter()
        .map(|path| format!("duplicate field {path:?}"))
        .collect();
    let unknown = match &resource.custom {
        None => schema::decode(object, &of(resource)).map_err(|error| error.0)?,
        Some(custom) => {
            let mut unknown = decode_metadata(object)?;
            schema::prune_nulls(object, &custom.posted.schema);
            unknown.extend(schema::prune(object, &custom.posted.schema));
            unknown
        }
    };
    problems.extend(
        unknown
            .into_iter()
            .map(|path| format!("unknown field {path:?}")),
    );
    Ok(problems)
}

/// Metadata of custom resources is typed although the rest is not.
fn decode_metadata(object: &mut Value) -> Result<Vec<String>, String> {
    let Some(metadata) = object.get_mut("metadata") else {
        return Ok(Vec::new());
    };
    let Some(schema) = builtin("", "v1", "ConfigMap") else {
        return Ok(Vec::new());
    };
    let mut carrier = json!({"metadata": metadata.take()});
    let unknown = schema::decode(&mut carrier, schema)
        // It is read on its own, so the path begins here.
        .map_err(|error| error.0.replacen(".metadata.", ".", 1))?;
    *metadata = carrier["metadata"].take();
    Ok(unknown)
}

/// A field error as a cause of a status.
pub(crate) fn cause(error: &FieldError) -> Cause {
    Cause {
        reason: error.kind.reason().to_owned(),
        message: error.body(),
        field: error.field.clone(),
    }
}

/// Who writes an object, and through which door.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Author<'a> {
    pub(crate) manager: &'a str,
    /// Empty for the object itself.
    pub(crate) subresource: &'a str,
    pub(crate) now: &'a str,
}

/// Fields that a door does not write, however much a request says about them.
fn ignored(resource: &Resource, subresource: &str) -> &'static [&'static [&'static str]] {
    match (subresource, resource.table.as_str()) {
        ("status", "pods") => &[
            &["spec"],
            &["metadata", "deletionTimestamp"],
            &["metadata", "ownerReferences"],
        ],
        ("status", "deployments.apps") => &[&["spec"], &["metadata", "labels"]],
        ("status", _) => &[&["spec"]],
        ("", _) if resource.has_status => &[&["status"]],
        _ => &[],
    }
}

/// Records who owns which field of a written object.
pub(crate) fn track(
    resource: &Resource,
    old: Option<&Value>,
    new: &mut Value,
    author: &Author<'_>,
) {
    let writer = apply::Writer {
        manager: author.manager,
        subresource: author.subresource,
        api_version: &resource.api_version(),
        now: author.now,
        ignored: ignored(resource, author.subresource),
    };
    if resource.group == "events.k8s.io" {
        // Fields are owned under the names that the writer uses.
        let old = old.map(|old| view::to_served(resource, &Arc::new(old.clone())).into_owned());
        let mut served = view::to_served(resource, &Arc::new(new.take())).into_owned();
        apply::track(old.as_ref(), &mut served, &writer, &of(resource));
        *new = view::to_stored(resource, served);
        return;
    }
    apply::track(old, new, &writer, &of(resource));
    if author.subresource == "scale" {
        // Ownership through a scale is translated from the scale object, and loses its time.
        let entries = new
            .pointer_mut("/metadata/managedFields")
            .and_then(Value::as_array_mut);
        for entry in entries
            .into_iter()
            .flatten()
            .filter_map(Value::as_object_mut)
        {
            if entry.get("subresource") == Some(&json!("scale"))
                && entry.get("manager") == Some(&json!(author.manager))
            {
                entry.remove("time");
            }
        }
    }
}

/// The object after a server-side apply.
pub(crate) fn apply(
    resource: &Resource,
    live: Option<&Value>,
    config: &Value,
    author: &Author<'_>,
    force: bool,
) -> Result<Value, Status> {
    let writer = apply::Writer {
        manager: author.manager,
        subresource: author.subresource,
        api_version: &resource.api_version(),
        now: author.now,
        ignored: ignored(resource, author.subresource),
    };
    apply::apply(live, config, &writer, force, &of(resource)).map_err(|error| match error {
        ApplyError::Conflicts(conflicts) => conflict(&conflicts),
        ApplyError::BadRequest(why) => Status::bad_request(why),
        ApplyError::Mismatch(why) => Status::new(500, "", why),
    })
}

/// 409 with one cause for each field that somebody else owns.
fn conflict(conflicts: &Conflicts) -> Status {
    let causes = conflicts
        .0
        .iter()
        .map(|conflict| Cause {
            reason: "FieldManagerConflict".to_owned(),
            message: conflict.message(),
            field: conflict.field.clone(),
        })
        .collect();
    Status {
        details: Some(Box::new(Details {
            causes,
            ..Details::default()
        })),
        ..Status::new(409, "Conflict", conflicts.to_string())
    }
}
