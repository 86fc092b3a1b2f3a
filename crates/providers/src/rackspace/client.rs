//! The calls of the API that Joiner makes, each with what its answers mean.
//!
//! One call is not here and must never be: deleting a whole collection, which removes every pool of the organisation.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{Method, Request};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::{Mutex, OnceCell};
use tokio::time::Instant;

use super::auth::{Session, Token, form};
use super::bids::{Bid, Refusal};
use super::types::{
    CloudSpace, List, Organization, Organizations, Pool, Region, ServerClass, Status,
};
use super::{Clock, RackspaceOptions};
use crate::ProviderError;
use crate::http::{Endpoint, Http, Reply, Retry};

const ROOT: &str = "/apis/ngpc.rxt.io/v1";
const PAGE: usize = 500;
/// More pages than the cloud has servers: whoever hands out more is handing them out in circles.
const MOST_PAGES: usize = 100;
/// The API is said to dislike purchases in quick succession.
const BETWEEN_PURCHASES: Duration = Duration::from_millis(200);

/// How the servers of a pool are paid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PoolKind {
    /// Won in an auction.
    Spot,
    /// Reserved at a fixed price.
    OnDemand,
}

impl PoolKind {
    /// Both.
    pub const ALL: [PoolKind; 2] = [PoolKind::Spot, PoolKind::OnDemand];

    /// As paths have it.
    pub fn plural(self) -> &'static str {
        match self {
            PoolKind::Spot => "spotnodepools",
            PoolKind::OnDemand => "ondemandnodepools",
        }
    }

    /// As objects have it.
    pub fn kind(self) -> &'static str {
        match self {
            PoolKind::Spot => "SpotNodePool",
            PoolKind::OnDemand => "OnDemandNodePool",
        }
    }
}

/// What came of making or changing a pool.
#[derive(Debug)]
pub enum Outcome {
    /// It is there.
    Done(Box<Pool>),
    /// There is one of this name already.
    Exists,
    /// The bid is not acceptable, and the refusal says what would be.
    Refused(Refusal, String),
}

/// The API, as one organisation sees it.
pub struct Client {
    http: Http,
    api: Endpoint,
    session: Session,
    organization: Option<String>,
    namespace: OnceCell<String>,
    next_purchase: Mutex<Option<Instant>>,
    clock: Clock,
}

impl Client {
    /// A client that talks through `http`. Nothing is sent yet.
    pub fn new(http: Http, options: &RackspaceOptions, clock: Clock) -> Self {
        let session = Session::new(
            http.clone(),
            options.oauth.clone(),
            options.client_id.clone(),
            Arc::clone(&options.refresh_token),
            Clock::clone(&clock),
        );
        Client {
            http,
            api: options.api.clone(),
            session,
            organization: options.organization.clone(),
            namespace: OnceCell::new(),
            next_purchase: Mutex::new(None),
            clock,
        }
    }

    /// The namespace of the organisation. Asks only if the token does not say.
    pub async fn namespace(&self) -> Result<&str, ProviderError> {
        let namespace = self
            .namespace
            .get_or_try_init(|| self.find_namespace())
            .await?;
        Ok(namespace)
    }

    async fn find_namespace(&self) -> Result<String, ProviderError> {
        let claim = self.session.token().await?.claims.org_id;
        let id = match &self.organization {
            None => claim,
            Some(wanted) if is_organization(wanted, &claim, "") => claim,
            Some(wanted) => self.organization(wanted).await?,
        };
        let namespace = normalise(&id);
        if !namespace.starts_with("org-") || !is_path_segment(&namespace) {
            return Err(ProviderError::Invalid(
                "the token names no organisation; set one".to_owned(),
            ));
        }
        Ok(namespace)
    }

    async fn organization(&self, wanted: &str) -> Result<String, ProviderError> {
        let reply = self
            .read(&format!(
                "/apis/auth.ngpc.rxt.io/v1/organizations?limit={PAGE}"
            ))
            .await?;
        let page: Organizations = decode(&reply, "the list of organisations")?;
        let found = page
            .organizations
            .iter()
            .find(|Organization { id, name }| is_organization(wanted, &id.0, &name.0));
        found.map(|one| one.id.0.clone()).ok_or_else(|| {
            ProviderError::Invalid(format!(
                "the token belongs to no organisation {wanted:?} (it sees {})",
                page.organizations.len()
            ))
        })
    }

    /// All regions.
    pub async fn regions(&self) -> Result<Vec<Region>, ProviderError> {
        let items = self.list(&format!("{ROOT}/regions")).await?;
        Ok(readable(items))
    }

    /// All server classes of all regions. Classes that cannot be read are left out.
    pub async fn server_classes(&self) -> Result<Vec<ServerClass>, ProviderError> {
        let items = self.list(&format!("{ROOT}/serverclasses")).await?;
        let mut classes: Vec<ServerClass> = readable(items);
        classes.retain(|class| !class.metadata.name.is_empty());
        Ok(classes)
    }

    /// One cloudspace.
    pub async fn cloudspace(&self, name: &str) -> Result<CloudSpace, ProviderError> {
        let namespace = self.namespace().await?;
        let reply = self
            .read(&format!("{ROOT}/namespaces/{namespace}/cloudspaces/{name}"))
            .await?;
        decode(&reply, "the cloudspace")
    }

    /// All pools of the organisation, in every cloudspace: whether the cloud labels them by cloudspace is not known,
    /// so a selector could hide some. A list with an entry that cannot be read is an error.
    pub async fn pools(&self, kind: PoolKind) -> Result<Vec<Pool>, ProviderError> {
        let items = self.list(&self.pools_path(kind).await?).await?;
        items
            .into_iter()
            .map(|item| {
                let pool: Pool = serde_json::from_value(item)
                    .map_err(|error| unreadable("a pool in the list", &error))?;
                if pool.metadata.name.is_empty() {
                    let kind = kind.kind();
                    return Err(ProviderError::Transient(format!("a {kind} without a name")));
                }
                Ok(pool)
            })
            .collect()
    }

    /// One pool.
    pub async fn pool(&self, kind: PoolKind, name: &str) -> Result<Pool, ProviderError> {
        let path = self.pools_path(kind).await?;
        let reply = self.read(&format!("{path}/{name}")).await?;
        let pool: Pool = decode(&reply, "the pool")?;
        if pool.metadata.name != name {
            return Err(ProviderError::Transient(format!(
                "asked for pool {name} and got {:?}",
                pool.metadata.name
            )));
        }
        Ok(pool)
    }

    /// Makes a pool. Sent once: whoever hears nothing looks for the pool.
    pub async fn create(&self, kind: PoolKind, pool: &Pool) -> Result<Outcome, ProviderError> {
        let path = self.pools_path(kind).await?;
        self.pace().await;
        let body = serde_json::to_vec(pool).map_err(|error| unreadable("the pool", &error))?;
        let (reply, token) = self
            .call(&Method::POST, &path, "application/json", body, Retry::Never)
            .await?;
        if reply.status.as_u16() == 409 {
            return Ok(Outcome::Exists);
        }
        self.outcome(&reply, &token)
    }

    /// Changes the bid of a pool, and nothing else of it.
    pub async fn raise_bid(&self, name: &str, bid: Bid) -> Result<Outcome, ProviderError> {
        let path = format!("{}/{name}", self.pools_path(PoolKind::Spot).await?);
        let body = json!({"spec": {"bidPrice": bid.to_string()}}).to_string();
        let kind = "application/merge-patch+json";
        let (reply, token) = self
            .call(&Method::PATCH, &path, kind, body.into_bytes(), Retry::Never)
            .await?;
        self.outcome(&reply, &token)
    }

    /// Deletes a pool and with it its servers. `NotFound` if there is none.
    pub async fn delete(&self, kind: PoolKind, name: &str) -> Result<(), ProviderError> {
        let path = self.pools_path(kind).await?;
        if name.is_empty() {
            // Without a name the path is that of the collection.
            return Err(ProviderError::Invalid("a pool without a name".to_owned()));
        }
        let path = format!("{path}/{name}");
        let (reply, token) = self
            .call(&Method::DELETE, &path, "", Vec::new(), Retry::READ)
            .await?;
        if reply.status.is_success() {
            return Ok(());
        }
        Err(self.refusal(&reply, &token))
    }

    async fn pools_path(&self, kind: PoolKind) -> Result<String, ProviderError> {
        let namespace = self.namespace().await?;
        Ok(format!("{ROOT}/namespaces/{namespace}/{}", kind.plural()))
    }

    async fn pace(&self) {
        let mut next = self.next_purchase.lock().await;
        if let Some(at) = *next {
            tokio::time::sleep_until(at).await;
        }
        *next = Some(Instant::now() + BETWEEN_PURCHASES);
    }

    async fn list(&self, path: &str) -> Result<Vec<Value>, ProviderError> {
        let mut items = Vec::new();
        let mut next = String::new();
        for _ in 0..MOST_PAGES {
            let query = if next.is_empty() {
                format!("{path}?limit={PAGE}")
            } else {
                format!("{path}?limit={PAGE}&continue={}", form(&next))
            };
            let reply = match self.read(&query).await {
                // A list that is not there is not an empty list.
                Err(ProviderError::NotFound(said)) => return Err(ProviderError::Transient(said)),
                other => other?,
            };
            let page: List = decode(&reply, "a list")?;
            items.extend(page.items);
            if page.metadata.next.is_empty() {
                return Ok(items);
            }
            next = page.metadata.next;
        }
        Err(ProviderError::Transient(format!(
            "{path} does not end after {MOST_PAGES} pages"
        )))
    }

    async fn read(&self, path: &str) -> Result<Reply, ProviderError> {
        let (reply, token) = self
            .call(&Method::GET, path, "", Vec::new(), Retry::READ)
            .await?;
        if reply.status.is_success() {
            return Ok(reply);
        }
        Err(self.refusal(&reply, &token))
    }

    /// Makes a call with a token, and once more with another if the API does not take the first.
    async fn call(
        &self,
        method: &Method,
        path: &str,
        kind: &str,
        body: Vec<u8>,
        retry: Retry,
    ) -> Result<(Reply, Token), ProviderError> {
        let body = Bytes::from(body);
        let send = async |token: &Token| {
            let mut request = Request::builder()
                .method(method)
                .uri(self.api.at(path))
                .header(ACCEPT, "application/json")
                .header(AUTHORIZATION, token.header.clone());
            if !kind.is_empty() {
                request = request.header(CONTENT_TYPE, kind);
            }
            let request = request
                .body(body.clone())
                .map_err(|error| ProviderError::Invalid(error.to_string()))?;
            tracing::trace!(%method, path, "asking");
            Ok::<Reply, ProviderError>(self.http.send(request, retry).await?)
        };
        let token = self.session.token().await?;
        let reply = send(&token).await?;
        let refused = match reply.status.as_u16() {
            401 => true,
            // An expired token may look like a missing permission; a refused bid always does.
            403 => !is_admission(&self.said(&reply, &token)) && !token.is_new((self.clock)()),
            _ => false,
        };
        if !refused {
            return Ok((reply, token));
        }
        let token = self.session.another(&token).await?;
        Ok((send(&token).await?, token))
    }

    fn outcome(&self, reply: &Reply, token: &Token) -> Result<Outcome, ProviderError> {
        if reply.status.is_success() {
            return Ok(Outcome::Done(Box::new(decode(reply, "the pool")?)));
        }
        let code = reply.status.as_u16();
        let said = self.said(reply, token);
        if matches!(code, 400 | 403 | 422)
            && let Some(refusal) = Refusal::parse(&said)
        {
            return Ok(Outcome::Refused(refusal, said));
        }
        Err(self.refusal(reply, token))
    }

    /// What the API said, for people: the message of a Status, or the beginning of whatever came instead.
    fn said(&self, reply: &Reply, token: &Token) -> String {
        let status: Status = serde_json::from_slice(&reply.body).unwrap_or_default();
        let said = if status.message.is_empty() {
            &*reply.body
        } else {
            status.message.as_bytes()
        };
        self.session.excerpt(said, Some(token))
    }

    /// What a refusal means that is not about the amount of a bid.
    fn refusal(&self, reply: &Reply, token: &Token) -> ProviderError {
        let said = self.said(reply, token);
        let lower = said.to_ascii_lowercase();
        let about = |words: &[&str]| words.iter().any(|word| lower.contains(word));
        if !matches!(reply.status.as_u16(), 400 | 403 | 422) {
            return reply.refusal(said);
        }
        // A 403 is an admission webhook's way to say anything at all: its text is all there is to go by.
        if about(&["billing", "payment"]) {
            ProviderError::Unauthorised(said)
        } else if about(&[
            "quota",
            "limit exceeded",
            "exceeds the limit",
            "maximum number",
        ]) {
            ProviderError::Quota(said)
        } else if about(&[
            "no capacity",
            "insufficient capacity",
            "not available",
            "unavailable",
        ]) {
            ProviderError::OutOfCapacity(said)
        } else if is_admission(&said) {
            ProviderError::Invalid(said)
        } else {
            reply.refusal(said)
        }
    }
}

fn is_admission(message: &str) -> bool {
    message.contains("admission webhook")
}

fn decode<T: DeserializeOwned>(reply: &Reply, what: &str) -> Result<T, ProviderError> {
    serde_json::from_slice(&reply.body).map_err(|error| {
        // What was meant to be an object of ours may hold anything, our secrets too: nothing of it is repeated.
        ProviderError::Transient(format!("{what} cannot be read: {error}"))
    })
}

fn unreadable(what: &str, error: &serde_json::Error) -> ProviderError {
    ProviderError::Transient(format!("{what} cannot be read: {error}"))
}

fn readable<T: DeserializeOwned>(items: Vec<Value>) -> Vec<T> {
    items
        .into_iter()
        .filter_map(|item| serde_json::from_value(item).ok())
        .collect()
}

/// `org_AbC123` is `org-abc123` as a namespace.
fn normalise(id: &str) -> String {
    id.trim().to_ascii_lowercase().replace('_', "-")
}

fn is_organization(wanted: &str, id: &str, name: &str) -> bool {
    !wanted.is_empty() && (wanted == id || wanted == name || normalise(wanted) == normalise(id))
}

/// Whether a name can stand in a path as it is.
pub(super) fn is_path_segment(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 253
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_'))
}
