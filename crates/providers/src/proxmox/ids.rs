//! Which number a machine gets.
//!
//! Proxmox reserves nothing: a number belongs to whoever makes a machine with it first. So each machine has an order
//! of its own in which it tries the numbers of the range, spread over all of it. Two that ask at once seldom want the
//! same number, a number that was just freed is seldom the next one handed out, and asked again the same machine tries
//! the same numbers.

use std::collections::BTreeSet;

use sha2::{Digest as _, Sha256};

use crate::Uid;

/// Numbers that machines may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdRange {
    /// The first.
    pub first: u32,
    /// The last.
    pub last: u32,
}

impl IdRange {
    /// Whether a number is in the range.
    pub fn contains(self, vmid: u32) -> bool {
        (self.first..=self.last).contains(&vmid)
    }

    /// How many numbers there are.
    pub fn len(self) -> u32 {
        (self.last + 1).saturating_sub(self.first)
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// All numbers in the order in which this machine tries them.
    pub fn order(self, uid: &Uid) -> impl Iterator<Item = u32> + use<> {
        let digest = Sha256::digest(uid.0.as_bytes());
        let part = |at: usize| {
            let octets = digest.iter().skip(at).take(4);
            octets.fold(0_u64, |sum, octet| sum << 8 | u64::from(*octet))
        };
        let count = u64::from(self.len());
        let start = part(0) % count.max(1);
        // Steps that have no divisor in common with the length visit every number once.
        let mut step = part(4) % count.max(1) + 1;
        while common_divisor(step, count) > 1 {
            step += 1;
        }
        let first = self.first;
        (0..count).map(move |turn| {
            let offset = (start + turn * step) % count.max(1);
            first + u32::try_from(offset).unwrap_or_default()
        })
    }

    /// The number to try next: free, and if possible not in use a moment ago.
    pub fn pick(self, uid: &Uid, taken: &BTreeSet<u32>, recent: &BTreeSet<u32>) -> Option<u32> {
        let free = || self.order(uid).filter(|id| !taken.contains(id));
        free()
            .find(|id| !recent.contains(id))
            .or_else(|| free().next())
    }
}

fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn uid(text: &str) -> Uid {
        Uid(text.into())
    }

    proptest! {
        #[test]
        fn every_number_comes_once(name in "[a-z0-9-]{1,36}", first in 100_u32..1000, count in 1_u32..400) {
            let range = IdRange { first, last: first + count - 1 };
            let order: Vec<u32> = range.order(&uid(&name)).collect();
            let all: BTreeSet<u32> = order.iter().copied().collect();
            prop_assert_eq!(order.len(), all.len());
            prop_assert_eq!(all, (range.first..=range.last).collect::<BTreeSet<u32>>());
        }
    }

    #[test]
    fn one_number_is_a_range_too() {
        let range = IdRange { first: 7, last: 7 };
        assert_eq!(
            range.pick(&uid("a"), &BTreeSet::new(), &BTreeSet::new()),
            Some(7)
        );
        assert_eq!(
            range.pick(&uid("a"), &BTreeSet::from([7]), &BTreeSet::new()),
            None
        );
    }

    #[test]
    fn what_was_just_freed_is_the_last_choice() {
        let range = IdRange {
            first: 100,
            last: 102,
        };
        let taken = BTreeSet::from([100]);
        let recent = BTreeSet::from([101]);
        assert_eq!(range.pick(&uid("a"), &taken, &recent), Some(102));
        let recent = BTreeSet::from([101, 102]);
        assert!(range.pick(&uid("a"), &taken, &recent).is_some());
    }

    #[test]
    fn machines_that_ask_at_once_seldom_want_the_same() {
        let range = IdRange {
            first: 1000,
            last: 1999,
        };
        let firsts: BTreeSet<u32> = (0..50)
            .filter_map(|n| range.order(&uid(&format!("machine-{n}"))).next())
            .collect();
        assert!(firsts.len() > 40, "{}", firsts.len());
    }
}
