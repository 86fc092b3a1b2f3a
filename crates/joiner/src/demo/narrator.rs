//! Tells on the terminal what happens: plans and their reasons, machines bought, ready, drained and gone, and how many
//! pods run at what price. Counts what the summary needs.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use joiner_core::labels;
use joiner_core::money::Money;
use joiner_embedded::api::{Change, ChangeKind, Local, Watch};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::summary::Counts;

/// The annotation in which a machine's price stands, in dollars per hour.
const PRICE: &str = "joiner.dev/price";

/// Where the story goes.
pub(crate) trait Audience: Send {
    /// Hears a line.
    fn hear(&mut self, line: &str) -> io::Result<()>;
}

/// Follows one cluster.
pub(crate) struct Narrator {
    api: Local,
    thoughts: mpsc::UnboundedReceiver<String>,
    claims: Watch,
    pods: Watch,
    sum_every: Duration,
    known: BTreeMap<String, Told>,
    evicted: BTreeSet<String>,
    counts: Counts,
    summed: String,
}

impl Narrator {
    /// Tells about a cluster, and sums it up every so often if something has changed.
    pub(crate) fn new(
        api: Local,
        thoughts: mpsc::UnboundedReceiver<String>,
        sum_every: Duration,
    ) -> Self {
        Narrator {
            claims: api.watch("nodeclaims.karpenter.sh"),
            pods: api.watch("pods"),
            api,
            thoughts,
            sum_every,
            known: BTreeMap::new(),
            evicted: BTreeSet::new(),
            counts: Counts::default(),
            summed: String::new(),
        }
    }

    /// What was counted so far.
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Tells the story until `end` has come.
    pub(crate) async fn tell(
        &mut self,
        audience: &mut dyn Audience,
        end: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let mut next_sum = Instant::now() + self.sum_every;
        tokio::pin!(end);
        loop {
            tokio::select! {
                biased;
                Some(thought) = self.thoughts.recv() => self.say(audience, &thought)?,
                change = self.claims.next() => {
                    if let Some(line) = self.claim(&change) {
                        self.say(audience, &line)?;
                    }
                }
                change = self.pods.next() => self.pod(&change),
                () = sleep_until(next_sum) => {
                    next_sum = Instant::now() + self.sum_every;
                    self.sum_up(audience)?;
                }
                () = &mut end => return self.sum_up(audience),
            }
        }
    }

    /// Says a line, with the time.
    pub(crate) fn say(&self, audience: &mut dyn Audience, line: &str) -> io::Result<()> {
        let now = self.api.clock().now();
        audience.hear(&format!("{} {line}", now.strftime("%H:%M:%S")))
    }

    fn claim(&mut self, change: &Change) -> Option<String> {
        let name = text(&change.object, "/metadata/name").to_owned();
        let told = self.known.entry(name.clone()).or_default();
        let line = told.news(&name, change.kind, &change.object, &mut self.counts);
        if change.kind == ChangeKind::Deleted {
            self.known.remove(&name);
        }
        line
    }

    /// A pod that was evicted is a pod that moves.
    fn pod(&mut self, change: &Change) {
        let uid = text(&change.object, "/metadata/uid").to_owned();
        match change.kind {
            ChangeKind::Deleted => {
                self.evicted.remove(&uid);
            }
            ChangeKind::Added => self.counts.pods_started += 1,
            ChangeKind::Modified => {
                if condition(&change.object, "DisruptionTarget") && self.evicted.insert(uid) {
                    self.counts.pods_moved += 1;
                }
            }
        }
    }

    fn sum_up(&mut self, audience: &mut dyn Audience) -> io::Result<()> {
        let pods = self.api.list("pods");
        let live = |pod: &&Arc<Value>| {
            !matches!(
                pod["status"]["phase"].as_str(),
                Some("Succeeded" | "Failed")
            )
        };
        let all = pods.iter().filter(live).count();
        let running = pods
            .iter()
            .filter(|pod| pod["status"]["phase"] == "Running")
            .count();
        self.counts.most_pods = self.counts.most_pods.max(running);
        let claims = self.api.list("nodeclaims.karpenter.sh");
        let cost: Money = claims.iter().filter_map(|claim| price(claim)).sum();
        let sum = format!(
            "{running} of {all} pods run on {} nodes, {cost} an hour",
            self.api.count("nodes")
        );
        if sum != self.summed {
            self.say(audience, &sum)?;
            self.summed = sum;
        }
        Ok(())
    }
}

/// What was already said of a machine.
#[derive(Default)]
struct Told {
    bought: bool,
    ready: bool,
    leaving: bool,
}

impl Told {
    fn news(
        &mut self,
        name: &str,
        kind: ChangeKind,
        claim: &Value,
        counts: &mut Counts,
    ) -> Option<String> {
        if kind == ChangeKind::Deleted {
            return Some(format!("  - {name} is gone"));
        }
        let launched = condition(claim, "Launched");
        if launched && !std::mem::replace(&mut self.bought, true) {
            return Some(format!("  + {name} bought: {}", described(claim)));
        }
        let ready = condition(claim, "Ready");
        if ready && !std::mem::replace(&mut self.ready, true) {
            return Some(format!("    {name} is ready"));
        }
        let leaving = claim.pointer("/metadata/deletionTimestamp").is_some();
        if leaving && !std::mem::replace(&mut self.leaving, true) {
            let why = why(claim);
            *counts.nodes_removed.entry(why.clone()).or_default() += 1;
            return Some(format!("    {name} is drained: {why}"));
        }
        None
    }
}

fn described(claim: &Value) -> String {
    let label = |key: &str| {
        claim["metadata"]["labels"][key]
            .as_str()
            .unwrap_or("?")
            .to_owned()
    };
    let price = price(claim).map_or_else(String::new, |price| format!(", {price} an hour"));
    format!(
        "{} as {} in {}{price}",
        label(labels::INSTANCE_TYPE),
        label(labels::CAPACITY_TYPE),
        label(labels::ZONE)
    )
}

/// Why a machine goes, in a word: the disruption that stands on it, or else that the cloud or somebody asked for it.
/// Why a machine goes. Where something takes its place the reason stands in the intent, else in a condition; what has
/// neither was asked back by its cloud.
fn why(claim: &Value) -> String {
    let intent = claim["metadata"]["annotations"]["joiner.dev/disruption"].as_str();
    let intent: Option<Value> = intent.and_then(|text| serde_json::from_str(text).ok());
    let cause = intent.as_ref().and_then(|intent| intent["cause"].as_str());
    let conditions = claim["status"]["conditions"].as_array();
    let told = conditions
        .into_iter()
        .flatten()
        .find(|one| one["type"] == "DisruptionReason" && one["status"] == "True")
        .and_then(|one| one["reason"].as_str());
    cause.or(told).unwrap_or("Interrupted").to_owned()
}

fn price(claim: &Value) -> Option<Money> {
    let dollars = claim["metadata"]["annotations"][PRICE].as_str()?;
    dollars.parse().ok().map(Money::from_dollars)
}

fn condition(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|one| one["type"] == kind && one["status"] == "True")
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}
