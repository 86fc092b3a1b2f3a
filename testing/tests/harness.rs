//! The harness itself: it starts what it says and leaves nothing behind, however a test ends.

#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers too")]

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use joiner_testing::ControlPlane;
use reqwest::Method;
use serde_json::json;

/// Set in a copy of this test program that is started to be ended.
const VICTIM: &str = "JOINER_TESTING_VICTIM";

#[tokio::test]
async fn the_api_server_answers_and_kubectl_works() {
    let cluster = ControlPlane::start().await.unwrap();
    let version = cluster.client().unwrap().get("/version").await.unwrap();
    let git = version["gitVersion"].as_str().unwrap();
    assert!(git.starts_with("v1."), "{version}");
    let namespace = cluster.namespace("kubectl").await.unwrap();
    let name = namespace.name();
    cluster
        .kubectl(["create", "configmap", "one", "-n", name])
        .await
        .unwrap();
    let printed = cluster
        .kubectl(["get", "configmaps", "-n", name, "-o", "name"])
        .await
        .unwrap();
    assert_eq!(printed, "configmap/one\n");
    let error = cluster
        .kubectl(["get", "pod", "nobody", "-n", name])
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("pods \"nobody\" not found"),
        "{error}"
    );
}

#[tokio::test]
async fn scheduler_and_controllers_run_a_deployment_as_far_as_a_node() {
    let builder = ControlPlane::builder()
        .with_scheduler()
        .with_controller_manager();
    let cluster = builder.start().await.unwrap();
    let client = cluster.client().unwrap();
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
    client
        .send(Method::POST, "/api/v1/nodes", Some(&node))
        .await
        .unwrap();
    let ready = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}]}});
    client
        .send(Method::PUT, "/api/v1/nodes/n/status", Some(&ready))
        .await
        .unwrap();
    cluster
        .kubectl(["create", "deployment", "web", "--image=web"])
        .await
        .unwrap();
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let pods = client.get("/api/v1/namespaces/default/pods").await.unwrap();
        if pods["items"][0]["spec"]["nodeName"] == "n" {
            break;
        }
        assert!(Instant::now() < deadline, "no pod was bound: {pods}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test]
async fn nothing_is_left_after_a_drop() {
    let cluster = ControlPlane::start().await.unwrap();
    let directory = cluster.directory().to_owned();
    assert!(
        !processes_of(&directory).is_empty(),
        "the check sees running programs"
    );
    drop(cluster);
    assert_eq!(processes_of(&directory), Vec::<String>::new());
    assert!(!directory.exists());
}

#[tokio::test]
async fn nothing_is_left_after_a_panic() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let outcome = tokio::task::spawn(async move {
        let cluster = ControlPlane::start().await.unwrap();
        sender.send(cluster.directory().to_owned()).unwrap();
        panic!("as a failed test does");
    })
    .await;
    assert!(outcome.unwrap_err().is_panic());
    let directory = receiver.recv().unwrap();
    assert_eq!(processes_of(&directory), Vec::<String>::new());
    assert!(!directory.exists());
}

#[test]
fn nothing_is_left_after_an_interrupt_a_termination_and_a_kill() {
    for signal in ["INT", "TERM", "KILL"] {
        let mut victim = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "victim", "--ignored", "--nocapture"])
            .env(VICTIM, "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(victim.stdout.take().unwrap())
            .lines()
            .map_while(Result::ok);
        // The runner prints the test's name on the same line.
        let line = lines
            .find(|line| line.contains("directory="))
            .expect("the victim started");
        let directory = PathBuf::from(line.split("directory=").nth(1).unwrap());
        assert!(
            !processes_of(&directory).is_empty(),
            "the check sees running programs"
        );
        let pid = victim.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", signal, &pid])
                .status()
                .unwrap()
                .success()
        );
        victim.wait().unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        while directory.exists() || !processes_of(&directory).is_empty() {
            let left = processes_of(&directory);
            assert!(
                Instant::now() < deadline,
                "left after {signal}: {left:?} {directory:?}"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[tokio::test]
#[ignore = "started by the test above, to be ended"]
async fn victim() {
    if std::env::var_os(VICTIM).is_none() {
        return;
    }
    let cluster = ControlPlane::start().await.unwrap();
    println!("directory={}", cluster.directory().display());
    // Ends by itself, should the test that wanted to end it be gone.
    tokio::time::sleep(Duration::from_mins(1)).await;
}

#[tokio::test]
async fn a_start_that_fails_shows_the_last_lines_of_the_log() {
    let assets = tempfile::tempdir().unwrap();
    for program in ["etcd", "kube-apiserver", "kubectl"] {
        let path = assets.path().join(program);
        std::fs::write(&path, "#!/bin/sh\necho 'no bind, no gain' >&2\nexit 7\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode).unwrap();
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "victim", "--ignored", "--nocapture"])
        .env(VICTIM, "1")
        .env("KUBEBUILDER_ASSETS", assets.path())
        .output()
        .unwrap();
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains("no bind, no gain") && text.contains("exit status: 7"),
        "{text}"
    );
}

/// The command lines of all processes that mention `directory`.
fn processes_of(directory: &Path) -> Vec<String> {
    let output = Command::new("ps").args(["-eo", "args="]).output().unwrap();
    let directory = directory.display().to_string();
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter(|line| line.contains(&directory))
        .map(str::to_owned)
        .collect()
}
