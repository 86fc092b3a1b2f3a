//! Discovery: which groups, versions and resources there are, in the old form and aggregated.

use std::collections::BTreeSet;

use http::{HeaderMap, Method, Response, header};
use serde_json::{Value, json};

use super::{
    request::Route,
    response::{self, Encoding, ResponseBody},
    reviews,
};
use crate::{
    api::{Status, registry::Resource, state::State},
    schema::Builtins,
};

/// The version that the server claims to be: that of the control plane it is compared with.
pub(crate) const GIT_VERSION: &str = "v1.34.4";

/// Verbs of custom resources, in the order of the real server.
const CUSTOM_VERBS: [&str; 8] = [
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];
const SUBRESOURCE_VERBS: [&str; 3] = ["get", "patch", "update"];

/// Built-in groups in the order of the real server, which clients use to resolve short names.
const GROUP_ORDER: [&str; 17] = [
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
];

/// Answers `/api`, `/apis` and below.
pub(crate) fn respond(
    state: &State,
    route: &Route,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Response<ResponseBody>, Status> {
    if !super::reads(method) {
        return Err(super::not_allowed());
    }
    let aggregated = wants_aggregated(headers);
    match route {
        Route::CoreVersions if aggregated => Ok(aggregated_response(state, Part::Core)),
        Route::CoreVersions => Ok(plain(&json!({
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:443"}],
        }))),
        Route::Groups if aggregated => Ok(aggregated_response(state, Part::Groups)),
        Route::Groups => {
            let groups: Vec<Value> = groups(state)
                .iter()
                .map(|group| group_value(state, group))
                .collect();
            Ok(plain(
                &json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}),
            ))
        }
        Route::Group(group) if versions(state, group).is_empty() || group.is_empty() => {
            Err(super::not_served())
        }
        Route::Group(group) => {
            let mut value = group_value(state, group);
            value["kind"] = json!("APIGroup");
            value["apiVersion"] = json!("v1");
            Ok(plain(&value))
        }
        Route::Resources { group, version } => resources(state, group, version),
        Route::Objects(_) | Route::Other(_) => Err(super::not_served()),
    }
}

fn plain(value: &Value) -> Response<ResponseBody> {
    response::object(200, Encoding::Json, value)
}

fn wants_aggregated(headers: &HeaderMap) -> bool {
    headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok())
        .and_then(|accept| accept.split(',').next())
        .is_some_and(|first| {
            let first = first.replace(' ', "");
            first.contains("as=APIGroupDiscoveryList")
                && first.contains("v=v2")
                && !first.contains("v2beta1")
        })
}

/// Every group but core, built-in ones first.
fn groups(state: &State) -> Vec<String> {
    let mut all: BTreeSet<&str> = state
        .registry
        .all()
        .map(|resource| resource.group.as_str())
        .filter(|group| !group.is_empty())
        .collect();
    all.extend(["authentication.k8s.io", "authorization.k8s.io"]);
    let rank = |group: &str| {
        GROUP_ORDER
            .iter()
            .position(|one| *one == group)
            .unwrap_or_else(|| GROUP_ORDER.len() + usize::from(!group.ends_with("k8s.io")))
    };
    let mut sorted: Vec<&str> = all.into_iter().collect();
    sorted.sort_by_key(|group| (rank(group), *group));
    sorted.into_iter().map(str::to_owned).collect()
}

/// Versions of a group, the preferred one first.
fn versions(state: &State, group: &str) -> Vec<String> {
    let mut found: Vec<String> = state
        .registry
        .all()
        .filter(|resource| resource.group == group)
        .map(|resource| resource.version.clone())
        .collect();
    if reviews::of_group(group).next().is_some() {
        found.push("v1".to_owned());
    }
    found.sort_by(|a, b| crate::api::custom::version_order(a, b));
    found.dedup();
    found
}

fn group_value(state: &State, group: &str) -> Value {
    let versions: Vec<Value> = versions(state, group)
        .iter()
        .map(|version| json!({"groupVersion": format!("{group}/{version}"), "version": version}))
        .collect();
    json!({"name": group, "preferredVersion": versions.first(), "versions": versions})
}

fn in_group<'a>(
    state: &'a State,
    group: &'a str,
) -> impl Iterator<Item = &'a std::sync::Arc<Resource>> {
    state.registry.all().filter(move |one| one.group == group)
}

fn in_version<'a>(
    state: &'a State,
    group: &'a str,
    version: &'a str,
) -> impl Iterator<Item = &'a std::sync::Arc<Resource>> {
    state
        .registry
        .all()
        .filter(move |one| one.group == group && one.version == version)
}

fn subresources(resource: &Resource) -> Vec<String> {
    let mut names = resource.subresources.clone();
    if resource.has_status {
        names.push("status".to_owned());
    }
    names.sort();
    names
}

/// The rows that a real server shows for a built-in group and version, of what is served here.
fn builtin_rows(state: &State, group: &str, version: &str) -> Vec<Value> {
    let path = if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    };
    let list = Builtins::load()
        .ok()
        .and_then(|builtins| builtins.resources(&path));
    let rows = list
        .and_then(|list| list["resources"].as_array())
        .map(Vec::as_slice)
        .unwrap_or_default();
    let served = |row: &&Value| {
        let base = row["name"]
            .as_str()
            .unwrap_or_default()
            .split('/')
            .next()
            .unwrap_or_default();
        state.registry.served(group, version, base).is_some()
            || (group.is_empty() && base == "bindings")
            || reviews::of_group(group).any(|(plural, _)| plural == base)
    };
    rows.iter().filter(served).cloned().collect()
}

fn custom_rows(state: &State, group: &str, version: &str) -> Vec<Value> {
    let mut rows = Vec::new();
    for resource in in_version(state, group, version) {
        let mut row = json!({
            "name": resource.plural,
            "singularName": resource.singular,
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": CUSTOM_VERBS,
        });
        if !resource.short_names.is_empty() {
            row["shortNames"] = json!(resource.short_names);
        }
        if !resource.categories.is_empty() {
            row["categories"] = json!(resource.categories);
        }
        row["storageVersionHash"] = json!(storage_hash(resource));
        rows.push(row);
        for name in subresources(resource) {
            let mut row = json!({
                "name": format!("{}/{name}", resource.plural),
                "singularName": "",
                "namespaced": resource.namespaced,
                "kind": resource.kind,
                "verbs": SUBRESOURCE_VERBS,
            });
            if name == "scale" {
                row["group"] = json!("autoscaling");
                row["version"] = json!("v1");
                row["kind"] = json!("Scale");
            }
            rows.push(row);
        }
    }
    rows
}

fn rows(state: &State, group: &str, version: &str) -> Vec<Value> {
    let rows = builtin_rows(state, group, version);
    if rows.is_empty() {
        custom_rows(state, group, version)
    } else {
        rows
    }
}

fn resources(state: &State, group: &str, version: &str) -> Result<Response<ResponseBody>, Status> {
    let rows = rows(state, group, version);
    if rows.is_empty() {
        let known = in_group(state, group).any(|resource| resource.custom.is_none());
        return Err(if known {
            Status::no_such_resource()
        } else {
            super::not_served()
        });
    }
    let group_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    Ok(plain(&json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": rows,
    })))
}

fn storage_hash(resource: &Resource) -> String {
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(format!(
        "{}/{}/{}",
        resource.group, resource.version, resource.kind
    ));
    crate::api::base64::encode_padded(&digest[..8])
}

#[derive(Clone, Copy, PartialEq)]
enum Part {
    Core,
    Groups,
}

fn aggregated_response(state: &State, part: Part) -> Response<ResponseBody> {
    let names = if part == Part::Core {
        vec![String::new()]
    } else {
        groups(state)
    };
    let items: Vec<Value> = names
        .iter()
        .map(|group| aggregated_group(state, group))
        .collect();
    let list = json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    });
    let mut text = list.to_string();
    text.push('\n');
    let mut response = response::raw(
        200,
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        text,
    );
    let tag = format!("\"{}\"", state.registry.generation());
    if let Ok(tag) = http::HeaderValue::from_str(&tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

fn aggregated_group(state: &State, group: &str) -> Value {
    let versions: Vec<Value> = versions(state, group)
        .iter()
        .map(|version| {
            let custom =
                in_version(state, group, version).any(|resource| resource.custom.is_some());
            let own = if custom {
                (group, version.as_str())
            } else {
                ("", "")
            };
            let resources = aggregated_resources(&rows(state, group, version), own);
            json!({"version": version, "freshness": "Current", "resources": resources})
        })
        .collect();
    let metadata = if group.is_empty() {
        json!({"creationTimestamp": null})
    } else {
        json!({"name": group, "creationTimestamp": null})
    };
    json!({"metadata": metadata, "versions": versions})
}

/// Rows of the old form, nested. Kinds of a built-in group leave out the group and version they
/// share with it; those of definitions say them.
fn aggregated_resources(rows: &[Value], (group, version): (&str, &str)) -> Vec<Value> {
    let kind = |row: &Value| {
        json!({
            "group": row.get("group").cloned().unwrap_or_else(|| json!(group)),
            "version": row.get("version").cloned().unwrap_or_else(|| json!(version)),
            "kind": row["kind"],
        })
    };
    let name = |row: &Value| row["name"].as_str().unwrap_or_default().to_owned();
    let mut found = Vec::new();
    for row in rows.iter().filter(|row| !name(row).contains('/')) {
        let mut resource = json!({
            "resource": row["name"],
            "responseKind": kind(row),
            "scope": if row["namespaced"] == true { "Namespaced" } else { "Cluster" },
            "singularResource": row["singularName"],
            "verbs": row["verbs"],
        });
        for field in ["shortNames", "categories"] {
            if let Some(value) = row.get(field) {
                resource[field] = value.clone();
            }
        }
        let prefix = format!("{}/", name(row));
        let below: Vec<Value> = rows
            .iter()
            .filter_map(|row| {
                let name = name(row);
                let sub = name.strip_prefix(&prefix)?;
                Some(json!({"subresource": sub, "responseKind": kind(row), "verbs": row["verbs"]}))
            })
            .collect();
        if !below.is_empty() {
            resource["subresources"] = json!(below);
        }
        found.push(resource);
    }
    found
}

/// Answers `/version`.
pub(crate) fn version() -> Response<ResponseBody> {
    plain(&json!({
        "major": "1",
        "minor": "34",
        "gitVersion": GIT_VERSION,
        "gitCommit": "embedded",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "rustc",
        "platform": "linux/amd64",
    }))
}

/// Answers `/`: every path there is.
pub(crate) fn paths(state: &State) -> Response<ResponseBody> {
    let mut paths: Vec<String> = [
        "/api",
        "/api/v1",
        "/apis",
        "/healthz",
        "/livez",
        "/openapi/v2",
        "/openapi/v3",
        "/readyz",
        "/version",
    ]
    .map(str::to_owned)
    .to_vec();
    for group in groups(state) {
        paths.push(format!("/apis/{group}"));
        paths.extend(
            versions(state, &group)
                .iter()
                .map(|version| format!("/apis/{group}/{version}")),
        );
    }
    paths.sort();
    plain(&json!({"paths": paths}))
}
