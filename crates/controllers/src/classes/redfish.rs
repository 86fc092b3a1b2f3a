//! `RedfishNodeClass` objects become providers; so do the `redfish` settings of other families, by
//! [`RedfishClasses::provider`].

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use joiner_api::hardware::{
    BootMode as ApiMode, BootOverride as ApiOverride, BootTarget as ApiTarget, HardwarePrice,
    PowerOffMode, RedfishHost, RedfishSettings, SecretReference, Tls,
};
use joiner_api::joiner::RedfishNodeClassSpec;
use joiner_api::text;
use joiner_core::name::Labels;
use joiner_core::problem::Catalog;
use joiner_core::resources::{CPU, MEMORY, Resources};
use joiner_providers::http::{Http, Reach};
use joiner_providers::redfish::claims::Reservations;
use joiner_providers::redfish::{
    Access, BootMode, BootOptions, BootOverride, BootTarget, Clock, CredentialSource, Credentials,
    HostOptions, PowerOffOptions, Redfish, RedfishOptions,
};
use joiner_providers::{Provider, ProviderError};
use serde_json::json;

use crate::dialect::{ClassFactory, ClassKind, ClassSite, Secrets};
use crate::record::ClassRecord;

/// The kind of class that bare metal is described by.
pub const REDFISH: ClassKind = ClassKind {
    group: "joiner.dev",
    version: "v1alpha1",
    kind: "RedfishNodeClass",
    plural: "redfishnodeclasses",
};
/// Keys of a Secret.
const USERNAME: &str = "username";
const PASSWORD: &str = "password";

/// Stands in for real BMCs: every host of a class gets a simulated one.
pub trait SimulatedBmcs: Send + Sync {
    /// The way to the BMC of a host, which is there from now on, and what opens it.
    fn plug(&self, host: &RedfishHost) -> (Http, Credentials);
}

/// Credentials in a Secret, read at each login: whoever replaces them need not restart anything.
struct InSecret {
    secrets: Arc<dyn Secrets>,
    namespace: String,
    name: String,
}

#[async_trait]
impl CredentialSource for InSecret {
    async fn credentials(&self) -> Result<Credentials, ProviderError> {
        let read = |key: &'static str| self.secrets.get(&self.namespace, &self.name, key);
        let username = read(USERNAME).await.map_err(ProviderError::Unauthorised)?;
        let password = read(PASSWORD).await.map_err(ProviderError::Unauthorised)?;
        Ok(Credentials {
            username,
            password: password.into(),
        })
    }
}

/// What settings of any family say beside the hosts.
#[derive(Clone, Debug)]
pub struct Terms<'a> {
    /// Where in the object the settings stand, for errors.
    pub field: &'a str,
    /// The settings.
    pub settings: &'a RedfishSettings,
    /// Secret of hosts that name none.
    pub secret: Option<&'a SecretReference>,
    /// Namespace of Secrets that name none; that of the controller if not set.
    pub namespace: Option<&'a str>,
    /// What hosts are worth that have no price.
    pub price: HardwarePrice,
    /// How long a host may take to become a node.
    pub registration_timeout: Duration,
}

/// Makes providers out of inventories. One for the whole process: it keeps classes from claiming one host twice.
#[derive(Clone)]
pub struct RedfishClasses {
    secrets: Arc<dyn Secrets>,
    namespace: String,
    clock: Clock,
    reservations: Arc<Reservations>,
    simulated: Option<Arc<dyn SimulatedBmcs>>,
}

impl RedfishClasses {
    /// For real BMCs; Secrets without a namespace are those of `namespace`.
    pub fn new(secrets: Arc<dyn Secrets>, namespace: &str, clock: Clock) -> Self {
        RedfishClasses {
            secrets,
            namespace: namespace.to_owned(),
            clock,
            reservations: Arc::default(),
            simulated: None,
        }
    }

    /// The same with simulated BMCs in place of real ones.
    #[must_use]
    pub fn simulated(self, bmcs: Arc<dyn SimulatedBmcs>) -> Self {
        RedfishClasses {
            simulated: Some(bmcs),
            ..self
        }
    }

    /// A provider for an inventory.
    pub fn provider(
        &self,
        terms: &Terms<'_>,
        site: &ClassSite<'_>,
    ) -> Result<Arc<dyn Provider>, ProviderError> {
        let hosts = terms.settings.hosts.iter().enumerate();
        let hosts =
            hosts.map(|(at, host)| self.host(&format!("{}.hosts[{at}]", terms.field), host, terms));
        let shared = RedfishHost::default();
        let fallback = match (&self.simulated, Self::secret(&shared, terms)) {
            (None, Some(_)) => Some(self.access(terms.field, &shared, terms)?),
            _ => None,
        };
        let options = RedfishOptions {
            catalog: "redfish".into(),
            hosts: hosts.collect::<Result<_, _>>()?,
            fallback,
            allowed_hosts: Vec::new(),
            registration_timeout: terms.registration_timeout,
        };
        let provider = Redfish::new(
            options,
            site.owner.clone(),
            Arc::clone(&site.ledger),
            Arc::clone(&self.reservations),
            Clock::clone(&self.clock),
        )?;
        Ok(Arc::new(provider))
    }

    fn secret<'a>(host: &'a RedfishHost, terms: &Terms<'a>) -> Option<&'a SecretReference> {
        let own = host.credentials_secret_ref.as_ref();
        own.or(terms.settings.credentials_secret_ref.as_ref())
            .or(terms.secret)
    }

    fn access(
        &self,
        field: &str,
        host: &RedfishHost,
        terms: &Terms<'_>,
    ) -> Result<Access, ProviderError> {
        if let Some(simulated) = &self.simulated {
            let (http, credentials) = simulated.plug(host);
            return Ok(Access {
                credentials: Arc::new(credentials),
                http,
                unverified: false,
            });
        }
        let secret = Self::secret(host, terms);
        let name = secret.and_then(|secret| secret.name.clone()).ok_or_else(|| {
            ProviderError::Invalid(format!(
                "{field}.credentialsSecretRef.name is missing: name a Secret with the keys username and password, here or for all hosts"
            ))
        })?;
        let namespace = secret
            .and_then(|secret| secret.namespace.as_deref())
            .or(terms.namespace);
        let tls: Tls = host
            .tls
            .clone()
            .or_else(|| terms.settings.tls.clone())
            .unwrap_or_default();
        let unverified = tls.insecure_skip_verify == Some(true) && tls.sha256_fingerprint.is_none();
        let reach = Reach {
            authorities: tls.ca_bundle,
            accept_any_certificate: unverified,
            fingerprint: tls.sha256_fingerprint,
            ..Reach::default()
        };
        let http = Http::production(&reach)
            .map_err(|error| ProviderError::Invalid(format!("{field}.tls: {error}")))?;
        Ok(Access {
            credentials: Arc::new(InSecret {
                secrets: Arc::clone(&self.secrets),
                namespace: namespace.unwrap_or(&self.namespace).to_owned(),
                name,
            }),
            http,
            unverified,
        })
    }

    fn host(
        &self,
        field: &str,
        host: &RedfishHost,
        terms: &Terms<'_>,
    ) -> Result<HostOptions, ProviderError> {
        let settings = terms.settings;
        let invalid = |name: &str, said: &dyn std::fmt::Display| {
            ProviderError::Invalid(format!("{field}.{name}: {said}"))
        };
        let price = match &host.price_per_hour {
            Some(price) => price
                .get()
                .map_err(|error| invalid("pricePerHour", &error))?,
            None => terms
                .price
                .of(host.cpu_cores, host.memory_mib)
                .map_err(|error| invalid("price", &error))?,
        };
        let mut capacity = Resources::new()
            .with(CPU, host.cpu_cores.saturating_mul(1000))
            .with(MEMORY, host.memory_mib.saturating_mul(1 << 20));
        for (resource, amount) in &host.extended_resources {
            if resource == CPU || resource == MEMORY || *amount < 0 {
                return Err(invalid(
                    "extendedResources",
                    &format!("{resource} {amount} is not an amount of anything but cpu and memory"),
                ));
            }
            capacity.set(resource, *amount);
        }
        let labels = host.labels.iter();
        let labels: Labels = labels
            .map(|(key, value)| (key.as_str().into(), value.as_str().into()))
            .collect();
        let power_off = settings.power_off(host);
        let timeout = power_off.timeout.unwrap_or_else(|| "3m".into());
        Ok(HostOptions {
            name: host.name.as_str().into(),
            address: host.address.clone(),
            system_path: host.system_path.clone(),
            system_uuid: host.system_uuid.clone(),
            serial_number: host.serial_number.clone(),
            node_name: host.node_name.as_deref().map(Into::into),
            capacity,
            labels,
            price,
            access: self.access(field, host, terms)?,
            boot: boot(settings, host),
            power_off: PowerOffOptions {
                graceful: power_off.mode != Some(PowerOffMode::Force),
                timeout: duration(&format!("{field}.powerOff.timeout"), &timeout)?,
            },
        })
    }
}

fn boot(settings: &RedfishSettings, host: &RedfishHost) -> BootOptions {
    let boot = settings.boot(host);
    BootOptions {
        mode: boot.mode.map(|mode| match mode {
            ApiMode::Uefi => BootMode::Uefi,
            ApiMode::Legacy => BootMode::Legacy,
        }),
        target: match boot.target.unwrap_or_default() {
            ApiTarget::Pxe => BootTarget::Pxe,
            ApiTarget::UefiHttp => BootTarget::UefiHttp,
        },
        override_: match boot.override_.unwrap_or_default() {
            ApiOverride::Once => BootOverride::Once,
            ApiOverride::Continuous => BootOverride::Continuous,
            ApiOverride::None => BootOverride::None,
        },
        http_boot_uri: boot.http_boot_uri,
    }
}

fn duration(field: &str, text: &text::Duration) -> Result<Duration, ProviderError> {
    let signed = text
        .get()
        .map_err(|error| ProviderError::Invalid(format!("{field}: {error}")))?;
    Duration::try_from(signed)
        .map_err(|_| ProviderError::Invalid(format!("{field}: {} is negative", text.as_str())))
}

#[async_trait]
impl ClassFactory for RedfishClasses {
    fn kind(&self) -> ClassKind {
        REDFISH
    }

    fn status(&self, _: &Catalog, _: Option<jiff::Timestamp>) -> serde_json::Value {
        json!({})
    }

    async fn build(
        &self,
        class: &ClassRecord,
        site: &ClassSite<'_>,
    ) -> Result<Arc<dyn Provider>, ProviderError> {
        let spec: RedfishNodeClassSpec = serde_json::from_value((*class.spec).clone())
            .map_err(|error| ProviderError::Invalid(format!("spec: {error}")))?;
        let timeout = spec.registration_timeout();
        let terms = Terms {
            field: "spec.redfish",
            settings: &spec.redfish,
            secret: None,
            namespace: None,
            price: spec.price.clone().unwrap_or_default(),
            registration_timeout: duration("spec.registrationTimeout", &timeout)?,
        };
        self.provider(&terms, site)
    }
}

#[cfg(test)]
mod tests {
    use joiner_core::money::Money;
    use joiner_providers::{MemoryLedger, Owner};

    use super::*;

    struct Drawer;

    #[async_trait]
    impl Secrets for Drawer {
        async fn get(&self, namespace: &str, name: &str, key: &str) -> Result<String, String> {
            match (namespace, name) {
                ("joiner", "bmc") => Ok(format!("{key}-of-bmc")),
                _ => Err(format!(
                    "secret {namespace}/{name} cannot be read: not found"
                )),
            }
        }
    }

    fn factory() -> RedfishClasses {
        RedfishClasses::new(Arc::new(Drawer), "joiner", Arc::new(jiff::Timestamp::now))
    }

    fn spec(host: &serde_json::Value) -> RedfishNodeClassSpec {
        let mut one = json!({"name": "metal-1", "address": "https://10.0.9.11", "cpuCores": 16, "memoryMiB": 65536});
        for (key, value) in host.as_object().into_iter().flatten() {
            one[key] = value.clone();
        }
        let spec = json!({"redfish": {"hosts": [one], "credentialsSecretRef": {"name": "bmc"},
            "boot": {"mode": "UEFI"}, "powerOff": {"timeout": "90s"}}});
        serde_json::from_value(spec).unwrap()
    }

    fn lowered(host: &serde_json::Value) -> Result<HostOptions, ProviderError> {
        let spec = spec(host);
        let terms = Terms {
            field: "spec.redfish",
            settings: &spec.redfish,
            secret: None,
            namespace: None,
            price: HardwarePrice::default(),
            registration_timeout: Duration::from_mins(20),
        };
        factory().host("spec.redfish.hosts[0]", &spec.redfish.hosts[0], &terms)
    }

    #[tokio::test]
    async fn a_host_takes_from_all_what_it_does_not_say_itself() {
        let host = lowered(&json!({"labels": {"topology.kubernetes.io/zone": "rack-a"}, "powerOff": {"mode": "Force"}, "extendedResources": {"nvidia.com/gpu": 4}})).unwrap();
        assert_eq!(host.boot.mode, Some(BootMode::Uefi));
        assert_eq!(host.boot.override_, BootOverride::Once);
        assert!(!host.power_off.graceful);
        assert_eq!(host.power_off.timeout, Duration::from_secs(90));
        assert_eq!(host.capacity.get(CPU), 16_000);
        assert_eq!(host.capacity.get("nvidia.com/gpu"), 4);
        assert!(host.price > Money::ZERO && host.price < Money::from_dollars(0.1));
        assert!(!host.access.unverified);
        let credentials = host.access.credentials.credentials().await.unwrap();
        assert_eq!(credentials.username, "username-of-bmc");
        let host =
            lowered(&json!({"tls": {"insecureSkipVerify": true}, "pricePerHour": "0.5"})).unwrap();
        assert!(host.access.unverified);
        assert_eq!(host.price, Money::from_dollars(0.5));
    }

    #[tokio::test]
    async fn a_secret_that_is_not_there_is_for_a_person_to_mend() {
        let host = lowered(&json!({"credentialsSecretRef": {"name": "gone"}})).unwrap();
        let error = host.access.credentials.credentials().await.err().unwrap();
        assert_eq!(error.kind(), "unauthorised");
        assert!(error.to_string().contains("joiner/gone"), "{error}");
    }

    #[tokio::test]
    async fn bad_settings_name_their_field() {
        let refused = |host: &serde_json::Value| lowered(host).err().unwrap().to_string();
        let said = refused(&json!({"powerOff": {"timeout": "soon"}}));
        assert!(
            said.contains("spec.redfish.hosts[0].powerOff.timeout"),
            "{said}"
        );
        let said = refused(&json!({"credentialsSecretRef": {}}));
        assert!(
            said.contains("spec.redfish.hosts[0].credentialsSecretRef.name is missing"),
            "{said}"
        );
        let spec = spec(&json!({"address": "https://127.0.0.1"}));
        let class_spec = serde_json::to_value(&spec).unwrap();
        let class = crate::record::ClassRecord {
            key: crate::record::ClassKey {
                group: "joiner.dev".into(),
                kind: "RedfishNodeClass".into(),
                name: "racks".into(),
                ..Default::default()
            },
            uid: "u".into(),
            version: 1,
            generation: 1,
            deleting: false,
            finalizers: Vec::new(),
            ready: None,
            spec: Arc::new(class_spec),
        };
        let site = ClassSite {
            secrets: &Drawer,
            owner: Owner {
                cluster: "c".into(),
                family: "karpenter".into(),
            },
            ledger: Arc::new(MemoryLedger::default()),
        };
        let provider = factory().build(&class, &site).await.unwrap();
        let said = provider.catalog().await.unwrap_err().to_string();
        assert!(
            said.contains("host metal-1: address") && said.contains("only this machine"),
            "{said}"
        );
    }
}
