//! Families of custom resources, one module each.

pub mod karpenter;
