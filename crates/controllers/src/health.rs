//! Whether the machines of a pool become nodes: the last four outcomes decide.
//!
//! karpenter: pkg/controllers/nodepool/registrationhealth

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use joiner_core::name::Name;

/// How many outcomes are remembered, and how many failures among them mean trouble.
const REMEMBERED: usize = 4;
const TROUBLE: usize = 2;

#[derive(Debug, Default)]
struct Outcomes {
    recent: VecDeque<bool>,
    said: String,
}

/// Outcomes by pool.
#[derive(Debug, Default)]
pub struct Health(Mutex<BTreeMap<Name, Outcomes>>);

impl Health {
    /// A machine became a node, or did not and why.
    pub fn record(&self, pool: &Name, outcome: Result<(), &str>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let outcomes = all.entry(pool.clone()).or_default();
        outcomes.recent.push_back(outcome.is_ok());
        if outcomes.recent.len() > REMEMBERED {
            outcomes.recent.pop_front();
        }
        if let Err(said) = outcome {
            said.clone_into(&mut outcomes.said);
        }
    }

    /// `None` while nothing is known; otherwise whether all is well, or what was said last.
    pub fn of(&self, pool: &str) -> Option<Result<(), String>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let outcomes = all.get(pool)?;
        let failures = outcomes.recent.iter().filter(|well| !**well).count();
        if failures >= TROUBLE {
            return Some(Err(outcomes.said.clone()));
        }
        outcomes.recent.contains(&true).then_some(Ok(()))
    }

    /// Forgets pools that are gone.
    pub fn retain(&self, keep: impl Fn(&Name) -> bool) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|pool, _| keep(pool));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_failures_among_four_mean_trouble() {
        let health = Health::default();
        let pool: Name = "a".into();
        assert_eq!(health.of("a"), None);
        health.record(&pool, Err("no boot"));
        assert_eq!(health.of("a"), None);
        health.record(&pool, Ok(()));
        assert_eq!(health.of("a"), Some(Ok(())));
        health.record(&pool, Err("no network"));
        assert_eq!(health.of("a"), Some(Err("no network".into())));
        for _ in 0..3 {
            health.record(&pool, Ok(()));
        }
        assert_eq!(health.of("a"), Some(Ok(())));
    }
}
