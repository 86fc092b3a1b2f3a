#![expect(
    clippy::needless_pass_by_value,
    reason = "helpers take json!() literals"
)]

use serde_json::json;

use super::*;

fn schema(spec: serde_json::Value) -> Schema {
    Schema::read(&json!({"type": "object", "properties": {"spec": spec}}))
}

fn messages(spec_schema: serde_json::Value, spec: serde_json::Value) -> Vec<String> {
    validate(&json!({"spec": spec}), &schema(spec_schema))
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table of cases")]
fn values_are_refused_in_the_words_of_the_real_server() {
    let cases = [
        (
            json!({"type": "integer"}),
            json!("x"),
            r#"spec: Invalid value: "string": spec in body must be of type integer: "string""#,
        ),
        (
            json!({"type": "integer"}),
            json!(1.5),
            r#"spec: Invalid value: "number": spec in body must be of type integer: "number""#,
        ),
        (
            json!({"type": "string"}),
            json!(null),
            r#"spec: Invalid value: "null": spec in body must be of type string: "null""#,
        ),
        (
            json!({"type": "object"}),
            json!([]),
            r#"spec: Invalid value: "array": spec in body must be of type object: "array""#,
        ),
        (
            json!({"x-kubernetes-int-or-string": true}),
            json!(true),
            r#"spec: Invalid value: "boolean": spec in body must be of type integer,string: "boolean""#,
        ),
        (
            json!({"type": "object", "required": ["a"]}),
            json!({}),
            "spec.a: Required value",
        ),
        (
            json!({"type": "string", "enum": ["a", "b"]}),
            json!("c"),
            r#"spec: Unsupported value: "c": supported values: "a", "b""#,
        ),
        (
            json!({"type": "integer", "minimum": 1}),
            json!(0),
            "spec: Invalid value: 0: spec in body should be greater than or equal to 1",
        ),
        (
            json!({"type": "integer", "maximum": 10, "exclusiveMaximum": true}),
            json!(10),
            "spec: Invalid value: 10: spec in body should be less than 10",
        ),
        (
            json!({"type": "number", "maximum": 0.5}),
            json!(0.75),
            "spec: Invalid value: 0.75: spec in body should be less than or equal to 0.5",
        ),
        (
            json!({"type": "integer", "multipleOf": 5}),
            json!(7),
            "spec: Invalid value: 7: spec in body should be a multiple of 5",
        ),
        (
            json!({"type": "string", "maxLength": 2}),
            json!("abc"),
            "spec: Too long: may not be more than 2 bytes",
        ),
        (
            json!({"type": "string", "minLength": 2}),
            json!("é"),
            r#"spec: Invalid value: "é": spec in body should be at least 2 chars long"#,
        ),
        (
            json!({"type": "string", "pattern": "^a+$"}),
            json!("b"),
            r#"spec: Invalid value: "b": spec in body should match '^a+$'"#,
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "maxItems": 1}),
            json!(["a", "b"]),
            "spec: Too many: 2: must have at most 1 item",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "minItems": 1}),
            json!([]),
            "spec: Invalid value: 0: spec in body should have at least 1 items",
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 0}),
            json!({"a": "b"}),
            "spec: Too many: 1: must have at most 0 items",
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "integer"}}),
            json!({"a": "b"}),
            r#"spec.a: Invalid value: "string": spec.a in body must be of type integer: "string""#,
        ),
        (
            json!({"type": "array", "items": {"type": "integer"}}),
            json!([1, "b"]),
            r#"spec[1]: Invalid value: "string": spec[1] in body must be of type integer: "string""#,
        ),
        (
            json!({"type": "string", "format": "date-time"}),
            json!("yesterday"),
            r#"spec: Invalid value: "yesterday": spec in body must be of type date-time: "yesterday""#,
        ),
        (
            json!({"type": "string", "not": {"enum": ["x"]}}),
            json!("x"),
            r#"<nil>: Invalid value: "": "spec" must not validate the schema (not)"#,
        ),
    ];
    for (schema, value, message) in cases {
        assert_eq!(messages(schema, value), [message]);
    }
}

#[test]
fn combinations_report_the_branch_that_came_closest() {
    let one_of = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}]});
    assert_eq!(
        messages(one_of.clone(), json!({"a": "1", "b": "2"})),
        [
            r#"<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found 2 valid alternatives"#
        ]
    );
    assert_eq!(
        messages(one_of, json!({})),
        [
            r#"<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found none valid"#,
            "spec.a: Required value",
        ]
    );
    let any_of = json!({"type": "object", "properties": {"a": {"type": "string"}},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}]});
    assert!(messages(any_of, json!({"a": "1"})).is_empty());
    let all_of = json!({"type": "integer", "allOf": [{"minimum": 1}, {"maximum": 3}]});
    assert_eq!(
        messages(all_of, json!(5)),
        [
            "spec: Invalid value: 5: spec in body should be less than or equal to 3",
            r#"<nil>: Invalid value: "": "spec" must validate all the schemas (allOf)"#,
        ]
    );
}

#[test]
fn formats_that_the_server_does_not_know_are_ignored() {
    assert!(
        messages(
            json!({"type": "integer", "format": "int32"}),
            json!(5_000_000_000_i64)
        )
        .is_empty()
    );
    assert!(messages(json!({"type": "string", "format": "fancy"}), json!("x")).is_empty());
}

#[test]
fn whole_floats_are_integers() {
    assert!(messages(json!({"type": "integer"}), json!(3.0)).is_empty());
    assert!(messages(json!({"type": "number"}), json!(3)).is_empty());
}

#[test]
fn unchanged_parts_are_forgiven_on_update() {
    let schema = schema(json!({"type": "object", "properties": {
        "a": {"type": "string", "maxLength": 1},
        "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "required": ["k"], "properties": {
                "k": {"type": "string"}, "v": {"type": "integer", "maximum": 1}}}},
        "atomic": {"type": "array", "items": {"type": "integer", "maximum": 1}},
    }}));
    let old = json!({"spec": {"a": "long", "list": [{"k": "x", "v": 5}], "atomic": [7]}});
    let mut new = old.clone();
    new["spec"]["list"] = json!([{"k": "y", "v": 9}, {"k": "x", "v": 5}]);
    new["spec"]["atomic"] = json!([7, 1]);
    let found: Vec<String> = validate_update(&new, &old, &schema)
        .iter()
        .map(|error| error.field.clone())
        .collect();
    assert_eq!(found, ["spec.atomic[0]", "spec.list[0].v"]);
    assert!(validate_update(&old, &old, &schema).is_empty());
    assert_eq!(validate(&old, &schema).len(), 3);
}

#[test]
fn unknown_fields_are_pruned_and_named() {
    let schema = schema(json!({"type": "object", "properties": {
        "known": {"type": "string"},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"inner": {"type": "object", "properties": {"a": {"type": "string"}}}}},
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
        "template": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}},
    }}));
    let mut object = json!({
        "apiVersion": "v1", "kind": "K", "metadata": {"anything": 1}, "other": 1,
        "spec": {
            "known": "x", "unknown": 1,
            "open": {"any": 1, "inner": {"a": "x", "b": "y"}},
            "map": {"k": {"a": "x", "b": "y"}},
            "list": [{"a": "x", "b": "y"}],
            "template": {"apiVersion": "v1", "kind": "P", "metadata": {"x": 1}, "z": 1},
        },
    });
    assert_eq!(
        prune(&mut object, &schema),
        [
            "other",
            "spec.list[0].b",
            "spec.map.k.b",
            "spec.open.inner.b",
            "spec.template.z",
            "spec.unknown",
        ]
    );
    assert_eq!(
        object["spec"]["open"],
        json!({"any": 1, "inner": {"a": "x"}})
    );
    assert!(prune(&mut object, &schema).is_empty());
}

#[test]
fn defaults_fill_what_is_missing_also_inside_defaults() {
    let schema = schema(json!({"type": "object", "default": {}, "properties": {
        "replicas": {"type": "integer", "default": 1},
        "nested": {"type": "object", "default": {}, "properties": {"mode": {"type": "string", "default": "auto"}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"p": {"type": "string", "default": "TCP"}}}},
        "nullable": {"type": "string", "nullable": true, "default": "x"},
        "null": {"type": "string", "default": "y"},
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"d": {"type": "integer", "default": 0}}}},
    }}));
    let mut empty = json!({});
    default(&mut empty, &schema);
    assert_eq!(
        empty,
        json!({"spec": {"replicas": 1, "nested": {"mode": "auto"}, "nullable": "x", "null": "y"}})
    );
    let mut object = json!({"spec": {
        "replicas": 0, "list": [{}], "nullable": null, "null": null, "map": {"k": {}},
    }});
    default(&mut object, &schema);
    assert_eq!(
        object,
        json!({"spec": {
            "replicas": 0, "nested": {"mode": "auto"}, "list": [{"p": "TCP"}],
            "nullable": null, "null": "y", "map": {"k": {"d": 0}},
        }})
    );
}

#[test]
fn nulls_that_mean_nothing_are_pruned() {
    let schema = schema(json!({"type": "object", "properties": {
        "a": {"type": "string"},
        "b": {"type": "string", "nullable": true},
        "c": {"type": "string", "default": "x"},
    }}));
    let mut object = json!({"spec": {"a": null, "b": null, "c": null, "unknown": null}});
    prune_nulls(&mut object, &schema);
    assert_eq!(
        object,
        json!({"spec": {"b": null, "c": null, "unknown": null}})
    );
}

#[test]
fn items_of_sets_and_maps_must_be_unique() {
    let schema = schema(json!({"type": "object", "properties": {
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"],
            "items": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}},
    }}));
    let object = json!({"spec": {
        "set": ["x", "y", "x", "x"],
        "map": [{"a": "1", "b": 1}, {"a": "1", "b": 2}, {"a": "1", "b": 1, "c": 3}],
    }});
    let found: Vec<String> = validate_lists(&object, &schema)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        found,
        [
            r#"spec.map[2]: Duplicate value: {"a":"1","b":1}"#,
            r#"spec.set[2]: Duplicate value: "x""#,
        ]
    );
}
