//! How a schema node behaves in a merge: as one thing, field by field, or item by item.
//!
//! Mirrors the conversion of `OpenAPI` to merge types in `kube-openapi/pkg/schemaconv`.

use serde_json::Value;

use super::element::Element;
use crate::schema::{Builtins, Kind, ListType, MapType, SchemaRef};

/// The merge type of a place.
#[derive(Clone, Copy, Debug)]
pub(super) enum Type<'a> {
    /// A place with a schema.
    Known {
        schema: SchemaRef<'a>,
        /// Whether unknown fields are kept here: a node's wish holds for all below it.
        open: bool,
        /// Whether this is a whole resource, with metadata that its schema does not spell out.
        resource: bool,
    },
    /// No schema: objects are merged by field, everything else is one thing.
    Deduced,
    /// No schema, and whatever is here is one thing.
    Untyped,
}

/// How a value of some type is treated.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape<'a> {
    /// One thing.
    Leaf,
    /// Field by field.
    Map,
    /// Item by item, each told apart by key fields (or by itself, if there are none).
    List(&'a [String]),
}

impl<'a> Type<'a> {
    pub(super) fn root(schema: SchemaRef<'a>) -> Self {
        Self::Known {
            schema,
            open: schema.preserves_unknown(),
            resource: true,
        }
    }

    fn known(schema: SchemaRef<'a>, open: bool) -> Self {
        match schema.definition() {
            Some("io.k8s.apimachinery.pkg.runtime.RawExtension") => Self::Untyped,
            _ => Self::Known {
                schema,
                open: open || schema.preserves_unknown(),
                resource: schema.embedded_resource(),
            },
        }
    }

    /// How a value is treated here. A value of the wrong type is one thing.
    pub(super) fn shape(self, value: &Value) -> Shape<'a> {
        let schema = match (self, value) {
            (Self::Deduced, Value::Object(_)) => return Shape::Map,
            (Self::Deduced | Self::Untyped, _) => return Shape::Leaf,
            (Self::Known { schema, .. }, _) => schema,
        };
        let typed = |kind: Kind| schema.kind().is_none_or(|found| found == kind);
        match value {
            Value::Object(_)
                if typed(Kind::Object) && schema.map_type() != Some(MapType::Atomic) =>
            {
                Shape::Map
            }
            Value::Array(_) if typed(Kind::Array) => match schema.list_type() {
                Some(ListType::Set) => Shape::List(&[]),
                Some(ListType::Map) => Shape::List(schema.list_map_keys()),
                Some(ListType::Atomic) => Shape::Leaf,
                None => merge_strategy(schema),
            },
            _ => Shape::Leaf,
        }
    }

    /// The type under a field, and whether it is a named field of a structure; nothing if it may not be there.
    pub(super) fn field(self, name: &str) -> Option<(Self, bool)> {
        let Self::Known {
            schema,
            open,
            resource,
        } = self
        else {
            return Some((self, false));
        };
        if resource && let Some(found) = resource_field(schema, name) {
            return Some((found, true));
        }
        if let Some(property) = schema.property(name) {
            return Some((Self::known(property, open), true));
        }
        if let Some(values) = schema.additional() {
            return Some((Self::known(values, open), false));
        }
        let free = open || !schema.has_properties() || schema.has_additional();
        free.then_some((Self::Deduced, false))
    }

    /// The type of a list's items.
    pub(super) fn items(self) -> Self {
        match self {
            Self::Known { schema, open, .. } => match schema.items() {
                Some(items) => Self::known(items, open),
                None => Self::Untyped,
            },
            _ => Self::Untyped,
        }
    }

    /// What tells an item of a list apart; the error is the real library's.
    pub(super) fn item(self, keys: &[String], item: &Value) -> Result<Element, String> {
        if keys.is_empty() {
            return match item {
                Value::Object(_) => {
                    Err("associative list without keys has an element that's a map type".to_owned())
                }
                Value::Array(_) => {
                    Err("not supported: associative list with lists as elements".to_owned())
                }
                Value::Null => Err(
                    "associative list without keys has an element that's an explicit null"
                        .to_owned(),
                ),
                scalar => Ok(Element::Value(scalar.clone())),
            };
        }
        let fields = match item {
            Value::Object(fields) => fields,
            Value::Null => {
                return Err("associative list with keys may not have a null element".to_owned());
            }
            _ => {
                return Err("associative list with keys may not have non-map elements".to_owned());
            }
        };
        let mut found: Vec<(Box<str>, Value)> = Vec::with_capacity(keys.len());
        for key in keys {
            let value = fields.get(key).cloned().or_else(|| self.key_default(key));
            if let Some(value) = value {
                found.push((key.as_str().into(), value));
            }
        }
        if found.is_empty() {
            let keys: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
                keys.join(" ")
            ));
        }
        found.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(Element::Key(found.into()))
    }

    /// A key that is left out has its default: a port is a TCP port.
    fn key_default(self, key: &str) -> Option<Value> {
        match self.items() {
            Self::Known { schema, .. } => schema.property(key)?.default_value().cloned(),
            _ => None,
        }
    }
}

/// Lists that only say how they are patched.
fn merge_strategy(schema: SchemaRef<'_>) -> Shape<'_> {
    let merges = schema.patch_strategies().iter().any(|name| name == "merge");
    match (merges, schema.merge_key()) {
        (true, None) => Shape::List(&[]),
        _ => Shape::Leaf,
    }
}

/// `apiVersion`, `kind` and `metadata` of a resource whose schema leaves them open.
fn resource_field<'a>(schema: SchemaRef<'a>, name: &str) -> Option<Type<'a>> {
    // Built-in kinds spell their metadata out.
    if schema.definition().is_some() {
        return None;
    }
    match name {
        "apiVersion" | "kind" => Some(Type::Untyped),
        "metadata" => {
            let pod = Builtins::load().ok()?.kind("", "v1", "Pod")?;
            Some(Type::known(pod.root().property("metadata")?, false))
        }
        _ => None,
    }
}
