//! The HTTP face of the server: a tower service without sockets.
//!
//! A request is read whole (within the real server's limit), meets its fault, and is then answered
//! in one synchronous step under the state's mutex. Only watches outlive that step.

mod discovery;
mod faults;
mod list;
mod object;
mod openapi;
mod options;
mod patch;
mod port;
mod request;
mod response;
mod reviews;
mod subresource;
mod watch;

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{self, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, header, request::Parts};
use http_body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use jiff::Timestamp;

pub use port::Port;
pub use request::Verb;
pub use response::ResponseBody;

use self::{
    request::{Query, Route, Target},
    response::{Accepted, Encoding},
};
use super::{
    ApiServer, Status,
    registry::Resource,
    state::{Answering, State},
    table,
};
use crate::faults::{Fault, RequestInfo};

/// The real server's limit for bodies.
const MOST_BODY_BYTES: usize = 3 * 1024 * 1024;

/// A request for objects, understood.
pub(crate) struct Context {
    pub(crate) resource: Arc<Resource>,
    pub(crate) verb: Verb,
    pub(crate) namespace: String,
    /// Empty for collections.
    pub(crate) name: String,
    pub(crate) subresource: Option<String>,
    pub(crate) query: Query,
    pub(crate) accepted: Accepted,
    pub(crate) content_type: String,
    pub(crate) user_agent: String,
    pub(crate) body: Bytes,
    pub(crate) now: Timestamp,
    /// A stale read shows the state this many versions ago.
    pub(crate) stale_by: Option<u64>,
    /// A watch that will be cut.
    pub(crate) cut_after: Option<Duration>,
}

impl Context {
    /// How tables are printed for this request.
    pub(crate) fn table(&self) -> table::Options {
        table::Options::new(
            self.resource.clone(),
            self.query.get("includeObject"),
            self.now,
        )
    }

    /// The version that a stale read shows.
    pub(crate) fn stale_version(&self, state: &State) -> Option<u64> {
        let current = state.store.version();
        let version = current.saturating_sub(self.stale_by?).max(1);
        state
            .store
            .snapshot_at(&self.resource.table, "", version)
            .ok()
            .map(|_| version)
    }
}

impl<B> tower::Service<Request<B>> for ApiServer
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<ResponseBody>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            match Limited::new(body, MOST_BODY_BYTES).collect().await {
                Ok(body) => server.answer(parts, body.to_bytes()).await,
                Err(error) if error.is::<LengthLimitError>() => {
                    let status = Status::new(
                        413,
                        "RequestEntityTooLarge",
                        format!("Request entity too large: limit is {MOST_BODY_BYTES}"),
                    );
                    Ok(response::failure(&status, Encoding::Json))
                }
                Err(error) => Err(io::Error::other(error)),
            }
        })
    }
}

impl ApiServer {
    async fn answer(self, parts: Parts, body: Bytes) -> Result<Response<ResponseBody>, io::Error> {
        let fault = self.decide_fault(&parts);
        match fault {
            Fault::Delay(delay) => tokio::time::sleep(delay).await,
            Fault::DropRequest => return Err(faults::broken()),
            Fault::ErrorBefore(code) => {
                return Ok(response::failure(&faults::injected(code), Encoding::Json));
            }
            Fault::Duplicate => {
                let _ = self.respond(&parts, body.clone(), fault);
            }
            _ => {}
        }
        let response = self.respond(&parts, body, fault);
        match fault {
            Fault::DropResponse => Err(faults::broken()),
            Fault::ErrorAfter(code) => {
                Ok(response::failure(&faults::injected(code), Encoding::Json))
            }
            _ => Ok(response),
        }
    }

    fn decide_fault(&self, parts: &Parts) -> Fault {
        let Route::Objects(target) = Route::parse(parts.uri.path()) else {
            return Fault::None;
        };
        let query = Query::parse(parts.uri.query());
        let Some(verb) = Verb::of(&parts.method, &target, &query) else {
            return Fault::None;
        };
        self.faults().decide(&RequestInfo {
            verb,
            resource: super::registry::table_name(&target.group, &target.plural),
            subresource: target.subresource.unwrap_or_default(),
            namespace: target.namespace,
            name: target.name.unwrap_or_default(),
            user_agent: header_text(&parts.headers, header::USER_AGENT),
        })
    }

    /// Answers a request, in one step.
    fn respond(&self, parts: &Parts, body: Bytes, fault: Fault) -> Response<ResponseBody> {
        let accepted = Accepted::from_headers(&parts.headers);
        let encoding = accepted
            .as_ref()
            .map_or(Encoding::Json, |accepted| accepted.encoding);
        let answer = match Route::parse(parts.uri.path()) {
            Route::Objects(target) => accepted
                .and_then(|accepted| self.respond_objects(parts, body, target, accepted, fault)),
            Route::Other(segments) => self.respond_other(parts, &segments),
            route => {
                discovery::respond(&self.shared().lock(), &route, &parts.method, &parts.headers)
            }
        };
        answer.unwrap_or_else(|status| response::failure(&status, encoding))
    }

    fn respond_objects(
        &self,
        parts: &Parts,
        body: Bytes,
        target: Target,
        accepted: Accepted,
        fault: Fault,
    ) -> Result<Response<ResponseBody>, Status> {
        let query = Query::parse(parts.uri.query());
        let verb = Verb::of(&parts.method, &target, &query);
        let mut state = self.shared().lock();
        if reviews::is_review(&target) {
            return reviews::respond(&mut state, &target, &parts.method, &body, accepted);
        }
        // Bindings have a collection of their own and are about pods.
        let bindings =
            target.group.is_empty() && target.plural == "bindings" && target.name.is_none();
        let plural = if bindings { "pods" } else { &target.plural };
        let resource = state
            .registry
            .served(&target.group, &target.version, plural)
            .cloned()
            .ok_or_else(|| not_served_in(&state, &target))?;
        let verb = verb.ok_or_else(not_allowed)?;
        if resource.namespaced && target.namespace.is_empty() && target.name.is_some() {
            return Err(not_served_in(&state, &target));
        }
        if !resource.namespaced && !target.namespace.is_empty() {
            return Err(not_served_in(&state, &target));
        }
        let mut context = Context {
            resource,
            verb,
            namespace: target.namespace,
            name: target.name.unwrap_or_default(),
            subresource: target.subresource,
            query,
            accepted,
            content_type: header_text(&parts.headers, header::CONTENT_TYPE),
            user_agent: header_text(&parts.headers, header::USER_AGENT),
            body,
            now: state.clock.now(),
            stale_by: if let Fault::StaleRead(by) = fault {
                Some(by)
            } else {
                None
            },
            cut_after: faults::cut(fault),
        };
        state.answering = Some(Answering {
            verb: context.verb,
            subresource: context.subresource.clone().unwrap_or_default(),
            user_agent: context.user_agent.clone(),
        });
        let answer = match (bindings, context.verb) {
            (true, Verb::Create) => subresource::bind_by_collection(&mut state, &mut context),
            (true, _) => Err(not_allowed()),
            (false, _) => dispatch(&mut state, &context),
        };
        state.answering = None;
        answer
    }

    fn respond_other(
        &self,
        parts: &Parts,
        segments: &[String],
    ) -> Result<Response<ResponseBody>, Status> {
        let words: Vec<&str> = segments.iter().map(String::as_str).collect();
        match words.as_slice() {
            [] => Ok(discovery::paths(&self.shared().lock())),
            ["version"] => Ok(discovery::version()),
            ["healthz" | "livez" | "readyz", ..] => {
                Ok(response::raw(200, "text/plain; charset=utf-8", "ok"))
            }
            ["openapi", rest @ ..] => openapi::respond(&self.shared().lock(), rest, parts),
            _ => Err(not_served()),
        }
    }
}

/// Hands a request for objects to its verb.
fn dispatch(state: &mut State, context: &Context) -> Result<Response<ResponseBody>, Status> {
    if let Some(subresource) = &context.subresource {
        if !context.resource.has_subresource(subresource) {
            return Err(match context.resource.custom {
                Some(_) => Status::not_found(context.resource.named(), &context.name),
                None => Status::no_such_resource(),
            });
        }
        if subresource != "status" {
            return subresource::respond(state, context, subresource);
        }
        if matches!(context.verb, Verb::Create | Verb::Delete) {
            return Err(not_allowed());
        }
    }
    match context.verb {
        Verb::Get => object::get(state, context),
        Verb::List => list::list(state, context),
        Verb::Watch => watch::watch(state, context),
        Verb::Create if context.name.is_empty() => object::create(state, context),
        Verb::Update if !context.name.is_empty() => object::update(state, context),
        Verb::Patch if !context.name.is_empty() => patch::patch(state, context),
        Verb::Delete => object::delete(state, context),
        Verb::DeleteCollection => object::delete_collection(state, context),
        Verb::Create | Verb::Update | Verb::Patch => Err(not_allowed()),
    }
}

/// 404 for a resource that its group does not have: built-in groups answer as an API, the rest as
/// a plain web server.
fn not_served_in(state: &State, target: &Target) -> Status {
    let builtin = state.registry.all().any(|one| {
        one.custom.is_none() && one.group == target.group && one.version == target.version
    });
    if builtin {
        Status::no_such_resource()
    } else {
        not_served()
    }
}

/// 404 for paths that nothing serves.
pub(crate) fn not_served() -> Status {
    Status::no_such_path()
}

/// 405 for a method that a path does not have.
pub(crate) fn not_allowed() -> Status {
    Status {
        details: Some(Box::default()),
        ..Status::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
    }
}

fn header_text(headers: &HeaderMap, name: header::HeaderName) -> String {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
        .to_owned()
}

/// Whether a method only reads.
pub(crate) fn reads(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}
