//! `karpenter.ovhcloud.sh/v1alpha1` OVHNodeClass, for OVHcloud Managed Kubernetes.

pub mod keys;
mod ovhnodeclass;
mod validate;

pub use ovhnodeclass::{CredentialsRef, OVHNodeClass, OVHNodeClassSpec, OVHNodeClassStatus};
