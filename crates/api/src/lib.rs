//! The custom resources as Rust types, one module per API group.
//!
//! ```text
//! karpenter   NodePool, NodeClaim, NodeOverlay, CapacityBuffer      shared by every NodePool, whoever provides
//! joiner      SimNodeClass, RackspaceNodeClass, ProxmoxNodeClass, RedfishNodeClass     node classes of our own
//! ovhcloud    OVHNodeClass                                                    a node class we took over
//! karpetrack  SpotNodePool, SpotNode            nodesmith  NodeSmithControlPlane, -Pool, -Provider, -Claim
//! leftover    LeftoverNodePool   ──renders──►   aws  EC2NodeClass (not ours: no CRD is printed for it)
//! ```
//!
//! The types are the one source: [`crds`] derives the CRDs from them, `cargo xtask manifests` writes those to
//! `config/crd` and their fields to `docs/reference/crds.md`. Optional fields are optional in the types too, so that an
//! object that is read and written back gains nothing that its author left out; methods of the same name fill in the
//! defaults that the CRD states.
//!
//! Two habits of the types: schemas are `inline`, since a CRD knows no references; and enums have no description of
//! their own in the schema, where it would replace that of the field that holds them.

// Doc comments are what `kubectl explain` prints: kinds are words there, not code.
#![allow(clippy::doc_markdown)]
// kube describes each printer column with attributes of the same names.
#![allow(clippy::duplicated_attributes)]

pub mod aws;
pub mod condition;
pub mod crd;
mod dialect;
pub mod hardware;
pub mod joiner;
pub mod karpenter;
pub mod karpetrack;
pub mod leftover;
pub mod nodesmith;
pub mod ovhcloud;
pub mod scheduling;
mod schema;
pub mod text;
pub mod validate;
mod yaml;

pub use dialect::{Dialect, UnknownDialect, crds};
pub use yaml::{PrintError, to_yaml, to_yaml_stream};
