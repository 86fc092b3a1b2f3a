//! What the Go types of Kubernetes say that their `OpenAPI` schemas do not.
//!
//! - `zero`: scalar fields that vanish when they are zero (`omitempty`, and not a pointer);
//! - `names`: scalar fields of a named type, which errors of the decoder mention (`v1.RestartPolicy`).
//!
//! The sources are regular enough to be read line by line; a field that is not understood is left out.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde_json::{Value, json};

/// Folders below a module's root, by the name that their definitions begin with.
const PACKAGES: [(&str, &str, &str); 24] = [
    (
        "api",
        "admissionregistration/v1",
        "io.k8s.api.admissionregistration.v1",
    ),
    ("api", "apps/v1", "io.k8s.api.apps.v1"),
    ("api", "authentication/v1", "io.k8s.api.authentication.v1"),
    ("api", "authorization/v1", "io.k8s.api.authorization.v1"),
    ("api", "autoscaling/v1", "io.k8s.api.autoscaling.v1"),
    ("api", "autoscaling/v2", "io.k8s.api.autoscaling.v2"),
    ("api", "batch/v1", "io.k8s.api.batch.v1"),
    ("api", "certificates/v1", "io.k8s.api.certificates.v1"),
    ("api", "coordination/v1", "io.k8s.api.coordination.v1"),
    ("api", "core/v1", "io.k8s.api.core.v1"),
    ("api", "discovery/v1", "io.k8s.api.discovery.v1"),
    ("api", "events/v1", "io.k8s.api.events.v1"),
    ("api", "networking/v1", "io.k8s.api.networking.v1"),
    ("api", "node/v1", "io.k8s.api.node.v1"),
    ("api", "policy/v1", "io.k8s.api.policy.v1"),
    ("api", "rbac/v1", "io.k8s.api.rbac.v1"),
    ("api", "scheduling/v1", "io.k8s.api.scheduling.v1"),
    ("api", "storage/v1", "io.k8s.api.storage.v1"),
    (
        "apimachinery",
        "pkg/apis/meta/v1",
        "io.k8s.apimachinery.pkg.apis.meta.v1",
    ),
    (
        "apimachinery",
        "pkg/version",
        "io.k8s.apimachinery.pkg.version",
    ),
    (
        "apimachinery",
        "pkg/runtime",
        "io.k8s.apimachinery.pkg.runtime",
    ),
    (
        "apimachinery",
        "pkg/util/intstr",
        "io.k8s.apimachinery.pkg.util.intstr",
    ),
    (
        "apimachinery",
        "pkg/api/resource",
        "io.k8s.apimachinery.pkg.api.resource",
    ),
    (
        "apiextensions-apiserver",
        "pkg/apis/apiextensions/v1",
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
    ),
];

#[derive(Clone)]
struct Field {
    json: String,
    go: String,
    omits: bool,
}

#[derive(Default)]
struct Structure {
    fields: Vec<Field>,
    embedded: Vec<String>,
}

/// Reads the sources and keeps what concerns the given definitions.
pub(crate) fn read(
    modules: &Path,
    release: &str,
    definitions: &BTreeMap<String, Value>,
) -> anyhow::Result<Value> {
    let mut zero: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut names: BTreeMap<&str, BTreeMap<String, String>> = BTreeMap::new();
    for (module, folder, prefix) in PACKAGES {
        let folder = modules.join(format!("k8s.io/{module}@v0.{release}/{folder}"));
        let package = folder.file_name().unwrap_or_default().to_string_lossy();
        let structures = structures(&folder)?;
        for (name, schema) in definitions {
            let Some(short) = name
                .strip_prefix(prefix)
                .and_then(|rest| rest.strip_prefix('.'))
            else {
                continue;
            };
            for field in fields(&structures, short) {
                let kind = schema["properties"][&field.json]["type"].as_str();
                if !matches!(kind, Some("string" | "integer" | "number" | "boolean")) {
                    continue;
                }
                if field.omits && !field.go.starts_with('*') && !field.go.starts_with("[]") {
                    zero.entry(name).or_default().push(field.json.clone());
                }
                if let Some(go) = named(&field.go, &package) {
                    names.entry(name).or_default().insert(field.json, go);
                }
            }
        }
    }
    for fields in zero.values_mut() {
        fields.sort();
    }
    Ok(json!({"zero": zero, "names": names}))
}

/// A structure's fields with those of the structures that it embeds.
fn fields(structures: &BTreeMap<String, Structure>, name: &str) -> Vec<Field> {
    let Some(structure) = structures.get(name) else {
        return Vec::new();
    };
    let embedded = structure.embedded.iter();
    let mut all: Vec<Field> = embedded.flat_map(|name| fields(structures, name)).collect();
    all.extend(structure.fields.iter().cloned());
    all
}

/// The name of a type as Go's reflection gives it, unless it is a basic one.
fn named(go: &str, package: &str) -> Option<String> {
    let bare = go.trim_start_matches('*');
    let first = bare.chars().next()?;
    if bare.contains('.') {
        Some(bare.to_owned())
    } else if first.is_ascii_uppercase() {
        Some(format!("{package}.{bare}"))
    } else {
        None
    }
}

fn structures(folder: &Path) -> anyhow::Result<BTreeMap<String, Structure>> {
    let mut found = BTreeMap::new();
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let source = path.extension().is_some_and(|extension| extension == "go");
        if !source
            || name.ends_with("_test.go")
            || name.starts_with("zz_")
            || name.starts_with("generated")
        {
            continue;
        }
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        scan(&text, &mut found);
    }
    Ok(found)
}

fn scan(text: &str, found: &mut BTreeMap<String, Structure>) {
    let mut open: Option<(String, Structure)> = None;
    for line in text.lines() {
        if let Some(name) = line
            .strip_prefix("type ")
            .and_then(|rest| rest.strip_suffix(" struct {"))
        {
            open = Some((name.to_owned(), Structure::default()));
        } else if line == "}" {
            found.extend(open.take());
        } else if let Some((_, structure)) = &mut open
            && let Some((declared, tags)) = line.split_once('`')
            && let Some((_, json)) = tags.split_once("json:\"")
            && let Some((json, _)) = json.split_once('"')
        {
            let words: Vec<&str> = declared.split_whitespace().collect();
            match (words.as_slice(), json) {
                ([embedded], ",inline") => structure.embedded.push((*embedded).to_owned()),
                ([_, go], json) => {
                    let mut parts = json.split(',');
                    structure.fields.push(Field {
                        json: parts.next().unwrap_or_default().to_owned(),
                        go: (*go).to_owned(),
                        omits: parts.any(|part| part == "omitempty"),
                    });
                }
                _ => {}
            }
        }
    }
}
