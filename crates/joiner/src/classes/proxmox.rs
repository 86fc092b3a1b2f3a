//! Mock mode: a simulated Proxmox VE cluster in this process. Its machines are simulated kubelets that join the real
//! cluster, and what was made stands in a ConfigMap, so that machines outlive the process as real ones would.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use joiner_controllers::edge::clients::{Clients, WriteError};
use joiner_controllers::edge::tasks::Tasks;
use joiner_embedded::clock::Clock;
use joiner_providers::http::Http;
use joiner_sim::clouds::proxmox::{ProxmoxCloud, ProxmoxCloudOptions};
use joiner_sim::clouds::sim::Rack;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tracing::{info, warn};

/// Where its memory is.
const MEMORY: &str = "joiner-mock-proxmox";
const KEY: &str = "machines.json";
const MANAGER: &str = "joiner-mock";
/// How often its memory is compared with what it knows.
const EVERY: Duration = Duration::from_millis(500);

/// Everything of a real one, only sooner. The token is `joiner@pve!sim` with the secret `sim-token-secret`.
fn options() -> ProxmoxCloudOptions {
    ProxmoxCloudOptions {
        creates_within: Duration::from_secs(1),
        clones_within: Duration::from_secs(4),
        starts_within: Duration::from_secs(1),
        destroys_within: Duration::from_secs(1),
        boots_within: Duration::from_secs(4),
        lag: Duration::from_secs(2),
        ..ProxmoxCloudOptions::of_hosts(4)
    }
}

/// Starts a simulated cluster and returns the way to it. It rests while another process leads.
pub(crate) fn mock(clients: &Clients, namespace: &str, rack: Arc<dyn Rack>, tasks: &Tasks) -> Http {
    let cloud = ProxmoxCloud::new(options(), Clock::wall(), rack);
    let playing = Playing {
        cloud: cloud.clone(),
        clients: clients.clone(),
        api: Api::namespaced(clients.writes.clone(), namespace),
    };
    tasks.supervise("mock proxmox", move || {
        let playing = playing.clone();
        async move { playing.run().await }
    });
    Http::new(cloud.router())
}

#[derive(Clone)]
struct Playing {
    cloud: ProxmoxCloud,
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
                    info!(machines = count, "mock mode: no real Proxmox is called");
                }
                Err(error) => {
                    warn!(%error, "what the simulated Proxmox has made cannot be read yet");
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
                        warn!(%error, "what the simulated Proxmox has made is not written down yet");
                    }
                }
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    async fn load(&self) -> Result<Value, WriteError> {
        let map = self.api.get_opt(MEMORY).await?;
        let data: BTreeMap<String, String> = map.and_then(|map| map.data).unwrap_or_default();
        let text = data.get(KEY).map_or("{}", String::as_str);
        Ok(serde_json::from_str(text).unwrap_or_else(|_| json!({})))
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
