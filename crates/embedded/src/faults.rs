//! Faults of the wire between a client and the embedded API server.
//!
//! A [`FaultPlan`] is consulted once for every HTTP request (never for the in-process interface)
//! and answers with a [`Fault`]: rules first, in order, then the seeded dice. The same seed and the
//! same sequence of requests meet the same faults.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::api::Verb;

/// What goes wrong with one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// It arrives late.
    Delay(Duration),
    /// The connection breaks before the server sees it.
    DropRequest,
    /// The server does it, and the connection breaks before the answer.
    DropResponse,
    /// It arrives twice; the client sees the second answer.
    Duplicate,
    /// The server answers with an error and does nothing.
    ErrorBefore(u16),
    /// The server does it, and answers with an error.
    ErrorAfter(u16),
    /// A read shows the state of this many versions ago, as far as history reaches.
    StaleRead(u64),
    /// A watch ends after this long, without a word.
    CutWatch(Duration),
}

/// What the plan may look at.
#[derive(Debug, Clone)]
pub struct RequestInfo {
    /// What it does.
    pub verb: Verb,
    /// `pods`, `deployments.apps`.
    pub resource: String,
    /// Such as `status`; empty for the object itself.
    pub subresource: String,
    /// Namespace, or empty.
    pub namespace: String,
    /// Name, or empty.
    pub name: String,
    /// Who asks.
    pub user_agent: String,
}

/// A fault for requests that match. Empty conditions match everything.
#[derive(Debug, Clone, Default)]
pub struct Rule {
    /// Only this verb.
    pub verb: Option<Verb>,
    /// Only this resource.
    pub resource: Option<String>,
    /// Only this name.
    pub name: Option<String>,
    /// Only user agents that begin so.
    pub user_agent: Option<String>,
    /// How many requests to let pass before.
    pub skip: u32,
    /// How many requests to hit; `None` is all of them.
    pub times: Option<u32>,
    /// What goes wrong.
    pub fault: Fault,
}

impl Rule {
    fn matches(&self, request: &RequestInfo) -> bool {
        self.verb.is_none_or(|verb| verb == request.verb)
            && self
                .resource
                .as_ref()
                .is_none_or(|one| *one == request.resource)
            && self.name.as_ref().is_none_or(|one| *one == request.name)
            && self
                .user_agent
                .as_ref()
                .is_none_or(|one| request.user_agent.starts_with(one))
    }
}

/// How often each fault happens by chance, each from 0 to 1.
#[derive(Debug, Clone, Copy, Default)]
pub struct Chances {
    /// Of [`Fault::Delay`], up to `longest_delay`.
    pub delay: f64,
    /// Of [`Fault::DropRequest`] and [`Fault::DropResponse`], half each.
    pub drop: f64,
    /// Of [`Fault::Duplicate`].
    pub duplicate: f64,
    /// Of [`Fault::ErrorBefore`].
    pub error_before: f64,
    /// Of [`Fault::ErrorAfter`].
    pub error_after: f64,
    /// Of [`Fault::StaleRead`].
    pub stale_read: f64,
    /// Of [`Fault::CutWatch`], within `longest_watch`.
    pub cut_watch: f64,
    /// The longest delay.
    pub longest_delay: Duration,
    /// The longest life of a watch that is cut.
    pub longest_watch: Duration,
}

impl Chances {
    /// A rough network: something goes wrong with about one request in eight.
    pub fn rough() -> Self {
        Self {
            delay: 0.04,
            drop: 0.02,
            duplicate: 0.02,
            error_before: 0.02,
            error_after: 0.02,
            stale_read: 0.02,
            cut_watch: 0.3,
            longest_delay: Duration::from_secs(5),
            longest_watch: Duration::from_mins(2),
        }
    }
}

#[derive(Debug)]
struct Inner {
    rules: Vec<Rule>,
    chances: Chances,
    dice: ChaCha8Rng,
    met: u64,
}

/// The faults of one server. Cheap to clone; clones are the same plan. Starts without faults.
#[derive(Debug, Clone)]
pub struct FaultPlan {
    inner: Arc<Mutex<Inner>>,
}

impl FaultPlan {
    pub(crate) fn new(seed: u64) -> Self {
        let dice = crate::api::random_stream(seed, 3);
        let inner = Inner {
            rules: Vec::new(),
            chances: Chances::default(),
            dice,
            met: 0,
        };
        Self {
            inner: Arc::new(Mutex::new(inner)),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a rule after the others.
    pub fn rule(&self, rule: Rule) {
        self.lock().rules.push(rule);
    }

    /// Sets the chances; rules come first.
    pub fn chances(&self, chances: Chances) {
        self.lock().chances = chances;
    }

    /// No more faults.
    pub fn clear(&self) {
        let mut inner = self.lock();
        inner.rules.clear();
        inner.chances = Chances::default();
    }

    /// How many faults have happened.
    pub fn met(&self) -> u64 {
        self.lock().met
    }

    /// What goes wrong with a request.
    pub(crate) fn decide(&self, request: &RequestInfo) -> Fault {
        let mut inner = self.lock();
        let fault = inner
            .rule_for(request)
            .unwrap_or_else(|| inner.roll(request));
        if fault != Fault::None {
            inner.met += 1;
        }
        fault
    }
}

impl Inner {
    fn rule_for(&mut self, request: &RequestInfo) -> Option<Fault> {
        for rule in self.rules.iter_mut().filter(|rule| rule.matches(request)) {
            if rule.skip > 0 {
                rule.skip -= 1;
                continue;
            }
            match &mut rule.times {
                Some(0) => {}
                Some(times) => {
                    *times -= 1;
                    return Some(rule.fault);
                }
                None => return Some(rule.fault),
            }
        }
        None
    }

    /// One roll decides which fault, more rolls decide how much of it.
    fn roll(&mut self, request: &RequestInfo) -> Fault {
        let chances = self.chances;
        let mut roll: f64 = self.dice.random();
        let mut hit = |chance: f64| {
            let hit = roll < chance;
            roll -= chance;
            hit
        };
        if request.verb == Verb::Watch && hit(chances.cut_watch) {
            return Fault::CutWatch(self.some_of(chances.longest_watch));
        }
        if hit(chances.delay) {
            return Fault::Delay(self.some_of(chances.longest_delay));
        }
        if hit(chances.drop) {
            return if self.dice.random() {
                Fault::DropRequest
            } else {
                Fault::DropResponse
            };
        }
        if request.verb.writes() && hit(chances.duplicate) {
            return Fault::Duplicate;
        }
        if hit(chances.error_before) {
            return Fault::ErrorBefore(self.some_code());
        }
        if request.verb.writes() && hit(chances.error_after) {
            return Fault::ErrorAfter(self.some_code());
        }
        if matches!(request.verb, Verb::Get | Verb::List) && hit(chances.stale_read) {
            return Fault::StaleRead(self.dice.random_range(1..20));
        }
        Fault::None
    }

    fn some_of(&mut self, longest: Duration) -> Duration {
        // Whole milliseconds, so that virtual timers stay exact.
        let millis = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(self.dice.random_range(0..=millis))
    }

    fn some_code(&mut self) -> u16 {
        [500, 503, 504, 429][self.dice.random_range(0..4)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(verb: Verb, resource: &str) -> RequestInfo {
        RequestInfo {
            verb,
            resource: resource.to_owned(),
            subresource: String::new(),
            namespace: String::new(),
            name: String::new(),
            user_agent: "tests/1".to_owned(),
        }
    }

    #[test]
    fn a_plan_without_rules_and_chances_lets_everything_pass() {
        let plan = FaultPlan::new(1);
        assert_eq!(plan.decide(&request(Verb::Get, "pods")), Fault::None);
        assert_eq!(plan.met(), 0);
    }

    #[test]
    fn rules_hit_what_they_name_as_often_as_they_say() {
        let plan = FaultPlan::new(1);
        plan.rule(Rule {
            verb: Some(Verb::Create),
            resource: Some("pods".to_owned()),
            skip: 1,
            times: Some(1),
            fault: Fault::ErrorAfter(500),
            ..Rule::default()
        });
        let create = request(Verb::Create, "pods");
        assert_eq!(plan.decide(&request(Verb::Create, "nodes")), Fault::None);
        let met: Vec<Fault> = (0..3).map(|_| plan.decide(&create)).collect();
        assert_eq!(met, [Fault::None, Fault::ErrorAfter(500), Fault::None]);
    }

    #[test]
    fn the_same_seed_meets_the_same_faults() {
        let draw = |seed| {
            let plan = FaultPlan::new(seed);
            plan.chances(Chances::rough());
            let faults: Vec<Fault> = (0..200)
                .map(|_| plan.decide(&request(Verb::Update, "pods")))
                .collect();
            faults
        };
        assert_eq!(draw(5), draw(5));
        assert_ne!(draw(5), draw(6));
        assert!(
            draw(5)
                .iter()
                .filter(|fault| **fault != Fault::None)
                .count()
                > 5
        );
    }
}
