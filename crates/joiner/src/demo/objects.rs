//! What is in the demo's cluster: a cloud, a pool, a shop with a budget, an agent on every node, a job.

use joiner_embedded::api::{Local, Status};
use serde_json::{Value, json};

use super::story::Pace;

/// Creates everything.
pub(crate) fn create(api: &Local, seed: u64, pace: &Pace) -> Result<(), Status> {
    api.create("simnodeclasses.joiner.dev", "", cloud(seed, pace))?;
    api.create("nodepools.karpenter.sh", "", pool())?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    api.create("namespaces", "", namespace)?;
    api.create("deployments.apps", "shop", web())?;
    api.create("poddisruptionbudgets.policy", "shop", budget())?;
    api.create("daemonsets.apps", "kube-system", agent())?;
    api.create("jobs.batch", "shop", report("report", 3, 1))?;
    Ok(())
}

/// A cloud whose prices move and which takes a spot machine back now and then.
fn cloud(seed: u64, pace: &Pace) -> Value {
    json!({
        "apiVersion": "joiner.dev/v1alpha1", "kind": "SimNodeClass",
        "metadata": {"name": "default"},
        "spec": {
            "seed": seed,
            "spotPrices": {"swing": pace.swing, "every": pace.prices},
            "bootTime": {"min": "3s", "max": "8s"},
            "stockOuts": {"chance": "5%"},
            "interruptions": {"chance": "3%", "every": "15m", "notice": "1m"},
        },
    })
}

fn pool() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {
            "limits": {"cpu": "200"},
            "disruption": {"consolidateAfter": "20s", "budgets": [{"nodes": "50%"}]},
            "template": {"spec": {
                "nodeClassRef": {"group": "joiner.dev", "kind": "SimNodeClass", "name": "default"},
                "requirements": [
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]},
                ],
            }},
        },
    })
}

fn pod(app: &str, cpu: &str, memory: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{
            "name": app,
            "image": format!("example.com/{app}:1"),
            "resources": {"requests": {"cpu": cpu, "memory": memory}},
        }]},
    })
}

fn web() -> Value {
    let mut template = pod("web", "250m", "256Mi");
    template["spec"]["topologySpreadConstraints"] = json!([{
        "topologyKey": "topology.kubernetes.io/zone",
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }]);
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": 6, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    })
}

fn budget() -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"maxUnavailable": "50%", "selector": {"matchLabels": {"app": "web"}}},
    })
}

fn agent() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "agent"},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": pod("agent", "50m", "64Mi")},
    })
}

/// A job whose pods take a while each.
pub(crate) fn report(name: &str, completions: u32, parallelism: u32) -> Value {
    let mut template = pod(name, "500m", "512Mi");
    template["metadata"]["annotations"] = json!({"sim.joiner.dev/run-seconds": "20"});
    template["spec"]["restartPolicy"] = json!("Never");
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name},
        "spec": {"completions": completions, "parallelism": parallelism, "template": template},
    })
}
