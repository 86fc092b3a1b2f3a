//! A large cluster to measure on: nodes of one pool that must not be disturbed, ten pods on each or as many as is said,
//! and pods that wait.

use anyhow::{Result, anyhow};
use joiner_embedded::api::Local;
use serde_json::{Value, json};

/// How large it is.
#[derive(Clone, Copy, Debug)]
pub struct Large {
    /// Nodes.
    pub nodes: usize,
    /// Pods on them, of a core each.
    pub pods: usize,
    /// Pods that wait.
    pub waiting: usize,
    /// Cores that each of these asks for. A node has sixteen.
    pub cores: usize,
    /// After how long nodes may be weighed: `consolidateAfter`.
    pub settles: &'static str,
}

impl Default for Large {
    fn default() -> Self {
        Large {
            nodes: 5_000,
            pods: 50_000,
            waiting: 20,
            cores: 1,
            settles: "5s",
        }
    }
}

/// Since when everything is as it is.
const SINCE: &str = "2026-01-01T00:00:00Z";

impl Large {
    /// Makes all of it.
    pub fn fill(&self, api: &Local) -> Result<()> {
        for crd in joiner_api::crds(None) {
            let object = serde_json::to_value(&crd)?;
            create(
                api,
                "customresourcedefinitions.apiextensions.k8s.io",
                "",
                object,
            )?;
        }
        let class = json!({"metadata": {"name": "sim"}, "spec": {}});
        create(api, "simnodeclasses.joiner.dev", "", class)?;
        let class = json!({"group": "joiner.dev", "kind": "SimNodeClass", "name": "sim"});
        let disruption = json!({"consolidateAfter": self.settles, "budgets": [{"nodes": "0"}]});
        let template = json!({"spec": {"nodeClassRef": class, "requirements": []}});
        let pool = json!({"metadata": {"name": "default"}, "spec": {"disruption": disruption, "template": template}});
        create(api, "nodepools.karpenter.sh", "", pool)?;
        for number in 0..self.nodes {
            node(api, number, &class)?;
        }
        (0..self.pods + self.waiting).try_for_each(|number| self.pod(api, number))
    }

    /// One more pod that waits.
    pub fn wait_too(&self, api: &Local, name: &str) -> Result<()> {
        let made = create(api, "pods", "default", pod(name, "late", self.cores))?;
        status(api, "pods", waiting(made))
    }

    fn pod(&self, api: &Local, number: usize) -> Result<()> {
        let runs = number < self.pods;
        let cores = if runs { 1 } else { self.cores };
        let (name, app) = (format!("app-{number}"), format!("app-{}", number % 100));
        let mut pod = pod(&name, &app, cores);
        if runs {
            pod["spec"]["nodeName"] = json!(format!("node-{}", number % self.nodes));
        }
        let mut made = create(api, "pods", "default", pod)?;
        if runs {
            made["status"] =
                json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        } else {
            made = waiting(made);
        }
        status(api, "pods", made)
    }
}

fn pod(name: &str, app: &str, cores: usize) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app": app}},
        "spec": {"containers": [{"name": "main", "image": "none",
            "resources": {"requests": {"cpu": cores.to_string(), "memory": "2Gi"}}}]},
    })
}

/// A pod that the scheduler has found no node for.
fn waiting(mut pod: Value) -> Value {
    let said = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"});
    pod["status"] = json!({"phase": "Pending", "conditions": [said]});
    pod
}

fn create(api: &Local, resource: &str, namespace: &str, object: Value) -> Result<Value> {
    let made = api.create(resource, namespace, object);
    let made = made.map_err(|status| anyhow!("{resource}: {status:?}"))?;
    Ok(Value::clone(&made))
}

fn status(api: &Local, resource: &str, object: Value) -> Result<()> {
    let made = api.update_status(resource, object);
    made.map_err(|status| anyhow!("{resource}: {status:?}"))?;
    Ok(())
}

/// A node and its machine.
fn node(api: &Local, number: usize, class: &Value) -> Result<()> {
    let name = format!("node-{number}");
    let id = format!("sim:///sim-a/{number}");
    let labels = json!({
        "karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": "on-demand",
        "node.kubernetes.io/instance-type": "m-16x-amd64", "topology.kubernetes.io/zone": "sim-a",
        "topology.kubernetes.io/region": "sim", "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
        "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true", "kubernetes.io/hostname": name,
    });
    let capacity =
        json!({"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"});
    let allocatable =
        json!({"cpu": "15920m", "memory": "63Gi", "pods": "110", "ephemeral-storage": "100Gi"});
    let finalizers = json!(["karpenter.sh/termination"]);
    let claim = json!({
        "metadata": {"name": name, "labels": labels, "finalizers": finalizers},
        "spec": {"nodeClassRef": class, "requirements": []},
    });
    let mut claim = create(api, "nodeclaims.karpenter.sh", "", claim)?;
    let owner = json!([{"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": name,
        "uid": claim["metadata"]["uid"], "blockOwnerDeletion": true}]);
    let conditions = ["Launched", "Registered", "Initialized", "Ready"].map(|kind| {
        json!({"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": SINCE})
    });
    claim["status"] = json!({"providerID": id, "nodeName": name, "capacity": capacity, "allocatable": allocatable,
        "conditions": conditions});
    status(api, "nodeclaims.karpenter.sh", claim)?;
    let node = json!({
        "metadata": {"name": name, "labels": labels, "finalizers": finalizers, "ownerReferences": owner},
        "spec": {"providerID": id},
    });
    let mut node = create(api, "nodes", "", node)?;
    // A new node is tainted until its kubelet says that it is ready.
    if let Some(spec) = node["spec"].as_object_mut() {
        spec.remove("taints");
    }
    let node = api.update("nodes", node);
    let mut node = Value::clone(&*node.map_err(|status| anyhow!("nodes: {status:?}"))?);
    node["status"] = json!({"capacity": capacity, "allocatable": allocatable,
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": SINCE}]});
    status(api, "nodes", node)
}
