//! Whether the machines of a pool become nodes: the last four outcomes decide.
//!
//! karpenter: pkg/controllers/nodepool/registrationhealth

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use joiner_core::name::Name;

use crate::record::{Condition, Truth};

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

    /// Takes over what an earlier process found out, as the pool's condition has it; forgets what was found out about
    /// settings that have changed since.
    pub fn align(&self, pool: &Name, generation: i64, known: Option<&Condition>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match known {
            Some(known) if known.generation != generation => {
                all.remove(pool);
            }
            Some(known) if !all.contains_key(pool) => {
                let recent = match known.status {
                    Truth::True => vec![true],
                    Truth::False => vec![false; TROUBLE],
                    Truth::Unknown => return,
                };
                let outcomes = Outcomes {
                    recent: recent.into(),
                    said: known.message.clone(),
                };
                all.insert(pool.clone(), outcomes);
            }
            _ => {}
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
    fn what_a_condition_says_is_taken_over_until_the_settings_change() {
        let condition = |status, generation| Condition {
            kind: "NodeRegistrationHealthy".into(),
            status,
            reason: "Because".into(),
            message: "no boot".into(),
            since: jiff::Timestamp::UNIX_EPOCH,
            generation,
        };
        let health = Health::default();
        let pool: Name = "a".into();
        health.align(&pool, 1, Some(&condition(Truth::False, 1)));
        assert_eq!(health.of("a"), Some(Err("no boot".into())));
        health.record(&pool, Ok(()));
        assert_eq!(
            health.of("a"),
            Some(Err("no boot".into())),
            "one success is not enough"
        );
        health.align(&pool, 2, Some(&condition(Truth::False, 1)));
        assert_eq!(health.of("a"), None);
    }

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
