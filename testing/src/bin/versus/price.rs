//! What nodes cost, by the catalogue, and what they must cost at least.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::workload::{self, Workload};

const ZONE: &str = "topology.kubernetes.io/zone";
const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";

/// Dollars per hour by instance type, zone and capacity type.
pub(crate) struct Catalogue(BTreeMap<[String; 3], f64>);

impl Catalogue {
    pub(crate) fn read(file: &Path) -> Result<Self> {
        let text =
            fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        let types: Vec<Value> = serde_json::from_str(&text)?;
        let mut prices = BTreeMap::new();
        for kind in &types {
            for offering in kind["offerings"].as_array().into_iter().flatten() {
                let of = |key: &str| {
                    let all = offering["Requirements"].as_array().into_iter().flatten();
                    let mut one = all.filter(|one| one["key"] == key);
                    one.next()
                        .and_then(|one| one["values"][0].as_str())
                        .unwrap_or_default()
                        .to_owned()
                };
                let name = kind["name"].as_str().unwrap_or_default().to_owned();
                let price = offering["Price"]
                    .as_f64()
                    .context("an offering without a price")?;
                prices.insert([name, of(ZONE), of(CAPACITY_TYPE)], price);
            }
        }
        Ok(Catalogue(prices))
    }

    /// What a node costs.
    pub(crate) fn price(&self, node: &Value) -> Result<f64> {
        let label = |key: &str| {
            let value = node["metadata"]["labels"][key].as_str();
            value.unwrap_or_default().to_owned()
        };
        let key = [label(INSTANCE_TYPE), label(ZONE), label(CAPACITY_TYPE)];
        let price = self.0.get(&key).copied();
        price.with_context(|| format!("nobody sells {}", key.join(" ")))
    }
}

/// What the pods must cost at least, at both sizes, as `joiner plan` proves it.
pub(crate) fn bounds(joiner: &Path, catalogue: &Path, workload: &Workload) -> Result<[f64; 2]> {
    let bound = |pods: usize| -> Result<f64> {
        let directory = tempfile::tempdir()?;
        let mut all = Workload::deployments(pods);
        all.push(workload::pool("joiner.dev", "SimNodeClass"));
        all.push(
            json!({"apiVersion": "joiner.dev/v1alpha1", "kind": "SimNodeClass",
            "metadata": {"name": "default"}, "spec": {}}),
        );
        for (index, object) in all.iter().enumerate() {
            let file = directory.path().join(format!("{index}.yaml"));
            fs::write(file, object.to_string())?;
        }
        let output = Command::new(joiner)
            .args(["plan", "--output", "json", "-f"])
            .arg(directory.path())
            .arg("--catalog")
            .arg(catalogue)
            .output()
            .with_context(|| format!("running {}", joiner.display()))?;
        ensure!(
            output.status.success(),
            "joiner plan: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let plan: Value = serde_json::from_slice(&output.stdout)?;
        plan["lowerBound"]
            .as_f64()
            .context("a plan without a lowerBound")
    };
    Ok([bound(workload.first)?, bound(workload.then)?])
}
