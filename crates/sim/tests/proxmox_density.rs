//! How much of what is made is asked for: mixed pods on hosts of one's own.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::sync::Arc;

use joiner_core::name::Labels;
use joiner_core::pack::{Options, solve};
use joiner_core::problem::{Pod, PodSpec, Pool, Problem};
use joiner_core::resources::{CPU, MEMORY, PODS, Resources};
use joiner_embedded::clock::Clock;
use joiner_embedded::cluster::kubelet::NodeSpec;
use joiner_providers::http::{Endpoint, Http};
use joiner_providers::proxmox::{ApiToken, IdRange, Proxmox, ProxmoxOptions};
use joiner_providers::{Owner, Provider as _};
use joiner_sim::clouds::proxmox::{ProxmoxCloud, ProxmoxCloudOptions};
use joiner_sim::clouds::sim::Rack;

struct Nowhere;

impl Rack for Nowhere {
    fn boot(&self, _: NodeSpec) {}
    fn kill(&self, _: &str) {}
}

fn pods() -> Vec<Pod> {
    let sizes = [
        (100, 128),
        (250, 512),
        (500, 1024),
        (500, 2048),
        (1000, 1536),
        (1500, 3072),
        (2000, 4096),
        (300, 3000),
    ];
    (0..200)
        .map(|n| {
            let (cpu, mib) = sizes[n % sizes.len()];
            let requests = Resources::new()
                .with(CPU, cpu)
                .with(MEMORY, mib << 20)
                .with(PODS, 1);
            let spec = PodSpec {
                namespace: "default".into(),
                labels: Labels::from([("app".into(), format!("app-{}", n % sizes.len()).into())]),
                requests,
                ..PodSpec::default()
            };
            Pod::new(&format!("pod-{n}"), spec)
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn two_hundred_mixed_pods_on_eight_hosts_use_nine_tenths_of_what_is_made() {
    let clock = Clock::virtual_time();
    let cloud = ProxmoxCloud::new(
        ProxmoxCloudOptions::of_hosts(8),
        clock.clone(),
        Arc::new(Nowhere),
    );
    let owner = Owner {
        cluster: "cluster-1".into(),
        family: "karpenter".into(),
    };
    let token = ApiToken {
        id: "joiner@pve!sim".to_owned(),
        secret: "sim-token-secret".into(),
    };
    let api = Endpoint::parse("https://pve.example.com:8006/api2/json", &[]).unwrap();
    let ids = IdRange {
        first: 1000,
        last: 1999,
    };
    let mut options = ProxmoxOptions::new(owner, api, Arc::new(token), ids, "joiner");
    options.vm_mem_overhead_mib = 512;
    let provider = Proxmox::new(
        Http::new(cloud.router()),
        options,
        Arc::new(move || clock.now()),
    )
    .unwrap();
    let catalog = provider.catalog().await.unwrap();
    let pool = Pool {
        name: "racks".into(),
        catalog: catalog.name.clone(),
        ..Pool::default()
    };
    let problem = Problem {
        catalogs: vec![catalog],
        pools: vec![pool],
        pods: pods(),
        ..Problem::default()
    };
    let plan = solve(&problem, &Options::default());
    let placed: usize = plan.launches.iter().map(|launch| launch.pods.len()).sum();
    assert_eq!(placed, 200);
    let sum = |of: &dyn Fn(usize) -> i64| -> i64 { (0..plan.launches.len()).map(of).sum() };
    for name in [CPU, MEMORY] {
        let asked: i64 = problem
            .pods
            .iter()
            .map(|pod| pod.spec.requests.get(name))
            .sum();
        let made = sum(&|at| plan.launches[at].capacity.get(name));
        let percent = asked * 100 / made;
        println!(
            "{name}: {percent}% of what {} machines have is asked for",
            plan.launches.len()
        );
        assert!(
            percent >= 90,
            "{name}: {asked} of {made} is {percent}% on {} machines",
            plan.launches.len()
        );
    }
}
