//! What was logged last: the same again is no news.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use joiner_core::name::Name;

/// What was said last about something that lasts.
#[derive(Debug, Default)]
pub struct LastLogged(Mutex<String>);

impl LastLogged {
    /// Whether there is something to say, and it is not what was said last. Nothing to say makes everything news.
    pub fn news(&self, count: usize, words: Option<&str>) -> bool {
        let now = if count == 0 {
            String::new()
        } else {
            format!("{count} {}", words.unwrap_or_default())
        };
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if *last == now {
            return false;
        }
        *last = now;
        count > 0
    }
}

/// What was said last about what.
#[derive(Debug, Default)]
pub struct LastLogs {
    /// Pods that could not be placed.
    pub unplaced: LastLogged,
    /// What would be launched if anything were changed.
    pub launches: LastLogged,
    /// What would be removed if anything were changed.
    pub removals: LastLogged,
    /// Which pools of fixed size would be brought to it if anything were changed.
    pub sizes: LastLogged,
    limits: Mutex<BTreeMap<Name, String>>,
}

impl LastLogs {
    /// Which limit of which pool kept pods from their place in the last plan.
    pub fn limits(&self, reached: BTreeMap<Name, String>) {
        *self.limits.lock().unwrap_or_else(PoisonError::into_inner) = reached;
    }

    /// The limit of a pool that kept pods from their place in the last plan.
    pub fn limit(&self, pool: &Name) -> Option<String> {
        let limits = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        limits.get(pool).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_no_news_until_it_was_over() {
        let said = LastLogged::default();
        assert!(said.news(3, Some("limit")));
        assert!(!said.news(3, Some("limit")));
        assert!(said.news(4, Some("limit")));
        assert!(!said.news(0, None));
        assert!(said.news(4, Some("limit")));
    }
}
