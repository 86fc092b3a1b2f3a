//! The chart, by the real helm, on a real API server; the accounts that it makes, in use; and what the process is started
//! with.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use joiner_sim::clouds::ovhcloud::{OvhCloudOptions, documented_rules};
use joiner_testing::{Client, ControlPlane, Process, Program};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::cluster::{Cluster, NAMESPACE, Service, repository};
use crate::harness::{is_true, label, paths, text};

/// A cluster without anything of ours on it, and helm.
struct Fresh {
    plane: ControlPlane,
    client: Client,
}

impl Fresh {
    async fn start() -> Self {
        let builder = ControlPlane::builder()
            .with_controller_manager()
            .with_scheduler();
        let plane = builder.start().await.expect("a control plane");
        tokio::task::spawn_blocking(|| joiner_testing::ensure(&[Program::Helm]))
            .await
            .unwrap()
            .expect("helm");
        let client = plane.client().unwrap();
        // kubectl create namespace karpenter
        plane
            .kubectl(["create", "namespace", NAMESPACE])
            .await
            .unwrap();
        Fresh { plane, client }
    }

    /// Runs helm as the document does, from the top of the repository. Gives back what it said when it refused.
    fn helm(&self, arguments: &[&str]) -> Result<String, String> {
        let ended = Command::new(self.plane.program(Program::Helm))
            .current_dir(repository())
            .env("KUBECONFIG", self.plane.kubeconfig())
            .args(arguments)
            .output()
            .unwrap();
        if ended.status.success() {
            Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
        } else {
            Err(String::from_utf8_lossy(&ended.stderr).into_owned())
        }
    }

    async fn list(&self, path: &str) -> Vec<Value> {
        // A server that has just learned of a kind asks to come back in a second.
        let all = self.client.get(path).await.unwrap_or_default();
        all["items"].as_array().cloned().unwrap_or_default()
    }

    async fn deployment(&self, name: &str) -> Value {
        let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}");
        self.client.get(&path).await.unwrap()
    }

    async fn apply(&self, manifests: &[Value]) {
        for manifest in manifests {
            let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
            std::fs::write(file.path(), manifest.to_string()).unwrap();
            let path = file.path().display().to_string();
            self.plane.kubectl(["apply", "-f", &path]).await.unwrap();
        }
    }

    /// Starts the binary as the chart's Deployment does: its arguments, its environment, its account. Only addresses
    /// are others.
    async fn run(&self, name: &str, endpoint: Option<&str>) -> (Process, TempDir) {
        let directory = tempfile::Builder::new()
            .prefix("joiner-e2e-")
            .tempdir()
            .unwrap();
        let deployment = self.deployment(name).await;
        let pod = &deployment["spec"]["template"]["spec"];
        let account = text(pod, "/serviceAccountName");
        let token = self
            .plane
            .kubectl(["create", "token", account, "-n", NAMESPACE])
            .await
            .unwrap();
        let admin = std::fs::read_to_string(self.plane.kubeconfig()).unwrap();
        let own = admin.replace(self.plane.token(), token.trim());
        assert_ne!(
            own, admin,
            "the token of the administrator is in the kubeconfig"
        );
        let kubeconfig = directory.path().join("kubeconfig");
        std::fs::write(&kubeconfig, own).unwrap();
        let mut all = Vec::new();
        for one in pod["containers"][0]["env"].as_array().unwrap() {
            let name = text(one, "/name");
            let other = endpoint.filter(|_| name == "OVH_ENDPOINT");
            let value = match text(one, "/valueFrom/fieldRef/fieldPath") {
                "metadata.namespace" => NAMESPACE.to_owned(),
                "metadata.name" => "karpenter-0".to_owned(),
                "spec.nodeName" => "system-node-000001".to_owned(),
                _ if one["value"].is_string() => text(one, "/value").to_owned(),
                _ => match self.secret_value(&one["valueFrom"]["secretKeyRef"]).await {
                    Some(value) => value,
                    None => continue,
                },
            };
            all.push(format!("{name}={}", other.unwrap_or(&value)));
        }
        all.push(env!("CARGO_BIN_EXE_joiner").to_owned());
        let given = arguments(&deployment);
        all.extend(
            given
                .into_iter()
                .filter(|one| !one.contains("bind-address")),
        );
        all.extend([
            format!("--kubeconfig={}", kubeconfig.display()),
            "--health-probe-bind-address=0".to_owned(),
            "--metrics-bind-address=0".to_owned(),
            "--log-format=text".to_owned(),
        ]);
        let process = Process::start("joiner", directory.path(), Path::new("/usr/bin/env"), &all);
        (process.unwrap(), directory)
    }

    async fn secret_value(&self, reference: &Value) -> Option<String> {
        let (name, key) = (text(reference, "/name"), text(reference, "/key"));
        let template = format!("go-template={{{{index .data {key:?} | base64decode}}}}");
        let value = self
            .plane
            .kubectl(["get", "secret", name, "-n", NAMESPACE, "-o", &template])
            .await
            .ok()?;
        (!value.is_empty()).then_some(value)
    }

    /// Waits until something is so, and shows what the process said if it never is.
    async fn until<F: Future<Output = bool>>(
        &self,
        process: &Process,
        what: &str,
        holds: impl Fn() -> F,
    ) {
        for _ in 0..600 {
            if holds().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        let nodes = self
            .plane
            .kubectl(["get", "nodes,nodeclaims,nodepools.karpenter.sh,ovhnc"])
            .await;
        panic!(
            "never: {what}\n{}\n{}",
            nodes.unwrap_or_default(),
            process.output()
        );
    }

    async fn running(&self, namespace: &str, selector: &str) -> usize {
        let path = format!("/api/v1/namespaces/{namespace}/pods?labelSelector={selector}");
        let pods = self.list(&path).await;
        pods.iter().filter(|pod| is_true(pod, "Ready")).count()
    }

    /// Pods that are not on the node that was there before: it may have room for some.
    async fn away(&self, namespace: &str, selector: &str) -> u32 {
        let path = format!("/api/v1/namespaces/{namespace}/pods?labelSelector={selector}");
        let pods = self.list(&path).await;
        let at_home = |pod: &&Value| text(pod, "/spec/nodeName") == "system-node-000001";
        u32::try_from(pods.len() - pods.iter().filter(at_home).count()).unwrap()
    }
}

fn arguments(deployment: &Value) -> Vec<String> {
    let all = deployment["spec"]["template"]["spec"]["containers"][0]["args"].as_array();
    let all = all.into_iter().flatten();
    all.map(|one| one.as_str().unwrap_or_default().to_owned())
        .collect()
}

fn variable(deployment: &Value, name: &str) -> Option<Value> {
    let all = deployment["spec"]["template"]["spec"]["containers"][0]["env"].as_array();
    let found = all.into_iter().flatten().find(|one| one["name"] == name);
    found.cloned()
}

/// The least that nodes cost which hold so many pods of one core each, and the flavours of the document.
fn least(options: &OvhCloudOptions, pods: u32) -> i64 {
    let price = |name: &str| {
        let flavor = options.flavors.iter().find(|one| one.name == name);
        flavor.unwrap().hourly
    };
    let prices = [price("b3-8"), price("b3-16"), price("b3-32")];
    let mut least = i64::MAX;
    for small in 0..=pods {
        for medium in 0..=pods {
            for large in 0..=pods {
                // 1840m, 3830m and 7810m are left of their cores.
                if small + medium * 3 + large * 7 >= pods {
                    let counts = [small, medium, large].map(i64::from);
                    let cost = counts
                        .iter()
                        .zip(prices)
                        .map(|(count, price)| count * price);
                    least = least.min(cost.sum());
                }
            }
        }
    }
    least
}

pub(super) async fn ov_03_ov_08_the_quick_start_of_the_document_word_for_word() {
    let fresh = Fresh::start().await;
    let mut options = OvhCloudOptions::calm(4).quick();
    options.rules = documented_rules(&options.service_name, &options.kube_id);
    let service = Service::start(&fresh.plane, options.clone()).await;
    service
        .secret(&fresh.plane, "ovh-credentials", &options.consumer_key)
        .await;
    let project = format!("ovh.serviceName={}", options.service_name);
    let install = [
        "install",
        "karpenter",
        "./charts",
        "--namespace",
        "karpenter",
        "--set",
        &project,
    ];
    fresh.helm(&install).unwrap();
    let selector = "app.kubernetes.io/name=karpenter";
    let (process, _directory) = fresh.run("karpenter", Some(&service.endpoint())).await;
    fresh
        .until(&process, "the chart's own pod runs", || async {
            fresh.running(NAMESPACE, selector).await == 1
        })
        .await;
    fresh.apply(&service.documented()).await;
    fresh
        .until(&process, "five pods run", || async {
            fresh.running("default", "app=inflate").await == 5
        })
        .await;
    let nodes = fresh.list(paths::NODES).await;
    let prices = nodes.iter().filter_map(|node| {
        let kind = label(node, "node.kubernetes.io/instance-type");
        let flavor = options.flavors.iter().find(|one| one.name == kind);
        flavor.map(|flavor| flavor.hourly)
    });
    let cost: i64 = prices.sum();
    let away = fresh.away("default", "app=inflate").await;
    assert!((4..=5).contains(&away), "{away}");
    assert_eq!(cost, least(&options, away), "{nodes:#?}");
    // A class that names no Secret has the credentials of the process.
    let bare = json!({"apiVersion": "karpenter.ovhcloud.sh/v1alpha1", "kind": "OVHNodeClass",
        "metadata": {"name": "bare"}, "spec": {"serviceName": options.service_name}});
    fresh.apply(&[bare]).await;
    fresh
        .until(&process, "the class without a Secret is ready", || async {
            let path = format!("{}/bare", paths::OVH_CLASSES);
            let class = fresh.client.get(&path).await.unwrap_or_default();
            is_true(&class, "Ready") && class["status"]["kubeId"] == *options.kube_id
        })
        .await;
    fresh
        .plane
        .kubectl(["delete", "deployment", "inflate"])
        .await
        .unwrap();
    fresh
        .until(&process, "no node is left", || async {
            fresh.list(paths::CLAIMS).await.is_empty() && service.cloud.nodes().is_empty()
        })
        .await;
    assert!(service.cloud.removals().iter().all(|(_, named)| *named));
    // Nothing was done that the document's permissions do not allow; what they do not was tried once by each class.
    let refused = service.cloud.ungranted();
    for call in &refused {
        assert!(call.starts_with("GET "), "{call}");
        assert!(
            refused.iter().filter(|one| *one == call).count() <= 2,
            "{refused:?}"
        );
    }
    assert!(service.cloud.busiest_minute() <= 60);
    // Neither was anything done that the chart's account may not do.
    let output = process.output();
    let forbidden: Vec<&str> = output
        .lines()
        .filter(|line| line.contains("forbidden"))
        .collect();
    assert!(forbidden.is_empty(), "{forbidden:#?}");
}

#[expect(clippy::too_many_lines, reason = "one value after the other")]
pub(super) async fn ov_08_every_value_of_the_chart_has_its_effect() {
    let fresh = Fresh::start().await;
    let install = ["install", "karpenter", "./charts", "--namespace", NAMESPACE];
    let refused = fresh.helm(&install).unwrap_err();
    assert!(refused.contains("ovh.serviceName is required"), "{refused}");
    let project = "ovh.serviceName=0123456789abcdef0123456789abcdef";
    let mut all = install.to_vec();
    all.extend(["--set", project]);
    all.extend([
        "--set",
        "replicas=2,image.repository=registry.example/k,image.tag=v9",
    ]);
    all.extend([
        "--set",
        "ovh.endpoint=ovh-ca,ovh.kubeId=k-1,ovh.region=BHS5,ovh.enableGpuFlavors=false",
    ]);
    all.extend([
        "--set",
        "credentials.create=true,credentials.secretName=keys",
    ]);
    all.extend([
        "--set",
        "credentials.applicationKey=a,credentials.applicationSecret=s,credentials.consumerKey=c",
    ]);
    all.extend([
        "--set",
        "serviceAccount.name=nodes,logLevel=debug,featureGates.NodeRepair=true",
    ]);
    fresh.helm(&all).unwrap();
    let deployment = fresh.deployment("karpenter").await;
    assert_eq!(deployment["spec"]["replicas"], 2);
    let pod = &deployment["spec"]["template"];
    assert_eq!(label(pod, "app.kubernetes.io/name"), "karpenter");
    assert_eq!(
        text(pod, "/spec/containers/0/image"),
        "registry.example/k:v9"
    );
    assert_eq!(text(pod, "/spec/serviceAccountName"), "nodes");
    for (name, value) in [
        ("OVH_ENDPOINT", "ovh-ca"),
        ("OVH_SERVICE_NAME", "0123456789abcdef0123456789abcdef"),
        ("OVH_KUBE_ID", "k-1"),
        ("OVH_REGION", "BHS5"),
        ("OVH_ENABLE_GPU_FLAVORS", "false"),
    ] {
        let found = variable(&deployment, name).unwrap_or_default();
        assert_eq!(text(&found, "/value"), value, "{name}");
    }
    let key = variable(&deployment, "OVH_CONSUMER_KEY").unwrap();
    let reference = &key["valueFrom"]["secretKeyRef"];
    assert_eq!(
        *reference,
        json!({"name": "keys", "key": "consumerKey", "optional": true})
    );
    assert_eq!(fresh.secret_value(reference).await.as_deref(), Some("c"));
    let budget = format!("/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets/karpenter");
    let budget = fresh.client.get(&budget).await.unwrap();
    assert_eq!(budget["spec"]["maxUnavailable"], 1);
    // Every argument of the chart is one that the binary takes.
    let given = arguments(&deployment);
    assert!(
        given.iter().any(|one| one == "--log-level=debug"),
        "{given:?}"
    );
    let ended = Command::new(env!("CARGO_BIN_EXE_joiner"))
        .args(&given)
        .arg("--help")
        .output()
        .unwrap();
    assert!(
        ended.status.success(),
        "{}",
        String::from_utf8_lossy(&ended.stderr)
    );
    let mut monitor = vec![
        "template",
        "karpenter",
        "./charts",
        "--kube-version",
        "v1.34.0",
        "--set",
        project,
    ];
    monitor.extend([
        "--set",
        "serviceMonitor.enabled=true,serviceMonitor.interval=7s",
    ]);
    let monitor = fresh.helm(&monitor).unwrap();
    assert!(
        monitor.contains("kind: ServiceMonitor") && monitor.contains("interval: 7s"),
        "{monitor}"
    );
    // The charts beside it stay out of it, and the CRDs stay when it goes.
    assert!(
        !monitor.contains("karpetrack.io"),
        "a neighbour is in the chart"
    );
    fresh
        .helm(&["uninstall", "karpenter", "--namespace", NAMESPACE])
        .unwrap();
    for kind in ["ovhnc", "nodepools.karpenter.sh", "nodeclaims"] {
        fresh.plane.kubectl(["get", kind]).await.unwrap();
    }
}

pub(super) async fn ov_08_mock_mode_needs_no_account() {
    let fresh = Fresh::start().await;
    let options = OvhCloudOptions::calm(5);
    let project = format!("ovh.serviceName={}", options.service_name);
    let install = [
        "install",
        "karpenter",
        "./charts",
        "--namespace",
        NAMESPACE,
        "--set",
        &project,
    ];
    let install = [&install[..], &["--set", "mockMode=true"]].concat();
    fresh.helm(&install).unwrap();
    let (process, _directory) = fresh.run("karpenter", None).await;
    let text = include_str!("documented.yaml")
        .replace("your-project-id", &options.service_name)
        .replace("your-cluster-id", &options.kube_id);
    let documented = text
        .split("\n---\n")
        .map(|one| serde_saphyr::from_str(one).unwrap());
    let documented: Vec<Value> = documented.collect();
    fresh.apply(&documented).await;
    fresh
        .until(
            &process,
            "the document's pods and the chart's own run",
            || async {
                fresh.running("default", "app=inflate").await == 5
                    && fresh
                        .running(NAMESPACE, "app.kubernetes.io/name=karpenter")
                        .await
                        == 1
            },
        )
        .await;
    for arguments in [
        ["delete", "deployment", "inflate", "-n", "default"],
        [
            "scale",
            "deployment/karpenter",
            "--replicas=0",
            "-n",
            NAMESPACE,
        ],
    ] {
        fresh.plane.kubectl(arguments).await.unwrap();
    }
    fresh
        .until(&process, "no node is left", || async {
            fresh.list(paths::CLAIMS).await.is_empty() && fresh.list(paths::NODES).await.is_empty()
        })
        .await;
    let output = process.output();
    let forbidden: Vec<&str> = output
        .lines()
        .filter(|line| line.contains("forbidden"))
        .collect();
    assert!(forbidden.is_empty(), "{forbidden:#?}");
}

pub(super) async fn ov_07_what_is_missing_at_the_start_is_said() {
    let cluster = Cluster::shared().await;
    let kubeconfig = format!(
        "--kubeconfig={}",
        cluster.world.plane().kubeconfig().display()
    );
    let started = |variables: &[(&str, &str)]| {
        let mut command = Command::new("timeout");
        command.args([
            "60",
            env!("CARGO_BIN_EXE_joiner"),
            "run",
            "--dialect=karpenter",
            &kubeconfig,
        ]);
        command.args([
            "--leader-election-namespace=default",
            "--leader-election-name=short",
        ]);
        command.args(["--health-probe-bind-address=0", "--metrics-bind-address=0"]);
        command.envs(variables.iter().copied());
        let ended = command.output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(!ended.status.success(), "{said}");
        said
    };
    let [key, secret, consumer] = [
        "OVH_APPLICATION_KEY",
        "OVH_APPLICATION_SECRET",
        "OVH_CONSUMER_KEY",
    ];
    let said = started(&[("OVH_ENDPOINT", "ovh-mars")]);
    assert!(
        said.contains("ovh-mars") && said.contains("ovh-eu, ovh-ca, ovh-us"),
        "{said}"
    );
    let said = started(&[(key, "one")]);
    assert!(said.contains(secret) && said.contains(consumer), "{said}");
    let said = started(&[(key, "one"), (secret, "two"), (consumer, "three")]);
    assert!(said.contains("OVH_SERVICE_NAME is required"), "{said}");
    assert!(!said.contains("three"), "a key is shown: {said}");
    let help = Command::new(env!("CARGO_BIN_EXE_joiner"))
        .args(["run", "--help"])
        .output()
        .unwrap();
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    for name in [
        "OVH_ENDPOINT",
        "OVH_SERVICE_NAME",
        "OVH_KUBE_ID",
        "OVH_REGION",
        "[default: ovh-eu]",
    ] {
        assert!(help.contains(name), "no {name} in {help}");
    }
}
