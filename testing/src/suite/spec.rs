//! What the suite can be asked to run.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// One spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Its place in the suite.
    pub index: usize,
    /// The headings above it and its own words, as Ginkgo joins them.
    pub name: String,
}

/// Minutes that specs take because of what they wait for; all others take one.
const LONG: [(&str, u32); 19] = [
    ("never registers", 8),
    ("never initialized", 14),
    ("registration timeout", 6),
    ("runaway scale-up", 6),
    ("should respect node limits when provisioning", 6),
    ("drain pods on a node in order", 5),
    ("concurrent changes", 5),
    ("Expiration", 6),
    ("according to their grace period", 5),
    ("Drift Budgets", 3),
    ("StaticCapacity Drift", 3),
    ("Performance", 4),
    ("isn't Ready", 16),
    ("hash-version annotation", 2),
    ("refill buffer after node expiry", 3),
    ("one pod per node", 4),
    ("TerminationGracePeriod", 2),
    ("Emptiness Budgets", 2),
    ("empty-consolidate", 2),
];

impl Spec {
    /// How many minutes it usually takes.
    pub(super) fn usual(&self) -> u32 {
        LONG.iter()
            .find(|(words, _)| self.name.contains(words))
            .map_or(1, |(_, minutes)| *minutes)
    }

    /// Whether it starts a controller of its own, which serves metrics on port 8080 of this machine.
    pub(super) fn listens(&self) -> bool {
        self.name.starts_with("Chaos")
    }

    /// The expression that chooses this spec and no other.
    pub(super) fn focus(&self) -> String {
        format!("{}$", regex::escape(&self.name))
    }
}

/// Asks the suite what is in it; nothing runs.
pub(super) fn list(program: &Path) -> Result<Vec<Spec>> {
    let directory = tempfile::tempdir()?;
    let report = directory.path().join("report.json");
    let output = Command::new(program)
        .current_dir(directory.path())
        // Ginkgo shuffles; the same seed gives the same order.
        .args([
            "--ginkgo.dry-run",
            "--ginkgo.seed=1",
            "--ginkgo.json-report",
        ])
        .arg(&report)
        .output()
        .with_context(|| format!("running {}", program.display()))?;
    ensure!(
        output.status.success(),
        "the suite does not list its specs: {}",
        String::from_utf8_lossy(&output.stdout)
    );
    let report: Value = serde_json::from_slice(&std::fs::read(report)?)?;
    Ok(read(&report)
        .into_iter()
        .enumerate()
        .map(|(index, (name, _))| Spec { index, name })
        .collect())
}

/// Names and reports of the specs in a report of Ginkgo.
pub(super) fn read(report: &Value) -> Vec<(String, &Value)> {
    let specs = report[0]["SpecReports"].as_array().into_iter().flatten();
    specs
        .filter(|spec| spec["LeafNodeType"] == "It")
        .map(|spec| {
            let headings = spec["ContainerHierarchyTexts"].as_array();
            let words: Vec<&str> = headings
                .into_iter()
                .flatten()
                .chain([&spec["LeafNodeText"]])
                .filter_map(Value::as_str)
                .collect();
            (words.join(" "), spec)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_is_chosen_by_its_whole_name() {
        let spec = Spec {
            index: 0,
            name: "Labels (a.b/c) are refused".to_owned(),
        };
        let focus = regex::Regex::new(&spec.focus()).unwrap();
        assert!(focus.is_match("Regression Labels (a.b/c) are refused"));
        assert!(!focus.is_match("Regression Labels (a.b/c) are refused too"));
        assert!(!focus.is_match("Regression Labels (axb/c) are refused"));
    }

    #[test]
    fn a_report_names_its_specs_with_their_headings() {
        let report = serde_json::json!([{"SpecReports": [
            {"LeafNodeType": "BeforeSuite"},
            {"LeafNodeType": "It", "LeafNodeText": "works", "ContainerHierarchyTexts": ["Drift", "Budgets"]},
        ]}]);
        let names: Vec<String> = read(&report).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["Drift Budgets works"]);
    }
}
