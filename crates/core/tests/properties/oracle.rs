//! Small problems against what trying everything finds.
//!
//! Rules that a machine either keeps or breaks by itself (size, labels, devices, keeping apart on a host) make the
//! optimum a matter of which pods share a machine: every partition of the pods is tried, cut off where it is already
//! dearer than the best.

use std::fmt;

use joiner_core::labels;
use joiner_core::money::Money;
use joiner_core::name::Name;
use joiner_core::pack;
use joiner_core::plan::check;
use joiner_core::problem::{AffinityTerm, InstanceType, Offering, Pod, PodSpec, Pool, Problem};
use joiner_core::resources::Resources;
use joiner_core::selector::LabelSelector;

use crate::clusters::{GIB, SeededGenerator, ZONES, catalog, options, size};

const GPU: &str = "nvidia.com/gpu";

/// What makes the problem hard.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Sizes alone.
    Plain,
    /// Few shapes, several pods of each.
    Batch,
    /// Some pods need a device that some types have.
    Gpu,
    /// Replicas that keep apart on hosts.
    Web,
    /// Pods that ask for an architecture or a zone.
    Upstream,
}

/// A problem of a few pods, each of its own size.
fn small(kind: Kind, seed: u64) -> Problem {
    let generator = &mut SeededGenerator(seed);
    let mut catalog = catalog(generator);
    for one in &mut catalog.types {
        for offering in &mut one.offerings {
            (offering.available, offering.left) = (true, None);
        }
        if matches!(kind, Kind::Gpu) && generator.one_in(2) {
            let count = generator.amount(1, 4);
            one.capacity = one.capacity.clone().with(GPU, count);
            for offering in &mut one.offerings {
                offering.price += Money::from_nanos(count * 400_000_000);
            }
        }
    }
    let mut problem = Problem {
        catalogs: vec![catalog],
        pools: vec![Pool {
            name: "only".into(),
            catalog: "cloud".into(),
            ..Pool::default()
        }],
        ..Problem::default()
    };
    let shape = |generator: &mut SeededGenerator| {
        size(
            generator.amount(1, 40) * 100,
            generator.amount(1, 32) * GIB / 4,
            1,
        )
    };
    let shapes: Vec<Resources> = match kind {
        Kind::Batch => (0..2).map(|_| shape(generator)).collect(),
        _ => Vec::new(),
    };
    for index in 0..generator.amount(2, 7) {
        let requests = match &shapes[..] {
            [first, _] if generator.one_in(2) => first.clone(),
            [_, second] => second.clone(),
            _ => shape(generator),
        };
        let mut spec = PodSpec {
            requests,
            ..PodSpec::default()
        };
        match kind {
            Kind::Gpu if generator.one_in(2) => {
                spec.requests = spec.requests.with(GPU, generator.amount(1, 2));
            }
            Kind::Web if generator.one_in(2) => {
                let app = generator.pick(&["web", "cache"]);
                spec.labels.insert("app".into(), app.into());
                spec.anti_affinity.push(AffinityTerm {
                    topology_key: labels::HOSTNAME.into(),
                    selector: Some(LabelSelector::label("app", app)),
                    namespaces: Vec::new(),
                    namespace_selector: None,
                });
            }
            Kind::Upstream if generator.one_in(2) => {
                let arch = generator.pick(&["amd64", "arm64"]);
                spec.node_selector.insert(labels::ARCH.into(), arch.into());
            }
            Kind::Upstream if generator.one_in(2) => {
                let zone = generator.pick(&ZONES);
                spec.node_selector.insert(labels::ZONE.into(), zone.into());
            }
            _ => {}
        }
        problem.pods.push(Pod::new(&format!("pod-{index}"), spec));
    }
    problem
}

/// Pods that share a machine.
#[derive(Clone, Default)]
struct Group<'a> {
    requests: Resources,
    pods: Vec<&'a PodSpec>,
}

fn admits(kind: &InstanceType, offering: &Offering, pods: &[&PodSpec]) -> bool {
    pods.iter().all(|pod| {
        pod.node_selector.iter().all(|(key, value)| match &**key {
            labels::ZONE => offering.zone == *value,
            _ => kind.labels.get(key) == Some(value),
        })
    })
}

fn apart(pods: &[&PodSpec]) -> bool {
    let app = |pod: &&PodSpec| -> Option<Name> { pod.labels.get("app").cloned() };
    let mut apps: Vec<Name> = pods.iter().filter_map(app).collect();
    let count = apps.len();
    apps.sort();
    apps.dedup();
    apps.len() == count
}

/// The cheapest machine for a group.
fn price(problem: &Problem, group: &Group<'_>) -> Option<Money> {
    if !apart(&group.pods) {
        return None;
    }
    let types = problem.catalogs[0].types.iter();
    types
        .filter(|kind| kind.allocatable().fits(&group.requests))
        .flat_map(|kind| kind.offerings.iter().map(move |offering| (kind, offering)))
        .filter(|(kind, offering)| admits(kind, offering, &group.pods))
        .map(|(_, offering)| offering.price)
        .min()
}

/// Tries every way to share machines. A group never gets cheaper by what joins it, so a branch ends where it is no
/// cheaper than the best.
fn descend<'a>(
    problem: &Problem,
    pods: &[&'a PodSpec],
    groups: &mut Vec<(Group<'a>, Money)>,
    best: &mut Option<Money>,
) {
    let cost: Money = groups.iter().map(|(_, price)| *price).sum();
    if best.is_some_and(|best| cost >= best) {
        return;
    }
    let Some((first, rest)) = pods.split_first() else {
        *best = Some(cost);
        return;
    };
    for index in 0..=groups.len() {
        let (mut group, before) = groups
            .get(index)
            .cloned()
            .unwrap_or_else(|| (Group::default(), Money::ZERO));
        let old = (group.clone(), before);
        group.requests.add(&first.requests);
        group.pods.push(*first);
        let Some(price) = price(problem, &group) else {
            continue;
        };
        if index == groups.len() {
            groups.push((group, price));
            descend(problem, rest, groups, best);
            groups.pop();
        } else {
            groups[index] = (group, price);
            descend(problem, rest, groups, best);
            groups[index] = old;
        }
    }
}

fn cheapest(problem: &Problem) -> Option<Money> {
    let pods: Vec<&PodSpec> = problem.pods.iter().map(|pod| &*pod.spec).collect();
    let mut best = None;
    descend(problem, &pods, &mut Vec::new(), &mut best);
    best
}

/// How far plans are from the optimum.
#[derive(Debug, Default)]
struct Tally {
    all: u32,
    equal: u32,
    within_two: u32,
    within_five: u32,
    worst: f64,
    worst_seed: u64,
}

impl Tally {
    fn add(&mut self, seed: u64, ratio: f64) {
        self.all += 1;
        self.equal += u32::from(ratio <= 1.0);
        self.within_two += u32::from(ratio <= 1.02);
        self.within_five += u32::from(ratio <= 1.05);
        if ratio > self.worst {
            (self.worst, self.worst_seed) = (ratio, seed);
        }
    }
}

/// As a line of the table in the documents.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally {
            all,
            equal,
            within_two,
            within_five,
            ..
        } = self;
        let worst = (self.worst - 1.0) * 100.0;
        write!(
            f,
            "{all} | {equal} | {within_two} | {within_five} | {worst:.1}% |"
        )
    }
}

fn tally(kind: Kind) -> Tally {
    let mut tally = Tally::default();
    for seed in 0..SEEDS {
        let problem = small(kind, seed);
        let Some(optimum) = cheapest(&problem) else {
            continue;
        };
        let plan = pack::solve(&problem, &options(STEPS, 1));
        let report = check(&problem, &plan);
        assert!(report.is_empty(), "{kind:?}, seed {seed}: {report:?}");
        assert!(plan.unplaced.is_empty(), "{kind:?}, seed {seed}");
        assert!(
            plan.cost >= optimum,
            "cheaper than possible: {kind:?}, seed {seed}"
        );
        assert!(
            plan.lower_bound <= optimum,
            "the bound is wrong: {kind:?}, seed {seed}"
        );
        tally.add(seed, plan.cost.dollars() / optimum.dollars());
    }
    tally
}

/// Problems of each kind, and attempts at improvement for each: as many as a plan gets by default.
const SEEDS: u64 = 200;
const STEPS: u64 = 400;

/// What people are told about these tests.
const FIGURES: &str = include_str!("../../../../docs/benchmarks.md");

#[test]
fn small_problems_are_solved_to_the_optimum_nearly_always() {
    let kinds = [
        Kind::Plain,
        Kind::Batch,
        Kind::Gpu,
        Kind::Web,
        Kind::Upstream,
    ];
    let mut lines = String::new();
    for kind in kinds {
        let tally = tally(kind);
        let line = format!("| {kind:?} | {tally}\n").to_lowercase();
        let told = format!("{line}, worst at seed {}", tally.worst_seed);
        assert!(tally.all > 100, "too few to tell: {told}");
        assert!(tally.equal * 100 >= tally.all * 95, "{told}");
        assert!(tally.worst <= 1.05, "{told}");
        lines += &line;
    }
    assert!(
        FIGURES.contains(&lines),
        "docs/benchmarks.md should say\n{lines}"
    );
}
