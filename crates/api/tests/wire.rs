//! Our CRDs are the originals: same structure, descriptions aside, but for differences that are listed with a reason.
//!
//! `tests/wire/*.json` hold the structure of each original CRD; `tests/wire/differences.json` says what is different in
//! ours, and why.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests are tests too"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use joiner_api::crd::structure;
use serde::Deserialize;
use serde_json::Value;

/// Some fields that differ, for one reason.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Difference {
    reason: String,
    /// New values by JSON pointer.
    #[serde(default)]
    set: BTreeMap<String, Value>,
    /// What is gone, by JSON pointer.
    #[serde(default)]
    remove: Vec<String>,
}

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/wire")
}

fn read<T: serde::de::DeserializeOwned>(name: &str) -> T {
    let text = fs::read_to_string(directory().join(name)).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn differences() -> BTreeMap<String, Vec<Difference>> {
    read("differences.json")
}

fn originals() -> BTreeMap<String, Value> {
    let mut originals = BTreeMap::new();
    for entry in fs::read_dir(directory()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name != "differences.json" {
            let stem = name.strip_suffix(".json").unwrap().to_owned();
            originals.insert(stem, read(&name));
        }
    }
    originals
}

fn ours() -> BTreeMap<String, Value> {
    joiner_api::crds(None)
        .iter()
        .map(|crd| {
            let structure = structure(&serde_json::to_value(crd).unwrap());
            (structure["name"].as_str().unwrap().to_owned(), structure)
        })
        .collect()
}

/// Splits a JSON pointer into the place of the parent and the last key.
fn split(pointer: &str) -> (&str, String) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    (parent, key.replace("~1", "/").replace("~0", "~"))
}

fn apply(original: &mut Value, difference: &Difference, file: &str) {
    assert!(difference.reason.len() > 20, "{file}: give a reason");
    for (pointer, value) in &difference.set {
        assert_ne!(
            original.pointer(pointer),
            Some(value),
            "{file}: {pointer} is listed as different and is not"
        );
        let (parent, key) = split(pointer);
        let parent = original
            .pointer_mut(parent)
            .and_then(Value::as_object_mut)
            .unwrap_or_else(|| panic!("{file}: there is no {parent}"));
        parent.insert(key, value.clone());
    }
    for pointer in &difference.remove {
        let (parent, key) = split(pointer);
        let removed = original
            .pointer_mut(parent)
            .and_then(Value::as_object_mut)
            .and_then(|parent| parent.remove(&key));
        assert!(
            removed.is_some(),
            "{file}: {pointer} is listed as gone and was never there"
        );
    }
}

/// Paths at which two values differ.
fn compare(path: &str, expected: &Value, found: &Value, out: &mut Vec<String>) {
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => {
            let keys: std::collections::BTreeSet<_> = expected.keys().chain(found.keys()).collect();
            for key in keys {
                let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
                match (expected.get(key), found.get(key)) {
                    (Some(expected), Some(found)) => compare(&path, expected, found, out),
                    (expected, found) => out.push(format!("{path}: {expected:?} became {found:?}")),
                }
            }
        }
        (Value::Array(expected), Value::Array(found)) if expected.len() == found.len() => {
            for (index, (expected, found)) in expected.iter().zip(found).enumerate() {
                compare(&format!("{path}/{index}"), expected, found, out);
            }
        }
        _ if expected != found => out.push(format!("{path}: {expected} became {found}")),
        _ => {}
    }
}

#[test]
fn crds_have_the_structure_of_the_originals_but_for_listed_differences() {
    let mut differences = differences();
    let ours = ours();
    let mut problems = Vec::new();
    let originals = originals();
    assert_eq!(originals.len(), 13);
    for (file, mut original) in originals {
        for difference in differences.remove(&file).unwrap_or_default() {
            apply(&mut original, &difference, &file);
        }
        let name = original["name"].as_str().unwrap();
        let found = ours
            .get(name)
            .unwrap_or_else(|| panic!("{name} is missing"));
        let mut changes = Vec::new();
        compare("", &original, found, &mut changes);
        problems.extend(changes.into_iter().map(|change| format!("{file}{change}")));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(
        differences.is_empty(),
        "differences of CRDs that are not there"
    );
}

#[test]
fn karpenter_kinds_differ_in_columns_the_price_and_negative_limits_alone() {
    const MAY_DIFFER: [&str; 3] = [
        "/spec/versions/0/additionalPrinterColumns",
        "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/pricePerHour",
        "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/limits/additionalProperties/",
    ];
    let differences = differences();
    let own = |name: &&String| name.starts_with("karpenter.sh") || name.starts_with("autoscaling");
    for name in differences.keys().filter(own) {
        for one in &differences[name] {
            assert!(one.remove.is_empty(), "{name}: {}", one.reason);
            for path in one.set.keys() {
                assert!(
                    MAY_DIFFER.iter().any(|may| path.starts_with(may)),
                    "{name}{path}"
                );
            }
        }
    }
}
