//! `x-kubernetes-validations`: rules in CEL that a custom resource must satisfy.
//!
//! ```text
//! Schema ── compile ──► Rules ── check(new, old) ──► field errors
//!              │
//!              └─ problems: what makes the server refuse the CRD
//! ```
//!
//! Parsing and evaluation are the `cel` crate's; types, the Kubernetes libraries and the order and words of errors are
//! here. Mirrors `apiextensions-apiserver/pkg/apiserver/schema/cel`. Rule costs are not estimated.

mod checker;
mod escape;
pub(crate) mod field_path;
mod functions;
mod library;
mod problems;
mod rule;
mod types;
mod values;

use std::collections::BTreeMap;

use serde_json::Value;

use super::error::FieldError;
use super::node::{MapType, Schema, SchemaRef};
use super::path::Path;
use super::validate::old_item;
use rule::Compiled;

/// The compiled rules of a schema.
#[derive(Debug)]
pub struct Rules {
    schema: Schema,
    root: Option<Node>,
}

/// The rules at one place of the schema, and below it.
#[derive(Debug, Default)]
struct Node {
    rules: Vec<Compiled>,
    properties: BTreeMap<String, Node>,
    additional: Option<Box<Node>>,
    items: Option<Box<Node>>,
}

/// What is known of the object before the change.
#[derive(Clone, Copy)]
struct Before<'o> {
    /// The old value at this place.
    value: Option<&'o Value>,
    /// Whether the nearest place with an old value did not change: then its errors are forgiven.
    unchanged: bool,
}

impl Rules {
    /// Compiles all rules. Rules that do not compile were refused with the CRD; here they fail each object.
    pub fn compile(schema: &Schema) -> Self {
        Self {
            schema: schema.clone(),
            root: Node::compile(schema.root(), true),
        }
    }

    /// Whether there is no rule at all.
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// Checks an object; with the old one also its transition rules.
    pub fn check(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if let Some(root) = &self.root {
            let before = Before {
                value: old,
                unchanged: old == Some(new),
            };
            let place = Place {
                schema: self.schema.root(),
                resource: true,
            };
            root.check(new, before, place, &Path::ROOT, &mut errors);
        }
        errors
    }

    /// What the server has against the rules of a CRD's schema.
    pub(crate) fn problems(schema: &Schema, json: &Value, path: &str) -> Vec<FieldError> {
        problems::find(schema, json, path)
    }

    /// Checks a default value, as if it had always been there and as if it were new.
    pub(crate) fn check_default(schema: SchemaRef<'_>, default: &Value) -> Vec<FieldError> {
        let Some(node) = Node::compile(schema, false) else {
            return Vec::new();
        };
        for old in [Some(default), None] {
            let mut errors = Vec::new();
            let before = Before {
                value: old,
                unchanged: false,
            };
            let place = Place {
                schema,
                resource: false,
            };
            node.check(default, before, place, &Path::ROOT, &mut errors);
            if !errors.is_empty() {
                return errors;
            }
        }
        Vec::new()
    }
}

/// A schema node, and whether it is that of a whole resource.
#[derive(Clone, Copy)]
struct Place<'a> {
    schema: SchemaRef<'a>,
    resource: bool,
}

impl Node {
    fn compile(schema: SchemaRef<'_>, resource: bool) -> Option<Self> {
        let resource = resource || schema.embedded_resource();
        let rules = schema.rules();
        let node = Self {
            rules: rules
                .iter()
                .map(|rule| Compiled::new(rule, schema, resource))
                .collect(),
            properties: schema
                .properties()
                .filter_map(|(name, property)| {
                    Some((name.to_owned(), Self::compile(property, false)?))
                })
                .collect(),
            additional: schema
                .additional()
                .and_then(|values| Self::compile(values, false))
                .map(Box::new),
            items: schema
                .items()
                .and_then(|items| Self::compile(items, false))
                .map(Box::new),
        };
        let empty = node.rules.is_empty()
            && node.properties.is_empty()
            && node.additional.is_none()
            && node.items.is_none();
        (!empty).then_some(node)
    }

    fn check(
        &self,
        value: &Value,
        before: Before<'_>,
        place: Place<'_>,
        path: &Path<'_>,
        errors: &mut Vec<FieldError>,
    ) {
        if value.is_null() {
            return;
        }
        if !self.rules.is_empty() {
            let old = before.value.filter(|old| !old.is_null());
            rule::run(
                &self.rules,
                value,
                old,
                before.unchanged,
                place,
                path,
                errors,
            );
        }
        match value {
            Value::Object(fields) => {
                let correlated = place.schema.map_type() != Some(MapType::Atomic);
                for (name, value) in fields {
                    let old = before.value.filter(|_| correlated);
                    let old = old.and_then(|old| old.get(name));
                    let before = before.below(value, old);
                    if let Some(node) = self.properties.get(name)
                        && let Some(schema) = place.schema.property(name)
                    {
                        let place = Place::inner(schema);
                        node.check(value, before, place, &path.child(name), errors);
                    } else if let Some(node) = &self.additional
                        && let Some(schema) = place.schema.additional()
                    {
                        let place = Place::inner(schema);
                        node.check(value, before, place, &path.key(name), errors);
                    }
                }
            }
            Value::Array(items) => {
                let (Some(node), Some(schema)) = (&self.items, place.schema.items()) else {
                    return;
                };
                for (index, item) in items.iter().enumerate() {
                    let old = old_item(item, before.value, place.schema);
                    let before = before.below(item, old);
                    let place = Place::inner(schema);
                    node.check(item, before, place, &path.index(index), errors);
                }
            }
            _ => {}
        }
    }
}

impl<'a> Place<'a> {
    fn inner(schema: SchemaRef<'a>) -> Self {
        Self {
            schema,
            resource: schema.embedded_resource(),
        }
    }
}

impl<'o> Before<'o> {
    fn below(self, value: &Value, old: Option<&'o Value>) -> Self {
        Self {
            value: old,
            unchanged: old.map_or(self.unchanged, |old| old == value),
        }
    }
}

#[cfg(test)]
mod tests;
