//! `OpenAPI` documents: version 3 per group and version, and a small version 2.

use std::collections::BTreeMap;

use http::{Response, request::Parts};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{
    discovery::GIT_VERSION,
    response::{self, Encoding, ResponseBody},
};
use crate::{
    api::{Status, registry::Resource, state::State},
    schema::Builtins,
};

/// Answers `/openapi/...`.
pub(crate) fn respond(
    state: &State,
    rest: &[&str],
    parts: &Parts,
) -> Result<Response<ResponseBody>, Status> {
    if !super::reads(&parts.method) {
        return Err(super::not_allowed());
    }
    match rest {
        ["v2"] => Ok(response::object(200, Encoding::Json, &version_2())),
        ["v3"] => Ok(response::raw(
            200,
            "text/plain; charset=utf-8",
            index(state).to_string(),
        )),
        ["v3", path @ ..] => {
            let Some(text) = document(state, &path.join("/")) else {
                let mut response = response::raw(404, "text/plain; charset=utf-8", "");
                response.headers_mut().remove(http::header::CONTENT_TYPE);
                return Ok(response);
            };
            Ok(response::raw(200, "application/json", text))
        }
        _ => Err(super::not_served()),
    }
}

/// Group-version paths: `api/v1`, `apis/apps/v1`.
fn paths(state: &State) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for resource in state.registry.all() {
        let path = path_of(resource);
        // The hash must change with the content, so that clients fetch again.
        let mut hasher = Sha256::new();
        hasher.update(path.as_bytes());
        if resource.custom.is_some() {
            hasher.update(state.registry.generation().to_be_bytes());
        }
        let hash = crate::api::base64::hex(&hasher.finalize()).to_uppercase();
        found.insert(path, hash);
    }
    found
}

fn path_of(resource: &Resource) -> String {
    if resource.group.is_empty() {
        format!("api/{}", resource.version)
    } else {
        format!("apis/{}/{}", resource.group, resource.version)
    }
}

fn index(state: &State) -> Value {
    let mut entries = serde_json::Map::new();
    for (path, hash) in paths(state) {
        let url = format!("/openapi/v3/{path}?hash={hash}");
        entries.insert(path, json!({"serverRelativeURL": url}));
    }
    json!({"paths": entries})
}

fn document(state: &State, path: &str) -> Option<String> {
    let custom: Vec<_> = state
        .registry
        .all()
        .filter(|resource| resource.custom.is_some() && path_of(resource) == path)
        .collect();
    if custom.is_empty() {
        return Builtins::load()
            .ok()?
            .openapi_v3(path)
            .map(|text| text.to_string());
    }
    let (mut schemas, mut routes) = (serde_json::Map::new(), serde_json::Map::new());
    for resource in custom {
        schemas.insert(schema_name(resource), schema_of(resource));
        add_routes(resource, &mut routes);
    }
    let document = json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": GIT_VERSION},
        "paths": routes,
        "components": {"schemas": schemas},
    });
    Some(document.to_string())
}

/// `io.example.v1.Widget` for `example.io/v1` Widget.
fn schema_name(resource: &Resource) -> String {
    let mut parts: Vec<&str> = resource.group.split('.').collect();
    parts.reverse();
    format!("{}.{}.{}", parts.join("."), resource.version, resource.kind)
}

fn group_version_kind(resource: &Resource) -> Value {
    json!({"group": resource.group, "version": resource.version, "kind": resource.kind})
}

fn schema_of(resource: &Resource) -> Value {
    let mut schema = resource
        .custom
        .as_ref()
        .map(|custom| custom.openapi.clone())
        .unwrap_or_default();
    if !schema.is_object() {
        schema = json!({"type": "object"});
    }
    publish(&mut schema);
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    let text = |description: &str| json!({"type": "string", "description": description});
    schema["properties"]["apiVersion"] =
        text("APIVersion defines the versioned schema of this representation of an object.");
    schema["properties"]["kind"] =
        text("Kind is a string value representing the REST resource this object represents.");
    schema["properties"]["metadata"] =
        json!({"type": "object", "description": "Standard object's metadata."});
    schema["x-kubernetes-group-version-kind"] = json!([group_version_kind(resource)]);
    schema
}

/// Says in plain `OpenAPI` what the extensions mean.
fn publish(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.get("x-kubernetes-int-or-string") == Some(&json!(true)) {
                fields.remove("type");
                fields
                    .entry("anyOf")
                    .or_insert_with(|| json!([{"type": "integer"}, {"type": "string"}]));
            }
            fields.values_mut().for_each(publish);
        }
        Value::Array(items) => items.iter_mut().for_each(publish),
        _ => {}
    }
}

fn parameter(name: &str, kind: &str) -> Value {
    json!({"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": true}})
}

/// What clients look for in paths: the kind behind them, and that patches know field validation.
fn add_routes(resource: &Resource, routes: &mut serde_json::Map<String, Value>) {
    let base = format!("/apis/{}/{}", resource.group, resource.version);
    let collection = if resource.namespaced {
        format!("{base}/namespaces/{{namespace}}/{}", resource.plural)
    } else {
        format!("{base}/{}", resource.plural)
    };
    let kind = group_version_kind(resource);
    let reference = format!("#/components/schemas/{}", schema_name(resource));
    let operation = |action: &str, parameters: &[Value]| {
        json!({
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": kind,
            "parameters": parameters,
            "responses": {"200": {"description": "OK", "content": {
                "application/json": {"schema": {"$ref": reference}},
            }}},
        })
    };
    let write = [
        parameter("dryRun", "string"),
        parameter("fieldManager", "string"),
        parameter("fieldValidation", "string"),
    ];
    let mut patch = write.to_vec();
    patch.push(parameter("force", "boolean"));
    routes.insert(
        collection.clone(),
        json!({"get": operation("list", &[]), "post": operation("post", &write)}),
    );
    if resource.namespaced {
        routes.insert(
            format!("{base}/{}", resource.plural),
            json!({"get": operation("list", &[])}),
        );
    }
    let mut object = json!({
        "get": operation("get", &[]),
        "put": operation("put", &write),
        "delete": operation("delete", &[parameter("dryRun", "string")]),
    });
    object["patch"] = operation("patch", &patch);
    routes.insert(format!("{collection}/{{name}}"), object);
}

/// Old clients only look whether there is one.
fn version_2() -> Value {
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": GIT_VERSION},
        "paths": {},
        "definitions": {},
    })
}
