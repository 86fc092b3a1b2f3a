//! A large cluster in the view: how much memory it takes, and how long a problem takes to write.

use std::sync::Arc;
use std::time::Instant;

use joiner_controllers::dialect::Event;
use joiner_controllers::edge::clock::SystemClock;
use joiner_controllers::view::nodes::lower_node;
use joiner_controllers::view::problem::Terms;
use joiner_controllers::view::{Observation, View};
use serde_json::json;

fn resident_mib() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: usize = text
        .split(' ')
        .nth(1)
        .and_then(|one| one.parse().ok())
        .unwrap_or(0);
    pages * 4096 / (1 << 20)
}

#[test]
fn five_thousand_nodes_and_fifty_thousand_pods_fit_in_little_memory() {
    let (view, _touched) = View::new(Arc::new(SystemClock));
    let before = resident_mib();
    for number in 0..5_000 {
        let node = json!({
            "metadata": {"name": format!("node-{number}"), "uid": format!("n-{number}"), "resourceVersion": "1",
                "labels": {"kubernetes.io/hostname": format!("node-{number}"), "kubernetes.io/arch": "amd64",
                    "topology.kubernetes.io/zone": "a", "node.kubernetes.io/instance-type": "m-16x"}},
            "spec": {"providerID": format!("sim:///a/{number}")},
            "status": {"capacity": {"cpu": "16", "memory": "64Gi", "pods": "110"},
                "allocatable": {"cpu": "15800m", "memory": "62Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True"}]}
        });
        let node = lower_node(serde_json::from_value(node).unwrap());
        view.observe("nodes", Observation::Node(Event::Changed(node)));
    }
    for number in 0..50_000 {
        let pod = json!({
            "metadata": {"name": format!("app-{number}"), "namespace": "default", "uid": format!("p-{number}"),
                "resourceVersion": "1", "labels": {"app": format!("app-{}", number % 100)}},
            "spec": {"nodeName": format!("node-{}", number % 5_000), "containers": [
                {"name": "main", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}]},
            "status": {"phase": "Running"}
        });
        let pod = serde_json::from_value(pod).unwrap();
        view.observe("pods", Observation::Pod(Event::Changed(Box::new(pod))));
    }
    let world = view.read();
    assert_eq!(
        (world.nodes.len(), world.pods.len(), world.specs()),
        (5_000, 50_000, 100)
    );
    let held = resident_mib().saturating_sub(before);
    let started = Instant::now();
    let snapshot = world.problem(&Terms::default(), jiff::Timestamp::UNIX_EPOCH);
    println!(
        "view {held} MiB, problem in {:?}, {} MiB in all",
        started.elapsed(),
        resident_mib()
    );
    assert_eq!(
        snapshot
            .problem
            .nodes
            .iter()
            .map(|node| node.pods.len())
            .sum::<usize>(),
        50_000
    );
    assert!(held < 150, "{held} MiB");
    assert!(resident_mib() < 400, "{} MiB", resident_mib());
}
