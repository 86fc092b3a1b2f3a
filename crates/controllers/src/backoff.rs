//! What was sold out is left alone for a while, and a pool that keeps failing waits longer each time.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::name::Name;
use joiner_core::plan::Purchase;
use joiner_core::problem::{CapacityType, Catalog};

use crate::clock;

/// The first wait; stock of public clouds rarely comes back sooner.
const FIRST: Duration = Duration::from_mins(1);
/// The longest wait: within it the cheapest mix must be tried again after a market has changed.
const LONGEST: Duration = Duration::from_mins(15);
/// How long failures are remembered once the wait is over.
const MEMORY: Duration = Duration::from_mins(30);

/// What may be waited for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// One offering of a catalogue.
    Offering {
        /// Catalogue.
        catalog: Name,
        /// Instance type or range.
        instance_type: Name,
        /// Zone.
        zone: Name,
        /// How it is paid for.
        capacity_type: CapacityType,
        /// Host that it is cut from.
        host: Option<Name>,
    },
    /// A whole pool.
    Pool(Name),
}

impl Subject {
    /// The offering of a purchase.
    pub fn offering(purchase: &Purchase) -> Self {
        Subject::Offering {
            catalog: purchase.catalog.clone(),
            instance_type: purchase.instance_type.clone(),
            zone: purchase.zone.clone(),
            capacity_type: purchase.capacity_type,
            host: purchase.host.clone(),
        }
    }
}

#[derive(Clone, Debug)]
struct Entry {
    failures: u32,
    until: Timestamp,
    because: String,
}

/// What is waited for, and until when.
#[derive(Debug, Default)]
pub struct Backoffs(Mutex<BTreeMap<Subject, Entry>>);

impl Backoffs {
    /// It failed: wait longer than last time. Says until when.
    pub fn fail(&self, subject: Subject, because: &str, now: Timestamp) -> Timestamp {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, entry| clock::after(entry.until, MEMORY) > now);
        let entry = all.entry(subject).or_insert(Entry {
            failures: 0,
            until: now,
            because: String::new(),
        });
        // Failures of one burst are one failure: they were all sent before the first answer came.
        if entry.failures == 0 || entry.until <= now {
            let wait = FIRST
                .saturating_mul(1 << entry.failures.min(10))
                .min(LONGEST);
            entry.failures += 1;
            entry.until = clock::after(now, wait);
        }
        because.clone_into(&mut entry.because);
        entry.until
    }

    /// It worked.
    pub fn succeed(&self, subject: &Subject) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(subject);
    }

    /// Until when to leave it alone, and why.
    pub fn waiting(&self, subject: &Subject, now: Timestamp) -> Option<(Timestamp, String)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(subject)
            .filter(|entry| entry.until > now)
            .map(|entry| (entry.until, entry.because.clone()))
    }

    /// The next try of anything in a catalogue, and what is waited for.
    pub fn next(&self, catalog: &str, now: Timestamp) -> Option<(Timestamp, usize, String)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = || {
            all.iter().filter(|(subject, entry)| {
                entry.until > now
                    && matches!(subject, Subject::Offering { catalog: own, .. } if &**own == catalog)
            })
        };
        let (_, first) = mine().min_by_key(|(_, entry)| entry.until)?;
        Some((first.until, mine().count(), first.because.clone()))
    }

    /// Marks what is waited for as not for sale.
    pub fn close_offerings(&self, catalog: &mut Catalog, now: Timestamp) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (subject, entry) in all.iter() {
            let Subject::Offering {
                catalog: own,
                instance_type,
                zone,
                capacity_type,
                host,
            } = subject
            else {
                continue;
            };
            if *own != catalog.name || entry.until <= now {
                continue;
            }
            for one in catalog
                .types
                .iter_mut()
                .filter(|one| one.name == *instance_type)
            {
                for offering in &mut one.offerings {
                    if offering.zone == *zone && offering.capacity_type == *capacity_type {
                        offering.available = false;
                    }
                }
            }
            for range in catalog
                .ranges
                .iter_mut()
                .filter(|one| one.name == *instance_type)
            {
                range.hosts.retain(|one| Some(&one.name) != host.as_ref());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn waits_double_up_to_a_bound_and_a_burst_counts_once() {
        let backoffs = Backoffs::default();
        let pool = || Subject::Pool("a".into());
        assert_eq!(backoffs.fail(pool(), "sold out", at(0)), at(60));
        assert_eq!(backoffs.fail(pool(), "sold out", at(1)), at(60));
        assert_eq!(backoffs.fail(pool(), "sold out", at(60)), at(180));
        let mut now = at(180);
        for _ in 0..8 {
            now = backoffs.fail(pool(), "sold out", now);
        }
        let next = backoffs.fail(pool(), "sold out", now);
        assert_eq!(clock::until(now, next), LONGEST);
        assert!(backoffs.waiting(&pool(), now).is_some());
        backoffs.succeed(&pool());
        assert_eq!(backoffs.waiting(&pool(), now), None);
    }

    #[test]
    fn what_failed_long_ago_is_forgotten() {
        let backoffs = Backoffs::default();
        backoffs.fail(Subject::Pool("a".into()), "x", at(0));
        backoffs.fail(Subject::Pool("b".into()), "x", at(100_000));
        assert_eq!(backoffs.0.lock().unwrap().len(), 1);
    }
}
