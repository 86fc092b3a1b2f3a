//! `karpenter.k8s.aws` EC2NodeClass, as far as Joiner renders it.
//!
//! The kind belongs to Karpenter on AWS, which also brings its CRD; there are two versions of it in the field and a
//! cluster serves one or both. What Joiner does not write it does not model.

pub mod v1;
pub mod v1beta1;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Picks subnets or security groups by their tags; all tags must be there, and `*` stands for any value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SelectorTerm {
    /// Tags by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
}

/// Picks images by alias: a family and a version, such as `al2023@latest`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AmiSelectorTerm {
    /// Family and version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
}

/// Family of an alias as the older version of the kind spells it: `AL2023` for `al2023@latest`.
///
/// `None` for families that the older version does not know. It also knows no versions: only `@latest` can be said.
pub fn ami_family(alias: &str) -> Option<&'static str> {
    Some(match alias.split_once('@')?.0 {
        "al2" => "AL2",
        "al2023" => "AL2023",
        "bottlerocket" => "Bottlerocket",
        "windows2019" => "Windows2019",
        "windows2022" => "Windows2022",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use kube::ResourceExt;
    use serde_json::json;

    use super::*;

    fn terms() -> Vec<SelectorTerm> {
        vec![SelectorTerm {
            tags: [("team".to_owned(), "gpu".to_owned())].into(),
        }]
    }

    #[test]
    fn the_newer_version_has_an_alias_and_no_family() {
        let class = v1::EC2NodeClass::new(
            "leftover-a-class",
            v1::EC2NodeClassSpec {
                role: Some("KarpenterNode".into()),
                instance_profile: None,
                ami_selector_terms: vec![AmiSelectorTerm {
                    alias: Some("al2023@latest".into()),
                }],
                subnet_selector_terms: terms(),
                security_group_selector_terms: terms(),
            },
        );
        assert_eq!(class.name_any(), "leftover-a-class");
        assert_eq!(
            serde_json::to_value(&class).unwrap(),
            json!({
                "apiVersion": "karpenter.k8s.aws/v1",
                "kind": "EC2NodeClass",
                "metadata": {"name": "leftover-a-class"},
                "spec": {
                    "role": "KarpenterNode",
                    "amiSelectorTerms": [{"alias": "al2023@latest"}],
                    "subnetSelectorTerms": [{"tags": {"team": "gpu"}}],
                    "securityGroupSelectorTerms": [{"tags": {"team": "gpu"}}],
                },
            })
        );
    }

    #[test]
    fn the_older_version_has_a_family_and_no_alias() {
        let class = v1beta1::EC2NodeClass::new(
            "leftover-a-class",
            v1beta1::EC2NodeClassSpec {
                role: Some("KarpenterNode".into()),
                instance_profile: None,
                ami_family: ami_family("al2023@latest").unwrap().to_owned(),
                subnet_selector_terms: terms(),
                security_group_selector_terms: terms(),
            },
        );
        let value = serde_json::to_value(&class).unwrap();
        assert_eq!(value["apiVersion"], "karpenter.k8s.aws/v1beta1");
        assert_eq!(value["spec"]["amiFamily"], "AL2023");
        assert_eq!(value["spec"].get("amiSelectorTerms"), None);
    }

    #[test]
    fn families_that_the_older_version_lacks_are_not_made_up() {
        assert_eq!(ami_family("windows2025@latest"), None);
        assert_eq!(ami_family("al2023"), None);
    }
}
