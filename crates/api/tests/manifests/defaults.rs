//! The defaults that the CRDs state are those that the types fill in.

use joiner_api::{joiner, karpenter, leftover, nodesmith};
use serde::Serialize;
use serde_json::Value;

fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap()
}

/// Default that the schema of a CRD states for a field.
fn stated(crd: &str, path: &str) -> Value {
    let crds = joiner_api::crds(None);
    let name = Some(crd);
    let crd = crds
        .iter()
        .find(|crd| crd.metadata.name.as_deref() == name)
        .unwrap();
    let value = serde_json::to_value(crd).unwrap();
    let schema = &value["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let pointer = format!("/properties/{}", path.replace('.', "/properties/"));
    schema.pointer(&pointer).unwrap()["default"].clone()
}

/// Asserts that each field's default in the schema is the value that the types fill in.
fn assert_defaults<const N: usize>(crd: &str, fields: [(&str, Value); N]) {
    for (field, filled_in) in fields {
        assert_eq!(stated(crd, field), filled_in, "{crd}: {field}");
    }
}

#[test]
fn defaults_of_karpenter_types_are_those_of_the_crds() {
    let pool = karpenter::NodePoolSpec::default();
    let disruption = pool.disruption();
    assert_defaults(
        "nodepools.karpenter.sh",
        [
            (
                "spec.template.spec.expireAfter",
                json(&pool.template.spec.expire_after()),
            ),
            (
                "spec.disruption.consolidationPolicy",
                json(&disruption.consolidation_policy),
            ),
            ("spec.disruption.budgets", json(&disruption.budgets)),
        ],
    );
    let stated = stated("nodepools.karpenter.sh", "spec.disruption");
    assert_eq!(
        stated["consolidateAfter"],
        json(&disruption.consolidate_after)
    );
    let claim = karpenter::NodeClaimSpec::default();
    assert_defaults(
        "nodeclaims.karpenter.sh",
        [("spec.expireAfter", json(&claim.expire_after()))],
    );
}

#[test]
fn defaults_of_other_dialects_are_those_of_the_crds() {
    let spec = leftover::LeftoverNodePoolSpec::default();
    assert_defaults(
        "leftovernodepools.gpu.devplatforms.io",
        [
            ("spec.minGPUs", json(&spec.min_gpus())),
            ("spec.targetCount", json(&spec.target_count())),
            ("spec.minSpotScore", json(&spec.min_spot_score())),
            ("spec.maxInstanceTypes", json(&spec.max_instance_types())),
            ("spec.maxZones", json(&spec.max_zones())),
            ("spec.capacityType", json(&spec.capacity_type())),
            ("spec.budgetsNodes", json(&spec.budgets_nodes())),
            ("spec.consolidateAfter", json(&spec.consolidate_after())),
            ("spec.requeueMinutes", json(&spec.requeue_minutes())),
            ("spec.onDemandFallback", json(&spec.on_demand_fallback())),
            ("spec.regionPolicy", json(&spec.region_policy())),
        ],
    );
    let pool = nodesmith::NodeSmithPoolSpec::default();
    assert_defaults(
        "nodesmithpools.kubenodesmith.parawell.cloud",
        [("spec.poolLabelKey", json(&pool.pool_label_key()))],
    );
}

#[test]
fn defaults_of_our_own_node_classes_are_those_of_the_crds() {
    let spec = joiner::SimNodeClassSpec::default();
    let interruptions = joiner::Interruptions::default();
    assert_defaults(
        "simnodeclasses.joiner.dev",
        [
            ("spec.seed", json(&spec.seed())),
            ("spec.bootTime.min", json(&spec.boot_time().min)),
            ("spec.bootTime.max", json(&spec.boot_time().max)),
            ("spec.stopTime", json(&spec.stop_time())),
            ("spec.kubelet", json(&spec.kubelet())),
            (
                "spec.catalog.configMapKeyRef.key",
                json(&joiner::ConfigMapKeyRef::default().key()),
            ),
            (
                "spec.spotPrices.every",
                json(&joiner::SpotPrices::default().every()),
            ),
            (
                "spec.stockOuts.every",
                json(&joiner::StockOuts::default().every()),
            ),
            ("spec.interruptions.every", json(&interruptions.every())),
            ("spec.interruptions.notice", json(&interruptions.notice())),
        ],
    );
    let bid = joiner::Bid::default();
    assert_defaults(
        "rackspacenodeclasses.joiner.dev",
        [
            ("spec.bid.percentile", json(&bid.percentile())),
            ("spec.bid.headroom", json(&bid.headroom())),
            (
                "spec.registrationTimeout",
                json(&joiner::RackspaceNodeClassSpec::default().registration_timeout()),
            ),
        ],
    );
    assert_defaults(
        "proxmoxnodeclasses.joiner.dev",
        [(
            "spec.registrationTimeout",
            json(&joiner::ProxmoxNodeClassSpec::default().registration_timeout()),
        )],
    );
    assert_defaults(
        "redfishnodeclasses.joiner.dev",
        [(
            "spec.registrationTimeout",
            json(&joiner::RedfishNodeClassSpec::default().registration_timeout()),
        )],
    );
}
