//! Health, metrics and the page over HTTP, from the first moment on.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use joiner_controllers::edge::tasks::Tasks;
use tokio::net::TcpListener;
use tracing::{info, warn};

use crate::args::{self, ServingArgs};
use crate::board::Board;
use crate::failure::Failure;
use crate::page;

/// Listens where the arguments say.
pub(super) async fn start(board: &Board, args: &ServingArgs) -> Result<Tasks, Failure> {
    let tasks = Tasks::new();
    let health = health(board);
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
    serve_page(board, args, &tasks).await?;
    Ok(tasks)
}

fn health(board: &Board) -> Router {
    Router::new()
        .route("/healthz", get(healthy))
        .route("/readyz", get(ready))
        .with_state(board.clone())
}

/// The page is a help for people: where its usual port is taken, nodes are looked after without it.
async fn serve_page(board: &Board, args: &ServingArgs, tasks: &Tasks) -> Result<(), Failure> {
    let Some(address) = args.page_bind_address.with_port(None) else {
        return Ok(());
    };
    match page::serve(board, address, page::MEASURED, tasks).await {
        Ok(_) => Ok(()),
        Err(source) if address == args::USUAL_PAGE && source.kind() == ErrorKind::AddrInUse => {
            warn!(%address, "the page is not served: another process has its port; choose one with --page-bind-address");
            Ok(())
        }
        Err(source) => Err(Failure::Listen {
            address,
            flag: "--page-bind-address",
            source,
        }),
    }
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::pending;
    use std::sync::Arc;

    use axum::body::Body;
    use axum::http::Request;
    use joiner_controllers::edge::clients::{Clients, Fence};
    use joiner_controllers::edge::clock::SystemClock;
    use joiner_controllers::edge::ledger::MemoryLedgers;
    use joiner_controllers::{Engine, EngineOptions, Settings};
    use prometheus_client::registry::Registry;
    use tower::ServiceExt as _;

    use super::*;

    /// An engine that has nothing to do, on an API server that does not answer.
    fn idle() -> Engine {
        let silent = tower::service_fn(|_: Request<kube::client::Body>| {
            pending::<Result<Response, Infallible>>()
        });
        let options = EngineOptions {
            clients: Clients::over(&silent, Fence::closed()),
            clock: Arc::new(SystemClock),
            dialects: Vec::new(),
            classes: Vec::new(),
            cluster: "cluster".into(),
            ledgers: Arc::new(MemoryLedgers),
            settings: Settings::default(),
            lease: None,
            decide: None,
        };
        Engine::start(options, &mut Registry::default())
    }

    async fn answer(board: &Board, path: &str) -> (StatusCode, String) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = health(board).oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let text = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        (parts.status, String::from_utf8(text.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_process_whose_watch_has_died_is_not_healthy_and_says_so() {
        let (board, engine) = (Board::default(), idle());
        assert_eq!(answer(&board, "/healthz").await.0, StatusCode::OK);
        board.show(engine.context().clone(), Registry::default());
        assert_eq!(answer(&board, "/healthz").await.0, StatusCode::OK);
        engine.context().edge.tasks.vital("watch pods", async {});
        let said = engine.failed().await;
        assert_eq!(said, "task watch pods ended");
        let expected = (StatusCode::INTERNAL_SERVER_ERROR, said);
        assert_eq!(answer(&board, "/healthz").await, expected);
        engine.kill().await;
    }
}
