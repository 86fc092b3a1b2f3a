//! Hardware that two families buy from in one cluster: Karpenter's NodePools through node classes, KubeNodeSmith's pools
//! through providers. It is one stock, also when both buy in the same instant and when another process takes over.

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
use joiner_controllers::classes::nodesmith::NodeSmithClasses;
use joiner_controllers::classes::proxmox::{PROXMOX, ProxmoxClasses};
use joiner_controllers::classes::redfish::{REDFISH, RedfishClasses, SimulatedBmcs};
use joiner_controllers::dialect::{Dialect, Secrets};
use joiner_controllers::dialects::karpenter::Karpenter;
use joiner_controllers::dialects::nodesmith::NodeSmith;
use joiner_controllers::edge::clients::{Clients, Fence};
use joiner_controllers::market::slots::ClusterSecrets;
use joiner_controllers::{Engine, Settings};
use joiner_providers::http::Http;
use joiner_providers::redfish::Credentials;
use joiner_sim::clouds::proxmox::{ProxmoxCloud, ProxmoxCloudOptions};
use joiner_sim::clouds::redfish::{HostSetup, Model, RedfishFleet};
use joiner_sim::clouds::sim::Rack;
use serde_json::{Value, json};
use stage::Stage;

const HOME: &str = "kubenodesmith";
const GIB: u64 = 1 << 30;

/// One cluster, one Proxmox cluster, one rack of BMCs.
struct World {
    stage: Stage,
    proxmox: ProxmoxCloud,
    metal: RedfishFleet,
    model: Model,
    hardware: Vec<tokio::task::JoinHandle<()>>,
}

struct Bmcs(RedfishFleet, Model);

impl SimulatedBmcs for Bmcs {
    fn plug(&self, host: &RedfishHost) -> (Http, Credentials) {
        let authority = host.address.trim_start_matches("https://");
        self.0
            .add_missing(HostSetup::new(authority, self.1.clone()));
        let credentials = Credentials {
            username: "admin".to_owned(),
            password: "sim-password".into(),
        };
        (Http::new(self.0.router()), credentials)
    }
}

fn proxmox_settings(tag: &str, first: u32) -> Value {
    json!({
        "endpoint": "https://10.0.4.30:8006/api2/json",
        "vmIDRange": {"lower": first, "upper": first + 99},
        "managedNodeTag": tag,
        "networkInterfaces": [{"name": "net0", "model": "virtio", "bridge": "vmbr0"}],
    })
}

fn redfish_settings(hosts: u32) -> Value {
    let hosts = (1..=hosts).map(|host| {
        json!({"name": format!("metal-{host}"), "address": format!("https://10.0.9.{host}"),
            "cpuCores": 16, "memoryMiB": 65536})
    });
    json!({"hosts": hosts.collect::<Vec<Value>>()})
}

impl World {
    fn open(hosts: usize, model: Model) -> Self {
        let mut stage = Stage::new(Settings::default(), None, "3Gi");
        stage.durable = true;
        let clock = stage.api().clock().clone();
        let rack: Arc<dyn Rack> = Arc::new(stage.cluster.kubelets().clone());
        let proxmox = ProxmoxCloud::new(
            ProxmoxCloudOptions::of_hosts(hosts),
            clock.clone(),
            Arc::clone(&rack),
        );
        let metal = RedfishFleet::new(clock, rack);
        let (virtual_, bare) = (proxmox.clone(), metal.clone());
        let hardware = vec![
            tokio::task::spawn(async move { virtual_.run().await }),
            tokio::task::spawn(async move { bare.run().await }),
        ];
        let api = stage.api();
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}});
        api.create("namespaces", "", namespace).unwrap();
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token", "namespace": HOME},
            "stringData": {"PROXMOX_TOKEN_ID": "joiner@pve!sim", "PROXMOX_SECRET": "sim-token-secret"}});
        api.create("secrets", HOME, secret).unwrap();
        World {
            stage,
            proxmox,
            metal,
            model,
            hardware,
        }
    }

    /// A process that serves both families, with everything that it remembers.
    fn engine(&self, identity: &str) -> Engine {
        let clients = Clients::over(self.stage.cluster.server(), Fence::open());
        let secrets: Arc<dyn Secrets> = Arc::new(ClusterSecrets(clients));
        let clock = self.stage.api().clock().clone();
        let now: Arc<dyn Fn() -> Timestamp + Send + Sync> = Arc::new(move || clock.now());
        let proxmox = ProxmoxClasses::new(Arc::clone(&secrets), HOME, Arc::clone(&now))
            .simulated(Http::new(self.proxmox.router()));
        let bmcs = Bmcs(self.metal.clone(), self.model.clone());
        let metal = RedfishClasses::new(secrets, HOME, now).simulated(Arc::new(bmcs));
        let smith = NodeSmithClasses::new(proxmox.clone(), metal.clone());
        let dialects = |clients: &Clients| -> Vec<Arc<dyn Dialect>> {
            vec![
                Arc::new(Karpenter::new(clients.clone(), vec![PROXMOX, REDFISH])),
                Arc::new(NodeSmith::new(clients.clone())),
            ]
        };
        let classes = vec![
            Arc::new(proxmox) as Arc<dyn joiner_controllers::dialect::ClassFactory>,
            Arc::new(metal),
            Arc::new(smith),
        ];
        self.stage.engine_of(identity, dialects, classes)
    }

    fn create(
        &self,
        resource: &str,
        version: &str,
        kind: &str,
        (namespace, name): (&str, &str),
        spec: &Value,
    ) {
        let mut metadata = json!({"name": name});
        if !namespace.is_empty() {
            metadata["namespace"] = json!(namespace);
        }
        let object =
            json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec});
        self.stage
            .api()
            .create(resource, namespace, object)
            .unwrap();
    }

    /// A NodePool on a node class of this kind.
    fn karpenter(&self, kind: &str, plural: &str, spec: &Value) {
        let class = format!("{plural}.joiner.dev");
        self.create(&class, "joiner.dev/v1alpha1", kind, ("", "racks"), spec);
        let spec = json!({
            "disruption": {"consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]},
            "template": {
                "metadata": {"labels": {"family": "karpenter"}},
                "spec": {"nodeClassRef": {"group": "joiner.dev", "kind": kind, "name": "racks"},
                    "requirements": []},
            },
        });
        self.create(
            "nodepools.karpenter.sh",
            "karpenter.sh/v1",
            "NodePool",
            ("", "racks"),
            &spec,
        );
    }

    /// A pool of KubeNodeSmith on a provider.
    fn smith(&self, provider: Value) {
        let version = "kubenodesmith.parawell.cloud/v1alpha1";
        let create = |plural: &str, kind: &str, spec: Value| {
            let resource = format!("{plural}.kubenodesmith.parawell.cloud");
            self.create(&resource, version, kind, (HOME, "racks"), &spec);
        };
        create("nodesmithproviders", "NodeSmithProvider", provider);
        let pool = json!({"providerRef": "racks", "machineTemplate": {"labels": {"family": "smith"}},
            "limits": {"minNodes": 0, "maxNodes": 0, "cpuCores": 0, "memoryMiB": 0}});
        create("nodesmithpools", "NodeSmithPool", pool);
        create(
            "nodesmithcontrolplanes",
            "NodeSmithControlPlane",
            json!({"pools": ["racks"]}),
        );
    }

    /// Pods that only nodes of one family may run.
    fn pods(&self, family: &str, count: u32, cpu: &str) {
        self.stage.deployment(family, count, cpu, |deployment| {
            let pod = &mut deployment["spec"]["template"]["spec"];
            pod["nodeSelector"] = json!({"family": family});
        });
    }

    fn running(&self) -> usize {
        self.stage.running("karpenter") + self.stage.running("smith")
    }

    async fn until(&self, what: &str, mut holds: impl FnMut(&World) -> bool) {
        let picture = || {
            let api = self.stage.api();
            let kinds = [
                "nodeclaims.karpenter.sh",
                "nodesmithclaims.kubenodesmith.parawell.cloud",
                "nodepools.karpenter.sh",
                "nodesmithpools.kubenodesmith.parawell.cloud",
            ];
            let all = kinds.map(|kind| api.list(kind));
            let lines = all.iter().flatten();
            let lines = lines.map(|one| format!("{} {}", one["metadata"]["name"], one["status"]));
            format!("{:#?}", lines.collect::<Vec<String>>())
        };
        let limit = Duration::from_hours(1);
        self.stage
            .within(limit, what, || holds(self), picture)
            .await;
    }

    async fn stop(self) {
        self.stage.stop().await;
        for one in self.hardware {
            one.abort();
        }
    }

    fn check_hosts(&self) {
        for (host, sold) in self.proxmox.most_sold() {
            assert!(sold <= 62 * GIB, "{host} was sold {} GiB", sold / GIB);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_proxmox_cluster_behind_both_families_is_never_oversold() {
    let mut world = World::open(2, Model::plain());
    world.karpenter(
        "ProxmoxNodeClass",
        "proxmoxnodeclasses",
        &json!({"credentialsSecretRef": {"name": "token", "namespace": HOME},
            "proxmox": proxmox_settings("joiner", 2000), "machines": {"maxMemoryMiB": 16384}}),
    );
    world.smith(
        json!({"type": "proxmox", "credentialsSecretRef": {"name": "token"},
        "proxmox": proxmox_settings("kubenodesmith-managed", 1250)}),
    );
    world.stage.engine = Some(world.engine("first"));
    // Two hosts have 124 GiB; both families ask for 90 at the same moment.
    world.pods("karpenter", 30, "500m");
    world.pods("smith", 30, "500m");
    world
        .until("what fits runs", |world| {
            world.check_hosts();
            world.running() >= 30
        })
        .await;
    for _ in 0..600 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.check_hosts();
    }
    let own = |tag: &str| {
        let all = world.proxmox.machines();
        let tagged = all.values().filter(|vm| vm.config["tags"] == tag);
        tagged.count()
    };
    assert!(own("joiner") > 0 && own("kubenodesmith-managed") > 0);
    assert!(world.running() < 60, "all of it cannot fit");
    // Room that one family gives back is there for the other.
    world.stage.scale("karpenter", 0);
    world
        .until("the other family has it", |world| {
            world.check_hosts();
            world.stage.running("smith") == 30
        })
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_rack_behind_both_families_is_sold_once_also_when_another_process_takes_over() {
    // A BMC whose asset tag cannot be written, and whose host takes long to be on.
    let model = Model::all().into_iter();
    let model = model
        .rev()
        .find(|one| one.name == "supermicro-x11")
        .unwrap();
    let mut world = World::open(0, model);
    world.karpenter(
        "RedfishNodeClass",
        "redfishnodeclasses",
        &json!({"redfish": redfish_settings(3)}),
    );
    world.smith(json!({"type": "redfish", "redfish": redfish_settings(3)}));
    world.stage.engine = Some(world.engine("first"));
    world.pods("karpenter", 2, "9");
    world.pods("smith", 2, "9");
    let claimed = |world: &World| {
        let maps = world.stage.api().list("configmaps");
        let phase = |map: &Arc<Value>| {
            let name = map["metadata"]["name"].as_str().unwrap_or_default();
            name.starts_with("joiner-ledger-")
                .then(|| map["data"]["value"].as_str().unwrap_or_default().to_owned())
        };
        maps.iter().filter_map(phase).collect::<Vec<String>>()
    };
    world
        .until("hosts are asked to power on", |world| {
            claimed(world)
                .iter()
                .any(|one| one.contains("starting") || one.contains("Starting"))
        })
        .await;
    world.stage.engine.take().unwrap().kill().await;
    world.stage.engine = Some(world.engine("second"));
    world
        .until("three pods run, one on each host", |world| {
            let claims = claimed(world);
            assert!(claims.len() <= 3, "{claims:#?}");
            world.running() == 3
        })
        .await;
    for _ in 0..600 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(claimed(&world).len() <= 3);
    }
    assert_eq!(world.running(), 3);
    for host in 1..=3 {
        let truth = world.metal.truth(&format!("10.0.9.{host}")).unwrap();
        let boots = (truth.network_boots, truth.other_boots, truth.disturbed);
        assert_eq!(boots, (1, 0, 0), "host {host}: {truth:?}");
    }
    world.stop().await;
}
