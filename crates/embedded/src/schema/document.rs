//! Reads JSON schemas (`OpenAPI` v3 components, or a CRD's `openAPIV3Schema`) into an arena.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::node::{
    Additional, GoFacts, Kind, Limits, ListType, MapType, Node, NodeId, Rule, SchemaRef,
};
use super::pattern::Pattern;

const REFERENCE: &str = "#/components/schemas/";

/// All nodes of one set of schemas.
#[derive(Debug, Default)]
pub(crate) struct Document {
    nodes: Vec<Node>,
}

impl Document {
    pub(crate) fn push(&mut self, node: Node) -> NodeId {
        let id = NodeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        self.nodes.push(node);
        id
    }

    pub(crate) fn view(&self, id: NodeId) -> SchemaRef<'_> {
        static EMPTY: Node = Node::EMPTY;
        let site = self.nodes.get(id.0 as usize).unwrap_or(&EMPTY);
        let mut node = site;
        // A definition may itself be nothing but a reference; a cycle of those says nothing and ends here.
        for _ in 0..8 {
            let Some(next) = node.target.and_then(|id| self.nodes.get(id.0 as usize)) else {
                break;
            };
            node = next;
        }
        SchemaRef::new(self, site, node)
    }

    /// Reads one schema without references.
    pub(crate) fn read(schema: &Value) -> (Self, NodeId) {
        let mut reader = Reader::default();
        let root = reader.add(schema);
        (reader.document, root)
    }

    /// Reads definitions that refer to each other by name.
    pub(crate) fn read_definitions(
        definitions: &Map<String, Value>,
        mut facts: BTreeMap<String, GoFacts>,
    ) -> (Self, BTreeMap<String, NodeId>) {
        let mut reader = Reader::default();
        for name in definitions.keys() {
            let id = reader.document.push(Node::default());
            reader.names.insert(name.clone(), id);
        }
        for (name, schema) in definitions {
            let mut node = reader.node(schema);
            node.name = Some(name.clone());
            node.go = facts.remove(name).map(Box::new);
            if let Some(slot) = reader
                .names
                .get(name)
                .and_then(|id| reader.document.nodes.get_mut(id.0 as usize))
            {
                *slot = node;
            }
        }
        (reader.document, reader.names)
    }
}

#[derive(Default)]
struct Reader {
    document: Document,
    names: BTreeMap<String, NodeId>,
}

impl Reader {
    fn add(&mut self, schema: &Value) -> NodeId {
        let node = self.node(schema);
        self.document.push(node)
    }

    fn add_all(&mut self, schemas: Option<&Value>) -> Vec<NodeId> {
        let schemas = schemas.and_then(Value::as_array);
        schemas
            .into_iter()
            .flatten()
            .map(|schema| self.add(schema))
            .collect()
    }

    /// `$ref`, or the `allOf: [{$ref}]` by which `OpenAPI` v3 adds a default or a description to one.
    fn target(&self, schema: &Value) -> Option<NodeId> {
        let reference = match schema.get("$ref") {
            Some(reference) => reference,
            None => match schema.get("allOf").and_then(Value::as_array)?.as_slice() {
                [only] => only.get("$ref")?,
                _ => return None,
            },
        };
        let name = reference.as_str()?.strip_prefix(REFERENCE)?;
        self.names.get(name).copied()
    }

    fn node(&mut self, schema: &Value) -> Node {
        let text = |key: &str| schema.get(key).and_then(Value::as_str).map(str::to_owned);
        let flag = |key: &str| schema.get(key).and_then(Value::as_bool).unwrap_or(false);
        let target = self.target(schema);

        let properties = schema.get("properties").and_then(Value::as_object);
        let properties = properties
            .into_iter()
            .flatten()
            .map(|(name, schema)| (name.clone(), self.add(schema)))
            .collect();
        let additional = match schema.get("additionalProperties") {
            Some(Value::Bool(allowed)) => Some(Additional::Allowed(*allowed)),
            Some(schema @ Value::Object(_)) => Some(Additional::Schema(self.add(schema))),
            _ => None,
        };
        let items = schema
            .get("items")
            .filter(|items| items.is_object())
            .map(|items| self.add(items));

        Node {
            target,
            kind: schema
                .get("type")
                .and_then(Value::as_str)
                .and_then(Kind::parse),
            int_or_string: flag("x-kubernetes-int-or-string")
                || schema.get("format").and_then(Value::as_str) == Some("int-or-string"),
            nullable: flag("nullable"),
            format: text("format").filter(|format| !format.is_empty()),
            properties,
            additional,
            items,
            preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            embedded_resource: flag("x-kubernetes-embedded-resource"),
            list_type: match text("x-kubernetes-list-type").as_deref() {
                Some("atomic") => Some(ListType::Atomic),
                Some("set") => Some(ListType::Set),
                Some("map") => Some(ListType::Map),
                _ => None,
            },
            list_map_keys: texts(schema.get("x-kubernetes-list-map-keys")),
            map_type: match text("x-kubernetes-map-type").as_deref() {
                Some("atomic") => Some(MapType::Atomic),
                Some("granular") => Some(MapType::Granular),
                _ => None,
            },
            merge_key: text("x-kubernetes-patch-merge-key"),
            patch_strategies: text("x-kubernetes-patch-strategy")
                .map(|list| list.split(',').map(str::to_owned).collect())
                .unwrap_or_default(),
            default: schema
                .get("default")
                .filter(|value| !value.is_null())
                .cloned(),
            limits: if target.is_some() {
                None
            } else {
                self.limits(schema)
            },
            rules: rules(schema.get("x-kubernetes-validations")),
            name: None,
            go: None,
        }
    }

    fn limits(&mut self, schema: &Value) -> Option<Box<Limits>> {
        const KEYS: [&str; 19] = [
            "required",
            "enum",
            "minimum",
            "exclusiveMinimum",
            "maximum",
            "exclusiveMaximum",
            "multipleOf",
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "minProperties",
            "maxProperties",
            "uniqueItems",
            "pattern",
            "allOf",
            "anyOf",
            "oneOf",
            "not",
        ];
        let keys = schema.as_object()?;
        if !KEYS.iter().any(|key| keys.contains_key(*key)) {
            return None;
        }
        let number = |key: &str| schema.get(key).and_then(Value::as_f64);
        let count = |key: &str| schema.get(key).and_then(Value::as_i64);
        let flag = |key: &str| schema.get(key).and_then(Value::as_bool).unwrap_or(false);
        Some(Box::new(Limits {
            required: texts(schema.get("required")),
            enumeration: schema
                .get("enum")
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default(),
            minimum: number("minimum"),
            exclusive_minimum: flag("exclusiveMinimum"),
            maximum: number("maximum"),
            exclusive_maximum: flag("exclusiveMaximum"),
            multiple_of: number("multipleOf"),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
            unique_items: flag("uniqueItems"),
            pattern: schema
                .get("pattern")
                .and_then(Value::as_str)
                .filter(|pattern| !pattern.is_empty())
                .map(Pattern::new),
            all_of: self.add_all(schema.get("allOf")),
            any_of: self.add_all(schema.get("anyOf")),
            one_of: self.add_all(schema.get("oneOf")),
            not: schema
                .get("not")
                .filter(|not| not.is_object())
                .map(|not| self.add(not)),
        }))
    }
}

fn texts(list: Option<&Value>) -> Vec<String> {
    let list = list.and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

fn rules(list: Option<&Value>) -> Vec<Rule> {
    let list = list.and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .map(|rule| {
            let text = |key: &str| {
                rule.get(key)
                    .and_then(Value::as_str)
                    .filter(|text| !text.is_empty())
                    .map(str::to_owned)
            };
            Rule {
                expression: text("rule").unwrap_or_default(),
                message: text("message"),
                message_expression: text("messageExpression"),
                reason: text("reason"),
                field_path: text("fieldPath"),
                optional_old_self: rule.get("optionalOldSelf").and_then(Value::as_bool),
            }
        })
        .collect()
}
