//! The limit on calls: sixty a minute for one consumer key, kept with room.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::ProviderError;

/// How many calls may be made in one go after a rest.
const BURST: f64 = 10.0;
/// How many calls a new process may make at once: the one before it may have made all that it could.
const FIRST: f64 = 4.0;
/// How many calls are regained each second: with the burst, at most 55 in any minute, and 59 in one in which the process
/// begins again.
const PER_SECOND: f64 = 0.75;
/// The longest that a call waits for its turn here instead of at the caller.
const PATIENCE: Duration = Duration::from_secs(45);

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    at: Option<Instant>,
}

/// Shared by everything that calls with one credential.
#[derive(Debug)]
pub struct Pace {
    bucket: Mutex<Bucket>,
}

impl Default for Pace {
    fn default() -> Self {
        Pace {
            bucket: Mutex::new(Bucket {
                tokens: FIRST,
                at: None,
            }),
        }
    }
}

impl Pace {
    /// Waits for the turn of one call. A wait that would be too long is handed to the caller instead.
    pub async fn turn(&self) -> Result<(), ProviderError> {
        let wait = {
            let mut bucket = self.bucket.lock().await;
            bucket.refill();
            let wait = (1.0 - bucket.tokens).max(0.0) / PER_SECOND;
            let wait = Duration::from_secs_f64(wait);
            if wait > PATIENCE {
                return Err(ProviderError::Throttled {
                    message: "the limit of 60 calls a minute to OVHcloud is used up; waiting"
                        .to_owned(),
                    retry_after: Some(wait),
                });
            }
            // The turn is taken now and may lie in the future: whoever comes next waits longer.
            bucket.tokens -= 1.0;
            wait
        };
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        Ok(())
    }

    /// How many calls could be made at once now: reads leave some for writes.
    pub async fn spare(&self) -> u32 {
        let mut bucket = self.bucket.lock().await;
        bucket.refill();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and the burst"
        )]
        let spare = bucket.tokens.clamp(0.0, BURST) as u32;
        spare
    }
}

impl Bucket {
    fn refill(&mut self) {
        let now = Instant::now();
        if let Some(at) = self.at {
            let gained = now.duration_since(at).as_secs_f64() * PER_SECOND;
            self.tokens = (self.tokens + gained).min(BURST);
        }
        self.at = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn no_minute_ever_sees_sixty_calls() {
        let pace = Pace::default();
        let mut made: Vec<Instant> = Vec::new();
        for _ in 0..300 {
            pace.turn().await.unwrap();
            made.push(Instant::now());
        }
        for (index, start) in made.iter().enumerate() {
            let end = *start + Duration::from_mins(1);
            let within = made[index..].iter().filter(|at| **at < end).count();
            assert!(within <= 56, "{within} calls within a minute");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_begins_again_does_not_break_the_limit() {
        for lived in [1, 20, 40, 59] {
            let mut made: Vec<Instant> = Vec::new();
            // A process that has rested has the whole burst.
            let pace = Pace::default();
            pace.turn().await.unwrap();
            tokio::time::sleep(Duration::from_mins(1)).await;
            let end = Instant::now() + Duration::from_secs(lived);
            while Instant::now() < end {
                pace.turn().await.unwrap();
                made.push(Instant::now());
            }
            let pace = Pace::default();
            for _ in 0..100 {
                pace.turn().await.unwrap();
                made.push(Instant::now());
            }
            for (index, start) in made.iter().enumerate() {
                let end = *start + Duration::from_mins(1);
                let within = made[index..].iter().filter(|at| **at < end).count();
                assert!(
                    within <= 60,
                    "{within} calls within a minute, restarted after {lived} s"
                );
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_crowd_is_told_to_come_back_later() {
        let pace = std::sync::Arc::new(Pace::default());
        let calls: Vec<_> = (0..100)
            .map(|_| {
                let pace = std::sync::Arc::clone(&pace);
                tokio::spawn(async move { pace.turn().await })
            })
            .collect();
        let mut refused = 0;
        for call in calls {
            if call.await.unwrap().is_err() {
                refused += 1;
            }
        }
        assert!(refused > 40, "{refused}");
    }
}
