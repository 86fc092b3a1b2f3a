//! Proxmox VE: virtual machines are made for pods and removed when these are gone.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use joiner_testing::Seen;
use serde_json::{Value, json};

use crate::harness::{World, is_true, paths, tests, text};

tests![
    ns_07_machines_are_made_for_pods_and_removed_when_they_go,
    ns_08_a_wrong_token_is_told_and_healed_by_mending_the_secret,
];

const LIMIT: Duration = Duration::from_mins(4);

fn secret(secret: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "proxmox-api-secret"},
        "stringData": {"PROXMOX_TOKEN_ID": "joiner@pve!sim", "PROXMOX_SECRET": secret}})
}

fn class() -> Value {
    json!({"apiVersion": "joiner.dev/v1alpha1", "kind": "ProxmoxNodeClass", "metadata": {"name": "racks"}, "spec": {
    "credentialsSecretRef": {"name": "proxmox-api-secret", "namespace": "default"},
    "proxmox": {
        "endpoint": "https://10.0.4.30:8006/api2/json",
        "vmIDRange": {"lower": 1250, "upper": 1300},
        "managedNodeTag": "joiner",
        "vmMemOverheadMiB": 256,
        "zones": {"pve1": "rack-a", "pve2": "rack-a", "pve3": "rack-b", "pve4": "rack-b"},
        "networkInterfaces": [{"name": "net0", "model": "virtio", "bridge": "vmbr0", "vlanTag": 20, "macPrefix": "02:00:00"}],
        "vmOptions": [{"name": "cpu", "value": "host"}, {"name": "boot", "value": "order=net0"}]
    }}})
}

fn pool() -> Value {
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "virtual"}, "spec": {
        "disruption": {"consolidateAfter": "2s", "consolidationPolicy": "WhenEmpty", "budgets": [{"nodes": "100%"}]},
        "template": {"spec": {
            "nodeClassRef": {"group": "joiner.dev", "kind": "ProxmoxNodeClass", "name": "racks"}, "requirements": []}}}})
}

fn deployment(replicas: u32) -> Value {
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "1500m", "memory": "3Gi"}}}]}});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}})
}

fn running(seen: &Seen) -> usize {
    let ready =
        |pod: &&Arc<Value>| pod["metadata"]["namespace"] == "default" && is_true(pod, "Ready");
    seen.list(paths::PODS).filter(ready).count()
}

/// Numbers of the machines that the simulated Proxmox has.
fn machines(seen: &Seen) -> BTreeSet<String> {
    let mut maps = seen.list(paths::CONFIG_MAPS);
    let map = maps.find(|map| text(map, "/metadata/name") == "joiner-mock-proxmox");
    let known = map.map(|map| text(map, "/data/machines.json").to_owned());
    let known: Value = serde_json::from_str(&known.unwrap_or_default()).unwrap_or_default();
    known
        .as_object()
        .map(|all| all.keys().cloned().collect())
        .unwrap_or_default()
}

async fn start() -> Arc<World> {
    let world = World::start().await;
    let mock = ["--mock-mode", "--leader-elect=false", "--catalog-period=5s"].map(str::to_owned);
    world.join_with("mock", &mock);
    world
}

async fn ns_07_machines_are_made_for_pods_and_removed_when_they_go() {
    let world = start().await;
    world.create("default", &secret("sim-token-secret")).await;
    world.create("", &class()).await;
    world.create("", &pool()).await;
    world.create("default", &deployment(12)).await;
    let all_run = |seen: &Seen| running(seen) == 12 && !machines(seen).is_empty();
    assert!(
        world.mirror().until(LIMIT, all_run).await,
        "{}",
        world.logs(80)
    );
    let seen = world.mirror().seen();
    let mut numbers = BTreeSet::new();
    for claim in seen.list(paths::CLAIMS) {
        let id = text(claim, "/status/providerID");
        let number = id
            .strip_prefix("proxmox://sim/vms/")
            .unwrap_or_else(|| panic!("{id}"));
        assert!(
            (1250..=1300).contains(&number.parse::<u32>().unwrap()),
            "{id}"
        );
        numbers.insert(number.to_owned());
    }
    assert_eq!(numbers, machines(&seen), "each machine has its object");
    assert!(numbers.len() < 12, "pods are packed together: {numbers:?}");
    for node in seen.list(paths::NODES) {
        let labels = &node["metadata"]["labels"];
        let zone = labels["topology.kubernetes.io/zone"]
            .as_str()
            .unwrap_or_default();
        assert!(["rack-a", "rack-b"].contains(&zone), "{labels}");
        assert_eq!(labels["node.kubernetes.io/instance-type"], "proxmox-16");
    }
    world
        .delete("/apis/apps/v1/namespaces/default/deployments/web")
        .await;
    let empty = |seen: &Seen| {
        machines(seen).is_empty()
            && seen.list(paths::NODES).count() == 0
            && seen.list(paths::CLAIMS).count() == 0
    };
    assert!(
        world.mirror().until(LIMIT, empty).await,
        "{}",
        world.logs(80)
    );
}

async fn ns_08_a_wrong_token_is_told_and_healed_by_mending_the_secret() {
    let world = start().await;
    world.create("default", &secret("wrong")).await;
    world.create("", &class()).await;
    world.create("", &pool()).await;
    world.create("default", &deployment(1)).await;
    let told = |seen: &Seen| {
        let events = seen
            .list(paths::EVENTS)
            .any(|event| text(event, "/message").contains("refuses the API token"));
        let pools = seen
            .list(paths::POOLS)
            .any(|pool| pool.to_string().contains("refuses the API token"));
        events || pools
    };
    assert!(
        world.mirror().until(LIMIT, told).await,
        "{}",
        world.logs(80)
    );
    assert!(
        !world.logs(400).contains("wrong\""),
        "the secret is in no log"
    );
    world
        .delete("/api/v1/namespaces/default/secrets/proxmox-api-secret")
        .await;
    world.create("default", &secret("sim-token-secret")).await;
    assert!(
        world.mirror().until(LIMIT, |seen| running(seen) == 1).await,
        "{}",
        world.logs(80)
    );
}
