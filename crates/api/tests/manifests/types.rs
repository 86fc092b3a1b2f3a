//! Manifests read as our types.

use std::collections::BTreeSet;

use joiner_api::validate::{Validate, Violation};
use joiner_api::{joiner, karpenter, karpetrack, leftover, nodesmith, ovhcloud};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::cases::{accepted, refused};

/// What came of reading a manifest.
struct Read {
    written: Value,
    violations: Vec<Violation>,
}

fn read_as<K: Serialize + DeserializeOwned + Validate>(
    manifest: &Value,
) -> Result<Read, serde_json::Error> {
    let object: K = serde_json::from_value(manifest.clone())?;
    Ok(Read {
        written: serde_json::to_value(&object)?,
        violations: object.validate(),
    })
}

/// Reads a manifest as the type of its kind; `None` for kinds that are not ours.
fn read(manifest: &Value) -> Option<Result<Read, serde_json::Error>> {
    Some(match manifest["kind"].as_str()? {
        "NodePool" => read_as::<karpenter::NodePool>(manifest),
        "NodeClaim" => read_as::<karpenter::NodeClaim>(manifest),
        "NodeOverlay" => read_as::<karpenter::NodeOverlay>(manifest),
        "CapacityBuffer" => read_as::<karpenter::CapacityBuffer>(manifest),
        "SpotNodePool" => read_as::<karpetrack::SpotNodePool>(manifest),
        "SpotNode" => read_as::<karpetrack::SpotNode>(manifest),
        "NodeSmithControlPlane" => read_as::<nodesmith::NodeSmithControlPlane>(manifest),
        "NodeSmithPool" => read_as::<nodesmith::NodeSmithPool>(manifest),
        "NodeSmithProvider" => read_as::<nodesmith::NodeSmithProvider>(manifest),
        "NodeSmithClaim" => read_as::<nodesmith::NodeSmithClaim>(manifest),
        "OVHNodeClass" => read_as::<ovhcloud::OVHNodeClass>(manifest),
        "LeftoverNodePool" => read_as::<leftover::LeftoverNodePool>(manifest),
        "SimNodeClass" => read_as::<joiner::SimNodeClass>(manifest),
        "RackspaceNodeClass" => read_as::<joiner::RackspaceNodeClass>(manifest),
        "ProxmoxNodeClass" => read_as::<joiner::ProxmoxNodeClass>(manifest),
        "RedfishNodeClass" => read_as::<joiner::RedfishNodeClass>(manifest),
        "Deployment" | "Kustomization" => return None,
        other => panic!("{other} is not known"),
    })
}

/// Whether everything in `original` is in `written`, as it was.
fn assert_kept(path: &str, original: &Value, written: &Value) {
    match (original, written) {
        (Value::Object(original), Value::Object(written)) => {
            for (key, value) in original {
                let path = format!("{path}.{key}");
                let Some(found) = written.get(key) else {
                    panic!("{path} is lost");
                };
                assert_kept(&path, value, found);
            }
        }
        (Value::Array(original), Value::Array(written)) => {
            assert_eq!(original.len(), written.len(), "{path}");
            for (index, (original, written)) in original.iter().zip(written).enumerate() {
                assert_kept(&format!("{path}[{index}]"), original, written);
            }
        }
        _ => assert_eq!(original, written, "{path}"),
    }
}

#[test]
fn accepted_manifests_are_read_and_written_back_as_they_were() {
    let mut kinds = BTreeSet::new();
    for (file, manifest) in accepted() {
        let Some(read) = read(&manifest) else {
            continue;
        };
        let read = read.unwrap_or_else(|error| panic!("{file}: {error}"));
        kinds.insert(manifest["kind"].as_str().unwrap().to_owned());
        assert_kept(&format!("{file}: "), &manifest, &read.written);
        // Nothing lost, and in the spec, which belongs to its author, nothing gained.
        assert_eq!(manifest["spec"], read.written["spec"], "{file}");
    }
    assert_eq!(kinds.len(), 16, "a kind has no manifest: {kinds:?}");
}

#[test]
#[should_panic(expected = ".spec.surprise is lost")]
fn a_field_that_the_types_do_not_know_would_be_noticed() {
    let mut manifest = accepted()[0].1.clone();
    manifest["spec"]["surprise"] = Value::Null;
    assert_kept("", &manifest, &read(&manifest).unwrap().unwrap().written);
}

#[test]
fn accepted_manifests_have_nothing_to_complain_about() {
    for (file, manifest) in accepted() {
        let Some(Ok(read)) = read(&manifest) else {
            continue;
        };
        let complaints: Vec<_> = read.violations.iter().map(ToString::to_string).collect();
        if manifest["spec"]["serviceName"] == "your-project-id" {
            // A placeholder in the document: accepted, and reported on the object until it is replaced.
            assert_eq!(complaints.len(), 1, "{complaints:?}");
            assert!(
                complaints[0].starts_with("spec.serviceName: \"your-project-id\""),
                "{complaints:?}"
            );
        } else {
            assert!(complaints.is_empty(), "{file}: {complaints:?}");
        }
    }
}

#[test]
fn refused_manifests_are_refused_by_the_types_with_the_field_named() {
    let mut problems = Vec::new();
    for case in refused().iter().filter(|case| case.offline) {
        let read = match read(&case.manifest).unwrap() {
            Ok(read) => read,
            Err(error) => {
                problems.push(format!("{}: cannot even be read: {error}", case.what));
                continue;
            }
        };
        // Rules of a whole object name the object; the types know the very field.
        let named = read
            .violations
            .iter()
            .any(|violation| violation.field.starts_with(&case.field));
        if !named {
            problems.push(format!(
                "{}: {} expected, found {:?}",
                case.what, case.field, read.violations
            ));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn values_that_do_not_fit_their_type_do_not_pass_as_something_else() {
    for case in refused()
        .iter()
        .filter(|case| !case.offline && case.before.is_none())
    {
        if case.says == "supported values" {
            assert!(read(&case.manifest).unwrap().is_err(), "{}", case.what);
        }
    }
}
