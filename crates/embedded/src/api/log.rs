//! The event log: one line per committed change, and a running hash over all of them.
//!
//! Two runs with the same seed must write the same bytes; comparing two hashes tells.

use std::collections::VecDeque;

use jiff::Timestamp;
use sha2::{Digest, Sha256};

/// How many lines are kept for people to read. The hash covers all lines ever written.
const KEPT_LINES: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct EventLog {
    hasher: Sha256,
    tail: VecDeque<String>,
    written: u64,
}

impl EventLog {
    pub(crate) fn append(&mut self, rv: u64, verb: &str, resource: &str, key: &str, at: Timestamp) {
        let line = format!("{rv} {verb} {resource} {key} {at}");
        self.hasher.update(line.as_bytes());
        self.hasher.update(b"\n");
        self.written += 1;
        if self.tail.len() == KEPT_LINES {
            self.tail.pop_front();
        }
        self.tail.push_back(line);
    }

    /// Hex digest over every line so far.
    pub(crate) fn hash(&self) -> String {
        super::base64::hex(&self.hasher.clone().finalize())
    }

    /// The newest lines, oldest first.
    pub(crate) fn tail(&self) -> Vec<String> {
        self.tail.iter().cloned().collect()
    }

    pub(crate) fn len(&self) -> u64 {
        self.written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_depends_on_every_line_and_their_order() {
        let mut one = EventLog::default();
        let mut two = EventLog::default();
        one.append(1, "create", "pods", "a/b", Timestamp::UNIX_EPOCH);
        assert_ne!(one.hash(), two.hash());
        two.append(1, "create", "pods", "a/b", Timestamp::UNIX_EPOCH);
        assert_eq!(one.hash(), two.hash());
        one.append(2, "update", "pods", "a/b", Timestamp::UNIX_EPOCH);
        one.append(3, "delete", "pods", "a/b", Timestamp::UNIX_EPOCH);
        two.append(3, "delete", "pods", "a/b", Timestamp::UNIX_EPOCH);
        two.append(2, "update", "pods", "a/b", Timestamp::UNIX_EPOCH);
        assert_ne!(one.hash(), two.hash());
        assert_eq!(one.tail()[0], "1 create pods a/b 1970-01-01T00:00:00Z");
    }
}
