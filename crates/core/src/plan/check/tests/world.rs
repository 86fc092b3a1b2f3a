//! A small world: two types in two zones, one pool, and plans for it.

use std::sync::Arc;

use crate::labels;
use crate::money::Money;
use crate::name::{Labels, Name};
use crate::plan::{
    Home, Launch, Placement, Plan, PodRef, Purchase, Reason, Removal, Rule, Unplaced, check,
};
use crate::problem::{
    CapacityType, Catalog, DisruptionReason, InstanceType, Node, NodeId, Offering, Pod, PodSpec,
    Pool, Problem,
};
use crate::resources::{CPU, MEMORY, PODS, Resources};

pub(super) const GIB: i64 = 1 << 30;

pub(super) fn amounts(cpu: i64, gib: i64, pods: i64) -> Resources {
    Resources::new()
        .with(CPU, cpu)
        .with(MEMORY, gib * GIB)
        .with(PODS, pods)
}

pub(super) fn labels_of(pairs: &[(&str, &str)]) -> Labels {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| (Name::from(*key), Name::from(*value)))
        .collect()
}

fn kind(name: &str, cpu: i64, gib: i64, cents: i64) -> InstanceType {
    let offering = |zone: &str, capacity_type, price| Offering {
        zone: zone.into(),
        region: "".into(),
        capacity_type,
        price: Money::from_nanos(price * 10_000_000),
        available: true,
        left: None,
        reservation: None,
        stock: None,
    };
    InstanceType {
        name: name.into(),
        labels: labels_of(&[(labels::ARCH, "amd64"), (labels::OS, "linux")]),
        capacity: amounts(cpu, gib, 10),
        overhead: Resources::new().with(CPU, 100),
        offerings: vec![
            offering("a", CapacityType::OnDemand, cents),
            offering("b", CapacityType::OnDemand, cents),
            offering("a", CapacityType::Spot, cents / 2),
        ],
        quotas: Vec::new(),
    }
}

/// Types `small` (2 cores, 4 GiB, 10 cents) and `large` (8 cores, 16 GiB, 40 cents), pool `main`.
pub(super) fn problem() -> Problem {
    Problem {
        name: "test".to_owned(),
        now: Some("2026-11-13T12:00:00Z".parse().unwrap()),
        catalogs: vec![Catalog {
            name: "shop".into(),
            types: vec![kind("small", 2000, 4, 10), kind("large", 8000, 16, 40)],
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

pub(super) fn spec(cpu: i64) -> PodSpec {
    PodSpec {
        namespace: "default".into(),
        requests: amounts(cpu, 0, 1),
        labels: labels_of(&[("app", "web")]),
        ..PodSpec::default()
    }
}

/// Adds `count` pending pods and returns them.
pub(super) fn pend(problem: &mut Problem, name: &str, count: u32, spec: PodSpec) -> Vec<PodRef> {
    let group = u32::try_from(problem.pods.len()).unwrap();
    problem.pods.push(Pod {
        name: name.into(),
        count,
        spec: Arc::new(spec),
        ..Pod::default()
    });
    let home = Home::Pending;
    (0..count)
        .map(|position| PodRef {
            home,
            group,
            position,
        })
        .collect()
}

/// Adds a node of type `small` with these pods and returns them.
pub(super) fn node(problem: &mut Problem, name: &str, zone: &str, pods: Vec<Pod>) -> Vec<PodRef> {
    let home = Home::Node(NodeId::at(problem.nodes.len()));
    let kind = &problem.catalogs[0].types[0];
    let mut labels = kind.labels.clone();
    labels.extend(labels_of(&[
        (labels::ZONE, zone),
        (labels::INSTANCE_TYPE, "small"),
        (labels::CAPACITY_TYPE, "on-demand"),
        (labels::NODEPOOL, "main"),
        (labels::HOSTNAME, name),
    ]));
    let node = Node {
        name: name.into(),
        pool: Some("main".into()),
        labels,
        capacity: kind.capacity.clone(),
        allocatable: kind.allocatable(),
        instance_type: "small".into(),
        price: Some(Money::from_dollars(0.1)),
        created: Some("2026-11-01T00:00:00Z".parse().unwrap()),
        pods,
        ..Node::default()
    };
    let refs = (0..node.pods.len())
        .map(|group| PodRef {
            home,
            group: u32::try_from(group).unwrap(),
            position: 0,
        })
        .collect();
    problem.nodes.push(node);
    refs
}

/// A machine of this type and zone with these pods; requests and labels as they should be.
pub(super) fn launch(problem: &Problem, kind: &str, zone: &str, pods: &[PodRef]) -> Launch {
    let pool = &problem.pools[0];
    let found = problem.catalogs[0]
        .types
        .iter()
        .find(|one| &*one.name == kind)
        .unwrap();
    let mut labels = pool.labels.clone();
    labels.extend(found.labels.clone());
    labels.extend(labels_of(&[
        (labels::ZONE, zone),
        (labels::INSTANCE_TYPE, kind),
        (labels::CAPACITY_TYPE, "on-demand"),
        (labels::NODEPOOL, &pool.name),
    ]));
    let mut requests = Resources::new();
    for pod in pods {
        requests.add(&problem.pod(*pod).unwrap().spec.requests);
    }
    for daemon in &problem.daemon_sets {
        requests.add(&daemon.spec.requests);
    }
    Launch {
        pool: pool.name.clone(),
        purchase: purchase(problem, kind, zone),
        alternatives: Arc::default(),
        capacity: found.capacity.clone(),
        requests,
        labels,
        pods: pods.to_vec(),
        reason: Reason::Cheapest {
            considered: 1,
            runner_up: None,
        },
    }
}

/// The on-demand offering of a type in a zone.
pub(super) fn purchase(problem: &Problem, kind: &str, zone: &str) -> Purchase {
    let found = problem.catalogs[0]
        .types
        .iter()
        .find(|one| &*one.name == kind)
        .unwrap();
    Purchase {
        catalog: "shop".into(),
        instance_type: kind.into(),
        zone: zone.into(),
        capacity_type: CapacityType::OnDemand,
        reservation: None,
        host: None,
        price: found.offerings[0].price,
    }
}

/// A plan of launches whose cost adds up.
pub(super) fn plan(launches: Vec<Launch>) -> Plan {
    Plan {
        cost: launches.iter().map(|launch| launch.purchase.price).sum(),
        launches,
        ..Plan::default()
    }
}

/// A plan that puts pods on a node.
pub(super) fn put(name: &str, pods: &[PodRef]) -> Plan {
    Plan {
        placements: vec![Placement {
            node: name.into(),
            pods: pods.to_vec(),
        }],
        ..Plan::default()
    }
}

pub(super) fn remove(plan: &mut Plan, name: &str, cause: DisruptionReason) {
    plan.removals.push(Removal {
        node: name.into(),
        cause,
        reason: Reason::NoPool,
    });
}

pub(super) fn unplaced(pods: &[PodRef]) -> Unplaced {
    Unplaced {
        pods: pods.to_vec(),
        reason: Reason::NoPool,
    }
}

#[track_caller]
pub(super) fn valid(problem: &Problem, plan: &Plan) {
    let found = check(problem, plan);
    assert!(found.is_empty(), "{found:#?}");
}

/// The plan breaks this rule and no other, and says so in these words.
#[track_caller]
pub(super) fn broken(problem: &Problem, plan: &Plan, rule: Rule, words: &str) {
    let found = check(problem, plan);
    assert!(!found.is_empty(), "nothing found; expected {rule}: {words}");
    for violation in &found {
        assert_eq!(violation.rule, rule, "{found:#?}");
    }
    assert!(
        found.iter().any(|one| one.sentence.contains(words)),
        "{words:?} is not in {found:#?}"
    );
}
