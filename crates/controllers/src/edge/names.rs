//! Names for machines: short, unique, and the same for the same seed.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use joiner_core::name::Name;
use sha2::{Digest as _, Sha256};

/// Without vowels and look-alikes, as Kubernetes makes its own.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// The longest prefix: what is made of a name (hostnames, labels) ends at 63 characters.
const LONGEST: usize = 50;

/// The first eight bytes of a digest of `text`, as hexadecimal digits.
pub fn digest(text: &str) -> String {
    let digest = Sha256::digest(text);
    digest.iter().take(8).fold(String::new(), |mut all, byte| {
        // Writing to a string cannot fail.
        let _ = write!(all, "{byte:02x}");
        all
    })
}

/// Makes names.
#[derive(Debug)]
pub struct Names {
    seed: u64,
    made: AtomicU64,
}

impl Names {
    /// Names that differ between processes by seed and between moments by time.
    pub fn new(seed: u64) -> Self {
        Names {
            seed,
            made: AtomicU64::new(0),
        }
    }

    /// `prefix-xxxxx`.
    pub fn next(&self, prefix: &str, now: Timestamp) -> Name {
        let count = self.made.fetch_add(1, Ordering::Relaxed);
        let digest = Sha256::digest(format!("{} {count} {now} {prefix}", self.seed));
        let suffix = digest.iter().take(6).map(|byte| {
            let at = usize::from(*byte) % ALPHABET.len();
            char::from(ALPHABET.get(at).copied().unwrap_or(b'x'))
        });
        let mut name: String = prefix.chars().take(LONGEST).collect();
        name.push('-');
        name.extend(suffix);
        name.into()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_differ_and_fit_a_label() {
        let names = Names::new(7);
        let long = "p".repeat(80);
        let made: BTreeSet<Name> = (0..1000)
            .map(|_| names.next(&long, Timestamp::UNIX_EPOCH))
            .collect();
        assert_eq!(made.len(), 1000);
        assert!(made.iter().all(|name| name.len() <= 63));
        assert_eq!(
            Names::new(7).next("a", Timestamp::UNIX_EPOCH),
            Names::new(7).next("a", Timestamp::UNIX_EPOCH)
        );
    }
}
