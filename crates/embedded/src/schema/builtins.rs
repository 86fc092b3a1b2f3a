//! Schemas of the built-in kinds, and the `OpenAPI` and discovery documents that clients ask for.
//!
//! The assets are the documents that kube-apiserver v1.34 publishes, trimmed and gzipped (`cargo xtask openapi`).
//! Definitions are stored once although every group's document repeats those it needs.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::{Arc, OnceLock};

use flate2::read::GzDecoder;
use serde_json::{Map, Value, json};

use super::document::Document;
use super::node::{GoFacts, Schema};

static DEFINITIONS: &[u8] = include_bytes!("../../assets/openapi/definitions.json.gz");
static PATHS: &[u8] = include_bytes!("../../assets/openapi/paths.json.gz");
static GO: &[u8] = include_bytes!("../../assets/openapi/go.json.gz");
static DISCOVERY: &[u8] = include_bytes!("../../assets/openapi/discovery.json.gz");

/// An asset that is compiled into the binary cannot be read; only a broken build can cause it.
#[derive(Debug, thiserror::Error)]
pub enum AssetError {
    /// The compression is broken.
    #[error("cannot unpack a schema asset")]
    Unpack(#[from] std::io::Error),
    /// The content is not JSON.
    #[error("cannot parse a schema asset")]
    Parse(#[from] serde_json::Error),
}

/// Everything known of the built-in kinds.
#[derive(Debug)]
pub struct Builtins {
    kinds: BTreeMap<String, Schema>,
    discovery: Map<String, Value>,
    /// Assembled when first asked for: only `kubectl` and its like want them.
    documents: BTreeMap<String, OnceLock<Arc<str>>>,
}

impl Builtins {
    /// The built-in schemas; parsed once per process and shared.
    pub fn load() -> Result<&'static Self, &'static AssetError> {
        static LOADED: OnceLock<Result<Builtins, AssetError>> = OnceLock::new();
        LOADED.get_or_init(Self::read).as_ref()
    }

    fn read() -> Result<Self, AssetError> {
        let definitions = unpack(DEFINITIONS)?;
        let discovery = unpack(DISCOVERY)?;
        let (document, names) = Document::read_definitions(&definitions, facts()?);
        let document = Arc::new(document);
        let mut kinds = BTreeMap::new();
        for (name, definition) in &definitions {
            let Some(root) = names.get(name) else {
                continue;
            };
            let stated = definition.get("x-kubernetes-group-version-kind");
            for kind in stated.and_then(Value::as_array).into_iter().flatten() {
                let part = |key: &str| kind.get(key).and_then(Value::as_str).unwrap_or_default();
                let key = key(part("group"), part("version"), part("kind"));
                kinds.insert(key, Schema::new(Arc::clone(&document), *root));
            }
        }
        let documents = discovery
            .keys()
            .map(|name| (name.clone(), OnceLock::new()))
            .collect();
        Ok(Self {
            kinds,
            discovery,
            documents,
        })
    }

    /// The schema of a kind, e.g. `("apps", "v1", "Deployment")`; the core group is "".
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<&Schema> {
        self.kinds.get(&key(group, version, kind))
    }

    /// The group-versions served, as paths: `api/v1`, `apis/apps/v1`, …
    pub fn group_versions(&self) -> impl Iterator<Item = &str> {
        self.discovery.keys().map(String::as_str)
    }

    /// The `APIResourceList` of a group-version path.
    pub fn resources(&self, group_version: &str) -> Option<&Value> {
        self.discovery.get(group_version)
    }

    /// The `OpenAPI` v3 document of a group-version path, as JSON.
    pub fn openapi_v3(&self, group_version: &str) -> Option<Arc<str>> {
        let slot = self.documents.get(group_version)?;
        if let Some(text) = slot.get() {
            return Some(Arc::clone(text));
        }
        let text: Arc<str> = assemble(group_version).ok()??.into();
        Some(Arc::clone(slot.get_or_init(|| text)))
    }
}

fn key(group: &str, version: &str, kind: &str) -> String {
    format!("{group}/{version}/{kind}")
}

fn unpack(bytes: &[u8]) -> Result<Map<String, Value>, AssetError> {
    let mut text = Vec::with_capacity(bytes.len() * 12);
    GzDecoder::new(bytes).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

fn facts() -> Result<BTreeMap<String, GoFacts>, AssetError> {
    let mut asset = unpack(GO)?;
    let mut facts: BTreeMap<String, GoFacts> = BTreeMap::new();
    let zero = asset.remove("zero").unwrap_or_default();
    let zero: BTreeMap<String, Vec<String>> = serde_json::from_value(zero)?;
    for (definition, fields) in zero {
        facts.entry(definition).or_default().zero = fields;
    }
    let names = asset.remove("names").unwrap_or_default();
    let names: BTreeMap<String, BTreeMap<String, String>> = serde_json::from_value(names)?;
    for (definition, fields) in names {
        facts.entry(definition).or_default().names = fields;
    }
    Ok(facts)
}

fn assemble(group_version: &str) -> Result<Option<String>, AssetError> {
    let mut definitions = unpack(DEFINITIONS)?;
    let mut documents = unpack(PATHS)?;
    let Some(Value::Object(mut document)) = documents.remove(group_version) else {
        return Ok(None);
    };
    let names = document.remove("schemas").unwrap_or_default();
    let schemas: Map<String, Value> = names
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .filter_map(|name| definitions.remove_entry(name))
        .collect();
    let document = json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": document.remove("paths").unwrap_or_default(),
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "BearerToken": {
                    "description": "Bearer Token authentication",
                    "in": "header",
                    "name": "authorization",
                    "type": "apiKey",
                },
            },
        },
    });
    Ok(Some(document.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Kind, ListType};

    #[test]
    fn the_schemas_of_built_in_kinds_are_connected() {
        let builtins = Builtins::load().unwrap();
        let deployment = builtins.kind("apps", "v1", "Deployment").unwrap().root();
        let containers = ["spec", "template", "spec", "containers"]
            .iter()
            .fold(deployment, |schema, name| schema.property(name).unwrap());
        assert_eq!(containers.kind(), Some(Kind::Array));
        assert_eq!(containers.merge_key(), Some("name"));
        assert_eq!(containers.list_type(), Some(ListType::Map));
        assert_eq!(containers.list_map_keys(), ["name"]);
        let ports = containers.items().unwrap().property("ports").unwrap();
        assert_eq!(ports.list_map_keys(), ["containerPort", "protocol"]);
        let protocol = ports.items().unwrap().property("protocol").unwrap();
        assert_eq!(protocol.default_value(), Some(&json!("TCP")));
    }

    #[test]
    fn every_served_resource_has_a_schema() {
        let builtins = Builtins::load().unwrap();
        for path in builtins.group_versions() {
            let list = builtins.resources(path).unwrap();
            let group_version = list["groupVersion"].as_str().unwrap();
            for resource in list["resources"].as_array().unwrap() {
                let (default_group, default_version) = match group_version.split_once('/') {
                    Some((group, version)) => (group, version),
                    None => ("", group_version),
                };
                let group = resource["group"].as_str().unwrap_or(default_group);
                let version = resource["version"].as_str().unwrap_or(default_version);
                let kind = resource["kind"].as_str().unwrap();
                // Options of streaming subresources have no schema in the real documents either.
                if !kind.ends_with("Options") {
                    let found = builtins.kind(group, version, kind);
                    assert!(found.is_some(), "{group}/{version} {kind}");
                }
            }
        }
    }

    #[test]
    fn openapi_documents_are_whole() {
        let builtins = Builtins::load().unwrap();
        let text = builtins.openapi_v3("apis/apps/v1").unwrap();
        let document: Value = serde_json::from_str(&text).unwrap();
        assert!(document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments"].is_object());
        let schemas = document["components"]["schemas"].as_object().unwrap();
        for name in text.split("#/components/schemas/").skip(1) {
            let name = name.split('"').next().unwrap();
            assert!(schemas.contains_key(name), "{name}");
        }
        assert!(builtins.openapi_v3("apis/nobody/v1").is_none());
    }

    #[test]
    fn recursive_definitions_can_be_walked() {
        let builtins = Builtins::load().unwrap();
        let crd = builtins
            .kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
            .unwrap();
        let versions = crd.root().property("spec").unwrap().property("versions");
        let mut schema = versions
            .and_then(crate::schema::SchemaRef::items)
            .and_then(|version| version.property("schema"))
            .and_then(|schema| schema.property("openAPIV3Schema"))
            .unwrap();
        for _ in 0..100 {
            schema = schema.property("properties").unwrap().additional().unwrap();
        }
        assert!(schema.property("maxItems").is_some());
    }
}
