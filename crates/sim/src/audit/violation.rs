//! What must never have happened.

use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

/// How many lines of history a violation carries.
pub(super) const HISTORY: usize = 40;

/// What must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Invariant {
    /// One machine object never has two machines.
    OneMachine,
    /// What others own is never touched.
    Foreign,
    /// A machine object goes only after its machine.
    MachineFirst,
    /// No pool exceeds its limits.
    Limits,
    /// No more nodes are disrupted at once than the pool's budgets allow.
    Budgets,
    /// Pods leave by eviction, within their disruption budgets.
    Evictions,
    /// Pods that must not be disrupted are not.
    Protected,
    /// Nodes go only when what replaces them is in use.
    ReplacementsFirst,
    /// No machine is stopped under pods that run.
    Drained,
    /// Nothing panics.
    NoPanic,
    /// Nobody works in circles.
    TimePasses,
    /// Only what is Joiner's to write is written.
    OwnFields,
    /// What is Joiner's bears its mark, and no other's.
    Marked,
    /// At rest nothing is written.
    Rest,
    /// Pods are bound where their hard rules allow.
    Placed,
    /// Pods that were promised a node run.
    Promised,
    /// Every pod that can run runs.
    PodsRun,
    /// Machines, machine objects and nodes belong together.
    NothingLeaked,
    /// What is to go goes.
    DeletionsEnd,
    /// No mark of a disruption is left behind.
    MarksRemoved,
}

impl Invariant {
    /// All of them.
    pub const ALL: [Invariant; 20] = [
        Invariant::OneMachine,
        Invariant::Foreign,
        Invariant::MachineFirst,
        Invariant::Limits,
        Invariant::Budgets,
        Invariant::Evictions,
        Invariant::Protected,
        Invariant::ReplacementsFirst,
        Invariant::Drained,
        Invariant::NoPanic,
        Invariant::TimePasses,
        Invariant::OwnFields,
        Invariant::Marked,
        Invariant::Rest,
        Invariant::Placed,
        Invariant::Promised,
        Invariant::PodsRun,
        Invariant::NothingLeaked,
        Invariant::DeletionsEnd,
        Invariant::MarksRemoved,
    ];

    /// Its sentence.
    pub fn sentence(self) -> &'static str {
        match self {
            Invariant::OneMachine => "one machine object never has two machines",
            Invariant::Foreign => "what others own is never touched",
            Invariant::MachineFirst => "a machine object goes only after its machine",
            Invariant::Limits => "no pool exceeds its limits",
            Invariant::Budgets => "no more nodes are disrupted at once than budgets allow",
            Invariant::Evictions => "pods leave by eviction, within their disruption budgets",
            Invariant::Protected => "pods that must not be disrupted are not",
            Invariant::ReplacementsFirst => "nodes go only when what replaces them is in use",
            Invariant::Drained => "no machine is stopped under pods that run",
            Invariant::NoPanic => "nothing panics",
            Invariant::TimePasses => "nobody works in circles",
            Invariant::OwnFields => "only what is Joiner's to write is written",
            Invariant::Marked => "what is Joiner's bears its mark, and no other's",
            Invariant::Rest => "at rest nothing is written",
            Invariant::Placed => "pods are bound where their hard rules allow",
            Invariant::Promised => "pods that were promised a node run",
            Invariant::PodsRun => "every pod that can run runs",
            Invariant::NothingLeaked => "machines, machine objects and nodes belong together",
            Invariant::DeletionsEnd => "what is to go goes",
            Invariant::MarksRemoved => "no mark of a disruption is left behind",
        }
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sentence())
    }
}

/// Something that must never have happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// When it was seen.
    pub at: Timestamp,
    /// What did not hold.
    pub invariant: Invariant,
    /// What happened instead.
    pub message: String,
    /// The last lines about everything that it concerns, oldest first.
    pub history: Vec<String>,
}
