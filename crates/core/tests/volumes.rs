//! Volumes, from claims to a plan that the checker passes.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests may give up, and stand beside what they help"
)]

mod common;

use joiner_core::labels;
use joiner_core::name::{Labels, Name};
use joiner_core::plan::Plan;
use joiner_core::problem::{Node, Pod, PodSpec, Problem, Volume};
use joiner_core::requirement::{Expression, Operator};
use joiner_core::resources::{CPU, MEMORY, PODS, Resources};
use serde_json::json;

use common::solved;

const GIB: i64 = 1 << 30;
const DISK: &str = "disk.csi.example.com";
const SHARE: &str = "share.csi.example.com";

/// One type in zones a, b and c; a is the cheapest.
fn problem(pods: Vec<Pod>) -> Problem {
    let offerings = [("a", 0.1), ("b", 0.2), ("c", 0.3)]
        .map(|(zone, price)| json!({"zone": zone, "capacityType": "on-demand", "price": price}));
    let file = json!({
        "instanceTypes": [{
            "name": "c4", "arch": "amd64", "cpuMilli": 4000, "memoryMiB": 16384, "pods": 20,
            "zones": ["a", "b", "c"], "offerings": offerings,
        }],
        "nodePools": [{"name": "main"}],
        "pods": [],
    });
    let mut problem = Problem::from_json(&file.to_string()).unwrap();
    problem.pods = pods;
    problem
}

fn volume(claim: &str, driver: &str) -> Volume {
    Volume {
        claim: format!("default/{claim}").into(),
        driver: driver.into(),
        topology: Vec::new(),
    }
}

fn within(claim: &str, zones: &[&str]) -> Volume {
    Volume {
        topology: vec![vec![Expression::new(labels::ZONE, Operator::In, zones)]],
        ..volume(claim, DISK)
    }
}

fn pod(name: &str, cpu: i64, volumes: Vec<Volume>) -> Pod {
    let requests = Resources::new().with(CPU, cpu).with(PODS, 1);
    Pod::new(
        name,
        PodSpec {
            namespace: "default".into(),
            requests,
            volumes,
            ..PodSpec::default()
        },
    )
}

/// A large node that attaches so many volumes of each driver.
fn node(name: &str, zone: &str, limits: &[(&str, u32)], pods: Vec<Pod>) -> Node {
    let size = Resources::new()
        .with(CPU, 64_000)
        .with(MEMORY, 256 * GIB)
        .with(PODS, 100);
    Node {
        name: name.into(),
        labels: Labels::from([
            (labels::ZONE.into(), zone.into()),
            (labels::HOSTNAME.into(), name.into()),
        ]),
        capacity: size.clone(),
        allocatable: size,
        pods,
        volume_limits: limits
            .iter()
            .map(|(driver, most)| (Name::from(*driver), *most))
            .collect(),
        ..Node::default()
    }
}

fn placed(plan: &Plan) -> usize {
    plan.placements.iter().map(|one| one.pods.len()).sum()
}

fn zones(plan: &Plan) -> Vec<&str> {
    let launches = plan.launches.iter();
    let mut all: Vec<&str> = launches.map(|launch| &*launch.purchase.zone).collect();
    all.sort_unstable();
    all
}

#[test]
fn a_node_takes_as_many_volumes_of_a_driver_as_it_attaches() {
    let pods = (0..5).map(|index| {
        let name = format!("db-{index}");
        pod(&name, 100, vec![volume(&name, DISK)])
    });
    let mut problem = problem(pods.collect());
    let old = pod("old", 100, vec![volume("old", DISK)]);
    problem.nodes = vec![node("n", "a", &[(DISK, 3)], vec![old])];
    let plan = solved(&problem);
    assert_eq!(placed(&plan), 2);
    assert_eq!(plan.launches.len(), 1);
    assert!(plan.unplaced.is_empty());
}

#[test]
fn a_claim_that_pods_share_is_attached_once_and_drivers_count_apart() {
    let shared = (0..3).map(|index| {
        pod(
            &format!("reader-{index}"),
            100,
            vec![volume("shared", DISK)],
        )
    });
    let others = (0..2).map(|index| {
        let name = format!("file-{index}");
        pod(&name, 100, vec![volume(&name, SHARE)])
    });
    let mut problem = problem(shared.chain(others).collect());
    problem.nodes = vec![node("n", "a", &[(DISK, 1), (SHARE, 1)], Vec::new())];
    let plan = solved(&problem);
    assert_eq!(placed(&plan), 4);
    assert_eq!(plan.launches.len(), 1);
    assert_eq!(plan.launches[0].pods.len(), 1);
}

#[test]
fn a_pod_with_more_volumes_than_a_node_attaches_gets_a_machine() {
    let volumes = ["x", "y", "z"].map(|claim| volume(claim, DISK)).to_vec();
    let mut problem = problem(vec![pod("db", 100, volumes)]);
    problem.nodes = vec![node("n", "a", &[(DISK, 2)], Vec::new())];
    let plan = solved(&problem);
    assert_eq!((placed(&plan), plan.launches.len()), (0, 1));
}

#[test]
fn machines_are_bought_where_volumes_are() {
    let mut problem = problem(vec![
        pod("b", 3000, vec![within("b", &["b"])]),
        pod("c", 3000, vec![within("c", &["c"])]),
        pod("any", 3000, vec![volume("any", DISK)]),
    ]);
    assert_eq!(zones(&solved(&problem)), ["a", "b", "c"]);
    problem.nodes = vec![
        node("n", "a", &[], Vec::new()),
        node("m", "b", &[], Vec::new()),
    ];
    let plan = solved(&problem);
    assert_eq!((placed(&plan), zones(&plan)), (2, vec!["c"]));
}

#[test]
fn a_pod_goes_where_all_its_volumes_can_be() {
    let both = vec![within("x", &["a", "b"]), within("y", &["b", "c"])];
    assert_eq!(zones(&solved(&problem(vec![pod("db", 100, both)]))), ["b"]);
    let apart = vec![within("x", &["a"]), within("y", &["c"])];
    let plan = solved(&problem(vec![pod("db", 100, apart)]));
    assert_eq!((plan.launches.len(), plan.unplaced.len()), (0, 1));
}

#[test]
fn each_term_of_a_volume_will_do() {
    let either = Volume {
        topology: ["b", "c"]
            .map(|zone| vec![Expression::new(labels::ZONE, Operator::In, &[zone])])
            .to_vec(),
        ..volume("x", DISK)
    };
    let picky = within("y", &["c"]);
    assert_eq!(
        zones(&solved(&problem(vec![pod(
            "db",
            100,
            vec![either.clone()]
        )]))),
        ["b"]
    );
    assert_eq!(
        zones(&solved(&problem(vec![pod("db", 100, vec![either, picky])]))),
        ["c"]
    );
}
