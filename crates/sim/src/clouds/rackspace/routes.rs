//! The paths of the API, the token exchange and the public price data.

use std::collections::BTreeMap;

use axum::body::Bytes;
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};

use super::admission::Refused;
use super::state::{Kind, missing};
use super::{CallFault, RackspaceCloud};

type Answer = Result<Response, Refused>;
const NGPC: &str = "/apis/ngpc.rxt.io/v1";

pub(super) fn router(cloud: RackspaceCloud) -> Router {
    let pools = format!("{NGPC}/namespaces/{{namespace}}/{{kind}}");
    let api = Router::new()
        .route(
            "/apis/auth.ngpc.rxt.io/v1/organizations",
            get(organizations),
        )
        .route(&format!("{NGPC}/regions"), get(regions))
        .route(&format!("{NGPC}/serverclasses"), get(classes))
        .route(&format!("{NGPC}/serverclasses/{{name}}"), get(class))
        .route(&pools, get(list).post(create))
        .route(
            &format!("{pools}/{{name}}"),
            get(one).patch(patch).delete(delete),
        )
        .layer(middleware::from_fn_with_state(cloud.clone(), authorise));
    Router::new()
        .route("/oauth/token", post(token))
        .route("/percentiles.json", get(feed))
        .merge(api)
        .layer(middleware::from_fn_with_state(cloud.clone(), faults))
        .with_state(cloud)
}

/// Lets go wrong what was asked to go wrong.
async fn faults(State(cloud): State<RackspaceCloud>, request: Request, next: Next) -> Response {
    // The same line whether the call came through a socket or from this process.
    let path = request
        .uri()
        .path_and_query()
        .map_or("/", |path| path.as_str());
    let line = format!("{} {path}", request.method());
    let fault = {
        let mut inner = cloud.lock();
        inner.calls.push(line.clone());
        inner.take_fault(&line)
    };
    match fault {
        None => next.run(request).await,
        Some(CallFault::Refused(code, retry_after)) => {
            let code = StatusCode::from_u16(code).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
            let mut answer = (code, "upstream trouble").into_response();
            if let Some(value) =
                retry_after.and_then(|wait| wait.as_secs().to_string().parse().ok())
            {
                answer.headers_mut().insert(header::RETRY_AFTER, value);
            }
            answer
        }
        Some(CallFault::Lost) => {
            next.run(request).await;
            (StatusCode::GATEWAY_TIMEOUT, "upstream request timeout").into_response()
        }
        Some(CallFault::Says(code, body)) => {
            let code = StatusCode::from_u16(code).unwrap_or(StatusCode::OK);
            (code, body).into_response()
        }
        Some(CallFault::Hangs) => std::future::pending().await,
    }
}

async fn authorise(State(cloud): State<RackspaceCloud>, request: Request, next: Next) -> Response {
    let now = cloud.clock.now();
    let bearer = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "));
    let good = bearer.is_some_and(|token| {
        let inner = cloud.lock();
        inner
            .tokens
            .get(token)
            .is_some_and(|expires| *expires > now)
    });
    if good {
        next.run(request).await
    } else {
        Refused::new(401, "Unauthorized", "Unauthorized").into_response()
    }
}

async fn token(State(cloud): State<RackspaceCloud>, body: String) -> Response {
    let fields: BTreeMap<&str, &str> = body
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .collect();
    let now = cloud.clock.now();
    let mut inner = cloud.lock();
    let known = fields.get("refresh_token") == Some(&inner.options.refresh_token.as_str())
        && fields.get("client_id") == Some(&inner.options.client_id.as_str());
    if fields.get("grant_type") != Some(&"refresh_token") || !known {
        let said = json!({"error": "access_denied", "error_description": "Unauthorized"});
        return (StatusCode::UNAUTHORIZED, Json(said)).into_response();
    }
    let life = inner.options.token_life;
    let expires = now.checked_add(life).unwrap_or(now);
    inner.issued += 1;
    let claims = json!({"exp": expires.as_second(), "iss": "https://login.spot.rackspace.com/",
        "org_id": inner.options.organization, "email_verified": true, "jti": inner.issued});
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let header = part(&json!({"alg": "RS256", "typ": "JWT"}));
    let token = format!("{header}.{}.c2lnbmF0dXJl", part(&claims));
    inner.tokens.retain(|_, expires| *expires > now);
    inner.tokens.insert(token.clone(), expires);
    Json(
        json!({"access_token": "not-this-one", "id_token": token, "expires_in": life.as_secs(),
        "scope": "openid profile email offline_access", "token_type": "Bearer"}),
    )
    .into_response()
}

async fn organizations(State(cloud): State<RackspaceCloud>) -> Response {
    let inner = cloud.lock();
    let id = &inner.options.organization;
    Json(json!({"start": 0, "limit": 50, "length": 1, "total": 1, "organizations": [
        {"id": id, "name": "acme", "display_name": "Acme", "metadata": {"namespace": inner.options.namespace()}}]}))
    .into_response()
}

async fn regions(State(cloud): State<RackspaceCloud>) -> Response {
    let inner = cloud.lock();
    let mut names: Vec<&str> = inner
        .options
        .classes
        .iter()
        .map(|class| &*class.region)
        .collect();
    names.sort_unstable();
    names.dedup();
    let items: Vec<Value> = names
        .iter()
        .map(|name| json!({"metadata": {"name": name}, "spec": {"country": "USA"}}))
        .collect();
    Json(json!({"kind": "RegionList", "metadata": {}, "items": items})).into_response()
}

fn class_objects(cloud: &RackspaceCloud) -> Vec<Value> {
    let now = cloud.clock.now();
    let inner = cloud.lock();
    let auctions = &inner.options.auctions;
    let classes = inner.options.classes.iter();
    classes
        .map(|class| {
            class.object(
                auctions.market(class, auctions.period(now)),
                now.as_second(),
            )
        })
        .collect()
}

async fn classes(
    State(cloud): State<RackspaceCloud>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Response {
    page("ServerClassList", class_objects(&cloud), &query).into_response()
}

async fn class(State(cloud): State<RackspaceCloud>, Path(name): Path<String>) -> Answer {
    class_objects(&cloud)
        .into_iter()
        .find(|class| class["metadata"]["name"] == name)
        .map(|class| Json(class).into_response())
        .ok_or_else(|| {
            Refused::new(
                404,
                "NotFound",
                format!("serverclasses \"{name}\" not found"),
            )
        })
}

/// A page of a list; the token of the next one is its offset.
fn page(kind: &str, items: Vec<Value>, query: &BTreeMap<String, String>) -> Json<Value> {
    let number = |key: &str| query.get(key).and_then(|text| text.parse::<usize>().ok());
    let start = number("continue").unwrap_or(0);
    let limit = number("limit")
        .filter(|limit| *limit > 0)
        .unwrap_or(usize::MAX);
    let total = items.len();
    let items: Vec<Value> = items.into_iter().skip(start).take(limit).collect();
    let mut metadata = json!({"resourceVersion": "1"});
    if start + items.len() < total {
        metadata["continue"] = json!((start + items.len()).to_string());
    }
    Json(
        json!({"apiVersion": "ngpc.rxt.io/v1", "kind": kind, "metadata": metadata, "items": items}),
    )
}

async fn list(
    State(cloud): State<RackspaceCloud>,
    Path((namespace, plural)): Path<(String, String)>,
    Query(mut query): Query<BTreeMap<String, String>>,
) -> Answer {
    let inner = cloud.lock();
    inner.check_namespace(&namespace)?;
    if plural == "cloudspaces" {
        return Ok(page("CloudSpaceList", vec![inner.cloudspace()], &query).into_response());
    }
    let kind = Kind::parse(&plural).ok_or_else(unknown_path)?;
    let items = inner
        .state
        .pools
        .iter()
        .filter(|((one, _), _)| *one == kind)
        .map(|(_, pool)| pool.object())
        .collect();
    if let Some(limit) = inner.options.page_limit {
        query.insert("limit".to_owned(), limit.to_string());
    }
    Ok(page("NodePoolList", items, &query).into_response())
}

async fn one(
    State(cloud): State<RackspaceCloud>,
    Path((namespace, plural, name)): Path<(String, String, String)>,
) -> Answer {
    let inner = cloud.lock();
    inner.check_namespace(&namespace)?;
    if plural == "cloudspaces" {
        if name == inner.options.cloudspace {
            return Ok(Json(inner.cloudspace()).into_response());
        }
        let message = format!("cloudspaces.ngpc.rxt.io \"{name}\" not found");
        return Err(Refused::new(404, "NotFound", message));
    }
    let kind = Kind::parse(&plural).ok_or_else(unknown_path)?;
    let pool = inner.state.pools.get(&(kind, name.clone()));
    let pool = pool.ok_or_else(|| missing(kind, &name))?;
    Ok(Json(pool.object()).into_response())
}

async fn create(
    State(cloud): State<RackspaceCloud>,
    Path((namespace, plural)): Path<(String, String)>,
    body: Bytes,
) -> Answer {
    let kind = Kind::parse(&plural).ok_or_else(unknown_path)?;
    let object = read(&body)?;
    let now = cloud.clock.now();
    let mut inner = cloud.lock();
    inner.check_namespace(&namespace)?;
    inner
        .bodies
        .push(String::from_utf8_lossy(&body).into_owned());
    let inner = &mut *inner;
    let made = inner
        .state
        .create(kind, &namespace, &object, &inner.options, now)?;
    inner.tell();
    cloud.changed.notify_one();
    Ok((StatusCode::CREATED, Json(made)).into_response())
}

async fn patch(
    State(cloud): State<RackspaceCloud>,
    Path((namespace, plural, name)): Path<(String, String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Answer {
    let kind = Kind::parse(&plural).ok_or_else(unknown_path)?;
    let sent = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    if sent != Some("application/merge-patch+json") {
        return Err(Refused::new(
            415,
            "UnsupportedMediaType",
            "not a merge patch",
        ));
    }
    let change = read(&body)?;
    let now = cloud.clock.now();
    let mut inner = cloud.lock();
    inner.check_namespace(&namespace)?;
    inner
        .bodies
        .push(String::from_utf8_lossy(&body).into_owned());
    let inner = &mut *inner;
    let changed = inner
        .state
        .patch(kind, &name, &change, &inner.options, now)?;
    cloud.changed.notify_one();
    Ok(Json(changed).into_response())
}

async fn delete(
    State(cloud): State<RackspaceCloud>,
    Path((namespace, plural, name)): Path<(String, String, String)>,
) -> Answer {
    let kind = Kind::parse(&plural).ok_or_else(unknown_path)?;
    let now = cloud.clock.now();
    let mut inner = cloud.lock();
    inner.check_namespace(&namespace)?;
    let inner = &mut *inner;
    inner.state.delete(kind, &name, &inner.options, now)?;
    inner.tell();
    cloud.changed.notify_one();
    Ok(Json(json!({"kind": "Status", "apiVersion": "v1", "status": "Success"})).into_response())
}

async fn feed(State(cloud): State<RackspaceCloud>) -> Response {
    let now = cloud.clock.now();
    let inner = cloud.lock();
    let auctions = &inner.options.auctions;
    let mut regions = Map::new();
    for class in &inner.options.classes {
        let region = regions
            .entry(class.region.clone())
            .or_insert_with(|| json!({"generation": class.generation, "serverclasses": {}}));
        let market = auctions.market(class, auctions.period(now));
        region["serverclasses"][&class.name] = class.listing(market);
    }
    Json(json!({"regions": regions})).into_response()
}

fn read(body: &[u8]) -> Result<Value, Refused> {
    serde_json::from_slice(body).map_err(|error| Refused::new(400, "BadRequest", error.to_string()))
}

fn unknown_path() -> Refused {
    Refused::new(
        404,
        "NotFound",
        "the server could not find the requested resource",
    )
}
