//! The panels.

use askama::Template;
use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, Uri};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use jiff::Timestamp;
use joiner_controllers::context::Context;
use joiner_controllers::decisions::{Kind, PoolVerdict, Said};
use joiner_core::problem::{Pod, PodSpec};
use joiner_core::resources::{CPU, MEMORY, PODS, Resources};
use serde::Deserialize;

use super::json::{self, Asked};
use super::{CSS, Page, draw};
use crate::api::history::{clock, moment};
use crate::api::model::{
    Activity, Demand, Episode, Explanation, Market, NodeView, Nodes, OfferingView, Overview,
    dollars,
};
use crate::api::{Watched, activity, demand, fleet, market, overview, why};
use crate::what_if::{self, Change, Outcome};

/// How many nodes and episodes one page has: a filter finds the others.
const NODES: usize = 120;
const EPISODES: usize = 100;

pub(super) fn routes() -> Router<Page> {
    Router::new()
        .route("/", get(show_overview))
        .route("/demand", get(show_demand))
        .route("/nodes", get(show_nodes))
        .route("/activity", get(show_activity))
        .route("/market", get(show_market))
        .route("/what-if", get(ask))
        .route("/why/{kind}/{*name}", get(show_why))
}

/// What stands around every panel.
struct Frame {
    here: &'static str,
    mode: String,
    clock: String,
    query: String,
}

impl Frame {
    fn new(here: &'static str, context: &Context, query: &str) -> Self {
        let mode = match (context.view.synced(), context.edge.clients.fence.holds()) {
            (false, _) => "reading the cluster",
            (_, false) => "another replica leads",
            _ => "live",
        };
        Frame {
            here,
            mode: mode.to_owned(),
            clock: clock(context.now()),
            query: query.to_owned(),
        }
    }

    /// Marks the panel that is shown.
    fn current(&self, panel: &str) -> &'static str {
        if panel == self.here {
            " aria-current=page"
        } else {
            ""
        }
    }
}

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPanel {
    frame: Frame,
    view: Overview,
    chart: String,
    bars: Vec<Bar>,
    recent: Vec<Episode>,
}

/// A line of what there is.
struct Bar {
    name: &'static str,
    words: String,
    coming: String,
    percent: i64,
    svg: String,
}

#[derive(Template)]
#[template(path = "demand.html")]
struct DemandPanel {
    frame: Frame,
    view: Demand,
}

#[derive(Template)]
#[template(path = "nodes.html")]
struct NodesPanel {
    frame: Frame,
    total: usize,
    matching: usize,
    boxes: Vec<(NodeView, String)>,
    sorts: Vec<(&'static str, &'static str, bool)>,
}

#[derive(Template)]
#[template(path = "activity.html")]
struct ActivityPanel {
    frame: Frame,
    view: Activity,
}

#[derive(Template)]
#[template(path = "market.html")]
struct MarketPanel {
    frame: Frame,
    view: Market,
    rows: Vec<(OfferingView, String)>,
}

#[derive(Template)]
#[template(path = "what-if.html")]
struct WhatIfPanel {
    frame: Frame,
    asked: Question,
    outcome: Option<Outcome>,
    error: Option<String>,
    before: String,
    after: String,
    verdict: String,
}

#[derive(Template)]
#[template(path = "why.html")]
struct WhyPanel {
    frame: Frame,
    view: Explanation,
    told: Vec<Told>,
}

/// A verdict as it is read.
struct Told {
    code: String,
    first: String,
    last: String,
    times: u32,
    decision: u64,
    sentence: String,
    rejected: Option<String>,
    pools: Vec<PoolVerdict>,
    remedies: Vec<String>,
}

impl Told {
    fn new(said: &Said, now: Timestamp) -> Self {
        let verdict = &said.verdict;
        let rejected = verdict.evidence.rejected.as_ref().map(|one| {
            let price = dollars(one.price);
            format!(
                "Cheapest alternative: {} at {price} an hour.",
                one.instance_type
            )
        });
        Told {
            code: verdict.code.to_string(),
            first: moment(said.first, now),
            last: moment(said.last, now),
            times: said.times,
            decision: said.decision,
            sentence: super::text::with_until(said),
            rejected,
            pools: verdict.evidence.pools.clone(),
            remedies: verdict.remedies.clone(),
        }
    }
}

#[derive(Template)]
#[template(path = "message.html")]
struct Message {
    title: &'static str,
    said: String,
    sign_in: bool,
}

#[derive(Template)]
#[template(path = "report.html", escape = "html")]
struct Report {
    css: &'static str,
    title: String,
    view: Overview,
    chart: String,
    bars: Vec<Bar>,
    boxes: Vec<(NodeView, String)>,
    activity: Activity,
    facts: Vec<String>,
}

fn rendered(template: &impl Template) -> Response {
    match template.render() {
        Ok(text) => Html(text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

fn message(status: StatusCode, title: &'static str, said: String) -> Response {
    let page = Message {
        title,
        said,
        sign_in: false,
    };
    (status, rendered(&page)).into_response()
}

/// Where a token is asked for.
pub(super) fn sign_in(said: &str) -> Html<String> {
    let page = Message {
        title: "Sign in",
        said: said.to_owned(),
        sign_in: true,
    };
    Html(page.render().unwrap_or_default())
}

/// What is not there.
pub(super) async fn missing(uri: Uri) -> Response {
    let said = format!("There is nothing at {}.", uri.path());
    message(StatusCode::NOT_FOUND, "Not found", said)
}

fn nothing_yet() -> Response {
    let said = "No engine runs yet: no family of custom resources is installed, or the cluster cannot be reached. This \
                page looks again by itself.";
    message(
        StatusCode::SERVICE_UNAVAILABLE,
        "Not started",
        said.to_owned(),
    )
}

fn bars(view: &Overview) -> Vec<Bar> {
    let usage = &view.usage;
    let mut all = vec![
        (
            "CPU",
            &usage.cpu,
            usage.cpu.as_cores() + " cores",
            super::text::cores(usage.cpu.coming) + " cores",
        ),
        (
            "Memory",
            &usage.memory,
            usage.memory.as_gib(),
            super::text::gib(usage.memory.coming),
        ),
        (
            "Pods",
            &usage.pods,
            usage.pods.as_number(),
            usage.pods.coming.to_string(),
        ),
    ];
    if usage.gpu.allocatable + usage.gpu.coming + usage.gpu.requested > 0 {
        let gpu = (
            "GPU",
            &usage.gpu,
            usage.gpu.as_number(),
            usage.gpu.coming.to_string(),
        );
        all.insert(2, gpu);
    }
    all.into_iter()
        .map(|(name, usage, words, coming)| Bar {
            name,
            words,
            coming: if usage.coming > 0 {
                coming
            } else {
                String::new()
            },
            percent: usage.percent(),
            svg: draw::capacity(usage),
        })
        .collect()
}

async fn show_overview(State(page): State<Page>, Query(asked): Query<Asked>) -> Response {
    let Some(context) = page.board.context() else {
        return nothing_yet();
    };
    let fleet = page.watched.fleet(&context);
    let view = overview::overview(&context, &fleet, page.watched.history());
    let mut recent = activity::activity(&context, 0, "").episodes;
    recent.truncate(6);
    rendered(&OverviewPanel {
        frame: Frame::new("overview", &context, &asked.q),
        chart: draw::cost(&view.history),
        bars: bars(&view),
        view,
        recent,
    })
}

async fn show_demand(State(page): State<Page>, Query(asked): Query<Asked>) -> Response {
    let Some(context) = page.board.context() else {
        return nothing_yet();
    };
    rendered(&DemandPanel {
        frame: Frame::new("demand", &context, &asked.q),
        view: demand::demand(&context, &asked.q),
    })
}

/// Orders of nodes: word and name.
const SORTS: [(&str, &str); 7] = [
    ("", "name"),
    ("price", "price"),
    ("waste", "waste"),
    ("cpu", "CPU"),
    ("memory", "memory"),
    ("age", "age"),
    ("pool", "pool"),
];

async fn show_nodes(State(page): State<Page>, Query(asked): Query<Asked>) -> Response {
    let Some(context) = page.board.context() else {
        return nothing_yet();
    };
    let fleet = page.watched.fleet(&context);
    let mut nodes = json::choose(&fleet, &asked, asked.limit.unwrap_or(NODES).min(NODES));
    fleet::detail(&context, nodes.nodes.iter_mut());
    let sorts = SORTS
        .iter()
        .map(|(word, name)| (*word, *name, *word == asked.sort));
    rendered(&NodesPanel {
        frame: Frame::new("nodes", &context, &asked.q),
        total: nodes.total,
        matching: nodes.matching,
        boxes: boxes(nodes.nodes),
        sorts: sorts.collect(),
    })
}

fn boxes(nodes: Vec<NodeView>) -> Vec<(NodeView, String)> {
    let drawn = nodes.into_iter().map(|node| {
        let svg = draw::node(&node);
        (node, svg)
    });
    drawn.collect()
}

async fn show_activity(State(page): State<Page>, Query(asked): Query<Asked>) -> Response {
    let Some(context) = page.board.context() else {
        return nothing_yet();
    };
    let mut view = activity::activity(&context, 0, &asked.q);
    view.episodes.truncate(EPISODES);
    rendered(&ActivityPanel {
        frame: Frame::new("activity", &context, &asked.q),
        view,
    })
}

async fn show_market(State(page): State<Page>, Query(asked): Query<Asked>) -> Response {
    let Some(context) = page.board.context() else {
        return nothing_yet();
    };
    let fleet = page.watched.fleet(&context);
    let mut view = market::market(&context, &fleet, page.watched.history(), &asked.q);
    let shown = std::mem::take(&mut view.shown);
    let rows = shown.into_iter().map(|one| {
        let svg = draw::spark(&one.history, view.at, &view.switches);
        (one, svg)
    });
    rendered(&MarketPanel {
        frame: Frame::new("market", &context, &asked.q),
        rows: rows.collect(),
        view,
    })
}

async fn show_why(
    State(page): State<Page>,
    Path((kind, name)): Path<(String, String)>,
) -> Response {
    let Some(context) = page.board.context() else {
        return nothing_yet();
    };
    let Ok(kind) = kind.parse::<Kind>() else {
        let said = "Ask about a pod, a node, a pool or a machine.".to_owned();
        return message(StatusCode::BAD_REQUEST, "Not found", said);
    };
    match why::explain(&context, kind, &name) {
        Ok(view) => {
            let told = view.verdicts.iter().map(|said| Told::new(said, view.at));
            rendered(&WhyPanel {
                frame: Frame::new("why", &context, ""),
                told: told.collect(),
                view,
            })
        }
        Err(said) => message(
            StatusCode::NOT_FOUND,
            "Not found",
            super::text::capital(&said),
        ),
    }
}

/// What the form of the what-if panel asks.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Question {
    pods: String,
    cpu: String,
    memory: String,
    remove: String,
    kind: String,
    price: String,
    rebalance: String,
}

impl Question {
    fn is_empty(&self) -> bool {
        let all = [&self.pods, &self.remove, &self.kind, &self.rebalance];
        all.iter().all(|one| one.trim().is_empty())
    }

    fn change(&self) -> Result<Change, String> {
        let mut change = Change {
            rebalance: !self.rebalance.is_empty(),
            ..Change::default()
        };
        let remove = self
            .remove
            .split([',', ' ', '\n'])
            .filter(|name| !name.is_empty());
        change.remove = remove.map(str::to_owned).collect();
        if !self.pods.trim().is_empty() {
            let pods = self.pods.trim();
            let count = pods
                .parse::<u32>()
                .map_err(|_| format!("{pods:?} is not a number of pods"))?;
            let amount = |resource: &str, text: &str, usual: &str| {
                let text = if text.trim().is_empty() {
                    usual
                } else {
                    text.trim()
                };
                let read = Resources::parse_amount(resource, text);
                read.map_err(|error| format!("{resource} {text:?}: {error}"))
            };
            let requests = Resources::new()
                .with(CPU, amount(CPU, &self.cpu, "500m")?)
                .with(MEMORY, amount(MEMORY, &self.memory, "512Mi")?)
                .with(PODS, 1);
            let spec = PodSpec {
                namespace: "default".into(),
                requests,
                ..PodSpec::default()
            };
            change.add.push(Pod {
                count,
                ..Pod::new("what-if", spec)
            });
        }
        if !self.kind.trim().is_empty() {
            let price = self.price.trim().trim_start_matches('$');
            let price = price
                .parse::<f64>()
                .map_err(|_| format!("{:?} is not a price in dollars an hour", self.price))?;
            change.prices.insert(self.kind.trim().to_owned(), price);
        }
        Ok(change)
    }
}

async fn ask(State(page): State<Page>, Query(asked): Query<Question>) -> Response {
    let Some(context) = page.board.context() else {
        return nothing_yet();
    };
    let mut panel = WhatIfPanel {
        frame: Frame::new("what-if", &context, ""),
        asked: asked.clone(),
        outcome: None,
        error: None,
        before: String::new(),
        after: String::new(),
        verdict: String::new(),
    };
    if asked.is_empty() {
        return rendered(&panel);
    }
    let solved = match asked.change() {
        Ok(change) => what_if::on_a_thread(context.snapshot().problem, change).await,
        Err(said) => Err(said),
    };
    match solved {
        Ok(outcome) => {
            panel.before = dollars(outcome.before);
            panel.after = dollars(outcome.after);
            let change = outcome.after - outcome.before;
            panel.verdict = match change {
                change if change > 1e-9 => format!("{} an hour more", dollars(change)),
                change if change < -1e-9 => format!("{} an hour less", dollars(-change)),
                _ => "the same price".to_owned(),
            };
            panel.outcome = Some(outcome);
        }
        Err(said) => panel.error = Some(super::text::capital(&said)),
    }
    rendered(&panel)
}

/// One page that needs nothing else: everything as it stands, with `facts` on top.
pub(crate) fn report(
    context: &Context,
    watched: &Watched,
    title: String,
    facts: Vec<String>,
) -> Result<String, askama::Error> {
    let fleet = watched.fleet(context);
    let view = overview::overview(context, &fleet, watched.history());
    let all = Asked::default();
    let mut nodes = json::choose(&fleet, &all, NODES);
    fleet::detail(context, nodes.nodes.iter_mut());
    let report = Report {
        css: CSS,
        title,
        chart: draw::cost(&view.history),
        bars: bars(&view),
        boxes: boxes(nodes.nodes),
        activity: activity::activity(context, 0, ""),
        view,
        facts,
    };
    report.render()
}

/// All nodes in an order, filtered.
pub(crate) fn nodes(context: &Context, watched: &Watched, sort: &str, filter: &str) -> Nodes {
    let asked = Asked {
        q: filter.to_owned(),
        sort: sort.to_owned(),
        ..Asked::default()
    };
    json::choose(&watched.fleet(context), &asked, usize::MAX)
}

#[cfg(test)]
mod tests;
