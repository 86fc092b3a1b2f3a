//! The Node object and its Lease: what a kubelet says about itself.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::clock::rfc3339;
use crate::cluster::fields::{Fields as _, set};

/// The version that simulated kubelets report.
const KUBELET_VERSION: &str = "v1.34.4";
/// The taint of nodes that are not ready; the node controller takes it away.
pub(crate) const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// The namespace of node leases.
pub const LEASES: &str = "kube-node-lease";
/// How long a lease is valid, as kubelets write it.
const LEASE_SECONDS: i64 = 40;

/// A machine that boots with a kubelet on it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeSpec {
    /// Name of the node, which is also its host name.
    pub name: String,
    /// Labels besides those that every kubelet sets.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// `spec.providerID`.
    pub provider_id: String,
    /// `spec.taints`, as the API has them.
    pub taints: Vec<Value>,
    /// `status.capacity`; what is not given is filled with 4 CPUs, 16 GiB, 100 GiB of disk and 110 pods.
    pub capacity: BTreeMap<String, String>,
    /// `status.allocatable`, where it differs from the capacity.
    pub allocatable: BTreeMap<String, String>,
    /// From registration to ready. With none the node registers as ready.
    pub ready_after: SignedDuration,
    /// `amd64` unless it is given.
    pub architecture: Option<String>,
    /// What the firmware says; the name unless it is given.
    #[serde(default)]
    pub system_uuid: Option<String>,
}

impl NodeSpec {
    /// A machine of that name and otherwise ordinary.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    /// Sets a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Sets an amount of capacity.
    #[must_use]
    pub fn with(mut self, resource: &str, quantity: &str) -> Self {
        self.capacity
            .insert(resource.to_owned(), quantity.to_owned());
        self
    }

    /// Adds a taint.
    #[must_use]
    pub fn taint(mut self, key: &str, value: &str, effect: &str) -> Self {
        self.taints
            .push(json!({"key": key, "value": value, "effect": effect}));
        self
    }

    fn resources(&self) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
        let mut capacity = self.capacity.clone();
        for (name, quantity) in [
            ("cpu", "4"),
            ("memory", "16Gi"),
            ("ephemeral-storage", "100Gi"),
            ("pods", "110"),
        ] {
            capacity
                .entry(name.to_owned())
                .or_insert_with(|| quantity.to_owned());
        }
        let mut allocatable = capacity.clone();
        allocatable.extend(self.allocatable.clone());
        (capacity, allocatable)
    }
}

/// The Node as its kubelet registers it.
pub fn node_object(spec: &NodeSpec, address: &str, now: Timestamp) -> Value {
    let (capacity, allocatable) = spec.resources();
    let architecture = spec.architecture.as_deref().unwrap_or("amd64");
    let mut labels = BTreeMap::from([
        ("kubernetes.io/hostname", spec.name.as_str()),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", architecture),
        ("beta.kubernetes.io/os", "linux"),
        ("beta.kubernetes.io/arch", architecture),
    ]);
    labels.extend(
        spec.labels
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str())),
    );
    let ready = spec.ready_after.is_zero();
    let mut taints = spec.taints.clone();
    if !ready {
        taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
    }
    let mut node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": spec.name, "labels": labels, "annotations": spec.annotations},
        "spec": {"taints": taints},
        "status": {
            "capacity": capacity, "allocatable": allocatable,
            "addresses": [
                {"type": "InternalIP", "address": address},
                {"type": "Hostname", "address": spec.name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "architecture": architecture, "operatingSystem": "linux",
                "kubeletVersion": KUBELET_VERSION, "kubeProxyVersion": "",
                "containerRuntimeVersion": "sim://1", "kernelVersion": "6.12.0",
                "osImage": "Joiner simulated machine", "bootID": "", "machineID": spec.name,
                "systemUUID": spec.system_uuid.as_deref().unwrap_or(&spec.name),
            },
        },
    });
    if !spec.provider_id.is_empty() {
        set(
            &mut node,
            &["spec", "providerID"],
            spec.provider_id.as_str(),
        );
    }
    write_conditions(&mut node, ready, now);
    node
}

/// Writes the conditions that a living kubelet reports, with a fresh heartbeat.
pub fn write_conditions(node: &mut Value, ready: bool, now: Timestamp) {
    let stamp = rfc3339(now);
    let (reason, message) = if ready {
        ("KubeletReady", "kubelet is posting ready status")
    } else {
        ("KubeletNotReady", "container runtime network not ready")
    };
    let wanted = [
        (
            "MemoryPressure",
            "False",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available",
        ),
        (
            "DiskPressure",
            "False",
            "KubeletHasNoDiskPressure",
            "kubelet has no disk pressure",
        ),
        (
            "PIDPressure",
            "False",
            "KubeletHasSufficientPID",
            "kubelet has sufficient PID available",
        ),
        (
            "Ready",
            if ready { "True" } else { "False" },
            reason,
            message,
        ),
    ];
    // Conditions of others (a problem detector's, say) stay as they are.
    let mut conditions: Vec<Value> = node
        .items(&["status", "conditions"])
        .iter()
        .filter(|held| {
            wanted
                .iter()
                .all(|(kind, ..)| held.text(&["type"]) != *kind)
        })
        .cloned()
        .collect();
    for (kind, status, reason, message) in wanted {
        let since = node
            .condition(kind)
            .filter(|held| held.text(&["status"]) == status)
            .map_or(stamp.as_str(), |held| held.text(&["lastTransitionTime"]));
        conditions.push(json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": stamp, "lastTransitionTime": since,
        }));
    }
    set(node, &["status", "conditions"], conditions);
}

/// A node's Lease, renewed now.
pub fn lease_object(node: &Value, micros: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "name": node.name(), "namespace": LEASES,
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": node.name(), "uid": node.uid()},
            ],
        },
        "spec": {
            "holderIdentity": node.name(), "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": micros,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_registers_unready_and_tainted_unless_it_is_ready_at_once() {
        let mut spec = NodeSpec::named("n").label("zone", "a").with("cpu", "8");
        spec.ready_after = SignedDuration::from_secs(5);
        let node = node_object(&spec, "10.0.0.1", Timestamp::UNIX_EPOCH);
        assert!(!node.condition_true("Ready"));
        assert_eq!(node["spec"]["taints"][0].text(&["key"]), NOT_READY);
        assert_eq!(node.text(&["status", "allocatable", "cpu"]), "8");
        assert_eq!(node.text(&["status", "allocatable", "pods"]), "110");
        assert_eq!(node.label("kubernetes.io/hostname"), Some("n"));
        spec.ready_after = SignedDuration::ZERO;
        let node = node_object(&spec, "10.0.0.1", Timestamp::UNIX_EPOCH);
        assert!(node.condition_true("Ready"));
        assert!(node.items(&["spec", "taints"]).is_empty());
    }

    #[test]
    fn heartbeats_keep_transition_times_and_foreign_conditions() {
        let mut node = node_object(&NodeSpec::named("n"), "a", Timestamp::UNIX_EPOCH);
        let foreign = json!({"type": "KernelDeadlock", "status": "False"});
        node["status"]["conditions"]
            .as_array_mut()
            .unwrap()
            .push(foreign);
        let later = Timestamp::from_second(60).unwrap();
        write_conditions(&mut node, true, later);
        let ready = node.condition("Ready").unwrap();
        assert_eq!(ready.text(&["lastTransitionTime"]), "1970-01-01T00:00:00Z");
        assert_eq!(ready.text(&["lastHeartbeatTime"]), "1970-01-01T00:01:00Z");
        assert!(node.condition("KernelDeadlock").is_some());
    }
}
