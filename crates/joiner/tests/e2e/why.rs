//! `joiner why` and `/api/v1`: what is in the way is named, from the page of the leader and from the cluster alone.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::harness::{Story, World, in_zone, tests};

tests![
    pods_without_a_place_are_told_what_is_in_the_way,
    nodes_that_stay_are_told_what_keeps_them,
];

/// How long a verdict may take.
const LIMIT: Duration = Duration::from_mins(2);

/// A cluster with a Joiner whose page is served at the address that is returned.
async fn world_with_page() -> (std::sync::Arc<World>, String) {
    let world = World::start().await;
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    world.join_with("joiner", &[format!("--page-bind-address={address}")]);
    (world, format!("http://{address}"))
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

    let mut checked = 0;
    for (story, code, words) in [
        (&never, "NeverConsolidates", "whynever"),
        (&pinned, "PodDoNotDisrupt", "web"),
        (&guarded, "PodDisruptionBudget", "whypdb/web"),
        (&kept, "NotCheaper", "elsewhere"),
    ] {
        let sight = story.runs("web", 1).await;
        let node = node_of(&sight, "web");
        let found = why(&page, "node", &node, code).await;
        assert!(found.to_string().contains(words), "{found:#}");
        checked += 1;
    }
    assert_eq!(checked, 4);
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
