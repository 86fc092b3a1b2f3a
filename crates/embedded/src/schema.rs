//! Schemas of Kubernetes objects, and what the API server does with them.
//!
//! ```text
//! `OpenAPI` v3 of the built-in kinds ─┐                 ┌─ prune / unknown fields
//!                                   ├─► Schema ───────┼─ default
//! openAPIV3Schema of a CRD ─────────┘  (one arena)    ├─ validate, list uniqueness, CEL rules
//!                                                     └─ patch::strategic, apply (merge keys, list types)
//! ```
//!
//! Everything here is a pure function over [`serde_json::Value`]. Messages are those of kube-apiserver v1.34.

mod builtins;
pub mod cel;
mod decode;
mod default;
mod document;
mod error;
mod formats;
mod lists;
mod node;
pub(crate) mod number;
mod path;
mod pattern;
mod posted;
mod prune;
pub(crate) mod quantity;
mod structural;
mod validate;

pub use builtins::{AssetError, Builtins};
pub(crate) use decode::empty_object;
pub use decode::{DecodeError, decode, decode_metadata, duplicate_fields, unknown_fields};
pub use default::{default, prune_nulls};
pub use error::{ErrorKind, FieldError};
pub use lists::validate_lists;
pub use node::{Kind, ListType, MapType, Schema, SchemaRef};
pub(crate) use number::go_float;
pub use path::Path;
pub use posted::Posted;
pub use prune::prune;
pub use validate::{validate, validate_update};

#[cfg(test)]
mod tests;
