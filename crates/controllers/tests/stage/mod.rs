//! What every world of these tests stands on: the embedded cluster with the CRDs, an engine, and workloads.
#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc,
    clippy::disallowed_methods,
    missing_docs,
    unreachable_pub,
    reason = "only tests use this"
)]

use std::sync::Arc;
use std::time::Duration;

use joiner_controllers::dialect::{ClassFactory, Dialect};
use joiner_controllers::edge::clients::{Clients, Fence};
use joiner_controllers::edge::clock::Clock;
use joiner_controllers::edge::lease::LeaseOptions;
use joiner_controllers::edge::ledger::{ConfigMapLedgers, MemoryLedgers};
use joiner_controllers::edge::metrics::Invariant;
use joiner_controllers::{Decide, Engine, EngineOptions, Settings};
use joiner_embedded::api::Local;
use joiner_embedded::cluster::{Cluster, ClusterOptions};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

/// The cluster's clock.
struct StageClock(joiner_embedded::clock::Clock);

impl Clock for StageClock {
    fn now(&self) -> jiff::Timestamp {
        self.0.now()
    }
}

pub struct Stage {
    pub cluster: Cluster,
    pub engine: Option<Engine>,
    pub settings: Settings,
    pub decide: Option<Arc<dyn Decide>>,
    /// What a pod asks for beside its processor.
    pub memory: &'static str,
    /// Whether ledgers outlive the process, as they do in a real cluster.
    pub durable: bool,
}

impl Stage {
    /// A cluster without nodes, with every kind installed and no engine yet.
    pub fn new(settings: Settings, decide: Option<Arc<dyn Decide>>, memory: &'static str) -> Self {
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
        Stage {
            cluster,
            engine: None,
            settings,
            decide,
            memory,
            durable: false,
        }
    }

    /// An engine on the cluster.
    pub fn engine_of(
        &self,
        identity: &str,
        dialects: impl FnOnce(&Clients) -> Vec<Arc<dyn Dialect>>,
        classes: Vec<Arc<dyn ClassFactory>>,
    ) -> Engine {
        let clients = Clients::over(self.cluster.server(), Fence::closed());
        Engine::start(
            EngineOptions {
                cluster: "cluster".into(),
                ledgers: if self.durable {
                    Arc::new(ConfigMapLedgers::new(clients.clone(), "kube-system"))
                } else {
                    Arc::new(MemoryLedgers)
                },
                dialects: dialects(&clients),
                classes,
                clock: Arc::new(StageClock(self.api().clock().clone())),
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

    /// A deployment; `change` makes it a special one.
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
                        "resources": {"requests": {"cpu": cpu, "memory": self.memory}}
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

    /// Waits in virtual time; `picture` shows what there is if it never holds.
    pub async fn within(
        &self,
        limit: Duration,
        what: &str,
        mut holds: impl FnMut() -> bool,
        picture: impl FnOnce() -> String,
    ) {
        let end = tokio::time::Instant::now() + limit;
        while !holds() {
            if tokio::time::Instant::now() > end {
                let view = self.engine.as_ref().map(|engine| {
                    let context = engine.context();
                    let world = context.view.read();
                    let waiting = world.pods.iter().filter(|pod| pod.provisionable()).count();
                    format!(
                        "may act: {}, lists missing: {:?}, pods: {} of {}, waiting: {waiting}",
                        context.edge.clients.fence.holds(),
                        world.missing(),
                        world.pods.len(),
                        self.api().list("pods").len(),
                    )
                });
                let picture = picture();
                panic!("{limit:?} passed and still not: {what}\n{view:?}\n{picture}");
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Stops everything; no promise may have been broken.
    pub async fn stop(mut self) {
        if let Some(engine) = self.engine.take() {
            let violations = &engine.context().edge.metrics.violations;
            for invariant in ["S1", "S3", "S5", "S15", "S22", "S25"] {
                let invariant = invariant.to_owned();
                let found = violations.get_or_create(&Invariant { invariant }).get();
                assert_eq!(found, 0, "a promise did not hold");
            }
            engine.stop().await;
        }
        self.cluster.stop().await;
    }
}
