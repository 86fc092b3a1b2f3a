//! The manifests.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All documents of all YAML files in a directory and below.
fn documents(path: &Path) -> Vec<(String, Value)> {
    if path.is_dir() {
        let mut entries: Vec<_> = fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        entries.sort();
        return entries.iter().flat_map(|path| documents(path)).collect();
    }
    let text = fs::read_to_string(path).unwrap();
    let values: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    values
        .into_iter()
        // A catalogue for `joiner plan` is a list and no object.
        .filter(Value::is_object)
        .map(|value| (name.clone(), value))
        .collect()
}

/// What must be accepted, with the name of its file.
pub(crate) fn accepted() -> Vec<(String, Value)> {
    let mut accepted = documents(&repository().join("config/samples"));
    accepted.extend(documents(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/manifests/accepted.yaml"),
    ));
    accepted
}

/// A manifest that must be refused.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Refused {
    pub(crate) what: String,
    pub(crate) field: String,
    pub(crate) says: String,
    #[serde(default = "yes")]
    pub(crate) offline: bool,
    pub(crate) before: Option<Value>,
    pub(crate) manifest: Value,
}

fn yes() -> bool {
    true
}

/// What must be refused.
pub(crate) fn refused() -> Vec<Refused> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/manifests/refused.yaml");
    serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}
