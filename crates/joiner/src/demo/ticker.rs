//! Live lines of the demo: what was bought, what went, and how the cluster stands.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use joiner_controllers::record::annotations::PRICE;
use joiner_core::labels;
use joiner_core::money::Money;
use joiner_sim::api::{ChangeKind, Local};
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

/// How often the cluster is summed up, if something changed.
const SUM_EVERY: Duration = Duration::from_secs(5);

/// Tells the story until it is dropped.
pub(crate) async fn run(api: Local) -> io::Result<()> {
    let mut claims = api.watch("nodeclaims.karpenter.sh");
    let mut known: BTreeMap<String, Told> = BTreeMap::new();
    let mut summed = String::new();
    let mut next_sum = Instant::now() + SUM_EVERY;
    loop {
        tokio::select! {
            biased;
            change = claims.next() => {
                let name = text(&change.object, "/metadata/name").to_owned();
                let told = known.entry(name.clone()).or_default();
                if let Some(line) = told.news(&name, change.kind, &change.object) {
                    say(&api, &line)?;
                }
                if change.kind == ChangeKind::Deleted {
                    known.remove(&name);
                }
            }
            () = sleep_until(next_sum) => {
                next_sum = Instant::now() + SUM_EVERY;
                let sum = sum(&api);
                if sum != summed {
                    say(&api, &sum)?;
                    summed = sum;
                }
            }
        }
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
    fn news(&mut self, name: &str, kind: ChangeKind, claim: &Value) -> Option<String> {
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
            return Some(format!("    {name} is drained: {}", why(claim)));
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

fn why(claim: &Value) -> String {
    let conditions = claim["status"]["conditions"].as_array();
    let reason = conditions
        .into_iter()
        .flatten()
        .find(|one| one["type"] == "DisruptionReason");
    reason
        .and_then(|one| one["reason"].as_str())
        .unwrap_or("asked to go")
        .to_owned()
}

fn price(claim: &Value) -> Option<Money> {
    let dollars = claim["metadata"]["annotations"][PRICE].as_str()?;
    dollars.parse().ok().map(Money::from_dollars)
}

fn sum(api: &Local) -> String {
    let pods = api.list("pods");
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
    let claims = api.list("nodeclaims.karpenter.sh");
    let cost: Money = claims.iter().filter_map(|claim| price(claim)).sum();
    format!(
        "{running} of {all} pods run on {} nodes, {cost} an hour",
        api.list("nodes").len()
    )
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

fn say(api: &Local, line: &str) -> io::Result<()> {
    let now = api.clock().now();
    writeln!(io::stdout().lock(), "{} {line}", now.strftime("%H:%M:%S"))
}
