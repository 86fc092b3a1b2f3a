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

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use joiner_controllers::clients::{Clients, Fence};
use joiner_controllers::clock::Clock;
use joiner_controllers::dialect::{ClassFactory, ClassKind, Secrets};
use joiner_controllers::dialects::karpetrack::{
    Branded, CLOUDSPACE, Karpetrack, KarpetrackOptions,
};
use joiner_controllers::lease::LeaseOptions;
use joiner_controllers::record::ClassRecord;
use joiner_controllers::{Decide, Engine, EngineOptions, Settings};
use joiner_providers::http::Http;
use joiner_providers::rackspace::{Rackspace, RackspaceOptions};
use joiner_providers::{Provider, ProviderError};
use joiner_sim::api::Local;
use joiner_sim::clouds::rackspace::{RackspaceCloud, RackspaceCloudOptions};
use joiner_sim::cluster::{Cluster, ClusterOptions};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

pub const POOLS: &str = "spotnodepools.karpetrack.io";
pub const NODES: &str = "spotnodes.karpetrack.io";

struct WorldClock(joiner_sim::clock::Clock);

impl Clock for WorldClock {
    fn now(&self) -> jiff::Timestamp {
        self.0.now()
    }
}

/// The provider of the one cloudspace, over the wire of the simulated cloud.
struct Space {
    cloud: RackspaceCloud,
    clock: joiner_sim::clock::Clock,
}

#[async_trait]
impl ClassFactory for Space {
    fn kind(&self) -> ClassKind {
        CLOUDSPACE
    }

    fn has_objects(&self) -> bool {
        false
    }

    async fn build(
        &self,
        class: &ClassRecord,
        _: &dyn Secrets,
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
    pub cluster: Cluster,
    pub cloud: RackspaceCloud,
    pub engine: Option<Engine>,
    pub options: KarpetrackOptions,
    pub settings: Settings,
    pub decide: Option<Arc<dyn Decide>>,
    running: tokio::task::JoinHandle<()>,
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
        // What happened, for a test that fails: RUST_LOG=info cargo test.
        let _ = tracing_subscriber::fmt()
            .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
            .with_test_writer()
            .try_init();
        let cluster = Cluster::start(&ClusterOptions::default());
        let api = cluster.api();
        for crd in joiner_api::crds(None) {
            let object = serde_json::to_value(&crd).unwrap();
            api.create("customresourcedefinitions.apiextensions.k8s.io", "", object)
                .unwrap();
        }
        let cloud = RackspaceCloud::new(
            cloud,
            api.clock().clone(),
            Arc::new(cluster.kubelets().clone()),
        )
        .with_api(api);
        let clouds = cloud.clone();
        let running = tokio::task::spawn(async move { clouds.run().await });
        let mut world = World {
            cluster,
            cloud,
            engine: None,
            options,
            settings,
            decide,
            running,
        };
        world.engine = Some(world.engine("first"));
        world
    }

    pub fn engine(&self, identity: &str) -> Engine {
        let clients = Clients::over(self.cluster.server(), Fence::closed());
        let clock = self.api().clock().clone();
        Engine::start(
            EngineOptions {
                dialects: vec![Arc::new(Karpetrack::new(
                    clients.clone(),
                    self.options.clone(),
                ))],
                classes: vec![Arc::new(Space {
                    cloud: self.cloud.clone(),
                    clock: clock.clone(),
                })],
                clock: Arc::new(WorldClock(clock)),
                settings: Settings {
                    seed: identity.len() as u64,
                    ..self.settings.clone()
                },
                lease: Some(LeaseOptions::new("kube-system", "karpetrack", identity)),
                decide: self.decide.clone(),
                clients,
            },
            &mut Registry::default(),
        )
    }

    pub fn api(&self) -> Local {
        self.cluster.api()
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

    pub fn deployment(
        &self,
        name: &str,
        replicas: u32,
        cpu: &str,
        change: impl FnOnce(&mut Value),
    ) {
        let mut deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"containers": [{
                        "name": "main", "image": "none",
                        "resources": {"requests": {"cpu": cpu, "memory": "512Mi"}}
                    }]}
                }
            }
        });
        change(&mut deployment);
        self.api()
            .create("deployments.apps", "default", deployment)
            .unwrap();
    }

    pub fn scale(&self, name: &str, replicas: u32) {
        let api = self.api();
        let mut deployment = (*api.get("deployments.apps", "default", name).unwrap()).clone();
        deployment["spec"]["replicas"] = json!(replicas);
        api.update("deployments.apps", deployment).unwrap();
    }

    /// Pods of an app that run.
    pub fn running(&self, app: &str) -> usize {
        let of_app = |pod: &&Arc<Value>| {
            pod["metadata"]["labels"]["app"] == app
                && pod["metadata"]["deletionTimestamp"].is_null()
                && pod["status"]["phase"] == "Running"
        };
        self.api().list("pods").iter().filter(of_app).count()
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
        let end = tokio::time::Instant::now() + limit;
        while !holds(self) {
            if tokio::time::Instant::now() > end {
                let nodes: Vec<String> = self
                    .spot_nodes()
                    .iter()
                    .map(|one| format!("{} {}", one["metadata"]["name"], one["status"]))
                    .collect();
                let pools: Vec<String> = self
                    .api()
                    .list(POOLS)
                    .iter()
                    .map(|one| one["status"].to_string())
                    .collect();
                panic!("{limit:?} passed and still not: {what}\n{nodes:#?}\n{pools:#?}");
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    pub async fn stop(mut self) {
        if let Some(engine) = self.engine.take() {
            engine.stop().await;
        }
        self.running.abort();
        self.cluster.stop().await;
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
