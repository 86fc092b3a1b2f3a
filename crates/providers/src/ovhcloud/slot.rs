//! Things that are read now and then.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::fleet::passed;
use crate::ProviderError;

/// How long a reading that failed is not tried again.
const READ_AGAIN: Duration = Duration::from_secs(20);

struct Known<T> {
    value: Arc<T>,
    at: Timestamp,
}

/// Something that is read now and then, and how the last attempt failed if it did: calls are too few to repeat it for each
/// machine that is asked about.
pub(super) struct Slot<T> {
    known: Option<Known<T>>,
    pub(super) failed: Option<(Timestamp, ProviderError)>,
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Slot {
            known: None,
            failed: None,
        }
    }
}

impl<T> Slot<T> {
    pub(super) fn value(&self) -> Option<Arc<T>> {
        self.known.as_ref().map(|known| Arc::clone(&known.value))
    }

    /// What is known and not older than `trust`.
    pub(super) fn fresh(&self, now: Timestamp, trust: Duration) -> Option<Arc<T>> {
        let known = self.known.as_ref()?;
        (passed(now, known.at) < trust).then(|| Arc::clone(&known.value))
    }

    /// Why it could not be read a moment ago.
    pub(super) fn held(&self, now: Timestamp) -> Option<&ProviderError> {
        let (at, error) = self.failed.as_ref()?;
        (passed(now, *at) < READ_AGAIN).then_some(error)
    }

    pub(super) fn keep(&mut self, value: T, now: Timestamp) -> Arc<T> {
        let value = Arc::new(value);
        self.failed = None;
        self.known = Some(Known {
            value: Arc::clone(&value),
            at: now,
        });
        value
    }
}
