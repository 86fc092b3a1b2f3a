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

/// Blocks of shell in a page.
fn shell_blocks(text: &str) -> Vec<Vec<&str>> {
    let mut all = Vec::new();
    let mut open: Option<Vec<&str>> = None;
    for line in text.lines() {
        match (&mut open, line.trim_end()) {
            (None, "```sh") => open = Some(Vec::new()),
            (Some(_), "```") => all.extend(open.take()),
            (Some(block), line) => block.push(line),
            (None, _) => {}
        }
    }
    all
}

/// Whether a command goes on until somebody ends it.
fn blocks(line: &str) -> bool {
    let command = line.split(" #").next().unwrap_or_default().trim_end();
    command.starts_with("make run")
        || command.starts_with("make demo") && !command.contains("--once")
        || command.starts_with("bin/controller")
        || command.ends_with(" -w")
        || command.ends_with(" --watch")
        || command.contains(" logs ") && command.contains(" -f")
}

#[test]
fn blocks_of_the_readme_and_the_guides_can_be_pasted_as_they_stand() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut pages = vec![
        root.join("README.md"),
        root.join("docs/reference/problem.md"),
    ];
    for entry in fs::read_dir(root.join("docs/guides")).unwrap() {
        pages.push(entry.unwrap().path());
    }
    let mut seen = 0;
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        for block in shell_blocks(&text) {
            seen += 1;
            let commands: Vec<&str> = block
                .iter()
                .copied()
                .filter(|line| !line.is_empty() && !line.starts_with('#'))
                .collect();
            for (position, line) in commands.iter().enumerate() {
                let last = position + 1 == commands.len();
                assert!(
                    last || !blocks(line),
                    "{}: what follows {line:?} is never reached",
                    page.display()
                );
                assert!(
                    !line.contains("kubectl create deployment"),
                    "{}: {line:?} makes pods without requests, for which nothing is bought",
                    page.display()
                );
            }
        }
    }
    assert!(seen > 10, "{seen} blocks");
}
