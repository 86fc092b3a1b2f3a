use std::sync::Arc;

use super::world::{
    amounts, broken, labels_of, launch, node, pend, plan, problem, put, spec, valid,
};
use crate::labels;
use crate::plan::Rule;
use crate::problem::{DaemonSet, HostPort, NodePhase, Pod, PodSpec, Protocol, Volume};
use crate::requirement::{Expression, Operator};
use crate::resources::{NVIDIA_GPU, Resources};
use crate::taints::{Effect, Taint, Toleration};

#[test]
fn requests_and_daemons_fit_what_overhead_leaves() {
    let mut problem = problem();
    let pods = pend(&mut problem, "web", 2, spec(950));
    valid(&problem, &plan(vec![launch(&problem, "small", "a", &pods)]));
    problem.daemon_sets.push(DaemonSet {
        name: "proxy".into(),
        spec: Arc::new(PodSpec {
            requests: amounts(1, 0, 1),
            ..PodSpec::default()
        }),
    });
    let over = plan(vec![launch(&problem, "small", "a", &pods)]);
    broken(
        &problem,
        &over,
        Rule::Capacity,
        "has 1900 of cpu, its pods request 1901",
    );
}

#[test]
fn slots_and_devices_count_too() {
    let mut problem = problem();
    let many = pend(&mut problem, "many", 11, spec(1));
    let over = plan(vec![launch(&problem, "small", "a", &many)]);
    broken(
        &problem,
        &over,
        Rule::Capacity,
        "has 10 of pods, its pods request 11",
    );
    let mut problem = super::world::problem();
    let mut wants = spec(1);
    wants.requests.set(NVIDIA_GPU, 1);
    let gpu = pend(&mut problem, "gpu", 1, wants);
    let over = plan(vec![launch(&problem, "small", "a", &gpu)]);
    broken(&problem, &over, Rule::Capacity, "has 0 of nvidia.com/gpu");
}

#[test]
fn bound_pods_and_expected_daemons_take_room_on_a_node() {
    let mut problem = problem();
    problem.daemon_sets.push(DaemonSet {
        name: "proxy".into(),
        spec: Arc::new(PodSpec {
            requests: amounts(100, 0, 1),
            ..PodSpec::default()
        }),
    });
    node(&mut problem, "n", "a", vec![Pod::new("old", spec(1000))]);
    let pods = pend(&mut problem, "web", 1, spec(800));
    valid(&problem, &put("n", &pods));
    // The daemon that is there already is not expected a second time, but counts as large as it is.
    let mut daemon = Pod::new(
        "proxy",
        PodSpec {
            requests: amounts(101, 0, 1),
            ..PodSpec::default()
        },
    );
    daemon.daemon = true;
    problem.nodes[0].pods.push(daemon);
    broken(
        &problem,
        &put("n", &pods),
        Rule::Capacity,
        "its pods request 1901",
    );
}

#[test]
fn a_launch_says_what_its_pods_request() {
    let mut problem = problem();
    let pods = pend(&mut problem, "web", 1, spec(500));
    let mut lies = plan(vec![launch(&problem, "small", "a", &pods)]);
    lies.launches[0].requests = Resources::new();
    broken(&problem, &lies, Rule::Capacity, "they request cpu 500");
}

#[test]
fn node_selectors_and_one_affinity_term_hold() {
    let mut problem = problem();
    let mut picky = spec(500);
    picky.node_selector = labels_of(&[(labels::ARCH, "amd64")]);
    picky.required_affinity = vec![
        vec![Expression::new(labels::ZONE, Operator::In, &["b"])],
        vec![Expression::new(
            labels::INSTANCE_TYPE,
            Operator::In,
            &["large"],
        )],
    ];
    let pods = pend(&mut problem, "web", 1, picky);
    valid(&problem, &plan(vec![launch(&problem, "small", "b", &pods)]));
    valid(&problem, &plan(vec![launch(&problem, "large", "a", &pods)]));
    let bad = plan(vec![launch(&problem, "small", "a", &pods)]);
    broken(
        &problem,
        &bad,
        Rule::Labels,
        "pod web does not select the labels of launch 0 (small a on-demand)",
    );
}

#[test]
fn what_must_exist_is_there_and_empty_terms_match_nothing() {
    let mut problem = problem();
    node(&mut problem, "n", "a", Vec::new());
    let gpu = |operator, values: &[&str]| Expression::new("gpu", operator, values);
    let present = vec![gpu(Operator::Exists, &[]), gpu(Operator::NotIn, &["t4"])];
    for term in [
        present.clone(),
        vec![gpu(Operator::In, &["a"]), gpu(Operator::In, &["b"])],
        Vec::new(),
    ] {
        problem.pods.clear();
        let wants = PodSpec {
            required_affinity: vec![term],
            ..spec(100)
        };
        let pods = pend(&mut problem, "web", 1, wants);
        broken(&problem, &put("n", &pods), Rule::Labels, "does not select");
    }
    problem.nodes[0]
        .labels
        .extend(labels_of(&[("gpu", "a100")]));
    problem.pods.clear();
    let wants = PodSpec {
        required_affinity: vec![Vec::new(), present],
        ..spec(100)
    };
    let pods = pend(&mut problem, "web", 1, wants);
    valid(&problem, &put("n", &pods));
}

#[test]
fn a_pod_may_ask_for_the_host_by_name() {
    let mut problem = problem();
    node(&mut problem, "n", "a", Vec::new());
    node(&mut problem, "m", "a", Vec::new());
    let mut picky = spec(500);
    picky.node_selector = labels_of(&[(labels::HOSTNAME, "n")]);
    let pods = pend(&mut problem, "web", 1, picky);
    valid(&problem, &put("n", &pods));
    broken(&problem, &put("m", &pods), Rule::Labels, "labels of node m");
}

#[test]
fn taints_are_tolerated_but_preferences_need_not_be() {
    let mut problem = problem();
    let taint = |effect| Taint {
        key: "team".into(),
        value: "x".into(),
        effect,
    };
    problem.pools[0].taints = vec![taint(Effect::PreferNoSchedule)];
    let pods = pend(&mut problem, "web", 1, spec(500));
    valid(&problem, &plan(vec![launch(&problem, "small", "a", &pods)]));
    problem.pools[0].taints = vec![taint(Effect::NoSchedule)];
    let bad = plan(vec![launch(&problem, "small", "a", &pods)]);
    broken(
        &problem,
        &bad,
        Rule::Taints,
        "pod web does not tolerate team=x:NoSchedule",
    );
    let tolerant = PodSpec {
        tolerations: vec![Toleration::everything()],
        ..spec(500)
    };
    problem.pods[0].spec = Arc::new(tolerant);
    valid(&problem, &plan(vec![launch(&problem, "small", "a", &pods)]));
}

#[test]
fn taints_that_pass_do_not_count_before_a_node_is_ready() {
    let mut problem = problem();
    node(&mut problem, "n", "a", Vec::new());
    let taint = |key: &str| Taint {
        key: key.into(),
        value: "".into(),
        effect: Effect::NoSchedule,
    };
    problem.nodes[0].taints = vec![taint("node.kubernetes.io/not-ready"), taint("cni")];
    problem.nodes[0].startup_taints = vec![taint("cni")];
    let pods = pend(&mut problem, "web", 1, spec(500));
    broken(&problem, &put("n", &pods), Rule::Taints, "not-ready");
    problem.nodes[0].phase = NodePhase::Starting;
    valid(&problem, &put("n", &pods));
}

#[test]
fn host_ports_do_not_collide() {
    let mut problem = problem();
    let port = HostPort {
        port: 80,
        protocol: Protocol::Tcp,
        ip: "".into(),
    };
    let wants = PodSpec {
        host_ports: vec![port.clone()],
        ..spec(100)
    };
    let pods = pend(&mut problem, "web", 2, wants.clone());
    let apart = plan(vec![
        launch(&problem, "small", "a", &pods[..1]),
        launch(&problem, "small", "a", &pods[1..]),
    ]);
    valid(&problem, &apart);
    let together = plan(vec![launch(&problem, "small", "a", &pods)]);
    broken(
        &problem,
        &together,
        Rule::Ports,
        "pods web-1 and web-0 both want port 80",
    );
    problem.daemon_sets.push(DaemonSet {
        name: "edge".into(),
        spec: Arc::new(PodSpec {
            host_ports: vec![port],
            ..PodSpec::default()
        }),
    });
    broken(
        &problem,
        &apart,
        Rule::Ports,
        "pods web-0 and a daemon both want port 80",
    );
}

#[test]
fn volumes_are_reached_from_their_zone_only() {
    let mut problem = problem();
    let disk = Volume {
        claim: "default/disk".into(),
        driver: "csi".into(),
        topology: vec![vec![Expression::new(labels::ZONE, Operator::In, &["b"])]],
    };
    let pods = pend(
        &mut problem,
        "db",
        1,
        PodSpec {
            volumes: vec![disk],
            ..spec(500)
        },
    );
    valid(&problem, &plan(vec![launch(&problem, "small", "b", &pods)]));
    let bad = plan(vec![launch(&problem, "small", "a", &pods)]);
    broken(
        &problem,
        &bad,
        Rule::Volumes,
        "volume default/disk of pod db cannot be reached",
    );
}

#[test]
fn a_node_attaches_only_so_many_volumes_and_shared_ones_once() {
    let mut problem = problem();
    let disk = |claim: &str| Volume {
        claim: claim.into(),
        driver: "csi".into(),
        topology: Vec::new(),
    };
    let with = |claim: &str| PodSpec {
        volumes: vec![disk(claim)],
        ..spec(100)
    };
    node(&mut problem, "n", "a", vec![Pod::new("old", with("one"))]);
    problem.nodes[0].volume_limits.insert("csi".into(), 1);
    let shared = pend(&mut problem, "shared", 1, with("one"));
    valid(&problem, &put("n", &shared));
    problem.pods.clear();
    let another = pend(&mut problem, "other", 1, with("two"));
    broken(
        &problem,
        &put("n", &another),
        Rule::Volumes,
        "attaches at most 1 volumes of csi, its pods have 2",
    );
}
