//! Bare metal: hosts of an inventory are powered on for pods and off when these are gone.

use std::sync::Arc;
use std::time::Duration;

use joiner_testing::Seen;
use serde_json::{Value, json};

use crate::harness::{World, is_true, paths, tests, text};

tests![
    ns_11_hosts_are_powered_on_for_pods_and_off_when_they_go,
    ns_11_two_classes_that_list_one_host_power_it_on_once,
];

const LIMIT: Duration = Duration::from_mins(4);

fn class(name: &str, hosts: &[usize]) -> Value {
    let host = |number: &usize| {
        json!({"name": format!("metal-{number}"), "address": format!("https://10.0.9.{}", 10 + number),
            "cpuCores": 8, "memoryMiB": 32768, "labels": {"topology.kubernetes.io/zone": "rack-a"}})
    };
    let hosts: Vec<Value> = hosts.iter().map(host).collect();
    json!({"apiVersion": "joiner.dev/v1alpha1", "kind": "RedfishNodeClass", "metadata": {"name": name},
        "spec": {"redfish": {"hosts": hosts, "credentialsSecretRef": {"name": "bmc"}, "powerOff": {"timeout": "10s"}}}})
}

fn pool(name: &str, class: &str) -> Value {
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": {
        "disruption": {"consolidateAfter": "2s", "consolidationPolicy": "WhenEmpty", "budgets": [{"nodes": "100%"}]},
        "template": {"metadata": {"labels": {"pool": name}}, "spec": {
            "nodeClassRef": {"group": "joiner.dev", "kind": "RedfishNodeClass", "name": class}, "requirements": []}}}})
}

fn deployment(name: &str, replicas: u32, selector: Value) -> Value {
    let template = json!({"metadata": {"labels": {"app": name}}, "spec": {"nodeSelector": selector,
        "terminationGracePeriodSeconds": 1, "containers": [{
        "name": "main", "image": "none", "resources": {"requests": {"cpu": "5", "memory": "1Gi"}}}]}});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}})
}

fn running(seen: &Seen) -> usize {
    let ready =
        |pod: &&Arc<Value>| pod["metadata"]["namespace"] == "default" && is_true(pod, "Ready");
    seen.list(paths::PODS).filter(ready).count()
}

/// The simulated hosts that have power.
fn powered(seen: &Seen) -> usize {
    let mut maps = seen.list(paths::CONFIG_MAPS);
    let map = maps.find(|map| text(map, "/metadata/name") == "joiner-mock-redfish");
    let hosts = map.map(|map| text(map, "/data/hosts.json").to_owned());
    let hosts: Value = serde_json::from_str(&hosts.unwrap_or_default()).unwrap_or_default();
    let hosts = hosts.as_object().cloned().unwrap_or_default();
    hosts.values().filter(|host| host["power"] == true).count()
}

fn claimed(seen: &Seen) -> usize {
    let maps = seen.list(paths::CONFIG_MAPS);
    maps.filter(|map| text(map, "/metadata/name").starts_with("joiner-ledger-"))
        .count()
}

async fn start() -> Arc<World> {
    let world = World::start().await;
    let mock = ["--mock-mode", "--leader-elect=false"].map(str::to_owned);
    world.join_with("mock", &mock);
    world
}

async fn ns_11_hosts_are_powered_on_for_pods_and_off_when_they_go() {
    let world = start().await;
    world.create("", &class("racks", &[1, 2, 3])).await;
    world.create("", &pool("metal", "racks")).await;
    world
        .create("default", &deployment("web", 2, json!({})))
        .await;
    let named = |claim: &Arc<Value>| !text(claim, "/status/nodeName").is_empty();
    let all_run = |seen: &Seen| {
        running(seen) == 2
            && powered(seen) == 2
            && claimed(seen) == 2
            && seen.list(paths::CLAIMS).all(named)
    };
    assert!(
        world.mirror().until(LIMIT, all_run).await,
        "{}",
        world.logs(80)
    );
    let seen = world.mirror().seen();
    for claim in seen.list(paths::CLAIMS) {
        let id = text(claim, "/status/providerID");
        assert!(
            id.starts_with("redfish://10.0.9.1") && !id.contains('#'),
            "{id}"
        );
        assert!(
            text(claim, "/status/nodeName").starts_with("metal-"),
            "{claim}"
        );
    }
    for node in seen.list(paths::NODES) {
        assert_eq!(
            node["metadata"]["labels"]["topology.kubernetes.io/zone"],
            "rack-a"
        );
    }
    world
        .delete("/apis/apps/v1/namespaces/default/deployments/web")
        .await;
    let empty = |seen: &Seen| {
        powered(seen) == 0
            && claimed(seen) == 0
            && seen.list(paths::NODES).count() == 0
            && seen.list(paths::CLAIMS).count() == 0
    };
    assert!(
        world.mirror().until(LIMIT, empty).await,
        "{}",
        world.logs(80)
    );
}

async fn ns_11_two_classes_that_list_one_host_power_it_on_once() {
    let world = start().await;
    for name in ["one", "two"] {
        world.create("", &class(name, &[1])).await;
        world.create("", &pool(name, name)).await;
        let only = json!({"pool": name});
        world.create("default", &deployment(name, 1, only)).await;
    }
    let watch = world.mirror().always("one host is one machine", |seen| {
        claimed(seen) <= 1 && seen.list(paths::NODES).count() <= 1
    });
    assert!(
        world.mirror().until(LIMIT, |seen| running(seen) == 1).await,
        "{}",
        world.logs(80)
    );
    tokio::time::sleep(Duration::from_secs(20)).await;
    watch.check();
    assert_eq!(running(&world.mirror().seen()), 1);
}
