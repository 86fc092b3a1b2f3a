//! The scheduler in a running cluster, on virtual time.

mod common;

use common::{cluster, condition, edit, node_of, pass, pod, pods, ready, text, until};
use joiner_embedded::api::{DeleteOptions, Local};
use joiner_embedded::cluster::kubelet::NodeSpec;
use serde_json::{Value, json};

fn events(api: &Local, reason: &str) -> Vec<String> {
    let mut events = api.list("events");
    events.retain(|event| event["reason"] == reason);
    events
        .iter()
        .map(|event| text(event, "/message").to_owned())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_fits_nowhere_says_why_and_runs_as_soon_as_there_is_room() {
    let cluster = cluster(1).await;
    let api = cluster.api();
    api.create("pods", "default", pod("first", "3")).unwrap();
    until("the first runs", || ready(&api, "first").len() == 1).await;
    api.create("pods", "default", pod("second", "2")).unwrap();
    pass(5).await;
    let waiting = api.get("pods", "default", "second").unwrap();
    let scheduled = condition(&waiting, "PodScheduled");
    assert_eq!(scheduled["status"], "False");
    assert_eq!(scheduled["reason"], "Unschedulable");
    let message = "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.";
    assert_eq!(scheduled["message"], message);
    assert_eq!(events(&api, "FailedScheduling"), [message]);
    assert_eq!(
        events(&api, "Scheduled"),
        ["Successfully assigned default/first to n1"]
    );
    cluster.kubelets().boot(NodeSpec::named("n2"));
    until("it runs on the new node", || {
        ready(&api, "second").len() == 1
    })
    .await;
    assert_eq!(node_of(&api, "second"), "n2");

    api.create("pods", "default", pod("third", "3")).unwrap();
    pass(60).await;
    assert_eq!(node_of(&api, "third"), "");
    api.delete("pods", "default", "first", DeleteOptions::default())
        .unwrap();
    until("it runs where room was made", || {
        ready(&api, "third").len() == 1
    })
    .await;
    assert_eq!(node_of(&api, "third"), "n1");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_more_important_pod_takes_the_place_that_it_was_promised() {
    let cluster = cluster(1).await;
    let api = cluster.api();
    let mut low = pod("low", "3");
    low["metadata"]["annotations"] = json!({"sim.joiner.dev/stop-seconds": "20"});
    api.create("pods", "default", low).unwrap();
    until("the low one runs", || ready(&api, "low").len() == 1).await;
    let mut high = pod("high", "3");
    high["spec"]["priorityClassName"] = json!("important");
    let class = json!({"metadata": {"name": "important"}, "value": 1000});
    api.create("priorityclasses.scheduling.k8s.io", "", class)
        .unwrap();
    api.create("pods", "default", high).unwrap();
    pass(5).await;
    let waiting = api.get("pods", "default", "high").unwrap();
    assert_eq!(waiting["status"]["nominatedNodeName"], "n1");
    let victim = api.get("pods", "default", "low").unwrap();
    assert!(!victim["metadata"]["deletionTimestamp"].is_null());
    assert_eq!(
        condition(&victim, "DisruptionTarget")["reason"],
        "PreemptionByScheduler"
    );
    // The promise holds against a pod of lower priority that comes while the victim winds down.
    api.create("pods", "default", pod("late", "3")).unwrap();
    until("the high one runs", || ready(&api, "high").len() == 1).await;
    assert_eq!(node_of(&api, "late"), "");
    assert!(pods(&api, "low").is_empty());
    assert_eq!(events(&api, "Preempted").len(), 1);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn gates_hold_a_pod_back_until_they_are_removed() {
    let cluster = cluster(1).await;
    let api = cluster.api();
    let mut gated = pod("gated", "1");
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/quota"}]);
    api.create("pods", "default", gated).unwrap();
    pass(30).await;
    assert_eq!(node_of(&api, "gated"), "");
    edit(&api, "pods", "gated", |pod| {
        pod["spec"]
            .as_object_mut()
            .unwrap()
            .remove("schedulingGates");
    });
    until("it runs", || ready(&api, "gated").len() == 1).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn another_schedulers_pods_are_left_alone() {
    let cluster = cluster(1).await;
    let api = cluster.api();
    let mut foreign = pod("foreign", "1");
    foreign["spec"]["schedulerName"] = json!("other");
    api.create("pods", "default", foreign).unwrap();
    pass(60).await;
    assert_eq!(node_of(&api, "foreign"), "");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_waits_is_bound_in_the_zone_of_its_first_pod_and_keeps_later_pods_there() {
    let cluster = cluster(0).await;
    let api = cluster.api();
    for (name, zone) in [("a", "1"), ("b", "2")] {
        let spec = NodeSpec::named(name).label("topology.kubernetes.io/zone", zone);
        cluster.kubelets().boot(spec);
    }
    api.create("storageclasses.storage.k8s.io", "", json!({
        "metadata": {"name": "zonal"}, "provisioner": "disks.example.com", "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["2"]}]}],
    }))
    .unwrap();
    api.create(
        "persistentvolumeclaims",
        "default",
        json!({
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "zonal",
                     "resources": {"requests": {"storage": "1Gi"}}},
        }),
    )
    .unwrap();
    pass(10).await;
    let claim = || {
        api.get("persistentvolumeclaims", "default", "data")
            .unwrap()
    };
    assert_eq!(claim()["status"]["phase"], "Pending");
    let using = |name: &str| {
        let mut pod = pod(name, "1");
        pod["spec"]["volumes"] =
            json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
        pod
    };
    api.create("pods", "default", using("first")).unwrap();
    until("the first runs", || ready(&api, "first").len() == 1).await;
    assert_eq!(node_of(&api, "first"), "b");
    assert_eq!(claim()["status"]["phase"], "Bound");
    let volume = api
        .get("persistentvolumes", "", text(&claim(), "/spec/volumeName"))
        .unwrap();
    assert_eq!(volume["status"]["phase"], "Bound");
    edit(&api, "nodes", "b", |node| {
        node["spec"]["unschedulable"] = json!(true);
    });
    api.create("pods", "default", using("second")).unwrap();
    pass(30).await;
    assert_eq!(
        node_of(&api, "second"),
        "",
        "the volume cannot be reached from the other zone"
    );

    for name in ["first", "second"] {
        api.delete("pods", "default", name, DeleteOptions::default())
            .unwrap();
    }
    until("the pods are gone", || api.list("pods").is_empty()).await;
    api.delete(
        "persistentvolumeclaims",
        "default",
        "data",
        DeleteOptions::default(),
    )
    .unwrap();
    until("the volume went with its claim", || {
        api.list("persistentvolumes").is_empty()
    })
    .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn ephemeral_volumes_come_and_go_with_their_pod() {
    let cluster = cluster(1).await;
    let api = cluster.api();
    api.create("storageclasses.storage.k8s.io", "", json!({
        "metadata": {"name": "fast"}, "provisioner": "disks.example.com", "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    }))
    .unwrap();
    let mut scratch = pod("scratch", "1");
    scratch["spec"]["volumes"] = json!([{"name": "tmp", "ephemeral": {"volumeClaimTemplate": {"spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
        "resources": {"requests": {"storage": "1Gi"}},
    }}}}]);
    api.create("pods", "default", scratch).unwrap();
    until("it runs", || ready(&api, "scratch").len() == 1).await;
    assert!(
        api.get("persistentvolumeclaims", "default", "scratch-tmp")
            .is_ok()
    );
    api.delete("pods", "default", "scratch", DeleteOptions::default())
        .unwrap();
    until("all is gone", || {
        api.list("pods").is_empty()
            && api.list("persistentvolumeclaims").is_empty()
            && api.list("persistentvolumes").is_empty()
    })
    .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn spread_and_anti_affinity_hold_for_a_whole_deployment() {
    let cluster = cluster(0).await;
    let api = cluster.api();
    for number in 0..6 {
        let zone = ["a", "b", "c"][number % 3];
        cluster
            .kubelets()
            .boot(NodeSpec::named(format!("n{number}")).label("zone", zone));
    }
    let mut web = common::deployment("web", 6);
    web["spec"]["template"]["spec"]["topologySpreadConstraints"] = json!([{
        "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }]);
    web["spec"]["template"]["spec"]["affinity"] = json!({"podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}],
    }});
    api.create("deployments.apps", "default", web).unwrap();
    common::rolled_out(&api, "web", 6).await;
    let mut nodes: Vec<String> = ready(&api, "web")
        .iter()
        .map(|pod| text(pod, "/spec/nodeName").to_owned())
        .collect();
    nodes.sort();
    assert_eq!(nodes, ["n0", "n1", "n2", "n3", "n4", "n5"]);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn equal_runs_with_every_kind_of_work_leave_equal_logs() {
    async fn run(seed: u64) -> (String, u64) {
        let options = joiner_embedded::cluster::ClusterOptions {
            seed,
            ..Default::default()
        };
        let cluster = joiner_embedded::cluster::Cluster::start(&options);
        let api = cluster.api();
        for number in 0..5 {
            cluster
                .kubelets()
                .boot(NodeSpec::named(format!("n{number}")));
        }
        api.create("deployments.apps", "default", common::deployment("web", 8))
            .unwrap();
        api.create("daemonsets.apps", "default", json!({
            "metadata": {"name": "agent"},
            "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": common::template("agent", "i", "50m")},
        }))
        .unwrap();
        let mut work = common::template("sum", "i", "100m");
        work["metadata"]["annotations"] = json!({"sim.joiner.dev/run-seconds": "15"});
        work["spec"]["restartPolicy"] = json!("Never");
        let job: Value = json!({"metadata": {"name": "sum"}, "spec": {"parallelism": 3, "completions": 9, "template": work}});
        api.create("jobs.batch", "default", job).unwrap();
        pass(30).await;
        cluster.kubelets().kill("n0");
        edit(&api, "deployments.apps", "web", |web| {
            web["spec"]["template"]["spec"]["containers"][0]["image"] = json!("example.com/app:2");
        });
        pass(600).await;
        assert!(cluster.ended().is_empty());
        let log = (api.event_log_hash(), api.event_count());
        cluster.stop().await;
        log
    }
    let first = run(3).await;
    assert!(first.1 > 500, "enough happened: {}", first.1);
    assert_eq!(first, run(3).await);
    assert_ne!(first.0, run(4).await.0, "another seed gives other names");
}
