#![expect(
    clippy::needless_pass_by_value,
    reason = "helpers take json!() literals"
)]

use serde_json::json;

use super::*;

const PATH: &str = "spec.validation.openAPIV3Schema";

fn refusals(schema: Value) -> Vec<String> {
    match Schema::structural(&schema, "S") {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

fn with_spec(spec: Value) -> Value {
    json!({"type": "object", "properties": {"spec": spec}})
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table of cases")]
fn common_mistakes_are_refused_in_the_words_of_the_real_server() {
    let cases = [
        (
            json!({}),
            "S.type: Required value: must not be empty at the root",
        ),
        (
            json!({"type": "string"}),
            r#"S.type: Invalid value: "string": must be object at the root"#,
        ),
        (
            with_spec(json!({})),
            "S.properties[spec].type: Required value: must not be empty for specified object fields",
        ),
        (
            with_spec(json!({"type": "array"})),
            "S.properties[spec].items: Required value: must be specified",
        ),
        (
            with_spec(json!({"type": "array", "items": {}})),
            "S.properties[spec].items.type: Required value: must not be empty for specified array items",
        ),
        (
            with_spec(json!({"type": "string", "anyOf": [{"type": "string"}]})),
            "S.properties[spec].anyOf[0].type: Forbidden: must be empty to be structural",
        ),
        (
            json!({"type": "object", "anyOf": [{"properties": {"a": {"minimum": 1}}}]}),
            "S.properties[a]: Required value: because it is defined in S.anyOf[0].properties[a]",
        ),
        (
            with_spec(json!({"type": "string", "pattern": "("})),
            r#"S.properties[spec].pattern: Invalid value: "(": must be a valid regular expression, but isn't: error parsing regexp: missing closing ): `(`"#,
        ),
        (
            json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}),
            "S.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
        ),
        (
            with_spec(
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}}),
            ),
            "S.properties[spec].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
        ),
        (
            with_spec(json!({"type": "array", "uniqueItems": true, "items": {"type": "string"}})),
            "S.properties[spec].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ),
        (
            with_spec(json!({"type": "text"})),
            r#"S.properties[spec].type: Unsupported value: "text": supported values: "array", "boolean", "integer", "number", "object", "string""#,
        ),
        (
            with_spec(json!({"type": "object", "$ref": "#/a"})),
            "S.properties[spec].$ref: Forbidden: $ref is not supported",
        ),
        (
            with_spec(
                json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"}),
            ),
            "S.properties[spec].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
        ),
        (
            with_spec(
                json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"],
                "items": {"type": "object", "properties": {"a": {"type": "string"}}}}),
            ),
            "S.properties[spec].items.properties[a].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
        ),
        (
            with_spec(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": false})),
            "S.properties[spec].x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined",
        ),
        (
            json!({"type": "object", "properties": {"kind": {"type": "string", "default": "x"}}}),
            "S.properties[kind].default: Forbidden: must not be set in top-level kind",
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            "S.additionalProperties: Forbidden: must not be used at the root",
        ),
    ];
    for (schema, message) in cases {
        assert_eq!(refusals(schema), [message]);
    }
}

#[test]
fn completeness_is_asked_of_the_root_only() {
    let nested =
        with_spec(json!({"type": "object", "anyOf": [{"properties": {"a": {"minimum": 1}}}]}));
    assert!(refusals(nested).is_empty());
}

#[test]
fn defaults_must_be_valid_and_pruned() {
    let schema = with_spec(json!({"type": "object", "properties": {
        "replicas": {"type": "integer", "default": "two"},
        "mode": {"type": "string", "enum": ["a", "b"], "default": "c"},
        "nested": {"type": "object", "properties": {"x": {"type": "string"}}, "default": {"y": 1}},
    }}));
    assert_eq!(
        refusals(schema),
        [
            r#"S.properties[spec].properties[mode].default: Unsupported value: "c": supported values: "a", "b""#,
            r#"S.properties[spec].properties[nested].default: Invalid value: {"y":1}: must not have unknown fields"#,
            r#"S.properties[spec].properties[replicas].default: Invalid value: "string":  in body must be of type integer: "string""#,
        ]
    );
}

#[test]
fn int_or_string_may_name_its_types() {
    let schema = with_spec(json!({
        "x-kubernetes-int-or-string": true,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": "^[0-9]+$",
    }));
    assert!(Schema::structural(&schema, PATH).is_ok());
}
