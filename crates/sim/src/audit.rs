//! The auditor: watches a whole world, change by change, and says what must never have happened.
//!
//! ```text
//!   ApiServer ── every commit ──┐                    ┌──► Journal: what happened to whom, and a hash over it
//!                               ├──► Auditor ──► Ledger: the truth, kept apart from every cache
//!   clouds ───── every event ───┘                    └──► rules ──► Violation
//! ```
//!
//! Rules are judged against the API server's and the clouds' own state, never against what Joiner believes. Some hold
//! at every moment; some only once faults have stopped and the world has had time to settle. A change that came over
//! HTTP is Joiner's, one made in this process is the world's.

mod family;
mod journal;
mod ledger;
mod open;
mod placeable;
mod purchases;
mod records;
mod removals;
mod rules;
#[cfg(test)]
mod tests;
mod violation;
mod writes;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::problem::Catalog;
use tokio::sync::Notify;

pub use self::family::{Class, Family, KARPENTER, KARPETRACK, NODESMITH, Terms};
use self::journal::Journal;
use self::ledger::Ledger;
use self::ledger::{Claim, MANAGED_BY};
use self::open::Waits;
pub use self::violation::{Invariant, Violation};
use crate::clouds::watched::{CloudEvent, GroupEvent, Watched};
use joiner_embedded::api::{ApiServer, Commit};
use joiner_embedded::cluster::fields::Fields as _;
use serde_json::Value;

/// After so many violations the rest adds nothing.
const MOST_VIOLATIONS: usize = 20;

/// More changes than this within one moment are a circle: virtual time stands still until everybody rests.
const MOST_AT_ONCE: u64 = 20_000;

/// What the auditor must know of the world.
#[derive(Debug, Clone)]
pub struct AuditOptions {
    /// The cluster's identity, as marks have it.
    pub cluster: String,
    /// The families that Joiner serves.
    pub families: Vec<&'static Family>,
    /// What each class that Joiner serves sells, at its best. Pools and machines of kinds of class that are not among
    /// these belong to another controller.
    pub classes: BTreeMap<Class, Catalog>,
    /// How long a leak may last while faults happen.
    pub patience: Duration,
    /// How long a leak may last once faults have stopped.
    pub calm_patience: Duration,
}

impl AuditOptions {
    /// A world with these classes.
    pub fn new(
        cluster: &str,
        families: Vec<&'static Family>,
        classes: BTreeMap<Class, Catalog>,
    ) -> Self {
        Self {
            cluster: cluster.to_owned(),
            families,
            classes,
            // A process that dies again and again, with a cloud that refuses, still gets through in this time.
            patience: Duration::from_mins(45),
            calm_patience: Duration::from_mins(10),
        }
    }

    /// Who looks after machines of a family, as marks have it.
    fn manager(&self, family: &Family) -> String {
        format!("{}.{}", self.cluster, family.name)
    }

    /// Whether Joiner serves classes of this kind.
    fn serves(&self, class: &Class) -> bool {
        self.classes.keys().any(|one| one.group == class.group)
    }

    /// Whether a machine object is another controller's: by its class, or by its mark.
    fn is_foreign(&self, claim: &Claim) -> bool {
        let other = claim.annotation(MANAGED_BY);
        !self.serves(&(claim.family.class)(claim))
            || other.is_some_and(|other| other != self.manager(claim.family))
    }

    /// Whether a node says that it is Joiner's.
    fn marks_as_ours(&self, node: &Value) -> bool {
        let mark = node.annotation(MANAGED_BY);
        let mut families = self.families.iter();
        mark.is_some_and(|mark| families.any(|one| self.manager(one) == mark))
    }
}

/// What a rule found, before it is written up.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    invariant: Invariant,
    message: String,
    about: Vec<String>,
}

impl Finding {
    fn new(invariant: Invariant, message: String, about: impl IntoIterator<Item = String>) -> Self {
        Self {
            invariant,
            message,
            about: about.into_iter().collect(),
        }
    }
}

/// What may be expected of the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Things go wrong.
    Storm,
    /// Nothing goes wrong any more, since then.
    Calm(Timestamp),
    /// Everything has settled: nothing may be written, since then.
    Rest(Timestamp),
}

#[derive(Debug)]
struct Inner {
    options: AuditOptions,
    phase: Phase,
    ledger: Ledger,
    journal: Journal,
    waits: Waits,
    told: writes::Told,
    violations: Vec<Violation>,
    /// When Joiner last changed anything, and what.
    last_write: Timestamp,
    last_written: String,
    /// The present moment, and how many changes it has seen.
    moment: (Timestamp, u64),
}

/// Watches a world. Cheap to clone; clones are the same auditor.
#[derive(Debug, Clone)]
pub struct Auditor {
    inner: Arc<Mutex<Inner>>,
    /// Told when somebody works in circles: whoever waits for time to pass would wait for ever.
    circle: Arc<Notify>,
}

impl Auditor {
    /// An auditor that has seen nothing yet.
    pub fn new(options: AuditOptions) -> Self {
        Self {
            inner: Arc::new(Mutex::new(Inner {
                ledger: Ledger::new(options.families.clone()),
                options,
                phase: Phase::Storm,
                journal: Journal::default(),
                waits: Waits::default(),
                told: writes::Told::default(),
                violations: Vec::new(),
                last_write: Timestamp::MIN,
                last_written: String::new(),
                moment: (Timestamp::MIN, 0),
            })),
            circle: Arc::default(),
        }
    }

    /// Watches an API server from now on; it should be a fresh one.
    pub fn watch_server(&self, server: &ApiServer) {
        let auditor = self.clone();
        server.observe(move |commit| {
            let mut inner = auditor.lock();
            inner.committed(commit);
            if inner.moment.1 == MOST_AT_ONCE {
                auditor.circle.notify_one();
            }
        });
    }

    /// Waits until somebody works in circles, without any time passing.
    pub async fn stuck(&self) {
        self.circle.notified().await;
    }

    /// Watches a cloud from now on; it should be a fresh one.
    pub fn watch_cloud(&self, cloud: &dyn Watched) {
        let auditor = self.clone();
        let clock = cloud.clock().clone();
        if let Some(reader) = cloud.records() {
            self.lock().ledger.records.understand(reader);
        }
        cloud.observe(Box::new(move |event| auditor.saw(event, clock.now())));
    }

    /// Takes in what happened at a cloud, for whoever watches it.
    pub fn saw(&self, event: &CloudEvent, now: Timestamp) {
        self.lock().happened(event, now);
    }

    /// Writes a line about something that the world did: a fault, a crash, a user's wish.
    pub fn note(&self, at: Timestamp, subject: &str, text: &str) {
        self.lock().journal.write(at, subject, text.to_owned());
    }

    /// Says that something is wrong which no rule here can see.
    pub fn report(&self, at: Timestamp, invariant: Invariant, message: String, about: Vec<String>) {
        let finding = Finding::new(invariant, message, about);
        self.lock().found(at, vec![finding]);
    }

    /// Faults have stopped: tighter bounds from now on.
    pub fn calm(&self, at: Timestamp) {
        let mut inner = self.lock();
        inner.phase = Phase::Calm(at);
        inner.told.calm();
    }

    /// Everything has settled: from now on nothing may be written.
    pub fn rest(&self, at: Timestamp) {
        self.lock().phase = Phase::Rest(at);
    }

    /// Judges what lasts too long. To be called every now and then.
    pub fn look(&self, now: Timestamp) {
        let mut inner = self.lock();
        let bound = match inner.phase {
            Phase::Storm => (inner.options.patience, Timestamp::MIN),
            Phase::Calm(since) | Phase::Rest(since) => (inner.options.calm_patience, since),
        };
        let Inner {
            waits,
            ledger,
            options,
            ..
        } = &mut *inner;
        let findings = waits.look(ledger, options, now, bound);
        inner.found(now, findings);
    }

    /// What has not settled yet: nothing, in the end.
    pub fn open(&self) -> Vec<String> {
        let inner = self.lock();
        let open = open::all(&inner.ledger, &inner.options);
        open.into_iter().map(|finding| finding.message).collect()
    }

    /// Whether all that has not settled yet is to go and still there.
    pub fn only_leaving(&self) -> bool {
        let inner = self.lock();
        let open = open::all(&inner.ledger, &inner.options);
        let leaving = [Invariant::DeletionsEnd, Invariant::MarksRemoved];
        !open.is_empty() && open.iter().all(|one| leaving.contains(&one.invariant))
    }

    /// The time to settle is over: whatever is still open is a violation.
    pub fn must_have_settled(&self, now: Timestamp) {
        let mut inner = self.lock();
        let findings = open::all(&inner.ledger, &inner.options);
        inner.found(now, findings);
    }

    /// What must never have happened.
    pub fn violations(&self) -> Vec<Violation> {
        self.lock().violations.clone()
    }

    /// Whether nothing is wrong so far.
    pub fn clean(&self) -> bool {
        self.lock().violations.is_empty()
    }

    /// Hash over everything that happened.
    pub fn hash(&self) -> String {
        self.lock().journal.hash()
    }

    /// The newest lines about some subjects, or about all of them, oldest first.
    pub fn history(&self, about: &[String], most: usize) -> Vec<String> {
        self.lock().journal.about(about, most)
    }

    /// For how long Joiner has changed nothing, leases apart.
    pub fn quiet_for(&self, now: Timestamp) -> Duration {
        let last = self.lock().last_write;
        Duration::try_from(now.duration_since(last)).unwrap_or_default()
    }

    /// What Joiner changed last, leases apart.
    pub fn last_written(&self) -> String {
        self.lock().last_written.clone()
    }

    /// How many machines were bought so far.
    pub fn bought(&self) -> u64 {
        self.lock().ledger.bought
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn committed(&mut self, commit: &Commit<'_>) {
        let mut findings: Vec<Finding> = writes::judge(&self.ledger, &self.options, commit)
            .into_iter()
            .collect();
        findings.extend(purchases::judge_commit(&self.ledger, commit));
        findings.extend(removals::judge_commit(&self.ledger, commit));
        findings.extend(records::judge_commit(&self.ledger, commit));
        findings.extend(rules::judge_commit(&self.ledger, commit));
        if let Some(finding) = writes::at_rest(&mut self.told, commit) {
            self.last_write = commit.at;
            self.last_written.clone_from(&finding.message);
            if matches!(self.phase, Phase::Rest(_)) {
                findings.push(finding);
            }
        }
        findings.extend(self.count(commit));
        self.journal.commit(commit, &self.ledger);
        self.ledger.commit(commit);
        self.found(commit.at, findings);
    }

    /// Counts the changes of this moment.
    fn count(&mut self, commit: &Commit<'_>) -> Option<Finding> {
        let (moment, changes) = &mut self.moment;
        if *moment != commit.at {
            (*moment, *changes) = (commit.at, 0);
        }
        *changes += 1;
        (*changes == MOST_AT_ONCE).then(|| {
            let message = format!("{changes} changes within one moment, and no end");
            Finding::new(Invariant::TimePasses, message, [])
        })
    }

    fn happened(&mut self, event: &CloudEvent, now: Timestamp) {
        let mut findings = purchases::judge_event(&self.ledger, event);
        findings.extend(removals::judge_event(&self.ledger, event, now));
        findings.extend(records::judge_event(&self.ledger, event));
        let acted = match event {
            CloudEvent::Launched(_) | CloudEvent::Terminating(_) => true,
            CloudEvent::Group(_, event) => !matches!(event, GroupEvent::Gone),
            _ => false,
        };
        if acted && matches!(self.phase, Phase::Rest(_)) {
            let message = format!("a machine was bought or taken away at rest: {event:?}");
            findings.push(Finding::new(Invariant::Rest, message, []));
        }
        self.journal.event(event, now);
        self.ledger.event(event);
        self.found(now, findings);
    }

    fn found(&mut self, at: Timestamp, findings: Vec<Finding>) {
        for finding in findings {
            if self.violations.len() >= MOST_VIOLATIONS {
                return;
            }
            let history = self.journal.about(&finding.about, violation::HISTORY);
            self.violations.push(Violation {
                at,
                invariant: finding.invariant,
                message: finding.message,
                history,
            });
        }
    }
}
