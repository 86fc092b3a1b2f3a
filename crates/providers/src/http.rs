//! The one seam for HTTP: how every cloud is talked to.
//!
//! An [`Http`] sends requests through any [`tower::Service`]. In production that is reqwest
//! ([`Http::production`]); tests and simulations give it the router of a simulated cloud ([`Http::new`]), so that no
//! socket is open while time is virtual.
//!
//! Nothing is retried unless the call says so ([`Retry`]), no redirect is followed, bodies end at [`BODY_LIMIT`], and
//! what a server says reaches an error only as a short, clean [`excerpt`].

mod guard;
mod pin;

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::{HeaderMap, HeaderValue, RETRY_AFTER};
use http::{Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt as _, Full, Limited};
use secrecy::{ExposeSecret as _, SecretString};
use thiserror::Error;
use tower::{Service, ServiceExt as _};

pub use self::guard::{Endpoint, EndpointError};
use crate::ProviderError;

/// The largest answer that is read; the largest honest one is a list of some thousand machines.
pub const BODY_LIMIT: usize = 32 * 1024 * 1024;
/// How much of what a server says is repeated to people.
pub const EXCERPT_LIMIT: usize = 256;
/// How long one attempt may take, answer included.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest wait for which a call is held instead of handing the wait to the caller.
const PATIENCE: Duration = Duration::from_secs(5);

type BoxError = Box<dyn StdError + Send + Sync>;
type Sent = BoxFuture<'static, Result<Response<Bytes>, HttpError>>;

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum HttpError {
    /// Nothing came in time. Whether the request took effect is unknown.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// The connection could not be made or broke. Whether the request took effect is unknown.
    #[error("{0}")]
    Transport(String),
    /// The answer is larger than [`BODY_LIMIT`].
    #[error("the answer is larger than {BODY_LIMIT} bytes")]
    TooLarge,
    /// The client cannot be set up.
    #[error("the HTTP client cannot be set up: {0}")]
    Setup(String),
}

impl From<HttpError> for ProviderError {
    fn from(error: HttpError) -> Self {
        match error {
            HttpError::Setup(_) => ProviderError::Invalid(error.to_string()),
            _ => ProviderError::Transient(error.to_string()),
        }
    }
}

/// Whether a call may be made again by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// One attempt: the caller decides what a failure means.
    Never,
    /// For calls that change nothing or nothing twice: again after broken connections, 502, 503 and 504, and after a
    /// 429 that asks for a short wait.
    Idempotent {
        /// Attempts in all.
        attempts: u32,
        /// Wait before the second; each further one is twice as long.
        first_wait: Duration,
    },
}

impl Retry {
    /// What reads use: three attempts within a few seconds.
    pub const READ: Retry = Retry::Idempotent {
        attempts: 3,
        first_wait: Duration::from_millis(500),
    };

    /// How long to wait before attempt `next` (counted from 1), if there is to be one.
    fn wait(self, next: u32, outcome: &Result<Reply, HttpError>) -> Option<Duration> {
        let Retry::Idempotent {
            attempts,
            first_wait,
        } = self
        else {
            return None;
        };
        if next >= attempts {
            return None;
        }
        let own = first_wait.saturating_mul(2_u32.saturating_pow(next.saturating_sub(1)));
        match outcome {
            Err(HttpError::Timeout(_) | HttpError::Transport(_)) => Some(own),
            Err(HttpError::TooLarge | HttpError::Setup(_)) => None,
            Ok(reply) => match reply.status.as_u16() {
                502..=504 => Some(reply.retry_after().map_or(own, |asked| asked.max(own)))
                    .filter(|wait| *wait <= PATIENCE),
                429 => reply.retry_after().filter(|wait| *wait <= PATIENCE),
                _ => None,
            },
        }
    }
}

/// An answer, read to its end.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Status.
    pub status: StatusCode,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
    /// What stands beside the status where that is not the usual phrase.
    pub reason: Option<String>,
}

impl Reply {
    /// When the server wants to hear from us again; only the form in seconds is understood.
    pub fn retry_after(&self) -> Option<Duration> {
        let text = self.headers.get(RETRY_AFTER)?.to_str().ok()?;
        let seconds: u64 = text.trim().parse().ok()?;
        Some(Duration::from_secs(seconds))
    }

    /// What the status means where the cloud has no meanings of its own; `said` is what people should read.
    pub fn refusal(&self, said: String) -> ProviderError {
        let said = if said.is_empty() {
            self.status.to_string()
        } else {
            said
        };
        match self.status.as_u16() {
            401 | 403 => ProviderError::Unauthorised(said),
            404 | 410 => ProviderError::NotFound(said),
            429 => ProviderError::Throttled {
                message: said,
                retry_after: self.retry_after(),
            },
            408 | 409 | 425 => ProviderError::Transient(said),
            400..=499 => ProviderError::Invalid(said),
            503 if self.retry_after().is_some() => ProviderError::Throttled {
                message: said,
                retry_after: self.retry_after(),
            },
            _ => ProviderError::Transient(format!("{}: {said}", self.status)),
        }
    }
}

/// Sends requests. Cheap to clone.
#[derive(Clone)]
pub struct Http {
    send: Arc<dyn Fn(Request<Bytes>) -> Sent + Send + Sync>,
    timeout: Duration,
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http")
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// How the production client reaches its server.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    /// Certificate authorities beside the system's, as PEM.
    pub authorities: Option<String>,
    /// Hosts that may be anywhere, also where [`Endpoint`] would refuse them.
    pub allowed_hosts: Vec<String>,
    /// Accept any certificate. For racks with self-signed ones; whoever sets it must say so aloud.
    pub accept_any_certificate: bool,
    /// SHA-256 of the one certificate to accept, as hexadecimal octets with or without colons; authorities are then not
    /// asked.
    pub fingerprint: Option<String>,
}

impl Http {
    /// Sends through a service: the router of a simulated cloud, or a test's own.
    pub fn new<S, B>(service: S) -> Self
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send,
        S::Error: Into<BoxError>,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let send = move |request: Request<Bytes>| -> Sent {
            let service = service.clone();
            Box::pin(async move {
                let answer = service
                    .oneshot(request.map(Full::new))
                    .await
                    .map_err(|error| HttpError::Transport(chain(error.into().as_ref())))?;
                read(answer).await
            })
        };
        Http {
            send: Arc::new(send),
            timeout: DEFAULT_TIMEOUT,
        }
    }

    /// Sends through the network: verified TLS of version 1.2 or later, no redirects, no addresses that only this
    /// machine could mean.
    pub fn production(reach: &Reach) -> Result<Self, HttpError> {
        let setup = |error: reqwest::Error| HttpError::Setup(chain(&error));
        let mut builder = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .tls_version_min(reqwest::tls::Version::TLS_1_2)
            .connect_timeout(Duration::from_secs(10))
            .user_agent(concat!("joiner/", env!("CARGO_PKG_VERSION")))
            .dns_resolver(Arc::new(guard::Resolver::new(reach.allowed_hosts.clone())));
        if let Some(pem) = &reach.authorities {
            for authority in reqwest::Certificate::from_pem_bundle(pem.as_bytes()).map_err(setup)? {
                builder = builder.tls_certs_merge([authority]);
            }
        }
        if let Some(fingerprint) = &reach.fingerprint {
            builder = builder.tls_backend_preconfigured(pin::config(fingerprint)?);
        } else if reach.accept_any_certificate {
            builder = builder.tls_danger_accept_invalid_certs(true);
        }
        let client = builder.build().map_err(setup)?;
        let allowed = Arc::new(reach.allowed_hosts.clone());
        let send = move |request: Request<Bytes>| -> Sent {
            let (client, allowed) = (client.clone(), allowed.clone());
            Box::pin(async move {
                let request = reqwest::Request::try_from(request)
                    .map_err(|error| HttpError::Transport(chain(&error)))?;
                guard::check(request.url(), &allowed)
                    .map_err(|error| HttpError::Transport(error.to_string()))?;
                let answer = client
                    .execute(request)
                    .await
                    // The URL is the caller's to mention: it may hold what is nobody else's business.
                    .map_err(|error| HttpError::Transport(chain(&error.without_url())))?;
                read(Response::<reqwest::Body>::from(answer)).await
            })
        };
        Ok(Http {
            send: Arc::new(send),
            timeout: DEFAULT_TIMEOUT,
        })
    }

    /// The same with another time limit for each attempt.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sends a request, again as `retry` says.
    pub async fn send(&self, request: Request<Bytes>, retry: Retry) -> Result<Reply, HttpError> {
        let mut attempt = 1;
        loop {
            let outcome = self.once(request.clone()).await;
            let Some(wait) = retry.wait(attempt, &outcome) else {
                return outcome;
            };
            tracing::debug!(attempt, ?wait, "trying again");
            tokio::time::sleep(wait).await;
            attempt += 1;
        }
    }

    async fn once(&self, request: Request<Bytes>) -> Result<Reply, HttpError> {
        let answer = tokio::time::timeout(self.timeout, (self.send)(request))
            .await
            .map_err(|_| HttpError::Timeout(self.timeout))??;
        let (parts, body) = answer.into_parts();
        Ok(Reply {
            status: parts.status,
            headers: parts.headers,
            body,
            reason: parts
                .extensions
                .get::<hyper::ext::ReasonPhrase>()
                .map(|phrase| String::from_utf8_lossy(phrase.as_bytes()).into_owned()),
        })
    }
}

async fn read<B>(answer: Response<B>) -> Result<Response<Bytes>, HttpError>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let (parts, body) = answer.into_parts();
    let body = Limited::new(body, BODY_LIMIT)
        .collect()
        .await
        .map_err(|error| {
            if error.is::<http_body_util::LengthLimitError>() {
                HttpError::TooLarge
            } else {
                HttpError::Transport(chain(error.as_ref()))
            }
        })?;
    Ok(Response::from_parts(parts, body.to_bytes()))
}

/// An error with its causes, once each.
fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = error.source();
    }
    text
}

/// A header value that no log shows. Secrets often come with a line break at their end, which no header may have.
pub fn sensitive(prefix: &str, secret: &SecretString) -> Result<HeaderValue, ProviderError> {
    let text = format!("{prefix}{}", secret.expose_secret().trim());
    let mut value = HeaderValue::from_str(&text).map_err(|_| {
        ProviderError::Invalid("the credential has characters that no header may have".into())
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// A text without these secrets, should a server have repeated them. Secrets often come with a line break at their end.
pub fn without_secrets<'a>(text: &str, secrets: impl IntoIterator<Item = &'a str>) -> String {
    let secrets = secrets.into_iter().map(str::trim);
    secrets
        .filter(|secret| !secret.is_empty())
        .fold(text.to_owned(), |clean, secret| {
            clean.replace(secret, "[redacted]")
        })
}

/// The beginning of what a server said, without our secrets. They are taken out of the whole text before it is cut: half
/// a secret would no longer be recognised.
pub fn excerpt_without<'a>(
    said: &[u8],
    secrets: impl IntoIterator<Item = &'a SecretString>,
) -> String {
    let secrets = secrets
        .into_iter()
        .map(secrecy::ExposeSecret::expose_secret);
    excerpt_redacted(said, |text| without_secrets(text, secrets))
}

/// The same for a client that knows itself what must not be shown.
pub fn excerpt_redacted(said: &[u8], redact: impl FnOnce(&str) -> String) -> String {
    excerpt(redact(&String::from_utf8_lossy(said)).as_bytes())
}

/// The beginning of what a server said: one line, printable, at most [`EXCERPT_LIMIT`] characters.
pub fn excerpt(said: &[u8]) -> String {
    // More than can be shown is not even looked at: one character takes at most four bytes.
    let head = said.get(..EXCERPT_LIMIT * 8).unwrap_or(said);
    let text = String::from_utf8_lossy(head);
    let mut clean = String::new();
    let mut length = 0;
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()) {
        if word.is_empty() {
            continue;
        }
        if length > 0 {
            clean.push(' ');
            length += 1;
        }
        for c in word.chars().filter(|c| *c != char::REPLACEMENT_CHARACTER) {
            if length >= EXCERPT_LIMIT - 1 {
                clean.push('…');
                return clean;
            }
            clean.push(c);
            length += 1;
        }
    }
    clean
}

#[cfg(test)]
mod tests;
