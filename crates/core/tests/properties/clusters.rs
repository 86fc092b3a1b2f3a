//! Clusters from a seed: catalogues, pools, pods and nodes with every rule there is.

use joiner_core::labels;
use joiner_core::money::Money;
use joiner_core::name::{Labels, Name};
use joiner_core::pack::Options;
use joiner_core::plan::{Plan, check};
use joiner_core::problem::{
    AffinityTerm, CapacityType, Catalog, DaemonSet, HostPort, InstanceType, Limits, Node, Offering,
    Pod, PodSpec, Policy, Pool, Problem, Protocol, Spread, Weighted, WhenUnsatisfiable,
};
use joiner_core::requirement::{Expression, Operator};
use joiner_core::resources::{CPU, MEMORY, PODS, Resources};
use joiner_core::selector::LabelSelector;
use joiner_core::taints::{Effect, Taint, Toleration};
use proptest::prelude::*;

pub(crate) const GIB: i64 = 1 << 30;

/// A stream of numbers from a seed, the same on every machine.
pub(crate) struct SeededGenerator(pub(crate) u64);

impl SeededGenerator {
    pub(crate) fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % sides
    }

    pub(crate) fn one_in(&mut self, sides: u64) -> bool {
        self.below(sides) == 0
    }

    pub(crate) fn amount(&mut self, low: i64, high: i64) -> i64 {
        low + i64::try_from(self.below(u64::try_from(high - low + 1).unwrap())).unwrap()
    }

    pub(crate) fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[usize::try_from(self.below(from.len() as u64)).unwrap()]
    }
}

pub(crate) const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];
pub(crate) const APPS: [&str; 4] = ["web", "db", "cache", "batch"];

pub(crate) fn size(cpu: i64, memory: i64, pods: i64) -> Resources {
    Resources::new()
        .with(CPU, cpu)
        .with(MEMORY, memory)
        .with(PODS, pods)
}

pub(crate) fn catalog(generator: &mut SeededGenerator) -> Catalog {
    let mut types = Vec::new();
    for index in 0..generator.amount(2, 8) {
        let cores = 1 << generator.below(5);
        let gib = cores * [2, 4, 8][usize::try_from(generator.below(3)).unwrap()];
        let mut offerings = Vec::new();
        for zone in ZONES {
            for capacity_type in [CapacityType::Spot, CapacityType::OnDemand] {
                if generator.one_in(4) {
                    continue;
                }
                let cents = cores * generator.amount(2, 9);
                offerings.push(Offering {
                    zone: zone.into(),
                    region: "".into(),
                    capacity_type,
                    price: Money::from_nanos(cents * 10_000_000),
                    available: !generator.one_in(10),
                    left: generator
                        .one_in(6)
                        .then(|| u32::try_from(generator.below(3)).unwrap()),
                    reservation: None,
                    stock: None,
                });
            }
        }
        let arch = generator.pick(&["amd64", "arm64"]);
        types.push(InstanceType {
            name: format!("type-{index}").into(),
            labels: Labels::from([(labels::ARCH.into(), arch.into())]),
            capacity: size(cores * 1000, gib * GIB, 8 + cores * 4),
            overhead: size(100, GIB / 4, 0),
            offerings,
            quotas: Vec::new(),
        });
    }
    Catalog {
        name: "cloud".into(),
        types,
        ranges: Vec::new(),
        quotas: Vec::new(),
    }
}

pub(crate) fn pool(generator: &mut SeededGenerator, name: &str) -> Pool {
    let mut limits = Limits::default();
    if generator.one_in(3) {
        limits.nodes = Some(u32::try_from(generator.below(6)).unwrap());
    }
    if generator.one_in(3) {
        limits.resources = Resources::new().with(CPU, generator.amount(2, 40) * 1000);
    }
    if generator.one_in(4) {
        limits.cost = Some(Money::from_nanos(generator.amount(1, 30) * 100_000_000));
    }
    let mut requirements = Vec::new();
    if generator.one_in(3) {
        requirements.push(Expression::new(labels::ZONE, Operator::In, &ZONES[..2]));
    }
    if generator.one_in(4) {
        requirements.push(Expression::new("team", Operator::In, &["red", "blue"]));
    }
    Pool {
        name: name.into(),
        catalog: "cloud".into(),
        weight: i32::try_from(generator.below(3)).unwrap(),
        requirements,
        taints: if generator.one_in(4) {
            vec![Taint {
                key: "dedicated".into(),
                value: "yes".into(),
                effect: if generator.one_in(2) {
                    Effect::NoSchedule
                } else {
                    Effect::PreferNoSchedule
                },
            }]
        } else {
            Vec::new()
        },
        limits,
        ..Pool::default()
    }
}

pub(crate) fn term(generator: &mut SeededGenerator, app: &str) -> AffinityTerm {
    AffinityTerm {
        topology_key: generator.pick(&[labels::ZONE, labels::HOSTNAME]).into(),
        selector: Some(LabelSelector::label("app", app)),
        namespaces: Vec::new(),
        namespace_selector: None,
    }
}

pub(crate) fn spread(generator: &mut SeededGenerator, app: &str) -> Spread {
    Spread {
        topology_key: generator
            .pick(&[labels::ZONE, labels::HOSTNAME, labels::CAPACITY_TYPE])
            .into(),
        max_skew: i32::try_from(generator.amount(1, 2)).unwrap(),
        selector: Some(LabelSelector::label("app", app)),
        match_label_keys: Vec::new(),
        min_domains: generator.one_in(5).then_some(2),
        when_unsatisfiable: if generator.one_in(4) {
            WhenUnsatisfiable::ScheduleAnyway
        } else {
            WhenUnsatisfiable::DoNotSchedule
        },
        node_affinity_policy: Policy::Honor,
        node_taints_policy: if generator.one_in(4) {
            Policy::Honor
        } else {
            Policy::Ignore
        },
    }
}

pub(crate) fn spec(generator: &mut SeededGenerator) -> PodSpec {
    let app = generator.pick(&APPS);
    let mut spec = PodSpec {
        namespace: "default".into(),
        labels: Labels::from([("app".into(), app.into())]),
        requests: size(
            generator.amount(1, 40) * 100,
            generator.amount(1, 32) * GIB / 4,
            1,
        ),
        priority: i32::try_from(generator.below(2)).unwrap() * 100,
        ..PodSpec::default()
    };
    if generator.one_in(5) {
        let arch = generator.pick(&["amd64", "arm64"]);
        spec.node_selector.insert(labels::ARCH.into(), arch.into());
    }
    if generator.one_in(8) {
        let team = generator.pick(&["red", "blue", "green"]);
        spec.node_selector.insert("team".into(), team.into());
    }
    if generator.one_in(6) {
        for zone in [generator.pick(&ZONES), generator.pick(&ZONES)] {
            let term = vec![Expression::new(labels::ZONE, Operator::In, &[zone])];
            spec.required_affinity.push(term);
        }
    }
    if generator.one_in(5) {
        let zone = generator.pick(&ZONES);
        spec.preferred_affinity.push(Weighted {
            weight: 10,
            term: vec![Expression::new(labels::ZONE, Operator::In, &[zone])],
        });
    }
    if generator.one_in(2) {
        spec.tolerations.push(Toleration::everything());
    }
    if generator.one_in(3) {
        let other = if generator.one_in(3) {
            generator.pick(&APPS)
        } else {
            app
        };
        let constraint = spread(generator, other);
        spec.spread.push(constraint);
    }
    if generator.one_in(6) {
        let other = if generator.one_in(3) {
            generator.pick(&APPS)
        } else {
            app
        };
        let near = term(generator, other);
        spec.affinity.push(near);
    }
    if generator.one_in(5) {
        let other = if generator.one_in(2) {
            generator.pick(&APPS)
        } else {
            app
        };
        let apart = term(generator, other);
        spec.anti_affinity.push(apart);
    }
    if generator.one_in(8) {
        spec.host_ports.push(HostPort {
            port: 8080,
            protocol: Protocol::Tcp,
            ip: generator.pick(&["", "10.0.0.1"]).into(),
        });
    }
    spec
}

pub(crate) fn cluster(seed: u64, with_nodes: bool) -> Problem {
    let generator = &mut SeededGenerator(seed);
    let catalog = catalog(generator);
    let pools = vec![pool(generator, "first"), pool(generator, "second")];
    let mut problem = Problem {
        name: format!("seed-{seed}"),
        catalogs: vec![catalog],
        pools,
        ..Problem::default()
    };
    if generator.one_in(2) {
        problem.daemon_sets.push(DaemonSet {
            name: "agent".into(),
            spec: std::sync::Arc::new(PodSpec {
                requests: size(100, GIB / 8, 1),
                tolerations: vec![Toleration::everything()],
                ..PodSpec::default()
            }),
        });
    }
    for index in 0..generator.amount(1, 10) {
        let mut pod = Pod::new(&format!("pod-{index}"), spec(generator));
        pod.count = u32::try_from(generator.amount(1, 5)).unwrap();
        problem.pods.push(pod);
    }
    if with_nodes {
        for index in 0..generator.amount(0, 4) {
            let zone = generator.pick(&ZONES);
            let name = Name::from(format!("node-{index}"));
            problem.nodes.push(Node {
                name: name.clone(),
                labels: Labels::from([
                    (labels::ZONE.into(), zone.into()),
                    (labels::HOSTNAME.into(), name),
                    (labels::ARCH.into(), "amd64".into()),
                    (labels::CAPACITY_TYPE.into(), "on-demand".into()),
                ]),
                capacity: size(4000, 16 * GIB, 20),
                allocatable: size(3900, 15 * GIB, 20),
                ..Node::default()
            });
        }
    }
    problem
}

pub(crate) fn options(steps: u64, threads: usize) -> Options {
    Options {
        steps,
        threads,
        ..Options::default()
    }
}

/// What is planned for a problem with a few and with no steps passes the checker.
pub(crate) fn passes(
    problem: &Problem,
    seed: u64,
    planner: impl Fn(&Problem, &Options) -> Plan,
) -> Result<(), TestCaseError> {
    for steps in [0, 10] {
        let plan = planner(problem, &options(steps, 1));
        let report = check(problem, &plan);
        prop_assert!(report.is_empty(), "seed {seed}, steps {steps}: {report:?}");
    }
    Ok(())
}

/// So many cases, or as many as the environment asks for.
pub(crate) fn cases(usual: u32) -> ProptestConfig {
    let given = ProptestConfig::default();
    ProptestConfig {
        cases: if std::env::var_os("PROPTEST_CASES").is_some() {
            given.cases
        } else {
            usual
        },
        failure_persistence: None,
        ..given
    }
}

/// A cluster whose pools want machines of several types, zones or architectures to choose from.
pub(crate) fn choosy(seed: u64, with_nodes: bool) -> Problem {
    let mut problem = cluster(seed, with_nodes);
    let generator = &mut SeededGenerator(seed ^ 0x5EED);
    for pool in &mut problem.pools {
        for key in [labels::INSTANCE_TYPE, labels::ZONE, labels::ARCH] {
            if generator.one_in(2) {
                let mut wanted = Expression::new(key, Operator::Exists, &[]);
                wanted.min_values = Some(u32::try_from(generator.amount(2, 3)).unwrap());
                pool.requirements.push(wanted);
            }
        }
    }
    problem
}
