use joiner_core::leftover::{Choice, Market};
use serde_json::{Value, json};

use super::*;

fn pool(spec: &Value) -> LeftoverNodePool {
    let object = json!({"apiVersion": "gpu.devplatforms.io/v1alpha1", "kind": "LeftoverNodePool",
        "metadata": {"name": "gpu-spot-euc1", "uid": "u-1"}, "spec": spec});
    serde_json::from_value(object).unwrap()
}

fn documented() -> LeftoverNodePool {
    pool(&json!({
        "region": "eu-central-1", "families": ["g5", "g6", "p5"], "capacityType": "spot", "targetCount": 2,
        "maxInstanceTypes": 5, "maxZones": 2, "budgetsNodes": "10%", "consolidateAfter": "2m",
        "labels": {"workload": "gpu", "nvidia.com/gpu.present": "true"},
        "taints": ["nvidia.com/gpu=true:NoSchedule"],
        "subnetSelectorTags": {"kubernetes.io/role/internal-elb": "1", "kubernetes.io/cluster/your-cluster": "owned"},
        "securityGroupSelectorTags": {"kubernetes.io/cluster/your-cluster": "owned"},
    }))
}

fn choice() -> Choice {
    Choice {
        types: vec!["g6.xlarge".into(), "g5.xlarge".into()],
        zones: vec!["eu-central-1b".into(), "eu-central-1a".into()],
    }
}

#[test]
fn every_field_of_the_document_lands_in_the_node_pool() {
    let rendered = node_pool(
        &documented(),
        &choice(),
        &Market::default(),
        "leftover-gpu-spot-euc1-class",
    );
    assert_eq!(
        rendered,
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": "leftover-gpu-spot-euc1", "labels": {"managed-by": "leftover"},
                "ownerReferences": [{"apiVersion": "gpu.devplatforms.io/v1alpha1", "kind": "LeftoverNodePool",
                    "name": "gpu-spot-euc1", "uid": "u-1", "controller": true, "blockOwnerDeletion": true}]},
            "spec": {
                "weight": 50,
                "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "2m",
                    "budgets": [{"nodes": "10%"}]},
                "template": {
                    "metadata": {"labels": {"workload": "gpu", "nvidia.com/gpu.present": "true"}},
                    "spec": {
                        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass",
                            "name": "leftover-gpu-spot-euc1-class"},
                        "taints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}],
                        "requirements": [
                            {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
                            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g5.xlarge", "g6.xlarge"]},
                            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["eu-central-1a", "eu-central-1b"]},
                        ],
                    },
                },
            },
        })
    );
}

#[test]
fn a_class_needs_a_role_from_somewhere_and_says_so() {
    let none = ClassDefaults::default();
    let refused = node_class(&documented(), &none, ClassVersion::V1).unwrap_err();
    assert!(refused.contains("--aws-node-role"), "{refused}");
    let defaults = ClassDefaults {
        role: Some("KarpenterNodeRole".into()),
        ..none
    };
    let class = node_class(&documented(), &defaults, ClassVersion::V1).unwrap();
    assert_eq!(class["metadata"]["name"], "leftover-gpu-spot-euc1-class");
    assert_eq!(class["spec"]["role"], "KarpenterNodeRole");
    assert_eq!(
        class["spec"]["amiSelectorTerms"],
        json!([{"alias": "al2023@latest"}])
    );
    assert_eq!(
        class["spec"]["subnetSelectorTerms"][0]["tags"]["kubernetes.io/role/internal-elb"],
        "1"
    );
    let older = node_class(&documented(), &defaults, ClassVersion::V1beta1).unwrap();
    assert_eq!(older["apiVersion"], "karpenter.k8s.aws/v1beta1");
    assert_eq!(older["spec"]["amiFamily"], "AL2023");
}

#[test]
fn empty_tags_cannot_be_rendered() {
    let pool = pool(&json!({"region": "eu-central-1", "role": "r"}));
    let refused = node_class(&pool, &ClassDefaults::default(), ClassVersion::V1).unwrap_err();
    assert!(refused.contains("spec.subnetSelectorTags"), "{refused}");
}

#[test]
fn durations_become_what_karpenter_reads() {
    let after = |text: &str| {
        let pool = pool(&json!({"region": "eu-central-1", "consolidateAfter": text}));
        let rendered = node_pool(&pool, &choice(), &Market::default(), "c");
        rendered["spec"]["disruption"]["consolidateAfter"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(after("2m"), "2m");
    assert_eq!(after("1h30m"), "1h30m");
    assert_eq!(after("1.5h"), "5400s");
    assert_eq!(after("100ms"), "1s");
    assert_eq!(after("Never"), "Never");
}

#[test]
fn a_closed_fallback_takes_no_more_nodes_and_an_open_one_goes_first() {
    let open = fallback_pool(&documented(), &choice(), &Market::default(), "c", true);
    assert_eq!(open["spec"]["weight"], 60);
    assert_eq!(open["spec"]["limits"], Value::Null);
    assert_eq!(
        open["spec"]["template"]["spec"]["requirements"][1]["values"],
        json!(["on-demand"])
    );
    let closed = fallback_pool(&documented(), &choice(), &Market::default(), "c", false);
    assert_eq!(closed["spec"]["limits"], json!({"cpu": "0"}));
    assert_eq!(
        closed["metadata"]["name"],
        "leftover-gpu-spot-euc1-on-demand"
    );
}
