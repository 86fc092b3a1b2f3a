//! The page of a large cluster: the real binary on 5,000 nodes and 50,000 pods behind a real socket. How soon each panel
//! is there, and what the page costs the process that serves it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "only tests use this"
)]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use joiner_embedded::api::{ApiServer, Local, Options};
use joiner_embedded::clock::Clock;
use serde_json::{Value, json};

const NODES: usize = 5_000;
const PODS: usize = 50_000;
const WAITING: usize = 500;

const HANGS: Duration = Duration::from_mins(5);
/// What a person waits for, and what is asked for again at every change.
const FIRST: Duration = Duration::from_secs(1);
const AGAIN: Duration = Duration::from_millis(100);
/// How long the process is watched at rest.
const REST: Duration = Duration::from_mins(1);

const PANELS: [&str; 8] = [
    "/",
    "/demand",
    "/nodes",
    "/nodes?q=node-4999&sort=waste",
    "/activity",
    "/market",
    "/why/node/node-17",
    "/api/v1/overview",
];

/// Ends the process, however the test ends.
struct Joiner(Child);

impl Drop for Joiner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Joiner {
    /// Watches a cluster and writes nothing; with a page, if it has a port.
    fn observe(kubeconfig: &Path, page: u16) -> Self {
        let page = if page == 0 {
            "0".to_owned()
        } else {
            format!("127.0.0.1:{page}")
        };
        let child = Command::new(env!("CARGO_BIN_EXE_joiner"))
            .args(["run", "--observe-only", "--leader-elect=false"])
            .args(["--health-probe-bind-address=0", "--metrics-bind-address=0"])
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg(format!("--page-bind-address={page}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Joiner(child.unwrap())
    }

    /// Processor time that it has used, in all its threads.
    fn cpu(&self) -> Duration {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        let fields: Vec<&str> = text.rsplit(") ").next().unwrap().split(' ').collect();
        // utime and stime, in hundredths of a second: fields 14 and 15, the first two having been cut off.
        let ticks = fields[11..13].iter().map(|one| one.parse::<u64>().unwrap());
        Duration::from_millis(ticks.sum::<u64>() * 10)
    }

    /// The memory that it has.
    fn memory_mib(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = text
            .lines()
            .find(|line| line.starts_with("VmRSS:"))
            .unwrap();
        let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kib / 1024
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes and wants a machine that does nothing else: cargo test -p joiner --test page_at_scale -- --ignored"]
async fn the_page_of_five_thousand_nodes_is_there_at_once_and_costs_little() {
    let server = ApiServer::new(Clock::wall(), &Options::default());
    fill(&server.local());
    let port = server.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": format!("http://{}", port.address())}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}]});
    std::fs::write(&kubeconfig, config.to_string()).unwrap();

    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let page_port = free.local_addr().unwrap().port();
    drop(free);
    let base = format!("http://127.0.0.1:{page_port}");
    let joiner = Joiner::observe(&kubeconfig, page_port);
    let begun = Instant::now();
    let judged = async || -> Option<()> {
        let nodes = reqwest::get(format!("{base}/api/v1/nodes?limit=5000"))
            .await
            .ok()?;
        let nodes: Value = nodes.json().await.ok()?;
        let all = nodes["nodes"].as_array()?;
        (all.len() == NODES && all.iter().all(|one| !one["stays"].is_null())).then_some(())
    };
    while judged().await.is_none() {
        assert!(begun.elapsed() < HANGS, "it does not look at its nodes");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    println!("every node was judged within {:.1?}", begun.elapsed());

    let mut slow = Vec::new();
    for panel in PANELS {
        // Older than what is kept for a second.
        tokio::time::sleep(Duration::from_millis(1100)).await;
        let mut times = Vec::new();
        let mut size = 0;
        for _ in 0..15 {
            let begun = Instant::now();
            let answer = reqwest::get(format!("{base}{panel}")).await.unwrap();
            assert!(answer.status().is_success(), "{panel}: {}", answer.status());
            size = answer.bytes().await.unwrap().len();
            times.push(begun.elapsed());
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        let first = times[0];
        times.sort_unstable();
        let (median, most) = (times[times.len() / 2], times[times.len() - 1]);
        println!(
            "{panel}: first {first:.0?}, median {median:.0?}, most {most:.0?}, {} KiB",
            size / 1024
        );
        if first >= FIRST || median >= AGAIN {
            slow.push(panel);
        }
    }
    let memory = joiner.memory_mib();

    // A viewer who asks again every half second, which is as often as the page is told of changes.
    let viewer = tokio::spawn({
        let base = base.clone();
        async move {
            loop {
                let answer = reqwest::get(format!("{base}/")).await.unwrap();
                answer.bytes().await.unwrap();
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        }
    });
    let watched = at_rest(&joiner).await;
    viewer.abort();
    let served = at_rest(&joiner).await;
    drop(joiner);
    let bare = Joiner::observe(&kubeconfig, 0);
    tokio::time::sleep(Duration::from_secs(45)).await;
    let alone = at_rest(&bare).await;
    println!(
        "of one core: {alone:.1}% without a page, {served:.1}% with one that nobody looks at, {watched:.1}% with a viewer; \
         {} MiB without, {memory} MiB with",
        bare.memory_mib()
    );
    assert!(slow.is_empty(), "too slow: {slow:?}");
    assert!(served < alone + 5.0, "{served} beside {alone}");
}

/// Percent of one core that a process takes at rest.
async fn at_rest(joiner: &Joiner) -> f64 {
    let before = joiner.cpu();
    tokio::time::sleep(REST).await;
    joiner.cpu().saturating_sub(before).as_secs_f64() * 100.0 / REST.as_secs_f64()
}

/// Five thousand nodes of a pool that must not be disturbed, ten pods on each, and some that fit nowhere.
fn fill(api: &Local) {
    for crd in joiner_api::crds(None) {
        let object = serde_json::to_value(&crd).unwrap();
        api.create("customresourcedefinitions.apiextensions.k8s.io", "", object)
            .unwrap();
    }
    let class = json!({"metadata": {"name": "sim"}, "spec": {}});
    api.create("simnodeclasses.joiner.dev", "", class).unwrap();
    let class = json!({"group": "joiner.dev", "kind": "SimNodeClass", "name": "sim"});
    let disruption = json!({"consolidateAfter": "5s", "budgets": [{"nodes": "0"}]});
    let template = json!({"spec": {"nodeClassRef": class, "requirements": []}});
    let pool = json!({"metadata": {"name": "default"}, "spec": {"disruption": disruption, "template": template}});
    api.create("nodepools.karpenter.sh", "", pool).unwrap();
    for number in 0..NODES {
        node(api, number, &class);
    }
    for number in 0..PODS + WAITING {
        let fits = number < PODS;
        let cpu = if fits { "1" } else { "500" };
        let mut pod = json!({
            "metadata": {"name": format!("app-{number}"), "labels": {"app": format!("app-{}", number % 100)}},
            "spec": {"containers": [{"name": "main", "image": "none",
                "resources": {"requests": {"cpu": cpu, "memory": "2Gi"}}}]},
        });
        if fits {
            pod["spec"]["nodeName"] = json!(format!("node-{}", number % NODES));
        }
        let mut made = Value::clone(&*api.create("pods", "default", pod).unwrap());
        made["status"] = if fits {
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})
        } else {
            let waits =
                json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"});
            json!({"phase": "Pending", "conditions": [waits]})
        };
        api.update_status("pods", made).unwrap();
    }
}

fn node(api: &Local, number: usize, class: &Value) {
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
    let mut claim = Value::clone(&*api.create("nodeclaims.karpenter.sh", "", claim).unwrap());
    let owner = json!([{"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": name,
        "uid": claim["metadata"]["uid"], "blockOwnerDeletion": true}]);
    let since = "2026-01-01T00:00:00Z";
    let conditions = ["Launched", "Registered", "Initialized", "Ready"].map(|kind| {
        json!({"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": since})
    });
    claim["status"] = json!({"providerID": id, "nodeName": name, "capacity": capacity, "allocatable": allocatable,
        "conditions": conditions});
    api.update_status("nodeclaims.karpenter.sh", claim).unwrap();
    let node = json!({
        "metadata": {"name": name, "labels": labels, "finalizers": finalizers, "ownerReferences": owner},
        "spec": {"providerID": id},
    });
    let mut node = Value::clone(&*api.create("nodes", "", node).unwrap());
    node["spec"].as_object_mut().unwrap().remove("taints");
    let mut node = Value::clone(&*api.update("nodes", node).unwrap());
    node["status"] = json!({"capacity": capacity, "allocatable": allocatable,
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}]});
    api.update_status("nodes", node).unwrap();
}
