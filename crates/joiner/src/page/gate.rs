//! Who may look.
//!
//! On a loopback address everyone who is on this machine, or who came through `kubectl port-forward`, which the API server
//! has authorised. On any other address a token is needed, of an account that may list nodes and pods in the whole
//! cluster: they could see everything that is shown here anyway.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use joiner_controllers::context::Context;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::Api;
use kube::api::PostParams;

use super::{Page, html};

/// How long an answer of the API server holds.
const HELD: Duration = Duration::from_secs(30);
/// Of how many tokens answers are held.
const TOKENS: usize = 256;
/// Name of the cookie that a browser keeps its token in.
const COOKIE: &str = "joiner-token";

/// How access is decided.
#[derive(Clone)]
pub(crate) enum Gate {
    /// All that reach a loopback address.
    Loopback,
    /// Accounts that may list nodes and pods, as the API server says.
    Reviewed(Arc<Mutex<BTreeMap<String, (Instant, Access)>>>),
}

/// What the API server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// May look.
    Granted,
    /// Is known and may not.
    Denied(String),
    /// Is not known.
    Unknown,
}

impl Gate {
    /// The gate for an address.
    pub(crate) fn at(address: IpAddr) -> Self {
        if address.is_loopback() {
            Gate::Loopback
        } else {
            Gate::Reviewed(Arc::default())
        }
    }
}

/// Lets a request through or not.
pub(crate) async fn check(State(page): State<Page>, request: Request, next: Next) -> Response {
    let wants_page = accepts_html(request.headers());
    match &page.gate {
        Gate::Loopback => {
            if !local(request.headers()) {
                // A page of another site that has its own name lead here must not read this one.
                let said = "this address serves localhost only: open it as http://localhost or http://127.0.0.1";
                return (StatusCode::MISDIRECTED_REQUEST, said).into_response();
            }
            next.run(request).await
        }
        Gate::Reviewed(known) => {
            let Some(token) = token(request.headers()) else {
                return refused(StatusCode::UNAUTHORIZED, wants_page, NO_TOKEN);
            };
            let Some(context) = page.board.context() else {
                let said = "Joiner has not connected to its cluster yet";
                return (StatusCode::SERVICE_UNAVAILABLE, said).into_response();
            };
            match access(known, &context, &token).await {
                Ok(Access::Granted) => next.run(request).await,
                Ok(Access::Unknown) => refused(StatusCode::UNAUTHORIZED, wants_page, BAD_TOKEN),
                Ok(Access::Denied(said)) => refused(StatusCode::FORBIDDEN, wants_page, &said),
                Err(error) => {
                    let said = format!("the API server could not be asked who you are: {error}");
                    (StatusCode::SERVICE_UNAVAILABLE, said).into_response()
                }
            }
        }
    }
}

const NO_TOKEN: &str = "Sign in with a token: kubectl create token ACCOUNT prints one.";
const BAD_TOKEN: &str = "The API server does not know this token, or it has expired: kubectl create token ACCOUNT prints \
                         a new one.";

fn refused(status: StatusCode, page: bool, said: &str) -> Response {
    if page {
        (status, html::sign_in(said)).into_response()
    } else {
        (status, format!("{said}\n")).into_response()
    }
}

fn accepts_html(headers: &HeaderMap) -> bool {
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|one| one.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/html"))
}

/// Whether a request was meant for this machine by name.
fn local(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(header::HOST).and_then(|one| one.to_str().ok()) else {
        return true;
    };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name == "localhost"
        || name
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

fn token(headers: &HeaderMap) -> Option<String> {
    let text = |name: header::HeaderName| {
        headers
            .get(name)
            .and_then(|one: &header::HeaderValue| one.to_str().ok())
    };
    let bearer = text(header::AUTHORIZATION).and_then(|one| one.strip_prefix("Bearer "));
    let cookies = text(header::COOKIE)
        .into_iter()
        .flat_map(|all| all.split("; "));
    let mut cookies = cookies.filter_map(|one| one.split_once('='));
    let kept = || {
        cookies
            .find(|(name, _)| *name == COOKIE)
            .map(|(_, value)| value)
    };
    bearer.or_else(kept).map(str::to_owned)
}

async fn access(
    known: &Mutex<BTreeMap<String, (Instant, Access)>>,
    context: &Context,
    token: &str,
) -> Result<Access, kube::Error> {
    let held = {
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, (at, _)| at.elapsed() < HELD);
        known.get(token).map(|(_, access)| access.clone())
    };
    if let Some(access) = held {
        return Ok(access);
    }
    let access = ask(context, token).await?;
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if known.len() < TOKENS {
        known.insert(token.to_owned(), (Instant::now(), access.clone()));
    }
    Ok(access)
}

async fn ask(context: &Context, token: &str) -> Result<Access, kube::Error> {
    let reviews: Api<TokenReview> = Api::all(context.edge.clients.reads.clone());
    let review = TokenReview {
        spec: TokenReviewSpec {
            token: Some(token.to_owned()),
            ..TokenReviewSpec::default()
        },
        ..TokenReview::default()
    };
    let review = reviews.create(&PostParams::default(), &review).await?;
    let status = review.status.unwrap_or_default();
    let Some(user) = status.user.filter(|_| status.authenticated == Some(true)) else {
        return Ok(Access::Unknown);
    };
    for resource in ["nodes", "pods"] {
        if !may_list(context, &user, resource).await? {
            let name = user.username.unwrap_or_default();
            return Ok(Access::Denied(format!(
                "{name} may not list {resource} in the whole cluster, which is the right that this page asks for"
            )));
        }
    }
    Ok(Access::Granted)
}

async fn may_list(context: &Context, user: &UserInfo, resource: &str) -> Result<bool, kube::Error> {
    let reviews: Api<SubjectAccessReview> = Api::all(context.edge.clients.reads.clone());
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: user.username.clone(),
            groups: user.groups.clone(),
            uid: user.uid.clone(),
            extra: user.extra.clone(),
            resource_attributes: Some(ResourceAttributes {
                verb: Some("list".to_owned()),
                resource: Some(resource.to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let review = reviews.create(&PostParams::default(), &review).await?;
    Ok(review.status.is_some_and(|status| status.allowed))
}

/// Where a browser gives its token.
pub(crate) async fn form() -> Response {
    html::sign_in(NO_TOKEN).into_response()
}

/// Keeps a token in the browser.
pub(crate) async fn sign_in(body: String) -> Response {
    let token = body.strip_prefix("token=").unwrap_or_default().trim();
    // Tokens are made of letters that need no escaping; anything else is none.
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.~".contains(letter);
    if token.is_empty() || !token.chars().all(plain) {
        return (StatusCode::BAD_REQUEST, html::sign_in(NO_TOKEN)).into_response();
    }
    let cookie = format!("{COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/");
    ([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(name: header::HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    #[test]
    fn only_names_of_this_machine_are_served_without_a_token() {
        for (host, answered) in [
            ("localhost:8082", true),
            ("127.0.0.1:9", true),
            ("[::1]:8082", true),
            ("localhost", true),
            ("evil.example:8082", false),
            ("localhost.evil.example", false),
            ("10.0.0.1", false),
        ] {
            assert_eq!(local(&headers(header::HOST, host)), answered, "{host}");
        }
        assert!(matches!(Gate::at([127, 0, 0, 1].into()), Gate::Loopback));
        assert!(matches!(Gate::at([0, 0, 0, 0].into()), Gate::Reviewed(_)));
    }

    #[test]
    fn a_token_comes_by_header_or_cookie() {
        let bearer = headers(header::AUTHORIZATION, "Bearer abc");
        assert_eq!(token(&bearer), Some("abc".to_owned()));
        let cookie = headers(header::COOKIE, "a=b; joiner-token=xyz");
        assert_eq!(token(&cookie), Some("xyz".to_owned()));
        assert_eq!(token(&HeaderMap::new()), None);
    }
}
