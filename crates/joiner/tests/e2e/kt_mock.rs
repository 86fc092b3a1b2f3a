//! Mock mode and what is asked for at the start.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use joiner_testing::{Seen, Signal};
use serde_json::{Value, json};

use crate::harness::{World, is_true, paths, tests, text};

tests![
    kt_11_without_a_token_it_says_so_and_ends,
    kt_12_mock_mode_needs_nothing_and_survives_a_restart,
];

const LIMIT: Duration = Duration::from_mins(3);

async fn kt_11_without_a_token_it_says_so_and_ends() {
    let started = |variables: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_joiner"));
        for name in [
            "RACKSPACE_SPOT_REFRESH_TOKEN",
            "RACKSPACE_SPOT_CLOUDSPACE_ID",
            "RACKSPACE_SPOT_CLOUDSPACE",
        ] {
            command.env_remove(name);
        }
        command.args([
            "run",
            "--dialect=karpetrack",
            "--health-probe-bind-address=0",
            "--metrics-bind-address=0",
        ]);
        command.envs(variables.iter().copied());
        let ended = command.output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        (ended.status, said)
    };
    let (status, said) = started(&[]);
    assert!(!status.success());
    assert!(
        said.contains("Rackspace Spot refresh token is required"),
        "{said}"
    );
    assert!(said.contains("RACKSPACE_SPOT_REFRESH_TOKEN"), "{said}");
    let (status, said) = started(&[("RACKSPACE_SPOT_REFRESH_TOKEN", "token")]);
    assert!(!status.success());
    assert!(
        said.contains("Rackspace Spot cloudspace ID is required"),
        "{said}"
    );
    let (_, said) = started(&[("RACKSPACE_SPOT_REFRESH_TOKEN", " \n")]);
    assert!(
        said.contains("Rackspace Spot refresh token is required"),
        "{said}"
    );
}

fn running(seen: &Seen) -> usize {
    let ready =
        |pod: &&Arc<Value>| pod["metadata"]["namespace"] == "default" && is_true(pod, "Ready");
    seen.list(paths::PODS).filter(ready).count()
}

async fn kt_12_mock_mode_needs_nothing_and_survives_a_restart() {
    let world = World::start().await;
    let mock = [
        "--dialect=karpetrack",
        "--mock-mode",
        "--batch-window=1s",
        "--leader-elect=false",
    ];
    let mock = mock.map(str::to_owned);
    world.join_with("mock", &mock);
    let pool = json!({"apiVersion": "karpetrack.io/v1alpha1", "kind": "SpotNodePool",
        "metadata": {"name": "default"}, "spec": {}});
    world.create("", &pool).await;
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{
        "name": "main", "image": "none", "resources": {"requests": {"cpu": "1", "memory": "512Mi"}}}]}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template}});
    world.create("default", &deployment).await;
    let all_run = |seen: &Seen| running(seen) == 3;
    assert!(
        world.mirror().until(LIMIT, all_run).await,
        "{}",
        world.logs(60)
    );
    let names = |seen: &Seen| -> Vec<String> {
        let nodes = seen.list(paths::SPOT_NODES);
        nodes
            .map(|one| text(one, "/metadata/name").to_owned())
            .collect()
    };
    let before = names(&world.mirror().seen());
    world.signal("mock", Signal::Kill);
    world.join_with("again", &mock);
    let watch = world.mirror().always("no server is lost by a restart", {
        let before = before.clone();
        move |seen| names(seen) == before
    });
    // Longer than two looks at what the cloud has.
    tokio::time::sleep(Duration::from_secs(45)).await;
    watch.check();
    assert!(
        world.mirror().until(LIMIT, all_run).await,
        "{}",
        world.logs(60)
    );
}
