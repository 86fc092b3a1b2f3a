//! Pods of a real cluster and machines of a real cloud, as a problem.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

/// A machine type as the catalogue file lists it; fields that do not matter here are left out.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Machine {
    name: String,
    arch: String,
    vcpu: i64,
    #[serde(rename = "memoryMiB")]
    memory_mib: i64,
    gpu_count: i64,
    gpu_manufacturer: Option<String>,
    on_demand_usd_per_hour: Option<f64>,
    max_pods: Option<i64>,
}

/// One zone is enough: nothing in a trace says where a pod must be.
const ZONE: &str = "zone-a";
/// Of machines whose number of pods is not known.
const PODS: i64 = 110;

/// A trace and a catalogue, ready to be written as a problem.
pub(super) struct Trace {
    name: String,
    types: Vec<Value>,
    pods: Vec<Value>,
}

impl Trace {
    pub(super) fn read(trace: &Path, catalog: &Path) -> Result<Self> {
        let machines: Vec<Machine> = serde_json::from_str(&fs::read_to_string(catalog)?)?;
        let name = trace.file_stem().map(|stem| stem.to_string_lossy());
        Ok(Trace {
            name: name.unwrap_or_default().into_owned(),
            types: machines.iter().filter_map(instance_type).collect(),
            pods: pods(&fs::read_to_string(trace)?)?,
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Writes the problem into `folder`: the pods of the trace, or with a seed as many drawn from them.
    pub(super) fn write(&self, folder: &Path, seed: Option<u32>) -> Result<PathBuf> {
        let (name, pods) = match seed {
            Some(seed) => (format!("{}-{seed}", self.name), self.drawn(seed)),
            None => (self.name.clone(), self.pods.clone()),
        };
        let problem = json!({
            "name": name,
            "kind": "trace",
            "instanceTypes": self.types,
            "nodePools": [{
                "name": "default",
                "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}],
                "taints": [],
            }],
            "daemonSets": [],
            "pods": pods,
        });
        let path = folder.join(format!("{name}.json"));
        fs::write(&path, serde_json::to_vec(&problem)?)?;
        Ok(path)
    }

    /// As many pods, each any of the trace, under names of their own.
    fn drawn(&self, seed: u32) -> Vec<Value> {
        let mut state = u64::from(seed);
        (0..self.pods.len())
            .map(|position| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let drawn = usize::try_from(state >> 33).unwrap_or_default() % self.pods.len();
                let mut pod = self.pods[drawn].clone();
                pod["name"] = json!(format!("pod-{position}"));
                pod
            })
            .collect()
    }
}

/// Types for amd64 with an on-demand price and NVIDIA GPUs or none.
fn instance_type(machine: &Machine) -> Option<Value> {
    let nvidia = machine
        .gpu_manufacturer
        .as_deref()
        .is_some_and(|maker| maker.eq_ignore_ascii_case("nvidia"));
    let price = machine.on_demand_usd_per_hour?;
    if machine.arch != "amd64" || (machine.gpu_count > 0 && !nvidia) {
        return None;
    }
    Some(json!({
        "name": machine.name,
        "arch": machine.arch,
        "cpuMilli": machine.vcpu * 1000,
        "memoryMiB": machine.memory_mib,
        "pods": machine.max_pods.unwrap_or(PODS),
        "gpus": machine.gpu_count,
        "zones": [ZONE],
        "offerings": [{"zone": ZONE, "capacityType": "on-demand", "price": price}],
        "overheadCpuMilli": 100,
        "overheadMemoryMiB": (machine.memory_mib / 14).max(400),
    }))
}

/// Rows of the CSV; a fraction of a GPU counts as one, as `num_gpu` already says.
fn pods(text: &str) -> Result<Vec<Value>> {
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let column = |name: &str| {
        header
            .iter()
            .position(|column| *column == name)
            .with_context(|| format!("there is no column {name}"))
    };
    let (name, cpu) = (column("name")?, column("cpu_milli")?);
    let (memory, gpus) = (column("memory_mib")?, column("num_gpu")?);
    lines
        .filter(|line| !line.trim().is_empty())
        .enumerate()
        .map(|(number, line)| {
            let cells: Vec<&str> = line.split(',').collect();
            let cell = |index: usize| -> Result<&str> {
                let cell = cells.get(index).copied();
                cell.with_context(|| format!("line {} is too short", number + 2))
            };
            let whole = |index: usize| -> Result<i64> {
                let text = cell(index)?;
                text.parse()
                    .with_context(|| format!("line {}: {text:?} is not a number", number + 2))
            };
            Ok(json!({
                "name": cell(name)?,
                "cpuMilli": whole(cpu)?,
                "memoryMiB": whole(memory)?,
                "gpus": whole(gpus)?,
            }))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_pods() {
        let text = "name,memory_mib,cpu_milli,num_gpu\na,100,2000,1\n\nb,1,2,0\n";
        let read = pods(text).unwrap();
        assert_eq!(
            read[0],
            json!({"name": "a", "cpuMilli": 2000, "memoryMiB": 100, "gpus": 1})
        );
        assert_eq!(read.len(), 2);
        assert!(pods("name,cpu_milli\na,1").is_err());
        let error = pods("name,memory_mib,cpu_milli,num_gpu\na,x,1,0").unwrap_err();
        assert_eq!(error.to_string(), "line 2: \"x\" is not a number");
    }

    #[test]
    fn pods_are_drawn_with_replacement_and_the_same_again_for_the_same_seed() {
        let trace = Trace {
            name: "t".to_owned(),
            types: Vec::new(),
            pods: (0..20)
                .map(|cpu| json!({"name": "p", "cpuMilli": cpu}))
                .collect(),
        };
        let drawn = trace.drawn(1);
        assert_eq!(drawn.len(), 20);
        assert_eq!(drawn, trace.drawn(1));
        assert_ne!(drawn, trace.drawn(2));
        assert_eq!(drawn[3]["name"], "pod-3");
    }

    #[test]
    fn machines_without_a_price_or_with_other_devices_are_left_out() {
        let machine = |arch: &str, gpus, maker: Option<&str>, price| Machine {
            name: "m".to_owned(),
            arch: arch.to_owned(),
            vcpu: 4,
            memory_mib: 28_000,
            gpu_count: gpus,
            gpu_manufacturer: maker.map(str::to_owned),
            on_demand_usd_per_hour: price,
            max_pods: None,
        };
        let made = instance_type(&machine("amd64", 1, Some("NVIDIA"), Some(1.0))).unwrap();
        assert_eq!(made["overheadMemoryMiB"], 2000);
        assert_eq!(made["gpus"], 1);
        for other in [
            machine("arm64", 0, None, Some(1.0)),
            machine("amd64", 1, Some("AMD"), Some(1.0)),
            machine("amd64", 0, None, None),
        ] {
            assert!(instance_type(&other).is_none());
        }
    }
}
