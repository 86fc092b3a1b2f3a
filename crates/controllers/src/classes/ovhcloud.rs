//! `OVHNodeClass` objects become providers of OVHcloud Managed Kubernetes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use async_trait::async_trait;
use jiff::Timestamp;
use joiner_api::ovhcloud::OVHNodeClassSpec;
use joiner_api::ovhcloud::keys::{APPLICATION_KEY, APPLICATION_SECRET, CONSUMER_KEY};
use joiner_core::name::Name;
use joiner_core::problem::Catalog;
use joiner_providers::http::{Endpoint, EndpointError, Http};
use joiner_providers::ovhcloud::pools::Mark;
use joiner_providers::ovhcloud::{
    Clock, CredentialSource, Credentials, Ovh, OvhOptions, Pace, endpoint,
};
use joiner_providers::{Provider, ProviderError};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::ListParams;
use secrecy::SecretString;

use crate::dialect::{ClassFactory, ClassKind, ClassSite, Secrets};
use crate::record::ClassRecord;

/// The kind of class that OVHcloud is described by.
pub const OVH: ClassKind = ClassKind {
    group: "karpenter.ovhcloud.sh",
    version: "v1alpha1",
    kind: "OVHNodeClass",
    plural: "ovhnodeclasses",
};
/// Annotation of every node of the service: the id of the cluster.
const CLUSTER_ANNOTATION: &str = "cluster.x-k8s.io/cluster-name";
/// Keys of a Secret with a service account instead of application keys.
const CLIENT_ID: &str = "clientId";
const CLIENT_SECRET: &str = "clientSecret";
/// Nodes that are looked at for the id of the cluster.
const LOOKED_AT: u32 = 50;

/// Finds out which cluster this is.
#[async_trait]
pub trait ClusterId: Send + Sync {
    /// The id of the Managed Kubernetes cluster, if some node says it.
    async fn find(&self) -> Result<Option<String>, ProviderError>;
}

/// Asks the nodes of the cluster.
pub struct OnNodes(pub kube::Client);

#[async_trait]
impl ClusterId for OnNodes {
    async fn find(&self) -> Result<Option<String>, ProviderError> {
        let api: Api<Node> = Api::all(self.0.clone());
        let nodes = api
            .list(&ListParams::default().limit(LOOKED_AT))
            .await
            .map_err(|error| ProviderError::Transient(format!("nodes cannot be read: {error}")))?;
        let said = nodes.into_iter().find_map(|node| {
            let mut notes = node.metadata.annotations?;
            notes.remove(CLUSTER_ANNOTATION).filter(|id| !id.is_empty())
        });
        Ok(said)
    }
}

/// What the process was started with: used where a class does not say.
#[derive(Clone)]
pub struct OvhDefaults {
    /// Project, for the words of errors only: every class names its own.
    pub service_name: Option<String>,
    /// Cluster.
    pub kube_id: Option<String>,
    /// Region.
    pub region: Option<String>,
    /// Credentials.
    pub credentials: Option<Credentials>,
    /// Where the API is.
    pub api: Endpoint,
    /// Where service accounts get their tokens.
    pub oauth: Endpoint,
    /// Whose prices.
    pub subsidiary: String,
    /// Whether GPU flavours are offered.
    pub gpus: bool,
    /// Most node pools of a cluster.
    pub max_pools: usize,
    /// Most nodes of a node pool.
    pub max_pool_nodes: u32,
    /// The API is a simulated one: Secrets that classes name are not read.
    pub simulated: bool,
    /// The way to the network.
    pub http: Http,
}

impl OvhDefaults {
    /// An API by name (`ovh-eu`, `ovh-ca`, `ovh-us`) or by URL. Addresses that the operator wrote may be anywhere.
    pub fn new(
        name: &str,
        http: impl FnOnce(Vec<String>) -> Result<Http, ProviderError>,
    ) -> Result<Self, ProviderError> {
        let (api, oauth, subsidiary) = endpoint(name).ok_or_else(|| {
            ProviderError::Invalid(format!(
                "OVH_ENDPOINT {name:?} is no endpoint: write ovh-eu, ovh-ca, ovh-us or a URL"
            ))
        })?;
        let bad = |error: EndpointError| ProviderError::Invalid(format!("OVH_ENDPOINT: {error}"));
        let host = |url: &str| {
            let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
            rest.split(['/', ':']).next().unwrap_or_default().to_owned()
        };
        let api = Endpoint::parse(api.trim_end_matches('/'), &[host(api)]).map_err(bad)?;
        // A URL of one's own has its token endpoint beside the API.
        let oauth = if name.contains("://") {
            let url = format!(
                "{}/oauth2/token",
                oauth.trim_end_matches('/').trim_end_matches("/1.0")
            );
            Endpoint::parse(&url, &[host(&url)]).map_err(bad)?
        } else {
            Endpoint::parse(oauth, &[]).map_err(bad)?
        };
        let hosts = vec![api.host().to_owned(), oauth.host().to_owned()];
        Ok(OvhDefaults {
            service_name: None,
            kube_id: None,
            region: None,
            credentials: None,
            api,
            oauth,
            subsidiary: subsidiary.to_owned(),
            gpus: true,
            max_pools: 100,
            max_pool_nodes: 100,
            simulated: false,
            http: http(hosts)?,
        })
    }
}

/// Credentials in a Secret, read again when they are needed: whoever replaces them need not restart anything.
struct InSecret {
    secrets: Arc<dyn Secrets>,
    namespace: String,
    name: String,
}

#[async_trait]
impl CredentialSource for InSecret {
    async fn credentials(&self) -> Result<Credentials, ProviderError> {
        let read = async |key: &str| -> Result<SecretString, ProviderError> {
            let value = self.secrets.get(&self.namespace, &self.name, key).await;
            let value = value.map_err(ProviderError::Transient)?;
            let value = value.trim().to_owned();
            if value.is_empty() {
                return Err(ProviderError::Invalid(format!(
                    "key {key} of Secret {}/{} is empty",
                    self.namespace, self.name
                )));
            }
            Ok(value.into())
        };
        match read(APPLICATION_KEY).await {
            Ok(application_key) => Ok(Credentials::Keys {
                application_key,
                application_secret: read(APPLICATION_SECRET).await?,
                consumer_key: read(CONSUMER_KEY).await?,
            }),
            Err(error) => match (read(CLIENT_ID).await, read(CLIENT_SECRET).await) {
                (Ok(client_id), Ok(client_secret)) => Ok(Credentials::Account {
                    client_id,
                    client_secret,
                }),
                _ => Err(error),
            },
        }
    }
}

/// Makes providers of `OVHNodeClass` objects.
pub struct OvhClasses {
    defaults: OvhDefaults,
    secrets: Arc<dyn Secrets>,
    cluster: Arc<dyn ClusterId>,
    /// One limit on calls for each credential, whichever classes use it.
    paces: Mutex<BTreeMap<String, Arc<Pace>>>,
    /// What was made for each class, by the name of its catalogue.
    made: Mutex<BTreeMap<Name, Weak<Ovh>>>,
}

impl OvhClasses {
    /// A factory.
    pub fn new(
        defaults: OvhDefaults,
        secrets: Arc<dyn Secrets>,
        cluster: Arc<dyn ClusterId>,
    ) -> Self {
        OvhClasses {
            defaults,
            secrets,
            cluster,
            paces: Mutex::default(),
            made: Mutex::default(),
        }
    }

    async fn credentials(
        &self,
        spec: &OVHNodeClassSpec,
    ) -> Result<(Arc<dyn CredentialSource>, Credentials), ProviderError> {
        let named = spec.credentials_secret_ref.as_ref();
        let Some(reference) = named.filter(|_| !self.defaults.simulated) else {
            let keys = self.defaults.credentials.clone().ok_or_else(|| {
                ProviderError::Invalid(
                    "OVHcloud credentials are required: set spec.credentialsSecretRef, or OVH_APPLICATION_KEY, \
                     OVH_APPLICATION_SECRET and OVH_CONSUMER_KEY of the controller"
                        .to_owned(),
                )
            })?;
            return Ok((Arc::new(keys.clone()), keys));
        };
        let source = InSecret {
            secrets: Arc::clone(&self.secrets),
            namespace: reference.namespace.clone(),
            name: reference.name.clone(),
        };
        // A Secret that is not there shows at once, not when the first node is wanted.
        let keys = source.credentials().await?;
        Ok((Arc::new(source), keys))
    }
}

#[async_trait]
impl ClassFactory for OvhClasses {
    fn kind(&self) -> ClassKind {
        OVH
    }

    fn status(&self, catalog: &Catalog, _: Option<Timestamp>) -> serde_json::Value {
        let names: Vec<&str> = catalog.types.iter().map(|kind| &*kind.name).collect();
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let made = made.get(&catalog.name).and_then(Weak::upgrade);
        let site = made.as_ref().and_then(|ovh| ovh.known_site());
        serde_json::json!({
            "discoveredFlavors": names,
            "kubeId": site.map(|site| &site.kube),
            "region": site.map(|site| &site.region),
        })
    }

    async fn build(
        &self,
        class: &ClassRecord,
        site: &ClassSite<'_>,
    ) -> Result<Arc<dyn Provider>, ProviderError> {
        let spec: OVHNodeClassSpec = serde_json::from_value((*class.spec).clone())
            .map_err(|error| ProviderError::Invalid(format!("spec: {error}")))?;
        let defaults = &self.defaults;
        let (source, keys) = self.credentials(&spec).await?;
        let kube_id = match spec
            .kube_id()
            .map(str::to_owned)
            .or_else(|| defaults.kube_id.clone())
        {
            Some(id) => Some(id),
            None => self.cluster.find().await?,
        };
        let fingerprint = keys.fingerprint();
        let pace = {
            let mut paces = self.paces.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(paces.entry(fingerprint.clone()).or_default())
        };
        let mark = Mark {
            cluster: site.owner.cluster.to_string(),
            family: site.owner.family.to_string(),
            class: class.key.name.to_string(),
        };
        let options = OvhOptions {
            kube_id,
            region: spec
                .region()
                .map(str::to_owned)
                .or_else(|| defaults.region.clone()),
            credentials: source,
            api: defaults.api.clone(),
            oauth: defaults.oauth.clone(),
            subsidiary: defaults.subsidiary.clone(),
            pace,
            monthly_billed: spec.monthly_billed.unwrap_or(false),
            anti_affinity: spec.anti_affinity.unwrap_or(false),
            tags: spec.tags.clone(),
            gpus: defaults.gpus,
            max_pools: defaults.max_pools,
            max_pool_nodes: defaults.max_pool_nodes,
            catalog: class.key.catalog(),
            ..OvhOptions::new(spec.service_name, keys, mark, Arc::clone(&site.ledger))
                .map_err(|error| ProviderError::Invalid(error.to_string()))?
        };
        let clock: Clock = Arc::new(Timestamp::now);
        let ovh = Arc::new(Ovh::new(defaults.http.clone(), options, clock)?);
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.retain(|_, ovh| ovh.strong_count() > 0);
        made.insert(class.key.catalog(), Arc::downgrade(&ovh));
        Ok(ovh)
    }
}
