//! `karpenter.k8s.aws/v1` EC2NodeClass: served since Karpenter 1.0.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

use super::{AmiSelectorTerm, SelectorTerm};
use crate::condition::Condition;

/// How machines on AWS are set up.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "karpenter.k8s.aws",
    version = "v1",
    kind = "EC2NodeClass",
    plural = "ec2nodeclasses",
    schema = "disabled",
    status = "EC2NodeClassStatus",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct EC2NodeClassSpec {
    /// IAM role of the machines; this or the instance profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// IAM instance profile of the machines; this or the role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_profile: Option<String>,
    /// Images of the machines: those that any of the terms picks.
    #[serde(default)]
    pub ami_selector_terms: Vec<AmiSelectorTerm>,
    /// Subnets where machines may stand: those that any of the terms picks.
    #[serde(default)]
    pub subnet_selector_terms: Vec<SelectorTerm>,
    /// Security groups that machines get: those that any of the terms picks.
    #[serde(default)]
    pub security_group_selector_terms: Vec<SelectorTerm>,
}

/// What Karpenter found out about the class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EC2NodeClassStatus {
    /// Whether its subnets, security groups, images and role were found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
