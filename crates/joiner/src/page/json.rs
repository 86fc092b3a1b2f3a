//! `/api/v1`: everything that is shown, as JSON.

use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use joiner_controllers::decisions::{Kind, Loop, anonymous};
use schemars::schema_for;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Page;
use crate::api::column::Column;
use crate::api::model::{Activity, Demand, Explanation, Market, Nodes, Overview, SCHEMA};
use crate::api::{activity, demand, fleet, market, opencost, overview, why};
use crate::what_if::{self, Change, Outcome};

/// The most nodes that one answer has.
const MOST: usize = 5000;

pub(super) fn routes() -> Router<Page> {
    Router::new()
        .route("/", get(index))
        .route("/schema", get(schema))
        .route("/overview", get(show_overview))
        .route("/demand", get(show_demand))
        .route("/nodes", get(show_nodes))
        .route("/activity", get(show_activity))
        .route("/market", get(show_market))
        .route("/opencost.csv", get(show_opencost))
        .route("/why/{kind}/{*name}", get(show_why))
        .route("/problem", get(problem))
        .route("/what-if", post(ask))
}

/// What can be asked of a panel.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Asked {
    /// Filter.
    pub(crate) q: String,
    /// Order of nodes.
    pub(crate) sort: String,
    /// At most so many nodes.
    pub(crate) limit: Option<usize>,
    /// Activity after this number.
    pub(crate) since: u64,
    /// With the pods of each node.
    pub(crate) pods: bool,
}

/// Why a request has no answer, as JSON.
pub(super) struct Refusal(StatusCode, String);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (
            self.0,
            Json(json!({"schemaVersion": SCHEMA, "error": self.1})),
        )
            .into_response()
    }
}

impl Page {
    /// The running engine.
    pub(super) fn engine(
        &self,
    ) -> Result<std::sync::Arc<joiner_controllers::context::Context>, Refusal> {
        let said = "no engine runs yet: no family of custom resources is installed, or the cluster cannot be reached";
        let context = self.board.context();
        context.ok_or_else(|| Refusal(StatusCode::SERVICE_UNAVAILABLE, said.to_owned()))
    }
}

async fn index() -> Json<serde_json::Value> {
    Json(json!({
        "schemaVersion": SCHEMA,
        "paths": ["schema", "overview", "demand", "nodes", "activity", "market", "opencost.csv", "why/{kind}/{name}", "problem", "what-if",
                  "stream"],
    }))
}

async fn schema() -> Json<serde_json::Value> {
    Json(json!({
        "overview": schema_for!(Overview),
        "demand": schema_for!(Demand),
        "nodes": schema_for!(Nodes),
        "activity": schema_for!(Activity),
        "market": schema_for!(Market),
        "why": schema_for!(Explanation),
        "what-if": schema_for!(Outcome),
    }))
}

fn answer<T: Serialize>(value: T) -> Response {
    Json(value).into_response()
}

async fn show_overview(State(page): State<Page>) -> Result<Response, Refusal> {
    let context = page.engine()?;
    let fleet = page.watched.fleet(&context);
    Ok(answer(overview::overview(
        &context,
        &fleet,
        page.watched.history(),
    )))
}

async fn show_demand(
    State(page): State<Page>,
    Query(asked): Query<Asked>,
) -> Result<Response, Refusal> {
    let context = page.engine()?;
    Ok(answer(demand::demand(&context, &asked.q)))
}

async fn show_nodes(
    State(page): State<Page>,
    Query(asked): Query<Asked>,
) -> Result<Response, Refusal> {
    let context = page.engine()?;
    let fleet = page.watched.fleet(&context);
    let mut nodes = choose(&fleet, &asked, asked.limit.unwrap_or(MOST).min(MOST));
    if asked.pods {
        fleet::detail(&context, nodes.nodes.iter_mut());
    }
    Ok(answer(nodes))
}

/// Nodes as asked for.
pub(super) fn choose(fleet: &fleet::Fleet, asked: &Asked, most: usize) -> Nodes {
    let query = asked.q.to_lowercase();
    let mut found: Vec<_> = fleet
        .nodes
        .iter()
        .filter(|node| node.matches(&query))
        .collect();
    let order: Column = asked.sort.parse().unwrap_or_default();
    found.sort_by(|a, b| order.between(a, b, false));
    Nodes {
        schema_version: SCHEMA,
        at: fleet.at,
        total: fleet.nodes.len(),
        matching: found.len(),
        nodes: found.into_iter().take(most).cloned().collect(),
    }
}

async fn show_activity(
    State(page): State<Page>,
    Query(asked): Query<Asked>,
) -> Result<Response, Refusal> {
    let context = page.engine()?;
    Ok(answer(activity::activity(&context, asked.since, &asked.q)))
}

async fn show_market(
    State(page): State<Page>,
    Query(asked): Query<Asked>,
) -> Result<Response, Refusal> {
    let context = page.engine()?;
    let fleet = page.watched.fleet(&context);
    let history = page.watched.history();
    Ok(answer(market::market(&context, &fleet, history, &asked.q)))
}

async fn show_opencost(State(page): State<Page>) -> Result<Response, Refusal> {
    let context = page.engine()?;
    let fleet = page.watched.fleet(&context);
    let kind = [(header::CONTENT_TYPE, "text/csv; charset=utf-8")];
    Ok((kind, opencost::csv(&fleet)).into_response())
}

async fn show_why(
    State(page): State<Page>,
    Path((kind, name)): Path<(String, String)>,
) -> Result<Response, Refusal> {
    let kind = kind.parse::<Kind>();
    let kind = kind.map_err(|_| {
        let said = format!("{kind:?} is none of pod, node, pool and machine");
        Refusal(StatusCode::BAD_REQUEST, said)
    })?;
    let context = page.engine()?;
    let found = why::explain(&context, kind, &name);
    Ok(answer(
        found.map_err(|said| Refusal(StatusCode::NOT_FOUND, said))?,
    ))
}

/// Which problem.
#[derive(Deserialize)]
#[serde(default)]
struct Wanted {
    decision: String,
    anonymous: bool,
}

impl Default for Wanted {
    fn default() -> Self {
        Wanted {
            decision: Loop::Provision.to_string(),
            anonymous: false,
        }
    }
}

/// The problem of the last decision of a kind, for `joiner plan --problem`.
async fn problem(
    State(page): State<Page>,
    Query(wanted): Query<Wanted>,
) -> Result<Response, Refusal> {
    let context = page.engine()?;
    let kind = wanted.decision.parse::<Loop>();
    let kind = kind.map_err(|_| {
        let said = format!(
            "decision {:?} is neither provision nor disrupt",
            wanted.decision
        );
        Refusal(StatusCode::BAD_REQUEST, said)
    })?;
    let Some(last) = context.decisions.last(kind) else {
        let said = format!("no decision of kind {kind} was made by this process yet");
        return Err(Refusal(StatusCode::NOT_FOUND, said));
    };
    let problem = if wanted.anonymous {
        anonymous(&last.problem)
    } else {
        (*last.problem).clone()
    };
    let name = format!("attachment; filename=\"{kind}-{}.json\"", last.number);
    Ok(([(header::CONTENT_DISPOSITION, name)], Json(problem)).into_response())
}

async fn ask(State(page): State<Page>, Json(change): Json<Change>) -> Result<Response, Refusal> {
    let problem = page.engine()?.snapshot().problem;
    let solved = what_if::on_a_thread(problem, change).await;
    let solved = solved.map_err(|said| Refusal(StatusCode::UNPROCESSABLE_ENTITY, said))?;
    Ok(answer(solved))
}
