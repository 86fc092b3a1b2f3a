//! Gathers pods, so that those that come together are planned together.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::dialect::Window;
use crate::view::Pending;

/// What has come since the last plan.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    first: Option<Instant>,
    last: Option<Instant>,
    again: Option<Instant>,
}

impl State {
    /// When it is time for a plan.
    fn due(&self, window: Window) -> Option<Instant> {
        let gathered = match (self.first, self.last) {
            (Some(first), Some(last)) => Some((last + window.idle).min(first + window.max)),
            _ => None,
        };
        // Whatever else calls for a plan waits for pods that are still coming: a plan without them would buy many small
        // machines where a few large ones are cheaper.
        gathered.or(self.again)
    }
}

impl Batch {
    fn due(&self, window: Window) -> Option<Instant> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.due(window)
    }

    /// A pod waits. Of those that the scheduler has yet to come to none begins a batch, but a batch waits for others to
    /// come, whether they have been tried or not. The same pod again does not make anybody wait longer.
    pub(crate) fn add(&self, pod: Pending) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let open = state.first.is_some();
        let counts = match pod {
            Pending::Untried => open,
            Pending::Tried => true,
            Pending::Known => !open,
        };
        if counts {
            let now = Instant::now();
            state.first.get_or_insert(now);
            state.last = Some(now);
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Something else calls for a plan.
    pub(crate) fn again(&self, after: Duration) {
        let at = Instant::now() + after;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.again = Some(state.again.map_or(at, |known| known.min(at)));
        drop(state);
        self.changed.notify_one();
    }

    /// Waits until it is time for a plan, and starts a new batch. No batch is shorter than `least`; once one is as
    /// long, `full` says how long it is to be for the pods that have come.
    pub(crate) async fn wait(&self, least: Window, full: impl Fn() -> Window) {
        loop {
            let changed = self.changed.notified();
            let due = match self.due(least) {
                Some(at) if at <= Instant::now() => {
                    let window = least.longer(full());
                    let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                    let due = state.due(window);
                    if due.is_some_and(|at| at <= Instant::now()) {
                        *state = State::default();
                        return;
                    }
                    due
                }
                due => due,
            };
            match due {
                Some(at) => {
                    tokio::select! {
                        biased;
                        () = changed => {}
                        () = tokio::time::sleep_until(at) => {}
                    }
                }
                None => changed.await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_batch_ends_when_no_new_pod_comes_or_it_has_lasted_long_enough() {
        let batch = std::sync::Arc::new(Batch::default());
        let started = Instant::now();
        batch.add(Pending::Tried);
        batch.wait(Window::default(), Window::default).await;
        assert_eq!(started.elapsed(), Duration::from_secs(1));

        let feeder = batch.clone();
        let feed = async move {
            for _ in 0..100 {
                feeder.add(Pending::Tried);
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        };
        let started = Instant::now();
        tokio::select! {
            () = feed => unreachable!("the batch ends first"),
            () = batch.wait(Window::default(), Window::default) => {}
        }
        assert_eq!(started.elapsed(), Duration::from_secs(10));
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_is_as_long_as_its_pods_ask_for() {
        let seconds = |idle, max| Window {
            idle: Duration::from_secs(idle),
            max: Duration::from_secs(max),
        };
        let batch = Batch::default();
        let started = Instant::now();
        batch.add(Pending::Tried);
        batch.wait(seconds(1, 10), || seconds(5, 5)).await;
        assert_eq!(started.elapsed(), Duration::from_secs(5));
        // Pods that come later may ask for more than those that came first.
        let asked = std::cell::Cell::new(seconds(2, 10));
        let started = Instant::now();
        batch.add(Pending::Tried);
        let more = async {
            tokio::time::sleep(Duration::from_millis(1500)).await;
            asked.set(seconds(4, 10));
            batch.add(Pending::Tried);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = more => unreachable!("the batch ends first"),
            () = batch.wait(seconds(1, 10), || asked.get()) => {}
        }
        assert_eq!(started.elapsed(), Duration::from_millis(5500));
        let started = Instant::now();
        batch.again(Duration::from_millis(300));
        batch.wait(seconds(1, 10), || seconds(5, 5)).await;
        assert_eq!(
            started.elapsed(),
            Duration::from_millis(300),
            "no pod waits"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn another_call_for_a_plan_does_not_cut_a_batch_short() {
        let batch = Batch::default();
        let started = Instant::now();
        batch.again(Duration::from_millis(300));
        batch.add(Pending::Tried);
        batch.wait(Window::default(), Window::default).await;
        assert_eq!(started.elapsed(), Duration::from_secs(1));
        batch.again(Duration::from_millis(300));
        batch.wait(Window::default(), Window::default).await;
        assert_eq!(started.elapsed(), Duration::from_millis(1300));
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_is_as_long_as_pods_come_and_not_as_long_as_the_scheduler_takes() {
        let batch = Batch::default();
        let started = Instant::now();
        batch.add(Pending::Untried);
        batch.add(Pending::Known);
        let scheduler = async {
            for _ in 0..100 {
                tokio::time::sleep(Duration::from_millis(50)).await;
                batch.add(Pending::Known);
            }
        };
        let cluster = async {
            tokio::time::sleep(Duration::from_millis(900)).await;
            batch.add(Pending::Untried);
            batch.wait(Window::default(), Window::default).await;
        };
        tokio::select! {
            () = scheduler => unreachable!("the batch ends first"),
            () = cluster => {}
        }
        assert_eq!(started.elapsed(), Duration::from_millis(1900));
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_pod_does_not_make_anybody_wait() {
        let batch = Batch::default();
        batch.add(Pending::Tried);
        let started = Instant::now();
        tokio::time::sleep(Duration::from_millis(900)).await;
        batch.add(Pending::Known);
        batch.wait(Window::default(), Window::default).await;
        assert_eq!(started.elapsed(), Duration::from_secs(1));
    }
}
