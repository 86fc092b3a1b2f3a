//! The paths of the API: who may call, and what is answered.

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use joiner_providers::ovhcloud::signature;
use serde_json::{Value, json};

use super::{CallFault, Inner, OvhCloud};

/// The largest body that is read.
const BODY: usize = 1 << 20;

/// A refusal as the API words it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    code: u16,
    class: &'static str,
    message: String,
    error_code: Option<&'static str>,
}

impl Refused {
    pub(super) fn new(code: u16, class: &'static str, message: impl Into<String>) -> Self {
        Refused {
            code,
            class,
            message: message.into(),
            error_code: None,
        }
    }

    pub(super) fn missing(what: &str, id: &str) -> Self {
        let said = format!("The requested object ({what} {id}) does not exist");
        Refused::new(404, "Client::NotFound", said)
    }

    fn coded(mut self, code: &'static str) -> Self {
        self.error_code = Some(code);
        self
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let code = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut said = json!({"class": self.class, "message": self.message});
        if let Some(code) = self.error_code {
            said["errorCode"] = json!(code);
        }
        let mut answer = (code, axum::Json(said)).into_response();
        if let Ok(id) = "EU.ext-1.sim.1".parse() {
            answer.headers_mut().insert("x-ovh-queryid", id);
        }
        answer
    }
}

pub(super) fn router(cloud: OvhCloud) -> Router {
    Router::new().fallback(handle).with_state(cloud)
}

async fn handle(State(cloud): State<OvhCloud>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts
        .uri
        .path_and_query()
        .map_or("/", |path| path.as_str())
        .to_owned();
    let line = format!("{} {path}", parts.method);
    let fault = {
        let mut inner = cloud.lock();
        inner.calls.push(line.clone());
        inner.take_fault(&line)
    };
    let Ok(body) = to_bytes(body, BODY).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let url = if parts.uri.scheme().is_some() {
        parts.uri.to_string()
    } else {
        let host = parts.headers.get(header::HOST);
        let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
        format!("http://{host}{path}")
    };
    let call = Call {
        method: parts.method.as_str(),
        url: &url,
        path: &path,
        headers: &parts.headers,
        body: &body,
        now: cloud.clock.now(),
    };
    let answer = |call: &Call<'_>| {
        let done = {
            let mut inner = cloud.lock();
            let done = inner.answer(call);
            inner.tell();
            done
        };
        cloud.changed.notify_one();
        done.unwrap_or_else(IntoResponse::into_response)
    };
    match fault {
        None => answer(&call),
        Some(CallFault::Refused(code, wait)) => {
            let code = StatusCode::from_u16(code).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
            let mut answer = (code, "upstream trouble").into_response();
            if let Some(value) = wait.and_then(|wait| wait.as_secs().to_string().parse().ok()) {
                answer.headers_mut().insert(header::RETRY_AFTER, value);
            }
            answer
        }
        Some(CallFault::Lost) => {
            answer(&call);
            (StatusCode::GATEWAY_TIMEOUT, "upstream request timeout").into_response()
        }
        Some(CallFault::Says(code, body)) => {
            let code = StatusCode::from_u16(code).unwrap_or(StatusCode::OK);
            (code, body).into_response()
        }
        Some(CallFault::Hangs) => std::future::pending().await,
    }
}

struct Call<'a> {
    method: &'a str,
    url: &'a str,
    path: &'a str,
    headers: &'a HeaderMap,
    body: &'a [u8],
    now: Timestamp,
}

impl Call<'_> {
    fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }

    fn json(&self) -> Result<Value, Refused> {
        serde_json::from_slice(self.body)
            .map_err(|error| Refused::new(400, "Client::BadRequest", error.to_string()))
    }
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "an answer among others that may be refusals"
)]
fn ok(value: &Value) -> Result<Response, Refused> {
    Ok(axum::Json(value).into_response())
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "an answer among others that may be refusals"
)]
fn nothing() -> Result<Response, Refused> {
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Whether a path is what a rule says; `*` stands for anything, slashes included.
fn matches(pattern: &str, path: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = path.strip_prefix(first) else {
        return false;
    };
    let mut last = None;
    for part in parts {
        last = Some(part);
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    match last {
        None => rest.is_empty(),
        Some(part) => part.is_empty() || path.ends_with(part),
    }
}

impl Inner {
    fn take_fault(&mut self, line: &str) -> Option<CallFault> {
        let at = self
            .faults
            .iter()
            .position(|(text, _, times)| *times > 0 && line.starts_with(text))?;
        let (_, fault, times) = self.faults.get_mut(at)?;
        *times -= 1;
        Some(fault.clone())
    }

    fn answer(&mut self, call: &Call<'_>) -> Result<Response, Refused> {
        let (path, query) = call.path.split_once('?').unwrap_or((call.path, ""));
        if call.method == "POST" && path.ends_with("/oauth2/token") {
            return self.token(call);
        }
        let path = path.strip_prefix("/1.0").unwrap_or(path);
        match (call.method, path) {
            ("GET", "/auth/time") => {
                let time = call.now.as_second() + self.options.clock_skew;
                return ok(&json!(time));
            }
            ("GET", "/order/catalog/public/cloud") => return ok(&self.prices()),
            _ => {}
        }
        if !self.open {
            self.authorise(call)?;
        }
        self.count(call.now)?;
        let rules = &self.options.rules;
        let granted = self.open
            || rules.is_empty()
            || rules
                .iter()
                .any(|(method, pattern)| method == call.method && matches(pattern, path));
        if !granted {
            self.refused.push(format!("{} {path}", call.method));
            let said = "This call has not been granted";
            return Err(Refused::new(403, "Client::Forbidden", said).coded("NOT_GRANTED_CALL"));
        }
        self.route(call, path, query)
    }

    fn authorise(&self, call: &Call<'_>) -> Result<(), Refused> {
        let options = &self.options;
        let bad = |said: &str, code| Err(Refused::new(403, "Client::Forbidden", said).coded(code));
        if let Some(token) = call.header("authorization").strip_prefix("Bearer ") {
            let good = self.tokens.get(token).is_some_and(|end| *end > call.now);
            return if good {
                Ok(())
            } else {
                let said = "You must login first";
                Err(Refused::new(401, "Client::Unauthorized", said).coded("NOT_CREDENTIAL"))
            };
        }
        if call.header("x-ovh-application") != options.application_key {
            return bad("This application key is invalid", "INVALID_KEY");
        }
        let consumer = call.header("x-ovh-consumer");
        let mut more = options.more_consumer_keys.iter();
        if consumer != options.consumer_key && !more.any(|key| key == consumer) {
            return bad("This credential is not valid", "INVALID_CREDENTIAL");
        }
        let stamp: i64 = call.header("x-ovh-timestamp").parse().unwrap_or(0);
        let server = call.now.as_second() + options.clock_skew;
        if (server - stamp).abs() > options.tolerated_skew {
            return Err(Refused::new(400, "Client::BadRequest", "Query out of time")
                .coded("QUERY_TIME_OUT"));
        }
        let signed = signature(
            &options.application_secret,
            consumer,
            call.method,
            call.url,
            call.body,
            stamp,
        );
        if call.header("x-ovh-signature") != signed {
            return Err(Refused::new(400, "Client::BadRequest", "Invalid signature")
                .coded("INVALID_SIGNATURE"));
        }
        Ok(())
    }

    fn count(&mut self, now: Timestamp) -> Result<(), Refused> {
        while let Some(first) = self.recent.front() {
            if now.duration_since(*first).as_secs() < 60 {
                break;
            }
            self.recent.pop_front();
        }
        self.recent.push_back(now);
        self.busiest = self.busiest.max(self.recent.len());
        if self.recent.len() > self.options.calls_per_minute {
            return Err(Refused::new(
                429,
                "Client::TooManyRequests",
                "Too many requests",
            ));
        }
        Ok(())
    }

    fn token(&mut self, call: &Call<'_>) -> Result<Response, Refused> {
        let text = String::from_utf8_lossy(call.body);
        let field = |key: &str| {
            text.split('&')
                .filter_map(|pair| pair.split_once('='))
                .find(|(name, _)| *name == key)
                .map(|(_, value)| value.to_owned())
                .unwrap_or_default()
        };
        let (id, secret) = &self.options.account;
        if field("grant_type") != "client_credentials"
            || field("client_id") != *id
            || field("client_secret") != *secret
        {
            return Err(Refused::new(
                401,
                "invalid_client",
                "client authentication failed",
            ));
        }
        self.issued += 1;
        let token = format!("sim-token-{}", self.issued);
        let end = call
            .now
            .checked_add(self.options.token_life)
            .unwrap_or(call.now);
        self.tokens.insert(token.clone(), end);
        ok(&json!({"access_token": token, "token_type": "Bearer",
            "expires_in": self.options.token_life.as_secs(), "scope": "all"}))
    }

    fn prices(&self) -> Value {
        let mut addons = Vec::new();
        let mut add = |code: String, price: i64| {
            addons.push(json!({"planCode": code, "invoiceName": code, "product": "publiccloud-instance",
                "pricings": [{"capacities": ["consumption"], "interval": 1, "intervalUnit": "hour", "price": price}]}));
        };
        for flavor in &self.options.flavors {
            add(format!("{}.consumption", flavor.name), flavor.hourly);
            add(
                format!("{}.consumption.3AZ", flavor.name),
                flavor.hourly * 11 / 10,
            );
            if let Some(price) = flavor.monthly {
                add(format!("{}.monthly.postpaid", flavor.name), price);
            }
        }
        json!({"catalogId": 1, "locale": {"currencyCode": "EUR", "subsidiary": "FR", "taxRate": 20},
            "plans": [], "products": [], "addons": addons})
    }

    fn route(&mut self, call: &Call<'_>, path: &str, query: &str) -> Result<Response, Refused> {
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let Some((["cloud", "project", service], rest)) = parts.split_at_checked(3) else {
            return Err(Refused::missing("path", path));
        };
        if !self.open && *service != self.options.service_name {
            let said = "This service does not exist";
            return Err(Refused::new(404, "Client::NotFound", said));
        }
        let now = call.now;
        match (call.method, rest) {
            ("GET", ["kube"]) => ok(&json!([self.options.kube_id])),
            ("GET", ["capabilities", "kube", "regions"]) => ok(&json!([self.options.region])),
            ("GET", ["capabilities", "kube", "flavors"]) => {
                let region = query.strip_prefix("region=").unwrap_or_default();
                if region != self.options.region {
                    let said = format!("region {region:?} does not exist");
                    return Err(Refused::new(400, "Client::BadRequest", said));
                }
                ok(&self.flavors())
            }
            ("GET", ["flavor"]) => ok(&self.nova_flavors()),
            ("GET", ["region", name]) if *name == self.options.region => {
                let kind = if self.options.zones.is_empty() {
                    "region"
                } else {
                    "region-3-az"
                };
                ok(&json!({"name": name, "type": kind, "availabilityZones": self.options.zones}))
            }
            ("GET", ["region", name, "quota"]) if *name == self.options.region => {
                let used = self.state.cores(&self.options);
                ok(&json!({"region": name,
                    "instance": {"maxCores": self.options.quota_cores, "usedCores": used}}))
            }
            (_, ["kube", kube, rest @ ..]) => {
                if !self.open && *kube != self.options.kube_id {
                    return Err(Refused::missing("cluster", kube));
                }
                self.cluster(call, rest, now)
            }
            _ => Err(Refused::missing("path", path)),
        }
    }

    fn cluster(
        &mut self,
        call: &Call<'_>,
        rest: &[&str],
        now: Timestamp,
    ) -> Result<Response, Refused> {
        let Inner { options, state, .. } = self;
        match (call.method, rest) {
            ("GET", []) => ok(
                &json!({"id": options.kube_id, "name": "sim", "region": options.region,
                "status": "READY", "plan": "free", "version": "1.34.1-0", "nodesUrl": "sim.nodes.c1.k8s.ovh.net"}),
            ),
            ("GET", ["flavors"]) => ok(&self.flavors()),
            ("GET", ["node"]) => ok(&json!(state.nodes(None, options, now)?)),
            ("GET", ["nodepool"]) => ok(&json!(state.pools(options, now, false))),
            ("POST", ["nodepool"]) => {
                let made = state.create(&call.json()?, options, now)?;
                Ok((StatusCode::CREATED, axum::Json(made)).into_response())
            }
            ("GET", ["nodepool", id]) => ok(&state.pool(id, options, now)?),
            ("GET", ["nodepool", id, "nodes"]) => {
                ok(&json!(state.nodes(Some(id), options, now)?))
            }
            ("PUT", ["nodepool", id]) => {
                state.change(id, &call.json()?, options, now)?;
                nothing()
            }
            ("DELETE", ["nodepool", id]) => {
                state.delete(id, options, now)?;
                nothing()
            }
            _ => Err(Refused::missing("path", call.path)),
        }
    }

    fn flavors(&self) -> Value {
        let one = |flavor: &super::Flavor| {
            json!({"name": flavor.name, "category": flavor.name.get(..1), "state": flavor.state,
                "vCPUs": flavor.vcpus, "gpus": flavor.gpus, "ram": flavor.ram, "isLocalStorage": false})
        };
        self.options.flavors.iter().map(one).collect()
    }

    fn nova_flavors(&self) -> Value {
        let suffix = if self.options.zones.is_empty() {
            ""
        } else {
            ".3AZ"
        };
        let one = |flavor: &super::Flavor| {
            let monthly = flavor
                .monthly
                .map(|_| format!("{}.monthly.postpaid", flavor.name));
            json!({"id": flavor.uuid(), "name": flavor.name, "region": self.options.region, "ram": flavor.ram,
                "disk": flavor.disk, "vcpus": flavor.vcpus, "osType": "linux", "available": flavor.stock != Some(0),
                "quota": 100, "planCodes": {"hourly": format!("{}.consumption{suffix}", flavor.name), "monthly": monthly}})
        };
        self.options.flavors.iter().map(one).collect()
    }
}
