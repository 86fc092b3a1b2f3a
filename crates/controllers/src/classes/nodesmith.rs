//! `NodeSmithProvider` objects become providers: virtual machines on Proxmox VE or bare metal by Redfish, with the same
//! settings as the node classes for those.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use joiner_api::joiner::MachineRange;
use joiner_api::nodesmith::{NodeSmithProviderSpec, ProviderType};
use joiner_core::problem::Catalog;
use joiner_providers::{Provider, ProviderError};
use serde_json::json;

use super::proxmox::{self, ProxmoxClasses};
use super::redfish::{self, RedfishClasses};
use crate::dialect::{ClassFactory, ClassKind, ClassSite};
use crate::dialects::nodesmith::{NAME, PROVIDER};
use crate::record::ClassRecord;

/// How long a machine may take to become a node, where its pool does not say.
const VIRTUAL: Duration = Duration::from_mins(5);
const METAL: Duration = Duration::from_mins(20);

/// Makes providers out of `NodeSmithProvider` objects.
pub struct NodeSmithClasses {
    proxmox: ProxmoxClasses,
    redfish: RedfishClasses,
}

impl NodeSmithClasses {
    /// By these two, which serve the node classes of `NodePools` too: hardware behind both is one stock.
    pub fn new(proxmox: ProxmoxClasses, redfish: RedfishClasses) -> Self {
        NodeSmithClasses { proxmox, redfish }
    }
}

fn missing(field: &str, way: &str) -> ProviderError {
    ProviderError::Invalid(format!("{field} is missing: {way}"))
}

#[async_trait]
impl ClassFactory for NodeSmithClasses {
    fn kind(&self) -> ClassKind {
        PROVIDER
    }

    fn family(&self) -> &'static str {
        NAME
    }

    fn status(&self, _: &Catalog, _: Option<Timestamp>) -> serde_json::Value {
        json!({})
    }

    async fn build(
        &self,
        class: &ClassRecord,
        site: &ClassSite<'_>,
    ) -> Result<Arc<dyn Provider>, ProviderError> {
        let spec: NodeSmithProviderSpec = serde_json::from_value((*class.spec).clone())
            .map_err(|error| ProviderError::Invalid(format!("spec: {error}")))?;
        let namespace = Some(&*class.key.namespace);
        let price = spec.price.clone().unwrap_or_default();
        match spec.type_ {
            ProviderType::Proxmox => {
                let settings = spec.proxmox.as_ref();
                let settings = settings
                    .ok_or_else(|| missing("spec.proxmox", "type proxmox needs its settings"))?;
                let secret = spec.credentials_secret_ref.as_ref().ok_or_else(|| {
                    let way = "name a Secret with the keys PROXMOX_TOKEN_ID and PROXMOX_SECRET";
                    missing("spec.credentialsSecretRef", way)
                })?;
                let terms = proxmox::Terms {
                    field: "spec.proxmox",
                    settings,
                    secret,
                    namespace,
                    machines: MachineRange::default(),
                    price,
                    registration_timeout: VIRTUAL,
                };
                self.proxmox.provider(&terms, site).await
            }
            ProviderType::Redfish => {
                let settings = spec.redfish.as_ref();
                let settings = settings
                    .ok_or_else(|| missing("spec.redfish", "type redfish needs its hosts"))?;
                let terms = redfish::Terms {
                    field: "spec.redfish",
                    settings,
                    secret: spec.credentials_secret_ref.as_ref(),
                    namespace,
                    price,
                    registration_timeout: METAL,
                };
                self.redfish.provider(&terms, site)
            }
        }
    }
}
