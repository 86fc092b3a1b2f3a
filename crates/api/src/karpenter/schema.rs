//! Parts of schemas that Karpenter's kinds share.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::schema::{self, described};

pub(super) const DURATION: &str = "^([0-9]+(s|m|h))+$";
pub(super) const DURATION_OR_NEVER: &str = "^(([0-9]+(s|m|h))+|Never)$";

const QUALIFIED_NAME: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";
const LABEL_VALUE: &str = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";

/// Which requirement list a schema is for: each has its own rules.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Pool,
    Claim,
    Overlay,
}

/// `spec.template.spec.requirements` of a NodePool.
pub(super) fn pool_requirements(generator: &mut SchemaGenerator) -> Schema {
    requirements(generator, Place::Pool)
}

/// `spec.requirements` of a NodeClaim.
pub(super) fn claim_requirements(generator: &mut SchemaGenerator) -> Schema {
    requirements(generator, Place::Claim)
}

/// `spec.requirements` of a NodeOverlay.
pub(super) fn overlay_requirements(generator: &mut SchemaGenerator) -> Schema {
    requirements(generator, Place::Overlay)
}

fn requirements(generator: &mut SchemaGenerator, place: Place) -> Schema {
    let mut item = generator
        .subschema_for::<crate::scheduling::NodeSelectorRequirement>()
        .to_value();
    let properties = &mut item["properties"];
    let mut key_rules = vec![json!({
        "message": "label domain \"karpenter.sh\" is restricted",
        "rule": r#"self in ["karpenter.sh/capacity-type", "karpenter.sh/nodepool"] || !self.find("^([^/]+)").endsWith("karpenter.sh")"#,
    })];
    if place == Place::Pool {
        key_rules.push(json!({
            "message": "label \"karpenter.sh/nodepool\" is restricted",
            "rule": r#"self != "karpenter.sh/nodepool""#,
        }));
    }
    key_rules.push(json!({
        "message": "label \"kubernetes.io/hostname\" is restricted",
        "rule": r#"self != "kubernetes.io/hostname""#,
    }));
    properties["key"]["maxLength"] = json!(316);
    properties["key"]["pattern"] = json!(QUALIFIED_NAME);
    properties["key"]["x-kubernetes-validations"] = Value::from(key_rules);
    // Karpenter puts these on the list, where they check nothing; kept so that the schemas are equal.
    properties["values"]["maxLength"] = json!(63);
    properties["values"]["pattern"] = json!(LABEL_VALUE);
    if place == Place::Overlay {
        schema::remove(properties, "minValues");
    } else {
        schema::remove(&mut properties["minValues"], "format");
        properties["minValues"]["minimum"] = json!(1);
        properties["minValues"]["maximum"] = json!(50);
    }
    json_schema!({
        "type": "array",
        "items": item,
        "maxItems": 100,
        "x-kubernetes-list-type": "atomic",
        "x-kubernetes-validations": requirement_rules(place),
    })
}

fn requirement_rules(place: Place) -> Vec<Value> {
    let has_value = |operator: &str| {
        json!({
            "message": format!("requirements with operator '{operator}' must have a value defined"),
            "rule": format!("self.all(x, x.operator == '{operator}' ? x.values.size() != 0 : true)"),
        })
    };
    let number = |operators: &str| {
        json!({
            "message": format!("requirements operator {operators} must have a single positive integer value"),
            "rule": "self.all(x, (x.operator == 'Gt' || x.operator == 'Lt' || x.operator == 'Gte' || x.operator == 'Lte') ? (x.values.size() == 1 && int(x.values[0]) >= 0) : true)",
        })
    };
    if place == Place::Overlay {
        return vec![
            has_value("NotIn"),
            has_value("In"),
            number("'Gt', 'Lt', 'Gte' or 'Lte'"),
        ];
    }
    vec![
        has_value("In"),
        number("'Gt', 'Lt', 'Gte', or 'Lte'"),
        json!({
            "message": "requirements with 'minValues' must have at least that many values specified in the 'values' field",
            "rule": "self.all(x, (x.operator == 'In' && has(x.minValues)) ? x.values.size() >= x.minValues : true)",
        }),
    ]
}

/// A list of taints.
pub(super) fn taints(generator: &mut SchemaGenerator) -> Schema {
    let mut item = generator
        .subschema_for::<crate::scheduling::Taint>()
        .to_value();
    let properties = &mut item["properties"];
    properties["key"]["minLength"] = json!(1);
    properties["key"]["pattern"] = json!(QUALIFIED_NAME);
    properties["value"]["pattern"] = json!(QUALIFIED_NAME);
    json_schema!({ "type": "array", "items": item, "x-kubernetes-list-type": "atomic" })
}

/// Labels for nodes.
pub(super) fn labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": { "type": "string", "maxLength": 63, "pattern": LABEL_VALUE },
        "maxProperties": 100,
        "x-kubernetes-map-type": "atomic",
        "x-kubernetes-validations": [
            {
                "message": "label domain \"karpenter.sh\" is restricted",
                "rule": r#"self.all(x, x in ["karpenter.sh/capacity-type", "karpenter.sh/nodepool"] || !x.find("^([^/]+)").endsWith("karpenter.sh"))"#,
            },
            {
                "message": "label \"karpenter.sh/nodepool\" is restricted",
                "rule": r#"self.all(x, x != "karpenter.sh/nodepool")"#,
            },
            {
                "message": "label \"kubernetes.io/hostname\" is restricted",
                "rule": r#"self.all(x, x != "kubernetes.io/hostname")"#,
            },
        ],
    })
}

/// Reference to a node class of a NodePool, which may not change to another kind.
pub(super) fn pool_class_ref(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = generator.subschema_for::<super::NodeClassRef>().to_value();
    schema["x-kubernetes-validations"] = json!([
        { "message": "nodeClassRef.group is immutable", "rule": "self.group == oldSelf.group" },
        { "message": "nodeClassRef.kind is immutable", "rule": "self.kind == oldSelf.kind" },
    ]);
    described(schema)
}

/// Conditions of a NodeClaim, whose reasons and messages may be missing.
pub(super) fn claim_conditions(generator: &mut SchemaGenerator) -> Schema {
    let mut item = generator
        .subschema_for::<crate::condition::Condition>()
        .to_value();
    let reason = &mut item["properties"]["reason"];
    schema::remove(reason, "minLength");
    reason["pattern"] = json!("^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?|)$");
    item["required"] = json!(["lastTransitionTime", "status", "type"]);
    json_schema!({
        "type": "array",
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    })
}
