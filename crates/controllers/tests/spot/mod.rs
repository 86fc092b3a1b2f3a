//! A cloudspace in one process: the embedded cluster, the simulated Rackspace Spot behind its wire, and the engine
//! speaking Karpetrack between them.
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
use joiner_controllers::dialects::karpetrack::{
    Branded, CLOUDSPACE, Karpetrack, KarpetrackOptions,
};
use joiner_controllers::edge::clients::Clients;
use joiner_controllers::record::ClassRecord;
use joiner_controllers::{Decide, Engine, Settings};
use joiner_providers::http::Http;
use joiner_providers::rackspace::{Rackspace, RackspaceOptions};
use joiner_providers::{Provider, ProviderError};
use joiner_sim::clouds::rackspace::{RackspaceCloud, RackspaceCloudOptions};
use serde_json::{Value, json};

use self::stage::Stage;

pub const POOLS: &str = "spotnodepools.karpetrack.io";
pub const NODES: &str = "spotnodes.karpetrack.io";

/// The provider of the one cloudspace, over the wire of the simulated cloud.
struct Space {
    cloud: RackspaceCloud,
    clock: joiner_embedded::clock::Clock,
}

#[async_trait]
impl ClassFactory for Space {
    fn kind(&self) -> ClassKind {
        CLOUDSPACE
    }

    fn family(&self) -> &'static str {
        "karpetrack"
    }

    fn has_objects(&self) -> bool {
        false
    }

    async fn build(
        &self,
        class: &ClassRecord,
        _: &ClassSite<'_>,
    ) -> Result<Arc<dyn Provider>, ProviderError> {
        let clock = self.clock.clone();
        let options =
            RackspaceOptions::new("cluster-1", &*class.key.name, "sim-refresh-token".into())
                .unwrap();
        let http = Http::new(self.cloud.router());
        let provider = Rackspace::new(http, options, Arc::new(move || clock.now()))?;
        Ok(Arc::new(Branded(Arc::new(provider))))
    }
}

pub struct World {
    stage: Stage,
    pub cloud: RackspaceCloud,
    options: KarpetrackOptions,
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

/// A market that stands still, and servers that come within minutes.
pub fn quick() -> RackspaceCloudOptions {
    RackspaceCloudOptions {
        arrives_min: Duration::from_mins(2),
        arrives_max: Duration::from_mins(4),
        ..RackspaceCloudOptions::calm(1)
    }
}

impl World {
    pub fn start() -> Self {
        Self::with(quick(), KarpetrackOptions::new("demo"))
    }

    pub fn with(cloud: RackspaceCloudOptions, options: KarpetrackOptions) -> Self {
        Self::deciding(cloud, options, Settings::default(), None)
    }

    pub fn deciding(
        cloud: RackspaceCloudOptions,
        options: KarpetrackOptions,
        settings: Settings,
        decide: Option<Arc<dyn Decide>>,
    ) -> Self {
        let stage = Stage::new(settings, decide, "512Mi");
        let api = stage.api();
        let cloud = RackspaceCloud::new(
            cloud,
            api.clock().clone(),
            Arc::new(stage.cluster.kubelets().clone()),
        )
        .with_api(api);
        let running = cloud.clone();
        let clouds = tokio::task::spawn(async move { running.run().await });
        let mut world = World {
            stage,
            cloud,
            options,
            clouds,
        };
        world.engine = Some(world.engine("first"));
        world
    }

    /// Another engine on the same cluster.
    pub fn engine(&self, identity: &str) -> Engine {
        let karpetrack = |clients: &Clients| -> Vec<Arc<dyn Dialect>> {
            let options = self.options.clone();
            vec![Arc::new(Karpetrack::new(clients.clone(), options))]
        };
        let space = Space {
            cloud: self.cloud.clone(),
            clock: self.api().clock().clone(),
        };
        self.engine_of(identity, karpetrack, vec![Arc::new(space)])
    }

    /// A SpotNodePool with this spec.
    pub fn pool(&self, name: &str, spec: Value) {
        let pool = json!({"apiVersion": "karpetrack.io/v1alpha1", "kind": "SpotNodePool",
            "metadata": {"name": name}, "spec": spec});
        self.api().create(POOLS, "", pool).unwrap();
    }

    pub fn change_pool(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let api = self.api();
        let mut pool = (*api.get(POOLS, "", name).unwrap()).clone();
        change(&mut pool["spec"]);
        api.update(POOLS, pool).unwrap();
    }

    pub fn spot_nodes(&self) -> Vec<Arc<Value>> {
        self.api().list(NODES)
    }

    /// The only SpotNode that is not on its way out.
    pub fn only(&self) -> Arc<Value> {
        let mut all = self.spot_nodes();
        all.retain(|one| one["metadata"]["deletionTimestamp"].is_null());
        assert_eq!(all.len(), 1, "{all:#?}");
        all.remove(0)
    }

    /// What the cloud sells the server class that a SpotNode is of for.
    pub fn reprice(&self, class: &str, mills: u32) {
        self.cloud
            .change_class(class, |class| class.pinned = Some(mills));
    }

    /// A condition of a pool: its status, reason and message.
    pub fn condition(&self, pool: &str, kind: &str) -> Option<(String, String, String)> {
        let pool = self.api().get(POOLS, "", pool).ok()?;
        let all = pool["status"]["conditions"].as_array()?;
        let one = all.iter().find(|one| one["type"] == kind)?;
        let text = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
        Some((text("status"), text("reason"), text("message")))
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
        self.within(Duration::from_mins(90), what, holds).await;
    }

    pub async fn within(&self, limit: Duration, what: &str, mut holds: impl FnMut(&World) -> bool) {
        let picture = || {
            let nodes = self.spot_nodes();
            let nodes = nodes
                .iter()
                .map(|one| format!("{} {}", one["metadata"]["name"], one["status"]));
            let nodes: Vec<String> = nodes.collect();
            let pools = self.api().list(POOLS);
            let pools = pools.iter().map(|one| one["status"].to_string());
            format!("{nodes:#?}\n{:#?}", pools.collect::<Vec<_>>())
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

/// Minutes of virtual time.
pub async fn minutes(count: u64) {
    tokio::time::sleep(Duration::from_mins(count)).await;
}

/// The phase of a SpotNode.
pub fn phase(node: &Value) -> &str {
    node["status"]["phase"].as_str().unwrap_or_default()
}
