//! Whom the commands that look ask: the page of the leader, or the cluster itself.

use std::path::Path;
use std::time::Duration;

use joiner_controllers::decisions::Kind;
use joiner_core::problem::Problem;
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::api::history;
use crate::api::model::{Explanation, Nodes, Overview};
use crate::api::{Watched, overview, why};
use crate::args::AskArgs;
use crate::failure::Failure;
use crate::run::Observer;
use crate::what_if::{self, Change, Outcome};

/// How long the page may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long the API server may take to say that it is there.
const ANSWER: Duration = Duration::from_secs(5);

/// How old decisions may be that are made on the spot.
const JUDGED: Duration = Duration::from_secs(30);

/// Where the answers come from.
pub(crate) enum Source {
    /// The page of a running Joiner.
    Page(Page),
    /// The cluster, looked at by ourselves.
    Cluster(Box<Nearby>),
}

/// The cluster, looked at by ourselves.
pub(crate) struct Nearby {
    observer: Observer,
    watched: Watched,
    /// When it was decided about last.
    judged: Mutex<Instant>,
}

/// The page of a running Joiner.
pub(crate) struct Page {
    client: reqwest::Client,
    base: String,
    token: Option<String>,
}

impl Source {
    /// As the arguments say.
    pub(crate) async fn open(args: &AskArgs) -> Result<Self, Failure> {
        let Some(base) = &args.api else {
            let observer = Observer::start(args.kubeconfig.as_deref(), args.context.as_deref());
            return Ok(Source::Cluster(Box::new(Nearby {
                observer: observer.await?,
                watched: Watched::default(),
                judged: Mutex::new(Instant::now()),
            })));
        };
        let client = reqwest::Client::builder()
            .timeout(PATIENCE)
            .no_proxy()
            .build();
        let base = base.trim_end_matches('/');
        let base = if base.contains("://") {
            base.to_owned()
        } else {
            format!("http://{base}")
        };
        Ok(Source::Page(Page {
            client: client.map_err(|error| Failure::Ask(error.to_string()))?,
            base,
            token: args.token.clone(),
        }))
    }

    /// Whom it asks, in words.
    pub(crate) fn name(&self) -> String {
        match self {
            Source::Page(page) => page.base.clone(),
            Source::Cluster(one) => format!("cluster {}", one.observer.server()),
        }
    }

    /// Why something is as it is.
    pub(crate) async fn why(&self, kind: Kind, name: &str) -> Result<Explanation, Failure> {
        match self {
            Source::Page(page) => page.get(&format!("why/{kind}/{name}")).await,
            Source::Cluster(one) => {
                why::explain(one.observer.context(), kind, name).map_err(Failure::Manifest)
            }
        }
    }

    /// Nodes in an order, filtered.
    pub(crate) async fn nodes(&self, sort: &str, filter: &str) -> Result<Nodes, Failure> {
        match self {
            Source::Page(page) => {
                let filter = filter
                    .replace('%', "%25")
                    .replace(' ', "%20")
                    .replace('&', "%26");
                page.get(&format!("nodes?sort={sort}&q={filter}")).await
            }
            Source::Cluster(one) => Ok(crate::page::nodes(
                one.observer.context(),
                &one.watched,
                sort,
                filter,
            )),
        }
    }

    /// Everything at a glance.
    pub(crate) async fn overview(&self) -> Result<Overview, Failure> {
        match self {
            Source::Page(page) => page.get("overview").await,
            Source::Cluster(one) => one.glance().await,
        }
    }

    /// What would become of the cluster.
    pub(crate) async fn what_if(&self, change: &Change) -> Result<Outcome, Failure> {
        match self {
            Source::Page(page) => page.post("what-if", change).await,
            Source::Cluster(one) => {
                let problem = one.observer.context().snapshot().problem;
                solved(problem, change).await
            }
        }
    }
}

/// What would become of a problem.
pub(crate) async fn solved(problem: Problem, change: &Change) -> Result<Outcome, Failure> {
    let solved = what_if::on_a_thread(problem, change.clone()).await;
    solved.map_err(Failure::Manifest)
}

impl Nearby {
    /// Everything at a glance. What was decided, and the least that the cluster could cost, are as old as [`JUDGED`] at
    /// most.
    async fn glance(&self) -> Result<Overview, Failure> {
        let context = self.observer.context();
        let reads = &context.edge.clients.reads;
        // Watches that are cut off say nothing: nodes of an hour ago would pass for those of now.
        let answered = tokio::time::timeout(ANSWER, reads.apiserver_version()).await;
        match answered {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(Failure::Cluster(format!("no answer: {error}"))),
            Err(_) => {
                let said = format!("no answer within {} seconds", ANSWER.as_secs());
                return Err(Failure::Cluster(said));
            }
        }
        let history = self.watched.history();
        let mut judged = self.judged.lock().await;
        let old = judged.elapsed() > JUDGED;
        if old {
            context.judge().await;
        }
        if old || history.bounds(0.0).0.is_none() {
            let problem = context.snapshot().problem;
            let floor = tokio::task::spawn_blocking(move || history::floor(problem)).await;
            if let Ok(floor) = floor {
                history.bound(floor);
            }
            *judged = Instant::now();
        }
        let fleet = self.watched.fleet(context);
        Ok(overview::overview(context, &fleet, history))
    }
}

impl Page {
    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        let request = self.client.get(self.url(path));
        self.read(request).await
    }

    async fn post<T: DeserializeOwned>(&self, path: &str, body: &Change) -> Result<T, Failure> {
        let request = self.client.post(self.url(path)).json(body);
        self.read(request).await
    }

    fn url(&self, path: &str) -> String {
        format!("{}/api/v1/{path}", self.base)
    }

    async fn read<T: DeserializeOwned>(
        &self,
        mut request: reqwest::RequestBuilder,
    ) -> Result<T, Failure> {
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let failed = |error: reqwest::Error| {
            Failure::Ask(format!(
                "cannot ask {}: {}; is it the address that joiner run or joiner demo prints for the page?",
                self.base,
                root(&error)
            ))
        };
        let answer = request.send().await.map_err(failed)?;
        let status = answer.status();
        let text = answer.text().await.map_err(failed)?;
        if status.is_success() {
            let read = serde_json::from_str(&text);
            return read.map_err(|error| {
                Failure::Ask(format!("{} answers something else: {error}", self.base))
            });
        }
        let said: Option<serde_json::Value> = serde_json::from_str(&text).ok();
        let said = said.and_then(|one| one["error"].as_str().map(str::to_owned));
        let said = said.unwrap_or_else(|| text.trim().to_owned());
        Err(match status.as_u16() {
            404 | 422 => Failure::Manifest(said),
            401 | 403 => Failure::Ask(format!(
                "{} does not let us in: {said} (--token)",
                self.base
            )),
            _ => Failure::Ask(format!("{} answers {status}: {said}", self.base)),
        })
    }
}

/// What lies below an error: the client itself only says that it could not send.
fn root(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(below) = last.source() {
        last = below;
    }
    last.to_string()
}

/// Runs a command that asks.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(Failure::System)?;
    let done = runtime.block_on(work);
    // Whoever ends it does not want the rest of a thought.
    runtime.shutdown_background();
    done
}

/// A problem from a file, if one is given.
pub(crate) fn problem(file: Option<&Path>) -> Result<Option<Problem>, Failure> {
    file.map(crate::input::problem).transpose()
}
