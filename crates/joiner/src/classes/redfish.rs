//! Mock mode for bare metal: every host of a `RedfishNodeClass` gets a simulated BMC in this process, and its node is a
//! simulated kubelet of the real cluster. What is powered on stands in a ConfigMap, so that hosts outlive the process.

use std::sync::Arc;
use std::time::Duration;

use joiner_api::hardware::RedfishHost;
use joiner_controllers::classes::redfish::SimulatedBmcs;
use joiner_controllers::edge::clients::{Clients, WriteError};
use joiner_controllers::edge::tasks::Tasks;
use joiner_embedded::clock::Clock;
use joiner_providers::http::Http;
use joiner_providers::redfish::Credentials;
use joiner_sim::clouds::redfish::{HostSetup, Model, RedfishFleet};
use joiner_sim::clouds::sim::Rack;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tracing::warn;

/// What opens the simulated BMCs, and nothing else.
const USERNAME: &str = "mock";
const PASSWORD: &str = "mock-password";
/// Where their memory is.
const MEMORY: &str = "joiner-mock-redfish";
const KEY: &str = "hosts.json";
const MANAGER: &str = "joiner-mock";
/// How often their memory is compared with what they are.
const EVERY: Duration = Duration::from_millis(500);

/// The simulated BMCs.
#[derive(Clone)]
pub(crate) struct MockBmcs {
    fleet: RedfishFleet,
}

impl MockBmcs {
    /// Starts them. They rest while another process leads.
    pub(crate) fn start(
        clients: &Clients,
        namespace: &str,
        rack: Arc<dyn Rack>,
        tasks: &Tasks,
    ) -> Self {
        let fleet = RedfishFleet::new(Clock::wall(), rack);
        let playing = Playing {
            fleet: fleet.clone(),
            clients: clients.clone(),
            api: Api::namespaced(clients.writes.clone(), namespace),
        };
        tasks.supervise("mock redfish", move || {
            let playing = playing.clone();
            async move { playing.run().await }
        });
        MockBmcs { fleet }
    }
}

impl SimulatedBmcs for MockBmcs {
    fn plug(&self, host: &RedfishHost) -> (Http, Credentials) {
        self.fleet.add_missing(setup(host));
        let credentials = Credentials {
            username: USERNAME.to_owned(),
            password: PASSWORD.into(),
        };
        (Http::new(self.fleet.router()), credentials)
    }
}

/// A simulated host for one of an inventory: models take turns, and nobody waits minutes for a server that does not
/// exist.
fn setup(host: &RedfishHost) -> HostSetup {
    let rest = host.address.split_once("://");
    let rest = rest.map_or(&*host.address, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    let models = Model::all();
    let turn = host.name.bytes().map(usize::from).sum::<usize>() % models.len().max(1);
    let mut model = models.into_iter().nth(turn).unwrap_or_else(Model::plain);
    model.powers_on = Duration::from_secs(2);
    model.powers_off = Duration::from_secs(1);
    model.shuts_down = Duration::from_secs(3);
    model.self_test = Duration::from_secs(2);
    HostSetup {
        username: USERNAME.to_owned(),
        password: PASSWORD.to_owned(),
        node: host.node_name.clone().unwrap_or_else(|| host.name.clone()),
        cpu_cores: host.cpu_cores,
        memory_mib: host.memory_mib,
        joins_after: Duration::from_secs(8),
        ..HostSetup::new(authority, model)
    }
}

#[derive(Clone)]
struct Playing {
    fleet: RedfishFleet,
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
                Ok(known) => self.fleet.restore(&known),
                Err(error) => {
                    warn!(%error, "what the simulated hosts were cannot be read yet");
                    tokio::time::sleep(EVERY).await;
                    continue;
                }
            }
            tokio::select! {
                biased;
                () = self.remember(term) => self.fleet.rest(),
                () = self.fleet.run() => {}
            }
        }
    }

    /// Writes down what changes, until the term ends.
    async fn remember(&self, term: u64) {
        let mut written = json!({});
        while self.clients.fence.term() == Some(term) {
            let known = self.fleet.memory();
            if known != written {
                match self.store(&known).await {
                    Ok(()) => written = known,
                    Err(error) => {
                        warn!(%error, "what the simulated hosts are is not written down yet");
                    }
                }
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    async fn load(&self) -> Result<Value, WriteError> {
        let map = self.api.get_opt(MEMORY).await?;
        let text = map.and_then(|map| map.data?.remove(KEY));
        let known = text.and_then(|text| serde_json::from_str(&text).ok());
        Ok(known.unwrap_or_else(|| json!({})))
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
