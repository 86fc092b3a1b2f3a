//! The tables of `README.md` tell the truth.

use std::fs;
use std::path::Path;

#[test]
fn the_versions_in_the_readme_are_the_versions_that_are_built() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(folder.join("README.md")).unwrap();
    for (module_folder, module, program) in [
        ("kubernetes", "k8s.io/kubernetes", "kubectl"),
        ("etcd", "go.etcd.io/etcd/server/v3", "etcd"),
        ("helm", "helm.sh/helm/v3", "helm"),
        ("kwok", "sigs.k8s.io/kwok", "| kwok"),
        ("karpenter", "sigs.k8s.io/karpenter", "karpenter-kwok"),
        (
            "karpenter-suite",
            "sigs.k8s.io/karpenter",
            "karpenter-suite",
        ),
    ] {
        let path = folder
            .join("controlplane")
            .join(module_folder)
            .join("go.mod");
        let text = fs::read_to_string(&path).unwrap();
        let version = text
            .lines()
            .map(|line| line.trim_start_matches("require").trim())
            .find_map(|line| line.strip_prefix(module)?.strip_prefix(" v"))
            .and_then(|rest| rest.split_whitespace().next())
            .unwrap_or_else(|| panic!("{} requires {module}", path.display()));
        let row = readme
            .lines()
            .find(|line| line.starts_with('|') && line.contains(program) && line.contains("| v"))
            .unwrap_or_else(|| panic!("the table has a row for {program}"));
        assert!(
            row.contains(&format!("| v{version} |")),
            "{program} is {version}: {row}"
        );
    }
}

#[test]
fn every_staging_module_has_the_release_of_kubernetes_itself() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("controlplane/kubernetes/go.mod");
    let text = fs::read_to_string(path).unwrap();
    let version = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes v1."))
        .and_then(|rest| rest.split_whitespace().next())
        .expect("kubernetes is required");
    let replaced: Vec<&str> = text.lines().filter(|line| line.contains(" => ")).collect();
    assert!(replaced.len() > 20, "{replaced:?}");
    for line in replaced {
        assert!(
            line.ends_with(&format!(" v0.{version}")),
            "{line} beside v1.{version}"
        );
    }
}
