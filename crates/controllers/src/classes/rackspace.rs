//! RackspaceNodeClass objects, and the cloudspace that the process was started for, become providers.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use joiner_api::joiner::{BidPercentile, RackspaceNodeClassSpec};
use joiner_core::money::Money;
use joiner_core::problem::Catalog;
use joiner_providers::http::{Endpoint, EndpointError, Http};
use joiner_providers::rackspace::bids::{BidPolicy, Percentile};
use joiner_providers::rackspace::{Clock, Rackspace, RackspaceOptions, TokenSource};
use joiner_providers::{Provider, ProviderError};
use secrecy::SecretString;

use crate::dialect::{ClassFactory, ClassKind, ClassSite, Secrets};
use crate::dialects::karpetrack::{Branded, CLOUDSPACE};
use crate::edge::names::digest;
use crate::record::ClassRecord;

/// The kind of class that Rackspace Spot is described by.
const RACKSPACE: ClassKind = ClassKind {
    group: "joiner.dev",
    version: "v1alpha1",
    kind: "RackspaceNodeClass",
    plural: "rackspacenodeclasses",
};
/// How exactly a class tells how old its prices are.
const PRICE_STEP: Duration = Duration::from_mins(5);
/// Key of the refresh token in a Secret.
const TOKEN_KEY: &str = "refresh-token";
/// Key of the cloudspace in a Secret.
const CLOUDSPACE_KEY: &str = "cloudspace-id";

/// What the process was started with: used where a class does not say.
#[derive(Clone)]
pub struct RackspaceDefaults {
    /// Refresh token.
    pub token: Option<SecretString>,
    /// Cloudspace.
    pub cloudspace: Option<String>,
    /// Organisation.
    pub organization: Option<String>,
    /// Where the API is.
    pub api: Endpoint,
    /// Where tokens come from.
    pub oauth: Endpoint,
    /// Where the price feed is.
    pub feed: Endpoint,
    /// How old prices may be before they are read again.
    pub price_ttl: Duration,
    /// How often the catalogue is read, if not as often as others.
    pub period: Option<Duration>,
    /// The namespace of the controller: where Secrets are whose namespace a class does not name.
    pub namespace: String,
    /// The way to the cloud.
    pub http: Http,
    /// Time.
    pub clock: Clock,
}

impl RackspaceDefaults {
    /// For one cloudspace behind `http`, whatever is there, with the addresses of the real cloud.
    pub fn behind(
        http: Http,
        token: SecretString,
        cloudspace: &str,
        clock: Clock,
    ) -> Result<Self, EndpointError> {
        let usual = RackspaceOptions::new("", cloudspace, token.clone())?;
        Ok(RackspaceDefaults {
            token: Some(token),
            cloudspace: Some(usual.cloudspace),
            organization: None,
            api: usual.api,
            oauth: usual.oauth,
            feed: usual.feed,
            price_ttl: usual.price_ttl,
            period: None,
            namespace: String::new(),
            http,
            clock,
        })
    }
}

/// An address that the operator wrote: it may be anywhere.
pub fn endpoint(url: &str) -> Result<Endpoint, EndpointError> {
    let host = url
        .split_once("://")
        .and_then(|(_, rest)| rest.split(['/', ':']).next())
        .unwrap_or_default();
    Endpoint::parse(url, &[host.to_owned()])
}

/// A refresh token in a Secret, read each time that it is needed: a new one needs no restart.
struct InSecret {
    secrets: Arc<dyn Secrets>,
    namespace: String,
    name: String,
}

#[async_trait]
impl TokenSource for InSecret {
    async fn refresh_token(&self) -> Result<SecretString, ProviderError> {
        let read = self.secrets.get(&self.namespace, &self.name, TOKEN_KEY);
        let token = read.await.map_err(ProviderError::Transient)?;
        Ok(token.into())
    }
}

/// Makes providers for one kind of class.
pub struct RackspaceClasses {
    kind: ClassKind,
    defaults: RackspaceDefaults,
    secrets: Arc<dyn Secrets>,
}

impl RackspaceClasses {
    /// For RackspaceNodeClass objects and for the cloudspace of the process.
    pub fn both(
        defaults: &RackspaceDefaults,
        secrets: &Arc<dyn Secrets>,
    ) -> Vec<Arc<dyn ClassFactory>> {
        [RACKSPACE, CLOUDSPACE]
            .into_iter()
            .map(|kind| {
                Arc::new(RackspaceClasses {
                    kind,
                    defaults: defaults.clone(),
                    secrets: Arc::clone(secrets),
                }) as Arc<dyn ClassFactory>
            })
            .collect()
    }

    /// Which cloudspace, and where its token comes from.
    async fn credentials(
        &self,
        spec: &RackspaceNodeClassSpec,
    ) -> Result<(String, Arc<dyn TokenSource>), ProviderError> {
        let defaults = &self.defaults;
        let required = |what: &str, way: &str| {
            ProviderError::Invalid(format!("Rackspace Spot {what} is required: {way}"))
        };
        let Some(reference) = &spec.credentials_secret_ref else {
            let token = defaults.token.clone().ok_or_else(|| {
                required(
                    "refresh token",
                    "set spec.credentialsSecretRef, or RACKSPACE_SPOT_REFRESH_TOKEN of the controller",
                )
            })?;
            let cloudspace = spec
                .cloudspace
                .clone()
                .or_else(|| defaults.cloudspace.clone());
            let cloudspace = cloudspace.ok_or_else(|| {
                required(
                    "cloudspace ID",
                    "set spec.cloudspace, or RACKSPACE_SPOT_CLOUDSPACE_ID of the controller",
                )
            })?;
            return Ok((cloudspace, Arc::new(token)));
        };
        let name = reference.name.clone().ok_or_else(|| {
            ProviderError::Invalid("spec.credentialsSecretRef.name is required".to_owned())
        })?;
        let source = InSecret {
            secrets: Arc::clone(&self.secrets),
            namespace: reference
                .namespace
                .clone()
                .unwrap_or_else(|| defaults.namespace.clone()),
            name,
        };
        // A Secret that is not there shows at once, not when the first server is wanted.
        source.refresh_token().await?;
        let cloudspace = if let Some(name) = &spec.cloudspace {
            name.clone()
        } else {
            let read = self
                .secrets
                .get(&source.namespace, &source.name, CLOUDSPACE_KEY);
            read.await.map_err(ProviderError::Transient)?
        };
        Ok((cloudspace, Arc::new(source)))
    }
}

#[async_trait]
impl ClassFactory for RackspaceClasses {
    fn kind(&self) -> ClassKind {
        self.kind.clone()
    }

    fn family(&self) -> &'static str {
        if self.kind == CLOUDSPACE {
            "karpetrack"
        } else {
            "karpenter"
        }
    }

    fn has_objects(&self) -> bool {
        self.kind != CLOUDSPACE
    }

    fn period(&self) -> Option<Duration> {
        self.defaults.period
    }

    fn status(&self, catalog: &Catalog, priced: Option<Timestamp>) -> serde_json::Value {
        let mut offerings = catalog.types.iter().flat_map(|kind| &kind.offerings);
        serde_json::json!({
            "region": offerings.next().map(|one| &*one.region),
            "pricesAsOf": priced.and_then(in_steps),
        })
    }

    async fn build(
        &self,
        class: &ClassRecord,
        site: &ClassSite<'_>,
    ) -> Result<Arc<dyn Provider>, ProviderError> {
        let spec: RackspaceNodeClassSpec = serde_json::from_value((*class.spec).clone())
            .map_err(|error| ProviderError::Invalid(format!("spec: {error}")))?;
        let (cloudspace, token) = self.credentials(&spec).await?;
        let defaults = &self.defaults;
        let timeout = spec.registration_timeout();
        let timeout = timeout
            .get()
            .ok()
            .and_then(|time| Duration::try_from(time).ok());
        let options = RackspaceOptions {
            family: site.owner.family.to_string(),
            older_cluster_id: Some(older_cluster_id(&cloudspace)),
            organization: spec
                .organization
                .clone()
                .or_else(|| defaults.organization.clone()),
            refresh_token: token,
            api: defaults.api.clone(),
            oauth: defaults.oauth.clone(),
            feed: defaults.feed.clone(),
            bids: bids(&spec)?,
            price_ttl: defaults.price_ttl,
            registration_timeout: timeout.ok_or_else(|| {
                ProviderError::Invalid(format!(
                    "spec.registrationTimeout: {:?} is not a time such as 45m",
                    spec.registration_timeout().as_str()
                ))
            })?,
            ..RackspaceOptions::new(&*site.owner.cluster, cloudspace, SecretString::default())
                .map_err(|error| ProviderError::Invalid(error.to_string()))?
        };
        let clock = Clock::clone(&defaults.clock);
        let provider: Arc<dyn Provider> =
            Arc::new(Rackspace::new(defaults.http.clone(), options, clock)?);
        Ok(if self.kind == CLOUDSPACE {
            Arc::new(Branded(provider))
        } else {
            provider
        })
    }
}

/// Prices are read twice a minute, and every other status would be a write: the age is told in steps.
fn in_steps(priced: Timestamp) -> Option<Timestamp> {
    let step = i64::try_from(PRICE_STEP.as_secs()).ok()?;
    let whole = priced.as_second().div_euclid(step) * step;
    Timestamp::from_second(whole).ok()
}

/// What stood in the place of the cluster's identity on servers before their mark named a family.
fn older_cluster_id(cloudspace: &str) -> String {
    if cloudspace.len() <= 63 {
        cloudspace.to_owned()
    } else {
        digest(cloudspace)
    }
}

fn bids(spec: &RackspaceNodeClassSpec) -> Result<BidPolicy, ProviderError> {
    let invalid = |field: &str, error: String| ProviderError::Invalid(format!("{field}: {error}"));
    let bid = spec.bid.clone().unwrap_or_default();
    let most = spec.max_price.as_ref().map(joiner_api::text::Price::get);
    let most = most
        .transpose()
        .map_err(|error| invalid("spec.maxPrice", error.to_string()))?;
    let headroom = bid.headroom();
    let headroom = headroom
        .millionths()
        .map_err(|error| invalid("spec.bid.headroom", error.to_string()))?;
    Ok(BidPolicy {
        percentile: match bid.percentile() {
            BidPercentile::P20 => Percentile::P20,
            BidPercentile::P50 => Percentile::P50,
            BidPercentile::P80 => Percentile::P80,
        },
        headroom_percent: headroom / 10_000,
        max_price: most.filter(|price| *price > Money::ZERO),
    })
}

#[cfg(test)]
mod tests {
    use joiner_providers::http::Reach;
    use joiner_providers::{MemoryLedger, Owner};
    use serde_json::{Value, json};

    use super::*;
    use crate::dialects::karpetrack::class_key;

    /// One Secret, `here/creds`.
    struct Drawer;

    #[async_trait]
    impl Secrets for Drawer {
        async fn get(&self, namespace: &str, name: &str, key: &str) -> Result<String, String> {
            match (namespace, name, key) {
                ("here", "creds", TOKEN_KEY) => Ok("token".to_owned()),
                ("here", "creds", CLOUDSPACE_KEY) => Ok("demo".to_owned()),
                _ => Err(format!("secret {namespace}/{name} has no key {key:?}")),
            }
        }
    }

    fn factory(token: Option<&str>) -> RackspaceClasses {
        let url = |text: &str| endpoint(text).unwrap();
        RackspaceClasses {
            kind: RACKSPACE,
            defaults: RackspaceDefaults {
                token: token.map(Into::into),
                cloudspace: Some("own".to_owned()),
                organization: None,
                api: url("http://127.0.0.1:1"),
                oauth: url("http://127.0.0.1:1"),
                feed: url("http://127.0.0.1:1/percentiles.json"),
                price_ttl: Duration::from_secs(30),
                period: None,
                namespace: "here".to_owned(),
                http: Http::production(&Reach::default()).unwrap(),
                clock: Arc::new(Timestamp::now),
            },
            secrets: Arc::new(Drawer),
        }
    }

    async fn build(token: Option<&str>, spec: Value) -> Result<Arc<dyn Provider>, ProviderError> {
        let class = ClassRecord {
            key: class_key("x"),
            uid: "u".into(),
            version: 1,
            generation: 1,
            deleting: false,
            finalizers: Vec::new(),
            ready: None,
            spec: Arc::new(spec),
        };
        let site = ClassSite {
            secrets: &Drawer,
            owner: Owner {
                cluster: "cluster".into(),
                family: "karpenter".into(),
            },
            ledger: Arc::new(MemoryLedger::default()),
        };
        factory(token).build(&class, &site).await
    }

    #[tokio::test]
    async fn an_empty_class_uses_what_the_process_was_started_with() {
        assert!(build(Some("token"), json!({})).await.is_ok());
        let refused = build(None, json!({})).await.err().unwrap().to_string();
        assert!(
            refused.contains("Rackspace Spot refresh token is required"),
            "{refused}"
        );
        assert!(refused.contains("spec.credentialsSecretRef"), "{refused}");
    }

    #[tokio::test]
    async fn a_secret_is_found_in_the_namespace_of_the_controller() {
        let spec = json!({"credentialsSecretRef": {"name": "creds"}});
        assert!(build(None, spec).await.is_ok());
        let spec = json!({"credentialsSecretRef": {"name": "creds", "namespace": "there"}});
        let refused = build(None, spec).await.err().unwrap().to_string();
        assert!(refused.contains("there/creds"), "{refused}");
    }

    #[test]
    fn bids_are_made_as_the_class_says() {
        let read = |spec: Value| bids(&serde_json::from_value(spec).unwrap());
        assert_eq!(read(json!({})), Ok(BidPolicy::default()));
        let policy =
            read(json!({"maxPrice": "0.5", "bid": {"percentile": "P50", "headroom": "5%"}}));
        assert_eq!(
            policy,
            Ok(BidPolicy {
                percentile: Percentile::P50,
                headroom_percent: 5,
                max_price: Some(Money::from_dollars(0.5)),
            })
        );
        assert_eq!(read(json!({"maxPrice": "0"})).unwrap().max_price, None);
        let refused = read(json!({"maxPrice": "cheap"})).unwrap_err().to_string();
        assert!(
            refused.contains("spec.maxPrice") && refused.contains("cheap"),
            "{refused}"
        );
    }

    #[test]
    fn the_age_of_prices_is_told_in_steps_of_five_minutes() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let told = |text| factory(None).status(&Catalog::default(), Some(at(text)));
        assert_eq!(
            told("2026-11-15T12:09:59.5Z")["pricesAsOf"],
            "2026-11-15T12:05:00Z"
        );
        assert_eq!(
            told("2026-11-15T12:10:00Z")["pricesAsOf"],
            "2026-11-15T12:10:00Z"
        );
    }

    #[test]
    fn only_an_operator_may_name_an_address_of_this_machine() {
        assert!(endpoint("http://127.0.0.1:8080/percentiles.json").is_ok());
        assert!(endpoint("https://spot.rackspace.com").is_ok());
        assert!(endpoint("ftp:/x").is_err());
    }
}
