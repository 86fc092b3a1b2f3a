//! Checking definitions, as `apiextensions` does.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::{field::Errors, meta, names, schemas};
use crate::schema::Posted;

/// Checks a new definition.
pub(crate) fn validate(definition: &Value, errors: &mut Errors) {
    let spec = &definition["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
    if meta::name(definition) != format!("{plural}.{group}") {
        errors.invalid(
            "metadata.name",
            &definition["metadata"]["name"],
            "must be spec.names.plural+\".\"+spec.group",
        );
    }
    if group.is_empty() {
        errors.required("spec.group", "");
    } else {
        errors.name_problems("spec.group", &group, names::dns1123_subdomain(&group));
        if !group.contains('.') {
            errors.invalid(
                "spec.group",
                &json!(group),
                "should be a domain with at least one dot",
            );
        }
    }
    match spec["scope"].as_str() {
        Some("Cluster" | "Namespaced") => {}
        None | Some("") => errors.required("spec.scope", ""),
        Some(_) => errors.unsupported("spec.scope", &spec["scope"], &["Cluster", "Namespaced"]),
    }
    if spec["preserveUnknownFields"] == true {
        errors.invalid(
            "spec.preserveUnknownFields",
            &json!(true),
            "must be false in order to use defaults in the schema",
        );
    }
    check_versions(spec, errors);
    check_names(&spec["names"], errors);
    if definition["status"]["storedVersions"]
        .as_array()
        .is_none_or(Vec::is_empty)
    {
        errors.shown_invalid(
            "status.storedVersions",
            "null",
            "must have at least one stored version",
        );
    }
}

fn check_versions(spec: &Value, errors: &mut Errors) {
    let versions = spec["versions"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let mut seen = BTreeSet::new();
    let storages = versions
        .iter()
        .filter(|version| version["storage"] == true)
        .count();
    if storages != 1 {
        errors.shown_invalid(
            "spec.versions",
            &shown_versions(versions),
            "must have exactly one version marked as storage version",
        );
    }
    // The real server folds a schema that all versions share into one place before it looks.
    let shared = versions
        .iter()
        .all(|version| version["schema"] == versions[0]["schema"]);
    for (index, version) in versions.iter().enumerate() {
        let path = format!("spec.versions[{index}]");
        let name = version["name"].as_str().unwrap_or_default();
        errors.name_problems(&format!("{path}.name"), name, names::dns1035_label(name));
        if !seen.insert(name) {
            errors.invalid(
                "spec.versions",
                &json!(name),
                "must contain unique version names",
            );
        }
        if shared && index > 0 {
            continue;
        }
        let schema_path = if shared {
            "spec.validation.openAPIV3Schema".to_owned()
        } else {
            format!("{path}.schema.openAPIV3Schema")
        };
        check_schema(version, &schema_path, &path, errors);
    }
}

/// Versions as Go prints its own type of them; what all versions share stands elsewhere.
fn shown_versions(versions: &[Value]) -> String {
    if versions.is_empty() {
        return "null".to_owned();
    }
    let shared = |field: &str| {
        versions
            .iter()
            .all(|version| version[field] == versions[0][field])
    };
    let hoisted = |version: &Value, field: &str| {
        if shared(field) {
            Value::Null
        } else {
            version[field].clone()
        }
    };
    let shown: Vec<String> = versions
        .iter()
        .map(|version| {
            format!(
                "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},\"Schema\":{},\"Subresources\":{},\"AdditionalPrinterColumns\":{},\"SelectableFields\":{}}}",
                version["name"],
                version["served"].as_bool().unwrap_or_default(),
                version["storage"].as_bool().unwrap_or_default(),
                version["deprecated"].as_bool().unwrap_or_default(),
                version["deprecationWarning"],
                hoisted(version, "schema"),
                hoisted(version, "subresources"),
                hoisted(version, "additionalPrinterColumns"),
                hoisted(version, "selectableFields"),
            )
        })
        .collect();
    format!("[{}]", shown.join(","))
}

fn check_schema(version: &Value, schema_path: &str, path: &str, errors: &mut Errors) {
    let schema = &version["schema"]["openAPIV3Schema"];
    if !schema.is_object() {
        errors.required(&format!("{path}.schema.openAPIV3Schema"), "");
        return;
    }
    if let Err(found) = Posted::judge(schema, schema_path) {
        errors.extend(found.iter().map(schemas::cause));
    }
}

fn check_names(given: &Value, errors: &mut Errors) {
    for (field, lower) in [
        ("plural", false),
        ("singular", false),
        ("kind", true),
        ("listKind", true),
    ] {
        let path = format!("spec.names.{field}");
        let name = given[field].as_str().unwrap_or_default();
        if name.is_empty() {
            errors.required(&path, "");
            continue;
        }
        // Kinds are checked in lower case: CamelCase is their custom.
        let checked = if lower {
            name.to_lowercase()
        } else {
            name.to_owned()
        };
        for problem in names::dns1035_label(&checked) {
            let detail = if lower {
                format!("may have mixed case, but should otherwise match: {problem}")
            } else {
                problem
            };
            errors.invalid(&path, &json!(name), &detail);
        }
    }
    for (field, what) in [("shortNames", "shortNames"), ("categories", "categories")] {
        for (index, name) in given[field].as_array().into_iter().flatten().enumerate() {
            let name = name.as_str().unwrap_or_default();
            let path = format!("spec.names.{what}[{index}]");
            errors.name_problems(&path, name, names::dns1035_label(name));
        }
    }
    if !given["kind"].is_null() && given["kind"] == given["listKind"] {
        errors.invalid(
            "spec.names.listKind",
            &given["listKind"],
            "kind and listKind may not be the same",
        );
    }
}

/// Checks a changed definition; once established, some things stay as they are.
pub(crate) fn validate_update(new: &Value, old: &Value, errors: &mut Errors) {
    validate(new, errors);
    let established = old["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True");
    if established {
        for (path, pointer) in [
            ("spec.scope", "/spec/scope"),
            ("spec.names.kind", "/spec/names/kind"),
        ] {
            immutable(errors, path, new.pointer(pointer), old.pointer(pointer));
        }
    }
    for (path, pointer) in [
        ("spec.group", "/spec/group"),
        ("spec.names.plural", "/spec/names/plural"),
    ] {
        immutable(errors, path, new.pointer(pointer), old.pointer(pointer));
    }
    let versions = new["spec"]["versions"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    for (index, stored) in new["status"]["storedVersions"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        if !versions.iter().any(|version| version["name"] == *stored) {
            errors.invalid(
                &format!("status.storedVersions[{index}]"),
                stored,
                "missing from spec.versions; v1 was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v1 and removes v1 from status.storedVersions"
                    .replace("v1 ", &format!("{} ", stored.as_str().unwrap_or_default()))
                    .as_str(),
            );
        }
    }
}

fn immutable(errors: &mut Errors, path: &str, new: Option<&Value>, old: Option<&Value>) {
    if new != old {
        errors.invalid(path, new.unwrap_or(&Value::Null), "field is immutable");
    }
}
