//! Which cluster, as whom, and whether it lets us in.

use std::time::Duration;

use joiner_core::name::Name;
use k8s_openapi::api::core::v1::Namespace;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use tokio::time::Instant;
use tracing::warn;

use crate::args::{ClusterArgs, ElectionArgs};
use crate::failure::Failure;

/// How long an API server may be away when we start: as long as one takes to be restarted, not so long that a typing
/// error in an address looks like patience.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it is tried.
const EVERY: Duration = Duration::from_secs(1);

/// A cluster that answers.
pub(super) struct Site {
    /// How to reach it.
    pub(super) config: Config,
    /// For questions about it.
    pub(super) client: Client,
    /// Its address.
    pub(super) server: String,
    /// Where the lease is, and the ledgers of providers.
    pub(super) namespace: String,
    /// Its identity: the UID of namespace kube-system, part of the mark on every machine that is bought for it.
    pub(super) cluster: Name,
}

impl Site {
    /// Finds the cluster and asks whether it answers.
    pub(super) async fn open(args: &ClusterArgs, election: &ElectionArgs) -> Result<Self, Failure> {
        let config = configuration(args).await?;
        let server = config.cluster_url.to_string();
        let client = Client::try_from(config.clone())
            .map_err(|error| Failure::Cluster(format!("cannot speak to {server}: {error}")))?;
        if config.accept_invalid_certs {
            warn!(%server, "the certificate of the API server is not checked (insecure-skip-tls-verify)");
        }
        let namespace = election.leader_election_namespace.clone();
        let mut site = Site {
            cluster: Name::default(),
            namespace: namespace.unwrap_or_else(|| config.default_namespace.clone()),
            config,
            client,
            server,
        };
        site.reach().await?;
        site.cluster = site.identity().await?;
        Ok(site)
    }

    /// A cluster has no name of its own; its namespace kube-system is as old as it is and is never made again.
    async fn identity(&self) -> Result<Name, Failure> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let system = api.get("kube-system").await.map_err(|error| {
            Failure::Cluster(format!(
                "namespace kube-system cannot be read, and its UID is the identity of the cluster: {}; grant get on \
                 namespaces (config/rbac has every permission)",
                chain(&error)
            ))
        })?;
        Ok(system.metadata.uid.unwrap_or_default().into())
    }

    async fn reach(&self) -> Result<(), Failure> {
        let since = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(since.elapsed());
            let asked = tokio::time::timeout(left, self.client.apiserver_version()).await;
            let said = match asked {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(kube::Error::Api(status))) if matches!(status.code, 401 | 403) => {
                    let said = &status.message;
                    return Err(Failure::Cluster(format!(
                        "the API server at {} does not let us in: {said}; check the credentials of the kubeconfig or \
                         of the service account",
                        self.server
                    )));
                }
                Ok(Err(error)) => chain(&error),
                Err(_) => "no answer".to_owned(),
            };
            if since.elapsed() + EVERY > PATIENCE {
                return Err(Failure::Cluster(format!(
                    "the API server at {} cannot be reached: {said}; check --kubeconfig, --context and the network",
                    self.server
                )));
            }
            warn!(server = %self.server, said, "the API server does not answer yet");
            tokio::time::sleep(EVERY).await;
        }
    }
}

async fn configuration(args: &ClusterArgs) -> Result<Config, Failure> {
    let options = KubeConfigOptions {
        context: args.context.clone(),
        ..KubeConfigOptions::default()
    };
    if let Some(path) = &args.kubeconfig {
        let at = |error: &dyn std::error::Error| {
            Failure::Cluster(format!("kubeconfig {}: {}", path.display(), chain(error)))
        };
        let read = Kubeconfig::read_from(path).map_err(|error| at(&error))?;
        let config = Config::from_custom_kubeconfig(read, &options).await;
        return config.map_err(|error| at(&error));
    }
    if args.context.is_some() {
        let config = Config::from_kubeconfig(&options).await;
        return config.map_err(|error| Failure::Cluster(format!("kubeconfig: {}", chain(&error))));
    }
    Config::infer().await.map_err(|error| {
        Failure::Cluster(format!(
            "no cluster: {}; give --kubeconfig, or run in a pod with a service account",
            chain(&error)
        ))
    })
}

/// What was said, with what lies below, without saying anything twice.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut below = error.source();
    while let Some(cause) = below {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        below = cause.source();
    }
    text
}
