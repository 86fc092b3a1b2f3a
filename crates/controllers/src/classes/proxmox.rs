//! `ProxmoxNodeClass` objects become providers; so do the `proxmox` settings of other families, by
//! [`ProxmoxClasses::provider`].

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use joiner_api::hardware::{HardwarePrice, ProxmoxSettings, SecretReference, Tls};
use joiner_api::joiner::{MachineRange, ProxmoxNodeClassSpec};
use joiner_core::money::Money;
use joiner_core::problem::{Catalog, UnitPrices};
use joiner_providers::http::{Endpoint, Http, Reach};
use joiner_providers::proxmox::{
    ApiToken, Clock, Clusters, Credentials, IdRange, Interface, Proxmox, ProxmoxOptions, Sizes,
    Template,
};
use joiner_providers::{Provider, ProviderError};
use serde_json::{Value, json};

use crate::dialect::{ClassFactory, ClassKind, ClassSite, Secrets};
use crate::record::ClassRecord;

/// The kind of class that Proxmox VE is described by.
pub const PROXMOX: ClassKind = ClassKind {
    group: "joiner.dev",
    version: "v1alpha1",
    kind: "ProxmoxNodeClass",
    plural: "proxmoxnodeclasses",
};
/// Keys of a Secret.
const TOKEN_ID: &str = "PROXMOX_TOKEN_ID";
const SECRET: &str = "PROXMOX_SECRET";
const SKIP_VERIFY: &str = "PROXMOX_SKIP_TLS_VERIFY";

/// A token in a Secret, read when the class is built and again when Proxmox refuses the one in use.
struct InSecret {
    secrets: Arc<dyn Secrets>,
    namespace: String,
    name: String,
}

#[async_trait]
impl Credentials for InSecret {
    async fn token(&self) -> Result<ApiToken, ProviderError> {
        let read = |key: &'static str| self.secrets.get(&self.namespace, &self.name, key);
        Ok(ApiToken {
            id: read(TOKEN_ID)
                .await
                .map_err(ProviderError::Transient)?
                .trim()
                .to_owned(),
            secret: read(SECRET)
                .await
                .map_err(ProviderError::Transient)?
                .trim()
                .to_owned()
                .into(),
        })
    }
}

/// What settings of any family say.
#[derive(Clone, Debug)]
pub struct Terms<'a> {
    /// Where in the object the settings stand, for errors: `spec.proxmox`.
    pub field: &'a str,
    /// The settings.
    pub settings: &'a ProxmoxSettings,
    /// Secret with the token.
    pub secret: &'a SecretReference,
    /// Namespace of a Secret that names none; that of the controller if not set.
    pub namespace: Option<&'a str>,
    /// Sizes of machines.
    pub machines: MachineRange,
    /// What the hardware is worth.
    pub price: HardwarePrice,
    /// How long a machine may take to become a node.
    pub registration_timeout: Duration,
}

/// Makes providers out of Proxmox settings. One for the whole process: it keeps classes from selling one host twice.
#[derive(Clone)]
pub struct ProxmoxClasses {
    secrets: Arc<dyn Secrets>,
    namespace: String,
    clock: Clock,
    /// What is promised at the hosts of each cluster, whichever class or family buys there.
    clusters: Arc<Clusters>,
    simulated: Option<Http>,
}

impl ProxmoxClasses {
    /// For real clusters; Secrets without a namespace are those of `namespace`.
    pub fn new(secrets: Arc<dyn Secrets>, namespace: &str, clock: Clock) -> Self {
        ProxmoxClasses {
            secrets,
            namespace: namespace.to_owned(),
            clock,
            clusters: Arc::default(),
            simulated: None,
        }
    }

    /// The same with a simulated cluster behind every endpoint. Token and settings count as they do with a real one.
    #[must_use]
    pub fn simulated(self, http: Http) -> Self {
        ProxmoxClasses {
            simulated: Some(http),
            ..self
        }
    }

    /// A provider for settings of any family.
    pub async fn provider(
        &self,
        terms: &Terms<'_>,
        site: &ClassSite<'_>,
    ) -> Result<Arc<dyn Provider>, ProviderError> {
        let name = terms.secret.name.clone().filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| {
            ProviderError::Invalid(format!(
                "credentialsSecretRef.name is missing: name a Secret with the keys {TOKEN_ID} and {SECRET}"
            ))
        })?;
        let namespace = terms.secret.namespace.as_deref().or(terms.namespace);
        let namespace = namespace.unwrap_or(&self.namespace);
        let credentials = InSecret {
            secrets: Arc::clone(&self.secrets),
            namespace: namespace.to_owned(),
            name: name.clone(),
        };
        // A Secret that is not there shows at once, not when the first machine is wanted.
        credentials.token().await?;
        let tls = terms.settings.tls.clone().unwrap_or_default();
        let skip = match self.secrets.get(namespace, &name, SKIP_VERIFY).await {
            Ok(text) => truth(text.trim()).ok_or_else(|| {
                ProviderError::Invalid(format!(
                    "secret {namespace}/{name}: {SKIP_VERIFY} {:?} is neither true nor false",
                    text.trim()
                ))
            })?,
            // The key is optional.
            Err(_) => false,
        };
        let pinned = tls.sha256_fingerprint.is_some();
        let unverified = (skip || tls.insecure_skip_verify == Some(true)) && !pinned;
        let http = self.http(terms.field, tls, unverified)?;
        let mut options = Self::options(terms, site, Arc::new(credentials))?;
        options.accepts_any_certificate = unverified;
        let provider = Proxmox::new(http, options, Clock::clone(&self.clock));
        let provider = provider.map_err(|error| within(terms.field, error))?;
        Ok(Arc::new(provider.beside(&self.clusters)))
    }

    fn http(&self, field: &str, tls: Tls, unverified: bool) -> Result<Http, ProviderError> {
        if let Some(http) = &self.simulated {
            return Ok(http.clone());
        }
        let reach = Reach {
            authorities: tls.ca_bundle,
            accept_any_certificate: unverified,
            fingerprint: tls.sha256_fingerprint,
            ..Reach::default()
        };
        Http::production(&reach)
            .map_err(|error| ProviderError::Invalid(format!("{field}.tls: {error}")))
    }

    fn options(
        terms: &Terms<'_>,
        site: &ClassSite<'_>,
        credentials: Arc<dyn Credentials>,
    ) -> Result<ProxmoxOptions, ProviderError> {
        let (field, settings) = (terms.field, terms.settings);
        let invalid = |name: &str, said: &dyn std::fmt::Display| {
            ProviderError::Invalid(format!("{field}.{name}: {said}"))
        };
        let api = Endpoint::parse(&settings.endpoint, &[])
            .map_err(|error| invalid("endpoint", &error))?;
        let range = settings.vm_id_range.ok_or_else(|| {
            invalid("vmIDRange", &"is missing: write the numbers that machines may have, such as {lower: 1250, upper: 1300}")
        })?;
        let id = |number: i64| u32::try_from(number).unwrap_or_default();
        let ids = IdRange {
            first: id(range.lower),
            last: id(range.upper),
        };
        let tag = settings.managed_node_tag.as_deref().unwrap_or_default();
        let mib = |amount: Option<i64>| amount.and_then(|amount| u64::try_from(amount).ok());
        let count = |amount: Option<i64>| amount.and_then(|amount| u32::try_from(amount).ok());
        let overcommit = settings.overcommit.unwrap_or_default();
        let defaults = ProxmoxOptions::new(site.owner.clone(), api, credentials, ids, tag);
        let cpu_percent = count(overcommit.cpu_percent).unwrap_or(defaults.cpu_percent);
        let memory_percent = count(overcommit.memory_percent).unwrap_or(defaults.memory_percent);
        let host_reserve_mib = mib(settings.host_reserve_mib).unwrap_or(defaults.host_reserve_mib);
        Ok(ProxmoxOptions {
            hosts: settings.node_whitelist.clone(),
            vm_mem_overhead_mib: mib(settings.vm_mem_overhead_mib).unwrap_or_default(),
            interfaces: interfaces(settings),
            vm_options: vm_options(settings).map_err(|said| invalid("vmOptions", &said))?,
            template: settings.template.as_ref().map(|one| Template {
                name: one.name.clone(),
                storage: one.storage.clone(),
                linked: one.linked == Some(true),
                disk_gib: count(one.disk_gib),
            }),
            zones: settings.zones.clone(),
            cpu_percent,
            memory_percent,
            host_reserve_mib,
            sizes: Sizes {
                min_cores: count(terms.machines.min_cores),
                max_cores: count(terms.machines.max_cores),
                min_memory_mib: mib(terms.machines.min_memory_mib),
                max_memory_mib: mib(terms.machines.max_memory_mib),
            },
            prices: UnitPrices {
                machine: Money::ZERO,
                core: terms.price.per_core().get().map_err(|error| {
                    ProviderError::Invalid(format!("spec.price.perCore: {error}"))
                })?,
                memory_gib: terms.price.per_gib().get().map_err(|error| {
                    ProviderError::Invalid(format!("spec.price.perGiB: {error}"))
                })?,
            },
            registration_timeout: terms.registration_timeout,
            ..defaults
        })
    }
}

fn interfaces(settings: &ProxmoxSettings) -> Vec<Interface> {
    let all = settings.network_interfaces.iter().enumerate();
    all.map(|(index, one)| Interface {
        name: if one.name.is_empty() {
            format!("net{index}")
        } else {
            one.name.clone()
        },
        model: one.model.clone(),
        bridge: one.bridge.clone(),
        vlan: one
            .vlan_tag
            .and_then(|tag| u16::try_from(tag).ok())
            .filter(|tag| *tag > 0),
        mac_prefix: one.mac_prefix.clone().filter(|text| !text.is_empty()),
    })
    .collect()
}

fn vm_options(settings: &ProxmoxSettings) -> Result<Vec<(String, String)>, String> {
    let all = settings.vm_options.iter();
    all.map(|one| {
        let value = match &one.value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(yes) => u8::from(*yes).to_string(),
            other => {
                return Err(format!(
                    "{} is {other}: write text, a number or a truth value",
                    one.name
                ));
            }
        };
        Ok((one.name.clone(), value))
    })
    .collect()
}

/// Go's words for true and false.
fn truth(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "" | "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Settings that the provider refuses stand under the field that it was made from.
fn within(field: &str, error: ProviderError) -> ProviderError {
    match error {
        ProviderError::Invalid(said) => ProviderError::Invalid(format!("{field}.{said}")),
        other => other,
    }
}

#[async_trait]
impl ClassFactory for ProxmoxClasses {
    fn kind(&self) -> ClassKind {
        PROXMOX
    }

    fn status(&self, catalog: &Catalog, _: Option<jiff::Timestamp>) -> Value {
        json!({
            "instanceTypes": catalog.ranges.len(),
            "region": catalog.ranges.first().map(|range| &*range.region),
        })
    }

    async fn build(
        &self,
        class: &ClassRecord,
        site: &ClassSite<'_>,
    ) -> Result<Arc<dyn Provider>, ProviderError> {
        let spec: ProxmoxNodeClassSpec = serde_json::from_value((*class.spec).clone())
            .map_err(|error| ProviderError::Invalid(format!("spec: {error}")))?;
        let timeout = spec.registration_timeout();
        let registration_timeout = timeout
            .get()
            .ok()
            .and_then(|time| Duration::try_from(time).ok());
        let registration_timeout = registration_timeout.ok_or_else(|| {
            ProviderError::Invalid(format!(
                "spec.registrationTimeout: {:?} is not a time such as 5m",
                timeout.as_str()
            ))
        })?;
        let terms = Terms {
            field: "spec.proxmox",
            settings: &spec.proxmox,
            secret: &spec.credentials_secret_ref,
            namespace: None,
            machines: spec.machines.unwrap_or_default(),
            price: spec.price.clone().unwrap_or_default(),
            registration_timeout,
        };
        self.provider(&terms, site).await
    }
}

#[cfg(test)]
mod tests;
