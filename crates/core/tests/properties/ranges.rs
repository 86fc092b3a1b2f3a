//! Machines made to measure: generated ranges, hosts and pods, beside types and without.

use joiner_core::labels;
use joiner_core::money::Money;
use joiner_core::name::Labels;
use joiner_core::pack;
use joiner_core::plan::{Plan, check};
use joiner_core::problem::{
    AffinityTerm, CapacityType, Catalog, DaemonSet, Host, InstanceType, Offering, Pod, PodSpec,
    Pool, Problem, Range, UnitPrices,
};
use joiner_core::resources::{CPU, MEMORY, Resources};
use joiner_core::selector::LabelSelector;
use proptest::prelude::*;

use crate::clusters::{GIB, SeededGenerator, cases, options, passes, size};

const GPU: &str = "nvidia.com/gpu";

fn range(generator: &mut SeededGenerator, name: &str, hosts: &[Host]) -> Range {
    let devices = generator.one_in(3);
    let least = size(
        generator.amount(1, 2) * 500,
        generator.amount(1, 2) * GIB,
        20,
    );
    let mut most = least.clone();
    let mut step = Resources::new();
    for (resource, unit, count) in [(CPU, 500, 40), (MEMORY, GIB / 2, 90)] {
        let one = unit * generator.amount(1, 3);
        most.set(
            resource,
            least.get(resource) + one * generator.amount(3, count / 2),
        );
        if !generator.one_in(12) {
            step.set(resource, one);
        }
    }
    if devices {
        most.set(GPU, generator.amount(1, 4));
        step.set(GPU, 1);
    }
    let mut hosts = hosts.to_vec();
    if generator.one_in(6) {
        for host in &mut hosts {
            host.free = Resources::new();
        }
    }
    Range {
        name: name.into(),
        labels: Labels::new(),
        region: "".into(),
        capacity_type: CapacityType::OnDemand,
        min: least,
        max: most,
        step,
        overhead: size(
            generator.amount(0, 6) * 50,
            generator.amount(0, 4) * GIB / 8,
            0,
        ),
        prices: UnitPrices {
            machine: Money::from_nanos(generator.amount(0, 3) * 3_000_000),
            core: Money::from_nanos(generator.amount(0, 40) * 1_000_000),
            memory_gib: Money::from_nanos(generator.amount(0, 10) * 700_001),
        },
        hosts,
        left: generator
            .one_in(5)
            .then(|| u32::try_from(generator.amount(1, 5)).unwrap()),
    }
}

fn hosts(generator: &mut SeededGenerator) -> Vec<Host> {
    (0..generator.amount(1, 3))
        .map(|index| Host {
            name: format!("host-{index}").into(),
            zone: generator.pick(&["rack-a", "rack-b"]).into(),
            free: Resources::new()
                .with(CPU, generator.amount(1, 24) * 1000)
                .with(MEMORY, generator.amount(1, 64) * GIB)
                .with(GPU, generator.amount(0, 6)),
            stock: "".into(),
        })
        .collect()
}

fn kind(generator: &mut SeededGenerator, index: i64) -> InstanceType {
    let cores = generator.amount(1, 10);
    InstanceType {
        name: format!("type-{index}").into(),
        labels: Labels::new(),
        capacity: size(cores * 1000, cores * generator.amount(1, 6) * GIB, 20),
        overhead: size(100, GIB / 4, 0),
        offerings: vec![Offering {
            zone: generator.pick(&["rack-a", "cloud"]).into(),
            region: "".into(),
            capacity_type: CapacityType::OnDemand,
            price: Money::from_nanos(cores * generator.amount(5, 60) * 1_000_000),
            available: true,
            left: None,
            reservation: None,
            stock: None,
        }],
        quotas: Vec::new(),
    }
}

fn pod(generator: &mut SeededGenerator, index: i64) -> Pod {
    let app = generator.pick(&["web", "db"]);
    let mut spec = PodSpec {
        namespace: "default".into(),
        labels: Labels::from([("app".into(), app.into())]),
        requests: size(
            generator.amount(1, 60) * 100,
            generator.amount(1, 40) * GIB / 4,
            1,
        ),
        ..PodSpec::default()
    };
    if generator.one_in(6) {
        spec.requests.set(GPU, generator.amount(1, 2));
    }
    if generator.one_in(4) {
        spec.anti_affinity.push(AffinityTerm {
            topology_key: labels::HOSTNAME.into(),
            selector: Some(LabelSelector::label("app", app)),
            namespaces: Vec::new(),
            namespace_selector: None,
        });
    }
    if generator.one_in(6) {
        let zone = generator.pick(&["rack-a", "rack-b"]);
        spec.node_selector.insert(labels::ZONE.into(), zone.into());
    }
    Pod::new(&format!("pod-{index}"), spec)
}

fn hall(seed: u64, most_pods: i64) -> Problem {
    let generator = &mut SeededGenerator(seed);
    let hosts = hosts(generator);
    let mut ranges = vec![range(generator, "vm", &hosts)];
    if generator.one_in(3) {
        ranges.push(range(generator, "vm-other", &hosts));
    }
    let mut types = Vec::new();
    if generator.one_in(2) {
        types.extend((0..generator.amount(1, 3)).map(|index| kind(generator, index)));
    }
    let mut problem = Problem {
        name: format!("seed-{seed}"),
        catalogs: vec![Catalog {
            name: "hall".into(),
            types,
            ranges,
            quotas: Vec::new(),
        }],
        pools: vec![Pool {
            name: "main".into(),
            catalog: "hall".into(),
            ..Pool::default()
        }],
        ..Problem::default()
    };
    if generator.one_in(3) {
        problem.daemon_sets.push(DaemonSet {
            name: "agent".into(),
            spec: std::sync::Arc::new(PodSpec {
                requests: size(150, GIB / 8, 1),
                ..PodSpec::default()
            }),
        });
    }
    if generator.one_in(5) {
        let limit = Resources::new().with(CPU, generator.amount(4, 30) * 1000);
        problem.pools[0].limits.resources = limit;
    }
    if generator.one_in(6) {
        problem.settings.node_surcharge = Money::from_nanos(generator.amount(1, 9) * 1_000_000);
    }
    for index in 0..generator.amount(1, most_pods) {
        let mut pod = pod(generator, index);
        if most_pods > 5 {
            pod.count = u32::try_from(generator.amount(1, 4)).unwrap();
        }
        problem.pods.push(pod);
    }
    problem
}

/// What the cheapest machine for these pods costs, whatever is left on hosts: by counting up from nothing.
fn alone(problem: &Problem, pods: &[&PodSpec]) -> Option<Money> {
    let mut need = Resources::new();
    for spec in pods {
        need.add(&spec.requests);
    }
    for daemon in &problem.daemon_sets {
        need.add(&daemon.spec.requests);
    }
    let zones: Vec<_> = pods
        .iter()
        .filter_map(|spec| spec.node_selector.get(labels::ZONE))
        .collect();
    let there = |zone: &joiner_core::name::Name| zones.iter().all(|wanted| **wanted == *zone);
    let kept_apart = pods.iter().enumerate().all(|(at, spec)| {
        let others = pods.iter().enumerate().filter(|(other, _)| *other != at);
        let mut others = others.map(|(_, other)| other);
        spec.anti_affinity.is_empty() || others.all(|other| other.labels != spec.labels)
    });
    if !kept_apart {
        return None;
    }
    let catalog = &problem.catalogs[0];
    let mut best: Option<Money> = None;
    let mut consider = |price: Money| best = Some(best.map_or(price, |best| best.min(price)));
    for kind in &catalog.types {
        if kind.allocatable().fits(&need) {
            let here = kind.offerings.iter().filter(|one| there(&one.zone));
            here.for_each(|one| consider(one.price));
        }
    }
    for range in &catalog.ranges {
        for host in range.hosts.iter().filter(|host| there(&host.zone)) {
            if let Some(capacity) = counted_up(range, host, &need) {
                let cores = range.prices.core.nanos() * capacity.get(CPU) / 1000;
                let memory = i128::from(range.prices.memory_gib.nanos())
                    * i128::from(capacity.get(MEMORY))
                    / i128::from(GIB);
                let memory = i64::try_from(memory).unwrap();
                consider(range.prices.machine + Money::from_nanos(cores + memory));
            }
        }
    }
    best.map(|best| best + problem.settings.node_surcharge)
}

/// The smallest size of a range that holds what is needed, found one step at a time.
fn counted_up(range: &Range, host: &Host, need: &Resources) -> Option<Resources> {
    let mut capacity = Resources::new();
    for (name, most) in range.max.iter() {
        let step = range.step.get(name);
        let mut amount = if step > 0 { range.min.get(name) } else { most };
        let wanted = need.get(name) + range.overhead.get(name);
        while amount < wanted && step > 0 {
            amount += step;
        }
        let free = !host.free.contains(name) || amount <= host.free.get(name);
        if amount < wanted || amount > most || !free {
            return None;
        }
        capacity.set(name, amount);
    }
    let lacks =
        |(name, amount): (&joiner_core::name::Name, i64)| amount > 0 && !capacity.contains(name);
    (!need.iter().any(lacks)).then_some(capacity)
}

/// The least that any way to share machines costs, as if hosts and limits gave whatever is asked of them.
fn least(
    problem: &Problem,
    pods: &[&PodSpec],
    groups: &mut Vec<Vec<usize>>,
    at: usize,
) -> Option<Money> {
    if at == pods.len() {
        let prices = groups.iter().map(|group| {
            let group: Vec<&PodSpec> = group.iter().map(|pod| pods[*pod]).collect();
            alone(problem, &group)
        });
        return prices.sum();
    }
    let mut best: Option<Money> = None;
    for index in 0..=groups.len() {
        if index == groups.len() {
            groups.push(Vec::new());
        }
        groups[index].push(at);
        let found = least(problem, pods, groups, at + 1);
        groups[index].pop();
        if groups[index].is_empty() {
            groups.pop();
        }
        best = match (best, found) {
            (Some(best), Some(found)) => Some(best.min(found)),
            (best, found) => best.or(found),
        };
    }
    best
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn every_plan_with_ranges_passes_the_checker(seed in any::<u64>()) {
        let problem = hall(seed, 10);
        passes(&problem, seed, pack::solve)?;
    }

    #[test]
    fn hosts_that_two_catalogues_list_are_not_sold_twice(seed in any::<u64>()) {
        let mut problem = hall(seed, 10);
        problem.catalogs[0].share_stock("hall");
        let mut copy = problem.catalogs[0].clone();
        copy.name = "copy".into();
        problem.catalogs.push(copy);
        let mut pool = problem.pools[0].clone();
        (pool.name, pool.catalog) = ("copy".into(), "copy".into());
        problem.pools.push(pool);
        passes(&problem, seed, pack::solve)?;
    }

    #[test]
    fn no_plan_with_ranges_is_cheaper_than_its_bound(seed in any::<u64>()) {
        let problem = hall(seed, 5);
        let plan = pack::solve(&problem, &options(40, 1));
        prop_assert_eq!(check(&problem, &plan), []);
        if plan.unplaced.is_empty() {
            let least = optimum(&problem).unwrap();
            prop_assert!(plan.cost >= least, "seed {seed}: cheaper than possible");
            let ample = problem.pools[0].limits.resources.is_empty()
                && problem.catalogs[0].ranges.iter().all(|range| range.left.is_none());
            if ample {
                let fits = plan.lower_bound <= plan.cost;
                prop_assert!(fits, "seed {seed}: {} > {}", plan.lower_bound, plan.cost);
            }
        }
    }

    #[test]
    fn a_single_pod_gets_the_cheapest_machine_that_holds_it(seed in any::<u64>()) {
        let mut problem = hall(seed, 1);
        problem.pools[0].limits.resources = Resources::new();
        let plan: Plan = pack::solve(&problem, &options(0, 1));
        prop_assert_eq!(check(&problem, &plan), []);
        let best = alone(&problem, &[&problem.pods[0].spec]);
        prop_assert_eq!(best.is_some(), plan.unplaced.is_empty(), "seed {}", seed);
        if let Some(best) = best {
            prop_assert_eq!(plan.cost, best, "seed {}", seed);
            prop_assert!(plan.lower_bound <= best, "seed {seed}");
        }
    }

    #[test]
    fn where_hosts_give_whatever_is_asked_the_bound_is_below_the_optimum(seed in any::<u64>()) {
        let problem = ample(seed);
        let plan = pack::solve(&problem, &options(40, 1));
        prop_assert_eq!(check(&problem, &plan), []);
        match optimum(&problem) {
            None => prop_assert!(!plan.unplaced.is_empty(), "seed {seed}"),
            Some(least) => {
                prop_assert!(plan.unplaced.is_empty(), "seed {seed}");
                prop_assert!(plan.lower_bound <= least, "seed {seed}: {} > {least}", plan.lower_bound);
                prop_assert!(plan.cost >= least, "seed {seed}: cheaper than possible");
            }
        }
    }
}

/// A hall whose hosts give whatever is asked.
fn ample(seed: u64) -> Problem {
    let mut problem = hall(seed, 5);
    problem.pools[0].limits.resources = Resources::new();
    for range in &mut problem.catalogs[0].ranges {
        range.left = None;
        for host in &mut range.hosts {
            host.free = Resources::new();
        }
    }
    problem
}

fn optimum(problem: &Problem) -> Option<Money> {
    let pods: Vec<&PodSpec> = problem.pods.iter().map(|pod| &*pod.spec).collect();
    least(problem, &pods, &mut Vec::new(), 0)
}

#[test]
fn machines_made_to_measure_are_nearly_always_the_cheapest() {
    let mut optimal = 0;
    let mut solved = 0;
    for seed in 0..300 {
        let problem = ample(seed);
        let Some(least) = optimum(&problem) else {
            continue;
        };
        let cost = pack::solve(&problem, &options(40, 1)).cost;
        solved += 1;
        optimal += u32::from(cost == least);
        assert!(
            cost.nanos() * 10 <= least.nanos() * 11,
            "seed {seed}: {cost} for {least}"
        );
    }
    assert!(
        optimal * 100 >= solved * 95,
        "{optimal} of {solved} are optimal"
    );
}
