//! Mock mode: the simulated Rackspace Spot in this process. Its servers are simulated kubelets that join the real
//! cluster, and what it has sold stands in a ConfigMap, so that servers outlive the process as real ones would.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use joiner_controllers::edge::clients::{Clients, WriteError};
use joiner_controllers::edge::tasks::Tasks;
use joiner_embedded::clock::Clock;
use joiner_sim::clouds::rackspace::{Auctions, RackspaceCloud, RackspaceCloudOptions};
use joiner_sim::clouds::sim::Rack;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams};
use secrecy::SecretString;
use serde_json::{Value, json};
use tracing::{info, warn};

/// The cloudspace of the simulated cloud.
pub(crate) const MOCK_CLOUDSPACE: &str = "mock";
/// Its refresh token: it opens nothing else.
const TOKEN: &str = "mock-refresh-token";
/// Where its memory is.
const MEMORY: &str = "joiner-mock-rackspace";
const KEY: &str = "pools.json";
const MANAGER: &str = "joiner-mock";
/// How often its memory is compared with what it knows.
const EVERY: Duration = Duration::from_millis(500);

/// The simulated Rackspace Spot.
#[derive(Clone)]
pub(crate) struct Mock {
    cloud: RackspaceCloud,
}

/// Everything of the real one, only sooner: nobody wants to wait half an hour for a server that does not exist.
fn options() -> RackspaceCloudOptions {
    RackspaceCloudOptions {
        refresh_token: TOKEN.to_owned(),
        cloudspace: MOCK_CLOUDSPACE.to_owned(),
        auctions: Auctions {
            seed: 1,
            swing_percent: 30,
            every: Duration::from_mins(5),
        },
        decides_after: Duration::from_secs(2),
        arrives_min: Duration::from_secs(5),
        arrives_max: Duration::from_secs(20),
        stops_after: Duration::from_secs(2),
        ..RackspaceCloudOptions::calm(1)
    }
}

impl Mock {
    /// Starts it. It rests while another process leads.
    pub(crate) fn start(
        clients: &Clients,
        namespace: &str,
        rack: Arc<dyn Rack>,
        tasks: &Tasks,
    ) -> Self {
        let cloud = RackspaceCloud::new(options(), Clock::wall(), rack);
        let playing = Playing {
            cloud: cloud.clone(),
            clients: clients.clone(),
            api: Api::namespaced(clients.writes.clone(), namespace),
        };
        tasks.supervise("mock rackspace", move || {
            let playing = playing.clone();
            async move { playing.run().await }
        });
        Mock { cloud }
    }

    /// Its wire.
    pub(crate) fn router(&self) -> Router {
        self.cloud.router()
    }

    /// What opens it.
    pub(crate) fn token() -> SecretString {
        TOKEN.into()
    }
}

#[derive(Clone)]
struct Playing {
    cloud: RackspaceCloud,
    clients: Clients,
    api: Api<ConfigMap>,
}

impl Playing {
    async fn run(&self) {
        loop {
            let Some(term) = self.clients.fence.term() else {
                tokio::time::sleep(EVERY).await;
                continue;
            };
            match self.load().await {
                Ok(known) => {
                    let count = self.cloud.restore(&known);
                    info!(servers = count, "mock mode: no real API is called");
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
                () = self.cloud.run() => {}
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
        let map = self.api.get_opt(MEMORY).await?;
        let data: BTreeMap<String, String> = map.and_then(|map| map.data).unwrap_or_default();
        let text = data.get(KEY).map_or("[]", String::as_str);
        Ok(serde_json::from_str(text).unwrap_or_else(|_| json!([])))
    }

    async fn store(&self, known: &Value) -> Result<(), WriteError> {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": MEMORY}, "data": {KEY: known.to_string()}});
        let parameters = PatchParams::apply(MANAGER).force();
        self.api
            .patch(MEMORY, &parameters, &Patch::Apply(map))
            .await?;
        Ok(())
    }
}
