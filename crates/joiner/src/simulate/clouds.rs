//! Simulated clouds of simulated worlds: how one is opened, and how a process of Joiner reaches it.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use joiner_controllers::classes::ovhcloud::OVH;
use joiner_controllers::dialect::ClassKind;
use joiner_controllers::dialects::karpetrack::{Branded, CLOUDSPACE};
use joiner_controllers::dialects::nodesmith::{self, PROVIDER};
use joiner_core::problem::Catalog;
use joiner_embedded::cluster::Cluster;
use joiner_providers::http::Http;
use joiner_providers::ovhcloud::pools::Mark;
use joiner_providers::ovhcloud::{Credentials, Ovh, OvhOptions};
use joiner_providers::rackspace::{Rackspace, RackspaceOptions};
use joiner_providers::{Ledger, MemoryLedger, Owner, Provider, ProviderError};
use joiner_sim::clouds::faulty::{Fate, FaultRates, Faults, Faulty};
use joiner_sim::clouds::ovhcloud::{OvhCloud, OvhCloudOptions};
use joiner_sim::clouds::rackspace::{RackspaceCloud, RackspaceCloudOptions};
use joiner_sim::clouds::sim::{SimCloud, SimCloudOptions};
use joiner_sim::clouds::watched::Watched;
use serde_json::{Value, json};
use tower::{Service, ServiceExt as _};

use super::line::{Called, Line, Passage, Side};
use crate::classes::sim::SIM;

/// What a provider is made of, beside its cloud.
pub(crate) struct Site<'a> {
    /// The line of the process.
    pub(crate) line: &'a Line,
    /// Name of the class that it is for.
    pub(crate) class: &'a str,
    /// What goes wrong at the cloud.
    pub(crate) faults: &'a Faults,
    /// Whose machines it buys.
    pub(crate) owner: Owner,
    /// Where it keeps what the cloud cannot carry.
    pub(crate) ledger: Arc<dyn Ledger>,
}

/// A cloud that a world has, and how a process reaches it.
#[async_trait]
pub(crate) trait WorldCloud: Send + Sync {
    /// The cloud as auditor and world know it.
    fn watched(&self) -> &dyn Watched;

    /// A provider for one process.
    fn provider(&self, site: &Site<'_>) -> Result<Arc<dyn Provider>, ProviderError>;

    /// What it sells, at its best.
    async fn catalog(&self) -> Result<Catalog, ProviderError> {
        let site = Site {
            class: "auditor",
            line: &Line::default(),
            faults: &Faults::new(FaultRates::default(), 0),
            owner: Owner {
                cluster: "auditor".into(),
                family: "auditor".into(),
            },
            ledger: Arc::new(MemoryLedger::default()),
        };
        self.provider(&site)?.catalog().await
    }
}

/// Opens a cloud beside a cluster.
type Open = Arc<dyn Fn(&Cluster) -> Arc<dyn WorldCloud> + Send + Sync>;

/// A cloud that a world is to have.
#[derive(Clone)]
pub(crate) struct CloudPlan {
    /// The kind of its class.
    pub(crate) kind: ClassKind,
    /// The family whose pools name the class.
    pub(crate) family: &'static str,
    /// The name of its class.
    pub(crate) class: String,
    /// The class as an object; `None` where the family has none.
    pub(crate) object: Option<Value>,
    /// Opens it.
    pub(crate) open: Open,
}

impl fmt::Debug for CloudPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.kind, self.class)
    }
}

/// The cloud of a `SimNodeClass`.
pub(crate) fn sim(class: &str, options: SimCloudOptions) -> CloudPlan {
    CloudPlan {
        kind: SIM,
        family: "karpenter",
        class: class.to_owned(),
        object: Some(json!({"metadata": {"name": class}, "spec": {}})),
        open: Arc::new(move |cluster| {
            let rack = Arc::new(cluster.kubelets().clone());
            let clock = cluster.api().clock().clone();
            Arc::new(SimCloud::new(options.clone(), clock, rack))
        }),
    }
}

/// The namespace of `NodeSmithPools` and of what they buy from.
pub(crate) const FORGE: &str = "default";

/// The cloud of a `NodeSmithProvider`: it stands for own hardware of whatever kind.
pub(crate) fn rack(class: &str, options: SimCloudOptions) -> CloudPlan {
    let spec = json!({
        "type": "proxmox",
        "credentialsSecretRef": {"name": "token"},
        "proxmox": {
            "endpoint": "https://10.0.4.30:8006/api2/json",
            "vmIDRange": {"lower": 1250, "upper": 1300},
            "managedNodeTag": "kubenodesmith-managed",
        },
    });
    CloudPlan {
        kind: PROVIDER,
        family: nodesmith::NAME,
        object: Some(json!({"metadata": {"name": class, "namespace": FORGE}, "spec": spec})),
        ..sim(class, options)
    }
}

#[async_trait]
impl WorldCloud for SimCloud {
    fn watched(&self) -> &dyn Watched {
        self
    }

    fn provider(&self, site: &Site<'_>) -> Result<Arc<dyn Provider>, ProviderError> {
        Ok(Arc::new(Called {
            cloud: Arc::new(Faulty::new(self.clone(), site.faults.clone())),
            line: site.line.clone(),
        }))
    }
}

/// The cloudspace that SpotNodePools buy for.
pub(crate) const SPACE: &str = "space";

/// The simulated Rackspace Spot, over its wire.
#[derive(Clone)]
struct Space {
    cloud: RackspaceCloud,
    token: String,
}

/// The cloudspace of SpotNodePools.
pub(crate) fn space(options: RackspaceCloudOptions) -> CloudPlan {
    CloudPlan {
        kind: CLOUDSPACE,
        family: "karpetrack",
        class: SPACE.to_owned(),
        object: None,
        open: Arc::new(move |cluster| {
            let api = cluster.api();
            let rack = Arc::new(cluster.kubelets().clone());
            let cloud = RackspaceCloud::new(options.clone(), api.clock().clone(), rack);
            Arc::new(Space {
                cloud: cloud.with_api(api),
                token: options.refresh_token.clone(),
            })
        }),
    }
}

#[async_trait]
impl WorldCloud for Space {
    fn watched(&self) -> &dyn Watched {
        &self.cloud
    }

    fn provider(&self, site: &Site<'_>) -> Result<Arc<dyn Provider>, ProviderError> {
        let options = RackspaceOptions {
            family: site.owner.family.to_string(),
            ..RackspaceOptions::new(&*site.owner.cluster, SPACE, self.token.as_str().into())
                .map_err(|error| ProviderError::Invalid(error.to_string()))?
        };
        let clock = self.cloud.clock().clone();
        let http = Http::new(CloudWire {
            cloud: self.cloud.router(),
            line: site.line.clone(),
            faults: None,
        });
        let provider = Rackspace::new(http, options, Arc::new(move || clock.now()))?;
        let faulty = Faulty::new(provider, site.faults.clone());
        Ok(Arc::new(Branded(Arc::new(faulty))))
    }
}

/// The simulated OVHcloud, over its wire.
struct Managed {
    cloud: OvhCloud,
    options: OvhCloudOptions,
}

/// The class of the simulated OVHcloud.
pub(crate) fn ovh(class: &str, options: OvhCloudOptions) -> CloudPlan {
    let spec = json!({"serviceName": options.service_name, "kubeId": options.kube_id});
    CloudPlan {
        kind: OVH,
        family: "karpenter",
        class: class.to_owned(),
        object: Some(json!({"metadata": {"name": class}, "spec": spec})),
        open: Arc::new(move |cluster| {
            let api = cluster.api();
            let rack = Arc::new(cluster.kubelets().clone());
            let cloud = OvhCloud::new(options.clone(), api.clock().clone(), rack);
            Arc::new(Managed {
                cloud: cloud.with_api(api),
                options: options.clone(),
            })
        }),
    }
}

#[async_trait]
impl WorldCloud for Managed {
    fn watched(&self) -> &dyn Watched {
        &self.cloud
    }

    fn provider(&self, site: &Site<'_>) -> Result<Arc<dyn Provider>, ProviderError> {
        let options = &self.options;
        let keys = Credentials::Keys {
            application_key: options.application_key.as_str().into(),
            application_secret: options.application_secret.as_str().into(),
            consumer_key: options.consumer_key.as_str().into(),
        };
        let mark = Mark {
            cluster: site.owner.cluster.to_string(),
            family: site.owner.family.to_string(),
            class: site.class.to_owned(),
        };
        let service = options.service_name.as_str();
        let ovh = OvhOptions {
            kube_id: Some(options.kube_id.clone()),
            ..OvhOptions::new(service, keys, mark, Arc::clone(&site.ledger))
                .map_err(|error| ProviderError::Invalid(error.to_string()))?
        };
        let clock = self.cloud.clock().clone();
        // One call of the trait is several here, and each of them may go wrong.
        let http = Http::new(CloudWire {
            cloud: self.cloud.router(),
            line: site.line.clone(),
            faults: Some(site.faults.clone()),
        });
        Ok(Arc::new(Ovh::new(
            http,
            ovh,
            Arc::new(move || clock.now()),
        )?))
    }
}

/// A cloud's wire at the far end of a line: every request may be the last of its process.
#[derive(Clone)]
struct CloudWire {
    cloud: Router,
    line: Line,
    /// What goes wrong with single requests.
    faults: Option<Faults>,
}

/// Nothing comes back.
#[derive(Debug, thiserror::Error)]
#[error("no route to host")]
struct NoRoute;

impl<B> Service<Request<B>> for CloudWire
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (cloud, line) = (self.cloud.clone(), self.line.clone());
        let faults = self.faults.clone();
        let request = request.map(Body::new);
        Box::pin(async move {
            let fate = match faults {
                Some(faults) => faults.fate().await,
                None => Fate::Fine,
            };
            let answer = |request| async move {
                let answered: Result<Response<Body>, Infallible> = cloud.oneshot(request).await;
                answered.map_err(|never| match never {})
            };
            match line.pass() {
                Passage::Through => match fate {
                    Fate::Fine | Fate::SoldOut => answer(request).await,
                    Fate::Refused => Ok(refusal(StatusCode::SERVICE_UNAVAILABLE)),
                    Fate::Throttled => Ok(refusal(StatusCode::TOO_MANY_REQUESTS)),
                    Fate::Lost => {
                        let _: Result<Response<Body>, Self::Error> = answer(request).await;
                        Ok(refusal(StatusCode::GATEWAY_TIMEOUT))
                    }
                },
                Passage::Dies(side) => {
                    if side == Side::After {
                        let _: Result<Response<Body>, Self::Error> = answer(request).await;
                    }
                    std::future::pending().await
                }
                Passage::Cut => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    Err(NoRoute.into())
                }
            }
        })
    }
}

fn refusal(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::from("upstream trouble"));
    *response.status_mut() = status;
    response
}
