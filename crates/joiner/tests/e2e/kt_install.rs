//! The chart, by the real helm, on a real API server; and the accounts that it makes, in use.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use joiner_testing::{Client, ControlPlane, Process, Program};
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{tests, text};

tests![
    kt_10_the_two_installs_of_the_document_and_every_value_of_its_table,
    kt_14_the_values_of_the_flux_release_are_taken_as_they_stand,
    kt_15_the_account_of_the_chart_is_enough_and_its_label_selects_the_pods,
    kt_16_every_make_target_of_the_document_is_there,
];

const NAMESPACE: &str = "karpetrack-system";

pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A cluster without anything of ours on it, and helm.
pub(crate) struct Fresh {
    pub(crate) plane: ControlPlane,
    client: Client,
}

impl Fresh {
    pub(crate) async fn start() -> Self {
        let builder = ControlPlane::builder()
            .with_controller_manager()
            .with_scheduler();
        let plane = builder.start().await.expect("a control plane");
        tokio::task::spawn_blocking(|| joiner_testing::ensure(&[Program::Helm]))
            .await
            .unwrap()
            .expect("helm");
        let client = plane.client().unwrap();
        plane
            .kubectl(["create", "namespace", NAMESPACE])
            .await
            .unwrap();
        Fresh { plane, client }
    }

    async fn secret(&self) {
        let arguments = [
            "create",
            "secret",
            "generic",
            "karpetrack-credentials",
            "--namespace",
            NAMESPACE,
            "--from-literal=refresh-token=YOUR_REFRESH_TOKEN",
            "--from-literal=cloudspace-id=YOUR_CLOUDSPACE_ID",
        ];
        self.plane.kubectl(arguments).await.unwrap();
    }

    /// Runs helm as the document does, from the top of the repository.
    pub(crate) fn helm(&self, arguments: &[&str]) -> String {
        let ended = Command::new(self.plane.program(Program::Helm))
            .current_dir(repository())
            .env("KUBECONFIG", self.plane.kubeconfig())
            .args(arguments)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.success(), "helm {arguments:?}: {said}");
        String::from_utf8_lossy(&ended.stdout).into_owned()
    }

    async fn deployment(&self, name: &str) -> Value {
        let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}");
        self.client.get(&path).await.unwrap()
    }
}

fn arguments(deployment: &Value) -> Vec<String> {
    let all = deployment["spec"]["template"]["spec"]["containers"][0]["args"].as_array();
    let all = all.into_iter().flatten();
    all.map(|one| one.as_str().unwrap_or_default().to_owned())
        .collect()
}

async fn kt_10_the_two_installs_of_the_document_and_every_value_of_its_table() {
    let fresh = Fresh::start().await;
    fresh.secret().await;
    fresh.helm(&[
        "install",
        "karpetrack",
        "./charts/karpetrack",
        "--namespace",
        NAMESPACE,
        "--set",
        "credentials.create=false",
        "--set",
        "credentials.existingSecret=karpetrack-credentials",
    ]);
    let deployment = fresh.deployment("karpetrack").await;
    assert_eq!(deployment["spec"]["replicas"], 2);
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert!(text(container, "/image").starts_with("ghcr.io/joiner-dev/joiner:"));
    let given = arguments(&deployment);
    for expected in [
        "--leader-elect=true",
        "--pricing-refresh-interval=30s",
        "--optimization-threshold=0.20",
        "--consolidation-enabled=true",
        "--batch-window=10s",
        "--empty-node-grace-period=5m",
        "--mock-mode=false",
    ] {
        assert!(
            given.iter().any(|one| one == expected),
            "no {expected} in {given:?}"
        );
    }
    let key = |name: &str| {
        let all = container["env"].as_array().into_iter().flatten();
        let one = all.clone().find(|one| one["name"] == name);
        one.map(|one| one["valueFrom"]["secretKeyRef"].clone())
            .unwrap_or_default()
    };
    assert_eq!(
        key("RACKSPACE_SPOT_REFRESH_TOKEN"),
        json!({"name": "karpetrack-credentials", "key": "refresh-token"})
    );
    assert_eq!(
        key("RACKSPACE_SPOT_CLOUDSPACE_ID"),
        json!({"name": "karpetrack-credentials", "key": "cloudspace-id"})
    );
    fresh
        .plane
        .kubectl(["get", "snp"])
        .await
        .expect("the CRDs came with it");
    fresh.helm(&["uninstall", "karpetrack", "--namespace", NAMESPACE]);
    fresh.plane.kubectl(["get", "snp"]).await.expect("and stay");
    install_directly(&fresh).await;
}

/// The second way of the document, with every other value of its table changed.
async fn install_directly(fresh: &Fresh) {
    fresh.helm(&[
        "install",
        "karpetrack-direct",
        "./charts/karpetrack",
        "--namespace",
        NAMESPACE,
        "--set",
        "credentials.refreshToken=YOUR_REFRESH_TOKEN",
        "--set",
        "credentials.cloudspaceId=YOUR_CLOUDSPACE_ID",
        "--set",
        "installCRDs=false",
        "--set",
        "replicaCount=1,image.repository=registry.example/k,image.tag=v9",
        "--set",
        "controller.leaderElect=false,controller.consolidationEnabled=false",
        "--set",
        "controller.batchWindow=3s,controller.emptyNodeGracePeriod=7m",
    ]);
    let deployment = fresh.deployment("karpetrack-direct").await;
    assert_eq!(deployment["spec"]["replicas"], 1);
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(text(container, "/image"), "registry.example/k:v9");
    let given = arguments(&deployment);
    for expected in [
        "--leader-elect=false",
        "--consolidation-enabled=false",
        "--batch-window=3s",
        "--empty-node-grace-period=7m",
    ] {
        assert!(
            given.iter().any(|one| one == expected),
            "no {expected} in {given:?}"
        );
    }
    let path = format!("/api/v1/namespaces/{NAMESPACE}/secrets/karpetrack-direct-credentials");
    let secret = fresh.client.get(&path).await.unwrap();
    // YOUR_CLOUDSPACE_ID
    assert_eq!(secret["data"]["cloudspace-id"], "WU9VUl9DTE9VRFNQQUNFX0lE");
    // Every argument of the chart is one that the binary takes.
    let mut command = Command::new(env!("CARGO_BIN_EXE_joiner"));
    let ended = command.args(&given).arg("--help").output().unwrap();
    assert!(
        ended.status.success(),
        "{}",
        String::from_utf8_lossy(&ended.stderr)
    );
}

async fn kt_14_the_values_of_the_flux_release_are_taken_as_they_stand() {
    let fresh = Fresh::start().await;
    fresh.secret().await;
    let values = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    let text = "credentials:\n    create: false\n    existingSecret: karpetrack-credentials\n\
                controller:\n    optimizationThreshold: \"0.15\" # 15% savings threshold\n    \
                pricingRefreshInterval: \"60s\"\n";
    std::fs::write(values.path(), text).unwrap();
    let file = values.path().display().to_string();
    // As Flux does it: an install, and the same again as an upgrade.
    fresh.helm(&[
        "install",
        "karpetrack",
        "./charts/karpetrack",
        "--namespace",
        NAMESPACE,
        "--values",
        &file,
    ]);
    fresh.helm(&[
        "upgrade",
        "karpetrack",
        "./charts/karpetrack",
        "--namespace",
        NAMESPACE,
        "--values",
        &file,
    ]);
    let given = arguments(&fresh.deployment("karpetrack").await);
    for expected in [
        "--optimization-threshold=0.15",
        "--pricing-refresh-interval=60s",
    ] {
        assert!(
            given.iter().any(|one| one == expected),
            "no {expected} in {given:?}"
        );
    }
    // Numbers instead of text are no harm either.
    let rendered = fresh.helm(&[
        "template",
        "karpetrack",
        "./charts/karpetrack",
        "--kube-version",
        "v1.34.0",
        "--set",
        "controller.optimizationThreshold=0.15",
        "--set",
        "controller.mockMode=true",
    ]);
    assert!(
        rendered.contains("--optimization-threshold=0.15"),
        "{rendered}"
    );
    assert!(
        !rendered.contains("kind: Secret"),
        "mock mode needs no credentials"
    );
}

async fn kt_15_the_account_of_the_chart_is_enough_and_its_label_selects_the_pods() {
    let fresh = Fresh::start().await;
    fresh.helm(&[
        "install",
        "karpetrack",
        "./charts/karpetrack",
        "--namespace",
        NAMESPACE,
        "--set",
        "controller.mockMode=true,controller.batchWindow=1s",
    ]);
    let selector = "app.kubernetes.io/name=karpetrack";
    let mut pods = String::new();
    for _ in 0..100 {
        let list = ["get", "pods", "-n", NAMESPACE, "-l", selector, "-o", "name"];
        pods = fresh.plane.kubectl(list).await.unwrap();
        if pods.lines().count() == 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(pods.lines().count(), 2, "{pods}");

    // The same binary with the same arguments as the account that the chart made.
    let directory = tempfile::Builder::new()
        .prefix("joiner-e2e-")
        .tempdir()
        .unwrap();
    let kubeconfig = account(&fresh, directory.path()).await;
    let mut given = arguments(&fresh.deployment("karpetrack").await);
    given.retain(|one| !one.contains("bind-address"));
    given.extend([
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--leader-election-namespace={NAMESPACE}"),
        "--health-probe-bind-address=0".to_owned(),
        "--metrics-bind-address=0".to_owned(),
    ]);
    let program = Path::new(env!("CARGO_BIN_EXE_joiner"));
    let process = Process::start("joiner", directory.path(), program, &given).unwrap();
    let pool = json!({"apiVersion": "karpetrack.io/v1alpha1", "kind": "SpotNodePool",
        "metadata": {"name": "default"}, "spec": {"disruption": {"consolidateAfter": "5s"}}});
    let pools = "/apis/karpetrack.io/v1alpha1/spotnodepools";
    fresh
        .client
        .send(Method::POST, pools, Some(&pool))
        .await
        .unwrap();
    // The chart's own pods wait for a node, and get one; then they go, and it goes.
    reached(&fresh, &process, "Running").await;
    let scale = [
        "scale",
        "deployment",
        "karpetrack",
        "-n",
        NAMESPACE,
        "--replicas=0",
    ];
    fresh.plane.kubectl(scale).await.unwrap();
    reached(&fresh, &process, "").await;
    let refused: Vec<String> = process
        .output()
        .lines()
        .filter(|line| line.contains("forbidden"))
        .map(str::to_owned)
        .collect();
    assert!(refused.is_empty(), "{refused:#?}");
}

/// Waits until a SpotNode has reached a phase, or with none until there is no SpotNode.
async fn reached(fresh: &Fresh, process: &Process, wanted: &str) {
    for _ in 0..600 {
        let path = "/apis/karpetrack.io/v1alpha1/spotnodes";
        // A server that has just learned of a kind asks to come back in a second.
        if let Ok(all) = fresh.client.get(path).await {
            let nodes = all["items"].as_array().cloned().unwrap_or_default();
            let there = nodes.iter().any(|one| text(one, "/status/phase") == wanted);
            if there || wanted.is_empty() && nodes.is_empty() {
                return;
            }
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    panic!("never {wanted:?}:\n{}", process.output());
}

/// A kubeconfig of the chart's service account.
async fn account(fresh: &Fresh, directory: &Path) -> PathBuf {
    let token = fresh
        .plane
        .kubectl(["create", "token", "karpetrack", "-n", NAMESPACE])
        .await
        .unwrap();
    let admin = std::fs::read_to_string(fresh.plane.kubeconfig()).unwrap();
    let own = admin.replace(fresh.plane.token(), token.trim());
    assert_ne!(
        own, admin,
        "the token of the administrator is in the kubeconfig"
    );
    let path = directory.join("kubeconfig");
    std::fs::write(&path, own).unwrap();
    path
}

async fn kt_16_every_make_target_of_the_document_is_there() {
    for target in [
        "build",
        "test",
        "run",
        "fmt",
        "vet",
        "lint",
        "manifests",
        "generate",
        "install",
        "deploy",
        "docker-build",
    ] {
        let ended = Command::new("make")
            .current_dir(repository())
            .args(["--dry-run", target, "ARGS=--mock-mode"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "make {target}: {said}");
        let does = String::from_utf8_lossy(&ended.stdout);
        assert!(
            target != "run" || does.contains("--mock-mode"),
            "make run drops ARGS: {does}"
        );
    }
}
