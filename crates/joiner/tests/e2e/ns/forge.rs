//! A cluster whose Joiner serves KubeNodeSmith's kinds, and what is seen of them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use joiner_testing::Seen;
use serde_json::{Value, json};

use crate::harness::{World, is_true, merge, paths, text};

pub(super) const HOME: &str = "kubenodesmith";
/// The namespace that everything is deployed to.
pub(super) const DEPLOYED: &str = "kubenodesmith-system";
pub(super) const GROUP: &str = "/apis/kubenodesmith.parawell.cloud/v1alpha1";
/// How long anything may take; a loaded machine is slow.
pub(super) const LIMIT: Duration = Duration::from_mins(4);

pub(super) fn config(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config");
    root.join(path).display().to_string()
}

/// Options of machines that boot so.
pub(super) fn boot(order: &str) -> Value {
    json!([{"name": "boot", "value": order}, {"name": "sockets", "value": 1}])
}

/// A cluster whose Joiner serves KubeNodeSmith's kinds in mock mode, with the namespace and the Secret of the document.
pub(super) struct Forge {
    pub(super) world: Arc<World>,
}

impl Forge {
    pub(super) async fn start() -> Self {
        let world = World::start().await;
        let mock = ["--dialect=nodesmith", "--mock-mode", "--leader-elect=false"];
        world.join_with("mock", &mock.map(str::to_owned));
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}});
        world.create("", &namespace).await;
        Forge { world }
    }

    pub(super) async fn secret(&self) {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "proxmox-api-secret"},
            "stringData": {"PROXMOX_TOKEN_ID": "joiner@pve!sim", "PROXMOX_SECRET": "sim-token-secret"}});
        self.world.create(HOME, &secret).await;
    }

    pub(super) async fn create(&self, kind: &str, name: &str, spec: Value) {
        let object = json!({"apiVersion": "kubenodesmith.parawell.cloud/v1alpha1", "kind": kind,
            "metadata": {"name": name}, "spec": spec});
        self.world.create(HOME, &object).await;
    }

    /// The document's provider, on all hosts of the simulated cluster.
    pub(super) async fn provider(&self) {
        self.provider_booting("order=net0").await;
    }

    pub(super) async fn provider_booting(&self, order: &str) {
        let spec = json!({
            "type": "proxmox",
            "credentialsSecretRef": {"name": "proxmox-api-secret"},
            "proxmox": {
                "endpoint": "https://10.0.4.30:8006/api2/json",
                "vmIDRange": {"lower": 1250, "upper": 1300},
                "managedNodeTag": "kubenodesmith-managed",
                "networkInterfaces": [{"name": "net0", "model": "virtio", "bridge": "vmbr0", "macPrefix": "02:00:00"}],
                "vmOptions": boot(order),
            },
        });
        self.create("NodeSmithProvider", "proxmox-production", spec)
            .await;
    }

    pub(super) async fn plane(&self, pools: &[&str]) {
        self.create(
            "NodeSmithControlPlane",
            "kubenodesmith",
            json!({ "pools": pools }),
        )
        .await;
    }

    pub(super) async fn pool(&self, name: &str, change: Value) {
        let mut spec = json!({
            "providerRef": "proxmox-production",
            "limits": {"minNodes": 0, "maxNodes": 0, "cpuCores": 0, "memoryMiB": 0},
            "machineTemplate": {"labels": {"node-role.kubernetes.io/worker": ""}},
            "scaleDown": {"stabilizationWindow": "3s"},
        });
        merge(&mut spec, change);
        self.create("NodeSmithPool", name, spec).await;
    }

    /// Everything that a pool needs, and the pool.
    pub(super) async fn ready(change: Value) -> Self {
        let forge = Self::start().await;
        forge.secret().await;
        forge.provider().await;
        forge.plane(&["small"]).await;
        forge.pool("small", change).await;
        forge
    }

    pub(super) async fn deploy(&self, app: &str, replicas: u32, cpu: &str) {
        self.deploy_as(app, replicas, cpu, json!({})).await;
    }

    /// Pods that need a machine each.
    pub(super) async fn deploy_apart(&self, app: &str, replicas: u32, cpu: &str) {
        let apart = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
            "topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}]}}});
        self.deploy_as(app, replicas, cpu, apart).await;
    }

    pub(super) async fn deploy_as(&self, app: &str, replicas: u32, cpu: &str, more: Value) {
        let mut template = json!({"metadata": {"labels": {"app": app}}, "spec": {
            "terminationGracePeriodSeconds": 1, "containers": [{
            "name": "main", "image": "none", "resources": {"requests": {"cpu": cpu, "memory": "512Mi"}}}]}});
        merge(&mut template["spec"], more);
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": app},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": app}}, "template": template}});
        self.world.create("default", &deployment).await;
    }

    pub(super) async fn undeploy(&self, app: &str) {
        let path = format!("/apis/apps/v1/namespaces/default/deployments/{app}");
        self.world.delete(&path).await;
    }

    pub(super) async fn get(&self, plural: &str, name: &str) -> Value {
        let path = format!("{GROUP}/namespaces/{HOME}/{plural}/{name}");
        self.world.get(&path).await.unwrap_or_default()
    }

    pub(super) async fn until(&self, what: &str, holds: impl FnMut(&Seen) -> bool) -> Seen {
        if !self.world.mirror().until(LIMIT, holds).await {
            let seen = self.world.mirror().seen();
            let claims: Vec<String> = seen
                .list(paths::SMITH_CLAIMS)
                .map(|one| format!("{} {}", one["metadata"]["name"], one["status"]))
                .collect();
            let pools: Vec<String> = seen
                .list(paths::SMITH_POOLS)
                .map(|one| one["status"].to_string())
                .collect();
            let logs = self.world.logs(60);
            panic!("{LIMIT:?} passed and still not: {what}\n{claims:#?}\n{pools:#?}\n{logs}");
        }
        self.world.mirror().seen()
    }
}

pub(super) fn running(seen: &Seen) -> usize {
    let ready = |pod: &&Arc<Value>| {
        pod["metadata"]["namespace"] == "default"
            && pod["metadata"]["deletionTimestamp"].is_null()
            && is_true(pod, "Ready")
    };
    seen.list(paths::PODS).filter(ready).count()
}

pub(super) fn claims(seen: &Seen) -> Vec<Arc<Value>> {
    seen.list(paths::SMITH_CLAIMS).cloned().collect()
}

/// Numbers of the machines that the simulated cluster has of ours.
pub(super) fn machines(seen: &Seen) -> usize {
    let mut maps = seen.list(paths::CONFIG_MAPS);
    let map = maps.find(|map| text(map, "/metadata/name") == "joiner-mock-proxmox");
    map.map_or(0, |map| {
        text(map, "/data/machines.json")
            .matches("kubenodesmith-managed")
            .count()
    })
}

/// BMCs of the simulated rack whose hosts have power, by what they themselves remember.
pub(super) fn powered(seen: &Seen) -> Vec<String> {
    let mut maps = seen.list(paths::CONFIG_MAPS);
    let map = maps.find(|map| text(map, "/metadata/name") == "joiner-mock-redfish");
    let known = map.and_then(|map| serde_json::from_str(text(map, "/data/hosts.json")).ok());
    let known: Value = known.unwrap_or_default();
    let hosts = known.as_object().into_iter().flatten();
    let on = hosts.filter(|(_, host)| host["power"] == true);
    on.map(|(bmc, _)| bmc.clone()).collect()
}

pub(super) fn condition(object: &Value, kind: &str) -> (String, String) {
    let all = object["status"]["conditions"].as_array();
    let one = all.into_iter().flatten().find(|one| one["type"] == kind);
    let said = |key: &str| one.map(|one| text(one, key).to_owned()).unwrap_or_default();
    (said("/reason"), said("/message"))
}

/// Whether claims, and the nodes that they have become, are within so many machines, cores and mebibytes.
pub(super) fn within(seen: &Seen, [machines, cores, memory]: [i64; 3]) -> bool {
    let all = claims(seen);
    let required = |key: &str| -> i64 {
        let all = all.iter();
        all.filter_map(|one| one["spec"]["requirements"][key].as_i64())
            .sum()
    };
    let nodes: Vec<&Arc<Value>> = seen.list(paths::NODES).collect();
    let capacity = |key: &str| -> i64 {
        let texts = nodes.iter().map(|one| &one["status"]["capacity"][key]);
        let texts = texts.filter_map(Value::as_str);
        let amounts = texts.filter_map(|text| joiner_core::quantity::parse(text).ok());
        amounts.sum()
    };
    let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    count(all.len()).max(count(nodes.len())) <= machines
        && required("cpuCores").max(capacity("cpu")) <= cores
        && required("memoryMiB").max(capacity("memory") >> 20) <= memory
}
