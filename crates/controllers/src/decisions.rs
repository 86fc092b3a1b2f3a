//! The ledger of decisions: what was decided last about every pod, node, pool and machine, with the evidence and what
//! would change it. Events tell single sentences; `joiner why`, the page and replay are views of this.
//!
//! ```text
//! provision ─┐                    ┌─► verdicts, by subject: the last few of each
//! disrupt   ─┼─► Decisions ───────┼─► activity: what happened, in order
//! events    ─┘                    └─► the last problem and plan of each kind, to be replayed
//! ```
//!
//! It holds no more than it says at [`Bounds`], takes its time from the caller, and nothing depends on it.

mod anonymous;
mod learn;
mod size;
mod verdict;
mod verdicts;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use joiner_core::name::Name;
use joiner_core::plan::Plan;
use joiner_core::problem::Problem;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

pub use anonymous::anonymous;
pub use learn::Provisioned;
pub use verdict::{Alternative, Evidence, Outcome, PoolVerdict, Verdict};

use self::verdicts::Verdicts;
use crate::edge::events::Severity;
use crate::record::Key;

/// Events that repeat what the plan said about a node or a machine: the verdict says it with its evidence.
const UNTOLD: [&str; 2] = ["Launching", "Unconsolidatable"];

/// How much is remembered. The last problem and plan of each kind are kept beside that; the loop that made them has them
/// too while nothing changes.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Bytes of all verdicts, the names of their subjects included.
    pub bytes: usize,
    /// Verdicts of each subject.
    pub verdicts: usize,
    /// Entries of the activity.
    pub activity: usize,
    /// Bytes of these.
    pub activity_bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            bytes: 24 << 20,
            verdicts: 4,
            activity: 2048,
            activity_bytes: 4 << 20,
        }
    }
}

/// What a verdict is about.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::Display,
    strum::EnumString,
)]
#[serde(rename_all = "camelCase")]
#[strum(serialize_all = "camelCase", ascii_case_insensitive)]
pub enum Kind {
    /// A pod, as `namespace/name`.
    Pod,
    /// A node.
    Node,
    /// A pool.
    Pool,
    /// A machine, by the name of its object.
    Machine,
}

/// A pod, node, pool or machine by name.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct Subject {
    /// What it is.
    pub kind: Kind,
    /// Its name; of a pod `namespace/name`.
    #[schemars(with = "String")]
    pub name: Name,
}

impl Subject {
    /// A subject by name.
    pub fn new(kind: Kind, name: impl Into<Name>) -> Self {
        Subject {
            kind,
            name: name.into(),
        }
    }
}

/// A verdict, and how long it has stood.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Said {
    /// When it was reached first.
    #[schemars(with = "String")]
    pub first: Timestamp,
    /// When it was reached last.
    #[schemars(with = "String")]
    pub last: Timestamp,
    /// How often in a row.
    pub times: u32,
    /// Number of the decision that reached it last, for replay; zero for events.
    #[serde(default)]
    pub decision: u64,
    /// The verdict; those that are equal share it.
    #[serde(flatten)]
    #[schemars(with = "Verdict")]
    pub verdict: Arc<Verdict>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Happened {
    /// Position in the order of everything that happened.
    pub number: u64,
    /// When.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// To what.
    pub subject: Subject,
    /// The decision that it belongs to, if it was planned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<u64>,
    /// Whether it is a warning.
    pub warning: bool,
    /// Why, in a word.
    #[schemars(with = "String")]
    pub code: Name,
    /// What and why, in a sentence.
    pub sentence: String,
    /// What it cost an hour before, in dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<f64>,
    /// What it costs after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<f64>,
}

/// Which kind of decision.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::Display,
    strum::EnumString,
)]
#[serde(rename_all = "camelCase")]
#[strum(serialize_all = "camelCase", ascii_case_insensitive)]
pub enum Loop {
    /// Where pods go and what is bought.
    Provision,
    /// Which nodes go.
    Disrupt,
}

/// A decision that can be replayed.
#[derive(Clone, Debug)]
pub struct Decision {
    /// Its number: decisions are counted from one.
    pub number: u64,
    /// When it was made.
    pub at: Timestamp,
    /// What was to be decided.
    pub problem: Arc<Problem>,
    /// What was decided.
    pub plan: Arc<Plan>,
}

/// The ledger.
#[derive(Debug)]
pub struct Decisions {
    bounds: Bounds,
    inner: Mutex<Inner>,
    changed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Inner {
    verdicts: Verdicts,
    activity: VecDeque<Happened>,
    activity_bytes: usize,
    happened: u64,
    decided: u64,
    last: BTreeMap<Loop, Decision>,
    /// Machines that there were at a moment: of others it need not be known for ever why they were bought.
    machines: Option<(Timestamp, Arc<BTreeMap<Name, Key>>)>,
}

impl Default for Decisions {
    fn default() -> Self {
        Self::new(Bounds::default())
    }
}

impl Decisions {
    /// An empty ledger.
    pub fn new(bounds: Bounds) -> Self {
        Decisions {
            bounds,
            inner: Mutex::default(),
            changed: watch::Sender::new(0),
        }
    }

    /// Counts changes: a receiver that waits for it sees each.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// The last verdicts about something, the newest first.
    pub fn verdicts(&self, subject: &Subject) -> Vec<Said> {
        self.lock().verdicts.about(subject).collect()
    }

    /// The last verdict about each of these, as far as there is one.
    pub fn latest<'s>(&self, subjects: impl Iterator<Item = &'s Subject>) -> Vec<Option<Said>> {
        let inner = self.lock();
        let last = |subject: &'s Subject| inner.verdicts.about(subject).next();
        subjects.map(last).collect()
    }

    /// Why a machine was bought.
    pub fn purchase(&self, machine: &str) -> Option<Said> {
        let subject = Subject::new(Kind::Machine, machine);
        let inner = self.lock();
        let mut all = inner.verdicts.about(&subject);
        all.find(|one| one.verdict.outcome == Outcome::Bought)
    }

    /// What happened after `since`, the newest first, at most so many.
    pub fn activity(&self, since: u64, most: usize) -> Vec<Happened> {
        let inner = self.lock();
        let newer = inner.activity.iter().rev();
        let newer = newer.take_while(|one| one.number > since);
        newer.take(most).cloned().collect()
    }

    /// The last decision of a kind.
    pub fn last(&self, kind: Loop) -> Option<Decision> {
        self.lock().last.get(&kind).cloned()
    }

    /// How many subjects have verdicts.
    pub fn len(&self) -> usize {
        self.lock().verdicts.len()
    }

    /// How much memory verdicts and activity take.
    pub fn bytes(&self) -> usize {
        let inner = self.lock();
        inner.verdicts.bytes() + inner.activity_bytes
    }

    /// Whether nothing was decided yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Users were told something about an object.
    pub fn told(
        &self,
        subject: Subject,
        severity: Severity,
        reason: &str,
        message: &str,
        now: Timestamp,
    ) {
        if UNTOLD.contains(&reason) {
            return;
        }
        let mut inner = self.lock();
        let warning = severity == Severity::Warning;
        let known = inner.activity.iter().rev().take(64);
        let repeats = |one: &Happened| {
            one.subject == subject && *one.code == *reason && one.sentence == message
        };
        if known.into_iter().any(repeats) {
            return;
        }
        let verdict = Verdict::told(reason, message);
        inner.say(&self.bounds, [subject.clone()], verdict, 0, now);
        let happened = Happened {
            number: 0,
            at: now,
            subject,
            decision: None,
            warning,
            code: reason.into(),
            sentence: message.to_owned(),
            before: None,
            after: None,
        };
        inner.happen(&self.bounds, happened);
        drop(inner);
        self.changed.send_modify(|count| *count += 1);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Writes down a verdict. The same once more only counts. Returns how many subjects it is news for.
    fn say(
        &mut self,
        bounds: &Bounds,
        subjects: impl IntoIterator<Item = Subject>,
        verdict: Verdict,
        decision: u64,
        now: Timestamp,
    ) -> usize {
        let most = bounds.verdicts;
        let news = self.verdicts.say(most, subjects, verdict, decision, now);
        if self.verdicts.bytes() > bounds.bytes {
            self.shrink(bounds.bytes - bounds.bytes / 8);
        }
        news
    }

    fn shrink(&mut self, bytes: usize) {
        let known = self.machines.as_ref();
        let names = known.map(|(at, all)| {
            let names: BTreeSet<&Name> = all.values().map(|key| &key.name).collect();
            (*at, names)
        });
        self.verdicts.shrink(bytes, |subject, last| match &names {
            // One that was bought after they were counted is none of them.
            Some((at, names)) => last >= *at || names.contains(&subject.name),
            None => true,
        });
    }

    fn happen(&mut self, bounds: &Bounds, mut happened: Happened) {
        self.happened += 1;
        happened.number = self.happened;
        self.activity_bytes += size::happened(&happened);
        self.activity.push_back(happened);
        while self.activity.len() > bounds.activity || self.activity_bytes > bounds.activity_bytes {
            let Some(gone) = self.activity.pop_front() else {
                break;
            };
            self.activity_bytes -= size::happened(&gone);
        }
    }
}

#[cfg(test)]
mod tests;
