//! Conditions: one aspect of an object each, and since when it is so.
//!
//! karpenter: awslabs/operatorpkg, `status/condition_set.go`

use jiff::Timestamp;
use joiner_core::name::Name;

/// Types of conditions that the engine reads and writes.
pub mod kinds {
    /// The cloud has a machine.
    pub const LAUNCHED: &str = "Launched";
    /// The machine is a node.
    pub const REGISTERED: &str = "Registered";
    /// The node can be used.
    pub const INITIALIZED: &str = "Initialized";
    /// All of the above.
    pub const READY: &str = "Ready";
    /// The machine is not what its pool asks for any more.
    pub const DRIFTED: &str = "Drifted";
    /// The machine is to go, and why.
    pub const DISRUPTION_REASON: &str = "DisruptionReason";
    /// The node has been quiet for long enough to go if that saves money.
    pub const CONSOLIDATABLE: &str = "Consolidatable";
    /// The node has what was bought.
    pub const CONSISTENT_STATE_FOUND: &str = "ConsistentStateFound";
    /// No pod is left that has to go.
    pub const DRAINED: &str = "Drained";
    /// No volume is attached any more.
    pub const VOLUMES_DETACHED: &str = "VolumesDetached";
    /// The cloud was told to take the machine away.
    pub const INSTANCE_TERMINATING: &str = "InstanceTerminating";
    /// A pool's settings make sense.
    pub const VALIDATION_SUCCEEDED: &str = "ValidationSucceeded";
    /// A pool's node class can be used.
    pub const NODE_CLASS_READY: &str = "NodeClassReady";
    /// A limit of the pool keeps it from growing.
    pub const LIMIT_REACHED: &str = "LimitReached";
    /// A pool's machines become nodes.
    pub const NODE_REGISTRATION_HEALTHY: &str = "NodeRegistrationHealthy";
    /// A pool can buy everything that it would like to; names the next try where it cannot.
    pub const CAPACITY_AVAILABLE: &str = "CapacityAvailable";
    /// What a pool's cloud sells, and for how much, is known as of now; says since when it is not.
    pub const CATALOG_CURRENT: &str = "CatalogCurrent";

    /// A pool may grow: it is within its limits and its node class can be used. Not every family has it.
    pub const AVAILABLE: &str = "Available";
    /// A pool is growing or shrinking. Not every family has it.
    pub const PROGRESSING: &str = "Progressing";

    /// What a machine goes through, in order.
    pub const LIFECYCLE: [&str; 3] = [LAUNCHED, REGISTERED, INITIALIZED];
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, strum::Display, strum::EnumString)]
pub enum Truth {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// Not known yet.
    #[default]
    Unknown,
}

/// One aspect of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Type.
    pub kind: Name,
    /// Whether it holds.
    pub status: Truth,
    /// Why, in one word for programs.
    pub reason: Name,
    /// Why, in a sentence for people.
    pub message: String,
    /// When the status last changed.
    pub since: Timestamp,
    /// Generation of the object that this is about; zero if it was not said.
    pub generation: i64,
}

/// The conditions of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions(Vec<Condition>);

impl Conditions {
    /// The condition of a type.
    pub fn get(&self, kind: &str) -> Option<&Condition> {
        self.0.iter().find(|one| &*one.kind == kind)
    }

    /// Whether the condition holds.
    pub fn is_true(&self, kind: &str) -> bool {
        self.get(kind).is_some_and(|one| one.status == Truth::True)
    }

    /// Since when the condition holds.
    pub fn true_since(&self, kind: &str) -> Option<Timestamp> {
        self.get(kind)
            .filter(|one| one.status == Truth::True)
            .map(|one| one.since)
    }

    /// Sets a condition; the time moves only when the status does. Says whether anything changed.
    pub fn ensure(&mut self, mut new: Condition) -> bool {
        let Some(old) = self.0.iter_mut().find(|old| old.kind == new.kind) else {
            self.0.push(new);
            return true;
        };
        if old.status == new.status {
            new.since = old.since;
        }
        if *old == new {
            return false;
        }
        *old = new;
        true
    }

    /// Takes a condition away. Says whether it was there.
    pub fn ensure_absent(&mut self, kind: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|one| &*one.kind != kind);
        self.0.len() != before
    }

    /// Derives `Ready` from what it depends on: true when all of them are, for this generation. Says whether it changed.
    pub fn ensure_ready(&mut self, parts: &[&str], generation: i64, now: Timestamp) -> bool {
        let mut unhealthy = Vec::new();
        let mut waiting = Vec::new();
        for part in parts {
            match self.get(part) {
                Some(one) if one.status == Truth::False => unhealthy.push(format!("{part}=False")),
                Some(one) if one.status == Truth::True => {}
                _ => waiting.push(format!("{part}=Unknown")),
            }
        }
        let (status, reason, message) = match (unhealthy.is_empty(), waiting.is_empty()) {
            (true, true) => (Truth::True, "Ready", String::new()),
            (false, _) => (Truth::False, "UnhealthyDependents", unhealthy.join(", ")),
            (true, false) => (Truth::Unknown, "ReconcilingDependents", waiting.join(", ")),
        };
        self.ensure(Condition {
            kind: kinds::READY.into(),
            status,
            reason: reason.into(),
            message,
            since: now,
            generation,
        })
    }

    /// All of them, `Ready` last, the others by age.
    pub fn sorted(&self) -> Vec<&Condition> {
        let mut all: Vec<&Condition> = self.0.iter().collect();
        all.sort_by_key(|one| (&*one.kind == kinds::READY, one.since));
        all
    }
}

impl FromIterator<Condition> for Conditions {
    fn from_iter<I: IntoIterator<Item = Condition>>(all: I) -> Self {
        Conditions(all.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn condition(kind: &str, status: Truth, second: i64) -> Condition {
        Condition {
            kind: kind.into(),
            status,
            reason: "Because".into(),
            message: String::new(),
            since: at(second),
            generation: 1,
        }
    }

    #[test]
    fn time_moves_only_with_the_status() {
        let mut all = Conditions::default();
        assert!(all.ensure(condition("Launched", Truth::Unknown, 1)));
        assert!(!all.ensure(condition("Launched", Truth::Unknown, 2)));
        assert_eq!(all.get("Launched").unwrap().since, at(1));
        assert!(all.ensure(condition("Launched", Truth::True, 3)));
        assert_eq!(all.true_since("Launched"), Some(at(3)));
    }

    #[test]
    fn ready_is_the_and_of_its_parts() {
        let mut all = Conditions::default();
        all.ensure(condition("Launched", Truth::True, 1));
        all.ensure_ready(&["Launched", "Registered"], 1, at(2));
        let ready = all.get("Ready").unwrap().clone();
        assert_eq!(ready.status, Truth::Unknown);
        assert_eq!(ready.message, "Registered=Unknown");
        all.ensure(condition("Registered", Truth::False, 3));
        all.ensure_ready(&["Launched", "Registered"], 1, at(3));
        assert_eq!(&*all.get("Ready").unwrap().reason, "UnhealthyDependents");
        all.ensure(condition("Registered", Truth::True, 4));
        all.ensure_ready(&["Launched", "Registered"], 1, at(4));
        assert!(all.is_true("Ready"));
        assert_eq!(&*all.sorted().last().unwrap().kind, "Ready");
    }
}
