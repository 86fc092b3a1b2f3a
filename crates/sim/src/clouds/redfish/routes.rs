//! The wire of all BMCs: which one is meant stands in the address, or in the `Host` header.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::bmc::{Bmc, Refused};
use super::models::BootPlace;
use super::{CallFault, RedfishFleet};

/// The largest body that is read.
const LIMIT: usize = 1 << 20;

pub(super) fn router(fleet: RedfishFleet) -> Router {
    Router::new().fallback(answer).with_state(fleet)
}

async fn answer(State(fleet): State<RedfishFleet>, request: Request) -> Response {
    let host = request.headers().get(header::HOST);
    let authority = match request.uri().authority() {
        Some(authority) => authority.to_string(),
        None => host
            .and_then(|host| host.to_str().ok())
            .unwrap_or_default()
            .to_owned(),
    };
    let path = request.uri().path().to_owned();
    let line = format!("{} {authority}{path}", request.method());
    match fleet.take_fault(&line) {
        None => act(&fleet, &authority, &path, request).await,
        Some(CallFault::Refused(code, _)) => {
            let code = StatusCode::from_u16(code).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
            (code, "the BMC is busy").into_response()
        }
        Some(CallFault::Lost) => {
            act(&fleet, &authority, &path, request).await;
            (StatusCode::GATEWAY_TIMEOUT, "").into_response()
        }
        Some(CallFault::Says(code, body)) => {
            let code = StatusCode::from_u16(code).unwrap_or(StatusCode::OK);
            (code, body).into_response()
        }
        Some(CallFault::Hangs) => std::future::pending().await,
    }
}

async fn act(fleet: &RedfishFleet, authority: &str, path: &str, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, LIMIT).await.unwrap_or_default();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let now = fleet.clock.now();
    let answer = fleet.with(authority, |bmc| {
        serve(bmc, &parts.method, path, &parts.headers, &body, now)
    });
    fleet.wake();
    answer.unwrap_or_else(|| (StatusCode::NOT_FOUND, "no such host").into_response())
}

fn refusal((code, id, said): Refused) -> Response {
    let body = json!({"error": {"code": "Base.1.8.GeneralError", "message": "see ExtendedInfo",
        "@Message.ExtendedInfo": [{"MessageId": id, "Message": said}]}});
    reply(code, &body, &[])
}

fn reply(code: u16, body: &Value, headers: &[(&str, &str)]) -> Response {
    let mut builder = Response::builder()
        .status(code)
        .header("OData-Version", "4.0");
    for (key, value) in headers {
        builder = builder.header(*key, *value);
    }
    let body = if body.is_null() {
        Body::empty()
    } else {
        builder = builder.header(header::CONTENT_TYPE, "application/json");
        Body::from(body.to_string())
    };
    builder.body(body).unwrap_or_default()
}

fn serve(
    bmc: &mut Bmc,
    method: &Method,
    path: &str,
    headers: &HeaderMap,
    body: &Value,
    now: Timestamp,
) -> Response {
    let trimmed = path.trim_end_matches('/');
    let model = bmc.setup.model.clone();
    let sessions = "/redfish/v1/SessionService/Sessions";
    if trimmed == "/redfish/v1" && method == Method::GET {
        return reply(200, &root(bmc), &[]);
    }
    if trimmed == sessions && method == Method::POST && model.sessions > 0 {
        bmc.end_idle(now);
        return log_in(bmc, body, sessions, now);
    }
    if !is_known(bmc, headers, now) {
        let said = "authentication is required".to_owned();
        return refusal((401, "Base.1.8.ResourceAtUriUnauthorized", said));
    }
    if model.slash && !path.ends_with('/') && method == Method::GET && !path.contains("Session") {
        return reply(308, &Value::Null, &[("Location", &format!("{path}/"))]);
    }
    let system = bmc.path();
    let system = system.trim_end_matches('/');
    let version = headers
        .get(header::IF_MATCH)
        .and_then(|value| value.to_str().ok());
    let done = |result: Result<(), Refused>, tasks: bool| match result {
        Ok(()) if tasks => reply(
            202,
            &json!({"@odata.id": "/redfish/v1/TaskService/Tasks/1", "TaskState": "Running"}),
            &[("Location", "/redfish/v1/TaskService/TaskMonitors/1")],
        ),
        Ok(()) => reply(204, &Value::Null, &[]),
        Err(refused) => refusal(refused),
    };
    if method == Method::GET && trimmed == "/redfish/v1/Systems" {
        let members = json!([{"@odata.id": bmc.path()}]);
        let list = json!({"@odata.id": "/redfish/v1/Systems", "@odata.type": "#ComputerSystemCollection.ComputerSystemCollection",
            "Name": "Systems", "Members": members, "Members@odata.count": 1});
        return reply(200, &list, &[]);
    }
    if method == Method::GET && trimmed == system {
        let etag = bmc.etag();
        let headers: Vec<(&str, &str)> = etag.iter().map(|tag| ("ETag", &**tag)).collect();
        return reply(200, &bmc.system(), &headers);
    }
    if trimmed == format!("{system}/Settings") && model.boot == BootPlace::Settings {
        return if method == Method::GET {
            reply(200, &bmc.settings(), &[])
        } else {
            done(bmc.patch(body, version, BootPlace::Settings, now), false)
        };
    }
    if method == Method::PATCH && trimmed == system {
        return done(bmc.patch(body, version, BootPlace::System, now), false);
    }
    if method == Method::POST && trimmed == format!("{system}/Actions/ComputerSystem.Reset") {
        let kind = body["ResetType"].as_str().unwrap_or_default();
        return done(bmc.reset(kind, now), model.tasks);
    }
    if method == Method::DELETE && trimmed.starts_with(sessions) {
        let id = trimmed
            .rsplit('/')
            .next()
            .and_then(|id| id.parse::<u64>().ok());
        let before = bmc.sessions.len();
        bmc.sessions.retain(|_, (one, _)| Some(*one) != id);
        let gone = bmc.sessions.len() < before;
        return reply(if gone { 204 } else { 404 }, &Value::Null, &[]);
    }
    let said = format!("the resource {path} does not exist");
    refusal((404, "Base.1.8.ResourceMissingAtURI", said))
}

fn root(bmc: &Bmc) -> Value {
    let mut root = json!({"@odata.id": "/redfish/v1/", "@odata.type": "#ServiceRoot.v1_5_0.ServiceRoot", "Id": "RootService",
        "Name": "Root Service", "RedfishVersion": "1.8.0", "UUID": bmc.uuid(), "Vendor": bmc.setup.model.vendor,
        "Systems": {"@odata.id": "/redfish/v1/Systems"}, "Links": {}});
    if bmc.setup.model.sessions > 0 {
        root["SessionService"] = json!({"@odata.id": "/redfish/v1/SessionService"});
        root["Links"]["Sessions"] = json!({"@odata.id": "/redfish/v1/SessionService/Sessions"});
    }
    root
}

fn log_in(bmc: &mut Bmc, body: &Value, sessions: &str, now: Timestamp) -> Response {
    let good = body["UserName"] == bmc.setup.username.as_str()
        && body["Password"] == bmc.setup.password.as_str();
    if !good {
        bmc.refused_logins += 1;
        let said = "wrong username or password".to_owned();
        return refusal((401, "Base.1.8.ResourceAtUriUnauthorized", said));
    }
    if bmc.sessions.len() >= bmc.setup.model.sessions {
        let said = "the maximum number of user sessions is reached".to_owned();
        return refusal((503, "IDRAC.2.1.RAC0218", said));
    }
    bmc.issued += 1;
    bmc.opened += 1;
    let token = format!("token-{}-{}", bmc.uuid(), bmc.issued);
    bmc.sessions.insert(token.clone(), (bmc.issued, now));
    let uri = format!("{sessions}/{}", bmc.issued);
    let body =
        json!({"@odata.id": uri, "Id": bmc.issued.to_string(), "UserName": bmc.setup.username});
    reply(201, &body, &[("X-Auth-Token", &token), ("Location", &uri)])
}

fn is_known(bmc: &mut Bmc, headers: &HeaderMap, now: Timestamp) -> bool {
    bmc.end_idle(now);
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(token) = text("X-Auth-Token") {
        let session = bmc.sessions.get_mut(token);
        return session.is_some_and(|(_, used)| {
            *used = now;
            true
        });
    }
    let pair = format!("{}:{}", bmc.setup.username, bmc.setup.password);
    let wanted = format!("Basic {}", STANDARD.encode(pair));
    match text("Authorization") {
        Some(sent) if sent == wanted => true,
        Some(_) => {
            bmc.refused_logins += 1;
            false
        }
        None => false,
    }
}
