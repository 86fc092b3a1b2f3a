//! Families of custom resources, one module each.

mod classes;
mod convert;
pub mod karpenter;
pub mod karpetrack;
pub mod nodesmith;
mod objects;
