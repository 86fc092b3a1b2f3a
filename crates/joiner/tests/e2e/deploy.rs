//! What `make deploy` installs: accepted by a real API server, and enough for Joiner to work under its own account.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::harness::{Story, World, paths, tests, text};

tests![
    a_real_server_accepts_everything_that_is_deployed,
    the_account_of_the_deployment_is_enough_for_a_whole_life_of_nodes,
];

/// The namespace that everything is deployed to.
const HOME: &str = "joiner-system";

fn config() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/default");
    root.display().to_string()
}

async fn deploy(world: &World) {
    let apply = [
        "apply",
        "--server-side",
        "--force-conflicts",
        "--validate=strict",
        "-k",
    ];
    let apply = apply.map(str::to_owned).into_iter().chain([config()]);
    world.plane().kubectl(apply).await.unwrap();
}

async fn a_real_server_accepts_everything_that_is_deployed() {
    let world = World::start().await;
    deploy(&world).await;
    let path = format!("/apis/apps/v1/namespaces/{HOME}/deployments/joiner");
    let deployment = world.get(&path).await.unwrap();
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    let manager = &pod["containers"][0];
    assert_eq!(manager["securityContext"]["readOnlyRootFilesystem"], true);
    // What the probes ask for is what `joiner run` serves by default.
    for (probe, at) in [("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")] {
        assert_eq!(
            manager[probe]["httpGet"],
            json!({"path": at, "port": "health", "scheme": "HTTP"})
        );
    }
    // Pods of the deployment must be allowed in their own namespace, which asks for the restricted profile.
    let created = |seen: &joiner_testing::Seen| {
        let ours = |pod: &&Arc<Value>| text(pod, "/metadata/namespace") == HOME;
        seen.list(paths::PODS).filter(ours).count() == 2
    };
    let limit = std::time::Duration::from_secs(30);
    assert!(
        world.mirror().until(limit, created).await,
        "no pods in {HOME}"
    );
}

async fn the_account_of_the_deployment_is_enough_for_a_whole_life_of_nodes() {
    let world = World::start().await;
    deploy(&world).await;
    // Here the one that is tested runs beside the cluster and not in it.
    let path = format!("/apis/apps/v1/namespaces/{HOME}/deployments/joiner");
    world.patch(&path, &json!({"spec": {"replicas": 0}})).await;
    let story = Story::begin_on(Arc::clone(&world), "account").await;
    // The account reads no ConfigMaps but its own.
    story.change_class(json!({"spec": {"catalog": null}})).await;
    story
        .pool(json!({"spec": {"disruption": {"consolidateAfter": "0s"}}}))
        .await;
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = world.account(directory.path(), "joiner", HOME).await;
    world.join_as("joiner", &kubeconfig, HOME, &[]);
    story.deploy("web", 5, "500m", json!({})).await;
    story.runs("web", 5).await;
    story.scale("web", 0).await;
    story
        .until("every node is gone", |sight| {
            sight.nodes().is_empty() && sight.claims().is_empty()
        })
        .await;
    let log = world.logs(usize::MAX);
    let refused: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("forbidden"))
        .collect();
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    story.end().await;
}
