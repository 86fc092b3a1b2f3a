//! What every provider promises, as one list, run over each of them against its simulated cloud.
//!
//! A new provider is a new [`Subject`] and a line in [`subjects`].
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use joiner_core::money::Money;
use joiner_core::name::Labels;
use joiner_core::plan::Purchase;
use joiner_core::problem::{CapacityType, Catalog, Range};
use joiner_core::resources::{CPU, MEMORY, Resources};
use joiner_embedded::clock::Clock;
use joiner_embedded::cluster::kubelet::NodeSpec;
use joiner_providers::http::{Endpoint, Http};
use joiner_providers::proxmox::{ApiToken, IdRange, Interface, Proxmox, ProxmoxOptions};
use joiner_providers::rackspace::{Clock as Now, Rackspace, RackspaceOptions};
use joiner_providers::{LaunchRequest, Machine, MachineId, MachineState, Owner, Provider, Uid};
use joiner_sim::clouds::faulty::{FaultRates, Faulty};
use joiner_sim::clouds::proxmox::{self, ProxmoxCloud, ProxmoxCloudOptions};
use joiner_sim::clouds::rackspace::{CallFault, RackspaceCloud, RackspaceCloudOptions};
use joiner_sim::clouds::sim::{self, Rack, SimCloud, SimCloudOptions};
use serde_json::json;

/// Counts what is switched on.
#[derive(Default)]
struct Counting(Mutex<(usize, usize)>);

impl Rack for Counting {
    fn boot(&self, _: NodeSpec) {
        self.0.lock().unwrap().0 += 1;
    }
    fn kill(&self, _: &str) {
        self.0.lock().unwrap().1 += 1;
    }
}

/// A provider, and the world on its other side.
trait Subject: Send + Sync {
    fn provider(&self) -> &dyn Provider;
    /// How many machines there really are, whoever owns them.
    fn truth(&self) -> usize;
    /// The next call that changes something is done, and its answer lost.
    fn lose_next_answer(&self);
    /// Nothing can be bought any more.
    fn sell_out(&self);
    /// A machine of somebody else that looks much like ours; `None` where clouds are not shared.
    fn plant_foreign(&self) -> Option<MachineId>;
    /// The next list breaks off half-way or does not come; `false` where that cannot be.
    fn break_list(&self) -> bool;
}

struct Sim {
    cloud: SimCloud,
    provider: Faulty<SimCloud>,
    rates: Arc<Mutex<FaultRates>>,
}

impl Sim {
    fn open() -> Box<dyn Subject> {
        let rack: Arc<dyn Rack> = Arc::new(Counting::default());
        let options = SimCloudOptions::calm(sim::built_in(), 1);
        let cloud = SimCloud::new(options, Clock::virtual_time(), rack);
        let runner = cloud.clone();
        tokio::spawn(async move { runner.run().await });
        let provider = Faulty::new(cloud.clone(), FaultRates::default(), 1);
        let rates = provider.rates();
        Box::new(Sim {
            cloud,
            provider,
            rates,
        })
    }
}

impl Subject for Sim {
    fn provider(&self) -> &dyn Provider {
        &self.provider
    }

    fn truth(&self) -> usize {
        self.cloud.machines().len()
    }

    fn lose_next_answer(&self) {
        let always = FaultRates {
            lost: 10_000,
            ..FaultRates::default()
        };
        *self.rates.lock().unwrap() = always;
        let rates = Arc::clone(&self.rates);
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            *rates.lock().unwrap() = FaultRates::default();
        });
    }

    fn sell_out(&self) {
        self.cloud.change(|options| {
            let types = options.catalog.types.iter_mut();
            for offering in types.flat_map(|kind| kind.offerings.iter_mut()) {
                offering.available = false;
            }
        });
    }

    fn plant_foreign(&self) -> Option<MachineId> {
        None
    }

    fn break_list(&self) -> bool {
        false
    }
}

struct OnRackspace {
    cloud: RackspaceCloud,
    provider: Rackspace,
}

const POOLS: &str = "/apis/ngpc.rxt.io/v1/namespaces/org-abc123/spotnodepools";

impl OnRackspace {
    fn open() -> Box<dyn Subject> {
        let clock = Clock::virtual_time();
        let mut options = RackspaceCloudOptions::calm(1);
        // Small pages, so that every list is more than one.
        options.page_limit = Some(1);
        let cloud = RackspaceCloud::new(options, clock.clone(), Arc::new(Counting::default()));
        let runner = cloud.clone();
        tokio::spawn(async move { runner.run().await });
        let options = RackspaceOptions::new("cluster-1", "demo", "sim-refresh-token".into());
        let now: Now = Arc::new(move || clock.now());
        let provider = Rackspace::new(Http::new(cloud.router()), options.unwrap(), now).unwrap();
        Box::new(OnRackspace { cloud, provider })
    }
}

impl Subject for OnRackspace {
    fn provider(&self) -> &dyn Provider {
        &self.provider
    }

    fn truth(&self) -> usize {
        self.cloud.pools().len()
    }

    fn lose_next_answer(&self) {
        for method in ["POST", "DELETE"] {
            self.cloud
                .fail(&format!("{method} {POOLS}"), CallFault::Lost, 1);
        }
    }

    fn sell_out(&self) {
        self.cloud.change(|options| {
            for class in &mut options.classes {
                class.availability = String::from("unavailable");
            }
        });
    }

    fn plant_foreign(&self) -> Option<MachineId> {
        let name = "00000000-0000-4000-8000-00000000beef";
        let spec = json!({"serverClass": "gp.vs1.large-ord", "desired": 1, "bidPrice": "0.02", "cloudSpace": "demo",
            "customLabels": {"joiner.dev/cluster": "another-cluster", "joiner.dev/machine": name}});
        assert!(self.cloud.plant(name, &spec));
        Some(MachineId(format!("rackspace://demo/spot/{name}").into()))
    }

    fn break_list(&self) -> bool {
        let second = format!("GET {POOLS}?limit=500&continue=");
        self.cloud.fail(&second, CallFault::Refused(500, None), 1);
        true
    }
}

struct OnProxmox {
    cloud: ProxmoxCloud,
    provider: Proxmox,
}

impl OnProxmox {
    fn open() -> Box<dyn Subject> {
        let clock = Clock::virtual_time();
        let options = ProxmoxCloudOptions::of_hosts(2);
        let cloud = ProxmoxCloud::new(options, clock.clone(), Arc::new(Counting::default()));
        let runner = cloud.clone();
        tokio::spawn(async move { runner.run().await });
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
            first: 1250,
            last: 1300,
        };
        let mut options = ProxmoxOptions::new(owner, api, Arc::new(token), ids, "joiner");
        options.interfaces.push(Interface {
            name: "net0".to_owned(),
            model: "virtio".to_owned(),
            bridge: "vmbr0".to_owned(),
            vlan: None,
            mac_prefix: None,
        });
        let now: Now = Arc::new(move || clock.now());
        let provider = Proxmox::new(Http::new(cloud.router()), options, now).unwrap();
        Box::new(OnProxmox { cloud, provider })
    }
}

impl Subject for OnProxmox {
    fn provider(&self) -> &dyn Provider {
        &self.provider
    }

    fn truth(&self) -> usize {
        let all = self.cloud.machines();
        all.keys().filter(|vmid| **vmid >= 1000).count()
    }

    fn lose_next_answer(&self) {
        for method in ["POST", "DELETE"] {
            let call = format!("{method} /nodes/");
            self.cloud.fail(&call, proxmox::CallFault::Lost, 1);
        }
    }

    fn sell_out(&self) {
        for (vmid, host) in [(500, "pve1"), (501, "pve2")] {
            let config = [("name", "big"), ("memory", "65536"), ("cores", "16")];
            self.cloud.plant(vmid, host, &config, true);
        }
    }

    fn plant_foreign(&self) -> Option<MachineId> {
        // In our range, with our tag and the name of a node.
        let config = [("name", "node-1"), ("tags", "joiner"), ("memory", "2048")];
        self.cloud.plant(1255, "pve1", &config, true);
        let id = "proxmox://sim/vms/1255/0b5cbbe1-0000-4000-8000-00000000beef";
        Some(MachineId(id.into()))
    }

    fn break_list(&self) -> bool {
        let call = "GET /cluster/resources?type=vm";
        let fault = proxmox::CallFault::Refused(500, "got timeout".to_owned());
        self.cloud.fail(call, fault, 1);
        true
    }
}

fn subjects() -> Vec<(&'static str, Box<dyn Subject>)> {
    vec![
        ("sim", Sim::open()),
        ("rackspace", OnRackspace::open()),
        ("proxmox", OnProxmox::open()),
    ]
}

/// A machine made to measure.
fn measured(uid: u32, catalog: &Catalog, range: &Range) -> LaunchRequest {
    let host = &range.hosts[0];
    LaunchRequest {
        uid: Uid(format!("0b5cbbe1-0000-4000-8000-{uid:012}").into()),
        name: format!("node-{uid}").into(),
        purchase: Purchase {
            catalog: catalog.name.clone(),
            instance_type: range.name.clone(),
            zone: host.zone.clone(),
            capacity_type: range.capacity_type,
            reservation: None,
            host: Some(host.name.clone()),
            price: Money::ZERO,
        },
        capacity: range.min.clone(),
        labels: Labels::new(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        max_price: None,
    }
}

fn order(uid: u32, catalog: &Catalog) -> LaunchRequest {
    if let Some(range) = catalog.ranges.first() {
        return measured(uid, catalog, range);
    }
    let (kind, offering) = catalog
        .types
        .iter()
        .flat_map(|kind| kind.offerings.iter().map(move |one| (kind, one)))
        .find(|(_, one)| one.capacity_type == CapacityType::Spot)
        .unwrap();
    LaunchRequest {
        uid: Uid(format!("0b5cbbe1-0000-4000-8000-{uid:012}").into()),
        name: format!("node-{uid}").into(),
        purchase: Purchase {
            catalog: catalog.name.clone(),
            instance_type: kind.name.clone(),
            zone: offering.zone.clone(),
            capacity_type: offering.capacity_type,
            reservation: None,
            host: None,
            price: offering.price,
        },
        capacity: Resources::new(),
        labels: Labels::new(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        max_price: None,
    }
}

async fn buy(subject: &dyn Subject, uid: u32) -> Machine {
    let catalog = subject.provider().catalog().await.unwrap();
    subject
        .provider()
        .launch(&order(uid, &catalog))
        .await
        .unwrap()
}

async fn minutes(count: u64) {
    tokio::time::sleep(Duration::from_mins(count)).await;
}

#[tokio::test(start_paused = true)]
async fn a_catalogue_has_only_real_sizes_and_prices() {
    for (name, subject) in subjects() {
        let catalog = subject.provider().catalog().await.unwrap();
        assert!(catalog.types.len() + catalog.ranges.len() > 0, "{name}");
        for range in &catalog.ranges {
            assert!(range.min.get(CPU) > 0, "{name}: {}", range.name);
            assert!(range.max.fits(&range.min), "{name}: {}", range.name);
            assert!(range.prices.core > Money::ZERO, "{name}: {}", range.name);
            assert!(!range.hosts.is_empty(), "{name}: {}", range.name);
        }
        for kind in &catalog.types {
            assert!(!kind.offerings.is_empty(), "{name}: {}", kind.name);
            assert!(
                kind.offerings.iter().all(|one| one.price > Money::ZERO),
                "{name}: {}",
                kind.name
            );
            let free = kind.allocatable();
            assert!(
                free.get(CPU) > 0 && free.get(MEMORY) > 0,
                "{name}: {}",
                kind.name
            );
            assert!(
                free.get(CPU) <= kind.capacity.get(CPU),
                "{name}: {}",
                kind.name
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn asking_twice_buys_once() {
    for (name, subject) in subjects() {
        let first = buy(&*subject, 1).await;
        let again = buy(&*subject, 1).await;
        assert_eq!(first.id, again.id, "{name}");
        assert_eq!(subject.truth(), 1, "{name}");
        let other = buy(&*subject, 2).await;
        assert_ne!(first.id, other.id, "{name}");
        assert_eq!(subject.truth(), 2, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn asking_again_after_a_lost_answer_buys_once() {
    for (name, subject) in subjects() {
        let catalog = subject.provider().catalog().await.unwrap();
        let order = order(1, &catalog);
        subject.lose_next_answer();
        let error = subject.provider().launch(&order).await.unwrap_err();
        assert_eq!(error.kind(), "transient", "{name}: {error}");
        assert_eq!(subject.truth(), 1, "{name}: it was done all the same");
        minutes(1).await;
        let machine = subject.provider().launch(&order).await.unwrap();
        assert_eq!(machine.uid, Some(order.uid.clone()), "{name}");
        assert_eq!(subject.truth(), 1, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn asking_again_for_something_else_returns_what_was_bought() {
    for (name, subject) in subjects() {
        let catalog = subject.provider().catalog().await.unwrap();
        let first = subject
            .provider()
            .launch(&order(1, &catalog))
            .await
            .unwrap();
        let mut other = order(1, &catalog);
        if let Some(range) = catalog.ranges.first() {
            other.capacity = range.max.clone();
            let again = subject.provider().launch(&other).await.unwrap();
            assert_eq!(again.id, first.id, "{name}");
            assert_eq!(again.capacity, first.capacity, "{name}");
            assert_eq!(subject.truth(), 1, "{name}");
            continue;
        }
        let on_demand = catalog
            .types
            .iter()
            .flat_map(|kind| kind.offerings.iter().map(move |one| (kind, one)))
            .find(|(_, one)| one.capacity_type == CapacityType::OnDemand)
            .unwrap();
        other.purchase.instance_type = on_demand.0.name.clone();
        other.purchase.zone = on_demand.1.zone.clone();
        other.purchase.capacity_type = CapacityType::OnDemand;
        let again = subject.provider().launch(&other).await.unwrap();
        assert_eq!(again.id, first.id, "{name}");
        assert_eq!(again.capacity_type, CapacityType::Spot, "{name}");
        assert_eq!(subject.truth(), 1, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_pending_then_running_and_says_who_asked() {
    for (name, subject) in subjects() {
        let machine = buy(&*subject, 1).await;
        assert!(matches!(machine.state, MachineState::Pending(_)), "{name}");
        assert!(!machine.links.is_empty(), "{name}");
        minutes(45).await;
        let machine = subject.provider().get(&machine.id).await.unwrap();
        assert_eq!(machine.state, MachineState::Running, "{name}");
        assert!(machine.price.is_some(), "{name}");
        let listed = subject.provider().list().await.unwrap();
        assert_eq!(
            listed,
            [machine],
            "{name}: one machine, the same by either way"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn terminating_is_idempotent_and_ends_in_not_found() {
    for (name, subject) in subjects() {
        let machine = buy(&*subject, 1).await;
        minutes(45).await;
        let provider = subject.provider();
        provider.terminate(&machine.id).await.unwrap();
        provider.terminate(&machine.id).await.unwrap();
        let shown = provider.get(&machine.id).await.unwrap();
        assert_eq!(shown.state, MachineState::Stopping, "{name}");
        minutes(5).await;
        for error in [
            provider.terminate(&machine.id).await.unwrap_err(),
            provider.get(&machine.id).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), "not_found", "{name}: {error}");
        }
        assert_eq!(subject.truth(), 0, "{name}");
        assert!(provider.list().await.unwrap().is_empty(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn terminating_after_a_lost_answer_ends_the_machine() {
    for (name, subject) in subjects() {
        let machine = buy(&*subject, 1).await;
        subject.lose_next_answer();
        // Whether the first answer was an error is the provider's affair: taking away twice does no harm.
        let _ = subject.provider().terminate(&machine.id).await;
        minutes(5).await;
        let error = subject.provider().terminate(&machine.id).await.unwrap_err();
        assert_eq!(error.kind(), "not_found", "{name}: {error}");
        assert_eq!(subject.truth(), 0, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_sold_out_is_marked_and_refused_as_such() {
    for (name, subject) in subjects() {
        let before = subject.provider().catalog().await.unwrap();
        subject.sell_out();
        minutes(2).await;
        let catalog = subject.provider().catalog().await.unwrap();
        assert_eq!(
            catalog.types.len(),
            before.types.len(),
            "{name}: listed all the same"
        );
        assert_eq!(catalog.ranges.len(), before.ranges.len(), "{name}");
        let mut offerings = catalog.types.iter().flat_map(|kind| &kind.offerings);
        assert!(offerings.all(|one| !one.available), "{name}");
        let mut hosts = catalog.ranges.iter().flat_map(|range| &range.hosts);
        assert!(hosts.all(|host| host.free.get(MEMORY) == 0), "{name}");
        let error = subject
            .provider()
            .launch(&order(1, &before))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), "out_of_capacity", "{name}: {error}");
        assert_eq!(subject.truth(), 0, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn machines_of_others_are_neither_seen_nor_touched() {
    let mut shared = 0;
    for (name, subject) in subjects() {
        let Some(foreign) = subject.plant_foreign() else {
            continue;
        };
        shared += 1;
        let own = buy(&*subject, 1).await;
        minutes(45).await;
        let provider = subject.provider();
        let listed = provider.list().await.unwrap();
        let ids: Vec<&MachineId> = listed.iter().map(|one| &one.id).collect();
        assert_eq!(ids, [&own.id], "{name}");
        for error in [
            provider.get(&foreign).await.unwrap_err(),
            provider.terminate(&foreign).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), "not_found", "{name}: {error}");
        }
        assert!(
            provider
                .notices()
                .await
                .unwrap()
                .iter()
                .all(|one| one.id != foreign),
            "{name}"
        );
        minutes(5).await;
        assert_eq!(subject.truth(), 2, "{name}");
    }
    assert_eq!(shared, 2, "providers whose clouds are shared");
}

#[tokio::test(start_paused = true)]
async fn half_a_list_is_an_error() {
    let mut paged = 0;
    for (name, subject) in subjects() {
        buy(&*subject, 1).await;
        buy(&*subject, 2).await;
        if !subject.break_list() {
            continue;
        }
        paged += 1;
        assert!(subject.provider().list().await.is_err(), "{name}");
        assert_eq!(subject.provider().list().await.unwrap().len(), 2, "{name}");
    }
    assert_eq!(paged, 2, "providers whose lists can break off");
}

#[tokio::test(start_paused = true)]
async fn a_new_machine_has_not_drifted() {
    for (name, subject) in subjects() {
        let machine = buy(&*subject, 1).await;
        let drift = subject.provider().drift(&machine).await.unwrap();
        assert_eq!(drift, None, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_id_of_another_world_is_an_error() {
    for (name, subject) in subjects() {
        let id = MachineId("elsewhere:///x".into());
        assert!(subject.provider().get(&id).await.is_err(), "{name}");
        assert!(subject.provider().terminate(&id).await.is_err(), "{name}");
    }
}
