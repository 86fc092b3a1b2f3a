//! Pods that could run are not left waiting.
//!
//! Where nothing is scarce, a pod whose place does not depend on other pods has a place if some machine can hold it
//! alone. The checker says whether one can: every machine that is for sale is put there as an empty node, the pod is
//! put onto it, and the judgement is taken. The packer has no part in that.

use joiner_core::labels;
use joiner_core::name::{Labels, Name};
use joiner_core::pack;
use joiner_core::plan::{Home, Placement, Plan, PodRef, check};
use joiner_core::problem::{
    InstanceType, Limits, Node, Offering, Pod, PodSpec, Pool, Problem, Settings, WhenUnsatisfiable,
};
use joiner_core::requirement::Operator;
use proptest::prelude::*;

use crate::clusters::{cases, cluster, options};
use crate::twists::twisted;

/// The same cluster if nothing ran out.
fn generous(mut problem: Problem) -> Problem {
    for pool in &mut problem.pools {
        pool.limits = Limits::default();
    }
    for catalog in &mut problem.catalogs {
        catalog.quotas.clear();
    }
    let catalogs = problem.catalogs.iter_mut();
    let types = catalogs.flat_map(|catalog| &mut catalog.types);
    for offering in types.flat_map(|kind| &mut kind.offerings) {
        offering.left = None;
    }
    problem.settings = Settings {
        preferences: problem.settings.preferences,
        preference_cap: problem.settings.preference_cap,
        ..Settings::default()
    };
    problem
}

/// Labels that pools leave to pods, in every way that a machine can have them.
fn invented(pool: &Pool) -> Vec<Labels> {
    let mut ways = vec![Labels::new()];
    for wanted in &pool.requirements {
        let known = labels::WELL_KNOWN.contains(&&*wanted.key);
        if known || wanted.operator != Operator::In {
            continue;
        }
        ways = ways
            .iter()
            .flat_map(|labels| {
                wanted.values.iter().map(|value| {
                    let mut labels = labels.clone();
                    labels.insert(wanted.key.clone(), value.clone());
                    labels
                })
            })
            .collect();
    }
    ways
}

/// What is bought, as a node.
fn machine(pool: &Pool, kind: &InstanceType, offering: &Offering, invented: &Labels) -> Node {
    let name = Name::from("alone");
    let mut all = invented.clone();
    all.extend(pool.labels.clone());
    all.extend(kind.labels.clone());
    all.extend(
        [
            (labels::ZONE, offering.zone.clone()),
            (labels::REGION, offering.region.clone()),
            (
                labels::CAPACITY_TYPE,
                offering.capacity_type.to_string().into(),
            ),
            (labels::INSTANCE_TYPE, kind.name.clone()),
            (labels::NODEPOOL, pool.name.clone()),
            (labels::HOSTNAME, name.clone()),
        ]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(key, value)| (Name::from(key), value)),
    );
    Node {
        name,
        pool: Some(pool.name.clone()),
        labels: all,
        taints: pool.taints.clone(),
        capacity: kind.capacity.clone(),
        allocatable: kind.allocatable(),
        instance_type: kind.name.clone(),
        capacity_type: offering.capacity_type,
        price: Some(offering.price),
        ..Node::default()
    }
}

/// Whether the pool may buy that: its requirements are those of a pod that would be put there.
fn allowed(pool: &Pool, node: &Node) -> bool {
    let asks = PodSpec {
        required_affinity: vec![pool.requirements.clone()],
        ..PodSpec::default()
    };
    let bare = Node {
        taints: Vec::new(),
        ..node.clone()
    };
    pool.requirements.is_empty() || holds_alone(&Problem::default(), &Pod::new("pool", asks), bare)
}

/// Whether the checker has nothing against the pod on this node.
fn holds_alone(problem: &Problem, pod: &Pod, node: Node) -> bool {
    let only = PodRef {
        home: Home::Pending,
        group: 0,
        position: 0,
    };
    let plan = Plan {
        placements: vec![Placement {
            node: node.name.clone(),
            pods: vec![only],
        }],
        order: vec![only],
        ..Plan::default()
    };
    let problem = Problem {
        daemon_sets: problem.daemon_sets.clone(),
        namespaces: problem.namespaces.clone(),
        pods: vec![Pod {
            count: 1,
            ..pod.clone()
        }],
        nodes: vec![node],
        ..Problem::default()
    };
    check(&problem, &plan).is_empty()
}

/// A machine that is for sale and can hold the pod.
fn sold_for(problem: &Problem, pod: &Pod) -> Option<Name> {
    for pool in &problem.pools {
        let catalog = problem.catalog(&pool.catalog).unwrap();
        for kind in &catalog.types {
            for offering in kind.offerings.iter().filter(|one| one.available) {
                for invented in invented(pool) {
                    let node = machine(pool, kind, offering, &invented);
                    if allowed(pool, &node) && holds_alone(problem, pod, node) {
                        return Some(format!("{} of {}", kind.name, pool.name).into());
                    }
                }
            }
        }
    }
    None
}

/// Whether other pods may rightly keep it from running: on a machine of its own it still depends on where they are.
fn depends_on_others(problem: &Problem, spec: &PodSpec) -> bool {
    let larger = |key: &str| key != labels::HOSTNAME;
    let spreads = spec.spread.iter().any(|one| {
        larger(&one.topology_key) && one.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule
    });
    let apart = spec
        .anti_affinity
        .iter()
        .any(|one| larger(&one.topology_key));
    let bound = problem.nodes.iter().flat_map(|node| &node.pods);
    let mut others = problem.pods.iter().chain(bound);
    let shunned = others.any(|other| {
        let mut terms = other.spec.anti_affinity.iter();
        terms.any(|term| {
            let selects = term
                .selector
                .as_ref()
                .is_some_and(|one| one.matches(&spec.labels));
            larger(&term.topology_key) && selects
        })
    });
    spreads || apart || shunned || !spec.affinity.is_empty()
}

/// No pod waits that could run alone.
fn complete(problem: &Problem, seed: u64) -> Result<(), TestCaseError> {
    for steps in [0, 10] {
        let plan = pack::solve(problem, &options(steps, 1));
        for pod in plan.waiting() {
            let group = problem.pod(pod).unwrap();
            if !depends_on_others(problem, &group.spec) {
                let machine = sold_for(problem, group);
                prop_assert_eq!(
                    machine,
                    None,
                    "seed {}, steps {}: {} waits",
                    seed,
                    steps,
                    group.name
                );
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn a_pod_that_some_machine_can_hold_alone_has_a_place(seed in any::<u64>(), with_nodes in any::<bool>()) {
        complete(&generous(cluster(seed, with_nodes)), seed)?;
    }

    #[test]
    fn so_it_has_in_an_unusual_cluster(seed in any::<u64>(), with_nodes in any::<bool>()) {
        complete(&generous(twisted(seed, with_nodes)), seed)?;
    }
}
