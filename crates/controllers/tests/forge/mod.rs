//! KubeNodeSmith's objects in one process: the embedded cluster, a simulated cloud behind every `NodeSmithProvider`, and
//! the engine speaking `NodeSmith` between them.
#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc,
    clippy::disallowed_methods,
    clippy::needless_pass_by_value,
    missing_docs,
    unreachable_pub,
    reason = "only tests use this"
)]

#[path = "../stage/mod.rs"]
mod stage;

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use joiner_controllers::dialect::{ClassFactory, ClassKind, ClassSite, Dialect};
use joiner_controllers::dialects::karpenter::Karpenter;
use joiner_controllers::dialects::nodesmith::{NAME, NodeSmith, PROVIDER};
use joiner_controllers::edge::clients::Clients;
use joiner_controllers::record::ClassRecord;
use joiner_controllers::{Engine, Settings};
use joiner_core::problem::{CapacityType, Catalog};
use joiner_providers::{Provider, ProviderError};
use joiner_sim::clouds::sim::{SimCloud, SimCloudOptions, built_in};
use serde_json::{Value, json};

use self::stage::Stage;

pub const PLANES: &str = "nodesmithcontrolplanes.kubenodesmith.parawell.cloud";
pub const POOLS: &str = "nodesmithpools.kubenodesmith.parawell.cloud";
pub const PROVIDERS: &str = "nodesmithproviders.kubenodesmith.parawell.cloud";
pub const CLAIMS: &str = "nodesmithclaims.kubenodesmith.parawell.cloud";
pub const NAMESPACE: &str = "kubenodesmith";
const API_VERSION: &str = "kubenodesmith.parawell.cloud/v1alpha1";

/// Every provider is one cloud, but for those called `broken`.
struct Rack(SimCloud);

#[async_trait]
impl ClassFactory for Rack {
    fn kind(&self) -> ClassKind {
        PROVIDER
    }

    fn family(&self) -> &'static str {
        NAME
    }

    async fn build(
        &self,
        class: &ClassRecord,
        site: &ClassSite<'_>,
    ) -> Result<Arc<dyn Provider>, ProviderError> {
        assert_eq!(&*site.owner.family, NAME);
        if &*class.key.name == "broken" {
            let said = "secret kubenodesmith/token has no key \"PROXMOX_SECRET\"".to_owned();
            return Err(ProviderError::Invalid(said));
        }
        Ok(Arc::new(self.0.clone()))
    }
}

pub struct World {
    stage: Stage,
    pub cloud: SimCloud,
    clouds: tokio::task::JoinHandle<()>,
}

impl Deref for World {
    type Target = Stage;

    fn deref(&self) -> &Stage {
        &self.stage
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut Stage {
        &mut self.stage
    }
}

/// Machines that stay, of one architecture, in one zone.
fn rack() -> Catalog {
    let mut catalog = built_in();
    catalog.types.retain(|kind| kind.name.ends_with("amd64"));
    for kind in &mut catalog.types {
        kind.offerings
            .retain(|one| one.capacity_type == CapacityType::OnDemand && one.zone.ends_with("-a"));
    }
    catalog
}

pub fn calm() -> SimCloudOptions {
    SimCloudOptions {
        registration: Some(Duration::from_mins(5)),
        ..SimCloudOptions::calm(rack(), 1)
    }
}

impl World {
    /// A cluster with the document's provider and control plane, and a running engine.
    pub fn start() -> Self {
        Self::with(calm())
    }

    pub fn with(options: SimCloudOptions) -> Self {
        let stage = Stage::new(Settings::default(), None, "512Mi");
        let api = stage.api();
        let cloud = SimCloud::new(
            options,
            api.clock().clone(),
            Arc::new(stage.cluster.kubelets().clone()),
        );
        let running = cloud.clone();
        let clouds = tokio::task::spawn(async move { running.run().await });
        let mut world = World {
            stage,
            cloud,
            clouds,
        };
        for namespace in [NAMESPACE, "other"] {
            world.namespace(namespace);
            world.provider(namespace, "rack");
        }
        world.engine = Some(world.engine("first"));
        world
    }

    fn namespace(&self, name: &str) {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.api().create("namespaces", "", object).unwrap();
    }

    /// Another engine on the same cluster. It speaks Karpenter too, whose pools cannot name providers.
    pub fn engine(&self, identity: &str) -> Engine {
        let dialects = |clients: &Clients| -> Vec<Arc<dyn Dialect>> {
            vec![
                Arc::new(Karpenter::new(clients.clone(), Vec::new())),
                Arc::new(NodeSmith::new(clients.clone())),
            ]
        };
        let rack: Arc<dyn ClassFactory> = Arc::new(Rack(self.cloud.clone()));
        self.engine_of(identity, dialects, vec![rack])
    }

    pub fn create(&self, resource: &str, kind: &str, namespace: &str, name: &str, spec: Value) {
        let object = json!({"apiVersion": API_VERSION, "kind": kind,
            "metadata": {"name": name, "namespace": namespace}, "spec": spec});
        self.api().create(resource, namespace, object).unwrap();
    }

    pub fn provider(&self, namespace: &str, name: &str) {
        let spec = json!({
            "type": "proxmox",
            "credentialsSecretRef": {"name": "token"},
            "proxmox": {
                "endpoint": "https://10.0.4.30:8006/api2/json",
                "vmIDRange": {"lower": 1250, "upper": 1300},
                "managedNodeTag": "kubenodesmith-managed",
            },
        });
        self.create(PROVIDERS, "NodeSmithProvider", namespace, name, spec);
    }

    pub fn plane(&self, namespace: &str, pools: &[&str]) {
        self.create(
            PLANES,
            "NodeSmithControlPlane",
            namespace,
            "plane",
            json!({ "pools": pools }),
        );
    }

    /// A pool without limits and windows; `change` makes its spec a special one.
    pub fn pool(&self, namespace: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let mut spec = json!({
            "providerRef": "rack",
            "limits": {"minNodes": 0, "maxNodes": 0, "cpuCores": 0, "memoryMiB": 0},
            "machineTemplate": {"labels": {"node-role.kubernetes.io/worker": ""}},
        });
        change(&mut spec);
        self.create(POOLS, "NodeSmithPool", namespace, name, spec);
    }

    /// A pool that is managed.
    pub fn managed(&self, name: &str, change: impl FnOnce(&mut Value)) {
        self.plane(NAMESPACE, &[name]);
        self.pool(NAMESPACE, name, change);
    }

    pub fn change(&self, resource: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let api = self.api();
        let mut object = (*api.get(resource, NAMESPACE, name).unwrap()).clone();
        change(&mut object["spec"]);
        api.update(resource, object).unwrap();
    }

    pub fn claims(&self) -> Vec<Arc<Value>> {
        self.api().list(CLAIMS)
    }

    /// The only claim that is not on its way out.
    pub fn only(&self) -> Arc<Value> {
        let mut all = self.claims();
        all.retain(|one| one["metadata"]["deletionTimestamp"].is_null());
        assert_eq!(all.len(), 1, "{all:#?}");
        all.remove(0)
    }

    pub fn nodes(&self) -> Vec<Arc<Value>> {
        self.api().list("nodes")
    }

    /// Reasons of the events about an object, and what they say.
    pub fn events(&self, about: &str) -> Vec<(String, String)> {
        self.api()
            .list("events")
            .iter()
            .filter(|event| event["involvedObject"]["name"] == about)
            .map(|event| {
                let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
                (text("reason"), text("message"))
            })
            .collect()
    }

    /// Waits in virtual time.
    pub async fn until(&self, what: &str, holds: impl FnMut(&World) -> bool) {
        self.within(Duration::from_hours(1), what, holds).await;
    }

    pub async fn within(&self, limit: Duration, what: &str, mut holds: impl FnMut(&World) -> bool) {
        let picture = || {
            let show = |all: Vec<Arc<Value>>| {
                let all = all
                    .iter()
                    .map(|one| format!("{} {}", one["metadata"]["name"], one["status"]));
                all.collect::<Vec<String>>()
            };
            let planes = self.api().list(PLANES);
            let pools = self.api().list(POOLS);
            format!(
                "{:#?}\n{:#?}\n{:#?}",
                show(self.claims()),
                show(pools),
                show(planes)
            )
        };
        self.stage
            .within(limit, what, || holds(self), picture)
            .await;
    }

    pub async fn stop(self) {
        self.clouds.abort();
        self.stage.stop().await;
    }
}

/// A condition of an object: its status, reason and message.
pub fn condition(object: &Value, kind: &str) -> (String, String, String) {
    let all = object["status"]["conditions"].as_array();
    let one = all.into_iter().flatten().find(|one| one["type"] == kind);
    let text = |key: &str| {
        let text = one.and_then(|one| one[key].as_str());
        text.unwrap_or_default().to_owned()
    };
    (text("status"), text("reason"), text("message"))
}

/// Seconds of virtual time.
pub async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}
