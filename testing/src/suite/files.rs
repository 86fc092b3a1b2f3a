//! The node class and the node pools that the suite is given.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::{Value, json};

use super::Spec;

/// Writes the node class for all specs and the node pool for `spec`.
pub(super) fn write(at: &Path, sold: &Path, spec: &Spec) -> Result<(PathBuf, PathBuf)> {
    let (class, pool) = (at.join("nodeclass.json"), at.join("nodepool.json"));
    let catalogue = at.join("catalogue.json");
    let sold: Value = serde_json::from_slice(&std::fs::read(sold)?)?;
    std::fs::write(&catalogue, machines(sold).to_string())?;
    std::fs::write(&class, node_class(&catalogue).to_string())?;
    std::fs::write(&pool, node_pool(&spec.name).to_string())?;
    Ok((class, pool))
}

/// What Karpenter's kwok provider sells to the suite: sizes below 32 cores, each without what that provider keeps back
/// for the kubelet (100m and 10Mi).
fn machines(sold: Value) -> Value {
    let Value::Array(mut types) = sold else {
        return sold;
    };
    types.retain_mut(|one| {
        let amounts = &mut one["resources"];
        let text = |amount: &Value| amount.as_str().unwrap_or_default().to_owned();
        let (cores, memory) = (text(&amounts["cpu"]), text(&amounts["memory"]));
        let memory = memory
            .strip_suffix("Gi")
            .and_then(|gi| gi.parse::<u64>().ok());
        let (Ok(cores @ 1..32), Some(memory)) = (cores.parse::<u64>(), memory) else {
            return false;
        };
        amounts["cpu"] = json!(format!("{}m", cores * 1000 - 100));
        amounts["memory"] = json!(format!("{}Mi", memory * 1024 - 10));
        true
    });
    Value::Array(types)
}

/// A simulated cloud that sells what Karpenter's kwok provider sells, as fast as it does.
fn node_class(catalogue: &Path) -> Value {
    json!({
        "apiVersion": "joiner.dev/v1alpha1", "kind": "SimNodeClass",
        "metadata": {"name": "default"},
        "spec": {
            "catalog": {"file": catalogue}, "kubelet": "Kwok",
            "bootTime": {"min": "0s", "max": "0s"}, "stopTime": "0s",
            // Specs in which a node never registers wait for this and for nothing else.
            "registrationTimeout": "3m",
        },
    })
}

/// The suite's own default pool, with the sizes that it asks of the kwok provider only.
fn node_pool(spec: &str) -> Value {
    let mut requirements = vec![
        json!({"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}),
        json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}),
    ];
    let cores = match spec.split_whitespace().next() {
        Some("CapacityBuffer") => Some(2),
        Some("StaticCapacity" | "NodeClaim") => Some(16),
        _ => None,
    };
    requirements.extend(cores.map(|cores| {
        let values = ["amd64", "arm64"].map(|arch| format!("c-{cores}x-{arch}-linux"));
        json!({"key": "node.kubernetes.io/instance-type", "operator": "In", "values": values})
    }));
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {
            "disruption": {
                "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "Never",
                "budgets": [{"nodes": "100%"}],
            },
            "limits": {"cpu": "10000", "memory": "8000Gi"},
            "template": {"spec": {
                "expireAfter": "Never",
                "requirements": requirements,
                "nodeClassRef": {"group": "joiner.dev", "kind": "SimNodeClass", "name": "default"},
            }},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_those_of_the_kwok_provider_without_what_the_kubelet_needs() {
        let one = |cpu: &str| json!({"name": cpu, "resources": {"cpu": cpu, "memory": "4Gi"}});
        let kept = machines(json!([one("2"), one("32"), one("64")]));
        let amounts = json!({"cpu": "1900m", "memory": "4086Mi"});
        assert_eq!(kept, json!([{"name": "2", "resources": amounts}]));
    }

    #[test]
    fn buffers_are_kept_on_two_cores_as_the_suite_has_it_with_kwok() {
        let pool = node_pool("CapacityBuffer Lifecycle works").to_string();
        assert!(pool.contains("c-2x-arm64-linux"), "{pool}");
        assert!(!node_pool("Drift works").to_string().contains("c-2x"));
    }
}
