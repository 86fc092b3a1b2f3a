//! Time, passed in: the system's in production, the world's own in simulation.
//!
//! Waiting always goes through `tokio::time`, so that a paused runtime decides how fast it passes.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

/// Says what time it is.
pub trait Clock: Send + Sync {
    /// Now, as objects in the cluster are stamped.
    fn now(&self) -> Timestamp;
}

/// The clock on the wall.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// Time since the machine was started, suspension included, as Linux tells it; `None` elsewhere.
pub fn since_boot() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/uptime").ok()?;
    let seconds: f64 = text.split_whitespace().next()?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// A clock that everybody shares.
pub type SharedClock = Arc<dyn Clock>;

/// How long from `now` until `then`; nothing if it has passed.
pub fn until(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or(Duration::ZERO)
}

/// How long ago `then` was; nothing if it is still to come.
pub fn since(now: Timestamp, then: Timestamp) -> Duration {
    until(then, now)
}

/// `time` and `duration` later; the end of time if that is later still.
pub fn after(time: Timestamp, duration: Duration) -> Timestamp {
    time.checked_add(duration).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_passed_is_no_time_away() {
        let at = |second| Timestamp::from_second(second).unwrap();
        assert_eq!(until(at(10), at(70)), Duration::from_mins(1));
        assert_eq!(until(at(70), at(10)), Duration::ZERO);
        assert_eq!(since(at(70), at(10)), Duration::from_mins(1));
        assert_eq!(
            after(Timestamp::MAX, Duration::from_secs(1)),
            Timestamp::MAX
        );
    }
}
