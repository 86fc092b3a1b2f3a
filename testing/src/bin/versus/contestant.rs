//! The two contestants, each on a control plane of its own.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use joiner_testing::{Client, ControlPlane, Process, Program};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::workload;

/// Who plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Who {
    Joiner,
    Karpenter,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Who::Joiner => "Joiner",
            Who::Karpenter => "Karpenter",
        })
    }
}

/// A controller that waits for pods.
pub(crate) struct Contestant {
    // Dropped in this order: who talks to the plane before the plane.
    controller: Process,
    _kubelets: Process,
    _directories: Vec<TempDir>,
    plane: ControlPlane,
}

impl Contestant {
    pub(crate) fn client(&self) -> Result<Client> {
        self.plane.client()
    }

    /// CPU seconds that the controller has used, and the most memory that it ever had, in MiB.
    pub(crate) fn used(&self) -> Result<(f64, f64)> {
        let pid = self.controller.pid()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        // The name in brackets may hold anything; the numbers come after it.
        let (_, after) = stat.rsplit_once(')').context("/proc/PID/stat")?;
        let ticks: f64 = after
            .split_whitespace()
            .skip(11)
            .take(2)
            .filter_map(|word| word.parse::<f64>().ok())
            .sum();
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let peak = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next())
            .and_then(|kib| kib.parse::<f64>().ok())
            .context("VmHWM")?;
        // A tick is a hundredth of a second on every Linux that matters.
        Ok((ticks / 100.0, peak / 1024.0))
    }

    /// The last lines that the controller wrote.
    pub(crate) fn log(&self) -> String {
        let output = self.controller.output();
        let lines: Vec<&str> = output.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }

    /// Writes the whole log into a directory.
    pub(crate) fn keep_log(&self, directory: &Path) -> Result<()> {
        fs::create_dir_all(directory)?;
        let file = directory.join(format!("{}.log", self.controller.name()));
        Ok(fs::write(file, self.controller.output())?)
    }
}

/// Starts a control plane with everything that a contestant needs, and the contestant.
pub(crate) async fn enter(who: Who, joiner: &Path, catalogue: &Path) -> Result<Contestant> {
    let plane = ControlPlane::builder()
        .with_scheduler()
        .with_controller_manager()
        .start()
        .await?;
    match who {
        Who::Joiner => enter_joiner(plane, joiner, catalogue).await,
        Who::Karpenter => enter_karpenter(plane, catalogue).await,
    }
}

async fn enter_joiner(plane: ControlPlane, program: &Path, catalogue: &Path) -> Result<Contestant> {
    let crds = joiner_api::to_yaml_stream(&joiner_api::crds(None))?;
    let class = json!({
        "apiVersion": "joiner.dev/v1alpha1", "kind": "SimNodeClass",
        "metadata": {"name": "default"},
        "spec": {
            // As Karpenter's kwok provider does: machines come and go at once.
            "catalog": {"file": catalogue}, "bootTime": {"min": "0s", "max": "0s"}, "stopTime": "0s",
            "kubelet": "Kwok",
        },
    });
    let pool = workload::pool("joiner.dev", "SimNodeClass");
    let directory = TempDir::new()?;
    furnish(&plane, directory.path(), &crds, &[class, pool]).await?;
    let ensure = || xtask::controlplane::ensure(&[Program::Kwok]);
    let programs = tokio::task::spawn_blocking(ensure).await??;
    let kubeconfig = plane.kubeconfig().display().to_string();
    let kubelets = TempDir::new()?;
    let kwok = start_kwok(&programs, kubelets.path(), &kubeconfig)?;
    let arguments = [
        "run".to_owned(),
        format!("--kubeconfig={kubeconfig}"),
        "--leader-elect=false".to_owned(),
        "--health-probe-bind-address=0".to_owned(),
        "--metrics-bind-address=0".to_owned(),
    ];
    Ok(Contestant {
        controller: Process::start("joiner", directory.path(), program, &arguments)?,
        _kubelets: kwok,
        _directories: vec![directory, kubelets],
        plane,
    })
}

/// Kubelets for whatever nodes there are: the same for both.
fn start_kwok(programs: &Path, at: &Path, kubeconfig: &str) -> Result<Process> {
    let mut arguments = vec![
        format!("--kubeconfig={kubeconfig}"),
        "--manage-all-nodes=true".to_owned(),
        "--node-lease-duration-seconds=40".to_owned(),
    ];
    let stages = stages()?;
    let stages = stages.iter();
    arguments.extend(stages.map(|file| format!("--config={}", file.display())));
    let kwok = programs.join(Program::Kwok.file_name());
    Process::start("kwok", at, &kwok, &arguments)
}

async fn enter_karpenter(plane: ControlPlane, catalogue: &Path) -> Result<Contestant> {
    let wanted = [Program::Kwok, Program::KarpenterKwok];
    let ensure = move || xtask::controlplane::ensure(&wanted);
    let programs = tokio::task::spawn_blocking(ensure).await??;
    let sources = karpenter_sources()?;
    let mut crds = String::new();
    for folder in ["pkg/apis/crds", "kwok/apis/crds"] {
        for entry in fs::read_dir(sources.join(folder))? {
            crds.push_str("\n---\n");
            crds.push_str(&fs::read_to_string(entry?.path())?);
        }
    }
    let class = json!({
        "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass",
        "metadata": {"name": "default"}, "spec": {},
    });
    let pool = workload::pool("karpenter.kwok.sh", "KWOKNodeClass");
    let directory = TempDir::new()?;
    furnish(&plane, directory.path(), &crds, &[class, pool]).await?;
    let kubeconfig = plane.kubeconfig().display().to_string();
    let kubelets = TempDir::new()?;
    let kwok = start_kwok(&programs, kubelets.path(), &kubeconfig)?;
    let karpenter = programs.join(Program::KarpenterKwok.file_name());
    let arguments = [
        format!("KUBECONFIG={kubeconfig}"),
        format!("INSTANCE_TYPES_FILE_PATH={}", catalogue.display()),
        "DISABLE_LEADER_ELECTION=true".to_owned(),
        "METRICS_PORT=0".to_owned(),
        "HEALTH_PROBE_PORT=0".to_owned(),
        "SYSTEM_NAMESPACE=kube-system".to_owned(),
        karpenter.display().to_string(),
    ];
    let env = Path::new("/usr/bin/env");
    Ok(Contestant {
        controller: Process::start("karpenter", directory.path(), env, &arguments)?,
        _kubelets: kwok,
        _directories: vec![directory, kubelets],
        plane,
    })
}

/// Definitions first, then what they define.
async fn furnish(plane: &ControlPlane, at: &Path, crds: &str, objects: &[Value]) -> Result<()> {
    let file = at.join("crds.yaml");
    fs::write(&file, crds)?;
    let apply = ["apply", "--server-side", "--filename"];
    let apply = |file: &Path| {
        apply
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

/// Where Go keeps the sources of Karpenter, at the version that is pinned.
pub(crate) fn karpenter_sources() -> Result<PathBuf> {
    sources("karpenter", "sigs.k8s.io/karpenter")
}

/// What simulated kubelets do: everything at once, as fast as it goes.
fn stages() -> Result<Vec<PathBuf>> {
    let folder = sources("kwok", "sigs.k8s.io/kwok")?.join("kustomize/stage");
    let mut files = Vec::new();
    for kind in ["node/fast", "node/heartbeat-with-lease", "pod/fast"] {
        for entry in fs::read_dir(folder.join(kind))? {
            let file = entry?.path();
            let yaml = file.extension().is_some_and(|kind| kind == "yaml");
            if yaml && !file.ends_with("kustomization.yaml") {
                files.push(file);
            }
        }
    }
    files.sort();
    Ok(files)
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
