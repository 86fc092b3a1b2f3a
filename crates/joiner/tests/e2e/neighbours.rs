//! Joiner beside other controllers of nodes: Karpenter for AWS, Karpenter's own kwok provider, another Joiner.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use joiner_testing::{Process, Program, Seen, Signal};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{World, is_true, label, paths, tests, text};
use crate::kt::Cloudspace;

tests![
    objects_of_karpenter_for_aws_are_never_touched,
    karpenter_and_joiner_churn_side_by_side_and_never_touch_each_other,
    two_joiners_on_one_cloudspace_keep_their_servers,
];

/// How long anything may take; a loaded machine is slow.
const LIMIT: Duration = Duration::from_mins(3);
const FINALIZER: &str = "karpenter.sh/termination";

/// How long a scene lasts: the environment may ask for more.
fn lasts(seconds: u64) -> Duration {
    let asked = std::env::var("JOINER_E2E_NEIGHBOUR_SECONDS").ok();
    Duration::from_secs(asked.and_then(|text| text.parse().ok()).unwrap_or(seconds))
}

async fn objects_of_karpenter_for_aws_are_never_touched() {
    let world = World::start().await;
    world.join("joiner");
    let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
    let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "aws"},
        "spec": {"template": {"spec": {"nodeClassRef": class, "requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]}}}});
    world.create("", &pool).await;
    let claim = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": "aws-1", "finalizers": [FINALIZER], "labels": {"karpenter.sh/nodepool": "aws"}},
        "spec": {"nodeClassRef": class, "requirements": [
            {"key": "karpenter.sh/nodepool", "operator": "In", "values": ["aws"]}]}});
    let claim = world.create("", &claim).await;
    let status = json!({"status": {"nodeName": "ip-10-0-0-1", "providerID": "aws:///eu-1a/i-1"}});
    let claim_path = format!("{}/aws-1", paths::CLAIMS);
    let claim_before = world.patch(&format!("{claim_path}/status"), &status).await;
    let node = json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "ip-10-0-0-1", "finalizers": [FINALIZER],
            "labels": {"karpenter.sh/nodepool": "aws", "karpenter.sh/registered": "true"},
            "ownerReferences": [{"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": "aws-1",
                "uid": claim["metadata"]["uid"], "blockOwnerDeletion": true}]},
        "spec": {"providerID": "aws:///eu-1a/i-1"}});
    let client = world.plane().client().unwrap();
    let node = client
        .send(Method::POST, paths::NODES, Some(&node))
        .await
        .unwrap();
    let pool_before = world.get(&format!("{}/aws", paths::POOLS)).await.unwrap();
    // The node has no kubelet: the controller manager says so on it, and nobody else says anything.
    tokio::time::sleep(lasts(75)).await;
    let now = |path: String| {
        let world = Arc::clone(&world);
        async move {
            world
                .get(&path)
                .await
                .unwrap_or_else(|| panic!("{path} is gone:\n{}", world.logs(60)))
        }
    };
    assert_eq!(now(format!("{}/aws", paths::POOLS)).await, pool_before);
    assert_eq!(now(claim_path).await, claim_before);
    let after = now(format!("{}/ip-10-0-0-1", paths::NODES)).await;
    for field in [
        "uid",
        "finalizers",
        "labels",
        "annotations",
        "ownerReferences",
        "deletionTimestamp",
    ] {
        let before = &node["metadata"][field];
        // The controller manager adds an annotation of its own.
        let mut after = after["metadata"][field].clone();
        if field == "annotations"
            && let Some(all) = after.as_object_mut()
        {
            all.retain(|key, _| before.get(key).is_some() || key.starts_with("joiner.dev/"));
            if all.is_empty() {
                continue;
            }
        }
        assert_eq!(after, *before, "{field}\n{}", world.logs(60));
    }
    assert!(world.alive("joiner"));
}

/// Who wrote an object, with the part that each wrote.
fn writers(object: &Value) -> BTreeSet<(String, String)> {
    let fields = object["metadata"]["managedFields"].as_array();
    let writer = |one: &Value| {
        let manager = text(one, "/manager").to_owned();
        (manager, text(one, "/subresource").to_owned())
    };
    fields.into_iter().flatten().map(writer).collect()
}

/// Karpenter's own kwok provider, and kwok for everybody's nodes.
struct Karpenter {
    _controller: Process,
    _kwok: Process,
    _directories: [TempDir; 2],
}

impl Karpenter {
    async fn start(world: &World) -> Self {
        let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "kwoknodeclasses.karpenter.kwok.sh"},
            "spec": {"group": "karpenter.kwok.sh", "scope": "Cluster",
                "names": {"kind": "KWOKNodeClass", "listKind": "KWOKNodeClassList",
                    "plural": "kwoknodeclasses", "singular": "kwoknodeclass"},
                "versions": [{"name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object",
                        "x-kubernetes-preserve-unknown-fields": true}}}]}});
        let client = world.plane().client().unwrap();
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        client.send(Method::POST, path, Some(&crd)).await.unwrap();
        let classes = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses";
        while client.get(classes).await.is_err() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let class = json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass",
            "metadata": {"name": "default"}, "spec": {}});
        client
            .send(Method::POST, classes, Some(&class))
            .await
            .unwrap();
        // Nothing of Karpenter's says so, and until somebody does it launches nothing.
        let ready = json!({"type": "Ready", "status": "True", "reason": "Ready", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let status = json!({"status": {"conditions": [ready]}});
        world
            .patch(&format!("{classes}/default/status"), &status)
            .await;
        let programs = || joiner_testing::ensure(&[Program::Kwok, Program::KarpenterKwok]);
        tokio::task::spawn_blocking(programs)
            .await
            .unwrap()
            .expect("kwok and Karpenter");
        let directory = || {
            tempfile::Builder::new()
                .prefix("joiner-karpenter-")
                .tempdir()
                .unwrap()
        };
        let directories = [directory(), directory()];
        let plane = world.plane();
        let kubeconfig = plane.kubeconfig().display().to_string();
        let stages = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/kt/kwok.yaml");
        let kwok = [
            format!("--kubeconfig={kubeconfig}"),
            format!("--config={stages}"),
            "--manage-all-nodes=true".to_owned(),
            "--node-lease-duration-seconds=40".to_owned(),
        ];
        let catalogue = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/catalogue.json");
        let controller = [
            format!("KUBECONFIG={kubeconfig}"),
            format!("INSTANCE_TYPES_FILE_PATH={catalogue}"),
            "DISABLE_LEADER_ELECTION=true".to_owned(),
            "METRICS_PORT=0".to_owned(),
            "HEALTH_PROBE_PORT=0".to_owned(),
            "SYSTEM_NAMESPACE=kube-system".to_owned(),
            plane.program(Program::KarpenterKwok).display().to_string(),
        ];
        let env = Path::new("/usr/bin/env");
        Karpenter {
            _kwok: Process::start(
                "kwok",
                directories[0].path(),
                &plane.program(Program::Kwok),
                &kwok,
            )
            .unwrap(),
            _controller: Process::start("karpenter", directories[1].path(), env, &controller)
                .unwrap(),
            _directories: directories,
        }
    }
}

/// A pool and a deployment for it alone.
async fn side(world: &World, name: &str, class: Value) {
    let taint = json!({"key": "e2e.joiner.dev/side", "value": name, "effect": "NoSchedule"});
    let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {"disruption": {"consolidateAfter": "5s", "budgets": [{"nodes": "100%"}]},
            "template": {"metadata": {"labels": {"e2e.joiner.dev/side": name}}, "spec": {
                "nodeClassRef": class, "taints": [taint], "requirements": [
                    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]}}}});
    world.create("", &pool).await;
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"nodeSelector": {"e2e.joiner.dev/side": name},
                "tolerations": [{"key": "e2e.joiner.dev/side", "operator": "Exists"}],
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "main", "image": "none",
                    "resources": {"requests": {"cpu": "900m", "memory": "64Mi"}}}]}}}});
    world.create("default", &deployment).await;
}

fn running(seen: &Seen, app: &str) -> usize {
    let of_app = |pod: &&Arc<Value>| {
        label(pod, "app") == app
            && text(pod, "/status/phase") == "Running"
            && text(pod, "/metadata/deletionTimestamp").is_empty()
    };
    seen.list(paths::PODS).filter(of_app).count()
}

/// Claims and nodes of one side.
fn of_side<'a>(seen: &'a Seen, side: &'a str) -> impl Iterator<Item = &'a Arc<Value>> {
    let all = seen.list(paths::CLAIMS).chain(seen.list(paths::NODES));
    all.filter(move |one| label(one, "karpenter.sh/nodepool") == side)
}

#[expect(clippy::too_many_lines, reason = "one story")]
async fn karpenter_and_joiner_churn_side_by_side_and_never_touch_each_other() {
    let world = World::start().await;
    let class = json!({"apiVersion": "joiner.dev/v1alpha1", "kind": "SimNodeClass", "metadata": {"name": "default"},
        "spec": {"catalog": {"configMapKeyRef": {"namespace": "default", "name": "catalogue"}},
            "bootTime": {"min": "1s", "max": "2s"}, "kubelet": "Kwok"}});
    world.create("", &class).await;
    world.join("joiner");
    let _karpenter = Karpenter::start(&world).await;
    side(
        &world,
        "own",
        json!({"group": "joiner.dev", "kind": "SimNodeClass", "name": "default"}),
    )
    .await;
    side(
        &world,
        "other",
        json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}),
    )
    .await;
    let both = |count: usize| {
        move |seen: &Seen| running(seen, "own") == count && running(seen, "other") == count
    };
    let started = Instant::now();
    let mut round = 0;
    let mut touched: BTreeSet<(String, String)> = BTreeSet::new();
    let own: BTreeSet<String>;
    loop {
        // 3, 9, 1, 6, 3, 9, ...
        let count = [3, 9, 1, 6][round % 4];
        for app in ["own", "other"] {
            let path = format!("/apis/apps/v1/namespaces/default/deployments/{app}");
            world
                .patch(&path, &json!({"spec": {"replicas": count}}))
                .await;
        }
        assert!(
            world.mirror().until(LIMIT, both(count)).await,
            "{}",
            world.logs(80)
        );
        tokio::time::sleep(Duration::from_secs(8)).await;
        let seen = world.mirror().seen();
        touched.extend(of_side(&seen, "other").flat_map(|one| writers(one)));
        let foreign_mark = |one: &&Arc<Value>| {
            one["metadata"]["annotations"]
                .as_object()
                .is_some_and(|all| all.keys().any(|key| key.starts_with("joiner.dev/")))
        };
        let marked = of_side(&seen, "other").find(foreign_mark);
        assert!(marked.is_none(), "{marked:#?}");
        round += 1;
        if started.elapsed() > lasts(75) {
            let claims = seen.list(paths::CLAIMS);
            let claims = claims.filter(|one| label(one, "karpenter.sh/nodepool") == "own");
            own = claims
                .flat_map(|one| writers(one))
                .map(|(manager, _)| manager)
                .collect();
            break;
        }
    }
    assert!(round >= 4, "only {round} rounds");
    // Each says in `managedFields` what it wrote.
    let theirs: BTreeSet<String> = touched.into_iter().map(|(manager, _)| manager).collect();
    assert!(own.contains("joiner"), "{own:?}");
    assert!(!theirs.contains("joiner"), "{theirs:?}");
    let karpenter = |one: &String| one.starts_with("karpenter");
    assert!(theirs.iter().any(karpenter), "{theirs:?}");
    let seen = world.mirror().seen();
    let ours: BTreeSet<String> = of_side(&seen, "own")
        .flat_map(|one| writers(one))
        .map(|(one, _)| one)
        .chain(own)
        .collect();
    assert!(!ours.iter().any(karpenter), "{ours:?}");
    let pool = seen
        .list(paths::POOLS)
        .find(|one| text(one, "/metadata/name") == "other")
        .cloned()
        .unwrap();
    let pool = writers(&pool);
    assert!(
        pool.iter().all(|(manager, _)| manager != "joiner"),
        "{pool:?}"
    );
}

async fn two_joiners_on_one_cloudspace_keep_their_servers() {
    let space = Cloudspace::start().await;
    let world = &space.world;
    space.join("karpetrack");
    let reach: Vec<String> = space
        .arguments()
        .into_iter()
        .filter(|one| !one.starts_with("--dialect") && !one.starts_with("--leader-election-name"))
        .collect();
    let karpenter = [&["--dialect=karpenter".to_owned()][..], &reach].concat();
    world.join_with("karpenter", &karpenter);
    let class = json!({"apiVersion": "joiner.dev/v1alpha1", "kind": "RackspaceNodeClass",
        "metadata": {"name": "spot"}, "spec": {}});
    world.create("", &class).await;
    side(
        world,
        "own",
        json!({"group": "joiner.dev", "kind": "RackspaceNodeClass", "name": "spot"}),
    )
    .await;
    let change = json!({"spec": {"disruption": {"consolidateAfter": "Never"}, "template": {"spec": {"requirements": [
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]}}}});
    world.patch(&format!("{}/own", paths::POOLS), &change).await;
    let taint = json!({"key": "e2e.joiner.dev/side", "value": "spot", "effect": "NoSchedule"});
    let pool = json!({"apiVersion": "karpetrack.io/v1alpha1", "kind": "SpotNodePool", "metadata": {"name": "spot"},
        "spec": {"labels": {"e2e.joiner.dev/side": "spot"}, "taints": [taint]}});
    world.create("", &pool).await;
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "spot"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "spot"}}, "template": {
            "metadata": {"labels": {"app": "spot"}},
            "spec": {"nodeSelector": {"e2e.joiner.dev/side": "spot"},
                "tolerations": [{"key": "e2e.joiner.dev/side", "operator": "Exists"}],
                "containers": [{"name": "main", "image": "none",
                    "resources": {"requests": {"cpu": "900m", "memory": "512Mi"}}}]}}}});
    world.create("default", &deployment).await;
    let all_run = |seen: &Seen| {
        let ready = |pod: &&Arc<Value>| label(pod, "app") == "spot" && is_true(pod, "Ready");
        running(seen, "own") == 3 && seen.list(paths::PODS).filter(ready).count() == 3
    };
    assert!(
        world.mirror().until(LIMIT, all_run).await,
        "{}",
        world.logs(80)
    );
    let servers = || -> BTreeSet<String> {
        let all = space.cloud.pools();
        all.iter()
            .map(|one| format!("{one:?}").chars().take(120).collect())
            .collect()
    };
    let names = |seen: &Seen| -> BTreeSet<String> {
        let nodes = seen.list(paths::NODES);
        nodes
            .map(|one| text(one, "/metadata/uid").to_owned())
            .collect()
    };
    let (before, bought) = (names(&world.mirror().seen()), servers().len());
    assert!(before.len() >= 2, "both have servers: {before:?}");
    let watch = world.mirror().always("no node is lost", {
        let before = before.clone();
        move |seen| names(seen) == before
    });
    // Each looks at what the cloud has several times.
    tokio::time::sleep(lasts(50)).await;
    // The one that serves SpotNodePools comes back without its token and serves what it can.
    world.signal("karpetrack", Signal::Kill);
    let without: Vec<String> = space
        .arguments()
        .into_iter()
        .filter(|one| !one.starts_with("--dialect") && !one.starts_with("--refresh-token"))
        .collect();
    world.join_with("tokenless", &without);
    tokio::time::sleep(lasts(50)).await;
    watch.check();
    assert_eq!(servers().len(), bought, "{}", world.logs(80));
    assert!(world.alive("tokenless") && world.alive("karpenter"));
}
