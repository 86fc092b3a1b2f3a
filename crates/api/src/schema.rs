//! Small helpers for writing schemas.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::Value;

/// An integer without a format, as Go's `int` is described.
pub(crate) fn int(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer" })
}

/// A value of any shape that is kept as it is.
pub(crate) fn anything(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

/// Conditions that several writers can each own one of.
pub(crate) fn conditions(generator: &mut SchemaGenerator) -> Schema {
    let item = generator.subschema_for::<crate::condition::Condition>();
    json_schema!({
        "type": "array",
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    })
}

/// Takes a key out of an object, if both are there.
pub(crate) fn remove(value: &mut Value, key: &str) {
    if let Some(object) = value.as_object_mut() {
        object.remove(key);
    }
}

/// A schema out of its JSON form; what is no object describes nothing.
pub(crate) fn described(value: Value) -> Schema {
    Schema::try_from(value).unwrap_or_default()
}

/// A rule for one text field: its message says what was written and what to write instead.
///
/// The plain message is for servers that do not know expressions for messages yet.
pub(crate) fn text_rule(rule: &str, noun: &str, hint: &str) -> Value {
    serde_json::json!([{
        "rule": rule,
        "message": format!("must be {noun}: {hint}"),
        "messageExpression": format!("'\"' + self + '\" is not {noun}: {hint}'"),
    }])
}

const DURATION_RULE: &str =
    r"self.matches('^(0|(([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(ns|us|ms|s|m|h))+)$')";

/// A duration in Go's notation.
pub(crate) fn duration(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 64,
        "x-kubernetes-validations": text_rule(
            DURATION_RULE,
            "a duration",
            "write numbers with units, such as 30s, 15m or 1h30m",
        ),
    })
}

/// A duration in Go's notation, or `Never`.
pub(crate) fn duration_or_never(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 64,
        "x-kubernetes-validations": text_rule(
            &format!("self == 'Never' || {DURATION_RULE}"),
            "a duration",
            "write numbers with units, such as 30s, 15m or 1h30m, or Never",
        ),
    })
}

/// Dollars per hour.
pub(crate) fn price(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 32,
        "x-kubernetes-validations": text_rule(
            r"self.matches('^([0-9]+(\\.[0-9]*)?|\\.[0-9]+)$')",
            "a price",
            "write dollars per hour as a plain decimal such as 0.50",
        ),
    })
}

/// A share of a hundred.
pub(crate) fn percent(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 16,
        "x-kubernetes-validations": text_rule(
            r"self.matches('^(100|[0-9]{1,2}(\\.[0-9]+)?)%$')",
            "a percentage",
            "write a number from 0% to 100%, such as 2.5%",
        ),
    })
}

/// An address that a client can call.
pub(crate) fn url(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 2048,
        "x-kubernetes-validations": text_rule(
            "self.startsWith('https://') || self.startsWith('http://')",
            "an address",
            "write it with its scheme, such as https://10.0.0.5",
        ),
    })
}

/// Labels that can be put on a node.
pub(crate) fn node_labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": {
            "type": "string",
            "maxLength": 63,
            "pattern": "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$",
        },
        "maxProperties": 100,
        "x-kubernetes-validations": [{
            "rule": r#"self.all(key, !key.find("^([^/]+)").endsWith("karpenter.sh") && key != "kubernetes.io/hostname")"#,
            "message": "labels of the domain karpenter.sh and kubernetes.io/hostname are set by Joiner itself: leave them out",
        }],
    })
}

/// Taints that can be put on a node.
pub(crate) fn node_taints(generator: &mut SchemaGenerator) -> Schema {
    let mut item = generator
        .subschema_for::<crate::scheduling::Taint>()
        .to_value();
    item["properties"]["key"]["minLength"] = 1.into();
    json_schema!({ "type": "array", "items": item, "maxItems": 50 })
}

/// Requirements on the labels of machines.
pub(crate) fn node_requirements(generator: &mut SchemaGenerator) -> Schema {
    let mut item = generator
        .subschema_for::<crate::scheduling::NodeSelectorRequirement>()
        .to_value();
    remove(&mut item["properties"], "minValues");
    // The rules read keys and values: without bounds the server would refuse them as too expensive.
    item["properties"]["key"]["maxLength"] = 316.into();
    item["properties"]["values"]["maxItems"] = 100.into();
    item["properties"]["values"]["items"]["maxLength"] = 63.into();
    json_schema!({
        "type": "array",
        "items": item,
        "maxItems": 100,
        "x-kubernetes-validations": [
            {
                "rule": "self.all(x, x.operator in ['In', 'NotIn'] ? has(x.values) && x.values.size() != 0 : true)",
                "message": "requirements with operator In or NotIn need at least one value",
            },
            {
                "rule": "self.all(x, x.operator in ['Gt', 'Lt', 'Gte', 'Lte'] ? has(x.values) && x.values.size() == 1 && x.values[0].matches('^[0-9]+$') : true)",
                "message": "requirements with operator Gt, Lt, Gte or Lte need exactly one value, a whole number",
            },
            {
                "rule": "self.all(x, x.operator in ['Exists', 'DoesNotExist'] ? !has(x.values) || x.values.size() == 0 : true)",
                "message": "requirements with operator Exists or DoesNotExist have no values",
            },
        ],
    })
}

/// The limit of a resource: a quantity that is not negative. A negative one allows nothing and is a slip.
pub(crate) fn limit(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
        "minimum": 0,
        "pattern": r"^\+?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
        "x-kubernetes-int-or-string": true,
    })
}

/// Limits by resource.
pub(crate) fn limits(generator: &mut SchemaGenerator) -> Schema {
    let one = limit(generator);
    json_schema!({"type": "object", "additionalProperties": one})
}
