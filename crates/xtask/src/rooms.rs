//! The floor plan, enforced: which crate may use which, what the core must never pull in, and that the folders of the
//! packer do not import each other in a circle.

mod cycles;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// What each crate may use of the others; nothing points back.
const MAY_USE: [(&str, &[&str]); 10] = [
    (FEATURES, &[]),
    ("joiner-core", &[]),
    ("joiner-api", &["joiner-core"]),
    ("joiner-providers", &["joiner-core"]),
    (
        "joiner-controllers",
        &["joiner-api", "joiner-core", "joiner-providers"],
    ),
    ("joiner-embedded", &[]),
    (
        "joiner-sim",
        &["joiner-core", "joiner-embedded", "joiner-providers"],
    ),
    (
        "joiner",
        &[
            "joiner-api",
            "joiner-controllers",
            "joiner-core",
            "joiner-embedded",
            "joiner-providers",
            "joiner-sim",
        ],
    ),
    (
        "joiner-testing",
        &["joiner-api", "joiner-core", "joiner-embedded", "xtask"],
    ),
    ("xtask", &["joiner-api", "joiner-core"]),
];

/// No code, only features of dependencies: every crate but the core may name it.
const FEATURES: &str = "workspace-hack";

/// Crates that do I/O: one of them below `joiner-core` and deciding is no longer pure.
const NEVER_IN_CORE: [&str; 5] = ["hyper", "k8s-openapi", "kube", "reqwest", "tokio"];

/// A file longer than this has more than one subject.
const LONGEST_FILE: usize = 800;

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_root: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
    path: Option<PathBuf>,
}

/// Checks everything and reports all faults at once.
pub(crate) fn check() -> Result<()> {
    let metadata: Metadata =
        serde_json::from_str(&cargo(&["metadata", "--no-deps", "--format-version=1"])?)
            .context("cargo metadata")?;
    let mut faults = wrong_directions(&metadata);
    faults.extend(io_in_core(&cargo(&[
        "tree",
        "--package=joiner-core",
        "--edges=normal",
        "--prefix=none",
        "--format={p}",
    ])?));
    faults.extend(long_files(&metadata.workspace_root)?);
    faults.extend(cycles::faults(&metadata.workspace_root)?);
    if faults.is_empty() {
        return Ok(());
    }
    bail!("the house is not in order:\n  {}", faults.join("\n  "));
}

fn wrong_directions(metadata: &Metadata) -> Vec<String> {
    let plan: BTreeMap<&str, &[&str]> = MAY_USE.into_iter().collect();
    let mut faults = Vec::new();
    for package in &metadata.packages {
        let Some(allowed) = plan.get(package.name.as_str()) else {
            faults.push(format!(
                "{} has no row in the table of rooms (xtask/src/rooms.rs)",
                package.name
            ));
            continue;
        };
        let used: BTreeSet<&str> = package
            .dependencies
            .iter()
            .filter(|one| one.path.is_some() && one.kind.as_deref() != Some("dev"))
            .map(|one| one.name.as_str())
            .collect();
        let features = |name: &str| name == FEATURES && package.name != "joiner-core";
        for name in used
            .iter()
            .filter(|name| !allowed.contains(name) && !features(name))
        {
            faults.push(format!("{} must not depend on {name}", package.name));
        }
    }
    faults
}

fn io_in_core(tree: &str) -> Vec<String> {
    let below: BTreeSet<&str> = tree
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    NEVER_IN_CORE
        .iter()
        .filter(|name| below.contains(**name))
        .map(|name| {
            format!("joiner-core pulls in {name}: see `cargo tree -p joiner-core -i {name}`")
        })
        .collect()
}

fn long_files(root: &Path) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    let mut folders = vec![root.join("crates"), root.join("testing")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let lines = std::fs::read_to_string(&path)?.lines().count();
                if lines > LONGEST_FILE {
                    let shown = path.strip_prefix(root).unwrap_or(&path).display();
                    faults.push(format!("{shown} has {lines} lines, {LONGEST_FILE} at most: give each subject its own file"));
                }
            }
        }
    }
    faults.sort();
    Ok(faults)
}

fn cargo(arguments: &[&str]) -> Result<String> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(program)
        .args(arguments)
        .output()
        .context("cargo does not start")?;
    if !output.status.success() {
        bail!(
            "cargo {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, uses: &str) -> Metadata {
        let text = format!(
            r#"{{"workspace_root": "/", "packages": [{{"name": "{name}", "dependencies": [
                {{"name": "{uses}", "kind": null, "path": "/crates/{uses}"}}]}}]}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn dependencies_may_not_point_back() {
        assert!(wrong_directions(&package("joiner-controllers", "joiner-core")).is_empty());
        assert_eq!(
            wrong_directions(&package("joiner-core", "joiner-api")),
            ["joiner-core must not depend on joiner-api"]
        );
        assert_eq!(wrong_directions(&package("attic", "joiner-core")).len(), 1);
    }

    #[test]
    fn io_below_the_core_is_named() {
        assert!(io_in_core("joiner-core v0.1.0\nserde v1.0.0\ntokio-free v1.0.0").is_empty());
        assert_eq!(io_in_core("joiner-core v0.1.0\ntokio v1.54.1").len(), 1);
    }
}
