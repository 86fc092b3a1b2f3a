//! The ledger of decisions on 5,000 nodes and 50,000 pods: how much memory it takes with the problems that can be
//! replayed, and how much longer a look at the cluster takes because it is written down and read.
#![allow(clippy::unwrap_used, reason = "only tests use this")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use joiner_controllers::Decide as _;
use joiner_controllers::decisions::{Bounds, Decisions, Kind, Provisioned, Subject};
use joiner_controllers::edge::events::Severity;
use joiner_controllers::engine::Core;
use joiner_controllers::record::Key;
use joiner_controllers::view::pods::PodKey;
use joiner_core::labels;
use joiner_core::money::Money;
use joiner_core::name::{Labels, Name};
use joiner_core::plan::{
    Code, Home, Kept, Launch, Plan, PodRef, Purchase, Reason, Shortfall, Unplaced,
};
use joiner_core::problem::{CapacityType, Node, Pod, PodSpec, Pool, Problem};
use joiner_core::resources::{CPU, MEMORY, PODS, Resources};
use joiner_sim::clouds::sim::built_in;

const NODES: usize = 5_000;
const PODS_ON_EACH: usize = 10;
/// Pods that wait at a time.
const WAITING: usize = 500;
const MIB: usize = 1 << 20;

/// What the ledger may take with everything that it holds, problems and plans included.
const MOST: usize = 64 * MIB;
/// How much longer a look may take because it is written down and read.
const SLOWER: f64 = 1.05;

fn at(second: usize) -> Timestamp {
    let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    start + SignedDuration::from_secs(i64::try_from(second).unwrap())
}

fn spec(kind: usize, cores: i64) -> Arc<PodSpec> {
    Arc::new(PodSpec {
        namespace: "default".into(),
        labels: [("app".into(), format!("app-{kind}").into())].into(),
        requests: Resources::new()
            .with(CPU, cores * 1000)
            .with(MEMORY, 2 << 30)
            .with(PODS, 1),
        ..PodSpec::default()
    })
}

/// As a cluster is seen: full nodes of one pool, a hundred kinds of pods, and pods that fit on no machine.
fn cluster() -> Problem {
    let catalog = built_in();
    let kind = catalog.types.iter().find(|one| &*one.name == "m-16x-amd64");
    let kind = kind.unwrap();
    let specs: Vec<_> = (0..100).map(|number| spec(number, 1)).collect();
    let nodes = (0..NODES).map(|number| {
        let name: Name =
            format!("ip-10-0-{}-{}.example.internal", number / 250, number % 250).into();
        let mut own: Labels = kind.labels.clone();
        for (key, value) in [
            ("kubernetes.io/hostname", &*name),
            (labels::ZONE, "sim-a"),
            (labels::NODEPOOL, "default"),
            (labels::CAPACITY_TYPE, "on-demand"),
            ("beta.kubernetes.io/arch", "amd64"),
            ("beta.kubernetes.io/os", "linux"),
            (labels::REGISTERED, "true"),
            (labels::INITIALIZED, "true"),
        ] {
            own.insert(key.into(), value.into());
        }
        let pods = (0..PODS_ON_EACH).map(|pod| Pod {
            name: format!("default/app-{number}-{pod}").into(),
            count: 1,
            spec: specs[(number + pod) % specs.len()].clone(),
            ..Pod::default()
        });
        Node {
            name,
            pool: Some("default".into()),
            labels: own,
            capacity: kind.capacity.clone(),
            allocatable: kind.allocatable(),
            pods: pods.collect(),
            instance_type: kind.name.clone(),
            capacity_type: CapacityType::OnDemand,
            price: Some(kind.offerings[1].price),
            created: Some(at(0)),
            last_pod_event: Some(at(0)),
            ..Node::default()
        }
    });
    let nodes = nodes.collect();
    let large = spec(1000, 500);
    let waiting = (0..WAITING).map(|number| Pod {
        name: format!("default/large-{number}").into(),
        count: 1,
        spec: large.clone(),
        ..Pod::default()
    });
    let pool = Pool {
        name: "default".into(),
        catalog: catalog.name.clone(),
        ..Pool::default()
    };
    Problem {
        now: Some(at(3600)),
        pods: waiting.collect(),
        pools: vec![pool],
        nodes,
        catalogs: vec![catalog],
        ..Problem::default()
    }
}

fn keys(round: usize) -> Vec<Option<PodKey>> {
    let key = |number: usize| PodKey {
        namespace: "default".into(),
        name: format!("large-{}-6d4cf56db6-x7k2p", round * WAITING + number).into(),
    };
    (0..WAITING).map(|number| Some(key(number))).collect()
}

/// A sentence as long as they are, that is said once.
fn sentence(of: &str, number: usize, round: usize) -> String {
    format!(
        "{of} {number}: nothing cheaper holds its pods, the cheapest replacement costs ${round}.{number} an hour"
    )
}

/// Each pod that waits has a reason of its own, pool by pool.
fn refused(round: usize) -> Plan {
    let pools = ["spot-general", "on-demand-general", "gpu"];
    let unplaced = (0..WAITING).map(|number| {
        let shortfall = |pool: &str| Shortfall {
            pool: pool.into(),
            types: 400,
            allowed: 12,
            code: Code::TooLarge,
            ended_by: sentence("pod", number, round),
            ..Shortfall::default()
        };
        Unplaced {
            pods: vec![PodRef {
                home: Home::Pending,
                group: u32::try_from(number).unwrap(),
                position: 0,
            }],
            reason: Reason::NoMachine {
                pools: pools.iter().copied().map(shortfall).collect(),
            },
        }
    });
    Plan {
        unplaced: unplaced.collect(),
        ..Plan::default()
    }
}

/// Each node stays for a reason of its own.
fn kept(problem: &Problem, round: usize) -> Plan {
    let nodes = problem.nodes.iter().enumerate();
    let kept = nodes.map(|(number, node)| Kept {
        node: node.name.clone(),
        reason: Reason::Kept {
            because: sentence("node", number, round),
        },
        code: Code::NotCheaper,
        until: Some(at(round)),
        eligible: None,
    });
    Plan {
        kept: kept.collect(),
        ..Plan::default()
    }
}

fn launch() -> Launch {
    let purchase = Purchase {
        catalog: "sim".into(),
        instance_type: "m-16x-amd64".into(),
        zone: "sim-a".into(),
        capacity_type: CapacityType::Spot,
        reservation: None,
        host: None,
        price: Money::from_dollars(0.5),
    };
    Launch {
        pool: "default".into(),
        purchase,
        alternatives: Arc::default(),
        capacity: Resources::new(),
        requests: Resources::new(),
        labels: BTreeMap::new(),
        pods: Vec::new(),
        reason: Reason::Cheapest {
            considered: 40,
            runner_up: Some(("m-32x-amd64".into(), Money::from_dollars(0.9))),
        },
    }
}

/// Machines of these nodes, by the name of the node.
fn machines(problem: &Problem) -> Arc<BTreeMap<Name, Key>> {
    let nodes = problem.nodes.iter().enumerate();
    let key = |number: usize| Key {
        dialect: "karpenter",
        namespace: "".into(),
        name: format!("default-{number}").into(),
    };
    let all = nodes.map(|(number, node)| (node.name.clone(), key(number)));
    Arc::new(all.collect())
}

fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// Everything is said that can be: of every node and every pod four verdicts that no other has, of every machine why it was
/// bought and then more events than are kept.
#[test]
fn the_ledger_of_five_thousand_nodes_stays_under_sixty_four_mebibytes() {
    let before = resident();
    let ledger = Decisions::default();
    // Each loop makes a problem of its own, and the ledger has the last of each.
    let (provision, disrupt) = (Arc::new(cluster()), Arc::new(cluster()));
    let problems = resident() - before;
    let machines = machines(&disrupt);
    for key in machines.values() {
        ledger.launched(at(1), &launch(), &key.name, None);
    }
    let rounds = NODES * PODS_ON_EACH / WAITING;
    for again in 0..4 {
        for round in 0..rounds {
            let second = 10 + again * rounds + round;
            let one = Provisioned {
                problem: &provision,
                plan: &Arc::new(refused(second)),
                pending: &keys(round),
                made: &BTreeMap::new(),
                ignored: &[],
            };
            ledger.provisioned(at(second), &one);
        }
        let second = 10 + (again + 1) * rounds;
        let plan = Arc::new(kept(&disrupt, second));
        ledger.disrupted(at(second), &disrupt, &plan, &machines);
        for (number, key) in machines.values().enumerate() {
            let about = Subject::new(Kind::Machine, key.name.clone());
            let said = sentence("machine", number, again);
            ledger.told(about, Severity::Warning, "LaunchFailed", &said, at(second));
        }
    }
    let held = resident() - before;
    let counted = ledger.bytes();
    println!(
        "ledger: {} MiB resident, {} MiB of them problems; {} KiB of verdicts and activity about {} subjects",
        held / MIB,
        problems / MIB,
        counted / 1024,
        ledger.len()
    );
    let bounds = Bounds::default();
    assert!(counted <= bounds.bytes + bounds.activity_bytes, "{counted}");
    assert!(held < MOST, "{} MiB", held / MIB);
    // What was counted is there, and there is not much more.
    let rest = held - problems;
    assert!(counted > rest / 2, "{counted} counted of {rest}");
    for key in machines.values() {
        let why = ledger.purchase(&key.name);
        assert!(why.is_some(), "why {} was bought is forgotten", key.name);
    }
    let last = disrupt.nodes[NODES - 1].name.clone();
    let said = ledger.verdicts(&Subject::new(Kind::Node, last));
    assert!(!said.is_empty(), "what was said last is there");
}

/// What a viewer asks for twice a second.
fn read(ledger: &Decisions, problem: &Problem) {
    let names = problem.nodes.iter();
    let names: Vec<Subject> = names
        .map(|node| Subject::new(Kind::Node, node.name.clone()))
        .collect();
    assert_eq!(ledger.latest(names.iter()).len(), NODES);
    ledger.activity(0, 200);
    for number in 0..120 {
        ledger.purchase(&format!("default-{number}"));
    }
}

#[test]
#[ignore = "wants a machine that does nothing else: cargo test -p joiner-controllers --test decisions_at_scale -- --ignored"]
fn writing_decisions_down_and_reading_them_takes_less_than_a_twentieth_of_deciding() {
    let core = Core::default();
    let problem = Arc::new(cluster());
    let machines = machines(&problem);
    let pending = keys(0);
    let ledger = Decisions::default();
    let (mut alone, mut noted, mut writing) = (Vec::new(), Vec::new(), Vec::new());
    let decide = || {
        (
            Arc::new(core.provision(&problem)),
            Arc::new(core.disrupt(&problem)),
        )
    };
    decide();
    for round in 0..7 {
        let begun = Instant::now();
        decide();
        alone.push(begun.elapsed());
        let viewed = AtomicBool::new(true);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while viewed.load(Ordering::Relaxed) {
                    read(&ledger, &problem);
                    std::thread::sleep(Duration::from_millis(500));
                }
            });
            let begun = Instant::now();
            let (provision, disrupt) = decide();
            let decided = begun.elapsed();
            let one = Provisioned {
                problem: &problem,
                plan: &provision,
                pending: &pending,
                made: &BTreeMap::new(),
                ignored: &[],
            };
            ledger.provisioned(at(round), &one);
            ledger.disrupted(at(round), &problem, &disrupt, &machines);
            noted.push(begun.elapsed());
            writing.push(begun.elapsed().saturating_sub(decided));
            viewed.store(false, Ordering::Relaxed);
        });
    }
    let middle = |times: &mut Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2].as_secs_f64() * 1e3
    };
    let (alone, noted, writing) = (middle(&mut alone), middle(&mut noted), middle(&mut writing));
    println!(
        "deciding {alone:.0} ms, written down and read {noted:.0} ms; writing alone {writing:.1} ms, {:.1}%",
        writing / alone * 100.0
    );
    assert!(noted < alone * SLOWER, "{noted} beside {alone} ms");
}
