//! The API, as one token sees it: paths, encoding, errors.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Method, Request};
use secrecy::{ExposeSecret as _, SecretString};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Mutex;

use super::refusal::{CallError, Trouble, trouble};
use super::types::{Config, Current, Guest, HostRow, Member, StorageRow, TaskStatus, as_text};
use crate::ProviderError;
use crate::http::{Endpoint, Http, HttpError, Reply, Retry, excerpt, excerpt_without, sensitive};

/// An API token: `user@realm!name` and its secret.
#[derive(Clone, Debug)]
pub struct ApiToken {
    /// Its name.
    pub id: String,
    /// Its secret.
    pub secret: SecretString,
}

/// Where the token comes from; asked again when Proxmox refuses the one in use.
#[async_trait]
pub trait Credentials: Send + Sync {
    /// The token.
    async fn token(&self) -> Result<ApiToken, ProviderError>;
}

#[async_trait]
impl Credentials for ApiToken {
    async fn token(&self) -> Result<ApiToken, ProviderError> {
        Ok(self.clone())
    }
}

/// Settings that are sent, by name.
pub type Fields = BTreeMap<String, String>;

/// A task of Proxmox, by its unique process id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task(String);

impl Task {
    /// Reads `UPID:node:pid:pstart:starttime:type:id:user:`.
    pub fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        let whole = parts.len() >= 9 && parts.first() == Some(&"UPID");
        let named = parts.get(1).is_some_and(|host| is_name(host));
        (whole && named).then(|| Task(text.to_owned()))
    }

    /// The host that it runs on.
    pub fn host(&self) -> &str {
        self.0.split(':').nth(1).unwrap_or_default()
    }

    /// What kind of work it is, such as `qmcreate`.
    pub fn kind(&self) -> &str {
        self.0.split(':').nth(5).unwrap_or_default()
    }
}

/// How a task stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// At work.
    Running,
    /// Done.
    Done,
    /// Ended without having done it.
    Failed(CallError),
}

/// The API.
pub struct Client {
    http: Http,
    api: Endpoint,
    credentials: Arc<dyn Credentials>,
    header: Mutex<Option<(HeaderValue, ApiToken)>>,
}

impl Client {
    /// A client that talks through `http`. Nothing is sent yet.
    pub fn new(http: Http, api: Endpoint, credentials: Arc<dyn Credentials>) -> Self {
        Client {
            http,
            api,
            credentials,
            header: Mutex::new(None),
        }
    }

    /// The version, which also tells whether this is Proxmox at all.
    pub async fn version(&self) -> Result<String, CallError> {
        let answer: Value = self.read("/version").await?;
        let version = answer.get("version").and_then(as_text);
        version.ok_or_else(|| {
            CallError::Misplaced(format!(
                "{} does not answer as Proxmox VE does: {}",
                self.api,
                excerpt(answer.to_string().as_bytes())
            ))
        })
    }

    /// The cluster and its hosts.
    pub async fn members(&self) -> Result<Vec<Member>, CallError> {
        self.read("/cluster/status").await
    }

    /// All hosts.
    pub async fn hosts(&self) -> Result<Vec<HostRow>, CallError> {
        self.read("/cluster/resources?type=node").await
    }

    /// All machines and containers that the token may see, wherever they are.
    pub async fn guests(&self) -> Result<Vec<Guest>, CallError> {
        self.read("/cluster/resources?type=vm").await
    }

    /// All storages, once for each host.
    pub async fn storages(&self) -> Result<Vec<StorageRow>, CallError> {
        self.read("/cluster/resources?type=storage").await
    }

    /// The machines of one host, read from their settings: these figures do not lag.
    pub async fn guests_of(&self, host: &str) -> Result<Vec<Guest>, CallError> {
        self.read(&format!("/nodes/{}/qemu", encode(host))).await
    }

    /// Bridges of a host that the token may use.
    pub async fn bridges(&self, host: &str) -> Result<Vec<String>, CallError> {
        let path = format!("/nodes/{}/network?type=any_bridge", encode(host));
        let rows: Vec<Value> = self.read(&path).await?;
        let names = rows.iter().filter_map(|row| row.get("iface"));
        Ok(names.filter_map(as_text).collect())
    }

    /// What the token may do, by path.
    pub async fn permissions(
        &self,
    ) -> Result<BTreeMap<String, BTreeMap<String, Value>>, CallError> {
        self.read("/access/permissions").await
    }

    /// Whether an id is free, whoever may see the machine that has it.
    pub async fn is_free(&self, vmid: u32) -> Result<bool, CallError> {
        match self
            .read::<Value>(&format!("/cluster/nextid?vmid={vmid}"))
            .await
        {
            Ok(_) => Ok(true),
            Err(error) if error.trouble() == Trouble::Exists => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The settings of a machine, read at its host.
    pub async fn config(&self, host: &str, vmid: u32) -> Result<Config, CallError> {
        self.read(&format!("{}/config", machine(host, vmid))).await
    }

    /// What a machine does, read at its host.
    pub async fn current(&self, host: &str, vmid: u32) -> Result<Current, CallError> {
        self.read(&format!("{}/status/current", machine(host, vmid)))
            .await
    }

    /// Makes a machine.
    pub async fn create(&self, host: &str, fields: &Fields) -> Result<Task, CallError> {
        let path = format!("/nodes/{}/qemu", encode(host));
        task(&self.call(Method::POST, &path, fields).await?)
    }

    /// Copies a template.
    pub async fn clone_template(
        &self,
        host: &str,
        template: u32,
        fields: &Fields,
    ) -> Result<Task, CallError> {
        let path = format!("{}/clone", machine(host, template));
        task(&self.call(Method::POST, &path, fields).await?)
    }

    /// Changes settings of a machine, at once.
    pub async fn configure(&self, host: &str, vmid: u32, fields: &Fields) -> Result<(), CallError> {
        let path = format!("{}/config", machine(host, vmid));
        self.call(Method::PUT, &path, fields).await.map(drop)
    }

    /// Makes a disk larger. Older versions are done when they answer.
    pub async fn resize(
        &self,
        host: &str,
        vmid: u32,
        disk: &str,
        gib: u32,
    ) -> Result<Option<Task>, CallError> {
        let path = format!("{}/resize", machine(host, vmid));
        let fields = Fields::from([
            ("disk".to_owned(), disk.to_owned()),
            ("size".to_owned(), format!("{gib}G")),
        ]);
        let answer = self.call(Method::PUT, &path, &fields).await?;
        Ok(answer.as_str().and_then(Task::parse))
    }

    /// Starts a machine.
    pub async fn start(&self, host: &str, vmid: u32) -> Result<Task, CallError> {
        let path = format!("{}/status/start", machine(host, vmid));
        task(&self.call(Method::POST, &path, &Fields::new()).await?)
    }

    /// Pulls the plug of a machine; also good for one that is off.
    pub async fn stop(&self, host: &str, vmid: u32) -> Result<Task, CallError> {
        let path = format!("{}/status/stop", machine(host, vmid));
        task(&self.call(Method::POST, &path, &Fields::new()).await?)
    }

    /// Removes a machine that is off, with its disks and whatever refers to it. Disks of its number that are not its own
    /// are left alone: they may have been kept of an earlier machine of that number.
    pub async fn destroy(&self, host: &str, vmid: u32) -> Result<Task, CallError> {
        let path = format!("{}?purge=1", machine(host, vmid));
        task(&self.call(Method::DELETE, &path, &Fields::new()).await?)
    }

    /// How a task stands. One that is not known yet is at work.
    pub async fn progress(&self, task: &Task) -> Result<Progress, CallError> {
        let path = format!(
            "/nodes/{}/tasks/{}/status",
            encode(task.host()),
            encode(&task.0)
        );
        let status: TaskStatus = match self.read(&path).await {
            Ok(status) => status,
            Err(error) if error.trouble() == Trouble::NoTask => return Ok(Progress::Running),
            Err(error) => return Err(error),
        };
        if status.status == "running" {
            return Ok(Progress::Running);
        }
        let end = status.exitstatus.unwrap_or_default();
        if end == "OK" || end.starts_with("WARNINGS") {
            return Ok(Progress::Done);
        }
        let text = excerpt(end.as_bytes());
        Ok(Progress::Failed(CallError::Refused {
            trouble: trouble(None, &text, &BTreeMap::new()),
            text: format!("task {} on {}: {text}", task.kind(), task.host()),
        }))
    }

    async fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, CallError> {
        let data = self.call(Method::GET, path, &Fields::new()).await?;
        serde_json::from_value(data).map_err(|error| {
            CallError::Lost(format!("the answer to GET {path} cannot be read: {error}"))
        })
    }

    async fn call(&self, method: Method, path: &str, fields: &Fields) -> Result<Value, CallError> {
        let mut renewed = false;
        loop {
            let (header, token) = self.authorization(renewed).await?;
            let reply = self.send(&method, path, fields, header).await?;
            if reply.status == 401 && !renewed && self.has_changed(&token).await {
                renewed = true;
                continue;
            }
            return self.open(&method, path, &reply, &token);
        }
    }

    async fn send(
        &self,
        method: &Method,
        path: &str,
        fields: &Fields,
        header: HeaderValue,
    ) -> Result<Reply, CallError> {
        let mut request = Request::builder()
            .method(method)
            .uri(self.api.at(path))
            .header(AUTHORIZATION, header)
            .header(ACCEPT, "application/json");
        // A body on GET or DELETE is refused.
        let body = if matches!(*method, Method::POST | Method::PUT) {
            request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
            Bytes::from(form(fields))
        } else {
            Bytes::new()
        };
        let request = request
            .body(body)
            .map_err(|error| CallError::Misplaced(error.to_string()))?;
        let retry = if *method == Method::GET {
            Retry::READ
        } else {
            Retry::Never
        };
        self.http
            .send(request, retry)
            .await
            .map_err(|error| match error {
                HttpError::Setup(_) => CallError::Misplaced(error.to_string()),
                _ => CallError::Lost(format!("{}: {error}", self.api.host())),
            })
    }

    fn open(
        &self,
        method: &Method,
        path: &str,
        reply: &Reply,
        token: &ApiToken,
    ) -> Result<Value, CallError> {
        let body: Option<Value> = serde_json::from_slice(&reply.body).ok();
        let envelope = body.as_ref().and_then(Value::as_object);
        let shown = |said: &[u8]| excerpt_without(said, [&token.secret]);
        if reply.status.is_success() {
            let data = envelope.and_then(|envelope| envelope.get("data"));
            return data.cloned().ok_or_else(|| {
                CallError::Misplaced(format!(
                    "{} does not answer as Proxmox VE does: write the address with /api2/json at its end (it said {:?})",
                    self.api,
                    shown(&reply.body)
                ))
            });
        }
        let status = reply.status.as_u16();
        // Said by something in between: Proxmox may have done what it was asked.
        if (502..=504).contains(&status) {
            let said = shown(&reply.body);
            return Err(CallError::Lost(format!(
                "{}: {} {said}",
                self.api.host(),
                reply.status
            )));
        }
        let message = envelope
            .and_then(|envelope| envelope.get("message"))
            .and_then(Value::as_str)
            .map(|text| shown(text.as_bytes()))
            .filter(|text| !text.is_empty());
        let reason = reply.reason.as_ref();
        let mut text = message
            .or_else(|| reason.map(|phrase| shown(phrase.as_bytes())))
            .unwrap_or_else(|| reply.status.to_string());
        let named: BTreeMap<String, String> = envelope
            .and_then(|envelope| envelope.get("errors"))
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(field, said)| (field.clone(), as_text(said).unwrap_or_default()))
            .collect();
        for (field, said) in &named {
            let _ = write!(text, " {field}: {};", shown(said.as_bytes()));
        }
        let trouble = trouble(Some(status), &text, &named);
        if status == 404 || (300..400).contains(&status) {
            return Err(CallError::Misplaced(format!(
                "{} does not answer as Proxmox VE does: {method} {path} says {text}",
                self.api
            )));
        }
        let text = match trouble {
            Trouble::Token => format!(
                "Proxmox refuses the API token {} ({text}): check the token id and its secret, and that the token has not expired",
                token.id
            ),
            Trouble::NoQuorum => format!("the Proxmox cluster has no quorum ({text})"),
            _ => text,
        };
        Err(match trouble {
            Trouble::Unanswered => CallError::Lost(format!("{}: {status} {text}", self.api.host())),
            trouble => CallError::Refused { trouble, text },
        })
    }

    async fn authorization(&self, renew: bool) -> Result<(HeaderValue, ApiToken), CallError> {
        let mut slot = self.header.lock().await;
        if let (Some(known), false) = (slot.as_ref(), renew) {
            return Ok(known.clone());
        }
        let token = self.token().await?;
        let prefix = format!("PVEAPIToken={}=", token.id.trim());
        let header = sensitive(&prefix, &token.secret)
            .map_err(|error| CallError::Misplaced(error.to_string()))?;
        let fresh = (header, token);
        *slot = Some(fresh.clone());
        Ok(fresh)
    }

    async fn token(&self) -> Result<ApiToken, CallError> {
        let token = self
            .credentials
            .token()
            .await
            .map_err(|error| match error {
                ProviderError::Invalid(text) => CallError::Misplaced(text),
                other => CallError::Lost(other.to_string()),
            })?;
        if !token.id.contains('@') || !token.id.contains('!') {
            return Err(CallError::Misplaced(format!(
                "{:?} is not the id of an API token: write USER@REALM!NAME, such as joiner@pve!joiner",
                token.id
            )));
        }
        Ok(token)
    }

    /// Whether there is another token by now than the one that was refused.
    async fn has_changed(&self, refused: &ApiToken) -> bool {
        self.token().await.is_ok_and(|token| {
            token.id != refused.id || token.secret.expose_secret() != refused.secret.expose_secret()
        })
    }
}

fn machine(host: &str, vmid: u32) -> String {
    format!("/nodes/{}/qemu/{vmid}", encode(host))
}

fn task(answer: &Value) -> Result<Task, CallError> {
    let text = answer.as_str().unwrap_or_default();
    Task::parse(text).ok_or_else(|| {
        CallError::Lost(format!(
            "Proxmox names no task ({answer}); it may be at work"
        ))
    })
}

/// Whether a text can be the name of a host.
pub fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 63
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.'))
}

fn form(fields: &Fields) -> String {
    let pairs = fields.iter();
    let pairs: Vec<String> = pairs
        .map(|(key, value)| format!("{}={}", encode(key), encode(value)))
        .collect();
    pairs.join("&")
}

/// Everything but letters, digits and `-._~` as `%XX`: Proxmox splits at `;` too, and cuts values at a second `=`.
pub fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests;
