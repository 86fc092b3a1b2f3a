//! An embedded cluster with Joiner, a simulated Proxmox, simulated servers with BMCs and the simulated Rackspace Spot.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use joiner_api::Dialect as Family;
use joiner_api::hardware::RedfishHost;
use joiner_controllers::classes::proxmox::ProxmoxClasses;
use joiner_controllers::classes::rackspace::{RackspaceClasses, RackspaceDefaults};
use joiner_controllers::classes::redfish::{RedfishClasses, SimulatedBmcs};
use joiner_controllers::context::Context;
use joiner_controllers::dialect::{ClassFactory, Secrets};
use joiner_controllers::dialects::karpetrack::KarpetrackOptions;
use joiner_controllers::edge::clients::{Clients, Fence};
use joiner_controllers::edge::ledger::MemoryLedgers;
use joiner_controllers::edge::metrics::Invariant;
use joiner_controllers::edge::tasks::Tasks;
use joiner_controllers::market::slots::ClusterSecrets;
use joiner_controllers::{Engine, Settings};
use joiner_embedded::api::Local;
use joiner_embedded::clock::Clock;
use joiner_embedded::cluster::{Cluster, ClusterOptions};
use joiner_providers::http::Http;
use joiner_providers::redfish::Credentials;
use joiner_sim::clouds::proxmox::{ProxmoxCloud, ProxmoxCloudOptions};
use joiner_sim::clouds::rackspace::{RackspaceCloud, RackspaceCloudOptions};
use joiner_sim::clouds::redfish::{HostSetup, Model, RedfishFleet};
use joiner_sim::clouds::sim::Rack;
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;

use super::bill::Bill;
use super::objects::{self, HOME, HOSTS};
use super::{Pools, refused};
use crate::demo::thoughts::Thoughtful;
use crate::failure::Failure;
use crate::wiring::{ClusterClock, Wiring, only};

/// Promises that the engine checks by itself and that the story must keep.
const KEPT: [&str; 6] = ["S1", "S3", "S5", "S15", "S22", "S25"];

/// How long things take in the simulated world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timing {
    /// As long as real ones.
    Real,
    /// Seconds, for people who watch.
    Quick,
}

/// The simulated clouds and racks.
#[derive(Clone)]
pub(super) struct Hardware {
    pub(super) proxmox: ProxmoxCloud,
    pub(super) metal: RedfishFleet,
    pub(super) cloud: RackspaceCloud,
}

/// A cluster with everything that the story needs.
pub(super) struct Stage {
    pub(super) cluster: Cluster,
    pub(super) hardware: Hardware,
    pub(super) bill: Bill,
    /// What Joiner decides, in words, as it decides.
    pub(super) thoughts: Option<mpsc::UnboundedReceiver<String>>,
    engine: Engine,
    tasks: Tasks,
}

impl Stage {
    /// Sets everything up. `start` is what the cluster's clock shows; a fixed moment unless it is given.
    pub(super) fn set(
        seed: u64,
        start: Option<Timestamp>,
        settings: Settings,
        timing: Timing,
        pools: Pools,
    ) -> Result<Self, Failure> {
        let cluster = Cluster::start(&ClusterOptions {
            seed,
            start,
            ..ClusterOptions::default()
        });
        let api = cluster.api();
        for crd in joiner_api::crds(None) {
            let object = serde_json::to_value(crd).unwrap_or_default();
            let definitions = "customresourcedefinitions.apiextensions.k8s.io";
            api.create(definitions, "", object).map_err(refused)?;
        }
        let tasks = Tasks::new();
        let clock = api.clock().clone();
        let rack: Arc<dyn Rack> = Arc::new(cluster.kubelets().clone());
        let hardware = Hardware::start(seed, timing, &clock, &rack, &tasks);
        objects::create(&api, pools, timing).map_err(refused)?;
        let clients = Clients::over(cluster.server(), Fence::open());
        let bill = Bill::new(clock.clone());
        let counting = (bill.clone(), api.clone(), hardware.cloud.clone());
        tasks.spawn("bill", async move {
            let (bill, api, cloud) = counting;
            bill.keep(&api, &cloud).await;
        });
        let (sender, thoughts) = mpsc::unbounded_channel();
        let wiring = Wiring {
            leftover: None,
            cluster: "embedded".into(),
            ledgers: Arc::new(MemoryLedgers),
            classes: classes(&clients, &clock, &hardware, timing)?,
            clients,
            clock: Arc::new(ClusterClock(clock)),
            families: only(Family::Karpenter),
            karpetrack: KarpetrackOptions::new(""),
            settings: Settings { seed, ..settings },
            lease: None,
            decide: Some(Arc::new(Thoughtful::new(None, sender))),
        };
        let engine = wiring.start(&mut Registry::default());
        Ok(Stage {
            cluster,
            hardware,
            bill,
            thoughts: Some(thoughts),
            engine,
            tasks,
        })
    }

    /// The cluster's API.
    pub(super) fn api(&self) -> Local {
        self.cluster.api()
    }

    /// Everything that Joiner works with.
    pub(super) fn context(&self) -> Arc<Context> {
        self.engine.context().clone()
    }

    /// Promises of Joiner that were broken, as it found out by itself.
    pub(super) fn broken(&self) -> Vec<String> {
        let violations = &self.engine.context().edge.metrics.violations;
        let mut broken = Vec::new();
        for invariant in KEPT.map(str::to_owned) {
            let name = invariant.clone();
            let times = violations.get_or_create(&Invariant { invariant }).get();
            if times > 0 {
                broken.push(format!("{name} did not hold {times} times"));
            }
        }
        broken
    }

    /// Ends everything.
    pub(super) async fn clear(self) {
        self.engine.stop().await;
        self.tasks.stop().await;
        self.cluster.stop().await;
    }
}

impl Hardware {
    fn start(
        seed: u64,
        timing: Timing,
        clock: &Clock,
        rack: &Arc<dyn Rack>,
        tasks: &Tasks,
    ) -> Self {
        let (mut virtual_, mut spot) = (
            ProxmoxCloudOptions::of_hosts(HOSTS),
            RackspaceCloudOptions::calm(seed),
        );
        if timing == Timing::Quick {
            for time in [
                &mut virtual_.creates_within,
                &mut virtual_.starts_within,
                &mut virtual_.destroys_within,
                &mut virtual_.lag,
                &mut spot.decides_after,
                &mut spot.stops_after,
                &mut spot.stamps_after,
            ] {
                *time = Duration::from_secs(1);
            }
            virtual_.boots_within = Duration::from_secs(4);
            spot.arrives_min = Duration::from_secs(6);
            spot.arrives_max = Duration::from_secs(15);
        }
        let hardware = Hardware {
            proxmox: ProxmoxCloud::new(virtual_, clock.clone(), Arc::clone(rack)),
            metal: RedfishFleet::new(clock.clone(), Arc::clone(rack)),
            cloud: RackspaceCloud::new(spot, clock.clone(), Arc::clone(rack)),
        };
        let (proxmox, metal, cloud) = (
            hardware.proxmox.clone(),
            hardware.metal.clone(),
            hardware.cloud.clone(),
        );
        tasks.spawn("proxmox", async move { proxmox.run().await });
        tasks.spawn("bare metal", async move { metal.run().await });
        tasks.spawn("rackspace", async move { cloud.run().await });
        hardware
    }
}

/// Everything that a NodePool of this story can name.
fn classes(
    clients: &Clients,
    clock: &Clock,
    hardware: &Hardware,
    timing: Timing,
) -> Result<Vec<Arc<dyn ClassFactory>>, Failure> {
    let secrets: Arc<dyn Secrets> = Arc::new(ClusterSecrets(clients.clone()));
    let time = clock.clone();
    let now: Arc<dyn Fn() -> Timestamp + Send + Sync> = Arc::new(move || time.now());
    let proxmox = ProxmoxClasses::new(Arc::clone(&secrets), HOME, Arc::clone(&now))
        .simulated(Http::new(hardware.proxmox.router()));
    let bmcs = Bmcs {
        fleet: hardware.metal.clone(),
        timing,
    };
    let metal =
        RedfishClasses::new(Arc::clone(&secrets), HOME, Arc::clone(&now)).simulated(Arc::new(bmcs));
    let calm = RackspaceCloudOptions::calm(0);
    let defaults = RackspaceDefaults::behind(
        Http::new(hardware.cloud.router()),
        calm.refresh_token.into(),
        &calm.cloudspace,
        now,
    )
    .map_err(|error| Failure::Demo(error.to_string()))?;
    let mut all = RackspaceClasses::both(&defaults, &secrets);
    all.push(Arc::new(proxmox));
    all.push(Arc::new(metal));
    Ok(all)
}

/// Puts a simulated BMC behind every host of an inventory; models take turns.
struct Bmcs {
    fleet: RedfishFleet,
    timing: Timing,
}

impl SimulatedBmcs for Bmcs {
    fn plug(&self, host: &RedfishHost) -> (Http, Credentials) {
        let authority = host.address.trim_start_matches("https://");
        let models = Model::all();
        let turn = host.name.bytes().map(usize::from).sum::<usize>() % models.len().max(1);
        let mut model = models.into_iter().nth(turn).unwrap_or_else(Model::plain);
        let mut joins_after = HostSetup::new(authority, model.clone()).joins_after;
        if self.timing == Timing::Quick {
            for time in [
                &mut model.powers_on,
                &mut model.powers_off,
                &mut model.shuts_down,
                &mut model.self_test,
            ] {
                *time = Duration::from_secs(1);
            }
            joins_after = Duration::from_secs(8);
        }
        let setup = HostSetup {
            node: host.name.clone(),
            cpu_cores: host.cpu_cores,
            memory_mib: host.memory_mib,
            joins_after,
            ..HostSetup::new(authority, model)
        };
        let credentials = Credentials {
            username: setup.username.clone(),
            password: setup.password.clone().into(),
        };
        self.fleet.add_missing(setup);
        (Http::new(self.fleet.router()), credentials)
    }
}
