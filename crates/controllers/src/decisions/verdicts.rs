//! Verdicts by subject, within so many bytes. Equal verdicts are stored once, whatever they are about.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use jiff::Timestamp;

use super::{Kind, Outcome, Said, Subject, Verdict, size};

/// A verdict, and how many entries have it.
#[derive(Debug)]
struct Shared {
    verdict: Arc<Verdict>,
    holders: u32,
    bytes: usize,
}

/// All verdicts, by a digest of what they say.
#[derive(Debug, Default)]
struct Sharing {
    all: BTreeMap<u64, Shared>,
    bytes: usize,
}

impl Sharing {
    /// Where a verdict is, for one more holder.
    fn share(&mut self, verdict: Verdict) -> u64 {
        let mut key = digest(&verdict);
        // Another verdict may have the same digest.
        while let Some(known) = self.all.get_mut(&key) {
            if *known.verdict == verdict {
                known.holders += 1;
                return key;
            }
            key = key.wrapping_add(1);
        }
        let bytes = size::row::<u64, Shared>() + size::verdict(&verdict);
        self.bytes += bytes;
        let shared = Shared {
            verdict: Arc::new(verdict),
            holders: 1,
            bytes,
        };
        self.all.insert(key, shared);
        key
    }

    fn hold(&mut self, key: u64) {
        if let Some(known) = self.all.get_mut(&key) {
            known.holders += 1;
        }
    }

    fn release(&mut self, key: u64) {
        let Some(known) = self.all.get_mut(&key) else {
            return;
        };
        known.holders -= 1;
        if known.holders == 0 {
            self.bytes -= known.bytes;
            self.all.remove(&key);
        }
    }

    fn same(&self, a: u64, b: u64) -> bool {
        a == b
            || match (self.all.get(&a), self.all.get(&b)) {
                (Some(a), Some(b)) => a.verdict.same(&b.verdict),
                _ => false,
            }
    }
}

/// A verdict about a subject.
#[derive(Debug)]
struct Entry {
    first: Timestamp,
    last: Timestamp,
    times: u32,
    /// Whether it says why a machine was bought.
    bought: bool,
    decision: u64,
    key: u64,
}

/// Verdicts by subject, the oldest of each first.
#[derive(Debug, Default)]
pub(super) struct Verdicts {
    subjects: BTreeMap<Subject, Vec<Entry>>,
    sharing: Sharing,
    bytes: usize,
}

impl Verdicts {
    /// How many subjects there are.
    pub(super) fn len(&self) -> usize {
        self.subjects.len()
    }

    /// How much memory they take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.sharing.bytes
    }

    /// What was said about something, the newest first.
    pub(super) fn about(&self, subject: &Subject) -> impl Iterator<Item = Said> {
        let known = self.subjects.get(subject).into_iter().flatten().rev();
        known.filter_map(|entry| self.said(entry))
    }

    fn said(&self, entry: &Entry) -> Option<Said> {
        let shared = self.sharing.all.get(&entry.key)?;
        Some(Said {
            first: entry.first,
            last: entry.last,
            times: entry.times,
            decision: entry.decision,
            verdict: shared.verdict.clone(),
        })
    }

    /// Writes down a verdict about some subjects, of each of which at most so many are kept. The same once more only
    /// counts. Returns how many subjects it is news for.
    pub(super) fn say(
        &mut self,
        most: usize,
        subjects: impl IntoIterator<Item = Subject>,
        verdict: Verdict,
        decision: u64,
        now: Timestamp,
    ) -> usize {
        let bought = verdict.outcome == Outcome::Bought;
        let key = self.sharing.share(verdict);
        let mut news = 0;
        for subject in subjects {
            let entry = Entry {
                first: now,
                last: now,
                times: 1,
                bought: bought && subject.kind == Kind::Machine,
                decision,
                key,
            };
            news += usize::from(self.add(most, subject, entry));
        }
        self.sharing.release(key);
        news
    }

    /// Adds a verdict. Says whether it is another than the last one.
    fn add(&mut self, most: usize, subject: Subject, entry: Entry) -> bool {
        let sharing = &mut self.sharing;
        sharing.hold(entry.key);
        if !self.subjects.contains_key(&subject) {
            self.bytes += size::row::<Subject, Vec<Entry>>() + size::subject(&subject);
        }
        let known = self.subjects.entry(subject).or_default();
        if let Some(last) = known.last_mut()
            && sharing.same(last.key, entry.key)
        {
            sharing.release(last.key);
            last.last = entry.last;
            last.times = last.times.saturating_add(1);
            last.decision = entry.decision;
            last.key = entry.key;
            return false;
        }
        self.bytes -= entries(known);
        // Most subjects hear one verdict and no other.
        known.reserve_exact(1);
        known.push(entry);
        while known.len() > most.max(1) {
            let spare = (0..known.len()).find(|at| !purchase(known, *at));
            let gone = known.remove(spare.unwrap_or_default());
            sharing.release(gone.key);
        }
        self.bytes += entries(known);
        true
    }

    /// Forgets what was not said for longest, until no more than so many bytes are left. Why a machine was bought is
    /// forgotten like the rest once the machine is gone, and before that only if nothing else is left.
    pub(super) fn shrink(&mut self, bytes: usize, lives: impl Fn(&Subject, Timestamp) -> bool) {
        for purchases in [false, true] {
            while self.bytes() > bytes {
                if !self.forget(|known, at, subject| {
                    purchases || !purchase(known, at) || !lives(subject, known[at].last)
                }) {
                    break;
                }
            }
        }
    }

    /// Forgets the oldest eighth of what may be forgotten. Says whether there was anything.
    fn forget(&mut self, may: impl Fn(&[Entry], usize, &Subject) -> bool) -> bool {
        let mut spare: Vec<(Timestamp, usize)> = Vec::new();
        let mut number = 0;
        for (subject, known) in &self.subjects {
            for (at, entry) in known.iter().enumerate() {
                if may(known, at, subject) {
                    spare.push((entry.last, number + at));
                }
            }
            number += known.len();
        }
        if spare.is_empty() {
            return false;
        }
        let eighth = spare.len() / 8;
        let (_, oldest, _) = spare.select_nth_unstable(eighth);
        let oldest = *oldest;
        let (mut number, mut bytes) = (0, self.bytes);
        let sharing = &mut self.sharing;
        self.subjects.retain(|subject, known| {
            let before = entries(known);
            let goes: Vec<bool> = (0..known.len())
                .map(|at| may(known, at, subject) && (known[at].last, number + at) <= oldest)
                .collect();
            number += known.len();
            if !goes.contains(&true) {
                return true;
            }
            let mut goes = goes.into_iter();
            known.retain(|entry| {
                let goes = goes.next().unwrap_or_default();
                if goes {
                    sharing.release(entry.key);
                }
                !goes
            });
            known.shrink_to_fit();
            bytes -= before - entries(known);
            if known.is_empty() {
                bytes -= size::row::<Subject, Vec<Entry>>() + size::subject(subject);
            }
            !known.is_empty()
        });
        self.bytes = bytes;
        true
    }
}

/// What the entries of a subject take.
fn entries(known: &Vec<Entry>) -> usize {
    size::block(known.capacity() * size_of::<Entry>())
}

/// Whether this is the last that says why a machine was bought.
fn purchase(known: &[Entry], at: usize) -> bool {
    known[at].bought && !known[at + 1..].iter().any(|later| later.bought)
}

/// A digest of what a verdict says: equal ones have the same, and others hardly ever.
fn digest(verdict: &Verdict) -> u64 {
    let mut hasher = DefaultHasher::new();
    let Verdict {
        outcome,
        code,
        sentence,
        evidence,
        remedies,
    } = verdict;
    (outcome, code, sentence, remedies).hash(&mut hasher);
    for pool in &evidence.pools {
        let counts = [pool.types, pool.allowed, pool.offered, pool.large_enough];
        (&pool.pool, &pool.code, &pool.sentence, counts).hash(&mut hasher);
    }
    let dollars = [
        evidence.before,
        evidence.after,
        evidence.rejected.as_ref().map(|one| one.price),
    ];
    (
        &evidence.place,
        &evidence.pool,
        dollars.map(|one| one.map(f64::to_bits)),
    )
        .hash(&mut hasher);
    (evidence.considered, evidence.pods, evidence.until).hash(&mut hasher);
    hasher.finish()
}
