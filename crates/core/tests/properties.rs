//! Generated clusters with every constraint at once: whatever the packer plans must hold.
#![allow(
    clippy::unwrap_used,
    clippy::items_after_statements,
    reason = "helpers of tests may give up, and stand beside what they help"
)]

use joiner_core::labels;
use joiner_core::money::Money;
use joiner_core::name::{Labels, Name};
use joiner_core::pack::{self, Options};
use joiner_core::plan::{Home, Plan, PodRef, check};
use joiner_core::problem::{
    AffinityTerm, CapacityType, Catalog, DaemonSet, HostPort, InstanceType, Limits, Node, Offering,
    Pod, PodSpec, Policy, Pool, Problem, Protocol, Spread, Weighted, WhenUnsatisfiable,
};
use joiner_core::requirement::{Expression, Operator};
use joiner_core::resources::{CPU, MEMORY, PODS, Resources};
use joiner_core::selector::LabelSelector;
use joiner_core::taints::{Effect, Taint, Toleration};
use proptest::prelude::*;

const GIB: i64 = 1 << 30;

/// A stream of numbers from a seed, the same on every machine.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % sides
    }

    fn one_in(&mut self, sides: u64) -> bool {
        self.below(sides) == 0
    }

    fn amount(&mut self, low: i64, high: i64) -> i64 {
        low + i64::try_from(self.below(u64::try_from(high - low + 1).unwrap())).unwrap()
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[usize::try_from(self.below(from.len() as u64)).unwrap()]
    }
}

const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];
const APPS: [&str; 4] = ["web", "db", "cache", "batch"];

fn size(cpu: i64, memory: i64, pods: i64) -> Resources {
    Resources::new()
        .with(CPU, cpu)
        .with(MEMORY, memory)
        .with(PODS, pods)
}

fn catalog(dice: &mut Dice) -> Catalog {
    let mut types = Vec::new();
    for index in 0..dice.amount(2, 8) {
        let cores = 1 << dice.below(5);
        let gib = cores * [2, 4, 8][usize::try_from(dice.below(3)).unwrap()];
        let mut offerings = Vec::new();
        for zone in ZONES {
            for capacity_type in [CapacityType::Spot, CapacityType::OnDemand] {
                if dice.one_in(4) {
                    continue;
                }
                let cents = cores * dice.amount(2, 9);
                offerings.push(Offering {
                    zone: zone.into(),
                    region: "".into(),
                    capacity_type,
                    price: Money::from_nanos(cents * 10_000_000),
                    available: !dice.one_in(10),
                    left: dice
                        .one_in(6)
                        .then(|| u32::try_from(dice.below(3)).unwrap()),
                    reservation: None,
                });
            }
        }
        let arch = dice.pick(&["amd64", "arm64"]);
        types.push(InstanceType {
            name: format!("type-{index}").into(),
            labels: Labels::from([(labels::ARCH.into(), arch.into())]),
            capacity: size(cores * 1000, gib * GIB, 8 + cores * 4),
            overhead: size(100, GIB / 4, 0),
            offerings,
        });
    }
    Catalog {
        name: "cloud".into(),
        types,
        ranges: Vec::new(),
    }
}

fn pool(dice: &mut Dice, name: &str) -> Pool {
    let mut limits = Limits::default();
    if dice.one_in(3) {
        limits.nodes = Some(u32::try_from(dice.below(6)).unwrap());
    }
    if dice.one_in(3) {
        limits.resources = Resources::new().with(CPU, dice.amount(2, 40) * 1000);
    }
    if dice.one_in(4) {
        limits.cost = Some(Money::from_nanos(dice.amount(1, 30) * 100_000_000));
    }
    let mut requirements = Vec::new();
    if dice.one_in(3) {
        requirements.push(Expression::new(labels::ZONE, Operator::In, &ZONES[..2]));
    }
    if dice.one_in(4) {
        requirements.push(Expression::new("team", Operator::In, &["red", "blue"]));
    }
    Pool {
        name: name.into(),
        catalog: "cloud".into(),
        weight: i32::try_from(dice.below(3)).unwrap(),
        requirements,
        taints: if dice.one_in(4) {
            vec![Taint {
                key: "dedicated".into(),
                value: "yes".into(),
                effect: if dice.one_in(2) {
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

fn term(dice: &mut Dice, app: &str) -> AffinityTerm {
    AffinityTerm {
        topology_key: dice.pick(&[labels::ZONE, labels::HOSTNAME]).into(),
        selector: Some(LabelSelector::label("app", app)),
        namespaces: Vec::new(),
        namespace_selector: None,
    }
}

fn spread(dice: &mut Dice, app: &str) -> Spread {
    Spread {
        topology_key: dice
            .pick(&[labels::ZONE, labels::HOSTNAME, labels::CAPACITY_TYPE])
            .into(),
        max_skew: i32::try_from(dice.amount(1, 2)).unwrap(),
        selector: Some(LabelSelector::label("app", app)),
        match_label_keys: Vec::new(),
        min_domains: dice.one_in(5).then_some(2),
        when_unsatisfiable: if dice.one_in(4) {
            WhenUnsatisfiable::ScheduleAnyway
        } else {
            WhenUnsatisfiable::DoNotSchedule
        },
        node_affinity_policy: Policy::Honor,
        node_taints_policy: if dice.one_in(4) {
            Policy::Honor
        } else {
            Policy::Ignore
        },
    }
}

fn spec(dice: &mut Dice) -> PodSpec {
    let app = dice.pick(&APPS);
    let mut spec = PodSpec {
        namespace: "default".into(),
        labels: Labels::from([("app".into(), app.into())]),
        requests: size(dice.amount(1, 40) * 100, dice.amount(1, 32) * GIB / 4, 1),
        priority: i32::try_from(dice.below(2)).unwrap() * 100,
        ..PodSpec::default()
    };
    if dice.one_in(5) {
        let arch = dice.pick(&["amd64", "arm64"]);
        spec.node_selector.insert(labels::ARCH.into(), arch.into());
    }
    if dice.one_in(8) {
        let team = dice.pick(&["red", "blue", "green"]);
        spec.node_selector.insert("team".into(), team.into());
    }
    if dice.one_in(6) {
        for zone in [dice.pick(&ZONES), dice.pick(&ZONES)] {
            let term = vec![Expression::new(labels::ZONE, Operator::In, &[zone])];
            spec.required_affinity.push(term);
        }
    }
    if dice.one_in(5) {
        let zone = dice.pick(&ZONES);
        spec.preferred_affinity.push(Weighted {
            weight: 10,
            term: vec![Expression::new(labels::ZONE, Operator::In, &[zone])],
        });
    }
    if dice.one_in(2) {
        spec.tolerations.push(Toleration::everything());
    }
    if dice.one_in(3) {
        let other = if dice.one_in(3) {
            dice.pick(&APPS)
        } else {
            app
        };
        let constraint = spread(dice, other);
        spec.spread.push(constraint);
    }
    if dice.one_in(6) {
        let other = if dice.one_in(3) {
            dice.pick(&APPS)
        } else {
            app
        };
        let near = term(dice, other);
        spec.affinity.push(near);
    }
    if dice.one_in(5) {
        let other = if dice.one_in(2) {
            dice.pick(&APPS)
        } else {
            app
        };
        let apart = term(dice, other);
        spec.anti_affinity.push(apart);
    }
    if dice.one_in(8) {
        spec.host_ports.push(HostPort {
            port: 8080,
            protocol: Protocol::Tcp,
            ip: dice.pick(&["", "10.0.0.1"]).into(),
        });
    }
    spec
}

fn cluster(seed: u64, with_nodes: bool) -> Problem {
    let dice = &mut Dice(seed);
    let catalog = catalog(dice);
    let pools = vec![pool(dice, "first"), pool(dice, "second")];
    let mut problem = Problem {
        name: format!("seed-{seed}"),
        catalogs: vec![catalog],
        pools,
        ..Problem::default()
    };
    if dice.one_in(2) {
        problem.daemon_sets.push(DaemonSet {
            name: "agent".into(),
            spec: std::sync::Arc::new(PodSpec {
                requests: size(100, GIB / 8, 1),
                tolerations: vec![Toleration::everything()],
                ..PodSpec::default()
            }),
        });
    }
    for index in 0..dice.amount(1, 10) {
        let mut pod = Pod::new(&format!("pod-{index}"), spec(dice));
        pod.count = u32::try_from(dice.amount(1, 5)).unwrap();
        problem.pods.push(pod);
    }
    if with_nodes {
        for index in 0..dice.amount(0, 4) {
            let zone = dice.pick(&ZONES);
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

fn options(steps: u64, threads: usize) -> Options {
    Options {
        steps,
        threads,
        ..Options::default()
    }
}

/// The problem after the plan was carried out: what was bought is there, and pods are bound.
fn carried_out(problem: &Problem, plan: &Plan) -> Problem {
    let mut after = problem.clone();
    let single = |pod: &PodRef| -> Pod {
        assert_eq!(pod.home, Home::Pending);
        let group = &problem.pods[pod.group as usize];
        Pod {
            name: format!("{}-{}", group.name, pod.position).into(),
            count: 1,
            ..group.clone()
        }
    };
    for (index, launch) in plan.launches.iter().enumerate() {
        let pool = problem
            .pools
            .iter()
            .find(|pool| pool.name == launch.pool)
            .unwrap();
        let catalog = problem.catalog(&launch.purchase.catalog).unwrap();
        let kind = catalog
            .types
            .iter()
            .find(|one| one.name == launch.purchase.instance_type)
            .unwrap();
        let name = Name::from(format!("new-{index}"));
        let mut labels = launch.labels.clone();
        labels.insert(labels::HOSTNAME.into(), name.clone());
        after.nodes.push(Node {
            name,
            pool: Some(launch.pool.clone()),
            labels,
            taints: pool.taints.clone(),
            capacity: launch.capacity.clone(),
            allocatable: kind.allocatable(),
            pods: launch.pods.iter().map(single).collect(),
            instance_type: launch.purchase.instance_type.clone(),
            capacity_type: launch.purchase.capacity_type,
            price: Some(launch.purchase.price),
            ..Node::default()
        });
        for catalog in &mut after.catalogs {
            for one in &mut catalog.types {
                for offering in &mut one.offerings {
                    let same = one.name == launch.purchase.instance_type
                        && offering.zone == launch.purchase.zone
                        && offering.capacity_type == launch.purchase.capacity_type;
                    if same && let Some(left) = &mut offering.left {
                        *left -= 1;
                    }
                }
            }
        }
    }
    for placement in &plan.placements {
        let node = after
            .nodes
            .iter_mut()
            .find(|node| node.name == placement.node)
            .unwrap();
        node.pods.extend(placement.pods.iter().map(single));
    }
    after.pods.clear();
    after
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn every_plan_passes_the_checker(seed in any::<u64>(), with_nodes in any::<bool>()) {
        holds(seed, with_nodes)?;
    }

    #[test]
    fn more_steps_never_make_a_plan_dearer_and_the_bound_stays_below(seed in any::<u64>()) {
        let problem = cluster(seed, false);
        let first = pack::solve(&problem, &options(0, 1));
        let best = pack::solve(&problem, &options(10, 1));
        // A plan that places more important pods may cost more.
        let missing = |plan: &Plan| {
            let pods = plan.unplaced.iter().flat_map(|one| &one.pods);
            let mut priorities: Vec<i32> = pods
                .map(|pod| problem.pods[pod.group as usize].spec.priority)
                .collect();
            priorities.sort_unstable();
            priorities
        };
        if missing(&first) == missing(&best) {
            prop_assert!(best.cost <= first.cost, "seed {seed}");
        }
        prop_assert!(best.lower_bound <= best.cost, "seed {seed}");
    }

    #[test]
    fn threads_do_not_change_a_plan(seed in any::<u64>()) {
        let problem = cluster(seed, true);
        let one = serde_json::to_string(&pack::solve(&problem, &options(10, 1))).unwrap();
        for threads in [2, 8] {
            let many = serde_json::to_string(&pack::solve(&problem, &options(10, threads))).unwrap();
            prop_assert_eq!(&one, &many, "seed {}", seed);
        }
    }

    #[test]
    fn planning_again_after_acting_changes_nothing(seed in any::<u64>(), with_nodes in any::<bool>()) {
        let problem = cluster(seed, with_nodes);
        let plan = pack::solve(&problem, &options(10, 1));
        let after = carried_out(&problem, &plan);
        let again = pack::solve(&after, &options(10, 1));
        prop_assert!(again.launches.is_empty() && again.placements.is_empty(), "seed {seed}");
    }
}

/// The least cost of packing a few pods into machines, by trying every partition.
fn cheapest(problem: &Problem) -> Option<Money> {
    let pods: Vec<&PodSpec> = problem.pods.iter().map(|pod| &*pod.spec).collect();
    let types = &problem.catalogs[0].types;
    let price = |group: &Resources| {
        let fitting = types.iter().filter(|one| one.allocatable().fits(group));
        fitting
            .flat_map(|one| &one.offerings)
            .map(|offering| offering.price)
            .min()
    };
    fn descend(
        pods: &[&PodSpec],
        groups: &mut Vec<Resources>,
        price: &dyn Fn(&Resources) -> Option<Money>,
    ) -> Option<Money> {
        let Some((first, rest)) = pods.split_first() else {
            return groups.iter().map(price).sum::<Option<Money>>();
        };
        let mut best: Option<Money> = None;
        for index in 0..=groups.len() {
            if index == groups.len() {
                groups.push(Resources::new());
            }
            let before = groups[index].clone();
            groups[index].add(&first.requests);
            if let Some(cost) = descend(rest, groups, price) {
                best = Some(best.map_or(cost, |best| best.min(cost)));
            }
            groups[index] = before;
            if groups[index].is_empty() {
                groups.pop();
            }
        }
        best
    }
    descend(&pods, &mut Vec::new(), &price)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn small_problems_are_near_what_trying_everything_finds(seed in any::<u64>()) {
        let dice = &mut Dice(seed);
        let mut catalog = catalog(dice);
        for one in &mut catalog.types {
            for offering in &mut one.offerings {
                (offering.available, offering.left) = (true, None);
            }
        }
        let mut problem = Problem {
            catalogs: vec![catalog],
            pools: vec![Pool { name: "only".into(), catalog: "cloud".into(), ..Pool::default() }],
            ..Problem::default()
        };
        for index in 0..dice.amount(1, 6) {
            let requests = size(dice.amount(1, 40) * 100, dice.amount(1, 32) * GIB / 4, 1);
            let spec = PodSpec { requests, ..PodSpec::default() };
            problem.pods.push(Pod::new(&format!("pod-{index}"), spec));
        }
        let Some(optimum) = cheapest(&problem) else { return Ok(()) };
        let plan = pack::solve(&problem, &options(10, 1));
        prop_assert!(plan.unplaced.is_empty());
        prop_assert!(plan.cost >= optimum, "cheaper than possible: seed {seed}");
        prop_assert!(plan.lower_bound <= optimum, "the bound is wrong: seed {seed}");
        let most = optimum + optimum.percent(35);
        prop_assert!(plan.cost <= most, "{} against {optimum}: seed {seed}", plan.cost);
    }
}

/// Plans of one cluster with a few and with no steps pass the checker.
fn holds(seed: u64, with_nodes: bool) -> Result<(), TestCaseError> {
    let problem = cluster(seed, with_nodes);
    for steps in [0, 10] {
        let plan = pack::solve(&problem, &options(steps, 1));
        let report = check(&problem, &plan);
        prop_assert!(report.is_empty(), "seed {seed}, steps {steps}: {report:?}");
    }
    Ok(())
}

/// Only the pool with a taint sells in the third zone, and the spread honours taints.
#[test]
fn a_zone_behind_a_taint_does_not_hold_a_spread_back() {
    holds(831_315_701_059_074_832, true).unwrap();
}
