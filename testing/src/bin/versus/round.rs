//! One contestant grows the cluster and shrinks it again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use joiner_testing::{Mirror, Seen};
use reqwest::Method;
use serde_json::{Value, json};

use crate::contestant::Contestant;
use crate::price::Catalogue;
use crate::workload::Workload;

const PODS: &str = "/api/v1/pods";
const NODES: &str = "/api/v1/nodes";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// Longer than anybody needs.
const LIMIT: Duration = Duration::from_mins(20);

/// A shape of the cluster, when it was reached and what it costs.
pub(crate) struct Shape {
    pub(crate) after: Duration,
    pub(crate) nodes: usize,
    pub(crate) price: f64,
}

/// How a contestant did.
pub(crate) struct Outcome {
    /// When all pods ran.
    pub(crate) grown: Shape,
    /// When the smaller cluster no longer changed.
    pub(crate) shrunk: Shape,
    pub(crate) cpu_seconds: f64,
    pub(crate) peak_mib: f64,
}

/// Plays one round.
pub(crate) async fn play(
    contestant: &Contestant,
    workload: &Workload,
    catalogue: &Catalogue,
    quiet: Duration,
) -> Result<Outcome> {
    let client = contestant.client()?;
    let mirror = Mirror::start(&client, [PODS, NODES]);
    let start = Instant::now();
    for deployment in Workload::deployments(workload.first) {
        client
            .send(Method::POST, DEPLOYMENTS, Some(&deployment))
            .await?;
    }
    let all = |count: usize| move |seen: &Seen| running(seen) == count && pods(seen) == count;
    ensure!(
        mirror.until(LIMIT, all(workload.first)).await,
        "{} of {} pods run after {LIMIT:?}",
        running(&mirror.seen()),
        workload.first
    );
    let grown = shape(&mirror.seen(), start.elapsed(), catalogue)?;

    let start = Instant::now();
    for deployment in Workload::deployments(workload.then) {
        let name = deployment["metadata"]["name"].as_str().unwrap_or_default();
        let scale = json!({
            "apiVersion": "autoscaling/v1", "kind": "Scale",
            "metadata": {"name": name, "namespace": "default"},
            "spec": deployment["spec"].get("replicas").map(|count| json!({"replicas": count})),
        });
        let path = format!("{DEPLOYMENTS}/{name}/scale");
        client.send(Method::PUT, &path, Some(&scale)).await?;
    }
    let last = settle(&mirror, all(workload.then), quiet).await?;
    let shrunk = shape(&mirror.seen(), last.duration_since(start), catalogue)?;
    let (cpu_seconds, peak_mib) = contestant.used()?;
    Ok(Outcome {
        grown,
        shrunk,
        cpu_seconds,
        peak_mib,
    })
}

/// Waits until nothing has changed for a while; says when the last change was.
async fn settle(mirror: &Mirror, done: impl Fn(&Seen) -> bool, quiet: Duration) -> Result<Instant> {
    let begin = Instant::now();
    let mut last = (Instant::now(), places(&mirror.seen()));
    loop {
        let before = last.1.clone();
        let left = quiet.saturating_sub(last.0.elapsed());
        if mirror.until(left, |seen| places(seen) != before).await {
            last = (Instant::now(), places(&mirror.seen()));
        } else if done(&mirror.seen()) {
            return Ok(last.0);
        } else {
            last.0 = Instant::now();
        }
        ensure!(begin.elapsed() < LIMIT, "still changing after {LIMIT:?}");
    }
}

/// Which nodes there are, and which pods on each.
fn places(seen: &Seen) -> BTreeMap<String, Vec<String>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut places: BTreeMap<String, Vec<String>> = seen
        .list(NODES)
        .map(|node| (text(&node["metadata"]["name"]), Vec::new()))
        .collect();
    for pod in seen.list(PODS) {
        let node = text(&pod["spec"]["nodeName"]);
        let name = text(&pod["metadata"]["name"]);
        places.entry(node).or_default().push(name);
    }
    places
}

fn pods(seen: &Seen) -> usize {
    seen.list(PODS).count()
}

fn running(seen: &Seen) -> usize {
    let runs = |pod: &&std::sync::Arc<Value>| {
        pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null()
    };
    seen.list(PODS).filter(runs).count()
}

fn shape(seen: &Seen, after: Duration, catalogue: &Catalogue) -> Result<Shape> {
    let nodes: Vec<_> = seen.list(NODES).collect();
    let prices = nodes.iter().map(|node| catalogue.price(node));
    Ok(Shape {
        after,
        nodes: nodes.len(),
        price: prices.sum::<Result<f64>>()?,
    })
}
