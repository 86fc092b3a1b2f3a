//! Subresources other than status.

use http::Response;
use serde_json::{Value, json};

use super::{
    Context, Verb, object,
    options::{ObjectOptions, read_delete_options},
    patch::{self, PatchKind},
    response::{self, ResponseBody},
};
use crate::api::{
    Status, body,
    field::Errors,
    meta, scale,
    state::State,
    status::Named,
    write::{Part, WriteOptions},
};

type Answer = Result<Response<ResponseBody>, Status>;

/// Answers a request for a subresource that the resource has.
pub(crate) fn respond(state: &mut State, context: &Context, subresource: &str) -> Answer {
    match (subresource, context.verb) {
        ("scale", Verb::Get) => get_scale(state, context),
        ("scale", Verb::Update) => update_scale(state, context),
        ("scale", Verb::Patch) => patch_scale(state, context),
        ("eviction", Verb::Create) => evict(state, context),
        ("binding", Verb::Create) => bind(state, context),
        ("log", Verb::Get) => log(state, context),
        ("token", Verb::Create) => token(state, context),
        ("finalize", Verb::Update) => finalize(state, context),
        ("ephemeralcontainers" | "resize", Verb::Get) => object::get(state, context),
        ("ephemeralcontainers" | "resize", Verb::Update) => replace_part(state, context),
        ("ephemeralcontainers" | "resize", Verb::Patch) => patch_part(state, context),
        _ => Err(super::not_allowed()),
    }
}

fn get_scale(state: &State, context: &Context) -> Answer {
    let object = state.get(&context.resource, &context.namespace, &context.name)?;
    let scale = scale::read(&context.resource, &object)?;
    Ok(response::object(200, context.accepted.encoding, &scale))
}

fn update_scale(state: &mut State, context: &Context) -> Answer {
    let options = ObjectOptions::from_context(context, "UpdateOptions")?;
    let wanted = parse_as(context, "Scale")?;
    object::check_names(context, &wanted)?;
    put_scale(state, context, &wanted, &options)
}

fn patch_scale(state: &mut State, context: &Context) -> Answer {
    let kind = PatchKind::from_context(context)?;
    let options = patch::read_options(context, kind)?;
    let object = state.get(&context.resource, &context.namespace, &context.name)?;
    let current = scale::read(&context.resource, &object)?;
    let wanted = match kind {
        // The scale has few fields and no lists: applying it is merging it.
        PatchKind::Apply | PatchKind::Strategic | PatchKind::Merge => {
            let document = body::parse(&context.body, body::Format::Yaml)
                .map_err(|why| Status::bad_request(format!("error decoding patch: {why}")))?;
            crate::patch::merge(&current, &document)
                .map_err(|error| Status::bad_request(error.to_string()))?
        }
        PatchKind::Json => patch::patch_value(&context.resource, &current, &context.body, kind)?,
    };
    put_scale(state, context, &wanted, &options)
}

fn put_scale(
    state: &mut State,
    context: &Context,
    wanted: &Value,
    options: &ObjectOptions,
) -> Answer {
    let mut errors = Errors::default();
    let replicas = &wanted["spec"]["replicas"];
    if replicas.as_i64().is_some_and(|replicas| replicas < 0) {
        errors.invalid(
            "spec.replicas",
            replicas,
            "must be greater than or equal to 0",
        );
    }
    if !errors.is_empty() {
        return Err(Status::invalid(
            Named {
                group: "autoscaling",
                what: "Scale",
            },
            &context.name,
            errors.into_causes(),
        ));
    }
    let resource = &context.resource;
    let object = state.get(resource, &context.namespace, &context.name)?;
    let changed = scale::write(resource, &object, wanted)?;
    let write = WriteOptions {
        subresource: "scale",
        ..options.write.clone()
    };
    let updated = state.update(
        resource,
        &context.namespace,
        &context.name,
        changed,
        Part::Main,
        &write,
    )?;
    Ok(response::object(
        200,
        context.accepted.encoding,
        &scale::read(resource, &updated)?,
    ))
}

/// Parses a body that must be of a kind that is not the resource's own.
fn parse_as(context: &Context, kind: &str) -> Result<Value, Status> {
    let format = body::Format::from_content_type(&context.content_type)?;
    let value = body::parse(&context.body, format)
        .map_err(|why| body::unrecognized(kind, &why, &context.body))?;
    if !value.is_object() {
        return Err(body::unrecognized(
            kind,
            "expected an object",
            &context.body,
        ));
    }
    match value["kind"].as_str() {
        None | Some("") => Ok(value),
        Some(found) if found == kind => Ok(value),
        Some(found) => Err(Status::bad_request(format!(
            "{found} in version {:?} cannot be handled as a {kind}: no kind {found:?} is registered",
            value["apiVersion"].as_str().unwrap_or_default()
        ))),
    }
}

/// The status that says that all went well.
fn success(context: &Context, code: u16) -> Response<ResponseBody> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code,
    });
    response::object(code, context.accepted.encoding, &status)
}

fn evict(state: &mut State, context: &Context) -> Answer {
    let eviction = parse_as(context, "Eviction")?;
    if meta::name(&eviction) != context.name {
        return Err(Status::bad_request(
            "name in URL does not match name in Eviction object",
        ));
    }
    let options = read_delete_options(&eviction["deleteOptions"], &context.query)?;
    state.evict(&context.namespace, &context.name, &options)?;
    Ok(success(context, 201))
}

fn bind(state: &mut State, context: &Context) -> Answer {
    let options = ObjectOptions::from_context(context, "CreateOptions")?;
    let binding = parse_as(context, "Binding")?;
    let name = meta::name(&binding);
    if !name.is_empty() && name != context.name {
        return Err(Status::bad_request(
            "name in URL does not match name in Binding object",
        ));
    }
    let target = &binding["target"];
    // These errors lose their type on the way out of the real server.
    if !matches!(target["kind"].as_str(), None | Some("" | "Node")) {
        let why = format!(
            "target.kind: Unsupported value: {}: supported values: \"Node\", \"<empty>\"",
            target["kind"]
        );
        return Err(Status::new(500, "", why));
    }
    if target["name"].as_str().unwrap_or_default().is_empty() {
        return Err(Status::new(500, "", "target.name: Required value"));
    }
    state.bind(&context.namespace, &context.name, &binding, &options.write)?;
    Ok(success(context, 201))
}

/// Answers a binding that was posted to its own collection.
pub(crate) fn bind_by_collection(state: &mut State, context: &mut Context) -> Answer {
    let binding = parse_as(context, "Binding")?;
    meta::name(&binding).clone_into(&mut context.name);
    bind(state, context)
}

/// Simulated containers have little to say.
fn log(state: &State, context: &Context) -> Answer {
    let pod = state.get(&context.resource, &context.namespace, &context.name)?;
    let containers: Vec<&str> = pod["spec"]["containers"]
        .as_array()
        .into_iter()
        .chain(pod["spec"]["initContainers"].as_array())
        .flatten()
        .filter_map(|container| container["name"].as_str())
        .collect();
    let asked = context.query.get("container");
    let container = match (asked, containers.as_slice()) {
        ("", [one, ..]) => one,
        (asked, _) if containers.contains(&asked) => asked,
        (asked, _) => {
            return Err(Status::bad_request(format!(
                "container {asked} is not valid for pod {}",
                context.name
            )));
        }
    };
    let started = pod["status"]["startTime"].as_str().unwrap_or_default();
    let text = if started.is_empty() {
        String::new()
    } else {
        format!(
            "container {container} of pod {} started at {started}\n",
            context.name
        )
    };
    Ok(response::raw(200, "text/plain", text))
}

fn token(state: &mut State, context: &Context) -> Answer {
    let account = state.get(&context.resource, &context.namespace, &context.name)?;
    let mut request = parse_as(context, "TokenRequest")?;
    let seconds = request["spec"]["expirationSeconds"]
        .as_i64()
        .unwrap_or(3600);
    let expires = state
        .clock
        .now()
        .checked_add(jiff::SignedDuration::from_secs(seconds))
        .unwrap_or(jiff::Timestamp::MAX);
    let subject = format!(
        "system:serviceaccount:{}:{}",
        context.namespace, context.name
    );
    let claims = json!({"sub": subject, "exp": expires.as_second(), "jti": state.next_uid()});
    // Shaped like a real token; nothing in the embedded cluster verifies signatures.
    let encode = |value: &Value| crate::api::base64::encode(value.to_string().as_bytes());
    let token = format!(
        "{}.{}.embedded",
        encode(&json!({"alg": "none"})),
        encode(&claims)
    );
    meta::put(&mut request, "kind", Some(json!("TokenRequest")));
    meta::put(
        &mut request,
        "apiVersion",
        Some(json!("authentication.k8s.io/v1")),
    );
    meta::set(&mut request, "name", context.name.as_str());
    meta::set(&mut request, "namespace", context.namespace.as_str());
    meta::set(
        &mut request,
        "creationTimestamp",
        account["metadata"]["creationTimestamp"].clone(),
    );
    meta::put(
        &mut request,
        "status",
        Some(json!({"token": token, "expirationTimestamp": crate::clock::rfc3339(expires)})),
    );
    Ok(response::object(201, context.accepted.encoding, &request))
}

/// Namespaces lose their `spec.finalizers` only here.
fn finalize(state: &mut State, context: &Context) -> Answer {
    let options = ObjectOptions::from_context(context, "UpdateOptions")?;
    let (namespace, warnings) = object::read_object(context, options.validation)?;
    object::check_names(context, &namespace)?;
    let updated = state.update(
        &context.resource,
        "",
        &context.name,
        namespace,
        Part::Finalize,
        &options.write,
    )?;
    let mut response = object::show(context, 200, &updated);
    response::warn(&mut response, &warnings);
    Ok(response)
}

fn pod_part(context: &Context) -> Part {
    if context.subresource.as_deref() == Some("resize") {
        Part::Resize
    } else {
        Part::Ephemeral
    }
}

fn replace_part(state: &mut State, context: &Context) -> Answer {
    let options = ObjectOptions::from_context(context, "UpdateOptions")?;
    let (pod, _) = object::read_object(context, options.validation)?;
    object::check_names(context, &pod)?;
    let (namespace, name) = (&context.namespace, &context.name);
    let updated = state.update(
        &context.resource,
        namespace,
        name,
        pod,
        pod_part(context),
        &options.write,
    )?;
    Ok(object::show(context, 200, &updated))
}

fn patch_part(state: &mut State, context: &Context) -> Answer {
    let kind = PatchKind::from_context(context)?;
    let options = patch::read_options(context, kind)?;
    let (namespace, name) = (&context.namespace, &context.name);
    let current = state.get(&context.resource, namespace, name)?;
    let patched = patch::patch_value(&context.resource, &current, &context.body, kind)?;
    let updated = state.update(
        &context.resource,
        namespace,
        name,
        patched,
        pod_part(context),
        &options.write,
    )?;
    Ok(object::show(context, 200, &updated))
}
