//! KubeNodeSmith's pools on simulated Proxmox VE and BMCs, through the whole engine. Bad input: each mistake is a sentence
//! in a condition and in an event, nothing is made or lost meanwhile, and all goes on by itself once it is mended. And
//! machines that run and never join.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers of tests fail as tests do"
)]

#[path = "stage/mod.rs"]
mod stage;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use joiner_api::hardware::RedfishHost;
use joiner_controllers::Settings;
use joiner_controllers::classes::nodesmith::NodeSmithClasses;
use joiner_controllers::classes::proxmox::ProxmoxClasses;
use joiner_controllers::classes::redfish::{RedfishClasses, SimulatedBmcs};
use joiner_controllers::dialect::{Dialect, Secrets};
use joiner_controllers::dialects::nodesmith::NodeSmith;
use joiner_controllers::edge::clients::{Clients, Fence};
use joiner_controllers::market::slots::ClusterSecrets;
use joiner_providers::http::Http;
use joiner_providers::redfish::Credentials;
use joiner_sim::clouds::proxmox::{CallFault, ProxmoxCloud, ProxmoxCloudOptions};
use joiner_sim::clouds::redfish::{HostSetup, Model, RedfishFleet};
use joiner_sim::clouds::sim::Rack;
use serde_json::{Value, json};
use stage::Stage;

const HOME: &str = "kubenodesmith";
const CLAIMS: &str = "nodesmithclaims.kubenodesmith.parawell.cloud";
const POOLS: &str = "nodesmithpools.kubenodesmith.parawell.cloud";
const PROVIDERS: &str = "nodesmithproviders.kubenodesmith.parawell.cloud";
const BMC: &str = "10.0.9.11";

/// The cluster, with hardware of both kinds.
struct World {
    stage: Stage,
    proxmox: ProxmoxCloud,
    metal: RedfishFleet,
    hardware: Vec<tokio::task::JoinHandle<()>>,
}

/// Every host has a BMC that opens with the usual password, unless the test has put another one there before.
struct Bmcs(RedfishFleet);

impl SimulatedBmcs for Bmcs {
    fn plug(&self, host: &RedfishHost) -> (Http, Credentials) {
        let authority = host.address.trim_start_matches("https://");
        self.0.add_missing(setup(authority));
        let credentials = Credentials {
            username: "admin".to_owned(),
            password: "sim-password".into(),
        };
        (Http::new(self.0.router()), credentials)
    }
}

fn setup(authority: &str) -> HostSetup {
    HostSetup::new(authority, Model::plain())
}

fn secret(secret: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "proxmox-api-secret", "namespace": HOME},
        "stringData": {"PROXMOX_TOKEN_ID": "joiner@pve!sim", "PROXMOX_SECRET": secret}})
}

fn virtual_machines() -> Value {
    json!({
        "type": "proxmox",
        "credentialsSecretRef": {"name": "proxmox-api-secret"},
        "proxmox": {
            "endpoint": "https://10.0.4.30:8006/api2/json",
            "vmIDRange": {"lower": 1250, "upper": 1251},
            "managedNodeTag": "kubenodesmith-managed",
            "networkInterfaces": [{"name": "net0", "model": "virtio", "bridge": "vmbr0"}],
            "vmOptions": [{"name": "boot", "value": "order=net0"}],
        },
    })
}

fn bare_metal() -> Value {
    json!({
        "type": "redfish",
        "redfish": {"hosts": [{"name": "metal-1", "address": format!("https://{BMC}"),
            "cpuCores": 16, "memoryMiB": 65536}]},
    })
}

impl World {
    /// Hardware and a cluster without an engine: something can be broken before it starts.
    fn open() -> Self {
        let stage = Stage::new(Settings::default(), None, "512Mi");
        let clock = stage.api().clock().clone();
        let rack: Arc<dyn Rack> = Arc::new(stage.cluster.kubelets().clone());
        let proxmox = ProxmoxCloud::new(
            ProxmoxCloudOptions::of_hosts(2),
            clock.clone(),
            Arc::clone(&rack),
        );
        let metal = RedfishFleet::new(clock, rack);
        let (virtual_, bare) = (proxmox.clone(), metal.clone());
        let hardware = vec![
            tokio::task::spawn(async move { virtual_.run().await }),
            tokio::task::spawn(async move { bare.run().await }),
        ];
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}});
        stage.api().create("namespaces", "", namespace).unwrap();
        World {
            stage,
            proxmox,
            metal,
            hardware,
        }
    }

    /// Starts the engine, with one pool on this provider and a pod that waits for it.
    fn start(&mut self, token: &str, provider: Value) {
        self.start_with(token, provider, |_| ());
    }

    /// The same with another pool.
    fn start_with(&mut self, token: &str, provider: Value, change: impl FnOnce(&mut Value)) {
        let api = self.stage.api();
        api.create("secrets", HOME, secret(token)).unwrap();
        let create = |resource: &str, kind: &str, name: &str, spec: Value| {
            let object = json!({"apiVersion": "kubenodesmith.parawell.cloud/v1alpha1", "kind": kind,
                "metadata": {"name": name, "namespace": HOME}, "spec": spec});
            api.create(resource, HOME, object).unwrap();
        };
        create(PROVIDERS, "NodeSmithProvider", "rack", provider);
        let mut pool = json!({"providerRef": "rack", "machineTemplate": {},
            "limits": {"minNodes": 0, "maxNodes": 0, "cpuCores": 0, "memoryMiB": 0}});
        change(&mut pool);
        create(POOLS, "NodeSmithPool", "small", pool);
        create(
            "nodesmithcontrolplanes.kubenodesmith.parawell.cloud",
            "NodeSmithControlPlane",
            "plane",
            json!({"pools": ["small"]}),
        );
        let clients = Clients::over(self.stage.cluster.server(), Fence::open());
        let secrets: Arc<dyn Secrets> = Arc::new(ClusterSecrets(clients));
        let clock = api.clock().clone();
        let now: Arc<dyn Fn() -> Timestamp + Send + Sync> = Arc::new(move || clock.now());
        let proxmox = ProxmoxClasses::new(Arc::clone(&secrets), HOME, Arc::clone(&now))
            .simulated(Http::new(self.proxmox.router()));
        let metal =
            RedfishClasses::new(secrets, HOME, now).simulated(Arc::new(Bmcs(self.metal.clone())));
        let classes = NodeSmithClasses::new(proxmox, metal);
        let engine = self.stage.engine_of(
            "first",
            |clients| vec![Arc::new(NodeSmith::new(clients.clone())) as Arc<dyn Dialect>],
            vec![Arc::new(classes)],
        );
        self.stage.engine = Some(engine);
        self.stage.deployment("web", 1, "500m", |_| ());
    }

    async fn until(&self, what: &str, mut holds: impl FnMut(&World) -> bool) {
        let picture = || {
            let api = self.stage.api();
            let all = [PROVIDERS, POOLS, CLAIMS].map(|kind| api.list(kind));
            let all = all.iter().flatten();
            let lines: Vec<String> = all
                .map(|one| format!("{} {}", one["metadata"]["name"], one["status"]))
                .collect();
            format!("{lines:#?}\n{:#?}", self.events())
        };
        let limit = Duration::from_hours(2);
        self.stage
            .within(limit, what, || holds(self), picture)
            .await;
    }

    fn claims(&self) -> Vec<Arc<Value>> {
        self.stage.api().list(CLAIMS)
    }

    /// A claim, if it is there.
    fn claim(&self, name: &str) -> Option<Arc<Value>> {
        self.stage.api().get(CLAIMS, HOME, name).ok()
    }

    /// What conditions of the pool and of the provider say that does not hold.
    fn conditions(&self) -> Vec<String> {
        let api = self.stage.api();
        let objects = [(POOLS, "small"), (PROVIDERS, "rack")];
        let objects = objects.map(|(kind, name)| api.get(kind, HOME, name).unwrap());
        let all = objects
            .iter()
            .filter_map(|one| one["status"]["conditions"].as_array());
        all.flatten()
            .filter(|one| one["status"] != "True")
            .filter_map(|one| Some(one["message"].as_str()?.to_owned()))
            .collect()
    }

    fn events(&self) -> Vec<String> {
        let all = self.stage.api().list("events");
        let warnings = all.iter().filter(|event| event["type"] == "Warning");
        warnings
            .filter_map(|event| Some(event["message"].as_str()?.to_owned()))
            .collect()
    }

    /// A pod waits, is told why, waits on without anything being made, and runs when it is mended.
    async fn told_and_healed(self, sentence: &str, mend: impl FnOnce(&World)) {
        let has = |all: &[String]| all.iter().any(|said| said.contains(sentence));
        self.until("a condition has the sentence", |world| {
            has(&world.conditions())
        })
        .await;
        self.until("an event has the sentence", |world| has(&world.events()))
            .await;
        let strangers = self.proxmox.machines().len();
        tokio::time::sleep(Duration::from_mins(10)).await;
        assert_eq!(self.stage.running("web"), 0);
        assert_eq!(self.proxmox.machines().len(), strangers);
        assert_eq!(self.metal.powered(), 0);
        mend(&self);
        self.until("the pod runs", |world| world.stage.running("web") == 1)
            .await;
        self.until("nothing is wrong any more", |world| {
            !has(&world.conditions())
        })
        .await;
        self.end().await;
    }

    /// The pod goes, and nothing is left.
    async fn end(self) {
        self.stage.scale("web", 0);
        self.until("everything is given back", |world| {
            world.claims().is_empty()
                && world.stage.api().list("nodes").is_empty()
                && world.metal.powered() == 0
        })
        .await;
        let ours = |vm: &joiner_sim::clouds::proxmox::Vm| {
            vm.config
                .get("tags")
                .is_some_and(|tags| tags.contains("kubenodesmith-managed"))
        };
        assert!(!self.proxmox.machines().values().any(ours));
        self.stage.stop().await;
        for one in self.hardware {
            one.abort();
        }
    }
}

fn change(world: &World, change: impl FnOnce(&mut Value)) {
    let api = world.stage.api();
    let mut object = Value::clone(&*api.get(PROVIDERS, HOME, "rack").unwrap());
    change(&mut object["spec"]);
    api.update(PROVIDERS, object).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_wrong_token_is_told_and_healed_by_the_secret() {
    let mut world = World::open();
    world.start("wrong", virtual_machines());
    let sentence = "refuses the API token joiner@pve!sim";
    let mend = |world: &World| {
        let api = world.stage.api();
        let known = api.get("secrets", HOME, "proxmox-api-secret").unwrap();
        let mut mended = secret("sim-token-secret");
        mended["metadata"] = known["metadata"].clone();
        api.update("secrets", mended).unwrap();
    };
    world.told_and_healed(sentence, mend).await;
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_is_no_proxmox_is_told_and_healed_when_it_is_one() {
    let mut world = World::open();
    let page = CallFault::Says(200, "<html>router login</html>".to_owned());
    world.proxmox.fail("GET /", page, u32::MAX);
    world.start("sim-token-secret", virtual_machines());
    let sentence = "does not answer as Proxmox VE does";
    world
        .told_and_healed(sentence, |world| world.proxmox.forgive())
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_range_that_is_used_up_is_told_and_healed_when_a_number_is_free() {
    let mut world = World::open();
    for vmid in [1250, 1251] {
        let config = [("name", "stranger"), ("memory", "1024")];
        world.proxmox.plant(vmid, "pve1", &config, true);
    }
    world.start("sim-token-secret", virtual_machines());
    let sentence = "vmIDRange: all numbers from 1250 to 1251 are in use";
    let mend = |world: &World| {
        for vmid in [1250, 1251] {
            world.proxmox.vanish(vmid).unwrap();
        }
    };
    world.told_and_healed(sentence, mend).await;
}

#[tokio::test(start_paused = true)]
async fn a_bridge_that_is_missing_is_told_and_healed_by_naming_another() {
    let mut world = World::open();
    let mut provider = virtual_machines();
    provider["proxmox"]["networkInterfaces"][0]["bridge"] = json!("vmbr9");
    world.start("sim-token-secret", provider);
    let sentence = "no bridge vmbr9 that the token may use (it has vmbr0)";
    let mend = |world: &World| {
        change(world, |spec| {
            spec["proxmox"]["networkInterfaces"][0]["bridge"] = json!("vmbr0");
        });
    };
    world.told_and_healed(sentence, mend).await;
}

#[tokio::test(start_paused = true)]
async fn a_bmc_that_refuses_the_password_is_told_and_healed_when_it_does_not() {
    let mut world = World::open();
    world.metal.add(HostSetup {
        password: "another".to_owned(),
        ..setup(BMC)
    });
    world.start("sim-token-secret", bare_metal());
    let sentence = "host metal-1: its BMC at https://10.0.9.11 refuse";
    let mend = |world: &World| {
        world
            .metal
            .change(BMC, |setup| setup.password = "sim-password".to_owned());
    };
    world.told_and_healed(sentence, mend).await;
}

#[tokio::test(start_paused = true)]
async fn a_host_without_the_boot_mode_is_told_and_healed_by_another_mode() {
    let mut world = World::open();
    world.metal.add(HostSetup {
        modes: vec!["UEFI".to_owned()],
        ..setup(BMC)
    });
    let mut provider = bare_metal();
    provider["redfish"]["boot"] = json!({"mode": "Legacy"});
    world.start("sim-token-secret", provider);
    let sentence = "boot.mode Legacy is not among what its BMC allows (UEFI)";
    let mend = |world: &World| {
        change(world, |spec| {
            spec["redfish"]["boot"]["mode"] = json!("UEFI");
        });
    };
    world.told_and_healed(sentence, mend).await;
}

/// A disk that is not there: machines run and never become nodes.
fn without_a_disk() -> Value {
    let mut provider = virtual_machines();
    provider["proxmox"]["vmOptions"] = json!([{"name": "boot", "value": "order=scsi0"}]);
    provider
}

fn condition<'a>(claim: &'a Value, kind: &str) -> Option<&'a Value> {
    let mut all = claim["status"]["conditions"].as_array()?.iter();
    all.find(|one| one["type"] == kind)
}

#[tokio::test(start_paused = true)]
async fn ns_09_a_machine_that_does_not_join_within_five_minutes_says_why_and_another_is_tried() {
    let mut world = World::open();
    world.start("sim-token-secret", without_a_disk());
    world
        .until("it is asked for", |world| !world.claims().is_empty())
        .await;
    let first = world.claims()[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let began = world.stage.api().clock().now();
    let is_late = |claim: &Value| {
        condition(claim, "Registered")
            .is_some_and(|one| one["status"] == "False" && one["reason"] == "RegistrationTimeout")
    };
    world
        .until("the claim says why", |world| {
            world.claim(&first).is_some_and(|claim| is_late(&claim))
        })
        .await;
    let took = world.stage.api().clock().now().duration_since(began);
    assert!((295..=310).contains(&took.as_secs()), "{took}");
    let said = "the machine did not join the cluster in time";
    assert!(
        world.events().iter().any(|one| one.starts_with(said)),
        "{:#?}",
        world.events()
    );
    world
        .until(
            "it is gone with its machine, and another is tried",
            |world| {
                let name = |one: &Arc<Value>| one["metadata"]["name"] == *first;
                let claims = world.claims();
                !claims.is_empty()
                    && !claims.iter().any(name)
                    && world.proxmox.machines().len() == 1
            },
        )
        .await;
    change(&world, |spec| {
        spec["proxmox"]["vmOptions"] = json!([{"name": "boot", "value": "order=net0"}]);
    });
    world
        .until("the pod runs", |world| world.stage.running("web") == 1)
        .await;
    world
        .until("one machine is left", |world| {
            world.proxmox.machines().len() == 1 && world.claims().len() == 1
        })
        .await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn ns_09_a_pool_may_give_its_machines_more_time() {
    let mut world = World::open();
    world.start_with("sim-token-secret", without_a_disk(), |pool| {
        pool["registrationTimeout"] = json!("12m");
    });
    world
        .until("it is asked for", |world| !world.claims().is_empty())
        .await;
    let first = world.claims()[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let goes = |world: &World| {
        let claim = world.claim(&first);
        claim.is_none_or(|claim| claim["metadata"]["deletionTimestamp"].is_string())
    };
    tokio::time::sleep(Duration::from_mins(11)).await;
    assert!(!goes(&world), "it has a minute left");
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert!(goes(&world), "it was given up");
    world.end().await;
}
