//! A cluster with Karpenter's CRDs, a simulated EC2 on a port, and a Joiner that renders.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use joiner_embedded::clock::Clock;
use joiner_sim::clouds::ec2::{Ec2Cloud, Ec2CloudOptions};
use joiner_testing::{Client, ControlPlane, Process};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

pub(super) const POOLS: &str = "/apis/karpenter.sh/v1/nodepools";
pub(super) const CLASSES: &str = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses";
const LEFTOVERS: &str = "/apis/gpu.devplatforms.io/v1alpha1/leftovernodepools";

/// What is served of `EC2NodeClass`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Classes {
    V1,
    V1beta1,
    Both,
    None,
}

pub(super) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The document's object.
pub(super) fn documented() -> Value {
    let path = repository().join("config/samples/gpu_v1alpha1_leftovernodepool.yaml");
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// A condition of an object; null if it is not there.
pub(super) fn condition<'a>(object: &'a Value, type_: &str) -> &'a Value {
    let all = object["status"]["conditions"].as_array();
    let found = all.and_then(|all| all.iter().find(|one| one["type"] == type_));
    found.unwrap_or(&Value::Null)
}

pub(super) struct Region {
    process: Option<Process>,
    directory: Option<TempDir>,
    pub(super) cloud: Ec2Cloud,
    address: SocketAddr,
    pub(super) client: Client,
    pub(super) plane: ControlPlane,
}

impl Region {
    pub(super) async fn start(classes: Classes) -> Region {
        let region = Region::bare(classes).await;
        for crd in joiner_api::crds(Some(joiner_api::Dialect::Leftover)) {
            region.define(serde_json::to_value(&crd).unwrap()).await;
        }
        region
    }

    /// The same without our own CRD.
    pub(super) async fn bare(classes: Classes) -> Region {
        let builder = ControlPlane::builder().with_controller_manager();
        let plane = builder.start().await.expect("a control plane");
        let client = plane.client().unwrap();
        let cloud = Ec2Cloud::new(Ec2CloudOptions::calm(1), Clock::wall());
        for zone in ["eu-central-1a", "eu-central-1b", "eu-central-1c"] {
            cloud.set_score(zone, 8);
        }
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = cloud.router();
        tokio::spawn(async move { axum::serve(listener, router).await });
        let region = Region {
            process: None,
            directory: None,
            cloud,
            address,
            client,
            plane,
        };
        region.install(classes).await;
        region
    }

    /// Where the simulated EC2 is.
    pub(super) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Installs the CRDs of Karpenter for AWS.
    pub(super) async fn install(&self, classes: Classes) {
        let files: &[&str] = match classes {
            Classes::V1 => &["nodepools", "nodeclaims", "ec2nodeclasses-v1"],
            Classes::V1beta1 => &["nodepools", "nodeclaims", "ec2nodeclasses-v1beta1"],
            Classes::Both => &["nodepools", "nodeclaims", "ec2nodeclasses-both"],
            Classes::None => &[],
        };
        for file in files {
            let path = repository().join(format!("testing/crds/karpenter-aws/{file}.yaml"));
            let mut crd: Value =
                serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
            // There is no Karpenter here to convert versions.
            if crd["spec"].get("conversion").is_some() {
                crd["spec"]["conversion"] = json!({"strategy": "None"});
            }
            self.define(crd).await;
        }
    }

    async fn define(&self, crd: Value) {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        self.client
            .send(Method::POST, path, Some(&crd))
            .await
            .unwrap();
        let names = &crd["spec"]["names"];
        for version in crd["spec"]["versions"].as_array().unwrap() {
            let path = format!(
                "/apis/{}/{}/{}",
                crd["spec"]["group"].as_str().unwrap(),
                version["name"].as_str().unwrap(),
                names["plural"].as_str().unwrap()
            );
            while version["served"] == true && self.client.get(&path).await.is_err() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    /// Starts a Joiner with keys in its environment; one that runs already ends.
    pub(super) fn join(&mut self, more: &[&str]) {
        let keys = [
            "AWS_ACCESS_KEY_ID=AKIASIMULATED",
            "AWS_SECRET_ACCESS_KEY=simulated-secret",
        ];
        let role = if more.iter().any(|one| one.starts_with("--aws-node-role")) {
            Vec::new()
        } else {
            vec!["--aws-node-role=KarpenterNodeRole".to_owned()]
        };
        let more = more
            .iter()
            .filter(|one| !one.ends_with('='))
            .map(|one| (*one).to_owned());
        let arguments: Vec<String> = role.into_iter().chain(more).collect();
        let kubeconfig = self.plane.kubeconfig();
        self.launch(&keys.map(str::to_owned), &kubeconfig, "default", &arguments);
    }

    /// The same with a web identity, as on EKS.
    pub(super) fn join_by_identity(&mut self) {
        let directory = tempfile::Builder::new()
            .prefix("joiner-token-")
            .tempdir()
            .unwrap()
            .keep();
        let token = directory.join("token");
        std::fs::write(&token, "a.web.identity").unwrap();
        let environment = [
            "AWS_ROLE_ARN=arn:aws:iam::123456789012:role/leftover".to_owned(),
            format!("AWS_WEB_IDENTITY_TOKEN_FILE={}", token.display()),
            format!("AWS_ENDPOINT_URL_STS=http://{}", self.address),
            "AWS_REGION=eu-central-1".to_owned(),
            // As an overlay with an empty Secret leaves it.
            "AWS_ACCESS_KEY_ID=".to_owned(),
            "AWS_SECRET_ACCESS_KEY=".to_owned(),
        ];
        let kubeconfig = self.plane.kubeconfig();
        let role = ["--aws-node-role=KarpenterNodeRole".to_owned()];
        self.launch(&environment, &kubeconfig, "default", &role);
    }

    /// The same with a service account of the cluster and the arguments of a chart.
    pub(super) async fn join_as_account(
        &mut self,
        namespace: &str,
        account: &str,
        mut arguments: Vec<String>,
    ) {
        let token = self
            .plane
            .kubectl(["create", "token", account, "-n", namespace])
            .await
            .unwrap();
        let admin = std::fs::read_to_string(self.plane.kubeconfig()).unwrap();
        let own = admin.replace(self.plane.token(), token.trim());
        let directory = tempfile::Builder::new()
            .prefix("joiner-account-")
            .tempdir()
            .unwrap()
            .keep();
        let path = directory.join("kubeconfig");
        std::fs::write(&path, own).unwrap();
        arguments.retain(|one| {
            one != "run" && !one.contains("bind-address") && !one.starts_with("--dialect")
        });
        self.launch(&[], &path, namespace, &arguments);
    }

    fn launch(
        &mut self,
        environment: &[String],
        kubeconfig: &Path,
        namespace: &str,
        more: &[String],
    ) {
        self.process = None;
        let directory = tempfile::Builder::new()
            .prefix("joiner-e2e-")
            .tempdir()
            .unwrap();
        let mut arguments = vec![
            "ENABLE_WEBHOOKS=false".to_owned(),
            "AWS_EC2_METADATA_DISABLED=true".to_owned(),
            format!("AWS_ENDPOINT_URL_EC2=http://{}", self.address),
        ];
        arguments.extend(environment.iter().cloned());
        arguments.push(env!("CARGO_BIN_EXE_joiner").to_owned());
        arguments.extend([
            "run".to_owned(),
            "--dialect=leftover".to_owned(),
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--leader-election-namespace={namespace}"),
            "--health-probe-bind-address=0".to_owned(),
            "--log-format=text".to_owned(),
        ]);
        if !more.iter().any(|one| one.starts_with("--metrics")) {
            arguments.push("--metrics-bind-address=0".to_owned());
        }
        if !more.iter().any(|one| one.starts_with("--leader-elect")) {
            arguments.push("--leader-elect=false".to_owned());
        }
        arguments.extend(more.iter().cloned());
        let process = Process::start(
            "joiner",
            directory.path(),
            Path::new("/usr/bin/env"),
            &arguments,
        );
        self.process = Some(process.unwrap());
        self.directory = Some(directory);
    }

    pub(super) fn output(&self) -> String {
        self.process
            .as_ref()
            .map(Process::output)
            .unwrap_or_default()
    }

    pub(super) async fn create(&self, object: &Value) {
        if let Err(error) = self
            .client
            .send(Method::POST, LEFTOVERS, Some(object))
            .await
        {
            panic!("{error:#}\n{object:#}");
        }
    }

    pub(super) async fn patch(&self, path: &str, change: &Value) {
        let request = self.client.request(Method::PATCH, path);
        let request = request
            .header("content-type", "application/merge-patch+json")
            .body(change.to_string());
        let answer = request.send().await.unwrap();
        assert!(
            answer.status().is_success(),
            "{}",
            answer.text().await.unwrap()
        );
    }

    pub(super) async fn ready(&self, name: &str) -> Value {
        self.until_of(name, "is ready", |pool| {
            condition(pool, "Ready")["status"] == "True"
        })
        .await
    }

    pub(super) async fn until(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.until_of("gpu-spot-euc1", what, wanted).await
    }

    pub(super) async fn until_of(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        let mut seen = Value::Null;
        for _ in 0..450 {
            if let Ok(pool) = self.client.get(&format!("{LEFTOVERS}/{name}")).await {
                if wanted(&pool) {
                    return pool;
                }
                seen = pool;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        panic!("{name}: {what}: never\n{seen:#}\n{}", self.output());
    }
}
