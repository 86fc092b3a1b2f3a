//! A rack of simulated BMCs and classes that list them, in virtual time.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use joiner_core::money::Money;
use joiner_core::name::Labels;
use joiner_core::plan::Purchase;
use joiner_core::problem::CapacityType;
use joiner_core::resources::{CPU, MEMORY, Resources};
use joiner_embedded::clock::Clock;
use joiner_embedded::cluster::kubelet::NodeSpec;
use joiner_providers::http::Http;
use joiner_providers::redfish::claims::Reservations;
use joiner_providers::redfish::{
    Access, BootOptions, CredentialSource, Credentials, HostOptions, PowerOffOptions, Redfish,
    RedfishOptions,
};
use joiner_providers::{
    LaunchRequest, Ledger, Machine, MachineState, MemoryLedger, Owner, Provider, ProviderError, Uid,
};
use joiner_sim::clouds::redfish::{HostSetup, Model, RedfishFleet};
use joiner_sim::clouds::sim::Rack;

/// Nodes that are up, with their provider ids.
#[derive(Default)]
pub(crate) struct Nodes(pub(crate) Mutex<BTreeMap<String, String>>);

impl Rack for Nodes {
    fn boot(&self, spec: NodeSpec) {
        self.0.lock().unwrap().insert(spec.name, spec.provider_id);
    }
    fn kill(&self, name: &str) {
        self.0.lock().unwrap().remove(name);
    }
}

/// A Secret that can be edited.
pub(crate) struct Secret(pub(crate) Mutex<String>);

#[async_trait]
impl CredentialSource for Secret {
    async fn credentials(&self) -> Result<Credentials, ProviderError> {
        Ok(Credentials {
            username: "admin".into(),
            password: self.0.lock().unwrap().clone().into(),
        })
    }
}

pub(crate) struct World {
    pub(crate) fleet: RedfishFleet,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) clock: Clock,
    pub(crate) secret: Arc<Secret>,
    pub(crate) reservations: Arc<Reservations>,
}

impl World {
    pub(crate) fn new(models: &[Model]) -> Self {
        let clock = Clock::virtual_time();
        let nodes = Arc::new(Nodes::default());
        let fleet = RedfishFleet::new(clock.clone(), Arc::clone(&nodes) as Arc<dyn Rack>);
        for (number, model) in models.iter().enumerate() {
            fleet.add(HostSetup::new(&bmc(number), model.clone()));
        }
        let runner = fleet.clone();
        tokio::spawn(async move { runner.run().await });
        World {
            fleet,
            nodes,
            clock,
            secret: Arc::new(Secret(Mutex::new("sim-password".into()))),
            reservations: Arc::default(),
        }
    }

    pub(crate) fn plain(count: usize) -> Self {
        World::new(&vec![Model::plain(); count])
    }

    pub(crate) fn host(&self, number: usize) -> HostOptions {
        HostOptions {
            name: format!("metal-{number}").into(),
            address: format!("https://{}", bmc(number)),
            system_path: None,
            system_uuid: None,
            serial_number: None,
            node_name: None,
            capacity: Resources::new().with(CPU, 16_000).with(MEMORY, 64 << 30),
            labels: Labels::new(),
            price: Money::from_dollars(0.02),
            access: Access {
                credentials: Arc::clone(&self.secret) as Arc<dyn CredentialSource>,
                http: Http::new(self.fleet.router()),
                unverified: false,
            },
            boot: BootOptions::default(),
            power_off: PowerOffOptions::default(),
        }
    }

    pub(crate) fn provider(&self, hosts: Vec<HostOptions>, ledger: &Arc<MemoryLedger>) -> Redfish {
        self.class(hosts, Arc::clone(ledger) as Arc<dyn Ledger>)
    }

    pub(crate) fn class(&self, hosts: Vec<HostOptions>, ledger: Arc<dyn Ledger>) -> Redfish {
        let options = RedfishOptions {
            catalog: "racks".into(),
            hosts,
            fallback: None,
            allowed_hosts: Vec::new(),
            registration_timeout: Duration::from_mins(20),
        };
        let owner = Owner {
            cluster: "cluster-1".into(),
            family: "karpenter".into(),
        };
        let clock = self.clock.clone();
        Redfish::new(
            options,
            owner,
            ledger,
            Arc::clone(&self.reservations),
            Arc::new(move || clock.now()),
        )
        .unwrap()
    }

    pub(crate) fn all(&self, count: usize) -> (Redfish, Arc<MemoryLedger>) {
        let ledger = Arc::new(MemoryLedger::default());
        let hosts = (0..count).map(|number| self.host(number)).collect();
        (self.provider(hosts, &ledger), ledger)
    }
}

pub(crate) fn bmc(number: usize) -> String {
    format!("10.0.9.{}", number + 11)
}

pub(crate) fn order(uid: u32, host: &str) -> LaunchRequest {
    LaunchRequest {
        uid: Uid(format!("0b5cbbe1-0000-4000-8000-{uid:012}").into()),
        name: format!("node-{uid}").into(),
        purchase: Purchase {
            catalog: "racks".into(),
            instance_type: host.into(),
            zone: "default".into(),
            capacity_type: CapacityType::OnDemand,
            reservation: None,
            host: None,
            price: Money::from_dollars(0.02),
        },
        capacity: Resources::new(),
        labels: Labels::new(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        max_price: None,
    }
}

pub(crate) async fn seconds(count: u64) {
    tokio::time::sleep(Duration::from_secs(count)).await;
}

/// Asks again, as the engine does, until the machine runs or a quarter of an hour has passed.
pub(crate) async fn until_running(
    provider: &Redfish,
    order: &LaunchRequest,
) -> Result<Machine, ProviderError> {
    let mut last = Err(ProviderError::Transient("never asked".into()));
    for _ in 0..180 {
        last = provider.launch(order).await;
        match &last {
            Ok(machine) if machine.state == MachineState::Running => return last,
            Err(ProviderError::OutOfCapacity(_)) => return last,
            _ => seconds(5).await,
        }
    }
    last
}

/// Asks again, as the engine does, until the machine is gone.
pub(crate) async fn until_gone(provider: &Redfish, uid: &Uid) -> bool {
    for _ in 0..400 {
        let found = match provider.find(uid).await {
            Ok(machine) => provider.terminate(&machine.id).await,
            Err(error) => Err(error),
        };
        match found {
            Err(ProviderError::NotFound(_)) => return true,
            _ => seconds(5).await,
        }
    }
    false
}

pub(crate) fn free(catalog: &joiner_core::problem::Catalog) -> Vec<String> {
    let free = catalog
        .types
        .iter()
        .filter(|kind| kind.offerings[0].available);
    free.map(|kind| kind.name.to_string()).collect()
}
