//! What is served for eyes and programs: the page and `/api/v1`. Read-only; nothing from elsewhere is loaded.
//!
//! | module | what it does |
//! | --- | --- |
//! | `gate` | who may look: users of this machine, or accounts that may list nodes and pods |
//! | `json` | `/api/v1` |
//! | `html` | the panels, from templates that are checked when they are compiled |
//! | `draw`, `text` | charts and numbers |
//! | `live` | server-sent events: something has changed |

mod draw;
mod gate;
mod html;
mod json;
mod live;
mod text;

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use joiner_controllers::edge::tasks::Tasks;
use tokio::net::TcpListener;
use tracing::{info, warn};

use crate::api::Watched;
use crate::api::history::{self, Every};
use crate::board::Board;

pub(crate) use gate::Gate;
pub(crate) use html::{nodes, report};
pub(crate) use text::{cores, gib};

/// Nothing but what this server sends, and no script but its own file.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// How often the cluster is measured while the page is served.
pub(crate) const MEASURED: Every = Every {
    sample: Duration::from_secs(5),
    bound: Duration::from_mins(2),
};

/// What the handlers work with.
#[derive(Clone)]
pub(crate) struct Page {
    board: Board,
    watched: Watched,
    gate: Gate,
}

/// Serves the page until the tasks are stopped. Returns where; an address that cannot be had is no reason not to look
/// after nodes.
pub(crate) async fn serve(
    board: &Board,
    address: SocketAddr,
    every: Every,
    tasks: &Tasks,
) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    let page = Page {
        board: board.clone(),
        watched: Watched::default(),
        gate: Gate::at(address.ip()),
    };
    let measuring = history::run(board.clone(), page.watched.clone(), every);
    tasks.spawn("measurements", measuring);
    let router = router(page);
    tasks.spawn("page", async move {
        if let Err(error) = axum::serve(listener, router).await {
            warn!(%error, "the page is no longer served");
        }
    });
    info!(%address, "the page is served");
    Ok(address)
}

/// Everything that is served.
fn router(page: Page) -> Router {
    let open = Router::new()
        .route("/assets/page.css", get(async || asset("text/css", CSS)))
        .route(
            "/assets/page.js",
            get(async || asset("text/javascript", SCRIPT)),
        )
        .route("/sign-in", get(gate::form).post(gate::sign_in));
    let closed = Router::new()
        .merge(html::routes())
        .nest("/api/v1", json::routes().merge(live::routes()))
        .layer(middleware::from_fn_with_state(page.clone(), gate::check));
    open.merge(closed)
        .fallback(html::missing)
        .layer(middleware::from_fn(harden))
        .with_state(page)
}

/// The style sheet.
pub(crate) const CSS: &str = include_str!("../assets/page.css");
const SCRIPT: &str = include_str!("../assets/page.js");

fn asset(kind: &'static str, text: &'static str) -> Response {
    let kind = format!("{kind}; charset=utf-8");
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// Headers of every answer.
async fn harden(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    let mut set = |name, value| headers.insert(name, HeaderValue::from_static(value));
    set(header::CONTENT_SECURITY_POLICY, POLICY);
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(header::X_FRAME_OPTIONS, "DENY");
    set(header::REFERRER_POLICY, "no-referrer");
    set(header::CACHE_CONTROL, "no-store");
    response
}

#[cfg(test)]
mod tests;
