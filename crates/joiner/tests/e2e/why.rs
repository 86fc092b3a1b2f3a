//! `joiner why` and `/api/v1`: what is in the way is named, from the page of the leader and from the cluster alone.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::harness::{Story, World, in_zone, paths, tests};

tests![
    pods_without_a_place_are_told_what_is_in_the_way,
    clouds_that_do_not_deliver_are_told_with_what_they_said,
    nodes_that_stay_are_told_what_keeps_them,
    a_spot_server_that_is_too_young_is_told_until_when_it_stays,
    who_has_no_rights_sees_nothing,
];

/// How long a verdict may take.
const LIMIT: Duration = Duration::from_mins(2);

/// A cluster with a Joiner whose page is served at the address that is returned.
async fn world_with_page() -> (std::sync::Arc<World>, String) {
    world_with(&[]).await
}

/// The same, with further arguments.
async fn world_with(more: &[&str]) -> (std::sync::Arc<World>, String) {
    let world = World::start().await;
    let port = free_port();
    let page = [format!("--page-bind-address=127.0.0.1:{port}")];
    let more: Vec<String> = more.iter().map(|one| (*one).to_owned()).collect();
    world.join_with("joiner", &[&page[..], &more].concat());
    (world, format!("http://127.0.0.1:{port}"))
}

fn free_port() -> u16 {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap().port()
}

/// Asks why until the latest verdict has a code, and returns the explanation.
async fn why(page: &str, kind: &str, name: &str, code: &str) -> Value {
    let begun = Instant::now();
    let mut last = Value::Null;
    while begun.elapsed() < LIMIT {
        if let Ok(answer) = reqwest::get(format!("{page}/api/v1/why/{kind}/{name}")).await {
            last = answer.json().await.unwrap_or_default();
            let verdicts = last["verdicts"].as_array();
            let mut codes = verdicts.into_iter().flatten().map(|one| &one["code"]);
            if codes.any(|one| one == code) {
                return last;
            }
        }
        sleep(Duration::from_millis(300)).await;
    }
    panic!("{kind} {name} has no verdict {code}: {last:#}")
}

/// The name of a pod of an app that waits.
async fn waiting(story: &Story, app: &str) -> String {
    let app = app.to_owned();
    let prefix = format!("{app}-");
    let sight = story
        .until("a pod waits", |sight| !sight.pods(&app).is_empty())
        .await;
    let pods = sight.pods(&app);
    let of_app = |name: &&str| name.starts_with(&prefix);
    let waits = |pod: &&std::sync::Arc<Value>| pod["spec"]["nodeName"].is_null();
    let names = pods
        .iter()
        .filter(waits)
        .filter_map(|pod| pod["metadata"]["name"].as_str());
    let mut names = names.filter(of_app);
    format!("{}/{}", story.name, names.next().expect("one that waits"))
}

/// What the command prints, and its exit status.
fn said(arguments: &[&str]) -> (String, Option<i32>) {
    let output = Command::new(env!("CARGO_BIN_EXE_joiner"))
        .arg("why")
        .args(arguments)
        .output();
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (
        text + &String::from_utf8_lossy(&output.stderr),
        output.status.code(),
    )
}

#[expect(clippy::too_many_lines, reason = "one scene after the other")]
async fn pods_without_a_place_are_told_what_is_in_the_way() {
    let (world, page) = world_with_page().await;
    let story = Story::begin_on(world.clone(), "whypods").await;
    story.pool(json!({})).await;
    let limited = Story::begin_on(world.clone(), "whylimit").await;
    limited
        .pool(json!({"spec": {"limits": {"cpu": "1500m"}}}))
        .await;
    let lost = Story::begin_on(world.clone(), "whyclass").await;
    lost.pool(json!({"spec": {"template": {"spec": {"nodeClassRef": {"name": "nowhere"}}}}}))
        .await;

    story.deploy("giant", 1, "5000", json!({})).await;
    story.deploy("martian", 1, "100m", in_zone("mars-1")).await;
    let bare = json!({"spec": {"template": {"spec": {"tolerations": []}}}});
    story.deploy("bare", 1, "100m", bare).await;
    let apart = json!({"spec": {"template": {"spec": {"affinity": {"podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": "apart"}}}]}}}}}});
    story.deploy("apart", 4, "100m", apart).await;
    limited.deploy("greedy", 1, "1800m", json!({})).await;
    lost.deploy("orphan", 1, "100m", json!({})).await;

    for (of, app, code) in [
        (&story, "giant", "TooLarge"),
        (&story, "martian", "Requirement"),
        (&story, "bare", "Taint"),
    ] {
        let pod = waiting(of, app).await;
        let found = why(&page, "pod", &pod, code).await;
        let verdict = &found["verdicts"][0];
        assert_eq!(verdict["evidence"]["pools"][0]["code"], code, "{found:#}");
        assert!(
            !verdict["remedies"][0].as_str().unwrap().is_empty(),
            "{found:#}"
        );
        let (text, status) = said(&["pod", &pod, "--api", &page]);
        assert_eq!(status, Some(0), "{text}");
        assert!(
            text.contains(code) && text.contains("What would help:"),
            "{text}"
        );
    }
    story.runs("apart", 3).await;
    let pod = waiting(&story, "apart").await;
    why(&page, "pod", &pod, "PodRules").await;
    let pod = waiting(&limited, "greedy").await;
    let begun = Instant::now();
    let found = loop {
        let found = reqwest::get(format!("{page}/api/v1/why/pod/{pod}"))
            .await
            .unwrap();
        let found: Value = found.json().await.unwrap();
        if found["verdicts"][0]["outcome"] == "unplaced" {
            break found;
        }
        assert!(begun.elapsed() < LIMIT, "{found:#}");
        sleep(Duration::from_millis(300)).await;
    };
    assert!(found.to_string().contains("whylimit"), "{found:#}");
    let pod = waiting(&lost, "orphan").await;
    let begun = Instant::now();
    loop {
        let found: Value = reqwest::get(format!("{page}/api/v1/why/pod/{pod}"))
            .await
            .unwrap()
            .json()
            .await
            .unwrap();
        let pools = found["verdicts"][0]["evidence"]["pools"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        if pools
            .iter()
            .any(|pool| pool["pool"] == "whyclass" && pool["code"] == "Closed")
        {
            break;
        }
        assert!(begun.elapsed() < LIMIT, "{found:#}");
        sleep(Duration::from_millis(300)).await;
    }
    let (text, status) = said(&["pod", "nowhere/nothing", "--api", &page]);
    assert_eq!(status, Some(3), "{text}");

    // Without a page the cluster itself tells.
    let kubeconfig = world.plane().kubeconfig();
    let pod = waiting(&story, "martian").await;
    let (text, status) = said(&[
        "pod",
        &pod,
        "--kubeconfig",
        &kubeconfig.display().to_string(),
    ]);
    assert_eq!(status, Some(0), "{text}");
    assert!(
        text.contains("Requirement") && text.contains("mars-1"),
        "{text}"
    );
}

/// Waits until a pool says something to a pod, and returns what: its part of the evidence.
async fn pool_says(page: &str, pod: &str, pool: &str, code: &str) -> Value {
    let begun = Instant::now();
    let mut last = Value::Null;
    while begun.elapsed() < LIMIT {
        if let Ok(answer) = reqwest::get(format!("{page}/api/v1/why/pod/{pod}")).await {
            last = answer.json().await.unwrap_or_default();
            let pools = last["verdicts"][0]["evidence"]["pools"].as_array();
            let found = pools
                .into_iter()
                .flatten()
                .find(|one| one["pool"] == pool && one["code"] == code);
            if let Some(found) = found {
                return found.clone();
            }
        }
        sleep(Duration::from_millis(300)).await;
    }
    panic!("{pool} does not say {code} to {pod}: {last:#}")
}

async fn clouds_that_do_not_deliver_are_told_with_what_they_said() {
    let (world, page) = world_with_page().await;
    let sold = Story::begin_on(world.clone(), "whysold").await;
    sold.change_class(json!({"spec": {"stockOuts": {"offerings": [{}]}}}))
        .await;
    sold.pool(json!({})).await;
    sold.deploy("late", 1, "100m", json!({})).await;
    let pod = waiting(&sold, "late").await;
    let found = pool_says(&page, &pod, "whysold", "SoldOut").await;
    assert!(found["soldOut"].to_string().contains("small"), "{found:#}");
    let (text, status) = said(&["pod", &pod, "--api", &page]);
    assert_eq!(status, Some(0), "{text}");
    assert!(
        text.contains("sold out") && text.contains("small"),
        "{text}"
    );

    // Nothing listens there.
    let down = Story::begin_on(world.clone(), "whydown").await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "racks"},
        "stringData": {"PROXMOX_TOKEN_ID": "joiner@pve!sim", "PROXMOX_SECRET": "secret"}});
    down.create(secret).await;
    let endpoint = format!("https://127.0.0.1:{}/api2/json", free_port());
    let class = json!({"apiVersion": "joiner.dev/v1alpha1", "kind": "ProxmoxNodeClass", "metadata": {"name": "racks"},
        "spec": {"credentialsSecretRef": {"name": "racks", "namespace": down.name}, "proxmox": {
            "endpoint": endpoint, "vmIDRange": {"lower": 1250, "upper": 1300}, "managedNodeTag": "joiner",
            "networkInterfaces": [{"name": "net0", "model": "virtio", "bridge": "vmbr0", "macPrefix": "02:00:00"}]}}});
    down.create(class).await;
    let of_racks =
        json!({"nodeClassRef": {"kind": "ProxmoxNodeClass", "name": "racks"}, "requirements": []});
    down.pool(json!({"spec": {"template": {"spec": of_racks}}}))
        .await;
    down.deploy("web", 1, "100m", json!({})).await;
    let pod = waiting(&down, "web").await;
    let found = pool_says(&page, &pod, "whydown", "Closed").await;
    assert!(
        found["sentence"].as_str().unwrap().contains("127.0.0.1"),
        "it names what does not answer: {found:#}"
    );
    assert!(!found["remedy"].as_str().unwrap().is_empty(), "{found:#}");
}

async fn a_spot_server_that_is_too_young_is_told_until_when_it_stays() {
    let (world, page) = world_with(&["--mock-mode", "--batch-window=1s"]).await;
    // Else it stays for minutes because a pod has just come.
    let pool = json!({"apiVersion": "karpetrack.io/v1alpha1", "kind": "SpotNodePool",
        "metadata": {"name": "young"}, "spec": {"disruption": {"consolidationPolicy": "WhenUnderutilized", "consolidateAfter": "1s"}}});
    world.create("", &pool).await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [{
        "name": "main", "image": "none", "resources": {"requests": {"cpu": "1", "memory": "512Mi"}}}]}});
    world.create("default", &pod).await;
    let node = |seen: &joiner_testing::Seen| {
        let pod = seen.get(paths::PODS, "default", "web")?;
        pod["spec"]["nodeName"].as_str().map(str::to_owned)
    };
    let bound = |seen: &joiner_testing::Seen| node(seen).is_some();
    assert!(
        world.mirror().until(LIMIT, bound).await,
        "{}",
        world.logs(60)
    );
    let node = node(&world.mirror().seen()).unwrap();
    let found = why(&page, "node", &node, "TooYoung").await;
    let verdicts = found["verdicts"].as_array().unwrap();
    let young = verdicts
        .iter()
        .find(|one| one["code"] == "TooYoung")
        .unwrap();
    assert!(young["evidence"]["until"].is_string(), "{found:#}");
}

async fn who_has_no_rights_sees_nothing() {
    let world = World::start().await;
    let port = free_port();
    world.join_with("joiner", &[format!("--page-bind-address=0.0.0.0:{port}")]);
    let story = Story::begin_on(world.clone(), "secretshop").await;
    story.pool(json!({})).await;
    story.deploy("web", 1, "100m", json!({})).await;
    story.runs("web", 1).await;
    let kubectl = async |arguments: &[&str]| {
        let said = world.plane().kubectl(arguments.iter().copied()).await;
        said.unwrap().trim().to_owned()
    };
    for account in ["nobody", "viewer"] {
        kubectl(&["create", "serviceaccount", account]).await;
    }
    let role = [
        "create",
        "clusterrole",
        "looks",
        "--verb=list",
        "--resource=nodes,pods",
    ];
    kubectl(&role).await;
    let binding = [
        "create",
        "clusterrolebinding",
        "looks",
        "--clusterrole=looks",
        "--serviceaccount=default:viewer",
    ];
    kubectl(&binding).await;
    let nobody = kubectl(&["create", "token", "nobody"]).await;
    let viewer = kubectl(&["create", "token", "viewer"]).await;
    let client = reqwest::Client::new();
    let all = [
        "",
        "nodes",
        "demand",
        "activity",
        "why/pod/secretshop/web",
        "api/v1/nodes",
        "api/v1/problem",
        "api/v1/stream",
    ];
    for (token, expected) in [
        (None, 401),
        (Some("made.up.token"), 401),
        (Some(&*nobody), 403),
    ] {
        for path in all {
            let mut request = client.get(format!("http://127.0.0.1:{port}/{path}"));
            if let Some(token) = token {
                request = request.bearer_auth(token);
            }
            let answer = request.send().await.unwrap();
            assert_eq!(answer.status(), expected, "{path}");
            let text = answer.text().await.unwrap();
            assert!(!text.contains("secretshop"), "{path}: {text}");
        }
    }
    let seen = client
        .get(format!("http://127.0.0.1:{port}/nodes"))
        .bearer_auth(&viewer);
    let answer = seen.send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert!(answer.text().await.unwrap().contains("secretshop"));
}

async fn nodes_that_stay_are_told_what_keeps_them() {
    let (world, page) = world_with_page().await;
    let willing = json!({"spec": {"disruption": {"consolidateAfter": "0s"}}});
    let node_of = |sight: &crate::harness::Sight, app: &str| {
        sight.homes_by(app, "kubernetes.io/hostname").remove(0)
    };

    let never = Story::begin_on(world.clone(), "whynever").await;
    never.pool(json!({})).await;
    never.deploy("web", 1, "900m", json!({})).await;
    let pinned = Story::begin_on(world.clone(), "whypinned").await;
    pinned.pool(willing.clone()).await;
    let annotated = json!({"spec": {"template": {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}}});
    pinned.deploy("web", 1, "900m", annotated).await;
    let guarded = Story::begin_on(world.clone(), "whypdb").await;
    guarded.pool(willing.clone()).await;
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    guarded.create(budget).await;
    guarded.deploy("web", 1, "900m", json!({})).await;
    let closed = Story::begin_on(world.clone(), "whybudget").await;
    closed.pool(json!({"spec": {"disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "0"}]}}})).await;
    closed.deploy("web", 1, "900m", json!({})).await;
    let kept = Story::begin_on(world.clone(), "whykept").await;
    kept.pool(willing).await;
    kept.deploy("web", 1, "900m", json!({})).await;

    let unsettled = Story::begin_on(world.clone(), "whyyoung").await;
    unsettled
        .pool(json!({"spec": {"disruption": {"consolidateAfter": "1h"}}}))
        .await;
    unsettled.deploy("web", 1, "900m", json!({})).await;

    let mut checked = 0;
    for (story, code, words) in [
        (&never, "NeverConsolidates", "whynever"),
        (&pinned, "PodDoNotDisrupt", "web"),
        (&guarded, "PodDisruptionBudget", "whypdb/web"),
        (&kept, "NotCheaper", "elsewhere"),
        (&unsettled, "Unsettled", "until"),
    ] {
        let sight = story.runs("web", 1).await;
        let node = node_of(&sight, "web");
        let found = why(&page, "node", &node, code).await;
        assert!(found.to_string().contains(words), "{found:#}");
        checked += 1;
    }
    assert_eq!(checked, 5);
    let sight = closed.runs("web", 1).await;
    let node = node_of(&sight, "web");
    // An empty node would go at once; only the budget keeps it.
    closed.scale("web", 0).await;
    let found = why(&page, "node", &node, "Budget").await;
    assert!(found.to_string().contains("whybudget"), "{found:#}");
    assert!(
        found["steps"]
            .as_array()
            .is_some_and(|steps| steps.iter().any(|one| one["condition"] == "Initialized"))
    );
    let machine = why(&page, "machine", &node, "Cheapest").await;
    assert_eq!(
        machine["verdicts"].as_array().map(Vec::is_empty),
        Some(false)
    );
}
