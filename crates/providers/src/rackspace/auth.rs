//! The bearer token: exchanged for the refresh token, renewed before it ends, by one caller at a time.

use std::sync::{Arc, Mutex as StdMutex, PoisonError};

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request};
use jiff::{SignedDuration, Timestamp};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::Mutex;

use super::Clock;
use super::types::{Claims, TokenAnswer};
use crate::ProviderError;
use crate::http::{Endpoint, Http, Retry, excerpt_without, sensitive};

/// The public client id, the same for everybody.
pub const CLIENT_ID: &str = "mwG3lUMV8KyeMqHe4fJ5Bb3nM1vBvRNa";
/// A token is renewed this long before it ends.
const MARGIN: SignedDuration = SignedDuration::from_secs(60);
/// A token is used at least this long: a clock that is wrong must not make every call ask for a new one.
const LEAST_USE: SignedDuration = SignedDuration::from_secs(60);
/// How long a token is trusted that does not say when it ends.
const UNSAID: SignedDuration = SignedDuration::from_mins(30);

/// Where a refresh token comes from. Asked again for every exchange, so that one that was replaced is found.
#[async_trait]
pub trait TokenSource: Send + Sync {
    /// The refresh token, or why it cannot be had.
    async fn refresh_token(&self) -> Result<SecretString, ProviderError>;
}

#[async_trait]
impl TokenSource for SecretString {
    async fn refresh_token(&self) -> Result<SecretString, ProviderError> {
        Ok(self.clone())
    }
}

/// A token that opens the API.
#[derive(Clone)]
pub(super) struct Token {
    /// The header to send.
    pub(super) header: HeaderValue,
    /// What it says about itself.
    pub(super) claims: Claims,
    secret: SecretString,
    issued: Timestamp,
    expires: Timestamp,
}

impl Token {
    /// Whether it was fetched so recently that another would be no better.
    pub(super) fn is_new(&self, now: Timestamp) -> bool {
        now.duration_since(self.issued) < LEAST_USE
    }

    fn is_good(&self, now: Timestamp) -> bool {
        self.is_new(now) || now.duration_since(self.expires) < -MARGIN
    }
}

/// Whoever holds the refresh token.
pub(super) struct Session {
    http: Http,
    endpoint: Endpoint,
    client_id: String,
    source: Arc<dyn TokenSource>,
    /// The refresh token that was last used, to be taken out of what servers say.
    used: StdMutex<Option<SecretString>>,
    clock: Clock,
    token: Mutex<Option<Token>>,
}

impl Session {
    pub(super) fn new(
        http: Http,
        endpoint: Endpoint,
        client_id: String,
        source: Arc<dyn TokenSource>,
        clock: Clock,
    ) -> Self {
        Session {
            http,
            endpoint,
            client_id,
            source,
            used: StdMutex::new(None),
            clock,
            token: Mutex::new(None),
        }
    }

    /// A token that is good for the next call. While one caller fetches it, the others wait for the same.
    pub(super) async fn token(&self) -> Result<Token, ProviderError> {
        let mut slot = self.token.lock().await;
        if let Some(token) = slot.as_ref().filter(|token| token.is_good((self.clock)())) {
            return Ok(token.clone());
        }
        let token = self.exchange().await?;
        *slot = Some(token.clone());
        Ok(token)
    }

    /// Another token than `refused`, which the API did not take.
    pub(super) async fn another(&self, refused: &Token) -> Result<Token, ProviderError> {
        {
            let mut slot = self.token.lock().await;
            // Somebody else may have renewed it meanwhile.
            if slot
                .as_ref()
                .is_some_and(|token| token.header == refused.header)
            {
                *slot = None;
            }
        }
        self.token().await
    }

    /// The beginning of what a server said, without our secrets.
    pub(super) fn excerpt(&self, said: &[u8], token: Option<&Token>) -> String {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let secrets = [used.as_ref(), token.map(|one| &one.secret)];
        excerpt_without(said, secrets.into_iter().flatten())
    }

    async fn exchange(&self) -> Result<Token, ProviderError> {
        let refresh = self.source.refresh_token().await?;
        if refresh.expose_secret().trim().is_empty() {
            return Err(ProviderError::Invalid(
                "Rackspace Spot refresh token is required".to_owned(),
            ));
        }
        let body = format!(
            "grant_type=refresh_token&client_id={}&refresh_token={}",
            form(&self.client_id),
            form(refresh.expose_secret().trim())
        );
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Some(refresh);
        let request = Request::post(self.endpoint.at("/oauth/token"))
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(Bytes::from(body))
            .map_err(|error| ProviderError::Invalid(error.to_string()))?;
        // The refresh token stays good, so asking twice does no harm.
        let reply = self.http.send(request, Retry::READ).await?;
        if !reply.status.is_success() {
            let said = self.excerpt(&reply.body, None);
            return Err(match reply.status.as_u16() {
                400 | 401 | 403 => ProviderError::Unauthorised(format!(
                    "the refresh token was not accepted ({}): {said}; make a new one in the console under API Access",
                    reply.status
                )),
                _ => reply.refusal(said),
            });
        }
        let answer: TokenAnswer = serde_json::from_slice(&reply.body).unwrap_or_default();
        // The body holds tokens: nothing of it is repeated.
        if answer.id_token.is_empty() {
            return Err(ProviderError::Transient(
                "the token exchange answered without an id_token".to_owned(),
            ));
        }
        self.read(&answer)
    }

    fn read(&self, answer: &TokenAnswer) -> Result<Token, ProviderError> {
        let issued = (self.clock)();
        let claims = claims(&answer.id_token);
        let said = answer.expires_in.count().map(i64::from);
        let life = said.map_or(UNSAID, SignedDuration::from_secs);
        let expires = Timestamp::from_second(claims.exp)
            .ok()
            .filter(|at| at.as_second() > 0)
            .or_else(|| issued.checked_add(life).ok())
            .unwrap_or(issued);
        let secret = SecretString::from(answer.id_token.clone());
        Ok(Token {
            header: sensitive("Bearer ", &secret)?,
            claims,
            secret,
            issued,
            expires,
        })
    }
}

/// What a token says about itself. It is ours and fetched over TLS, so its signature is not our concern.
pub(super) fn claims(token: &str) -> Claims {
    token
        .split('.')
        .nth(1)
        .and_then(|middle| URL_SAFE_NO_PAD.decode(middle.trim_end_matches('=')).ok())
        .and_then(|json| serde_json::from_slice(&json).ok())
        .unwrap_or_default()
}

/// A value as forms and queries carry it.
pub(super) fn form(value: &str) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            // Writing into a string does not fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::Response;
    use http_body_util::{BodyExt as _, Full};
    use proptest::prelude::*;
    use tower::service_fn;

    use super::*;

    #[test]
    fn a_token_says_when_it_ends_and_whose_it_is() {
        let middle = URL_SAFE_NO_PAD.encode(r#"{"exp":1787400000,"org_id":"org_AbC123"}"#);
        let read = claims(&format!("x.{middle}.y"));
        assert_eq!(read.exp, 1_787_400_000);
        assert_eq!(read.org_id, "org_AbC123");
    }

    #[tokio::test]
    async fn a_token_is_asked_for_as_documented() {
        let sent = Arc::new(StdMutex::new(Vec::new()));
        let log = Arc::clone(&sent);
        let http = Http::new(service_fn(move |request: Request<Full<Bytes>>| {
            let log = Arc::clone(&log);
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await?.to_bytes();
                let kind = head.headers[CONTENT_TYPE].to_str().unwrap_or_default();
                let body = String::from_utf8_lossy(&body);
                let line = format!("{} {} {kind} {body}", head.method, head.uri);
                log.lock().unwrap().push(line);
                let answer = r#"{"access_token":"no","id_token":"a.b.c","expires_in":86400}"#;
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(answer))))
            }
        }));
        let session = Session::new(
            http,
            Endpoint::parse("https://login.spot.rackspace.com", &[]).unwrap(),
            CLIENT_ID.to_owned(),
            Arc::new(SecretString::from("v1.se+cret\n")),
            Arc::new(|| Timestamp::UNIX_EPOCH),
        );
        let token = session.token().await.unwrap();
        assert_eq!(
            token.header, "Bearer a.b.c",
            "the id token, not the access token"
        );
        assert_eq!(token.expires.as_second(), 86_400);
        assert_eq!(
            *sent.lock().unwrap(),
            [concat!(
                "POST https://login.spot.rackspace.com/oauth/token application/x-www-form-urlencoded ",
                "grant_type=refresh_token&client_id=mwG3lUMV8KyeMqHe4fJ5Bb3nM1vBvRNa&refresh_token=v1.se%2Bcret"
            )]
        );
    }

    #[test]
    fn forms_are_escaped() {
        assert_eq!(form("a+b/c=é"), "a%2Bb%2Fc%3D%C3%A9");
    }

    proptest! {
        #[test]
        fn what_is_no_token_says_nothing(text in ".{0,60}") {
            let _ = claims(&text);
            prop_assert_eq!(claims(&text.replace('.', "")), Claims::default());
        }
    }
}
