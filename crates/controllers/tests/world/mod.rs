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

#[path = "../stage/mod.rs"]
mod stage;

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use joiner_controllers::dialect::{ClassFactory, ClassKind, ClassSite, Dialect};
use joiner_controllers::dialects::karpenter::Karpenter;
use joiner_controllers::edge::clients::Clients;
use joiner_controllers::record::ClassRecord;
use joiner_controllers::{Engine, Settings};
use joiner_providers::{Provider, ProviderError};
use joiner_sim::clouds::sim::{SimCloud, SimCloudOptions, built_in};
use serde_json::{Value, json};

use self::stage::Stage;

pub const SIM: ClassKind = ClassKind {
    group: "joiner.dev",
    version: "v1alpha1",
    kind: "SimNodeClass",
    plural: "simnodeclasses",
};

/// Every class of a kind is one cloud, but for those called `broken`.
pub struct OneCloud(pub ClassKind, pub SimCloud);

#[async_trait]
impl ClassFactory for OneCloud {
    fn kind(&self) -> ClassKind {
        self.0.clone()
    }

    fn family(&self) -> &'static str {
        if self.0 == SIM {
            "karpenter"
        } else {
            "karpetrack"
        }
    }

    fn has_objects(&self) -> bool {
        self.0 == SIM
    }

    async fn build(
        &self,
        class: &ClassRecord,
        _: &ClassSite<'_>,
    ) -> Result<Arc<dyn Provider>, ProviderError> {
        if &*class.key.name == "broken" {
            let said = "spec.catalog: there is no ConfigMap default/types".to_owned();
            return Err(ProviderError::Invalid(said));
        }
        Ok(Arc::new(self.1.clone()))
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

impl World {
    /// A cluster without nodes, the CRDs, a class called `sim`, and a running engine.
    pub async fn start() -> Self {
        Self::with(SimCloudOptions::calm(built_in(), 1), Settings::default()).await
    }

    pub async fn with(options: SimCloudOptions, settings: Settings) -> Self {
        let stage = Stage::new(settings, None, "256Mi");
        let api = stage.api();
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
            Arc::new(stage.cluster.kubelets().clone()),
        );
        let running = cloud.clone();
        let clouds = tokio::task::spawn(async move { running.run().await });
        let mut world = World {
            stage,
            cloud,
            clouds,
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
        let claims = || {
            let claims = self.claims();
            let claims = claims.iter().map(|one| {
                let conditions = &one["status"]["conditions"];
                format!("{} {conditions}", one["metadata"]["name"])
            });
            format!("claims: {:#?}", claims.collect::<Vec<_>>())
        };
        self.stage.within(limit, what, || holds(self), claims).await;
    }

    pub async fn stop(self) {
        self.clouds.abort();
        self.stage.stop().await;
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
