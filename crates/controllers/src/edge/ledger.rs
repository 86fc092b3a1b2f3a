//! Ledgers in ConfigMaps: one for each entry, so that an entry is written and read by itself and none grows too large.

use std::sync::Arc;

use async_trait::async_trait;
use joiner_core::name::Name;
use joiner_providers::{Ledger, LedgerEntry, MemoryLedger, ProviderError};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use super::clients::{Clients, Fence, WriteError};
use super::names::digest;
use crate::dialect::Ledgers;
use crate::record::ClassRecord;

/// The label that says whose entry it is: the UID of the class.
const CLASS: &str = "joiner.dev/ledger";
/// The keys in a ConfigMap under which an entry stands.
const KEY: &str = "key";
const VALUE: &str = "value";
/// The field manager.
const MANAGER: &str = "joiner-ledger";

/// Ledgers in the ConfigMaps of one namespace.
#[derive(Clone)]
pub struct ConfigMapLedgers {
    clients: Clients,
    namespace: String,
}

impl ConfigMapLedgers {
    /// In this namespace.
    pub fn new(clients: Clients, namespace: &str) -> Self {
        ConfigMapLedgers {
            clients,
            namespace: namespace.to_owned(),
        }
    }
}

impl Ledgers for ConfigMapLedgers {
    fn open(&self, class: &ClassRecord) -> Arc<dyn Ledger> {
        Arc::new(ConfigMapLedger {
            api: Api::namespaced(self.clients.writes.clone(), &self.namespace),
            // A UID as a rule; what only stands for a class has whatever its family made up.
            class: digest(&class.uid).into(),
            fence: self.clients.fence.clone(),
        })
    }
}

/// Ledgers that end with the process.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryLedgers;

impl Ledgers for MemoryLedgers {
    fn open(&self, _: &ClassRecord) -> Arc<dyn Ledger> {
        Arc::new(MemoryLedger::default())
    }
}

/// The ledger of one class.
struct ConfigMapLedger {
    api: Api<ConfigMap>,
    class: Name,
    fence: Fence,
}

impl ConfigMapLedger {
    /// Keys are any text, names of ConfigMaps are not.
    fn name(&self, key: &str) -> String {
        format!("joiner-ledger-{}", digest(&format!("{}/{key}", self.class)))
    }

    /// The entries with these labels.
    async fn select(&self, labels: &str) -> Result<Vec<LedgerEntry>, ProviderError> {
        let selected = ListParams::default().labels(labels);
        let all = self.api.list(&selected).await.map_err(transient)?;
        let read = all.into_iter().filter_map(|map| {
            let mut data = map.data?;
            Some(LedgerEntry {
                key: data.remove(KEY)?.into(),
                value: data.remove(VALUE)?,
            })
        });
        Ok(read.collect())
    }
}

#[async_trait]
impl Ledger for ConfigMapLedger {
    fn term(&self) -> Option<u64> {
        self.fence.term()
    }

    async fn load(&self) -> Result<Vec<LedgerEntry>, ProviderError> {
        self.select(&format!("{CLASS}={}", self.class)).await
    }

    async fn load_all(&self) -> Result<Vec<LedgerEntry>, ProviderError> {
        self.select(CLASS).await
    }

    async fn store(&self, entry: &LedgerEntry) -> Result<(), ProviderError> {
        let name = self.name(&entry.key);
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "labels": {CLASS: self.class}},
            "data": {KEY: entry.key, VALUE: entry.value},
        });
        let parameters = PatchParams::apply(MANAGER).force();
        let patch = Patch::Apply(map);
        let written = self.api.patch(&name, &parameters, &patch).await;
        written.map_err(transient)?;
        Ok(())
    }

    async fn erase(&self, key: &str) -> Result<(), ProviderError> {
        let name = self.name(key);
        let erased = self.api.delete(&name, &DeleteParams::default()).await;
        match erased.map_err(WriteError::from) {
            Ok(_) | Err(WriteError::Gone(_)) => Ok(()),
            Err(error) => Err(ProviderError::Transient(error.to_string())),
        }
    }
}

fn transient(error: kube::Error) -> ProviderError {
    ProviderError::Transient(WriteError::from(error).to_string())
}
