//! The calls, each at its turn.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::auth::Signer;
use super::errors::{Meaning, Refused, understand};
use super::pace::Pace;
use super::types::{
    Cluster, KubeFlavor, NewPool, Node, NodePool, NovaFlavor, PoolChange, Quotas, Region,
};
use super::{Clock, OvhOptions};
use crate::ProviderError;
use crate::http::{Endpoint, Http, HttpError, Reply, Retry, excerpt};

/// The API, as one project sees it.
pub struct Client {
    http: Http,
    api: Endpoint,
    project: String,
    signer: Signer,
    pace: Arc<Pace>,
}

impl Client {
    /// A client that talks through `http`. Nothing is sent yet.
    pub fn new(http: Http, options: &OvhOptions, clock: Clock) -> Self {
        Client {
            signer: Signer::new(
                http.clone(),
                options.api.clone(),
                options.oauth.clone(),
                Arc::clone(&options.credentials),
                clock,
            ),
            http,
            api: options.api.clone(),
            project: format!("/cloud/project/{}", options.service_name),
            pace: Arc::clone(&options.pace),
        }
    }

    /// How many calls could be made at once now.
    pub async fn spare(&self) -> u32 {
        self.pace.spare().await
    }

    fn kube(&self, kube: &str) -> String {
        format!("{}/kube/{kube}", self.project)
    }

    /// Ids of the clusters of the project. Not among the permissions that the document asks for.
    pub async fn clusters(&self) -> Result<Vec<String>, Refused> {
        self.read(&format!("{}/kube", self.project)).await
    }

    /// The cluster.
    pub async fn cluster(&self, kube: &str) -> Result<Cluster, Refused> {
        self.read(&self.kube(kube)).await
    }

    /// All node pools of the cluster, whoever made them.
    pub async fn pools(&self, kube: &str) -> Result<Vec<NodePool>, Refused> {
        let pools: Vec<NodePool> = self.read(&format!("{}/nodepool", self.kube(kube))).await?;
        if pools.iter().any(|pool| pool.id.is_empty()) {
            let error = ProviderError::Transient("a node pool without an id in the list".into());
            return Err(error.into());
        }
        Ok(pools)
    }

    /// Makes a pool. Sent once: whoever hears nothing looks for the name.
    pub async fn create(&self, kube: &str, pool: &NewPool) -> Result<NodePool, Refused> {
        let path = format!("{}/nodepool", self.kube(kube));
        let reply = self.call(&Method::POST, &path, Some(pool)).await?;
        Ok(decode(&reply, &path)?)
    }

    /// Changes the size of a pool. The answer has no body.
    pub async fn change(&self, kube: &str, id: &str, change: &PoolChange) -> Result<(), Refused> {
        let path = format!("{}/nodepool/{id}", self.kube(kube));
        self.call(&Method::PUT, &path, Some(change)).await?;
        Ok(())
    }

    /// Deletes a pool and its nodes.
    pub async fn delete(&self, kube: &str, id: &str) -> Result<(), Refused> {
        if id.is_empty() {
            // Without an id the path is that of the collection.
            return Err(ProviderError::Invalid("a node pool without an id".into()).into());
        }
        let path = format!("{}/nodepool/{id}", self.kube(kube));
        self.call::<()>(&Method::DELETE, &path, None).await?;
        Ok(())
    }

    /// The nodes of one pool.
    pub async fn pool_nodes(&self, kube: &str, id: &str) -> Result<Vec<Node>, Refused> {
        self.read(&format!("{}/nodepool/{id}/nodes", self.kube(kube)))
            .await
    }

    /// All nodes of the cluster. Not among the permissions that the document asks for.
    pub async fn nodes(&self, kube: &str) -> Result<Vec<Node>, Refused> {
        self.read(&format!("{}/node", self.kube(kube))).await
    }

    /// Flavours that Managed Kubernetes sells in the region.
    pub async fn flavors(&self, kube: &str, region: &str) -> Result<Vec<KubeFlavor>, Refused> {
        let path = format!("{}/capabilities/kube/flavors?region={region}", self.project);
        match self.read(&path).await {
            Err(Refused {
                meaning: Meaning::NotGranted(_) | Meaning::NotFound,
                ..
            }) => self.read(&format!("{}/flavors", self.kube(kube))).await,
            other => other,
        }
    }

    /// Flavours of the Public Cloud: disks, stock and plan codes. Not among the document's permissions.
    pub async fn nova_flavors(&self, region: &str) -> Result<Vec<NovaFlavor>, Refused> {
        self.read(&format!("{}/flavor?region={region}", self.project))
            .await
    }

    /// The region and its zones. Not among the document's permissions.
    pub async fn region(&self, region: &str) -> Result<Region, Refused> {
        self.read(&format!("{}/region/{region}", self.project))
            .await
    }

    /// Regions in which Managed Kubernetes is sold.
    pub async fn regions(&self) -> Result<Vec<String>, Refused> {
        self.read(&format!("{}/capabilities/kube/regions", self.project))
            .await
    }

    /// What the project may have in the region. Not among the document's permissions.
    pub async fn quota(&self, region: &str) -> Result<Quotas, Refused> {
        self.read(&format!("{}/region/{region}/quota", self.project))
            .await
    }

    /// The public price catalogue; needs no credentials and counts against nobody's limit.
    pub async fn price_list(&self, subsidiary: &str) -> Result<Bytes, ProviderError> {
        let path = format!("/order/catalog/public/cloud?ovhSubsidiary={subsidiary}");
        let request = Request::builder()
            .uri(self.api.at(&path))
            .header(ACCEPT, "application/json")
            .body(Bytes::new())
            .map_err(|error| ProviderError::Invalid(error.to_string()))?;
        let reply = self.http.send(request, Retry::READ).await;
        let reply = reply.map_err(|error| self.unreachable(&error))?;
        if reply.status.is_success() {
            return Ok(reply.body);
        }
        Err(reply.refusal(excerpt(&reply.body)))
    }

    async fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, Refused> {
        let reply = self.call::<()>(&Method::GET, path, None).await?;
        Ok(decode(&reply, path)?)
    }

    /// Makes a call at its turn, and once more if the signature's clock was wrong.
    async fn call<B: Serialize>(
        &self,
        method: &Method,
        path: &str,
        body: Option<&B>,
    ) -> Result<Reply, Refused> {
        let body = match body {
            Some(body) => serde_json::to_vec(body)
                .map_err(|error| ProviderError::Invalid(error.to_string()))?,
            None => Vec::new(),
        };
        let mut renew = false;
        loop {
            self.pace.turn().await?;
            let reply = self.once(method, path, &body, renew).await?;
            if reply.status.is_success() {
                return Ok(reply);
            }
            let refused = understand(method, path, &reply, |said| self.signer.redact(said));
            // The clock may have been set, the token may have ended, and keys may have been replaced.
            let stale = matches!(refused.meaning, Meaning::Clock | Meaning::Credentials);
            if !stale || renew {
                return Err(if refused.meaning == Meaning::Clock {
                    clock_is_right(&refused)
                } else {
                    refused
                });
            }
            renew = true;
        }
    }

    async fn once(
        &self,
        method: &Method,
        path: &str,
        body: &[u8],
        renew: bool,
    ) -> Result<Reply, ProviderError> {
        let url = self.api.at(path);
        let headers = self.signer.headers(method, &url, body, renew).await?;
        let mut request = Request::builder()
            .method(method)
            .uri(url)
            .header(ACCEPT, "application/json");
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json;charset=utf-8");
        }
        let mut request = request
            .body(Bytes::copy_from_slice(body))
            .map_err(|error| ProviderError::Invalid(error.to_string()))?;
        request.headers_mut().extend(headers);
        tracing::trace!(%method, path, "asking");
        let reply = self.http.send(request, Retry::Never).await;
        reply.map_err(|error| self.unreachable(&error))
    }

    /// Nothing came back: from where is what people need to know.
    fn unreachable(&self, error: &HttpError) -> ProviderError {
        let said = format!("{}: {error}", self.api.host());
        match error {
            HttpError::Setup(_) => ProviderError::Invalid(said),
            _ => ProviderError::Transient(said),
        }
    }
}

/// A signature that is refused although the clock was just read is made with the wrong secret.
fn clock_is_right(refused: &Refused) -> Refused {
    let said = refused.error.to_string();
    Refused {
        meaning: Meaning::Credentials,
        error: ProviderError::Unauthorised(said),
    }
}

fn decode<T: DeserializeOwned>(reply: &Reply, path: &str) -> Result<T, ProviderError> {
    serde_json::from_slice(&reply.body).map_err(|error| {
        let said = excerpt(&reply.body);
        ProviderError::Transient(format!(
            "the answer to {path} cannot be read: {error}, in {said:?}"
        ))
    })
}
