//! What simulated clouds have sold stands in a ConfigMap, so that their machines outlive the process as real ones would.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use joiner_controllers::edge::clients::{Clients, WriteError};
use joiner_controllers::edge::tasks::Tasks;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tracing::{info, warn};

const KEY: &str = "pools.json";
const MANAGER: &str = "joiner-mock";
/// How often its memory is compared with what it knows.
const EVERY: Duration = Duration::from_millis(500);

/// A simulated cloud that can go on where another process ended.
#[async_trait]
pub(super) trait Played: Clone + Send + Sync + 'static {
    /// Name of the ConfigMap.
    const MEMORY: &'static str;
    /// Everything that was sold.
    fn memory(&self) -> Value;
    /// Goes on from there; says how many there are.
    fn restore(&self, known: &Value) -> usize;
    /// Another process plays from now on.
    fn rest(&self);
    /// Plays.
    async fn play(&self);
}

/// Plays a cloud while this process leads.
pub(super) fn play<C: Played>(cloud: C, clients: &Clients, namespace: &str, tasks: &Tasks) {
    let playing = Playing {
        cloud,
        clients: clients.clone(),
        api: Api::namespaced(clients.writes.clone(), namespace),
    };
    tasks.supervise(C::MEMORY, move || {
        let playing = playing.clone();
        async move { playing.run().await }
    });
}

#[derive(Clone)]
struct Playing<C> {
    cloud: C,
    clients: Clients,
    api: Api<ConfigMap>,
}

impl<C: Played> Playing<C> {
    async fn run(&self) {
        loop {
            let Some(term) = self.clients.fence.term() else {
                tokio::time::sleep(EVERY).await;
                continue;
            };
            match self.load().await {
                Ok(known) => {
                    let count = self.cloud.restore(&known);
                    info!(
                        sold = count,
                        memory = C::MEMORY,
                        "mock mode: no real API is called"
                    );
                }
                Err(error) => {
                    warn!(%error, "what the simulated cloud has sold cannot be read yet");
                    tokio::time::sleep(EVERY).await;
                    continue;
                }
            }
            tokio::select! {
                biased;
                () = self.remember(term) => self.cloud.rest(),
                () = self.cloud.play() => {}
            }
        }
    }

    /// Writes down what changes, until the term ends.
    async fn remember(&self, term: u64) {
        let mut written = Value::Null;
        while self.clients.fence.term() == Some(term) {
            let known = self.cloud.memory();
            if known != written {
                match self.store(&known).await {
                    Ok(()) => written = known,
                    Err(error) => {
                        warn!(%error, "what the simulated cloud has sold is not written down yet");
                    }
                }
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    async fn load(&self) -> Result<Value, WriteError> {
        let map = self.api.get_opt(C::MEMORY).await?;
        let data: BTreeMap<String, String> = map.and_then(|map| map.data).unwrap_or_default();
        let text = data.get(KEY).map_or("[]", String::as_str);
        Ok(serde_json::from_str(text).unwrap_or_else(|_| json!([])))
    }

    async fn store(&self, known: &Value) -> Result<(), WriteError> {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": C::MEMORY}, "data": {KEY: known.to_string()}});
        let parameters = PatchParams::apply(MANAGER).force();
        self.api
            .patch(C::MEMORY, &parameters, &Patch::Apply(map))
            .await?;
        Ok(())
    }
}
