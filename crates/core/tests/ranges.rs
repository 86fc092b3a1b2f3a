//! Machines made to measure, from the catalogue to a plan that the checker passes.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests may give up, and stand beside what they help"
)]

mod common;

use joiner_core::labels;
use joiner_core::money::Money;
use joiner_core::name::Labels;
use joiner_core::plan::{Launch, Plan, Reason};
use joiner_core::problem::{
    AffinityTerm, CapacityType, Catalog, DaemonSet, Host, InstanceType, Offering, Pod, PodSpec,
    Pool, Problem, Range, UnitPrices,
};
use joiner_core::requirement::{Expression, Operator};
use joiner_core::resources::{CPU, MEMORY, NVIDIA_GPU, PODS, Resources};
use joiner_core::selector::LabelSelector;

use common::solved;

const GIB: i64 = 1 << 30;
const HUGE_PAGES: &str = "hugepages-2Mi";

fn cents(cents: i64) -> Money {
    Money::from_nanos(cents * 10_000_000)
}

fn size(cores: i64, gib: i64) -> Resources {
    Resources::new()
        .with(CPU, cores * 1000)
        .with(MEMORY, gib * GIB)
}

fn host(name: &str, cores: i64, gib: i64) -> Host {
    Host {
        name: name.into(),
        zone: "rack".into(),
        free: size(cores, gib),
        stock: "".into(),
    }
}

/// From 1 to 16 cores at a cent each, from 1 to 64 GiB.
fn range(hosts: Vec<Host>) -> Range {
    Range {
        name: "vm".into(),
        labels: Labels::new(),
        region: "".into(),
        capacity_type: CapacityType::OnDemand,
        min: size(1, 1).with(PODS, 110),
        max: size(16, 64).with(PODS, 110),
        step: size(1, 1),
        overhead: Resources::new(),
        prices: UnitPrices {
            core: cents(1),
            ..UnitPrices::default()
        },
        hosts,
        left: None,
    }
}

fn fixed(name: &str, cores: i64, gib: i64, price: Money) -> InstanceType {
    InstanceType {
        name: name.into(),
        labels: Labels::new(),
        capacity: size(cores, gib).with(PODS, 110),
        overhead: Resources::new(),
        offerings: vec![Offering {
            zone: "rack".into(),
            region: "".into(),
            capacity_type: CapacityType::OnDemand,
            price,
            available: true,
            left: None,
            reservation: None,
            stock: None,
        }],
        quotas: Vec::new(),
    }
}

fn problem(ranges: Vec<Range>, pods: Vec<Pod>) -> Problem {
    Problem {
        catalogs: vec![Catalog {
            name: "hall".into(),
            types: Vec::new(),
            ranges,
            quotas: Vec::new(),
        }],
        pools: vec![Pool {
            name: "main".into(),
            catalog: "hall".into(),
            ..Pool::default()
        }],
        pods,
        ..Problem::default()
    }
}

fn pods(name: &str, count: u32, cores: i64, gib: i64) -> Pod {
    let requests = size(cores, gib).with(PODS, 1);
    let labels = Labels::from([("app".into(), name.into())]);
    let mut pod = Pod::new(
        name,
        PodSpec {
            namespace: "default".into(),
            labels,
            requests,
            ..PodSpec::default()
        },
    );
    pod.count = count;
    pod
}

/// Pods of which no two share a machine.
fn apart(name: &str, count: u32, cores: i64, gib: i64) -> Pod {
    let mut pod = pods(name, count, cores, gib);
    let mut spec = (*pod.spec).clone();
    spec.anti_affinity.push(AffinityTerm {
        topology_key: labels::HOSTNAME.into(),
        selector: Some(LabelSelector::label("app", name)),
        namespaces: Vec::new(),
        namespace_selector: None,
    });
    pod.spec = spec.into();
    pod
}

fn asking(mut pod: Pod, resource: &str, amount: i64) -> Pod {
    let mut spec = (*pod.spec).clone();
    spec.requests.set(resource, amount);
    pod.spec = spec.into();
    pod
}

#[track_caller]
fn whole(problem: &Problem) -> Plan {
    let plan = solved(problem);
    assert_eq!(plan.unplaced, []);
    plan
}

/// Cores and GiB of a machine.
fn shape(launch: &Launch) -> (i64, i64) {
    let capacity = &launch.capacity;
    (capacity.get(CPU) / 1000, capacity.get(MEMORY) / GIB)
}

fn shapes(plan: &Plan) -> Vec<(i64, i64)> {
    let mut all: Vec<_> = plan.launches.iter().map(shape).collect();
    all.sort_unstable();
    all
}

fn hosts_used(plan: &Plan) -> Vec<&str> {
    let hosts = plan.launches.iter();
    let mut all: Vec<&str> = hosts
        .filter_map(|launch| launch.purchase.host.as_deref())
        .collect();
    all.sort_unstable();
    all
}

#[test]
fn a_machine_has_exactly_what_its_pod_needs_and_the_bound_knows() {
    let plan = whole(&problem(
        vec![range(vec![host("h1", 32, 256)])],
        vec![pods("web", 1, 5, 1)],
    ));
    assert_eq!(shapes(&plan), [(5, 1)]);
    assert_eq!(plan.cost, cents(5));
    assert_eq!(plan.lower_bound, cents(5));
}

#[test]
fn overhead_and_daemons_are_part_of_the_size() {
    let mut one = range(vec![host("h1", 32, 256)]);
    one.overhead = Resources::new().with(CPU, 500).with(MEMORY, GIB / 2);
    let mut problem = problem(vec![one], vec![pods("web", 1, 5, 3)]);
    problem.daemon_sets.push(DaemonSet {
        name: "agent".into(),
        spec: PodSpec {
            requests: Resources::new().with(CPU, 500).with(PODS, 1),
            ..PodSpec::default()
        }
        .into(),
    });
    let plan = whole(&problem);
    assert_eq!(shapes(&plan), [(6, 4)]);
    assert_eq!(plan.lower_bound, cents(6));
}

#[test]
fn a_made_machine_wins_against_a_type_by_its_exact_price() {
    let mut both = problem(
        vec![range(vec![host("h1", 32, 256)])],
        vec![pods("web", 1, 5, 1)],
    );
    both.catalogs[0].types = vec![fixed("c5", 5, 8, Money::from_dollars(0.055))];
    let plan = whole(&both);
    assert_eq!(&*plan.launches[0].purchase.instance_type, "vm");
    assert_eq!(plan.cost, cents(5));
    both.catalogs[0].types = vec![fixed("c5", 5, 8, Money::from_dollars(0.045))];
    let plan = whole(&both);
    assert_eq!(&*plan.launches[0].purchase.instance_type, "c5");
}

#[test]
fn a_free_host_does_not_lift_the_bound_above_what_is_paid() {
    let mut own = range(vec![host("h1", 8, 64)]);
    own.prices = UnitPrices::default();
    let mut both = problem(vec![own], vec![pods("web", 4, 4, 4)]);
    both.catalogs[0].types = vec![fixed("c4", 4, 16, cents(10))];
    let plan = whole(&both);
    assert_eq!(plan.cost, cents(20));
}

#[test]
fn machines_spill_to_the_next_host_and_beyond_the_last_one_are_refused() {
    let hosts = vec![host("h1", 10, 64), host("h2", 6, 64)];
    let plan = solved(&problem(vec![range(hosts)], vec![apart("web", 4, 5, 2)]));
    assert_eq!(hosts_used(&plan), ["h1", "h1", "h2"]);
    assert_eq!(shapes(&plan), [(5, 2), (5, 2), (5, 2)]);
    let [left] = &plan.unplaced[..] else {
        panic!("{:?}", plan.unplaced)
    };
    assert_eq!(left.pods.len(), 1);
    let Reason::Limit { limit, .. } = &left.reason else {
        panic!("{:?}", left.reason)
    };
    assert!(limit.starts_with("host h"), "{limit}");
}

#[test]
fn the_room_of_a_host_is_used_to_the_last_core() {
    let plan = whole(&problem(
        vec![range(vec![host("h1", 15, 15)])],
        vec![apart("web", 3, 5, 5)],
    ));
    assert_eq!(shapes(&plan), [(5, 5), (5, 5), (5, 5)]);
    let plan = whole(&problem(
        vec![range(vec![host("h1", 15, 64)])],
        vec![apart("big", 1, 7, 3), apart("web", 2, 4, 4)],
    ));
    let cores: i64 = shapes(&plan).iter().map(|(cores, _)| cores).sum();
    assert_eq!(cores, 15);
}

#[test]
fn what_a_pool_may_still_buy_is_used_to_the_last_core_too() {
    let mut limited = problem(
        vec![range(vec![host("h1", 64, 256)])],
        vec![apart("web", 2, 5, 1)],
    );
    limited.pools[0].limits.resources = Resources::new().with(CPU, 10_000);
    assert_eq!(shapes(&whole(&limited)), [(5, 1), (5, 1)]);
    limited.pools[0].limits.resources = Resources::new();
    limited.pools[0].limits.cost = Some(cents(10));
    assert_eq!(shapes(&whole(&limited)), [(5, 1), (5, 1)]);
}

#[test]
fn everything_that_has_a_step_has_a_size() {
    let mut one = range(vec![Host {
        free: size(32, 256).with(NVIDIA_GPU, 4),
        ..host("h1", 32, 256)
    }]);
    one.min.set(NVIDIA_GPU, 0);
    one.max.set(NVIDIA_GPU, 8);
    one.step.set(NVIDIA_GPU, 1);
    let gpus = |plan: &Plan| -> Vec<i64> {
        let launches = plan.launches.iter();
        launches
            .map(|launch| launch.capacity.get(NVIDIA_GPU))
            .collect()
    };
    let plain = whole(&problem(vec![one.clone()], vec![pods("web", 1, 2, 2)]));
    assert_eq!(gpus(&plain), [0]);
    let train = asking(pods("train", 1, 2, 2), NVIDIA_GPU, 3);
    let three = whole(&problem(vec![one.clone()], vec![train]));
    assert_eq!(gpus(&three), [3]);
    let train = asking(pods("train", 1, 2, 2), NVIDIA_GPU, 5);
    let five = solved(&problem(vec![one], vec![train]));
    assert!(five.launches.is_empty());
}

#[test]
fn huge_pages_are_taken_off_the_memory_that_is_bought() {
    let mut one = range(vec![host("h1", 32, 256)]);
    one.max.set(HUGE_PAGES, 4 * GIB);
    let plan = whole(&problem(vec![one.clone()], vec![pods("web", 1, 2, 3)]));
    assert_eq!(shapes(&plan), [(2, 7)]);
    one.step.set(HUGE_PAGES, GIB);
    let pod = asking(pods("web", 1, 2, 3), HUGE_PAGES, 2 * GIB);
    let plan = whole(&problem(vec![one], vec![pod]));
    assert_eq!(shapes(&plan), [(2, 5)]);
}

#[test]
fn pools_and_pods_name_a_range_as_they_name_a_type() {
    let mut named = problem(
        vec![range(vec![host("h1", 32, 256)])],
        vec![pods("web", 1, 5, 1)],
    );
    let wants = |name: &str| {
        vec![Expression::new(
            labels::INSTANCE_TYPE,
            Operator::In,
            &[name],
        )]
    };
    named.pools[0].requirements = wants("vm");
    let plan = whole(&named);
    assert_eq!(&*plan.launches[0].labels[labels::INSTANCE_TYPE], "vm");
    let mut spec = (*named.pods[0].spec).clone();
    spec.node_selector
        .insert(labels::INSTANCE_TYPE.into(), "vm".into());
    named.pods[0].spec = spec.into();
    whole(&named);
    named.pools[0].requirements = wants("other");
    assert!(solved(&named).launches.is_empty());
}

#[test]
fn no_more_machines_are_made_than_may_be() {
    let mut few = range(vec![host("h1", 64, 256)]);
    few.left = Some(2);
    let plan = solved(&problem(vec![few], vec![apart("web", 3, 2, 2)]));
    assert_eq!(plan.launches.len(), 2);
    let limit = plan.unplaced[0].reason.to_string();
    assert!(
        limit.contains("no more machines of vm may be created"),
        "{limit}"
    );
}

#[test]
fn two_ranges_share_the_room_of_a_host() {
    let small = range(vec![host("h1", 10, 64)]);
    let mut other = small.clone();
    other.name = "vm-fast".into();
    other.labels = Labels::from([("disk".into(), "fast".into())]);
    let mut fast = pods("fast", 1, 6, 2);
    let mut spec = (*fast.spec).clone();
    spec.node_selector.insert("disk".into(), "fast".into());
    fast.spec = spec.into();
    let plan = solved(&problem(
        vec![small, other],
        vec![fast, apart("web", 1, 6, 2)],
    ));
    let cores: i64 = shapes(&plan).iter().map(|(cores, _)| cores).sum();
    assert!(cores <= 10, "{:?}", shapes(&plan));
}

#[test]
fn a_range_without_room_for_its_smallest_machine_is_called_sold_out() {
    let mut full = range(vec![host("h1", 1, 64)]);
    full.min.set(CPU, 2000);
    let plan = solved(&problem(vec![full], vec![pods("web", 1, 1, 1)]));
    let said = plan.unplaced[0].reason.to_string();
    assert!(said.ends_with("is sold out; sold out: vm"), "{said}");
}
