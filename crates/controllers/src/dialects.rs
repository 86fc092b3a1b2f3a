//! Families of custom resources, one module each.

mod convert;
pub mod karpenter;
pub mod karpetrack;
mod objects;
