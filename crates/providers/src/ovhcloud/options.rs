//! Which cluster, with which credentials, and how to buy.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use joiner_core::name::Name;

use super::auth::{CredentialSource, Credentials};
use super::pace::Pace;
use super::pools::Mark;
use crate::http::{Endpoint, EndpointError};
use crate::{Ledger, ProviderError};

/// The address of an API by name (`ovh-eu`, `ovh-ca`, `ovh-us`) or as a URL, the address of its token endpoint, and the
/// subsidiary whose prices it knows.
pub fn endpoint(name: &str) -> Option<(&str, &str, &str)> {
    Some(match name {
        "" | "ovh-eu" => (
            "https://eu.api.ovh.com/1.0",
            "https://www.ovh.com/auth/oauth2/token",
            "FR",
        ),
        "ovh-ca" => (
            "https://ca.api.ovh.com/1.0",
            "https://ca.ovh.com/auth/oauth2/token",
            "CA",
        ),
        "ovh-us" => (
            "https://api.us.ovhcloud.com/1.0",
            "https://us.ovhcloud.com/auth/oauth2/token",
            "US",
        ),
        url if url.contains("://") => (url, url, "FR"),
        _ => return None,
    })
}

/// Which cluster, with which credentials, and how to buy.
#[derive(Clone)]
pub struct OvhOptions {
    /// Id of the Public Cloud project.
    pub service_name: String,
    /// Id of the cluster; without it, the only one of the project.
    pub kube_id: Option<String>,
    /// Region that the class names; must be the cluster's.
    pub region: Option<String>,
    /// Where the credentials come from.
    pub credentials: Arc<dyn CredentialSource>,
    /// What tells the credentials from others, without giving them away.
    pub fingerprint: Name,
    /// Where the API is.
    pub api: Endpoint,
    /// Where service accounts get their tokens.
    pub oauth: Endpoint,
    /// Whose prices.
    pub subsidiary: String,
    /// Whose pools.
    pub mark: Mark,
    /// Where it is kept which node is whose machine.
    pub ledger: Arc<dyn Ledger>,
    /// The limit on calls; shared by all who use the same credentials.
    pub pace: Arc<Pace>,
    /// Pay by the month where that is possible.
    pub monthly_billed: bool,
    /// Put the nodes of a pool on different hypervisors.
    pub anti_affinity: bool,
    /// Labels for the nodes of every pool.
    pub tags: BTreeMap<String, String>,
    /// Whether GPU flavours are offered.
    pub gpus: bool,
    /// Most pools of the cluster.
    pub max_pools: usize,
    /// Most nodes of a pool.
    pub max_pool_nodes: u32,
    /// Name of the catalogue.
    pub catalog: Name,
}

impl OvhOptions {
    /// The European API with everything at its default.
    pub fn new(
        service_name: impl Into<String>,
        credentials: Credentials,
        mark: Mark,
        ledger: Arc<dyn Ledger>,
    ) -> Result<Self, EndpointError> {
        let (api, oauth, subsidiary) =
            endpoint("ovh-eu").unwrap_or(("https://eu.api.ovh.com/1.0", "", "FR"));
        Ok(OvhOptions {
            service_name: service_name.into(),
            kube_id: None,
            region: None,
            fingerprint: credentials.fingerprint().into(),
            credentials: Arc::new(credentials),
            api: Endpoint::parse(api, &[])?,
            oauth: Endpoint::parse(oauth, &[])?,
            subsidiary: subsidiary.to_owned(),
            mark,
            ledger,
            pace: Arc::default(),
            monthly_billed: false,
            anti_affinity: false,
            tags: BTreeMap::new(),
            gpus: true,
            max_pools: 100,
            max_pool_nodes: 100,
            catalog: "ovhcloud".into(),
        })
    }

    pub(super) fn check(&self) -> Result<(), ProviderError> {
        let invalid = |text: String| Err(ProviderError::Invalid(text));
        let id = &self.service_name;
        if id.len() != 32 || !id.bytes().all(|b| b.is_ascii_hexdigit()) {
            return invalid(format!(
                "serviceName {id:?} is not the id of a Public Cloud project: write its 32 hexadecimal digits"
            ));
        }
        let plain = |text: &str| {
            !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        };
        for (field, value) in [("kubeId", &self.kube_id), ("region", &self.region)] {
            if let Some(value) = value
                && !plain(value)
            {
                return invalid(format!(
                    "{field} {value:?} is not one: leave it out to have it found"
                ));
            }
        }
        Ok(())
    }
}

impl fmt::Debug for OvhOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OvhOptions")
            .field("service_name", &self.service_name)
            .field("kube_id", &self.kube_id)
            .field("region", &self.region)
            .field("api", &self.api)
            .finish_non_exhaustive()
    }
}
