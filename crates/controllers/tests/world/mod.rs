//! A whole world in one process: the embedded cluster, a simulated cloud, and the engine between them.
#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc,
    clippy::unused_async,
    clippy::disallowed_methods,
    missing_docs,
    unreachable_pub,
    reason = "only tests use this"
)]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use joiner_controllers::clients::{Clients, Fence};
use joiner_controllers::clock::Clock;
use joiner_controllers::dialect::{ClassFactory, ClassKind, Dialect, Secrets};
use joiner_controllers::dialects::karpenter::Karpenter;
use joiner_controllers::lease::LeaseOptions;
use joiner_controllers::metrics::Invariant;
use joiner_controllers::record::ClassRecord;
use joiner_controllers::{Decide, Engine, EngineOptions, Settings};
use joiner_providers::{Provider, ProviderError};
use joiner_sim::api::Local;
use joiner_sim::clouds::sim::{SimCloud, SimCloudOptions, built_in};
use joiner_sim::cluster::{Cluster, ClusterOptions};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

pub const SIM: ClassKind = ClassKind {
    group: "joiner.dev",
    version: "v1alpha1",
    kind: "SimNodeClass",
    plural: "simnodeclasses",
};

/// The cluster's clock.
struct WorldClock(joiner_sim::clock::Clock);

impl Clock for WorldClock {
    fn now(&self) -> jiff::Timestamp {
        self.0.now()
    }
}

/// Every class of a kind is one cloud, but for those called `broken`.
pub struct OneCloud(pub ClassKind, pub SimCloud);

#[async_trait]
impl ClassFactory for OneCloud {
    fn kind(&self) -> ClassKind {
        self.0.clone()
    }

    fn has_objects(&self) -> bool {
        self.0 == SIM
    }

    async fn build(
        &self,
        class: &ClassRecord,
        _: &dyn Secrets,
    ) -> Result<Arc<dyn Provider>, ProviderError> {
        if &*class.key.name == "broken" {
            let said = "spec.catalog: there is no ConfigMap default/types".to_owned();
            return Err(ProviderError::Invalid(said));
        }
        Ok(Arc::new(self.1.clone()))
    }
}

pub struct World {
    pub cluster: Cluster,
    pub cloud: SimCloud,
    pub engine: Option<Engine>,
    pub clouds: tokio::task::JoinHandle<()>,
    pub settings: Settings,
    pub decide: Option<Arc<dyn Decide>>,
}

impl World {
    /// A cluster without nodes, the CRDs, a class called `sim`, and a running engine.
    pub async fn start() -> Self {
        Self::with(SimCloudOptions::calm(built_in(), 1), Settings::default()).await
    }

    pub async fn with(options: SimCloudOptions, settings: Settings) -> Self {
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
        api.create(
            "simnodeclasses.joiner.dev",
            "",
            json!({"apiVersion": "joiner.dev/v1alpha1", "kind": "SimNodeClass",
                "metadata": {"name": "sim"}, "spec": {}}),
        )
        .unwrap();
        let cloud = SimCloud::new(
            options,
            api.clock().clone(),
            Arc::new(cluster.kubelets().clone()),
        );
        let running = cloud.clone();
        let clouds = tokio::task::spawn(async move { running.run().await });
        let mut world = World {
            cluster,
            cloud,
            engine: None,
            clouds,
            settings,
            decide: None,
        };
        world.engine = Some(world.engine("first"));
        world
    }

    /// Another engine on the same cluster.
    pub fn engine(&self, identity: &str) -> Engine {
        let karpenter = |clients: &Clients| -> Vec<Arc<dyn Dialect>> {
            vec![Arc::new(Karpenter::new(clients.clone(), vec![SIM]))]
        };
        let cloud: Arc<dyn ClassFactory> = Arc::new(OneCloud(SIM, self.cloud.clone()));
        self.engine_of(identity, karpenter, vec![cloud])
    }

    /// Another engine on the same cluster that speaks something else.
    pub fn engine_of(
        &self,
        identity: &str,
        dialects: impl Fn(&Clients) -> Vec<Arc<dyn Dialect>>,
        classes: Vec<Arc<dyn ClassFactory>>,
    ) -> Engine {
        let clients = Clients::over(self.cluster.server(), Fence::closed());
        Engine::start(
            EngineOptions {
                dialects: dialects(&clients),
                classes,
                clock: Arc::new(WorldClock(self.api().clock().clone())),
                settings: Settings {
                    seed: identity.len() as u64,
                    ..self.settings.clone()
                },
                lease: Some(LeaseOptions::new("kube-system", "joiner", identity)),
                decide: self.decide.clone(),
                clients,
            },
            &mut Registry::default(),
        )
    }

    pub fn api(&self) -> Local {
        self.cluster.api()
    }

    /// A NodePool; `change` makes it a special one.
    pub fn pool(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut pool = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": name},
            "spec": {
                "disruption": {"consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]},
                "template": {"spec": {
                    "nodeClassRef": {"group": "joiner.dev", "kind": "SimNodeClass", "name": "sim"},
                    "requirements": []
                }}
            }
        });
        change(&mut pool);
        self.api()
            .create("nodepools.karpenter.sh", "", pool)
            .unwrap();
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
                        "resources": {"requests": {"cpu": cpu, "memory": "256Mi"}}
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
        self.api()
            .list("pods")
            .iter()
            .filter(|pod| {
                pod["metadata"]["labels"]["app"] == app
                    && pod["metadata"]["deletionTimestamp"].is_null()
            })
            .filter(|pod| pod["status"]["phase"] == "Running")
            .count()
    }

    pub fn claims(&self) -> Vec<Arc<Value>> {
        self.api().list("nodeclaims.karpenter.sh")
    }

    pub fn nodes(&self) -> usize {
        self.api().list("nodes").len()
    }

    /// Waits in virtual time.
    pub async fn until(&self, what: &str, mut holds: impl FnMut(&World) -> bool) {
        self.within(Duration::from_mins(30), what, &mut holds).await;
    }

    pub async fn within(
        &self,
        limit: Duration,
        what: &str,
        holds: &mut impl FnMut(&World) -> bool,
    ) {
        let end = tokio::time::Instant::now() + limit;
        while !holds(self) {
            if tokio::time::Instant::now() > end {
                let claims: Vec<String> = self
                    .claims()
                    .iter()
                    .map(|one| {
                        format!(
                            "{} {}",
                            one["metadata"]["name"], one["status"]["conditions"]
                        )
                    })
                    .collect();
                let view = self.engine.as_ref().map(|engine| {
                    let context = engine.context();
                    let world = context.view.read();
                    let waiting = world.pods.iter().filter(|pod| pod.provisionable()).count();
                    format!(
                        "may act: {}, lists missing: {:?}, pods: {} of {}, waiting: {waiting}",
                        context.clients.fence.holds(),
                        world.missing(),
                        world.pods.len(),
                        self.api().list("pods").len(),
                    )
                });
                panic!("{limit:?} passed and still not: {what}\n{view:?}\nclaims: {claims:#?}");
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    pub async fn stop(mut self) {
        if let Some(engine) = self.engine.take() {
            let violations = &engine.context().metrics.violations;
            for invariant in ["S1", "S3", "S5", "S15", "S22", "S25"] {
                let invariant = invariant.to_owned();
                let found = violations.get_or_create(&Invariant { invariant }).get();
                assert_eq!(found, 0, "a promise did not hold");
            }
            engine.stop().await;
        }
        self.clouds.abort();
        self.cluster.stop().await;
    }
}

/// Seconds of virtual time.
pub async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// Whether a condition of an object is true.
pub fn is_true(object: &Value, kind: &str) -> bool {
    object["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|one| one["type"] == kind && one["status"] == "True")
}
