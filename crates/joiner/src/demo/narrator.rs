//! Tells on the terminal what happens: machines bought, ready, replaced, removed and gone, with prices and reasons, pods
//! that wait, and how many pods run at what cost. Counts what the summary needs.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use joiner_core::money::Money;
use joiner_embedded::api::{Change, ChangeKind, Local, Watch};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::books::Books;
use super::news::{News, Verb};
use super::summary::Counts;
use crate::plan::report::counted;

/// The annotation in which a machine's price stands, in dollars per hour.
const PRICE: &str = "joiner.dev/price";
/// How long to wait for more of the same before a line is told.
const GATHER: Duration = Duration::from_secs(2);
/// Why a machine went that nothing else explains.
const BY_USER: &str = "Deleted by a user";
const INTERRUPTED: &str = "Interrupted";
const NOT_STARTED: &str = "Not started";

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
    events: Watch,
    pods: Watch,
    books: Option<Books>,
    sum_every: Duration,
    news: News,
    known: BTreeMap<String, Told>,
    interrupted: BTreeSet<String>,
    evicted: BTreeSet<String>,
    counts: Counts,
    summed: String,
}

impl Narrator {
    /// Tells about a cluster, and says every so often how many pods run where, if that has changed.
    pub(crate) fn new(
        api: Local,
        thoughts: mpsc::UnboundedReceiver<String>,
        sum_every: Duration,
    ) -> Self {
        Narrator {
            claims: api.watch("nodeclaims.karpenter.sh"),
            events: api.watch("events"),
            pods: api.watch("pods"),
            api,
            thoughts,
            books: None,
            sum_every,
            news: News::default(),
            known: BTreeMap::new(),
            interrupted: BTreeSet::new(),
            evicted: BTreeSet::new(),
            counts: Counts::default(),
            summed: String::new(),
        }
    }

    /// Takes costs from books, which know today's prices.
    pub(crate) fn with(mut self, books: Books) -> Self {
        self.books = Some(books);
        self
    }

    /// What was counted so far.
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Tells the story until `end` has come, and then what the cluster costs.
    pub(crate) async fn tell(
        &mut self,
        audience: &mut dyn Audience,
        end: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let mut next_sum = Instant::now() + self.sum_every;
        let mut gathered: Option<Instant> = None;
        tokio::pin!(end);
        loop {
            let due = gathered.unwrap_or(next_sum).min(next_sum);
            tokio::select! {
                biased;
                Some(thought) = self.thoughts.recv() => {
                    let (verb, said) = Verb::of(&thought);
                    self.note(verb, "", &said);
                }
                change = self.events.next() => self.event(&change),
                change = self.claims.next() => self.claim(&change),
                change = self.pods.next() => self.pod(&change),
                () = sleep_until(due) => {
                    self.flush(audience)?;
                    if due == next_sum {
                        next_sum = Instant::now() + self.sum_every;
                        self.sum_up(audience)?;
                    }
                }
                () = &mut end => {
                    self.flush(audience)?;
                    return self.cost(audience);
                }
            }
            gathered = if self.news.is_empty() {
                None
            } else {
                gathered.or_else(|| Some(Instant::now() + GATHER))
            };
        }
    }

    /// Says a line, with the time.
    pub(crate) fn say(&self, audience: &mut dyn Audience, line: &str) -> io::Result<()> {
        let now = self.api.clock().now();
        audience.hear(&format!("{} {line}", now.strftime("%H:%M:%S")))
    }

    fn note(&mut self, verb: Verb, name: &str, said: &str) {
        let now = self.api.clock().now();
        self.news.add(now, verb, name, said);
    }

    fn flush(&mut self, audience: &mut dyn Audience) -> io::Result<()> {
        for line in self.news.take() {
            audience.hear(&line)?;
        }
        Ok(())
    }

    /// What Joiner says on its objects.
    fn event(&mut self, change: &Change) {
        let event = &change.object;
        if change.kind != ChangeKind::Added || event["involvedObject"]["kind"] != "NodeClaim" {
            return;
        }
        let name = text(event, "/involvedObject/name").to_owned();
        let said = text(event, "/message").to_owned();
        match text(event, "/reason") {
            "DisruptionLaunching" => self.note(Verb::Replace, &name, &said),
            INTERRUPTED => {
                self.interrupted.insert(name.clone());
                self.note(Verb::Notice, &name, &said);
            }
            _ => {}
        }
    }

    fn claim(&mut self, change: &Change) {
        let claim = &change.object;
        let name = text(claim, "/metadata/name").to_owned();
        if change.kind == ChangeKind::Deleted {
            self.known.remove(&name);
            self.interrupted.remove(&name);
            self.note(Verb::Gone, &name, "");
            return;
        }
        let told = self.known.entry(name.clone()).or_default();
        if condition(claim, "Ready") && !std::mem::replace(&mut told.ready, true) {
            self.note(Verb::Ready, &name, "");
            return;
        }
        let leaving = claim.pointer("/metadata/deletionTimestamp").is_some();
        if leaving && !std::mem::replace(&mut told.leaving, true) {
            let id = text(claim, "/status/providerID");
            let books = self.books.as_ref();
            let interrupted =
                self.interrupted.contains(&name) || books.is_some_and(|books| books.announced(id));
            let (why, said) = why(claim, interrupted);
            *self.counts.nodes_removed.entry(why).or_default() += 1;
            self.note(Verb::Remove, &name, &said);
        }
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

    /// How many pods run on how many nodes.
    fn standing(&mut self) -> String {
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
        let nodes = counted(self.api.count("nodes"), "node");
        format!("{running} of {} run on {nodes}", counted(all, "pod"))
    }

    fn sum_up(&mut self, audience: &mut dyn Audience) -> io::Result<()> {
        let standing = self.standing();
        if standing != self.summed {
            self.say(audience, &format!("{} {standing}", Verb::Pods))?;
            self.summed = standing;
        }
        Ok(())
    }

    /// What the cluster costs now, and what was spent.
    fn cost(&mut self, audience: &mut dyn Audience) -> io::Result<()> {
        let standing = self.standing();
        let line = if let Some(books) = &self.books {
            let spent = Money::from_dollars(books.sum().dollars_spent);
            let rate = books.rate();
            format!(
                "{} {rate} an hour at today's prices, {spent} so far; {standing}",
                Verb::Cost
            )
        } else {
            let claims = self.api.list("nodeclaims.karpenter.sh");
            let rate: Money = claims.iter().filter_map(|claim| price(claim)).sum();
            format!("{} {rate} an hour; {standing}", Verb::Cost)
        };
        self.say(audience, &line)
    }
}

/// What was already said of a machine.
#[derive(Default)]
struct Told {
    ready: bool,
    leaving: bool,
}

/// Why a machine goes, in a word and as a sentence. Where something takes its place the word stands in the intent, else
/// both stand in a condition; of what has neither its cloud gave notice, or a user deleted it.
fn why(claim: &Value, interrupted: bool) -> (String, String) {
    let intent = claim["metadata"]["annotations"]["joiner.dev/disruption"].as_str();
    let intent: Option<Value> = intent.and_then(|text| serde_json::from_str(text).ok());
    if let Some(cause) = intent.as_ref().and_then(|intent| intent["cause"].as_str()) {
        return (
            cause.to_owned(),
            format!("{cause}: the replacement is ready"),
        );
    }
    let conditions = claim["status"]["conditions"].as_array();
    let told = conditions
        .into_iter()
        .flatten()
        .find(|one| one["type"] == "DisruptionReason" && one["status"] == "True");
    match told {
        Some(told) => (
            told["reason"].as_str().unwrap_or_default().to_owned(),
            told["message"].as_str().unwrap_or_default().to_owned(),
        ),
        None if interrupted => (
            INTERRUPTED.to_owned(),
            format!("{INTERRUPTED}: the cloud takes it back"),
        ),
        None if !condition(claim, "Initialized") => (
            NOT_STARTED.to_owned(),
            format!("{NOT_STARTED}: the cloud did not provide it in time"),
        ),
        None => (BY_USER.to_owned(), BY_USER.to_owned()),
    }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim(annotations: &Value, conditions: &Value) -> Value {
        json!({"metadata": {"annotations": annotations}, "status": {"conditions": conditions}})
    }

    #[test]
    fn why_a_machine_goes_is_told_by_what_joiner_wrote_on_it_and_else_by_what_is_known() {
        let intent = json!({"joiner.dev/disruption": r#"{"cause": "Underutilized"}"#});
        let reason = |kind: &str| {
            json!([{"type": "Initialized", "status": "True"},
                {"type": kind, "status": "True", "reason": "Empty", "message": "Empty: saves $0.40 an hour"}])
        };
        let told = |claim: &Value, interrupted| {
            let (word, said) = why(claim, interrupted);
            format!("{word} | {said}")
        };
        let used = json!([{"type": "Initialized", "status": "True"}]);
        // What Joiner decided comes before what its cloud did meanwhile.
        assert_eq!(
            told(&claim(&intent, &reason("DisruptionReason")), true),
            "Underutilized | Underutilized: the replacement is ready"
        );
        assert_eq!(
            told(&claim(&json!({}), &reason("DisruptionReason")), true),
            "Empty | Empty: saves $0.40 an hour"
        );
        assert_eq!(
            told(&claim(&json!({}), &reason("Drifted")), true),
            "Interrupted | Interrupted: the cloud takes it back"
        );
        assert_eq!(
            told(&claim(&json!({}), &json!([])), false),
            "Not started | Not started: the cloud did not provide it in time"
        );
        assert_eq!(
            told(&claim(&json!({}), &used), false),
            "Deleted by a user | Deleted by a user"
        );
    }
}
