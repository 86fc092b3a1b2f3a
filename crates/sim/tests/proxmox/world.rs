//! One class on a simulated Proxmox cluster, in virtual time.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::money::Money;
use joiner_core::name::Labels;
use joiner_core::plan::Purchase;
use joiner_core::problem::CapacityType;
use joiner_core::resources::{CPU, MEMORY, Resources};
use joiner_embedded::clock::Clock;
use joiner_embedded::cluster::kubelet::NodeSpec;
use joiner_providers::http::{Endpoint, Http};
use joiner_providers::proxmox::{ApiToken, Clusters, IdRange, Interface, Proxmox, ProxmoxOptions};
use joiner_providers::{
    LaunchRequest, Machine, MachineId, MachineState, Owner, Provider, ProviderError, Uid,
};
use joiner_sim::clouds::proxmox::{ProxmoxCloud, ProxmoxCloudOptions};
use joiner_sim::clouds::sim::Rack;

#[derive(Default)]
pub(crate) struct Booted(pub(crate) Mutex<Vec<NodeSpec>>);

impl Rack for Booted {
    fn boot(&self, spec: NodeSpec) {
        self.0.lock().unwrap().push(spec);
    }
    fn kill(&self, _: &str) {}
}

pub(crate) struct World {
    pub(crate) cloud: ProxmoxCloud,
    pub(crate) provider: Proxmox,
    pub(crate) nodes: Arc<Booted>,
    pub(crate) clock: Clock,
    /// What all classes of the process have promised.
    pub(crate) clusters: Arc<Clusters>,
}

pub(crate) fn class(ids: IdRange) -> ProxmoxOptions {
    let owner = Owner {
        cluster: "cluster-1".into(),
        family: "karpenter".into(),
    };
    let token = ApiToken {
        id: "joiner@pve!sim".to_owned(),
        secret: "sim-token-secret".into(),
    };
    let api = Endpoint::parse("https://pve.example.com:8006/api2/json", &[]).unwrap();
    let mut options = ProxmoxOptions::new(owner, api, Arc::new(token), ids, "joiner");
    options.interfaces.push(Interface {
        name: "net0".to_owned(),
        model: "virtio".to_owned(),
        bridge: "vmbr0".to_owned(),
        vlan: None,
        mac_prefix: Some("02:00:00".to_owned()),
    });
    options
}

pub(crate) const IDS: IdRange = IdRange {
    first: 1250,
    last: 1300,
};

impl World {
    pub(crate) fn open(change: impl FnOnce(&mut ProxmoxOptions, &mut ProxmoxCloudOptions)) -> Self {
        let clock = Clock::virtual_time();
        let (mut options, mut there) = (class(IDS), ProxmoxCloudOptions::of_hosts(3));
        change(&mut options, &mut there);
        let nodes = Arc::new(Booted::default());
        let cloud = ProxmoxCloud::new(there, clock.clone(), Arc::clone(&nodes) as Arc<dyn Rack>);
        let runner = cloud.clone();
        tokio::spawn(async move { runner.run().await });
        let clusters = Arc::default();
        let provider = World::provider(&cloud, options, &clock).beside(&clusters);
        World {
            cloud,
            provider,
            nodes,
            clock,
            clusters,
        }
    }

    /// Another class of the same process.
    pub(crate) fn class(&self, options: ProxmoxOptions) -> Proxmox {
        World::provider(&self.cloud, options, &self.clock).beside(&self.clusters)
    }

    fn provider(cloud: &ProxmoxCloud, options: ProxmoxOptions, clock: &Clock) -> Proxmox {
        let clock = clock.clone();
        let now: Arc<dyn Fn() -> Timestamp + Send + Sync> = Arc::new(move || clock.now());
        Proxmox::new(Http::new(cloud.router()), options, now).unwrap()
    }

    /// The same class after a crash: everything that was remembered is lost.
    pub(crate) fn restart(&mut self, options: ProxmoxOptions) {
        self.clusters = Arc::default();
        self.provider = self.class(options);
    }

    pub(crate) async fn until_running(&self, id: &MachineId) -> Machine {
        for _ in 0..120 {
            let machine = self.provider.get(id).await.unwrap();
            if machine.state == MachineState::Running {
                return machine;
            }
            seconds(2).await;
        }
        panic!("{id} does not run: {:?}", self.provider.get(id).await);
    }

    pub(crate) async fn until_gone(&self, id: &MachineId) {
        for _ in 0..120 {
            if let Err(ProviderError::NotFound(_)) = self.provider.terminate(id).await {
                return;
            }
            seconds(5).await;
        }
        panic!("{id} does not go: {:?}", self.provider.terminate(id).await);
    }
}

pub(crate) fn order(uid: u32) -> LaunchRequest {
    LaunchRequest {
        uid: Uid(format!("0b5cbbe1-0000-4000-8000-{uid:012}").into()),
        name: format!("node-{uid}").into(),
        purchase: Purchase {
            catalog: "proxmox".into(),
            instance_type: "proxmox-16".into(),
            zone: "pve1".into(),
            capacity_type: CapacityType::OnDemand,
            reservation: None,
            host: Some("pve1".into()),
            price: Money::ZERO,
        },
        capacity: Resources::new().with(CPU, 2000).with(MEMORY, 4 << 30),
        labels: Labels::new(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        max_price: None,
    }
}

pub(crate) fn anywhere(uid: u32) -> LaunchRequest {
    let mut order = order(uid);
    order.purchase.zone = "".into();
    order.purchase.host = None;
    order
}

pub(crate) fn number(machine: &Machine) -> u32 {
    machine.id.0.split('/').nth(4).unwrap().parse().unwrap()
}

pub(crate) async fn seconds(count: u64) {
    tokio::time::sleep(Duration::from_secs(count)).await;
}
