//! The two contestants, each on a control plane of its own.

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use joiner_testing::furnish::{fast_stages, furnish, karpenter_sources, start_kwok};
use joiner_testing::{Client, ControlPlane, Process, Program};
use serde_json::json;
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
    let kwok = start_kwok(&programs, kubelets.path(), &kubeconfig, &fast_stages()?)?;
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
    // Nothing of Karpenter's says so, and until somebody does it launches nothing.
    let ready = json!({"status": {"conditions": [{
        "type": "Ready", "status": "True", "reason": "Ready", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]}});
    let patch = [
        "patch",
        "kwoknodeclass",
        "default",
        "--subresource=status",
        "--type=merge",
        &format!("--patch={ready}"),
    ];
    plane.kubectl(patch).await?;
    let kubeconfig = plane.kubeconfig().display().to_string();
    let kubelets = TempDir::new()?;
    let kwok = start_kwok(&programs, kubelets.path(), &kubeconfig, &fast_stages()?)?;
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
