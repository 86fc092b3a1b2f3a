//! One BMC: who we are there, and requests one at a time.
//!
//! A session is opened on first use, kept, and ended by [`Bmc::log_out`]. Where there are no sessions, or none is free,
//! each request carries name and password instead. A refused login is not tried again with the same credentials for a
//! while: many BMCs lock an account after a few.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Method, Request};
use jiff::Timestamp;
use joiner_core::name::Name;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::Mutex;

use super::Clock;
use super::options::{Access, CredentialSource, Credentials, split_address};
use super::quirks::{self, Platform};
use super::types::{System, is_path, link, same_uuid};
use crate::ProviderError;
use crate::http::{Endpoint, Http, Reply, Retry, excerpt, sensitive, without_secrets};

/// How long one answer may take: BMCs are slow, above all while their host starts.
const PATIENCE: Duration = Duration::from_secs(30);
/// Reads are tried twice: one that hangs must leave time for the others of its call.
const READ: Retry = Retry::Idempotent {
    attempts: 2,
    first_wait: Duration::from_millis(500),
};
/// How long refused credentials are not tried again. Lockouts count a few failures within minutes.
const LOCKOUT: Duration = Duration::from_mins(15);
/// The most pages of a collection that are read.
const MOST_PAGES: usize = 20;
const ROOT: &str = "/redfish/v1/";

/// Which system of a BMC is meant.
#[derive(Clone, Debug, Default)]
pub(super) struct Which {
    pub(super) path: Option<String>,
    pub(super) uuid: Option<String>,
}

/// How requests say who sends them.
#[derive(Clone)]
enum Auth {
    Session {
        token: HeaderValue,
        uri: Option<String>,
    },
    Basic(HeaderValue),
}

#[derive(Default)]
struct State {
    auth: Option<Auth>,
    /// A session was open at some time: a refused login then means wrong credentials, not that there are no sessions.
    session_worked: bool,
    /// Credentials that were refused, as a digest, and when.
    refused: Option<([u8; 32], Timestamp)>,
    /// Answers may be compressed: asking for plain ones was refused.
    any_encoding: bool,
    root: Option<Arc<Value>>,
    system_path: Option<String>,
    platform: Option<Platform>,
    note: Option<String>,
}

/// A BMC.
pub(super) struct Bmc {
    host: Name,
    http: Http,
    endpoint: Endpoint,
    source: Arc<dyn CredentialSource>,
    which: Which,
    clock: Clock,
    state: Mutex<State>,
}

impl Bmc {
    pub(super) fn new(
        host: &Name,
        address: &str,
        allowed: &[String],
        access: &Access,
        which: Which,
        clock: Clock,
    ) -> Result<Self, ProviderError> {
        let (bmc, path) = split_address(address);
        let endpoint = Endpoint::parse(bmc, allowed)
            .map_err(|error| ProviderError::Invalid(format!("host {host}: address: {error}")))?;
        let which = Which {
            path: which.path.or_else(|| path.map(str::to_owned)),
            ..which
        };
        if let Some(path) = &which.path
            && !is_path(path)
        {
            return Err(ProviderError::Invalid(format!(
                "host {host}: systemPath {path:?} is not a path such as /redfish/v1/Systems/1"
            )));
        }
        Ok(Bmc {
            host: host.clone(),
            http: access.http.clone().with_timeout(PATIENCE),
            endpoint,
            source: Arc::clone(&access.credentials),
            which,
            clock,
            state: Mutex::default(),
        })
    }

    /// Host and port of the BMC.
    pub(super) fn authority(&self) -> String {
        let text = self.endpoint.to_string();
        let rest = text.split_once("://").map_or(&*text, |(_, rest)| rest);
        rest.split('/').next().unwrap_or_default().to_owned()
    }

    /// What is odd about this BMC although it works.
    pub(super) async fn note(&self) -> Option<String> {
        self.state.lock().await.note.clone()
    }

    /// What kind of BMC it is. Known once the system has been read.
    pub(super) async fn platform(&self) -> Option<Platform> {
        self.state.lock().await.platform
    }

    /// The system, as it is now.
    pub(super) async fn system(&self) -> Result<System, ProviderError> {
        let mut state = self.state.lock().await;
        let path = self.system_path(&mut state).await?;
        let reply = self.get(&mut state, &path).await?;
        if reply.status == 404 {
            // Ids of systems change when firmware does: the next call looks again.
            state.system_path = None;
            let said = format!("the BMC has no system {path}");
            return Err(if self.which.path.is_some() {
                self.invalid(&format!("systemPath: {said}"))
            } else {
                self.transient(&said)
            });
        }
        let body = self.json(&reply, &path)?;
        let system = System::read(&path, &body, etag(&reply))
            .ok_or_else(|| self.invalid(&format!("{path} is not a system")))?;
        if state.platform.is_none() {
            let root = state.root.clone().unwrap_or_default();
            state.platform = Some(Platform::of(&root, &system));
        }
        Ok(system)
    }

    /// A resource and its version.
    pub(super) async fn read(&self, path: &str) -> Result<(Value, Option<String>), ProviderError> {
        let mut state = self.state.lock().await;
        let reply = self.get(&mut state, path).await?;
        if !reply.status.is_success() {
            return Err(self.refusal(&reply));
        }
        Ok((self.json(&reply, path)?, etag(&reply)))
    }

    /// Changes a resource if it still has this version. What is refused for want of another version is tried with a
    /// fresh one, then with its strong form, then without.
    pub(super) async fn patch(
        &self,
        path: &str,
        version: Option<&str>,
        body: &Value,
    ) -> Result<Reply, ProviderError> {
        let mut state = self.state.lock().await;
        let mut reply = self
            .send(&mut state, &Method::PATCH, path, Some(body), version)
            .await?;
        if !quirks::wants_other_etag(&reply) {
            return Ok(reply);
        }
        let fresh = etag(&self.get(&mut state, path).await?);
        let mut versions = Vec::new();
        if let Some(fresh) = &fresh {
            versions.push(Some(fresh.as_str()));
            versions.extend(quirks::strong(fresh).map(Some));
        }
        versions.push(None);
        for version in versions {
            reply = self
                .send(&mut state, &Method::PATCH, path, Some(body), version)
                .await?;
            if !quirks::wants_other_etag(&reply) {
                break;
            }
        }
        Ok(reply)
    }

    /// Asks for an action.
    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Reply, ProviderError> {
        let mut state = self.state.lock().await;
        self.send(&mut state, &Method::POST, path, Some(body), None)
            .await
    }

    /// Ends the session, if one is open.
    pub(super) async fn log_out(&self) {
        let mut state = self.state.lock().await;
        if let Some(auth) = state.auth.take() {
            self.end(&state, auth).await;
        }
    }

    async fn end(&self, state: &State, auth: Auth) {
        let Auth::Session {
            token,
            uri: Some(uri),
        } = auth
        else {
            return;
        };
        let auth = Auth::Session { token, uri: None };
        let Ok(request) = self.request(state, &Method::DELETE, &uri, None, None, Some(&auth))
        else {
            return;
        };
        match self.http.send(request, READ).await {
            Ok(reply)
                if reply.status.is_success() || matches!(reply.status.as_u16(), 401 | 404) => {}
            Ok(reply) => {
                tracing::warn!(host = %self.host, status = %reply.status, "session could not be ended");
            }
            Err(error) => tracing::warn!(host = %self.host, %error, "session could not be ended"),
        }
    }

    /// What a refusal means. The text is what the BMC said.
    pub(super) fn refusal(&self, reply: &Reply) -> ProviderError {
        let said = format!("host {}: {}", self.host, said(reply));
        if quirks::is_busy(reply) {
            return ProviderError::Transient(said);
        }
        reply.refusal(said)
    }

    pub(super) fn invalid(&self, said: &str) -> ProviderError {
        ProviderError::Invalid(format!("host {}: {said}", self.host))
    }

    pub(super) fn transient(&self, said: &str) -> ProviderError {
        ProviderError::Transient(format!("host {}: {said}", self.host))
    }

    /// The service root, which needs no login; also the proof that this is a Redfish service.
    async fn root(&self, state: &mut State) -> Result<Arc<Value>, ProviderError> {
        if let Some(root) = &state.root {
            return Ok(Arc::clone(root));
        }
        let request = self.request(state, &Method::GET, ROOT, None, None, None)?;
        let reply = self.http.send(request, READ).await.map_err(|error| {
            self.transient(&format!(
                "its BMC at {} does not answer: {error}",
                self.endpoint
            ))
        })?;
        if matches!(reply.status.as_u16(), 429 | 500..=599) {
            return Err(self.refusal(&reply));
        }
        let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        if !reply.status.is_success() || link(&body["Systems"]).is_none() {
            let what = if body["RedfishVersion"].is_string() {
                // A BMC that has just started may leave links out.
                return Err(self.transient("its BMC lists no systems yet"));
            } else if reply.status.is_success() {
                "something else answers".to_owned()
            } else {
                format!("the answer is {}", reply.status)
            };
            return Err(self.invalid(&format!(
                "address {}: this is not a Redfish service: {what} at {ROOT}; write the address of the BMC",
                self.endpoint
            )));
        }
        let root = Arc::new(body);
        state.root = Some(Arc::clone(&root));
        Ok(root)
    }

    async fn system_path(&self, state: &mut State) -> Result<String, ProviderError> {
        let root = self.root(state).await?;
        if let Some(path) = state.system_path.as_ref().or(self.which.path.as_ref()) {
            return Ok(path.clone());
        }
        let mut members = Vec::new();
        let mut next = link(&root["Systems"]).map(str::to_owned);
        for _ in 0..MOST_PAGES {
            let Some(path) = next else { break };
            let reply = self.get(state, &path).await?;
            if !reply.status.is_success() {
                return Err(self.refusal(&reply));
            }
            let body = self.json(&reply, &path)?;
            let page = body["Members"].as_array().into_iter().flatten();
            members.extend(page.filter_map(link).map(str::to_owned));
            next = body["Members@odata.nextLink"]
                .as_str()
                .filter(|path| is_path(path))
                .map(str::to_owned);
        }
        let path = match (members.as_slice(), &self.which.uuid) {
            ([], _) => return Err(self.transient("its BMC lists no system")),
            ([one], _) => one.clone(),
            (several, None) => {
                let paths = several.join(", ");
                return Err(self.invalid(&format!(
                    "its BMC manages several systems: set systemPath to one of {paths}"
                )));
            }
            (several, Some(uuid)) => self.by_uuid(state, several, uuid).await?,
        };
        state.system_path = Some(path.clone());
        Ok(path)
    }

    async fn by_uuid(
        &self,
        state: &mut State,
        paths: &[String],
        uuid: &str,
    ) -> Result<String, ProviderError> {
        for path in paths {
            let reply = self.get(state, path).await?;
            if !reply.status.is_success() {
                return Err(self.refusal(&reply));
            }
            let body = self.json(&reply, path)?;
            if body["UUID"]
                .as_str()
                .is_some_and(|one| same_uuid(one, uuid))
            {
                return Ok(path.clone());
            }
        }
        Err(self.invalid(&format!(
            "none of the {} systems of its BMC has the UUID {uuid}",
            paths.len()
        )))
    }

    /// Reads, and follows one redirect on the same BMC: some want a slash at the end of a path.
    async fn get(&self, state: &mut State, path: &str) -> Result<Reply, ProviderError> {
        let reply = self.send(state, &Method::GET, path, None, None).await?;
        if !reply.status.is_redirection() {
            return Ok(reply);
        }
        let location = reply.headers.get(header::LOCATION);
        let location = location.and_then(|value| value.to_str().ok());
        let Some(path) = location.and_then(|to| self.own_path(to)) else {
            return Err(
                self.invalid("its BMC redirects elsewhere, where its credentials do not belong")
            );
        };
        self.send(state, &Method::GET, &path, None, None).await
    }

    /// The path of an address on this BMC.
    fn own_path(&self, address: &str) -> Option<String> {
        let own = self.endpoint.to_string();
        let path = address.strip_prefix(own.as_str()).unwrap_or(address);
        is_path(path).then(|| path.to_owned())
    }

    fn request(
        &self,
        state: &State,
        method: &Method,
        path: &str,
        body: Option<&Value>,
        version: Option<&str>,
        auth: Option<&Auth>,
    ) -> Result<Request<Bytes>, ProviderError> {
        let mut builder = Request::builder()
            .method(method.clone())
            .uri(self.endpoint.at(path))
            .header("OData-Version", "4.0")
            .header(header::ACCEPT, "application/json")
            // Connections that are kept open choke some BMCs.
            .header(header::CONNECTION, "close");
        if !state.any_encoding {
            // Compression makes some BMCs show weak versions.
            builder = builder.header(header::ACCEPT_ENCODING, "identity");
        }
        if body.is_some() {
            builder = builder.header(header::CONTENT_TYPE, "application/json");
        }
        if let Some(version) = version {
            builder = builder.header(header::IF_MATCH, version);
        }
        builder = match auth {
            Some(Auth::Session { token, .. }) => builder.header("X-Auth-Token", token),
            Some(Auth::Basic(value)) => builder.header(header::AUTHORIZATION, value),
            None => builder,
        };
        let body = body.map(|body| Bytes::from(body.to_string()));
        builder
            .body(body.unwrap_or_default())
            .map_err(|error| self.invalid(&format!("{path:?} cannot be asked for: {error}")))
    }

    /// Sends a request with a login; a session that has ended is opened anew, once.
    async fn send(
        &self,
        state: &mut State,
        method: &Method,
        path: &str,
        body: Option<&Value>,
        version: Option<&str>,
    ) -> Result<Reply, ProviderError> {
        let retry = if *method == Method::GET {
            READ
        } else {
            Retry::Never
        };
        let mut again = true;
        loop {
            let auth = self.log_in(state).await?;
            let request = self.request(state, method, path, body, version, Some(&auth))?;
            let reply = self.http.send(request, retry).await.map_err(|error| {
                self.transient(&format!(
                    "its BMC at {} does not answer: {error}",
                    self.endpoint
                ))
            })?;
            match reply.status.as_u16() {
                406 if !state.any_encoding => state.any_encoding = true,
                401 => {
                    // A session that was refused may be open all the same, and nothing else would end it.
                    if let Some(auth) = state.auth.take() {
                        self.end(state, auth).await;
                    }
                    if !again {
                        return Err(self.wrong_credentials(&reply));
                    }
                    again = false;
                    if matches!(auth, Auth::Basic(_)) {
                        self.refuse(state).await?;
                        return Err(self.wrong_credentials(&reply));
                    }
                }
                _ if reply.status.is_success() => return Ok(reply),
                _ => return Ok(self.without_secrets(reply, &auth).await),
            }
        }
    }

    /// A refusal without what only we and the BMC may know: some repeat what was sent to them.
    async fn without_secrets(&self, reply: Reply, auth: &Auth) -> Reply {
        let credentials = self.source.credentials().await.ok();
        let password = credentials.as_ref().map(|one| one.password.expose_secret());
        let (Auth::Session { token: sent, .. } | Auth::Basic(sent)) = auth;
        let sent = sent
            .to_str()
            .ok()
            .map(|text| text.trim_start_matches("Basic "));
        redacted(reply, password.into_iter().chain(sent))
    }

    fn wrong_credentials(&self, reply: &Reply) -> ProviderError {
        ProviderError::Unauthorised(format!(
            "host {}: its BMC at {} refuses the username or password ({}); correct the Secret",
            self.host, self.endpoint, reply.status
        ))
    }

    /// Remembers that the credentials of now were refused.
    async fn refuse(&self, state: &mut State) -> Result<(), ProviderError> {
        let digest = digest(&self.source.credentials().await?);
        state.refused = Some((digest, (self.clock)()));
        Ok(())
    }

    /// How to say who we are; opens a session if there is none.
    async fn log_in(&self, state: &mut State) -> Result<Auth, ProviderError> {
        if let Some(auth) = &state.auth {
            return Ok(auth.clone());
        }
        let credentials = self.source.credentials().await?;
        let digest = digest(&credentials);
        let now = (self.clock)();
        if let Some((refused, at)) = state.refused
            && refused == digest
            && now.duration_since(at).unsigned_abs() < LOCKOUT
        {
            return Err(ProviderError::Unauthorised(format!(
                "host {}: its BMC at {} refused the username or password at {at:.0}; they are tried again when the Secret changes, or after {} minutes",
                self.host,
                self.endpoint,
                LOCKOUT.as_secs() / 60
            )));
        }
        state.note = None;
        let auth = match self.open_session(state, &credentials).await? {
            Some(session) => {
                state.session_worked = true;
                session
            }
            None => Auth::Basic(basic(&credentials)?),
        };
        state.refused = None;
        state.auth = Some(auth.clone());
        Ok(auth)
    }

    /// Opens a session; `None` if this BMC has none for us.
    async fn open_session(
        &self,
        state: &mut State,
        credentials: &Credentials,
    ) -> Result<Option<Auth>, ProviderError> {
        let root = self.root(state).await?;
        let direct = link(&root["Links"]["Sessions"]);
        let service = link(&root["SessionService"]).map(|path| path.trim_end_matches('/'));
        let Some(path) = direct
            .map(str::to_owned)
            .or_else(|| service.map(|path| format!("{path}/Sessions")))
        else {
            return Ok(None);
        };
        let body = json!({"UserName": credentials.username,
            "Password": credentials.password.expose_secret().trim_end()});
        let request = self.request(state, &Method::POST, &path, Some(&body), None, None)?;
        let reply = self
            .http
            .send(request, Retry::Never)
            .await
            .map_err(|error| {
                self.transient(&format!(
                    "its BMC at {} does not answer: {error}",
                    self.endpoint
                ))
            })?;
        if quirks::sessions_exhausted(&reply) {
            state.note = Some(format!(
                "host {}: its BMC has no session left, so every request carries the password; end sessions that others left open",
                self.host
            ));
            return Ok(None);
        }
        match reply.status.as_u16() {
            401 if state.session_worked => {
                self.refuse(state).await?;
                Err(self.wrong_credentials(&reply))
            }
            401 | 403 | 404 | 405 | 501 if !state.session_worked => Ok(None),
            200..=299 => {
                let token = reply.headers.get("X-Auth-Token");
                let Some(token) = token else { return Ok(None) };
                let mut token = token.clone();
                token.set_sensitive(true);
                let location = reply.headers.get(header::LOCATION);
                let location = location.and_then(|value| value.to_str().ok());
                let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
                let uri = location
                    .and_then(|to| self.own_path(to))
                    .or_else(|| link(&body).map(str::to_owned));
                Ok(Some(Auth::Session { token, uri }))
            }
            _ => {
                let password = credentials.password.expose_secret();
                Err(self.refusal(&redacted(reply, [password])))
            }
        }
    }

    fn json(&self, reply: &Reply, path: &str) -> Result<Value, ProviderError> {
        if !reply.status.is_success() {
            return Err(self.refusal(reply));
        }
        serde_json::from_slice(&reply.body)
            .map_err(|error| self.transient(&format!("{path} cannot be read: {error}")))
    }
}

/// A reply in whose body secrets are replaced, before any of it is cut.
fn redacted<'s>(reply: Reply, secrets: impl IntoIterator<Item = &'s str>) -> Reply {
    let body = without_secrets(&String::from_utf8_lossy(&reply.body), secrets);
    Reply {
        body: Bytes::from(body),
        ..reply
    }
}

fn etag(reply: &Reply) -> Option<String> {
    let value = reply.headers.get(header::ETAG)?.to_str().ok()?;
    Some(value.to_owned())
}

fn basic(credentials: &Credentials) -> Result<HeaderValue, ProviderError> {
    let password = credentials.password.expose_secret().trim_end();
    let pair = STANDARD.encode(format!("{}:{password}", credentials.username));
    sensitive("Basic ", &SecretString::from(pair))
}

fn digest(credentials: &Credentials) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(credentials.username.as_bytes());
    hash.update([0]);
    hash.update(credentials.password.expose_secret().as_bytes());
    hash.finalize().into()
}

/// What a refusal says: its extended messages, or its message, or the beginning of whatever came instead.
fn said(reply: &Reply) -> String {
    let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let error = &body["error"];
    let extended = error["@Message.ExtendedInfo"].as_array();
    let messages: Vec<&str> = extended
        .into_iter()
        .flatten()
        .filter_map(|info| {
            info["Message"]
                .as_str()
                .or_else(|| info["MessageId"].as_str())
        })
        .collect();
    let text = match (messages.is_empty(), error["message"].as_str()) {
        (false, _) => messages.join(" "),
        (true, Some(message)) => message.to_owned(),
        (true, None) => String::from_utf8_lossy(&reply.body).into_owned(),
    };
    let text = excerpt(text.as_bytes());
    if text.is_empty() {
        format!("its BMC answers {}", reply.status)
    } else {
        format!("its BMC answers {}: {text}", reply.status)
    }
}
