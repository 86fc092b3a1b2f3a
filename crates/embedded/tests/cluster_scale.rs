//! A large cluster under the virtual clock: how long it takes, how much memory it needs, and that it repeats itself.

#![allow(clippy::unwrap_used, reason = "tests, and what only they call")]

use std::time::{Duration, Instant};

use jiff::SignedDuration;
use joiner_embedded::cluster::kubelet::NodeSpec;
use joiner_embedded::cluster::{Cluster, ClusterOptions};
use serde_json::json;

/// Creates nodes and deployments, waits until all pods run, and returns the hash of the event log.
async fn fill(seed: u64, nodes: usize, pods: usize) -> String {
    let options = ClusterOptions {
        seed,
        ..ClusterOptions::default()
    };
    let cluster = Cluster::start(&options);
    let api = cluster.api();
    for number in 0..nodes {
        let mut spec = NodeSpec::named(format!("node-{number:04}"))
            .with("cpu", "16")
            .with("memory", "64Gi")
            .label("topology.kubernetes.io/zone", ["a", "b", "c"][number % 3]);
        spec.ready_after = SignedDuration::from_secs(i64::try_from(number % 10).unwrap());
        cluster.kubelets().boot(spec);
    }
    let apps = 50;
    for app in 0..apps {
        let name = format!("app-{app}");
        let deployment = json!({
            "metadata": {"name": name},
            "spec": {
                "replicas": pods / apps, "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {
                        "containers": [{
                            "name": "main", "image": "example.com/app:1",
                            "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}},
                        }],
                        "topologySpreadConstraints": [{
                            "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
                            "whenUnsatisfiable": "DoNotSchedule",
                            "labelSelector": {"matchLabels": {"app": name}},
                        }],
                    },
                },
            },
        });
        api.create("deployments.apps", "default", deployment)
            .unwrap();
    }
    let running = || {
        let pods = api.list("pods");
        pods.iter()
            .filter(|pod| pod["status"]["phase"] == "Running")
            .count()
    };
    for _ in 0..120 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if running() == pods {
            break;
        }
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(running(), pods, "all pods run");
    assert!(cluster.ended().is_empty(), "every component is alive");
    let available: u64 = api
        .list("deployments.apps")
        .iter()
        .filter_map(|deployment| deployment["status"]["availableReplicas"].as_u64())
        .sum();
    assert_eq!(
        usize::try_from(available).unwrap(),
        pods,
        "every deployment knows it"
    );
    let hash = api.event_log_hash();
    cluster.stop().await;
    hash
}

/// The most memory this process has had, in MiB.
fn peak_memory_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|text| text.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or_default() / 1024
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_pods_run_on_a_thousand_nodes_within_a_minute_and_a_gibibyte() {
    let begun = Instant::now();
    fill(1, 1_000, 10_000).await;
    let took = begun.elapsed();
    let peak = peak_memory_mib();
    println!("10,000 pods on 1,000 nodes: {took:.1?} of real time, {peak} MiB at most");
    assert!(took < Duration::from_mins(1), "took {took:?}");
    assert!(peak < 1024, "needed {peak} MiB");
}

#[tokio::test(start_paused = true)]
async fn equal_seeds_give_equal_event_logs() {
    let first = fill(7, 30, 300).await;
    assert_eq!(first, fill(7, 30, 300).await);
}
