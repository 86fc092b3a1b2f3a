//! Nodes that come, are drained, shut down and die, on virtual time.

mod common;

use std::time::Duration;

use common::{
    cluster, condition, deployment, edit, name, node_of, pass, pod, pods, ready, rolled_out, text,
    until,
};
use jiff::SignedDuration;
use joiner_embedded::api::DeleteOptions;
use joiner_embedded::cluster::kubelet::NodeSpec;
use serde_json::{Value, json};

/// The tolerations that a real server's admission gives every pod.
fn bear_for(seconds: i64) -> Value {
    json!([
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds},
        {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds},
    ])
}

#[tokio::test(start_paused = true)]
async fn pods_wait_for_a_node_to_become_ready() {
    let cluster = cluster(0).await;
    let api = cluster.api();
    let mut spec = NodeSpec::named("slow");
    spec.ready_after = SignedDuration::from_secs(30);
    spec.provider_id = "sim://slow".to_owned();
    cluster.kubelets().boot(spec);
    api.create("pods", "default", pod("p", "1")).unwrap();
    pass(20).await;
    assert_eq!(node_of(&api, "p"), "");
    let waiting = api.get("pods", "default", "p").unwrap();
    let message = text(condition(&waiting, "PodScheduled"), "/message").to_owned();
    assert_eq!(
        message,
        "0/1 nodes are available: 1 node(s) had untolerated taint(s). preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    );
    until("it runs once the node is ready", || {
        ready(&api, "p").len() == 1
    })
    .await;
    let node = api.get("nodes", "", "slow").unwrap();
    assert_eq!(text(&node, "/spec/providerID"), "sim://slow");
    assert!(node["spec"]["taints"].as_array().is_none_or(Vec::is_empty));
    let lease = api
        .get("leases.coordination.k8s.io", "kube-node-lease", "slow")
        .unwrap();
    assert_eq!(lease["spec"]["holderIdentity"], "slow");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_node_that_dies_move_to_another() {
    let cluster = cluster(1).await;
    let api = cluster.api();
    let mut web = deployment("web", 2);
    web["spec"]["template"]["spec"]["tolerations"] = bear_for(300);
    api.create("deployments.apps", "default", web).unwrap();
    rolled_out(&api, "web", 2).await;
    cluster.kubelets().boot(NodeSpec::named("n2"));
    pass(60).await;
    cluster.kubelets().kill("n1");
    pass(45).await;
    let status = || {
        let node = api.get("nodes", "", "n1").unwrap();
        text(condition(&node, "Ready"), "/status").to_owned()
    };
    assert_eq!(status(), "True", "forty seconds of silence are nothing yet");
    pass(20).await;
    assert_eq!(status(), "Unknown");
    assert!(
        ready(&api, "web").is_empty(),
        "pods on a silent node do not count as serving"
    );
    pass(270).await;
    assert_eq!(pods(&api, "web").len(), 2, "they are waited for");
    until("they run elsewhere", || {
        let serving = ready(&api, "web");
        serving.len() == 2
            && serving
                .iter()
                .all(|pod| text(pod, "/spec/nodeName") == "n2")
    })
    .await;
    // The old pods cannot confirm their end; they go when the node does.
    assert_eq!(pods(&api, "web").len(), 4);
    api.delete("nodes", "", "n1", DeleteOptions::default())
        .unwrap();
    until("what the node left is gone", || {
        pods(&api, "web").len() == 2
    })
    .await;
    assert!(
        api.get("leases.coordination.k8s.io", "kube-node-lease", "n1")
            .is_err(),
        "its lease went with it"
    );
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_drain_respects_the_disruption_budget() {
    let cluster = cluster(2).await;
    let api = cluster.api();
    let mut web = deployment("web", 4);
    web["spec"]["template"]["metadata"]["annotations"] =
        json!({"sim.joiner.dev/ready-seconds": "10"});
    api.create("deployments.apps", "default", web).unwrap();
    api.create(
        "poddisruptionbudgets.policy",
        "default",
        json!({
            "metadata": {"name": "web"},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        }),
    )
    .unwrap();
    rolled_out(&api, "web", 4).await;
    until("one may be disrupted", || {
        let budget = api
            .get("poddisruptionbudgets.policy", "default", "web")
            .unwrap();
        budget["status"]["disruptionsAllowed"] == 1
    })
    .await;
    edit(&api, "nodes", "n1", |node| {
        node["spec"]["unschedulable"] = json!(true);
    });
    let mut refused = 0;
    let mut fewest = usize::MAX;
    for _ in 0..600 {
        let left: Vec<_> = pods(&api, "web")
            .into_iter()
            .filter(|pod| text(pod, "/spec/nodeName") == "n1")
            .collect();
        if left.is_empty() {
            break;
        }
        for pod in left
            .iter()
            .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null())
        {
            match api.evict("default", name(pod)) {
                Ok(()) => {}
                Err(error) => {
                    assert_eq!(error.code, 429);
                    refused += 1;
                }
            }
        }
        fewest = fewest.min(ready(&api, "web").len());
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert!(
        pods(&api, "web")
            .iter()
            .all(|pod| text(pod, "/spec/nodeName") != "n1"),
        "the node is empty"
    );
    assert!(refused > 0, "not all at once");
    assert!(fewest >= 3, "never more than one was missing: {fewest}");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_stopped_ends_its_pods_and_says_so() {
    let cluster = cluster(1).await;
    let api = cluster.api();
    let mut patient = pod("p", "1");
    patient["spec"]["tolerations"] = bear_for(300);
    api.create("pods", "default", patient).unwrap();
    until("it runs", || ready(&api, "p").len() == 1).await;
    cluster.kubelets().stop("n1");
    until("its end is told", || {
        let pod = api.get("pods", "default", "p").unwrap();
        pod["status"]["phase"] == "Failed" && pod["status"]["reason"] == "Terminated"
    })
    .await;
    let node = api.get("nodes", "", "n1").unwrap();
    assert_eq!(condition(&node, "Ready")["status"], "False");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_has_its_grace_and_no_more() {
    let cluster = cluster(1).await;
    let api = cluster.api();
    let mut slow = pod("slow", "1");
    slow["metadata"]["annotations"] = json!({"sim.joiner.dev/stop-seconds": "100"});
    slow["spec"]["terminationGracePeriodSeconds"] = json!(20);
    api.create("pods", "default", slow).unwrap();
    until("it runs", || ready(&api, "slow").len() == 1).await;
    api.delete("pods", "default", "slow", DeleteOptions::default())
        .unwrap();
    pass(19).await;
    assert_eq!(pods(&api, "slow").len(), 1);
    pass(3).await;
    assert!(pods(&api, "slow").is_empty());
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_refuses_what_was_bound_past_the_scheduler_and_does_not_fit() {
    let cluster = cluster(1).await;
    let api = cluster.api();
    let mut big = pod("big", "64");
    big["spec"]["nodeName"] = json!("n1");
    api.create("pods", "default", big).unwrap();
    until("it is refused", || {
        let pod = api.get("pods", "default", "big").unwrap();
        pod["status"]["phase"] == "Failed" && pod["status"]["reason"] == "OutOfcpu"
    })
    .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_has_ended_takes_no_room_on_its_node() {
    let cluster = cluster(1).await;
    let api = cluster.api();
    let mut task = pod("task", "3");
    task["spec"]["restartPolicy"] = json!("Never");
    task["metadata"]["annotations"] = json!({"sim.joiner.dev/run-seconds": "5"});
    api.create("pods", "default", task).unwrap();
    until("it ends", || {
        let pod = api.get("pods", "default", "task").unwrap();
        pod["status"]["phase"] == "Succeeded"
    })
    .await;
    api.create("pods", "default", pod("next", "3")).unwrap();
    until("another runs in its place", || {
        ready(&api, "next").len() == 1
    })
    .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn crashing_containers_are_started_again_and_again_with_longer_waits() {
    let cluster = cluster(1).await;
    let api = cluster.api();
    let mut crash = pod("crash", "1");
    crash["metadata"]["annotations"] =
        json!({"sim.joiner.dev/run-seconds": "1", "sim.joiner.dev/exit-code": "2"});
    api.create("pods", "default", crash).unwrap();
    pass(40).await;
    let pod = api.get("pods", "default", "crash").unwrap();
    let container = &pod["status"]["containerStatuses"][0];
    assert_eq!(container["state"]["waiting"]["reason"], "CrashLoopBackOff");
    assert_eq!(container["lastState"]["terminated"]["exitCode"], 2);
    assert_eq!(pod["status"]["phase"], "Running");
    assert_eq!(container["restartCount"], 3);
    cluster.stop().await;
}
