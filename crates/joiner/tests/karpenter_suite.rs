//! A sample of Karpenter's own end-to-end suite, on real control planes: the specs that take seconds.
//! `make karpenter-suite` runs all of them.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::PathBuf;
use std::time::Duration;

use joiner_testing::suite::{self, Settings};

const QUICK: [&str; 14] = [
    "Integration CRD Hash should have NodePool hash",
    "Integration Validation NodePool should error when a restricted label is used in labels (karpenter.sh/nodepool)",
    "Integration Validation NodePool should error when a requirement uses an unknown operator",
    "Integration Validation NodePool should error when consolidateAfter is negative",
    "Integration Validation NodePool should error when minValues for a requirement key is more than 50",
    "Integration DaemonSet should correctly account for host ports of uncached daemonset pods targeting different \
     instance types",
    "NodeClaim StandaloneNodeClaim should create a standard NodeClaim",
    "NodeClaim StandaloneNodeClaim should create a NodeClaim propagating all the NodeClaim spec details",
    "NodeClaim StandaloneNodeClaim should delete a NodeClaim from the node termination finalizer",
    "NodeClaim StandaloneNodeClaim should delete a NodeClaim if it references a NodeClass that doesn't exist",
    "Termination should terminate the node and the instance on deletion",
    "StaticCapacity Deprovisioning should scale down to zero",
    "Drift NodePool Drift Annotations",
    "CapacityBuffer PodTemplateRef Provisioning should provision capacity when a buffer with podTemplateRef is applied",
];

#[tokio::test]
async fn quick_specs_of_karpenters_own_suite_pass() {
    let mut specs = suite::list().await.unwrap();
    specs.retain(|spec| QUICK.contains(&spec.name.as_str()));
    assert_eq!(specs.len(), QUICK.len(), "{specs:#?}");
    let settings = Settings {
        joiner: PathBuf::from(env!("CARGO_BIN_EXE_joiner")),
        benches: 3,
        limit: Duration::from_mins(3),
        logs: None,
    };
    let verdicts = suite::run(&settings, specs, |_| ()).await.unwrap();
    let failed: Vec<_> = verdicts
        .iter()
        .filter(|verdict| verdict.failure.is_some())
        .collect();
    assert!(failed.is_empty(), "{failed:#?}");
}
