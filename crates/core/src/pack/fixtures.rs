//! Small clusters for tests, one fact at a time.

use crate::labels;
use crate::money::Money;
use crate::name::{Labels, Name};
use crate::pack::{Options, solve};
use crate::plan::{Plan, check};
use crate::problem::{
    AffinityTerm, CapacityType, Catalog, InstanceType, Node, NodePhase, Offering, Pod, PodSpec,
    Policy, Pool, Problem, Spread, WhenUnsatisfiable,
};
use crate::resources::{CPU, MEMORY, PODS, Resources};
use crate::selector::LabelSelector;

pub(crate) fn amounts(cpu: i64) -> Resources {
    Resources::new()
        .with(CPU, cpu)
        .with(MEMORY, cpu << 20)
        .with(PODS, 1)
}

/// A machine of so many cores at five cents a core, in zones a and b.
pub(crate) fn machine(cores: i64) -> InstanceType {
    InstanceType {
        name: format!("c{cores}").into(),
        labels: Labels::from([
            (Name::from(labels::ARCH), Name::from("amd64")),
            (Name::from(labels::OS), Name::from("linux")),
        ]),
        capacity: amounts(cores * 1000).with(PODS, 20),
        overhead: Resources::new(),
        offerings: ["a", "b"]
            .map(|zone| Offering {
                zone: zone.into(),
                region: "".into(),
                capacity_type: CapacityType::OnDemand,
                price: Money::from_nanos(cores * 50_000_000),
                available: true,
                left: None,
                reservation: None,
                stock: None,
            })
            .to_vec(),
        quotas: Vec::new(),
    }
}

/// A pool that sells these machines.
pub(crate) fn selling(types: Vec<InstanceType>) -> Problem {
    Problem {
        catalogs: vec![Catalog {
            name: "shop".into(),
            types,
            ranges: Vec::new(),
            quotas: Vec::new(),
        }],
        pools: vec![Pool {
            name: "main".into(),
            catalog: "shop".into(),
            ..Pool::default()
        }],
        ..Problem::default()
    }
}

/// Machines of 2, 4 and 8 cores.
pub(crate) fn problem() -> Problem {
    selling(vec![machine(2), machine(4), machine(8)])
}

/// On the same host as pods of an app.
pub(crate) fn beside(app: &str) -> AffinityTerm {
    AffinityTerm {
        topology_key: labels::HOSTNAME.into(),
        selector: Some(LabelSelector::label("app", app)),
        namespaces: Vec::new(),
        namespace_selector: None,
    }
}

pub(crate) fn spec(app: &str, cpu: i64) -> PodSpec {
    PodSpec {
        namespace: "default".into(),
        labels: Labels::from([(Name::from("app"), Name::from(app))]),
        requests: amounts(cpu),
        ..PodSpec::default()
    }
}

pub(crate) fn pods(name: &str, count: u32, spec: PodSpec) -> Pod {
    Pod {
        count,
        ..Pod::new(name, spec)
    }
}

pub(crate) fn over_zones(app: &str) -> Spread {
    Spread {
        topology_key: labels::ZONE.into(),
        max_skew: 1,
        selector: Some(LabelSelector::label("app", app)),
        match_label_keys: Vec::new(),
        min_domains: None,
        when_unsatisfiable: WhenUnsatisfiable::DoNotSchedule,
        node_affinity_policy: Policy::Honor,
        node_taints_policy: Policy::Ignore,
    }
}

/// Adds an empty machine of eight cores in zone a.
pub(crate) fn node(problem: &mut Problem, phase: NodePhase) {
    let kind = machine(8);
    let mut all = kind.labels.clone();
    for (key, value) in [
        (labels::ZONE, "a"),
        (labels::INSTANCE_TYPE, "c8"),
        (labels::CAPACITY_TYPE, "on-demand"),
        (labels::NODEPOOL, "main"),
        (labels::HOSTNAME, "old"),
    ] {
        all.insert(key.into(), value.into());
    }
    problem.nodes.push(Node {
        name: "old".into(),
        pool: Some("main".into()),
        phase,
        labels: all,
        capacity: kind.capacity.clone(),
        allocatable: kind.allocatable(),
        instance_type: kind.name.clone(),
        price: Some(kind.offerings[0].price),
        ..Node::default()
    });
}

/// The plan, judged: how many pods go to each new machine, to nodes, and nowhere.
#[track_caller]
pub(crate) fn decide(problem: &Problem) -> (Vec<usize>, usize, usize, Plan) {
    let plan = solve(problem, &Options::default());
    assert_eq!(check(problem, &plan), [], "{plan:#?}");
    let launches = plan.launches.iter().map(|one| one.pods.len()).collect();
    let placed = plan.placements.iter().map(|one| one.pods.len()).sum();
    let unplaced = plan.unplaced.iter().map(|one| one.pods.len()).sum();
    (launches, placed, unplaced, plan)
}

/// Names of the pods without a place, in order.
pub(crate) fn unplaced(problem: &Problem, plan: &Plan) -> Vec<String> {
    let pods = plan.unplaced.iter().flat_map(|one| &one.pods);
    let names = pods.filter_map(|pod| problem.pod_name(*pod));
    let mut names: Vec<String> = names.map(|name| name.to_string()).collect();
    names.sort_unstable();
    names
}
