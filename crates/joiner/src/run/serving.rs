//! Health and metrics over HTTP, from the first moment on.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, PoisonError, RwLock};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use joiner_controllers::context::Context;
use joiner_controllers::edge::tasks::Tasks;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tracing::{info, warn};

use crate::args::ServingArgs;
use crate::failure::Failure;

/// What can be asked about: nothing before the engine has started.
#[derive(Clone, Default)]
pub(super) struct Board(Arc<RwLock<Option<Shown>>>);

struct Shown {
    context: Arc<Context>,
    registry: Registry,
}

impl Board {
    /// Shows a running engine.
    pub(super) fn show(&self, context: Arc<Context>, registry: Registry) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Shown { context, registry });
    }

    /// The engine has ended.
    pub(super) fn clear(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Whether the process does its work: every task that cannot be started again runs.
    fn healthy(&self) -> Result<(), String> {
        let shown = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let failure = shown.as_ref().and_then(|one| one.context.tasks.failure());
        failure.map_or(Ok(()), |said| Err(said.to_owned()))
    }

    fn ready(&self) -> Result<(), String> {
        let shown = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let Some(shown) = shown.as_ref() else {
            return Err("not started: no family of custom resources is installed yet".to_owned());
        };
        let missing = shown.context.view.read().missing().join(", ");
        if shown.context.dialects.is_empty() || shown.context.view.synced() {
            Ok(())
        } else {
            Err(format!("not everything is listed yet: {missing}"))
        }
    }

    fn metrics(&self) -> Result<String, std::fmt::Error> {
        let shown = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        match shown.as_ref() {
            Some(shown) => encode(&mut text, &shown.registry)?,
            None => encode(&mut text, &Registry::default())?,
        }
        Ok(text)
    }
}

/// Listens where the arguments say.
pub(super) async fn start(board: &Board, args: &ServingArgs) -> Result<Tasks, Failure> {
    let tasks = Tasks::new();
    let health = Router::new()
        .route("/healthz", get(healthy))
        .route("/readyz", get(ready))
        .with_state(board.clone());
    let metrics = Router::new()
        .route("/metrics", get(metrics))
        .with_state(board.clone());
    let health_at = args
        .health_probe_bind_address
        .with_port(args.health_probe_port);
    let metrics_at = args.metrics_bind_address.with_port(args.metrics_port);
    for (what, router, address, flag) in [
        ("health", health, health_at, "--health-probe-bind-address"),
        ("metrics", metrics, metrics_at, "--metrics-bind-address"),
    ] {
        let Some(address) = address else { continue };
        let listener = bind(address).await.map_err(|source| Failure::Listen {
            address,
            flag,
            source,
        })?;
        let address = listener.local_addr().unwrap_or(address);
        info!(%address, "{what} is served");
        tasks.spawn(what, async move {
            if let Err(error) = axum::serve(listener, router).await {
                warn!(%error, "{what} is no longer served");
            }
        });
    }
    Ok(tasks)
}

async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    match TcpListener::bind(address).await {
        // A machine without IPv6.
        Err(_) if address.is_ipv6() && address.ip().is_unspecified() => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        bound => bound,
    }
}

async fn healthy(State(board): State<Board>) -> Response {
    match board.healthy() {
        Ok(()) => "ok".into_response(),
        Err(why) => (StatusCode::INTERNAL_SERVER_ERROR, why).into_response(),
    }
}

async fn ready(State(board): State<Board>) -> Response {
    match board.ready() {
        Ok(()) => "ok".into_response(),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, why).into_response(),
    }
}

async fn metrics(State(board): State<Board>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    match board.metrics() {
        Ok(text) => ([(header::CONTENT_TYPE, kind)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
