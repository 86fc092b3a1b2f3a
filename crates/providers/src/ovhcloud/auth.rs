//! Who asks: requests signed with application keys and the server's clock, or the bearer token of a service account.

use std::fmt;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request};
use jiff::{SignedDuration, Timestamp};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use sha1::{Digest as _, Sha1};
use tokio::sync::Mutex;

use super::Clock;
use crate::ProviderError;
use crate::http::{Endpoint, Http, Retry, excerpt, excerpt_redacted, sensitive};

/// How long credentials are used before their source is asked again.
const CREDENTIALS_TRUST: SignedDuration = SignedDuration::from_mins(1);
/// How long the difference between the clocks is trusted.
const CLOCK_TRUST: SignedDuration = SignedDuration::from_hours(3);
/// A bearer token is renewed this long before it ends.
const MARGIN: SignedDuration = SignedDuration::from_secs(60);

/// Credentials of one of the two kinds that the API knows.
#[derive(Clone)]
pub enum Credentials {
    /// Application and consumer keys: every request is signed.
    Keys {
        /// Application key.
        application_key: SecretString,
        /// Application secret.
        application_secret: SecretString,
        /// Consumer key.
        consumer_key: SecretString,
    },
    /// A service account: `OAuth2` client credentials.
    Account {
        /// Client id.
        client_id: SecretString,
        /// Client secret.
        client_secret: SecretString,
    },
}

/// Where credentials come from. Asked again from time to time, and when the API refuses those that it has, so that ones
/// that were replaced are found without a restart.
#[async_trait]
pub trait CredentialSource: Send + Sync {
    /// The credentials, or why they cannot be had.
    async fn credentials(&self) -> Result<Credentials, ProviderError>;
}

#[async_trait]
impl CredentialSource for Credentials {
    async fn credentials(&self) -> Result<Credentials, ProviderError> {
        Ok(self.clone())
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Credentials::Keys { .. } => "Credentials::Keys(..)",
            Credentials::Account { .. } => "Credentials::Account(..)",
        })
    }
}

impl Credentials {
    fn secrets(&self) -> Vec<&SecretString> {
        match self {
            Credentials::Keys {
                application_key,
                application_secret,
                consumer_key,
            } => vec![application_key, application_secret, consumer_key],
            Credentials::Account {
                client_id,
                client_secret,
            } => vec![client_id, client_secret],
        }
    }

    /// A text without any of the secrets.
    pub fn redact(&self, text: &str) -> String {
        let mut clean = text.to_owned();
        for secret in self.secrets() {
            let secret = secret.expose_secret().trim();
            if secret.len() >= 6 {
                clean = clean.replace(secret, "[redacted]");
            }
        }
        clean
    }

    /// What tells these credentials from others without giving them away: limits on calls are counted against it.
    pub fn fingerprint(&self) -> String {
        let mut hash = sha2::Sha256::new();
        for secret in self.secrets() {
            hash.update(secret.expose_secret().trim().as_bytes());
            hash.update([0]);
        }
        hex(&hash.finalize()).chars().take(16).collect()
    }
}

/// Lower-case hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from_digit(digit.into(), 16).unwrap_or('0'))
        .collect()
}

/// The signature of a request.
pub fn signature(
    application_secret: &str,
    consumer_key: &str,
    method: &str,
    url: &str,
    body: &[u8],
    timestamp: i64,
) -> String {
    let mut hash = Sha1::new();
    for part in [application_secret, consumer_key, method, url] {
        hash.update(part.as_bytes());
        hash.update(b"+");
    }
    hash.update(body);
    hash.update(b"+");
    hash.update(timestamp.to_string().as_bytes());
    format!("$1${}", hex(&hash.finalize()))
}

#[derive(Clone, Copy)]
struct Drift {
    /// Local time minus the server's, in seconds.
    delta: i64,
    read: Timestamp,
}

#[derive(Clone)]
struct Token {
    header: HeaderValue,
    expires: Timestamp,
}

#[derive(Default)]
struct Session {
    credentials: Option<(Credentials, Timestamp)>,
    drift: Option<Drift>,
    token: Option<Token>,
}

#[derive(Deserialize)]
struct TokenAnswer {
    access_token: String,
    #[serde(default)]
    expires_in: Option<i64>,
}

/// Puts on requests what the API wants to see.
pub(super) struct Signer {
    http: Http,
    api: Endpoint,
    oauth: Endpoint,
    source: Arc<dyn CredentialSource>,
    /// Those in use, to be taken out of what servers say.
    used: StdMutex<Option<Credentials>>,
    clock: Clock,
    session: Mutex<Session>,
}

impl Signer {
    pub(super) fn new(
        http: Http,
        api: Endpoint,
        oauth: Endpoint,
        source: Arc<dyn CredentialSource>,
        clock: Clock,
    ) -> Self {
        Signer {
            http,
            api,
            oauth,
            source,
            used: StdMutex::default(),
            clock,
            session: Mutex::default(),
        }
    }

    /// A text without any of the secrets in use.
    pub(super) fn redact(&self, text: &str) -> String {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.as_ref()
            .map_or_else(|| text.to_owned(), |one| one.redact(text))
    }

    /// The credentials to use now.
    async fn credentials(&self, renew: bool) -> Result<Credentials, ProviderError> {
        let mut session = self.session.lock().await;
        let now = (self.clock)();
        if let Some((known, read)) = &session.credentials
            && now.duration_since(*read).abs() < CREDENTIALS_TRUST
            && !renew
        {
            return Ok(known.clone());
        }
        let new = match (self.source.credentials().await, &session.credentials) {
            (Ok(new), _) => new,
            // A source that cannot be read for a moment does not take away what works.
            (Err(error), Some((known, _))) if error.passes() => known.clone(),
            (Err(error), _) => return Err(error),
        };
        let same = session
            .credentials
            .as_ref()
            .is_some_and(|(known, _)| known.fingerprint() == new.fingerprint());
        if !same {
            session.token = None;
        }
        session.credentials = Some((new.clone(), now));
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Some(new.clone());
        Ok(new)
    }

    /// The headers that make a call ours. `renew` reads the clock or the token again, whatever is known.
    pub(super) async fn headers(
        &self,
        method: &Method,
        url: &str,
        body: &[u8],
        renew: bool,
    ) -> Result<HeaderMap, ProviderError> {
        let mut headers = HeaderMap::new();
        let credentials = self.credentials(renew).await?;
        match &credentials {
            Credentials::Keys {
                application_key,
                application_secret,
                consumer_key,
            } => {
                let stamp = (self.clock)().as_second() - self.drift(renew).await?;
                let signed = signature(
                    application_secret.expose_secret().trim(),
                    consumer_key.expose_secret().trim(),
                    method.as_str(),
                    url,
                    body,
                    stamp,
                );
                headers.insert("x-ovh-application", sensitive("", application_key)?);
                headers.insert("x-ovh-consumer", sensitive("", consumer_key)?);
                headers.insert("x-ovh-timestamp", HeaderValue::from(stamp));
                headers.insert("x-ovh-signature", sensitive("", &signed.into())?);
            }
            Credentials::Account {
                client_id,
                client_secret,
            } => {
                let token = self.token(client_id, client_secret, renew).await?;
                headers.insert(AUTHORIZATION, token);
            }
        }
        Ok(headers)
    }

    /// By how much our clock is ahead of the server's. Never signed: the answer is what signatures need.
    async fn drift(&self, renew: bool) -> Result<i64, ProviderError> {
        let mut session = self.session.lock().await;
        let now = (self.clock)();
        if let Some(drift) = session.drift
            && now.duration_since(drift.read).abs() < CLOCK_TRUST
            && !renew
        {
            return Ok(drift.delta);
        }
        let request = Request::builder()
            .uri(self.api.at("/auth/time"))
            .body(Bytes::new())
            .map_err(|error| ProviderError::Invalid(error.to_string()))?;
        let reply = self.http.send(request, Retry::READ).await?;
        let text = String::from_utf8_lossy(&reply.body);
        let server: i64 = match text.trim().parse() {
            Ok(server) if reply.status.is_success() => server,
            _ => {
                let said = excerpt(&reply.body);
                return Err(ProviderError::Transient(format!(
                    "GET /auth/time answered {} {said:?} instead of the time",
                    reply.status
                )));
            }
        };
        let now = (self.clock)();
        let delta = now.as_second() - server;
        session.drift = Some(Drift { delta, read: now });
        Ok(delta)
    }

    async fn token(
        &self,
        client_id: &SecretString,
        client_secret: &SecretString,
        renew: bool,
    ) -> Result<HeaderValue, ProviderError> {
        let mut session = self.session.lock().await;
        let now = (self.clock)();
        if let Some(token) = &session.token
            && now.duration_since(token.expires) < -MARGIN
            && !renew
        {
            return Ok(token.header.clone());
        }
        let form = format!(
            "grant_type=client_credentials&scope=all&client_id={}&client_secret={}",
            percent(client_id.expose_secret().trim()),
            percent(client_secret.expose_secret().trim())
        );
        let request = Request::builder()
            .method(Method::POST)
            .uri(self.oauth.to_string())
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(Bytes::from(form))
            .map_err(|error| ProviderError::Invalid(error.to_string()))?;
        let reply = self.http.send(request, Retry::READ).await?;
        if !reply.status.is_success() {
            let said = excerpt_redacted(&reply.body, |text| self.redact(text));
            let text = format!("the service account's token is refused: {said}");
            return Err(match reply.status.as_u16() {
                400 | 401 | 403 => ProviderError::Unauthorised(text),
                _ => reply.refusal(text),
            });
        }
        let answer: TokenAnswer = serde_json::from_slice(&reply.body).map_err(|error| {
            ProviderError::Transient(format!("the token endpoint's answer: {error}"))
        })?;
        let header = sensitive("Bearer ", &answer.access_token.into())?;
        let life = SignedDuration::from_secs(answer.expires_in.unwrap_or(1800).clamp(60, 86_400));
        session.token = Some(Token {
            header: header.clone(),
            expires: now.checked_add(life).unwrap_or(now),
        });
        Ok(header)
    }
}

/// A text as it may stand in a form.
fn percent(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push_str(&hex(&[byte]).to_uppercase());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "exampleAppSecret00000000000000000";
    const CONSUMER: &str = "exampleConsumerKey0000000000000000";
    const PROJECT: &str =
        "https://eu.api.ovh.com/1.0/cloud/project/0123456789abcdef0123456789abcdef";

    #[test]
    fn signatures_are_those_of_the_published_vectors() {
        let url = format!("{PROJECT}/capabilities/kube/flavors?region=GRA11");
        assert_eq!(
            signature(SECRET, CONSUMER, "GET", &url, b"", 1_700_000_000),
            "$1$26b0cf4bc6f7cc8af91fbd4751d7ea73aeda34c6"
        );
        let url = format!(
            "{PROJECT}/kube/11111111-2222-3333-4444-555555555555/nodepool/aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
        );
        assert_eq!(
            signature(
                SECRET,
                CONSUMER,
                "PUT",
                &url,
                br#"{"desiredNodes":2}"#,
                1_700_000_000
            ),
            "$1$ae1fab10d7909801a7bdd16657ba49e294a7da43"
        );
    }

    #[test]
    fn secrets_are_taken_out_of_texts_and_debug_output() {
        let keys = Credentials::Keys {
            application_key: "app-key-1".into(),
            application_secret: "app-secret-1".into(),
            consumer_key: "consumer-1".into(),
        };
        let clean = keys.redact("key app-key-1 with app-secret-1 for consumer-1");
        assert_eq!(clean, "key [redacted] with [redacted] for [redacted]");
        assert!(!format!("{keys:?}").contains("app-"));
        assert_eq!(keys.fingerprint().len(), 16);
    }

    #[test]
    fn forms_escape_what_is_not_plain() {
        assert_eq!(percent("a+b/c=d~"), "a%2Bb%2Fc%3Dd~");
    }
}
