//! Checks of `metadata` that hold for every kind, and the naming rule of each.

use serde_json::{Map, Value, json};

use super::super::{field::Errors, meta, names, registry::Resource};

/// All annotations together.
const MOST_ANNOTATION_BYTES: usize = 256 * 1024;

fn name_problems(resource: &Resource, name: &str) -> Vec<String> {
    match resource.table.as_str() {
        "namespaces" => names::dns1123_label(name),
        "services" => names::dns1035_label(name),
        table if table.ends_with("rbac.authorization.k8s.io") => names::path_segment(name),
        _ => names::dns1123_subdomain(name),
    }
}

/// Checks the metadata of a new object.
pub(super) fn validate(resource: &Resource, object: &Value, errors: &mut Errors) {
    let prefix = meta::text(object, "generateName");
    if !prefix.is_empty() {
        // A prefix may end in what a name may not end in.
        let checked = prefix
            .strip_suffix('-')
            .map_or_else(|| prefix.to_owned(), |head| format!("{head}a"));
        for problem in name_problems(resource, &checked) {
            errors.invalid("metadata.generateName", &json!(prefix), &problem);
        }
    }
    let name = meta::name(object);
    if name.is_empty() {
        errors.required("metadata.name", "name or generateName is required");
    } else {
        errors.name_problems("metadata.name", name, name_problems(resource, name));
    }
    if resource.namespaced {
        let namespace = meta::namespace(object);
        errors.name_problems(
            "metadata.namespace",
            namespace,
            names::dns1123_label(namespace),
        );
    }
    common(object, errors);
    finalizers(resource, object, errors);
}

/// Checks the metadata of a changed object.
///
/// The real server looks at it once for all kinds and once more in the strategy of the kind (and
/// some of those check the whole object again), so the same cause may appear several times.
pub(super) fn validate_update(resource: &Resource, new: &Value, old: &Value, errors: &mut Errors) {
    let whole_again = matches!(
        resource.table.as_str(),
        "configmaps" | "secrets" | "pods" | "services"
    );
    for whole in [true, whole_again] {
        if whole {
            common(new, errors);
            finalizers(resource, new, errors);
        }
        changes(new, old, errors);
        common(new, errors);
    }
}

/// What may not change.
fn changes(new: &Value, old: &Value, errors: &mut Errors) {
    if meta::is_deleting(old) {
        let added: Vec<&str> = meta::finalizers(new)
            .filter(|one| meta::finalizers(old).all(|had| had != *one))
            .collect();
        if !added.is_empty() {
            errors.forbidden(
                "metadata.finalizers",
                &format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers {}",
                    go_strings(&added)
                ),
            );
        }
    }
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        let (after, before) = (&new["metadata"][field], &old["metadata"][field]);
        if after != before {
            errors.invalid(&format!("metadata.{field}"), after, "field is immutable");
        }
    }
}

/// A list as Go's `%#v` prints it.
fn go_strings(items: &[&str]) -> String {
    let quoted: Vec<String> = items.iter().map(|item| format!("{item:?}")).collect();
    format!("[]string{{{}}}", quoted.join(", "))
}

fn common(object: &Value, errors: &mut Errors) {
    let metadata = &object["metadata"];
    labels(&metadata["labels"], "metadata.labels", errors);
    annotations(&metadata["annotations"], "metadata.annotations", errors);
    owners(&metadata["ownerReferences"], errors);
}

/// Checks a map of labels.
pub(super) fn labels(labels: &Value, path: &str, errors: &mut Errors) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        errors.name_problems(path, key, names::qualified_name(key));
        let value = value.as_str().unwrap_or_default();
        errors.name_problems(path, value, names::label_value(value));
    }
}

/// Checks a map of annotations.
pub(super) fn annotations(annotations: &Value, path: &str, errors: &mut Errors) {
    let empty = Map::new();
    let map = annotations.as_object().unwrap_or(&empty);
    for key in map.keys() {
        for problem in names::qualified_name(&key.to_lowercase()) {
            errors.invalid(path, &json!(key), &problem);
        }
    }
    let size: usize = map
        .iter()
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum();
    if size > MOST_ANNOTATION_BYTES {
        errors.too_long(path, MOST_ANNOTATION_BYTES);
    }
}

fn owners(references: &Value, errors: &mut Errors) {
    let path = "metadata.ownerReferences";
    let mut controller: Option<String> = None;
    for reference in references.as_array().into_iter().flatten() {
        let text = |field: &str| reference[field].as_str().unwrap_or_default();
        let version = text("apiVersion").rsplit('/').next().unwrap_or_default();
        if version.is_empty() {
            errors.invalid(
                &format!("{path}.apiVersion"),
                &json!(text("apiVersion")),
                "version must not be empty",
            );
        }
        for field in ["kind", "name", "uid"] {
            if text(field).is_empty() {
                errors.invalid(&format!("{path}.{field}"), &json!(""), "must not be empty");
            }
        }
        if text("apiVersion") == "v1" && text("kind") == "Event" {
            errors.invalid(
                path,
                reference,
                "/v1, Kind=Event is disallowed from being an owner",
            );
        }
        if reference["controller"] == true {
            let this = format!("{}/{}", text("kind"), text("name"));
            match &controller {
                Some(first) => errors.shown_invalid(
                    path,
                    &shown_owners(references),
                    &format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                    ),
                ),
                None => controller = Some(this),
            }
        }
    }
}

/// Owner references with their fields in Go's order.
fn shown_owners(references: &Value) -> String {
    const ORDER: [&str; 6] = [
        "apiVersion",
        "kind",
        "name",
        "uid",
        "controller",
        "blockOwnerDeletion",
    ];
    let shown: Vec<String> = references
        .as_array()
        .into_iter()
        .flatten()
        .map(|reference| {
            let fields: Vec<String> = ORDER
                .iter()
                .filter_map(|field| {
                    reference
                        .get(field)
                        .map(|value| format!("\"{field}\":{value}"))
                })
                .collect();
            format!("{{{}}}", fields.join(","))
        })
        .collect();
    format!("[{}]", shown.join(","))
}

fn finalizers(resource: &Resource, object: &Value, errors: &mut Errors) {
    let path = "metadata.finalizers";
    for (index, finalizer) in meta::finalizers(object).enumerate() {
        errors.name_problems(path, finalizer, names::qualified_name(finalizer));
        let known = matches!(finalizer, "orphan" | "foregroundDeletion" | "kubernetes");
        // Only the built-in kinds look at this.
        let checked = resource.custom.is_none() && resource.group != "apiextensions.k8s.io";
        if checked && !finalizer.contains('/') && !known {
            errors.invalid(
                &format!("{path}[{index}]"),
                &json!(finalizer),
                "name is neither a standard finalizer name nor is it fully qualified",
            );
        }
    }
    let has = |name: &str| meta::finalizers(object).any(|one| one == name);
    if has("orphan") && has("foregroundDeletion") {
        errors.invalid(
            path,
            &object["metadata"]["finalizers"],
            "finalizer orphan and foregroundDeletion cannot be both set",
        );
    }
}
