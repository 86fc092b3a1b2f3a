//! What is in the cluster of this story: three pools, a service that grows and shrinks, an agent on every node.

use joiner_embedded::api::{Local, Status};
use serde_json::{Value, json};

use super::Pools;
use super::stage::Timing;

/// Where the Secrets are.
pub(super) const HOME: &str = "joiner-system";
/// Secret of the simulated Proxmox, and what it accepts.
const TOKEN: &str = "proxmox-token";
/// Proxmox hosts, and how many threads and GiB each has: fewer than the burst asks for.
pub(super) const HOSTS: usize = 3;
/// Bare-metal servers.
pub(super) const SERVERS: usize = 2;
/// The namespace and the name of the service.
const SHOP: &str = "shop";

/// How long no pod has come or gone before a node of a pool is looked at. People who watch do not wait for minutes.
struct ConsolidateAfter {
    virtual_: &'static str,
    metal: &'static str,
    spot: &'static str,
}

impl ConsolidateAfter {
    fn of(timing: Timing) -> Self {
        match timing {
            Timing::Real => ConsolidateAfter {
                virtual_: "1m",
                metal: "10m",
                spot: "5m",
            },
            Timing::Quick => ConsolidateAfter {
                virtual_: "5s",
                metal: "20s",
                spot: "10s",
            },
        }
    }
}

/// Creates everything.
pub(super) fn create(api: &Local, pools: Pools, timing: Timing) -> Result<(), Status> {
    let quiet = ConsolidateAfter::of(timing);
    for name in [HOME, SHOP] {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        api.create("namespaces", "", namespace)?;
    }
    if pools == Pools::OwnFirst {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": TOKEN},
            "stringData": {"PROXMOX_TOKEN_ID": "joiner@pve!sim", "PROXMOX_SECRET": "sim-token-secret"}});
        api.create("secrets", HOME, secret)?;
        api.create("proxmoxnodeclasses.joiner.dev", "", hosts())?;
        api.create("redfishnodeclasses.joiner.dev", "", servers())?;
        api.create(
            "nodepools.karpenter.sh",
            "",
            pool("virtual", "ProxmoxNodeClass", "racks", quiet.virtual_),
        )?;
        api.create(
            "nodepools.karpenter.sh",
            "",
            pool("metal", "RedfishNodeClass", "servers", quiet.metal),
        )?;
    }
    api.create("rackspacenodeclasses.joiner.dev", "", cloud())?;
    let mut spot = pool("spot", "RackspaceNodeClass", "cloud", quiet.spot);
    spot["spec"]["template"]["spec"]["requirements"] =
        json!([{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}]);
    api.create("nodepools.karpenter.sh", "", spot)?;
    api.create("daemonsets.apps", "kube-system", agent())?;
    api.create("deployments.apps", SHOP, web())?;
    api.create("poddisruptionbudgets.policy", SHOP, budget())?;
    Ok(())
}

/// Changes how many pods the service has.
pub(super) fn scale(api: &Local, replicas: usize) -> Result<(), Status> {
    let mut web = Value::clone(&*api.get("deployments.apps", SHOP, "web")?);
    web["spec"]["replicas"] = json!(replicas);
    api.update("deployments.apps", web).map(drop)
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "json! writes it by reference"
)]
fn class(kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": "joiner.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

fn hosts() -> Value {
    let spec = json!({
        "credentialsSecretRef": {"name": TOKEN, "namespace": HOME},
        "proxmox": {
            "endpoint": "https://10.0.4.30:8006/api2/json",
            "vmIDRange": {"lower": 2000, "upper": 2999},
            "managedNodeTag": "joiner",
            "vmMemOverheadMiB": 256,
            "overcommit": {"cpuPercent": 150},
            "networkInterfaces": [{"name": "net0", "model": "virtio", "bridge": "vmbr0"}],
            "vmOptions": [{"name": "boot", "value": "order=net0"}],
        },
    });
    class("ProxmoxNodeClass", "racks", spec)
}

fn servers() -> Value {
    let server = |number: usize| {
        json!({"name": format!("metal-{number}"), "address": format!("https://10.0.9.{}", 10 + number),
            "cpuCores": 16, "memoryMiB": 64 * 1024})
    };
    let hosts: Vec<Value> = (1..=SERVERS).map(server).collect();
    class(
        "RedfishNodeClass",
        "servers",
        json!({"redfish": {"hosts": hosts}}),
    )
}

fn cloud() -> Value {
    class("RackspaceNodeClass", "cloud", json!({}))
}

fn pool(name: &str, kind: &str, class: &str, quiet: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {
            "disruption": {"consolidateAfter": quiet, "budgets": [{"nodes": "50%"}]},
            "template": {"spec": {
                "nodeClassRef": {"group": "joiner.dev", "kind": kind, "name": class},
                "requirements": [],
            }},
        },
    })
}

fn template(app: &str, cpu: &str, memory: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{
            "name": app, "image": format!("example.com/{app}:1"),
            "resources": {"requests": {"cpu": cpu, "memory": memory}},
        }]},
    })
}

fn web() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": template("web", "500m", "1Gi")},
    })
}

fn budget() -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"maxUnavailable": "10%", "selector": {"matchLabels": {"app": "web"}}},
    })
}

fn agent() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template("agent", "50m", "64Mi")},
    })
}
