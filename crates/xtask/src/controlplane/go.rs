//! The Go toolchain: finding it, judging its version, building with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use super::Program;

/// Static, reproducible, without the symbol tables that nobody reads here (they are a third of the size).
pub(super) const FLAGS: [&str; 2] = ["-trimpath", "-buildvcs=false"];

/// A Go toolchain that is new enough.
#[derive(Debug)]
pub(super) struct Go {
    path: PathBuf,
}

/// Finds `go` on the `PATH` and checks that it is new enough for every module.
pub(super) fn find(modules: &Path) -> Result<Go> {
    let needed = needed_version(modules)?;
    find_as(Path::new("go"), needed)
}

pub(super) fn find_as(path: &Path, needed: Version) -> Result<Go> {
    let help = format!(
        "the control plane for tests is built with Go {needed} or newer: install it from https://go.dev/dl/ \
         (unpack to /usr/local/go and add /usr/local/go/bin to PATH), or set KUBEBUILDER_ASSETS to a directory \
         that already holds etcd, kube-apiserver, kube-scheduler, kube-controller-manager, kubectl and helm"
    );
    // A toolchain is never downloaded behind the user's back: what stands on the PATH decides.
    let output = match Command::new(path)
        .arg("version")
        .env("GOTOOLCHAIN", "local")
        .output()
    {
        Ok(output) => output,
        Err(error) => bail!("Go was not found ({error}); {help}"),
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let found = text
        .split_whitespace()
        .find_map(|word| Version::parse(word.strip_prefix("go")?))
        .with_context(|| format!("`go version` answered {text:?}; {help}"))?;
    ensure!(found >= needed, "Go {found} is too old; {help}");
    Ok(Go {
        path: path.to_owned(),
    })
}

impl Go {
    /// Builds `program` into the file `output`.
    pub(super) fn build(&self, program: Program, modules: &Path, output: &Path) -> Result<()> {
        let folder = modules.join(program.module_folder());
        let version = pinned_version(&folder, program.module())?;
        let mut link = "-s -w".to_owned();
        for variable in program.version_variables(&version) {
            link.push_str(" -X ");
            link.push_str(&variable);
        }
        let status = Command::new(&self.path)
            .current_dir(&folder)
            .args(program.go_command())
            .args(["-ldflags", &link, "-o"])
            .arg(output)
            .args(FLAGS)
            .arg(program.package())
            .envs([
                ("GOTOOLCHAIN", "local"),
                ("CGO_ENABLED", "0"),
                ("GOWORK", "off"),
            ])
            .status()
            .context("running go build")?;
        ensure!(
            status.success(),
            "building {} {version} ended with {status}: see what go printed above",
            program.file_name()
        );
        Ok(())
    }
}

/// The version of `module` that the go.mod in `folder` requires.
fn pinned_version(folder: &Path, module: &str) -> Result<String> {
    let path = folder.join("go.mod");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    text.lines()
        .find_map(|line| {
            let mut words = line.trim_start_matches("require").split_whitespace();
            (words.next()? == module).then(|| words.next())?
        })
        .filter(|version| version.starts_with('v'))
        .map(str::to_owned)
        .with_context(|| format!("{} does not require {module}", path.display()))
}

/// The newest `go` line of all modules.
fn needed_version(modules: &Path) -> Result<Version> {
    let mut needed = Version(1, 24, 0);
    for folder in ["etcd", "helm", "kubernetes", "kwok"] {
        let text = fs::read_to_string(modules.join(folder).join("go.mod"))?;
        let lines = text
            .lines()
            .filter_map(|line| Version::parse(line.strip_prefix("go ")?));
        needed = lines.fold(needed, Version::max);
    }
    Ok(needed)
}

/// A Go version: 1.26.8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(pub(super) u32, pub(super) u32, pub(super) u32);

impl Version {
    /// Reads `1.26`, `1.26.8` or `1.27rc1` (which counts as 1.27).
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.trim().splitn(3, '.').map(|part| {
            let end = part
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(part.len());
            part[..end].parse::<u32>().ok()
        });
        let (major, minor) = (numbers.next()??, numbers.next()??);
        Some(Self(major, minor, numbers.next().flatten().unwrap_or(0)))
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}
