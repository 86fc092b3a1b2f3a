//! The programs of a real Kubernetes control plane, built from pinned Go modules into a cache outside the checkout.
//!
//! ```text
//! testing/controlplane/*/go.mod ──hash──► <cache>/joiner/controlplane/<key>/{etcd,kube-apiserver,…}
//! KUBEBUILDER_ASSETS (if set) ──► its programs are taken as they are, only the missing ones are built
//! ```
//!
//! A program that stands in the cache is complete: it is linked under another name and renamed. A lock file keeps two
//! builders apart; the second waits and then finds everything done.

mod go;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use sha2::{Digest as _, Sha256};

/// A program of the control plane, or a tool that tests use on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
#[allow(missing_docs)] // each is called what it is
pub enum Program {
    Etcd,
    KubeApiserver,
    Kubectl,
    KubeScheduler,
    KubeControllerManager,
    Helm,
    Kwok,
    KarpenterKwok,
    KarpenterSuite,
}

impl Program {
    /// Every program that tests need, in the order in which they are built: what an API server needs first.
    pub const ALL: [Self; 7] = [
        Self::Etcd,
        Self::KubeApiserver,
        Self::Kubectl,
        Self::KubeScheduler,
        Self::KubeControllerManager,
        Self::Helm,
        Self::Kwok,
    ];

    /// The name of its file.
    pub fn file_name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::Kubectl => "kubectl",
            Self::KubeScheduler => "kube-scheduler",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::Helm => "helm",
            Self::Kwok => "kwok",
            // Its version stands in its name, because it is no part of the key: whoever does not measure himself
            // against it does not build it.
            Self::KarpenterKwok => "karpenter-kwok-v1.14.1",
            Self::KarpenterSuite => "karpenter-suite-v1.14.1",
        }
    }

    /// The Go package that it is built from.
    fn package(self) -> &'static str {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3",
            Self::KubeApiserver => "k8s.io/kubernetes/cmd/kube-apiserver",
            Self::Kubectl => "k8s.io/kubernetes/cmd/kubectl",
            Self::KubeScheduler => "k8s.io/kubernetes/cmd/kube-scheduler",
            Self::KubeControllerManager => "k8s.io/kubernetes/cmd/kube-controller-manager",
            Self::Helm => "helm.sh/helm/v3/cmd/helm",
            Self::Kwok => "sigs.k8s.io/kwok/cmd/kwok",
            Self::KarpenterKwok => "sigs.k8s.io/karpenter/kwok",
            Self::KarpenterSuite => "sigs.k8s.io/karpenter/test/suites/regression",
        }
    }

    /// What builds it: a suite of tests is a program, too, once it is compiled.
    fn go_command(self) -> &'static [&'static str] {
        match self {
            Self::KarpenterSuite => &["test", "-c"],
            _ => &["build"],
        }
    }

    /// The folder in `testing/controlplane` whose go.mod pins it.
    fn module_folder(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Helm => "helm",
            Self::Kwok => "kwok",
            Self::KarpenterKwok => "karpenter",
            Self::KarpenterSuite => "karpenter-suite",
            _ => "kubernetes",
        }
    }

    /// The Go module whose version is the program's version.
    fn module(self) -> &'static str {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3",
            Self::Helm => "helm.sh/helm/v3",
            Self::Kwok => "sigs.k8s.io/kwok",
            Self::KarpenterKwok | Self::KarpenterSuite => "sigs.k8s.io/karpenter",
            _ => "k8s.io/kubernetes",
        }
    }

    /// The variables that make the program tell its true version, as its own release scripts set them.
    fn version_variables(self, version: &str) -> Vec<String> {
        let number = version.trim_start_matches('v');
        let mut parts = number.split('.');
        let (major, minor) = (parts.next().unwrap_or("0"), parts.next().unwrap_or("0"));
        match self {
            // etcd's version is a constant in its own source; Karpenter's provider and suite do not tell.
            Self::Etcd | Self::KarpenterKwok | Self::KarpenterSuite => vec![],
            Self::Helm => vec![
                format!("helm.sh/helm/v3/internal/version.version={version}"),
                "helm.sh/helm/v3/internal/version.gitTreeState=clean".to_owned(),
            ],
            Self::Kwok => vec![format!("sigs.k8s.io/kwok/pkg/consts.Version={version}")],
            _ => {
                let mut variables = Vec::new();
                for package in [
                    "k8s.io/component-base/version",
                    "k8s.io/client-go/pkg/version",
                ] {
                    variables.push(format!("{package}.gitVersion={version}"));
                    variables.push(format!("{package}.gitMajor={major}"));
                    variables.push(format!("{package}.gitMinor={minor}"));
                    variables.push(format!("{package}.gitTreeState=clean"));
                }
                variables
            }
        }
    }
}

/// Where programs come from and go to: the environment, read once.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder with the Go modules.
    pub modules: PathBuf,
    /// The folder that holds one folder per key.
    pub cache: PathBuf,
    /// `KUBEBUILDER_ASSETS`.
    pub assets: Option<PathBuf>,
}

impl Settings {
    /// From the environment: `JOINER_CACHE`, else `XDG_CACHE_HOME` or `~/.cache`; `KUBEBUILDER_ASSETS`.
    pub fn from_environment() -> Result<Self> {
        let folder = |name: &str| {
            std::env::var_os(name)
                .filter(|v| !v.is_empty())
                .map(PathBuf::from)
        };
        let cache = folder("JOINER_CACHE")
            .or_else(|| folder("XDG_CACHE_HOME").map(|cache| cache.join("joiner")))
            .or_else(|| folder("HOME").map(|home| home.join(".cache/joiner")))
            .context("no place for a cache: set JOINER_CACHE, XDG_CACHE_HOME or HOME")?;
        Ok(Self {
            modules: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/controlplane"),
            cache: std::path::absolute(cache)?.join("controlplane"),
            assets: folder("KUBEBUILDER_ASSETS"),
        })
    }

    /// A hash of everything that is pinned: two checkouts with the same versions share one build.
    pub fn key(&self) -> Result<String> {
        let mut hash = Sha256::new();
        hash.update(std::env::consts::OS);
        hash.update(std::env::consts::ARCH);
        hash.update(go::FLAGS.join(" "));
        for folder in ["etcd", "helm", "kubernetes", "kwok"] {
            for file in ["go.mod", "go.sum"] {
                let path = self.modules.join(folder).join(file);
                let text =
                    fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
                hash.update(folder);
                hash.update(file);
                hash.update(text);
            }
        }
        Ok(short(hash, 16))
    }
}

/// Builds what is missing and returns a directory in which all of `wanted` stand.
pub fn ensure(wanted: &[Program]) -> Result<PathBuf> {
    ensure_with(&Settings::from_environment()?, wanted)
}

/// [`ensure`] with explicit settings.
pub fn ensure_with(settings: &Settings, wanted: &[Program]) -> Result<PathBuf> {
    let built = settings.cache.join(settings.key()?);
    let (given, missing): (Vec<Program>, Vec<Program>) = wanted
        .iter()
        .partition(|program| given_by(settings.assets.as_deref(), **program).is_some());
    build_missing(settings, &built, &missing)?;
    match &settings.assets {
        Some(assets) if missing.is_empty() => Ok(std::path::absolute(assets)?),
        Some(assets) if !given.is_empty() => overlay(assets, &built, &given, &missing),
        _ => Ok(built),
    }
}

fn given_by(assets: Option<&Path>, program: Program) -> Option<PathBuf> {
    let path = assets?.join(program.file_name());
    path.is_file().then_some(path)
}

fn build_missing(settings: &Settings, built: &Path, wanted: &[Program]) -> Result<()> {
    let is_missing = |program: &&Program| !built.join(program.file_name()).is_file();
    // The common case takes no lock and writes nothing: everything is there.
    if !wanted.iter().any(|program| is_missing(&program)) {
        return Ok(());
    }
    let go = go::find(&settings.modules)?;
    fs::create_dir_all(built).with_context(|| format!("creating {}", built.display()))?;
    let lock = File::create(built.join(".lock"))?;
    if lock.try_lock().is_err() {
        eprintln!("another process is building the control plane, waiting for it");
        lock.lock()?;
    }
    let missing: Vec<Program> = wanted.iter().filter(is_missing).copied().collect();
    for (index, program) in missing.iter().enumerate() {
        eprintln!(
            "building {} ({} of {}; the first time takes minutes)",
            program.file_name(),
            index + 1,
            missing.len()
        );
        // Only the holder of the lock writes here, so what a killed builder left is simply overwritten.
        let unfinished = built.join(format!(".{}.unfinished", program.file_name()));
        go.build(*program, &settings.modules, &unfinished)?;
        fs::rename(&unfinished, built.join(program.file_name()))?;
    }
    Ok(())
}

/// A directory of links, so that one `PATH` entry holds what was given and what was built.
fn overlay(assets: &Path, built: &Path, given: &[Program], missing: &[Program]) -> Result<PathBuf> {
    let assets = std::path::absolute(assets)?;
    let mut hash = Sha256::new();
    hash.update(assets.as_os_str().as_encoded_bytes());
    let mark = short(hash, 8);
    let directory = built.join(format!("with-{mark}"));
    fs::create_dir_all(&directory)?;
    let links = given
        .iter()
        .map(|program| (program, &*assets))
        .chain(missing.iter().map(|program| (program, built)));
    for (program, home) in links {
        let (target, link) = (
            home.join(program.file_name()),
            directory.join(program.file_name()),
        );
        if fs::read_link(&link).is_ok_and(|old| old == target) {
            continue;
        }
        let fresh = directory.join(format!(".{}.{}", program.file_name(), std::process::id()));
        std::os::unix::fs::symlink(&target, &fresh)?;
        fs::rename(&fresh, &link)?;
    }
    Ok(directory)
}

fn short(hash: Sha256, digits: usize) -> String {
    let mut text = String::new();
    for byte in hash.finalize() {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text.truncate(digits);
    text
}

#[cfg(test)]
mod tests;
