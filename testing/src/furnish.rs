//! What a cluster of the harness is furnished with before something runs on it: definitions, objects, kubelets.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::{ControlPlane, Process, Program};

/// Applies definitions, waits until they are served, then applies what they define.
pub async fn furnish(plane: &ControlPlane, at: &Path, crds: &str, objects: &[Value]) -> Result<()> {
    let file = at.join("crds.yaml");
    fs::write(&file, crds)?;
    let apply = |file: &Path| {
        ["apply", "--server-side", "--filename"]
            .map(str::to_owned)
            .into_iter()
            .chain([file.display().to_string()])
    };
    plane.kubectl(apply(&file)).await?;
    let wait = [
        "wait",
        "--for=condition=Established",
        "crd",
        "--all",
        "--timeout=60s",
    ];
    plane.kubectl(wait).await?;
    for (index, object) in objects.iter().enumerate() {
        let file = at.join(format!("object-{index}.json"));
        fs::write(&file, object.to_string())?;
        plane.kubectl(apply(&file)).await?;
    }
    Ok(())
}

/// Starts kwok as the kubelet of whatever nodes there are, with these stages.
pub fn start_kwok(
    programs: &Path,
    at: &Path,
    kubeconfig: &str,
    stages: &[PathBuf],
) -> Result<Process> {
    let mut arguments = vec![
        format!("--kubeconfig={kubeconfig}"),
        "--manage-all-nodes=true".to_owned(),
        "--node-lease-duration-seconds=40".to_owned(),
    ];
    let stages = stages.iter();
    arguments.extend(stages.map(|file| format!("--config={}", file.display())));
    let kwok = programs.join(Program::Kwok.file_name());
    Process::start("kwok", at, &kwok, &arguments)
}

/// kwok's own stages: everything happens at once.
pub fn fast_stages() -> Result<Vec<PathBuf>> {
    let folder = sources("kwok", "sigs.k8s.io/kwok")?.join("kustomize/stage");
    let mut files = Vec::new();
    for kind in ["node/fast", "node/heartbeat-with-lease", "pod/fast"] {
        files.extend(yaml_files(&folder.join(kind))?);
    }
    Ok(files)
}

/// The stages that Karpenter's suite is written for: kwok's, and those of Karpenter in place of the ones that have
/// their names. What is written for it goes to `at`.
pub fn karpenter_stages(at: &Path) -> Result<Vec<PathBuf>> {
    let own = yaml_files(&karpenter_sources()?.join("hack/kwok/stages"))?;
    let mut files = fast_stages()?;
    files.retain(|file| {
        own.iter()
            .all(|replaced| replaced.file_name() != file.file_name())
    });
    files.extend(own);
    for file in files
        .iter_mut()
        .filter(|file| file.ends_with("node-initialize.yaml"))
    {
        let text = fs::read_to_string(&*file)?;
        *file = at.join("node-initialize.yaml");
        fs::write(&*file, initialized_once(&text)?)?;
    }
    Ok(files)
}

/// A node that has been ready once is not made ready again: conditions that a spec sets on it stay.
fn initialized_once(stage: &str) -> Result<String> {
    let selector = "    matchExpressions:\n";
    ensure!(
        stage.contains(selector),
        "kwok's node-initialize has another form"
    );
    let fresh =
        "    - key: '.status.phase'\n      operator: 'NotIn'\n      values:\n      - 'Running'\n";
    Ok(stage.replacen(selector, &format!("{selector}{fresh}"), 1))
}

fn yaml_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    for entry in entries {
        let file = entry?.path();
        let yaml = file.extension().is_some_and(|kind| kind == "yaml");
        if yaml && !file.ends_with("kustomization.yaml") {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// Where Go keeps the sources of Karpenter, at the version that is pinned.
pub fn karpenter_sources() -> Result<PathBuf> {
    sources("karpenter", "sigs.k8s.io/karpenter")
}

/// Where Go keeps the sources of a program of the control plane.
fn sources(program: &str, module: &str) -> Result<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("controlplane")
        .join(program);
    let output = Command::new("go")
        .current_dir(folder)
        .args(["mod", "download", "-json", module])
        .env("GOWORK", "off")
        .output()
        .context("running go")?;
    ensure!(
        output.status.success(),
        "go mod download: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let told: Value = serde_json::from_slice(&output.stdout)?;
    let directory = told["Dir"]
        .as_str()
        .context("go mod download tells no Dir")?;
    Ok(directory.into())
}
