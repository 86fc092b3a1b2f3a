//! Patching: JSON, merge, strategic merge, and server-side apply.

use std::sync::Arc;

use http::Response;
use serde_json::Value;

use super::{
    Context, object,
    options::{FieldValidation, ObjectOptions},
    response::{self, ResponseBody},
};
use crate::{
    api::{
        Status, body, field::Errors, meta, registry::Resource, schemas, state::State,
        status::Named, view, write::Part,
    },
    patch::{self, PatchError},
};

/// How a patch is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchKind {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl PatchKind {
    pub(crate) fn from_context(context: &Context) -> Result<Self, Status> {
        let custom = context.resource.custom.is_some();
        match context
            .content_type
            .split(';')
            .next()
            .unwrap_or_default()
            .trim()
        {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" if !custom => Ok(Self::Strategic),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            _ if custom => Err(body::unsupported_media_type(&[
                "application/json-patch+json",
                "application/merge-patch+json",
                "application/apply-patch+yaml",
            ])),
            _ => Err(Status {
                details: Some(Box::default()),
                ..Status::new(415, "UnsupportedMediaType", "415: Unsupported Media Type")
            }),
        }
    }
}

/// Answers a patch, of the object or of its status.
pub(crate) fn patch(
    state: &mut State,
    context: &Context,
) -> Result<Response<ResponseBody>, Status> {
    let kind = PatchKind::from_context(context)?;
    let options = read_options(context, kind)?;
    if kind == PatchKind::Apply {
        return apply(state, context, &options);
    }
    let resource = &context.resource;
    let current = state.get(resource, &context.namespace, &context.name)?;
    let served = view::to_served(resource, &current);
    let mut patched = patch_value(resource, &served, &context.body, kind)?;
    body::check_type(resource, &mut patched, &context.body)?;
    let warnings = decode_patched(resource, &mut patched, options.validation)?;
    object::check_names(context, &patched)?;
    let patched = view::to_stored(resource, patched);
    let (namespace, name) = (&context.namespace, &context.name);
    let updated = state.update(
        resource,
        namespace,
        name,
        patched,
        part(context),
        &options.write,
    )?;
    let mut response = object::show(context, 200, &updated);
    response::warn(&mut response, &warnings);
    Ok(response)
}

/// Reads a patched object; one that can't be read is the patch's fault.
fn decode_patched(
    resource: &Resource,
    patched: &mut Value,
    validation: FieldValidation,
) -> Result<Vec<String>, Status> {
    let shown = shown_object(patched);
    let fault = |why: &str| {
        let mut errors = Errors::default();
        errors.invalid("patch", &Value::from(shown.as_str()), why);
        Status::invalid(
            Named {
                group: "",
                what: "",
            },
            "",
            errors.into_causes(),
        )
    };
    let problems = schemas::decode(resource, patched, &[]).map_err(|why| fault(&why))?;
    if validation == FieldValidation::Strict && !problems.is_empty() {
        return Err(fault(&format!(
            "strict decoding error: {}",
            problems.join(", ")
        )));
    }
    object::judge_problems(resource, problems, validation)
}

/// An object as the patcher holds it: metadata as Go wrote it, the rest sorted.
fn shown_object(object: &Value) -> String {
    const ORDER: [&str; 12] = [
        "name",
        "generateName",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "ownerReferences",
    ];
    let mut fields: Vec<(&String, String)> = object
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| {
            if key != "metadata" {
                return (key, value.to_string());
            }
            let inner: Vec<String> = ORDER
                .iter()
                .filter_map(|field| value.get(field).map(|value| format!("\"{field}\":{value}")))
                .collect();
            (key, format!("{{{}}}", inner.join(",")))
        })
        .collect();
    fields.sort();
    let fields: Vec<String> = fields
        .iter()
        .map(|(key, value)| format!("\"{key}\":{value}"))
        .collect();
    format!("{{{}}}", fields.join(","))
}

fn part(context: &Context) -> Part {
    if context.subresource.is_some() {
        Part::Status
    } else {
        Part::Main
    }
}

/// Reads the options; apply needs a manager, and only apply can be forced.
pub(crate) fn read_options(context: &Context, kind: PatchKind) -> Result<ObjectOptions, Status> {
    let mut errors = Errors::default();
    if kind == PatchKind::Apply {
        if context.query.get("fieldManager").is_empty() {
            errors.required("fieldManager", "is required for apply patch");
        }
    } else if context.query.has("force") {
        errors.forbidden("force", "may not be specified for non-apply patch");
    }
    if !errors.is_empty() {
        return Err(Status::invalid(
            Named {
                group: "meta.k8s.io",
                what: "PatchOptions",
            },
            "",
            errors.into_causes(),
        ));
    }
    ObjectOptions::from_context(context, "PatchOptions")
}

/// The object after a patch that is not an apply.
pub(crate) fn patch_value(
    resource: &Resource,
    current: &Value,
    bytes: &[u8],
    kind: PatchKind,
) -> Result<Value, Status> {
    let refused = |error: PatchError| match error {
        PatchError::BadRequest(why) => Status::bad_request(why),
        PatchError::TooLarge(why) => Status::new(413, "RequestEntityTooLarge", why),
        PatchError::Unprocessable(_) => unprocessable(),
        PatchError::Internal(why) => Status::new(500, "", why),
    };
    let document = crate::api::gojson::parse(bytes);
    match kind {
        PatchKind::Json => {
            let operations = document
                .map_err(|why| Status::bad_request(format!("error decoding patch: {why}")))?;
            patch::json(current, &operations).map_err(refused)
        }
        PatchKind::Merge => {
            let document = document.map_err(|_| Status::bad_request("Invalid JSON Patch"))?;
            patch::merge(current, &document).map_err(refused)
        }
        PatchKind::Strategic => {
            let document = document
                .map_err(|why| Status::bad_request(format!("error decoding patch: {why}")))?;
            let schema = schemas::of(resource);
            patch::strategic(current, &document, &schema).map_err(refused)
        }
        // Apply has its own path.
        PatchKind::Apply => Ok(current.clone()),
    }
}

/// 422 in the words of a patch that does not fit; the details stay in the server's log.
fn unprocessable() -> Status {
    Status {
        details: Some(Box::default()),
        ..Status::new(
            422,
            "Invalid",
            "the server rejected our request due to an error in our request",
        )
    }
}

/// Server-side apply: the manager states what it wants of the object.
fn apply(
    state: &mut State,
    context: &Context,
    options: &ObjectOptions,
) -> Result<Response<ResponseBody>, Status> {
    let resource = &context.resource;
    let mut config = body::parse(&context.body, body::Format::Yaml)
        .map_err(|why| Status::bad_request(format!("error decoding YAML: {why}")))?;
    check_applied(context, &config)?;
    let warnings = object::decode_applied(resource, &mut config, options.validation)?;
    object::check_names(context, &config)?;

    let current = state.get(resource, &context.namespace, &context.name).ok();
    if current.is_none() && context.subresource.is_some() {
        return Err(Status::not_found(resource.named(), &context.name));
    }
    if current.is_none() && !meta::uid(&config).is_empty() {
        return Err(Status::conflict(
            resource.named(),
            &context.name,
            &format!(
                "uid mismatch: the provided object specified uid {}, and no existing object was found",
                meta::uid(&config)
            ),
        ));
    }
    let served = current
        .as_ref()
        .map(|current| view::to_served(resource, current));
    let author = schemas::Author {
        manager: options.write.manager.as_deref().unwrap_or_default(),
        subresource: context.subresource.as_deref().unwrap_or_default(),
        now: &state.clock.rfc3339(),
    };
    let force = context.query.flag("force");
    let mut merged = schemas::apply(resource, served.as_deref(), &config, &author, force)?;
    schemas::decode(resource, &mut merged, &[]).map_err(|why| Status::new(500, "", why))?;
    let merged = view::to_stored(resource, merged);
    let write = crate::api::write::WriteOptions {
        manager: None,
        ..options.write.clone()
    };
    let (code, updated): (u16, Arc<Value>) = if current.is_none() {
        (
            201,
            state.create(resource, &context.namespace, merged, &write)?,
        )
    } else {
        let (namespace, name) = (&context.namespace, &context.name);
        (
            200,
            state.update(resource, namespace, name, merged, part(context), &write)?,
        )
    };
    let mut response = object::show(context, code, &updated);
    response::warn(&mut response, &warnings);
    Ok(response)
}

/// What an applied configuration must and must not say.
fn check_applied(context: &Context, config: &Value) -> Result<(), Status> {
    let resource = &context.resource;
    if !config.is_object() {
        return Err(Status::bad_request(
            "error decoding YAML: error converting YAML to JSON: the document is not an object",
        ));
    }
    let (api_version, kind) = (
        config["apiVersion"].as_str().unwrap_or_default(),
        config["kind"].as_str().unwrap_or_default(),
    );
    if api_version.is_empty() || kind.is_empty() {
        let version = if api_version.is_empty() {
            "/"
        } else {
            api_version
        };
        return Err(Status::bad_request(format!(
            "invalid object type: {version}, Kind={kind}"
        )));
    }
    if api_version != resource.api_version() || kind != resource.kind {
        return Err(Status::bad_request(format!(
            "patch contains incorrect apiVersion or kind: expected {}, Kind={}, got {api_version}, Kind={kind}",
            resource.api_version(),
            resource.kind
        )));
    }
    if config["metadata"]
        .get("managedFields")
        .is_some_and(|fields| !fields.is_null())
    {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    Ok(())
}
