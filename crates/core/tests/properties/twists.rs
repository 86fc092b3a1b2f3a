//! What makes a cluster unusual: each twist adds one kind of rule or fact, and a cluster has some of them at once.

use std::sync::Arc;

use joiner_core::labels;
use joiner_core::money::Money;
use joiner_core::name::{Labels, Name};
use joiner_core::problem::{
    AffinityTerm, CapacityType, DaemonSet, HostPort, MinValuesPolicy, NodePhase, Offering, Pod,
    PodSpec, Policy, PreferencePolicy, Problem, Protocol, Quota, Spread, Volume, Weighted,
    WhenUnsatisfiable,
};
use joiner_core::requirement::{Expression, Operator};
use joiner_core::resources::{CPU, NODES, NVIDIA_GPU, Resources};
use joiner_core::selector::LabelSelector;
use joiner_core::taints::{Effect, Taint, Toleration};

use crate::clusters::{APPS, GIB, SeededGenerator, ZONES, cluster, size, spread, term};

const GENERATION: &str = "example.com/generation";
const RACK: &str = "example.com/rack";
const DRIVER: &str = "disk.example.com";

/// Adds one kind of thing.
type Twist = fn(&mut SeededGenerator, &mut Problem);

/// Every twist by name.
pub(crate) const TWISTS: [(&str, Twist); 20] = [
    ("regions", regions),
    ("gpus", gpus),
    ("volumes", volumes),
    ("reservations", reservations),
    ("node taints", node_taints),
    ("starting nodes", starting_nodes),
    ("bound pods", bound_pods),
    ("ending pods", ending_pods),
    ("leaving nodes", leaving_nodes),
    ("racks", racks),
    ("generations", generations),
    ("preferences about pods", preferences_about_pods),
    ("versions", versions),
    ("namespaces", namespaces),
    ("daemon ports", daemon_ports),
    ("spot share", spot_share),
    ("few machines", few_machines),
    ("other policies", other_policies),
    ("shared stock", shared_stock),
    ("quotas", quotas),
];

/// A cluster with some of the twists.
pub(crate) fn twisted(seed: u64, with_nodes: bool) -> Problem {
    let generator = &mut SeededGenerator(seed ^ 0x7715);
    let mut problem = cluster(seed, with_nodes);
    for (_, twist) in TWISTS {
        if generator.one_in(4) {
            twist(generator, &mut problem);
        }
    }
    problem
}

/// Changes some of the pods that wait.
fn some(
    generator: &mut SeededGenerator,
    problem: &mut Problem,
    change: impl Fn(&mut SeededGenerator, &mut PodSpec),
) {
    for pod in &mut problem.pods {
        if generator.one_in(3) {
            change(generator, Arc::make_mut(&mut pod.spec));
        }
    }
}

fn offerings(problem: &mut Problem) -> impl Iterator<Item = &mut Offering> {
    let types = problem.catalogs.iter_mut().flat_map(|one| &mut one.types);
    types.flat_map(|one| &mut one.offerings)
}

/// The third zone is in a region of its own.
fn region(zone: &str) -> Name {
    if zone == ZONES[2] { "west" } else { "east" }.into()
}

fn regions(generator: &mut SeededGenerator, problem: &mut Problem) {
    for offering in offerings(problem) {
        offering.region = region(&offering.zone);
    }
    for node in &mut problem.nodes {
        let region = region(&node.labels[labels::ZONE]);
        node.labels.insert(labels::REGION.into(), region);
    }
    some(generator, problem, |generator, spec| {
        let app = spec.labels["app"].clone();
        match generator.below(3) {
            0 => spec.spread.push(Spread {
                topology_key: labels::REGION.into(),
                ..spread(generator, &app)
            }),
            1 => spec.anti_affinity.push(AffinityTerm {
                topology_key: labels::REGION.into(),
                ..term(generator, &app)
            }),
            _ => {
                let region = generator.pick(&["east", "west"]);
                spec.node_selector
                    .insert(labels::REGION.into(), region.into());
            }
        }
    });
}

fn gpus(generator: &mut SeededGenerator, problem: &mut Problem) {
    for kind in &mut problem.catalogs[0].types {
        if generator.one_in(2) {
            kind.capacity = kind
                .capacity
                .clone()
                .with(NVIDIA_GPU, generator.amount(1, 4));
        }
    }
    some(generator, problem, |generator, spec| {
        spec.requests = spec
            .requests
            .clone()
            .with(NVIDIA_GPU, generator.amount(1, 2));
    });
}

fn volumes(generator: &mut SeededGenerator, problem: &mut Problem) {
    for node in &mut problem.nodes {
        let most = u32::try_from(generator.below(3)).unwrap();
        node.volume_limits.insert(DRIVER.into(), most);
    }
    some(generator, problem, |generator, spec| {
        for number in 0..generator.amount(1, 2) {
            let zones = [generator.pick(&ZONES), generator.pick(&ZONES)];
            let topology = zones[..usize::try_from(generator.below(3)).unwrap()]
                .iter()
                .map(|zone| vec![Expression::new(labels::ZONE, Operator::In, &[*zone])]);
            spec.volumes.push(Volume {
                claim: format!("default/{}-{number}", generator.pick(&APPS)).into(),
                driver: DRIVER.into(),
                topology: topology.collect(),
            });
        }
    });
}

fn reservations(generator: &mut SeededGenerator, problem: &mut Problem) {
    let left = u32::try_from(generator.amount(1, 2)).unwrap();
    for kind in &mut problem.catalogs[0].types {
        if generator.one_in(2) {
            kind.offerings.push(Offering {
                zone: generator.pick(&ZONES).into(),
                region: "".into(),
                capacity_type: CapacityType::Reserved,
                price: Money::from_nanos(1000),
                available: true,
                left: Some(left),
                reservation: Some("paid".into()),
                stock: None,
            });
        }
    }
    let with_region = problem.catalogs[0]
        .types
        .iter()
        .any(|kind| kind.offerings.iter().any(|one| !one.region.is_empty()));
    if with_region {
        for offering in offerings(problem) {
            offering.region = region(&offering.zone);
        }
    }
}

fn taint(generator: &mut SeededGenerator) -> Taint {
    Taint {
        key: generator.pick(&["dedicated", "upgrade"]).into(),
        value: generator.pick(&["", "yes"]).into(),
        effect: match generator.below(3) {
            0 => Effect::NoSchedule,
            1 => Effect::NoExecute,
            _ => Effect::PreferNoSchedule,
        },
    }
}

fn node_taints(generator: &mut SeededGenerator, problem: &mut Problem) {
    for node in &mut problem.nodes {
        if generator.one_in(2) {
            node.taints.push(taint(generator));
        }
    }
    some(generator, problem, |_, spec| {
        spec.tolerations.push(Toleration {
            key: "upgrade".into(),
            ..Toleration::everything()
        });
    });
}

fn starting_nodes(generator: &mut SeededGenerator, problem: &mut Problem) {
    let startup = Taint::no_schedule("example.com/starting");
    for pool in &mut problem.pools {
        if generator.one_in(2) {
            pool.startup_taints.push(startup.clone());
        }
    }
    for node in &mut problem.nodes {
        node.phase = match generator.below(3) {
            0 => NodePhase::Starting,
            1 => NodePhase::InFlight,
            _ => NodePhase::Ready,
        };
        if node.phase != NodePhase::Ready {
            node.startup_taints.push(startup.clone());
        }
        // Not always gone yet.
        if generator.one_in(2) {
            node.taints.push(startup.clone());
        }
    }
}

/// Pods that run already, with the rules of the pods that wait.
fn bound_pods(generator: &mut SeededGenerator, problem: &mut Problem) {
    let specs: Vec<Arc<PodSpec>> = problem.pods.iter().map(|pod| pod.spec.clone()).collect();
    for (index, node) in problem.nodes.iter_mut().enumerate() {
        for number in 0..generator.below(3) {
            let at = usize::try_from(generator.below(specs.len() as u64)).unwrap();
            let mut spec = PodSpec::clone(&specs[at]);
            spec.requests = size(generator.amount(1, 10) * 100, GIB / 2, 1);
            // Ports and volumes of running pods do not clash.
            spec.host_ports.clear();
            spec.volumes.clear();
            node.pods
                .push(Pod::new(&format!("bound-{index}-{number}"), spec));
        }
    }
}

/// Some of the pods that run are on their way out.
fn ending_pods(generator: &mut SeededGenerator, problem: &mut Problem) {
    bound_pods(generator, problem);
    for pod in problem.nodes.iter_mut().flat_map(|node| &mut node.pods) {
        pod.ending = generator.one_in(3);
        // Those of stateful sets come again under their name.
        pod.stays_behind = pod.ending && generator.one_in(2);
    }
}

/// Some nodes are on their way out, and some of their pods do not go with them.
fn leaving_nodes(generator: &mut SeededGenerator, problem: &mut Problem) {
    bound_pods(generator, problem);
    for (index, node) in problem.nodes.iter_mut().enumerate() {
        node.deleting = generator.one_in(2);
        node.reclaimed = node.deleting && index.is_multiple_of(3);
        for pod in &mut node.pods {
            pod.do_not_disrupt = generator.one_in(4);
        }
    }
}

/// A label of nodes that pools give: spreads and affinity go by it.
fn racks(generator: &mut SeededGenerator, problem: &mut Problem) {
    for pool in &mut problem.pools {
        pool.labels
            .insert(RACK.into(), generator.pick(&["r1", "r2"]).into());
    }
    for node in &mut problem.nodes {
        if generator.one_in(2) {
            node.labels
                .insert(RACK.into(), generator.pick(&["r1", "r3"]).into());
        }
    }
    some(generator, problem, |generator, spec| {
        let app = spec.labels["app"].clone();
        match generator.below(3) {
            0 => spec.spread.push(Spread {
                topology_key: RACK.into(),
                ..spread(generator, &app)
            }),
            1 => spec.affinity.push(AffinityTerm {
                topology_key: RACK.into(),
                ..term(generator, &app)
            }),
            _ => {
                let asked = Expression::new(RACK, Operator::NotIn, &["r2"]);
                spec.required_affinity = vec![vec![asked]];
            }
        }
    });
}

/// A number that types have: pods compare with it.
fn generations(generator: &mut SeededGenerator, problem: &mut Problem) {
    for kind in &mut problem.catalogs[0].types {
        let generation = generator.amount(1, 9).to_string();
        kind.labels.insert(GENERATION.into(), generation.into());
    }
    let condition = |generator: &mut SeededGenerator| {
        let value = generator.amount(2, 8).to_string();
        match generator.below(6) {
            0 => Expression::new(GENERATION, Operator::Gt, &[&value]),
            1 => Expression::new(GENERATION, Operator::Lt, &[&value]),
            2 => Expression::new(GENERATION, Operator::Gte, &[&value]),
            3 => Expression::new(GENERATION, Operator::Lte, &[&value]),
            4 => Expression::new(GENERATION, Operator::NotIn, &[&value]),
            _ => Expression::new(GENERATION, Operator::Exists, &[]),
        }
    };
    for pool in &mut problem.pools {
        if generator.one_in(3) {
            pool.requirements.push(condition(generator));
        }
    }
    some(generator, problem, |generator, spec| {
        spec.required_affinity = vec![vec![condition(generator)]];
    });
}

fn preferences_about_pods(generator: &mut SeededGenerator, problem: &mut Problem) {
    some(generator, problem, |generator, spec| {
        let other = generator.pick(&APPS);
        let preference = Weighted {
            weight: i32::try_from(generator.amount(1, 100)).unwrap(),
            term: term(generator, other),
        };
        if generator.one_in(2) {
            spec.preferred_pod_affinity.push(preference);
        } else {
            spec.preferred_pod_anti_affinity.push(preference);
        }
    });
}

/// Pods of several versions, of which spreads count their own.
fn versions(generator: &mut SeededGenerator, problem: &mut Problem) {
    some(generator, problem, |generator, spec| {
        let version = generator.pick(&["v1", "v2"]);
        spec.labels.insert("version".into(), version.into());
        for spread in &mut spec.spread {
            spread.match_label_keys = vec!["version".into()];
        }
    });
}

fn namespaces(generator: &mut SeededGenerator, problem: &mut Problem) {
    for (name, tier) in [("default", "front"), ("other", "back")] {
        let labels = Labels::from([("tier".into(), tier.into())]);
        problem.namespaces.insert(name.into(), labels);
    }
    some(generator, problem, |generator, spec| {
        spec.namespace = "other".into();
        let way = generator.below(3);
        let terms = spec.affinity.iter_mut().chain(&mut spec.anti_affinity);
        for term in terms {
            match way {
                0 => term.namespaces = vec!["default".into()],
                1 => term.namespace_selector = Some(LabelSelector::label("tier", "front")),
                _ => {}
            }
        }
    });
}

fn daemon_ports(generator: &mut SeededGenerator, problem: &mut Problem) {
    let port = |port| HostPort {
        port,
        protocol: Protocol::Tcp,
        ip: "".into(),
    };
    problem.daemon_sets.push(DaemonSet {
        name: "exporter".into(),
        spec: Arc::new(PodSpec {
            requests: size(50, GIB / 8, 1),
            host_ports: vec![port(9100)],
            node_selector: Labels::from([(labels::ARCH.into(), "amd64".into())]),
            tolerations: vec![Toleration::everything()],
            ..PodSpec::default()
        }),
    });
    some(generator, problem, |generator, spec| {
        spec.host_ports.push(port(
            [9100, 9101][usize::try_from(generator.below(2)).unwrap()],
        ));
    });
}

fn spot_share(generator: &mut SeededGenerator, problem: &mut Problem) {
    problem.settings.spot_share = Some(u32::try_from(generator.amount(1, 10) * 10).unwrap());
}

fn few_machines(generator: &mut SeededGenerator, problem: &mut Problem) {
    problem.settings.max_new_nodes = Some(u32::try_from(generator.below(5)).unwrap());
}

fn other_policies(generator: &mut SeededGenerator, problem: &mut Problem) {
    let settings = &mut problem.settings;
    match generator.below(4) {
        0 => settings.preferences = PreferencePolicy::Ignore,
        1 => settings.min_values = MinValuesPolicy::BestEffort,
        2 => settings.preference_cap = Some(u32::try_from(generator.below(30)).unwrap()),
        _ => settings.node_surcharge = Money::from_nanos(10_000_000),
    }
    some(generator, problem, |_, spec| {
        for spread in &mut spec.spread {
            spread.node_affinity_policy = Policy::Ignore;
            spread.when_unsatisfiable = WhenUnsatisfiable::DoNotSchedule;
        }
    });
}

/// The second pool buys from a copy of the catalogue with other prices, on the same stock.
fn shared_stock(generator: &mut SeededGenerator, problem: &mut Problem) {
    for offering in offerings(problem) {
        if generator.one_in(3) {
            offering.left = Some(u32::try_from(generator.below(3)).unwrap());
        }
    }
    problem.catalogs[0].share_stock("cloud");
    let mut copy = problem.catalogs[0].clone();
    copy.name = "copy".into();
    for offering in copy.types.iter_mut().flat_map(|one| &mut one.offerings) {
        offering.price =
            offering.price + offering.price.percent(u32::from(generator.one_in(2)) * 20);
    }
    problem.catalogs.push(copy);
    problem.pools[1].catalog = "copy".into();
}

/// Some types count against limits on cores and on machines.
fn quotas(generator: &mut SeededGenerator, problem: &mut Problem) {
    let cores = Resources::new().with(CPU, generator.amount(0, 20) * 1000);
    let machines = Resources::new().with(NODES, generator.amount(0, 4));
    let quotas = [("cores", cores), ("machines", machines)].map(|(name, left)| Quota {
        name: name.into(),
        left,
    });
    for catalog in &mut problem.catalogs {
        catalog.quotas = quotas.to_vec();
        for kind in &mut catalog.types {
            let all = quotas.iter().map(|quota| quota.name.clone());
            kind.quotas = all.filter(|_| generator.one_in(2)).collect();
        }
    }
}
