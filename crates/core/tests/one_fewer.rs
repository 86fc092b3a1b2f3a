//! One pod fewer should not cost more: small problems, and the same without one of their pods.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "helpers of tests may give up, and stand beside what they help"
)]

use joiner_core::pack::{Options, solve};
use joiner_core::plan::check;
use joiner_core::problem::Problem;
use serde_json::{Value, json};

/// Numbers that look random and are always the same.
struct Mixer(u64);

impl Mixer {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// What the pods are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Each of its own size.
    Plain,
    /// A few sizes, several pods of each.
    Batch,
    /// Some keep apart, some spread over zones.
    Apart,
}

const KINDS: [Kind; 3] = [Kind::Plain, Kind::Batch, Kind::Apart];

fn types() -> Vec<Value> {
    let mut all = Vec::new();
    for (gib, price) in [(2, 0.034), (4, 0.041), (8, 0.055)] {
        for cores in [1, 2, 4, 8, 16, 32] {
            all.push(json!({
                "name": format!("type-{cores}-{gib}"), "arch": "amd64",
                "cpuMilli": cores * 1000, "memoryMiB": cores * gib * 1024, "pods": 110,
                "overheadCpuMilli": 100, "overheadMemoryMiB": 400,
                "offerings": (["a", "b"]).map(|zone| json!({
                    "zone": zone, "capacityType": "on-demand", "price": f64::from(cores) * price,
                })),
            }));
        }
    }
    all
}

fn pods(kind: Kind, seed: u64, count: usize) -> Vec<Value> {
    let mixer = &mut Mixer(seed);
    let mut size = || {
        let cpu = 50 * (1 + mixer.below(12)) * (1 + mixer.below(4));
        (cpu, cpu * (1 + mixer.below(9)))
    };
    let shapes: Vec<(u64, u64)> = (0..4).map(|_| size()).collect();
    (0..count)
        .map(|index| {
            let (cpu, memory) = match kind {
                Kind::Batch => shapes[index % shapes.len()],
                _ => size(),
            };
            let mut pod =
                json!({"name": format!("pod-{index}"), "cpuMilli": cpu, "memoryMiB": memory});
            if kind == Kind::Apart && index % 3 == 0 {
                let app = json!({"app": format!("app-{}", index % 7)});
                pod["podAntiAffinity"] =
                    json!([{"topologyKey": "kubernetes.io/hostname", "matchLabels": app}]);
                pod["labels"] = app;
            }
            if kind == Kind::Apart && index % 3 == 1 {
                let app = json!({"app": "even"});
                pod["topologySpread"] = json!([{
                    "topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1, "matchLabels": app,
                }]);
                pod["labels"] = app;
            }
            pod
        })
        .collect()
}

fn cost(pods: &[Value]) -> i64 {
    let file = json!({"instanceTypes": types(), "nodePools": [{"name": "default"}], "pods": pods});
    let problem = Problem::from_json(&file.to_string()).unwrap();
    let plan = solve(&problem, &Options::default());
    assert_eq!(check(&problem, &plan), []);
    assert!(plan.unplaced.is_empty());
    plan.cost.nanos()
}

/// How often one pod fewer costs more, of how many times, and by how much in the worst case, in parts of ten thousand.
#[derive(Clone, Copy, Debug, Default)]
struct Rises {
    tried: u32,
    rose: u32,
    worst: i64,
}

fn rises(kind: Kind, seeds: std::ops::Range<u64>, counts: &[usize]) -> Rises {
    let mut rises = Rises::default();
    for seed in seeds {
        for count in counts {
            let all = pods(kind, seed, *count);
            let whole = cost(&all);
            for out in 0..all.len() {
                let mut fewer = all.clone();
                fewer.remove(out);
                let more = cost(&fewer) - whole;
                rises.tried += 1;
                if more > 0 {
                    rises.rose += 1;
                    rises.worst = rises.worst.max(more * 10_000 / whole);
                }
            }
        }
    }
    rises
}

/// What is reached. Every pod of 24 problems of 12 and 25 pods was left out in turn, 444 times: the plan for the rest cost
/// more 6 times, by 1.4% at most. Of 250 times with 50 pods it was once, 18 times where pods keep apart and spread.
const MOST: (u32, i64) = (6, 140);

#[test]
fn one_pod_fewer_seldom_costs_more_and_never_much() {
    let mut all = Rises::default();
    for kind in KINDS {
        let found = rises(kind, 0..4, &[12, 25]);
        all.tried += found.tried;
        all.rose += found.rose;
        all.worst = all.worst.max(found.worst);
    }
    assert_eq!(all.tried, 444);
    assert!(all.rose <= MOST.0 && all.worst <= MOST.1, "{all:?}");
}

#[test]
#[ignore = "takes minutes: it prints how often one pod fewer costs more"]
fn how_often_one_pod_fewer_costs_more() {
    for kind in KINDS {
        for count in [6, 12, 20, 35, 50] {
            let found = rises(kind, 0..12, &[count]);
            println!("{kind:?} {count}: {found:?}");
        }
    }
}
