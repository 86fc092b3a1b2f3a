//! Reading, creating, replacing and deleting objects over HTTP.

use std::sync::Arc;

use http::Response;
use serde_json::{Value, json};

use super::{
    Context, list,
    options::{FieldValidation, ObjectOptions, delete_options},
    response::{self, ResponseBody, Shape},
};
use crate::api::{
    Details, Status, body, delete::Deleted, meta, registry::Resource, schemas, state::State, table,
    view, write::Part,
};

/// Kinds whose deletion answers with the object; the others answer with a status.
const RETURN_DELETED: &[&str] = &[
    "namespaces",
    "persistentvolumeclaims",
    "persistentvolumes",
    "pods",
    "podtemplates",
    "resourcequotas",
    "serviceaccounts",
    "services",
    "csidrivers.storage.k8s.io",
    "csinodes.storage.k8s.io",
    "storageclasses.storage.k8s.io",
    "volumeattachments.storage.k8s.io",
];

/// Kinds that a PUT may create.
const CREATE_ON_UPDATE: &[&str] = &[
    "endpoints",
    "events",
    "limitranges",
    "services",
    "leases.coordination.k8s.io",
    "runtimeclasses.node.k8s.io",
    "clusterrolebindings.rbac.authorization.k8s.io",
    "clusterroles.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
    "roles.rbac.authorization.k8s.io",
];

/// Answers with one object in the accepted form.
pub(crate) fn show(context: &Context, code: u16, object: &Arc<Value>) -> Response<ResponseBody> {
    let encoding = context.accepted.encoding;
    match context.accepted.shape {
        Shape::Object => {
            response::object(code, encoding, &view::to_served(&context.resource, object))
        }
        Shape::Metadata => {
            let shown = view::metadata_only(&view::to_served(&context.resource, object));
            response::object(code, encoding, &shown)
        }
        Shape::Table => {
            let objects = std::slice::from_ref(object);
            let mut shown = table::table(&context.table(), objects, table::Headers::Shown);
            shown["metadata"] = json!({"resourceVersion": meta::resource_version(object)});
            response::object(code, encoding, &shown)
        }
    }
}

/// Answers a get.
pub(crate) fn get(state: &State, context: &Context) -> Result<Response<ResponseBody>, Status> {
    let asked = list::parse_version(context.query.get("resourceVersion"))
        .map_err(|why| Status::new(500, "", why))?;
    let current = state.store.version();
    if let Some(version) = asked.filter(|version| *version > current) {
        return Err(list::too_large(version, current));
    }
    let object = match context.stale_version(state) {
        Some(version) => stale_get(state, context, version)?,
        None => state.get(&context.resource, &context.namespace, &context.name)?,
    };
    Ok(show(context, 200, &object))
}

fn stale_get(state: &State, context: &Context, version: u64) -> Result<Arc<Value>, Status> {
    let key = crate::api::store::key(&context.namespace, &context.name);
    let snapshot = state
        .store
        .snapshot_at(&context.resource.table, &context.namespace, version);
    snapshot
        .ok()
        .and_then(|snapshot| {
            snapshot
                .objects
                .into_iter()
                .find(|(found, _)| *found == key)
        })
        .map(|(_, object)| object)
        .ok_or_else(|| Status::not_found(context.resource.named(), &context.name))
}

/// Parses the body, whatever it holds.
pub(crate) fn parse_body(context: &Context) -> Result<Value, Status> {
    body::parse(
        &context.body,
        body::Format::from_content_type(&context.content_type)?,
    )
    .map_err(|why| body::unrecognized(&context.resource.kind, &why, &context.body))
}

/// An object from the body, with the warnings that its unknown fields deserve.
pub(crate) fn read_object(
    context: &Context,
    validation: FieldValidation,
) -> Result<(Value, Vec<String>), Status> {
    let mut object = parse_body(context)?;
    let resource = &context.resource;
    body::check_type(resource, &mut object, &context.body)?;
    let is_json = body::Format::from_content_type(&context.content_type)? == body::Format::Json;
    let raw: &[u8] = if is_json { &context.body } else { &[] };
    let warnings = decode(resource, &mut object, validation, raw)?;
    Ok((object, warnings))
}

/// Reads an object as its schema says; unknown fields are refused, reported or dropped.
pub(crate) fn decode(
    resource: &Resource,
    object: &mut Value,
    validation: FieldValidation,
    raw: &[u8],
) -> Result<Vec<String>, Status> {
    let problems = schemas::decode(resource, object, raw).map_err(|why| handled(resource, &why))?;
    judge_problems(resource, problems, validation)
}

fn handled(resource: &Resource, why: &str) -> Status {
    Status::bad_request(format!(
        "{kind} in version {version:?} cannot be handled as a {kind}: {why}",
        kind = resource.kind,
        version = resource.version
    ))
}

/// Refuses, reports or drops what a strict client would be refused for.
pub(crate) fn judge_problems(
    resource: &Resource,
    problems: Vec<String>,
    validation: FieldValidation,
) -> Result<Vec<String>, Status> {
    if problems.is_empty() || validation == FieldValidation::Ignore {
        return Ok(Vec::new());
    }
    if validation == FieldValidation::Strict {
        let why = format!("strict decoding error: {}", problems.join(", "));
        return Err(handled(resource, &why));
    }
    Ok(problems)
}

/// Reads an applied configuration, which keeps what it says and gains nothing.
pub(crate) fn decode_applied(
    resource: &Resource,
    config: &mut Value,
    validation: FieldValidation,
) -> Result<Vec<String>, Status> {
    let mut decoded = config.clone();
    decode(resource, &mut decoded, validation, &[])
}

/// Answers a create.
pub(crate) fn create(
    state: &mut State,
    context: &Context,
) -> Result<Response<ResponseBody>, Status> {
    if context.resource.namespaced && context.namespace.is_empty() {
        return Err(super::not_allowed());
    }
    let options = ObjectOptions::from_context(context, "CreateOptions")?;
    let (object, warnings) = read_object(context, options.validation)?;
    let object = view::to_stored(&context.resource, object);
    let created = state.create(
        &context.resource,
        &context.namespace,
        object,
        &options.write,
    )?;
    let mut response = show(context, 201, &created);
    response::warn(&mut response, &warnings);
    Ok(response)
}

/// Answers a replace, of the object or of its status.
pub(crate) fn update(
    state: &mut State,
    context: &Context,
) -> Result<Response<ResponseBody>, Status> {
    let options = ObjectOptions::from_context(context, "UpdateOptions")?;
    let (object, warnings) = read_object(context, options.validation)?;
    check_names(context, &object)?;
    let object = view::to_stored(&context.resource, object);
    let part = if context.subresource.is_some() {
        Part::Status
    } else {
        Part::Main
    };
    let resource = &context.resource;
    let missing = state
        .get(resource, &context.namespace, &context.name)
        .is_err();
    let (code, updated) =
        if missing && part == Part::Main && CREATE_ON_UPDATE.contains(&resource.table.as_str()) {
            (
                201,
                state.create(resource, &context.namespace, object, &options.write)?,
            )
        } else {
            let (namespace, name) = (&context.namespace, &context.name);
            (
                200,
                state.update(resource, namespace, name, object, part, &options.write)?,
            )
        };
    let mut response = show(context, code, &updated);
    response::warn(&mut response, &warnings);
    Ok(response)
}

/// The object must be the one that the path names.
pub(crate) fn check_names(context: &Context, object: &Value) -> Result<(), Status> {
    let (name, namespace) = (meta::name(object), meta::namespace(object));
    if name.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            context.name
        )));
    }
    if name != context.name {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            context.name
        )));
    }
    if !context.namespace.is_empty() && !namespace.is_empty() && namespace != context.namespace {
        return Err(Status::bad_request(format!(
            "the namespace of the object ({namespace}) does not match the namespace on the request ({})",
            context.namespace
        )));
    }
    Ok(())
}

/// Answers a delete.
pub(crate) fn delete(
    state: &mut State,
    context: &Context,
) -> Result<Response<ResponseBody>, Status> {
    let options = delete_options(context)?;
    let resource = &context.resource;
    let deleted = state.delete(resource, &context.namespace, &context.name, &options)?;
    Ok(match deleted {
        Deleted::Gone(object) if !RETURN_DELETED.contains(&resource.table.as_str()) => {
            response::object(200, context.accepted.encoding, &success(resource, &object))
        }
        Deleted::Gone(object) | Deleted::Pending(object) => show(context, 200, &object),
    })
}

/// The status that answers a deletion.
fn success(resource: &Resource, object: &Value) -> Value {
    let details = Details {
        name: meta::name(object).to_owned(),
        group: resource.group.clone(),
        kind: resource.plural.clone(),
        uid: meta::uid(object).to_owned(),
        ..Details::default()
    };
    json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details.to_value(),
    })
}

/// Answers the deletion of many.
pub(crate) fn delete_collection(
    state: &mut State,
    context: &Context,
) -> Result<Response<ResponseBody>, Status> {
    let resource = &context.resource;
    if matches!(resource.table.as_str(), "namespaces" | "services")
        || (resource.namespaced && context.namespace.is_empty())
    {
        return Err(super::not_allowed());
    }
    let options = delete_options(context)?;
    let mut items = Vec::new();
    for object in list::select(state, context)? {
        let (namespace, name) = (meta::namespace(&object), meta::name(&object));
        match state.delete(resource, namespace, name, &options) {
            Ok(_) => {
                // The answer shows them as they were found.
                let mut item = view::to_served(resource, &object).into_owned();
                if resource.custom.is_none() {
                    meta::put(&mut item, "kind", None);
                    meta::put(&mut item, "apiVersion", None);
                }
                items.push(item);
            }
            // Gone already: someone was faster, which is what was asked for.
            Err(status) if status.code == 404 => {}
            Err(status) => return Err(status),
        }
    }
    let mut list = json!({
        "kind": resource.list_kind,
        "apiVersion": resource.api_version(),
        "metadata": {"resourceVersion": state.store.version().to_string()},
        "items": items,
    });
    if resource.custom.is_some() {
        list["metadata"]["continue"] = json!("");
    }
    Ok(response::object(200, context.accepted.encoding, &list))
}
