//! How long deciding takes: a first plan and an improved one, for 100, 1,000 and 10,000 pods; and a round of
//! consolidation.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use joiner_core::disrupt;
use joiner_core::pack::{Options, solve};
use joiner_core::problem::Problem;
use serde_json::{Value, json};

/// Numbers that look random and are always the same.
struct Mixer(u64);

impl Mixer {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

/// Families of 2, 4 and 8 GiB a core, six sizes each, in two zones, spot and on demand.
fn types() -> Vec<Value> {
    let mut all = Vec::new();
    for (family, gib) in [("c", 2), ("m", 4), ("r", 8)] {
        for cores in [2, 4, 8, 16, 32, 64] {
            let price = f64::from(cores) * (0.03 + 0.006 * f64::from(gib));
            let offering = |zone: &str, paid: &str, share: f64| json!({"zone": zone, "capacityType": paid, "price": price * share});
            all.push(json!({
                "name": format!("{family}.{cores}"), "arch": "amd64",
                "cpuMilli": cores * 1000, "memoryMiB": cores * gib * 1024, "pods": 110,
                "overheadCpuMilli": 100, "overheadMemoryMiB": 1500,
                "offerings": [
                    offering("a", "on-demand", 1.0), offering("b", "on-demand", 1.0),
                    offering("a", "spot", 0.4), offering("b", "spot", 0.5),
                ],
            }));
        }
    }
    all
}

fn pod(mixer: &mut Mixer, name: &str) -> Value {
    json!({
        "name": name,
        "cpuMilli": 50 * (1 + mixer.below(40)),
        "memoryMiB": 64 * (1 + mixer.below(64)),
    })
}

fn problem(pods: &[Value], nodes: &[Value]) -> Problem {
    let file = json!({
        "instanceTypes": types(),
        "nodePools": [{"name": "default"}],
        "daemonSets": [{"name": "proxy", "cpuMilli": 100, "memoryMiB": 64}],
        "pods": pods,
        "nodes": nodes,
    });
    Problem::from_json(&file.to_string()).unwrap_or_default()
}

fn pending(count: u64) -> Problem {
    let mut mixer = Mixer(count);
    let pods = (0..count).map(|at| pod(&mut mixer, &format!("pod-{at}")));
    problem(&pods.collect::<Vec<_>>(), &[])
}

fn cluster(count: u64) -> Problem {
    let mut mixer = Mixer(count);
    let nodes = (0..count).map(|at| {
        let pods: Vec<Value> = (0..=mixer.below(8))
            .map(|pod_at| pod(&mut mixer, &format!("pod-{at}-{pod_at}")))
            .collect();
        json!({
            "name": format!("node-{at}"), "nodePool": "default", "instanceType": "r.16",
            "zone": "a", "capacityType": "on-demand", "pods": pods,
        })
    });
    problem(&[], &nodes.collect::<Vec<_>>())
}

fn packing(criterion: &mut Criterion) {
    let first = Options {
        steps: 0,
        ..Options::default()
    };
    for (name, options) in [("first plan", first), ("improved plan", Options::default())] {
        let mut group = criterion.benchmark_group(name);
        group.sample_size(10);
        for count in [100, 1_000, 10_000] {
            let problem = pending(count);
            group.throughput(Throughput::Elements(count));
            group.bench_with_input(
                BenchmarkId::from_parameter(count),
                &problem,
                |bench, problem| {
                    bench.iter(|| black_box(solve(problem, &options)));
                },
            );
        }
        group.finish();
    }
}

fn consolidating(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("consolidation");
    group.sample_size(10);
    for count in [100, 1_000] {
        let problem = cluster(count);
        group.throughput(Throughput::Elements(count));
        group.bench_with_input(
            BenchmarkId::from_parameter(count),
            &problem,
            |bench, problem| {
                bench.iter(|| black_box(disrupt::plan(problem, &Options::default())));
            },
        );
    }
    group.finish();
}

criterion_group!(benches, packing, consolidating);
criterion_main!(benches);
