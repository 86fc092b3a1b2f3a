//! The one source of time in the simulated world.
//!
//! A [`Clock`] is a start timestamp plus what tokio's own clock says has passed since. On a runtime
//! with paused time it is a virtual clock that jumps from timer to timer; on an ordinary runtime
//! the same code runs on real time.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Tells the time of the simulated world. Cheap to clone; clones agree.
#[derive(Debug, Clone)]
pub struct Clock {
    start: Timestamp,
    origin: Instant,
}

impl Clock {
    /// A clock that shows `start` now. Call it inside the runtime whose time it follows.
    pub fn starting_at(start: Timestamp) -> Self {
        Self {
            start,
            origin: Instant::now(),
        }
    }

    /// A clock that starts at a fixed moment, for runs that must repeat byte for byte.
    pub fn virtual_time() -> Self {
        // 2026-01-01T00:00:00Z: a round number that no code takes for "unset".
        Self::starting_at(Timestamp::constant(1_767_225_600, 0))
    }

    /// A clock that starts at the machine's wall-clock time, for the demo.
    pub fn wall() -> Self {
        Self::starting_at(Timestamp::now())
    }

    /// The present moment.
    pub fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.elapsed()).unwrap_or(SignedDuration::MAX);
        self.start.checked_add(elapsed).unwrap_or(Timestamp::MAX)
    }

    /// How much time has passed since the clock was made.
    pub fn elapsed(&self) -> Duration {
        self.origin.elapsed()
    }

    /// The present moment as Kubernetes prints `metav1.Time`: whole seconds, UTC.
    pub fn rfc3339(&self) -> String {
        rfc3339(self.now())
    }

    /// The present moment as Kubernetes prints `metav1.MicroTime`.
    pub fn rfc3339_micros(&self) -> String {
        format!("{:.6}", self.now())
    }
}

/// A timestamp as Kubernetes prints `metav1.Time`: whole seconds, UTC.
pub fn rfc3339(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second())
        .unwrap_or(at)
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn virtual_clock_moves_only_with_tokio_time() {
        let clock = Clock::virtual_time();
        assert_eq!(clock.rfc3339(), "2026-01-01T00:00:00Z");
        tokio::time::sleep(Duration::from_secs(90)).await;
        assert_eq!(clock.rfc3339(), "2026-01-01T00:01:30Z");
        assert_eq!(clock.rfc3339_micros(), "2026-01-01T00:01:30.000000Z");
    }
}
