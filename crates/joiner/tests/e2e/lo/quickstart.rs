//! The document's quick start, word for word.

use std::path::Path;
use std::process::Command;

use joiner_testing::{Process, Program};
use reqwest::Method;
use serde_json::{Value, json};

use super::region::{CLASSES, Classes, POOLS, Region, repository};

/// The file that the document tells to save as quick-test.yaml.
const QUICK_TEST: &str = r#"# save as quick-test.yaml
apiVersion: gpu.devplatforms.io/v1alpha1
kind: LeftoverNodePool
metadata:
  name: gpu-spot-euc1
spec:
  region: eu-central-1
  families: ["g5","g6","p5"]
  capacityType: spot
  targetCount: 2
  maxInstanceTypes: 5
  maxZones: 2
  budgetsNodes: "10%"
  consolidateAfter: "2m"
  labels:
    workload: gpu
    nvidia.com/gpu.present: "true"
  taints:
    - "nvidia.com/gpu=true:NoSchedule"
  subnetSelectorTags:
    kubernetes.io/role/internal-elb: "1"
    kubernetes.io/cluster/your-cluster: owned
  securityGroupSelectorTags:
    kubernetes.io/cluster/your-cluster: owned
"#;

/// Stands in cargo's place: what `make run` would build is built already, in another profile. It ends when the file does, or
/// the test.
const CARGO: &str = r#"#!/bin/sh
if [ "$*" != "run --release --package joiner -- run" ]; then
  echo "make run does something else: $*" >&2
  exit 64
fi
"$JOINER" run & joiner=$!
while kill -0 "$TEST" 2>/dev/null && kill -0 "$joiner" 2>/dev/null && [ -e "$0" ]; do sleep 0.2; done
kill "$joiner" 2>/dev/null
wait "$joiner"
"#;

const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";

pub(super) fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Objects of Karpenter's own, which are to stay as they are.
async fn neighbours(region: &Region) -> Vec<(String, Value)> {
    let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
    let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {"template": {"spec": {"nodeClassRef": class, "requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]}}}});
    let claim = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": "default-1", "finalizers": ["karpenter.sh/termination"],
            "labels": {"karpenter.sh/nodepool": "default"}},
        "spec": {"nodeClassRef": class, "requirements": [
            {"key": "karpenter.sh/nodepool", "operator": "In", "values": ["default"]}]}});
    let node_class = json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
        "spec": {"role": "KarpenterNodeRole", "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": {"a": "b"}}], "securityGroupSelectorTerms": [{"tags": {"a": "b"}}]}});
    let mut made = Vec::new();
    for (path, object) in [(POOLS, pool), (CLAIMS, claim), (CLASSES, node_class)] {
        let created = region.client.send(Method::POST, path, Some(&object)).await;
        let created = created.unwrap();
        let name = created["metadata"]["name"].as_str().unwrap();
        made.push((format!("{path}/{name}"), created.clone()));
    }
    made
}

/// Runs a target on the cluster, and returns what it says.
fn make(region: &Region, arguments: &[&str]) -> String {
    let kubectl = region.plane.program(Program::Kubectl);
    let ended = Command::new("make")
        .current_dir(repository())
        .env("KUBECONFIG", region.plane.kubeconfig())
        .args(arguments)
        .arg(format!("KUBECTL={}", kubectl.display()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    let error = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{arguments:?}: {said}{error}");
    said
}

#[expect(clippy::too_many_lines, reason = "one story")]
pub(super) async fn lo_10_the_quick_start_of_the_document_word_for_word() {
    let region = Region::bare(Classes::V1).await;
    let before = neighbours(&region).await;
    let kubeconfig = region.plane.kubeconfig();
    let crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodepools.karpenter.sh";
    let karpenters = region.client.get(crd).await.unwrap();

    // make install
    let said = make(&region, &["install"]);
    assert!(
        said.contains("leftovernodepools.gpu.devplatforms.io serverside-applied"),
        "{said}"
    );
    assert!(
        said.contains("karpenter.sh_nodepools.yaml: installed by another controller"),
        "{said}"
    );

    // ENABLE_WEBHOOKS=false make run
    let directory = tempfile::Builder::new()
        .prefix("joiner-quick-start-")
        .tempdir()
        .unwrap();
    let cargo = directory.path().join("cargo");
    std::fs::write(&cargo, CARGO).unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&cargo, executable).unwrap();
    let logs = tempfile::Builder::new()
        .prefix("joiner-quick-start-log-")
        .tempdir()
        .unwrap();
    let mut arguments: Vec<String> = vec![
        "ENABLE_WEBHOOKS=false".to_owned(),
        format!("KUBECONFIG={}", kubeconfig.display()),
        format!("AWS_ENDPOINT_URL_EC2={}", region.endpoint()),
        "AWS_ACCESS_KEY_ID=AKIASIMULATED".to_owned(),
        "AWS_SECRET_ACCESS_KEY=simulated-secret".to_owned(),
        "LEFTOVER_NODE_ROLE=KarpenterNodeRole".to_owned(),
        // Other tests listen as well.
        format!("HEALTH_PROBE_PORT={}", free_port()),
        format!("METRICS_PORT={}", free_port()),
        format!("JOINER={}", env!("CARGO_BIN_EXE_joiner")),
        format!("TEST={}", std::process::id()),
    ];
    let run = [
        "make",
        "--no-print-directory",
        "--directory",
        &repository().display().to_string(),
        "run",
        &format!("CARGO={}", cargo.display()),
    ];
    arguments.extend(run.map(str::to_owned));
    let running = Process::start("make", logs.path(), Path::new("/usr/bin/env"), &arguments);
    let running = running.unwrap();

    // kubectl apply -f quick-test.yaml; kubectl describe leftovernodepool gpu-spot-euc1
    let file = directory.path().join("quick-test.yaml");
    std::fs::write(&file, QUICK_TEST).unwrap();
    let file = file.display().to_string();
    let applied = region.plane.kubectl(["apply", "-f", &file]).await;
    assert!(applied.unwrap().contains("gpu-spot-euc1 created"));
    let mut left = 450;
    let described = loop {
        let describe = ["describe", "leftovernodepool", "gpu-spot-euc1"];
        let said = region.plane.kubectl(describe).await.unwrap();
        if said.contains("Reconciled") && said.contains("Selected") {
            break said;
        }
        left -= 1;
        assert!(left > 0, "{said}\n{}", running.output());
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    };
    for word in [
        "Selected Instance Types",
        "Selected Zones",
        "Last Sync Time",
        "Ready",
        "Degraded",
    ] {
        assert!(described.contains(word), "{word}: {described}");
    }
    // "Leftover will reconcile and create/update: NodePool, EC2NodeClass, named after your resource"
    for path in [
        format!("{POOLS}/leftover-gpu-spot-euc1"),
        format!("{CLASSES}/leftover-gpu-spot-euc1-class"),
    ] {
        region.client.get(&path).await.unwrap();
    }
    // The sample of the part on deployment, which is the same object.
    let sample = repository().join("config/samples/gpu_v1alpha1_leftovernodepool.yaml");
    let sample = sample.display().to_string();
    let applied = region.plane.kubectl(["apply", "-f", &sample]).await;
    assert!(applied.unwrap().contains("gpu-spot-euc1 unchanged"));
    let get = ["get", "leftovernodepools.gpu.devplatforms.io"];
    let table = region.plane.kubectl(get).await.unwrap();
    assert!(table.contains("gpu-spot-euc1"), "{table}");
    // make deploy IMG=…
    let image = "ghcr.io/devplatformsolutions/leftover:dev";
    make(&region, &["deploy", &format!("IMG={image}")]);
    let path = "/apis/apps/v1/namespaces/leftover-system/deployments/leftover-joiner";
    let deployment = region.client.get(path).await.unwrap();
    let manager = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(manager["image"], image);
    assert!(
        manager["args"].to_string().contains("--dialect=leftover"),
        "{manager:#}"
    );
    for (overlay, has) in [
        ("irsa", "eks.amazonaws.com/role-arn"),
        ("aws-secret", "secretRef"),
    ] {
        let path = repository().join("config/overlays").join(overlay);
        let built = region
            .plane
            .kubectl(["kustomize", &path.display().to_string()])
            .await;
        assert!(built.unwrap().contains(has), "{overlay}");
    }
    // What Karpenter has is Karpenter's, and so are its CRDs.
    assert_eq!(region.client.get(crd).await.unwrap(), karpenters);
    for (path, object) in &before {
        assert_eq!(&region.client.get(path).await.unwrap(), object, "{path}");
    }
}
