//! `docs/reference/problem.schema.json` and its example say what problem files are.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests may give up, and stand beside what they help"
)]

use std::collections::BTreeSet;

use joiner_core::pack::{Options, solve};
use joiner_core::problem::{
    Catalog, Disruption, InstanceType, Node, Pod, PodDisruptionBudget, PodSpec, Pool, Problem,
    Settings,
};
use serde::Serialize;
use serde_json::Value;

const SCHEMA: &str = include_str!("../../../docs/reference/problem.schema.json");
const EXAMPLE: &str = include_str!("../../../docs/reference/problem.example.json");

fn fields(schema: &Value, name: &str) -> BTreeSet<String> {
    let place = match name {
        "" => schema,
        name => &schema["$defs"][name],
    };
    place["properties"]
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect()
}

/// The schema has every field that is written, and no other field is written.
fn has<T: Serialize>(schema: &Value, name: &str, value: &T) {
    let written = serde_json::to_value(value).unwrap();
    let written: BTreeSet<String> = written.as_object().unwrap().keys().cloned().collect();
    let known = fields(schema, name);
    assert!(written.is_subset(&known), "{name}: {written:?} {known:?}");
}

#[test]
fn the_schema_has_every_field() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    has(&schema, "", &Problem::default());
    has(&schema, "catalog", &Catalog::default());
    has(&schema, "instanceType", &InstanceType::default());
    has(&schema, "pool", &Pool::default());
    has(&schema, "disruption", &Disruption::default());
    has(&schema, "node", &Node::default());
    has(&schema, "pod", &Pod::default());
    has(&schema, "podSpec", &PodSpec::default());
    has(
        &schema,
        "podDisruptionBudget",
        &PodDisruptionBudget::default(),
    );
    has(&schema, "settings", &Settings::default());
}

#[test]
fn the_schema_has_no_field_that_is_refused() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    for name in fields(&schema, "") {
        let text = format!("{{{name:?}: null}}");
        let said = Problem::from_json(&text)
            .err()
            .map(|error| error.to_string());
        let said = said.unwrap_or_default();
        assert!(!said.contains("unknown field"), "{name}: {said}");
    }
    let known = serde_json::to_value(Settings {
        preference_cap: Some(1),
        spot_share: Some(1),
        max_new_nodes: Some(1),
        ..Settings::default()
    });
    let known = known
        .unwrap()
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect();
    assert_eq!(fields(&schema, "settings"), known);
}

#[test]
fn the_example_is_planned() {
    let problem = Problem::from_json(EXAMPLE).unwrap();
    let plan = solve(&problem, &Options::default());
    assert!(
        !plan.launches.is_empty() && plan.unplaced.is_empty(),
        "{plan:?}"
    );
}
