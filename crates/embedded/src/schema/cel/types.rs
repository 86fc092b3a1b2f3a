//! CEL types, and which of them a schema node has.
//!
//! Mirrors `apiserver/pkg/cel/common` `SchemaDeclType`.

use std::fmt;

use super::super::node::{Kind, SchemaRef};
use super::escape::escape;

/// The static type of an expression.
#[derive(Clone, Debug)]
pub(crate) enum Ty<'a> {
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    Type,
    List(Box<Ty<'a>>),
    Map(Box<Ty<'a>>, Box<Ty<'a>>),
    /// A structure; the flag says whether it also has `apiVersion`, `kind` and `metadata`.
    Object(SchemaRef<'a>, bool),
    /// `metadata` of a resource: rules see names only.
    Metadata,
    Optional(Box<Ty<'a>>),
    Opaque(&'static str),
}

impl<'a> Ty<'a> {
    /// The type of a schema node; nothing if rules cannot see it.
    pub(crate) fn of(schema: SchemaRef<'a>, resource: bool) -> Option<Self> {
        if schema.int_or_string() {
            return Some(Self::Dyn);
        }
        Some(match schema.kind()? {
            Kind::Array => Self::List(Box::new(Self::of(schema.items()?, false)?)),
            Kind::Object => match schema.additional() {
                Some(values) if !schema.has_properties() => {
                    Self::Map(Box::new(Self::String), Box::new(Self::of(values, false)?))
                }
                _ => Self::Object(schema, resource || schema.embedded_resource()),
            },
            Kind::String => match schema.format() {
                Some("byte") => Self::Bytes,
                Some("duration") => Self::Duration,
                Some("date" | "date-time") => Self::Timestamp,
                _ => Self::String,
            },
            Kind::Boolean => Self::Bool,
            Kind::Number => Self::Double,
            Kind::Integer => Self::Int,
        })
    }

    /// The type of a field, by its escaped name.
    pub(crate) fn field(&self, name: &str) -> Option<Self> {
        match self {
            Self::Object(schema, resource) => {
                if *resource {
                    match name {
                        "apiVersion" | "kind" => return Some(Self::String),
                        "metadata" => return Some(Self::Metadata),
                        _ => {}
                    }
                }
                let found = schema
                    .properties()
                    .find(|(property, _)| escape(property).as_deref() == Some(name))?;
                Self::of(found.1, false)
            }
            Self::Metadata => matches!(name, "name" | "generateName").then_some(Self::String),
            Self::Map(_, value) => Some((**value).clone()),
            Self::Dyn => Some(Self::Dyn),
            Self::Optional(inner) => {
                let inner = inner.field(name)?;
                Some(match inner {
                    optional @ Self::Optional(_) => optional,
                    other => Self::Optional(Box::new(other)),
                })
            }
            _ => None,
        }
    }

    /// Whether values of the two types may be compared for equality.
    pub(crate) fn agrees(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dyn, _) | (_, Self::Dyn) => true,
            (Self::Null, other) | (other, Self::Null) => matches!(
                other,
                Self::Null
                    | Self::Object(..)
                    | Self::Metadata
                    | Self::Optional(_)
                    | Self::Timestamp
                    | Self::Duration
                    | Self::Opaque(_)
            ),
            (Self::List(a), Self::List(b)) | (Self::Optional(a), Self::Optional(b)) => a.agrees(b),
            (Self::Map(ak, av), Self::Map(bk, bv)) => ak.agrees(bk) && av.agrees(bv),
            (Self::Opaque(a), Self::Opaque(b)) => a == b,
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
        }
    }
}

impl fmt::Display for Ty<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::Type => f.write_str("type"),
            Self::List(item) => write!(f, "list({item})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            // The real name holds the nanosecond of compilation, so that nobody can depend on it.
            Self::Object(..) | Self::Metadata => f.write_str("selfType"),
            Self::Optional(inner) => write!(f, "optional_type({inner})"),
            Self::Opaque(name) => f.write_str(name),
        }
    }
}
