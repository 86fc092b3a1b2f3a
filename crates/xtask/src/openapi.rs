//! Collects the `OpenAPI` v3 and discovery documents of Kubernetes that the embedded API server serves.
//!
//! Input is a Go module cache that holds `k8s.io/kubernetes@v1.34.4` and, of the same release,
//! `k8s.io/{api,apimachinery,apiextensions-apiserver}@v0.34.4` (`go mod download` fetches them).
//! Output is byte for byte the same for the same input:
//!
//! - `definitions.json.gz`: every schema once, by name;
//! - `paths.json.gz`: per group and version its paths and the names of the schemas in its document;
//! - `discovery.json.gz`: per group and version its `APIResourceList`;
//! - `go.json.gz`: what the Go types say beyond their schemas (see [`crate::gotypes`]).

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use flate2::{Compression, GzBuilder};
use serde_json::{Map, Value, json};

use crate::gotypes;

/// What the embedded server serves.
const GROUP_VERSIONS: [&str; 20] = [
    "api/v1",
    "apis/admissionregistration.k8s.io/v1",
    "apis/apiextensions.k8s.io/v1",
    "apis/apiregistration.k8s.io/v1",
    "apis/apps/v1",
    "apis/authentication.k8s.io/v1",
    "apis/authorization.k8s.io/v1",
    "apis/autoscaling/v1",
    "apis/autoscaling/v2",
    "apis/batch/v1",
    "apis/certificates.k8s.io/v1",
    "apis/coordination.k8s.io/v1",
    "apis/discovery.k8s.io/v1",
    "apis/events.k8s.io/v1",
    "apis/networking.k8s.io/v1",
    "apis/node.k8s.io/v1",
    "apis/policy/v1",
    "apis/rbac.authorization.k8s.io/v1",
    "apis/scheduling.k8s.io/v1",
    "apis/storage.k8s.io/v1",
];

/// Reads the modules of a release, e.g. `34.4`, and the documents of a live server of that release, and writes the
/// assets. The module has documents too, but without the enums that a server adds to them.
pub(crate) fn collect(
    modules: &Path,
    release: &str,
    live: &Path,
    into: &Path,
) -> anyhow::Result<()> {
    let from = modules.join(format!("k8s.io/kubernetes@v1.{release}/api"));
    let mut definitions: BTreeMap<String, Value> = BTreeMap::new();
    let mut documents = Map::new();
    let mut discovery = Map::new();
    for name in GROUP_VERSIONS {
        let file = name.replace('/', "__");
        let document = read(&live.join(format!("{file}_openapi.json")))?;
        let schemas = document["components"]["schemas"]
            .as_object()
            .with_context(|| format!("{name} has no schemas"))?;
        for (definition, schema) in schemas {
            let known = definitions
                .entry(definition.clone())
                .or_insert_with(|| schema.clone());
            if known != schema {
                bail!("{definition} differs between documents");
            }
        }
        let paths = document["paths"].as_object().cloned().unwrap_or_default();
        documents.insert(
            name.to_owned(),
            json!({
                "paths": trimmed(paths),
                "schemas": schemas.keys().collect::<Vec<_>>(),
            }),
        );
        let resources = read(&from.join(format!("discovery/{file}.json")))?;
        discovery.insert(name.to_owned(), resources);
    }
    fs::create_dir_all(into)?;
    write(&into.join("definitions.json.gz"), &json!(definitions))?;
    write(&into.join("paths.json.gz"), &Value::Object(documents))?;
    write(&into.join("discovery.json.gz"), &Value::Object(discovery))?;
    let facts = gotypes::read(modules, release, &definitions)?;
    write(&into.join("go.json.gz"), &facts)
}

/// Without the deprecated watch paths, descriptions of parameters, and encodings that are not served.
fn trimmed(mut paths: Map<String, Value>) -> Map<String, Value> {
    paths.retain(|path, _| !path.contains("/watch/"));
    for path in paths.values_mut() {
        trim(path);
    }
    paths
}

fn trim(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if fields.contains_key("in") {
                fields.remove("description");
            }
            if let Some(Value::Object(content)) = fields.get_mut("content") {
                content.retain(|kind, _| !kind.contains("cbor") && !kind.contains("protobuf"));
            }
            fields.values_mut().for_each(trim);
        }
        Value::Array(items) => items.iter_mut().for_each(trim),
        _ => {}
    }
}

fn read(path: &Path) -> anyhow::Result<Value> {
    let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} is not JSON", path.display()))
}

fn write(path: &Path, value: &Value) -> anyhow::Result<()> {
    // No file name and no time in the header, so that the bytes depend on the content alone.
    let mut encoder = GzBuilder::new().write(Vec::new(), Compression::best());
    encoder.write_all(value.to_string().as_bytes())?;
    fs::write(path, encoder.finish()?).with_context(|| format!("cannot write {}", path.display()))
}
