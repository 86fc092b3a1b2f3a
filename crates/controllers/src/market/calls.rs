//! Limits on calls to a cloud. Classes that use one credential share them: a cloud counts by credential, not by class.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use joiner_core::name::Name;
use joiner_providers::ProviderError;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// How many calls may be under way at once.
const CONCURRENT: usize = 20;
/// The longest pause that one throttled answer can impose on all callers.
const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// The longest that one call to a cloud may take.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_mins(2);

/// The calls that are counted together.
#[derive(Debug)]
pub(crate) struct Calls {
    permits: Semaphore,
    resume: Mutex<Option<Instant>>,
}

impl Default for Calls {
    fn default() -> Self {
        Calls {
            permits: Semaphore::new(CONCURRENT),
            resume: Mutex::default(),
        }
    }
}

impl Calls {
    /// Makes a call, bounded in number and time. When the cloud throttles one caller, all pause.
    pub(crate) async fn call<T>(
        &self,
        call: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<T, ProviderError> {
        let _permit = self
            .permits
            .acquire()
            .await
            .map_err(|_| ProviderError::Transient("shutting down".into()))?;
        if let Some(left) = self.pause() {
            return Err(ProviderError::Throttled {
                message: "the cloud has asked for patience".into(),
                retry_after: Some(left),
            });
        }
        let answer = tokio::time::timeout(CALL_TIMEOUT, call)
            .await
            .unwrap_or_else(|_| Err(ProviderError::Transient("no answer from the cloud".into())));
        if let Err(error) = &answer {
            self.heed(error);
        }
        answer
    }

    /// Pauses everybody if the cloud asked for that.
    pub(crate) fn heed(&self, error: &ProviderError) {
        if let ProviderError::Throttled {
            retry_after: Some(wait),
            ..
        } = error
        {
            let until = Instant::now() + (*wait).min(LONGEST_PAUSE);
            let mut resume = self.resume.lock().unwrap_or_else(PoisonError::into_inner);
            *resume = Some(resume.map_or(until, |known| known.max(until)));
        }
    }

    /// For how long the cloud is to be left alone.
    fn pause(&self) -> Option<Duration> {
        let resume = self.resume.lock().unwrap_or_else(PoisonError::into_inner);
        let left = resume.as_ref()?.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }
}

/// The limits by credential, for as long as a class uses them.
#[derive(Debug, Default)]
pub(crate) struct SharedCalls(Mutex<BTreeMap<Name, Weak<Calls>>>);

impl SharedCalls {
    /// The limits of a credential; without one, limits of its own.
    pub(crate) fn of(&self, credential: Option<Name>) -> Arc<Calls> {
        let Some(credential) = credential else {
            return Arc::default();
        };
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shared.retain(|_, calls| calls.strong_count() > 0);
        if let Some(calls) = shared.get(&credential).and_then(Weak::upgrade) {
            return calls;
        }
        let calls: Arc<Calls> = Arc::default();
        shared.insert(credential, Arc::downgrade(&calls));
        calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn classes_with_one_credential_pause_together() {
        let shared = SharedCalls::default();
        let (one, other) = (shared.of(Some("key".into())), shared.of(Some("key".into())));
        let (stranger, own) = (shared.of(Some("another key".into())), shared.of(None));
        let throttled = ProviderError::Throttled {
            message: "slow down".into(),
            retry_after: Some(Duration::from_secs(30)),
        };
        one.call(async { Err::<(), _>(throttled) })
            .await
            .unwrap_err();
        assert_eq!(
            other.call(async { Ok(()) }).await.unwrap_err().kind(),
            "throttled"
        );
        assert_eq!(stranger.call(async { Ok(()) }).await, Ok(()));
        assert_eq!(own.call(async { Ok(()) }).await, Ok(()));
        tokio::time::sleep(Duration::from_secs(31)).await;
        assert_eq!(other.call(async { Ok(()) }).await, Ok(()));
    }
}
