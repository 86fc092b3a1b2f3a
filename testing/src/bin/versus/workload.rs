//! What runs: ten deployments of different shapes, and the pool that may buy for them.

use serde_json::{Value, json};

/// Cores and memory of a pod of each deployment: from sidecar to database.
const SHAPES: [(&str, &str); 10] = [
    ("100m", "128Mi"),
    ("250m", "256Mi"),
    ("250m", "1Gi"),
    ("500m", "512Mi"),
    ("500m", "2Gi"),
    ("750m", "1Gi"),
    ("1", "1Gi"),
    ("1", "4Gi"),
    ("1500m", "3Gi"),
    ("2", "2Gi"),
];

/// The deployments, at two sizes.
pub(crate) struct Workload {
    /// Pods at first.
    pub(crate) first: usize,
    /// Pods that are left.
    pub(crate) then: usize,
}

impl Workload {
    pub(crate) fn new(first: usize, then: usize) -> Self {
        Workload { first, then }
    }

    /// The deployments with so many pods in all.
    pub(crate) fn deployments(pods: usize) -> Vec<Value> {
        let count = SHAPES.len();
        let shapes = SHAPES.iter().enumerate();
        shapes
            .map(|(index, shape)| {
                let replicas = pods / count + usize::from(index < pods % count);
                deployment(index, *shape, replicas)
            })
            .collect()
    }
}

fn deployment(index: usize, (cpu, memory): (&str, &str), replicas: usize) -> Value {
    let name = format!("app-{index}");
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{
                    "name": "main", "image": "none",
                    "resources": {"requests": {"cpu": cpu, "memory": memory}},
                }]},
            },
        },
    })
}

/// A pool that buys on demand, and may change its mind at once.
pub(crate) fn pool(group: &str, kind: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {
            "disruption": {
                "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s",
                "budgets": [{"nodes": "100%"}],
            },
            "template": {"spec": {
                "expireAfter": "Never",
                "nodeClassRef": {"group": group, "kind": kind, "name": "default"},
                "requirements": [
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                    {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                ],
            }},
        },
    })
}
