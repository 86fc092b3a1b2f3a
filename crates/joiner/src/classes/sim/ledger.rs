//! The memory of simulated clouds: a ConfigMap for each machine, so that the machines outlive the process that plays
//! them, as real ones would.

use async_trait::async_trait;
use joiner_controllers::clients::{Clients, Fence, WriteError};
use joiner_core::name::Name;
use joiner_providers::{MachineId, ProviderError};
use joiner_sim::clouds::sim::{Ledger, Sold};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;
use tracing::error;

/// The label that says whose machine it is: the UID of the class.
const CLASS: &str = "joiner.dev/sim-class";
/// The key in a ConfigMap under which the machine stands.
const MACHINE: &str = "machine.json";
/// Who writes.
const MANAGER: &str = "joiner-sim";

/// Where all simulated clouds keep their machines.
#[derive(Clone)]
pub(crate) struct Archive {
    clients: Clients,
    namespace: String,
}

impl Archive {
    /// In the ConfigMaps of a namespace.
    pub(crate) fn new(clients: Clients, namespace: &str) -> Self {
        Archive {
            clients,
            namespace: namespace.to_owned(),
        }
    }

    /// The memory of the cloud of one class.
    pub(super) fn ledger(&self, class: &Name) -> ConfigMaps {
        ConfigMaps {
            api: Api::namespaced(self.clients.writes.clone(), &self.namespace),
            class: class.clone(),
            fence: self.clients.fence.clone(),
        }
    }
}

/// The memory of one cloud.
pub(super) struct ConfigMaps {
    api: Api<ConfigMap>,
    class: Name,
    fence: Fence,
}

#[async_trait]
impl Ledger for ConfigMaps {
    fn reign(&self) -> Option<u64> {
        self.fence.reign()
    }

    async fn load(&self) -> Result<Vec<Sold>, ProviderError> {
        let own = ListParams::default().labels(&format!("{CLASS}={}", self.class));
        let all = self.api.list(&own).await.map_err(transient)?;
        let read = all.into_iter().filter_map(|map| {
            let name = map.metadata.name.unwrap_or_default();
            let text = map.data.and_then(|mut data| data.remove(MACHINE));
            match serde_json::from_str(&text.unwrap_or_default()) {
                Ok(sold) => Some(sold),
                Err(error) => {
                    error!(name, %error, "this ConfigMap is no simulated machine: delete it");
                    None
                }
            }
        });
        Ok(read.collect())
    }

    async fn store(&self, sold: &Sold) -> Result<(), ProviderError> {
        let name = name(sold.id());
        let text = serde_json::to_string(sold)
            .map_err(|error| ProviderError::Invalid(format!("machine {}: {error}", sold.id())))?;
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "labels": {CLASS: self.class}},
            "data": {MACHINE: text},
        });
        let parameters = PatchParams::apply(MANAGER).force();
        self.api
            .patch(&name, &parameters, &Patch::Apply(map))
            .await
            .map_err(transient)?;
        Ok(())
    }

    async fn erase(&self, id: &MachineId) -> Result<(), ProviderError> {
        let erased = self.api.delete(&name(id), &DeleteParams::default()).await;
        match erased.map_err(WriteError::from) {
            Ok(_) | Err(WriteError::Gone(_)) => Ok(()),
            Err(error) => Err(ProviderError::Transient(error.to_string())),
        }
    }
}

/// The last part of a machine's id is the UID of who asked for it.
fn name(id: &MachineId) -> String {
    let uid = id.0.rsplit('/').next().unwrap_or_default();
    format!("sim-machine-{uid}")
}

fn transient(error: kube::Error) -> ProviderError {
    ProviderError::Transient(WriteError::from(error).to_string())
}
