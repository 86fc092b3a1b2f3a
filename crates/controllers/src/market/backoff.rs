//! What was sold out is left alone for a while, and a pool that keeps failing waits longer each time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::name::Name;
use joiner_core::plan::Purchase;
use joiner_core::problem::{CapacityType, Catalog};
use serde::{Deserialize, Serialize};

use crate::edge::clock;

/// The first wait; stock of public clouds rarely comes back sooner.
const FIRST: Duration = Duration::from_mins(1);
/// The longest wait: within it the cheapest mix must be tried again after a market has changed.
const LONGEST: Duration = Duration::from_mins(15);
/// How long failures are remembered once the wait is over.
const MEMORY: Duration = Duration::from_mins(30);
/// How many waits are written on a pool, and how many characters of each cause: annotations must stay small.
const NOTES: usize = 30;
const WORDS: usize = 120;

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

/// What is waited for, as it is written on a pool so that whoever takes over waits as long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Note {
    /// Which offering; without it, the whole pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offering: Option<OfferingNote>,
    /// When it is tried again.
    pub next_try: Timestamp,
    /// How often it failed in a row.
    pub failures: u32,
    /// What was said last.
    pub because: String,
}

/// One offering of a pool's catalogue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OfferingNote {
    /// Instance type or range.
    pub instance_type: Name,
    /// Zone.
    pub zone: Name,
    /// How it is paid for.
    pub capacity_type: CapacityType,
    /// Host that it is cut from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Name>,
}

#[derive(Clone, Debug)]
struct Entry {
    failures: u32,
    until: Timestamp,
    because: String,
}

/// What is waited for, and until when.
#[derive(Debug, Default)]
pub struct Backoffs(Mutex<BTreeMap<Subject, Entry>>, Mutex<BTreeSet<Name>>);

impl Backoffs {
    /// What a pool waits for, to be written on it: the soonest first, and not without end.
    pub fn notes(&self, pool: &Name, catalog: &Name, now: Timestamp) -> Vec<Note> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut notes: Vec<Note> = all
            .iter()
            .filter(|(_, entry)| entry.until > now)
            .filter_map(|(subject, entry)| {
                let offering = match subject {
                    Subject::Pool(own) if own == pool => None,
                    Subject::Offering {
                        catalog: own,
                        instance_type,
                        zone,
                        capacity_type,
                        host,
                    } if own == catalog => Some(OfferingNote {
                        instance_type: instance_type.clone(),
                        zone: zone.clone(),
                        capacity_type: *capacity_type,
                        host: host.clone(),
                    }),
                    _ => return None,
                };
                Some(Note {
                    offering,
                    next_try: entry.until,
                    failures: entry.failures,
                    because: entry.because.chars().take(WORDS).collect(),
                })
            })
            .collect();
        notes.sort_by_key(|one| one.next_try);
        notes.truncate(NOTES);
        notes
    }

    /// Takes over what an earlier process wrote on a pool, once for every pool. What cannot be read is not waited for.
    pub fn restore(&self, uid: &Name, pool: &Name, catalog: &Name, text: &str) {
        let mut seen = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        if !seen.insert(uid.clone()) {
            return;
        }
        let notes: Vec<Note> = serde_json::from_str(text).unwrap_or_default();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for note in notes {
            let subject = match note.offering {
                None => Subject::Pool(pool.clone()),
                Some(one) => Subject::Offering {
                    catalog: catalog.clone(),
                    instance_type: one.instance_type,
                    zone: one.zone,
                    capacity_type: one.capacity_type,
                    host: one.host,
                },
            };
            all.entry(subject).or_insert(Entry {
                failures: note.failures,
                until: note.next_try,
                because: note.because,
            });
        }
    }

    /// Forgets pools that are gone.
    pub fn retain(&self, keep_pool: impl Fn(&Name) -> bool, keep_uid: impl Fn(&Name) -> bool) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|subject, _| match subject {
            Subject::Pool(pool) => keep_pool(pool),
            Subject::Offering { .. } => true,
        });
        let mut seen = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(keep_uid);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether nothing is waited for.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

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

    /// It is known to be of no use, for the `times`th time: leave it alone accordingly. Says until when.
    pub fn hold(&self, subject: Subject, because: &str, now: Timestamp, times: u32) -> Timestamp {
        let wait = FIRST.saturating_mul(1 << times.min(10)).min(LONGEST);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = all.entry(subject).or_insert(Entry {
            failures: 0,
            until: now,
            because: String::new(),
        });
        if entry.until <= now {
            entry.until = clock::after(now, wait);
            entry.failures = times + 1;
            because.clone_into(&mut entry.because);
        }
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
    fn whoever_takes_over_waits_as_long_and_knows_how_often_it_failed() {
        let (pool, catalog): (Name, Name) = ("a".into(), "c".into());
        let offering = || Subject::Offering {
            catalog: "c".into(),
            instance_type: "m-4".into(),
            zone: "z1".into(),
            capacity_type: CapacityType::Spot,
            host: None,
        };
        let before = Backoffs::default();
        before.fail(offering(), "sold out", at(0));
        before.fail(offering(), "sold out", at(60));
        before.fail(Subject::Pool(pool.clone()), "never boots", at(60));
        let text = serde_json::to_string(&before.notes(&pool, &catalog, at(61))).unwrap();

        let after = Backoffs::default();
        after.restore(&"uid".into(), &pool, &catalog, &text);
        let wait = Some((at(180), "sold out".to_owned()));
        assert_eq!(after.waiting(&offering(), at(100)), wait);
        assert!(
            after
                .waiting(&Subject::Pool(pool.clone()), at(100))
                .is_some()
        );
        assert_eq!(after.fail(offering(), "sold out", at(180)), at(180 + 240));
        // What was waited for is over: the same note read again does not bring it back.
        after.succeed(&offering());
        after.restore(&"uid".into(), &pool, &catalog, &text);
        assert_eq!(after.waiting(&offering(), at(100)), None);
        assert!(before.notes(&pool, &catalog, at(900)).is_empty());
    }

    #[test]
    fn what_failed_long_ago_is_forgotten() {
        let backoffs = Backoffs::default();
        backoffs.fail(Subject::Pool("a".into()), "x", at(0));
        backoffs.fail(Subject::Pool("b".into()), "x", at(100_000));
        assert_eq!(backoffs.0.lock().unwrap().len(), 1);
    }
}
