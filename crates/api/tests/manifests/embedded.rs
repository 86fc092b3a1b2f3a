//! Manifests checked as the embedded API server checks them, with the schemas and rules of our CRDs.

use std::collections::BTreeMap;

use joiner_embedded::schema::{self, Schema, cel::Rules};
use serde_json::Value;

use super::cases::{accepted, refused};

/// Schemas by kind, as an API server reads them from the CRDs.
fn schemas() -> BTreeMap<String, Schema> {
    joiner_api::crds(None)
        .iter()
        .map(|crd| {
            let kind = crd.spec.names.kind.clone();
            let value = serde_json::to_value(crd).unwrap();
            let schema = &value["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            let schema = Schema::structural(schema, "schema")
                .unwrap_or_else(|errors| panic!("{kind}: {errors:?}"));
            (kind, schema)
        })
        .collect()
}

/// What an API server does with an object before it stores it; the reasons to refuse it, if any.
fn admit(manifest: &Value, before: Option<&Value>, schema: &Schema) -> Vec<String> {
    let prepare = |manifest: &Value| {
        let mut object = manifest.clone();
        // Whoever creates an object does not write its status.
        object.as_object_mut().unwrap().remove("status");
        schema::default(&mut object, schema);
        object
    };
    let mut object = prepare(manifest);
    let before = before.map(prepare);
    let unknown = schema::prune(&mut object, schema);
    let mut problems: Vec<String> = unknown
        .iter()
        .map(|field| format!("{field}: unknown field"))
        .collect();
    let mut errors = schema::validate(&object, schema);
    errors.extend(schema::validate_lists(&object, schema));
    if errors.is_empty() {
        errors = Rules::compile(schema).check(&object, before.as_ref());
    }
    problems.extend(errors.iter().map(ToString::to_string));
    problems
}

#[test]
fn the_schemas_and_rules_accept_every_accepted_manifest() {
    let schemas = schemas();
    for (file, manifest) in accepted() {
        let Some(schema) = schemas.get(manifest["kind"].as_str().unwrap()) else {
            continue;
        };
        let problems = admit(&manifest, None, schema);
        assert!(problems.is_empty(), "{file}: {problems:?}");
    }
}

#[test]
fn the_schemas_and_rules_refuse_every_refused_manifest_with_the_field_named() {
    let schemas = schemas();
    let mut wrong = Vec::new();
    for case in refused() {
        let schema = &schemas[case.manifest["kind"].as_str().unwrap()];
        let problems = admit(&case.manifest, case.before.as_ref(), schema);
        let named = problems.iter().any(|problem| {
            problem.contains(&case.field)
                && problem.to_lowercase().contains(&case.says.to_lowercase())
        });
        if !named {
            wrong.push(format!(
                "{}: {} / {} expected, found {problems:?}",
                case.what, case.field, case.says
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_field_that_no_schema_knows_is_refused_by_name() {
    let schemas = schemas();
    let (_, mut manifest) = accepted().swap_remove(0);
    manifest["spec"]["surprise"] = 1.into();
    let schema = &schemas[manifest["kind"].as_str().unwrap()];
    assert_eq!(
        admit(&manifest, None, schema),
        ["spec.surprise: unknown field"]
    );
}
