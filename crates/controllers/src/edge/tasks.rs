//! Tasks with names: nothing runs in the background that cannot be seen, stopped and waited for.

use std::any::Any;
use std::borrow::Cow;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt as _;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument as _, error, info_span};

/// How long a task that panicked stays away before it is started again. Long enough not to spin, short enough that the
/// liveness bounds (a minute for most) still hold.
const RESTART_AFTER: Duration = Duration::from_secs(5);

/// A group of tasks that end together.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
    failed: CancellationToken,
    failure: Arc<OnceLock<String>>,
}

impl Tasks {
    /// An empty group.
    pub fn new() -> Self {
        Self::default()
    }

    /// Fires when the group is asked to end.
    pub fn stopping(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Runs a task that ends by itself, or when the group does. A panic ends the task and is logged.
    pub fn spawn<F>(&self, name: impl Into<Cow<'static, str>>, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let name = name.into();
        let span = info_span!("task", task = %name);
        let stop = self.stop.clone();
        // Some tasks are large: once in a place of their own, they are not moved from wrapper to wrapper.
        let task = Box::pin(task);
        let guarded = async move {
            let work = AssertUnwindSafe(task).catch_unwind();
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                ended = work => if let Err(panic) = ended {
                    error!(panic = %message(&*panic), "a task panicked and has ended");
                },
            }
        };
        self.tracker.spawn(guarded.instrument(span));
    }

    /// Runs a task that the others cannot do without and that cannot be started again: if it returns or panics before
    /// the group is asked to end, the whole group has failed.
    pub fn vital<F>(&self, name: impl Into<Cow<'static, str>>, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let name = name.into();
        let (tasks, what) = (self.clone(), name.clone());
        self.spawn(name, async move {
            let said = match AssertUnwindSafe(Box::pin(task)).catch_unwind().await {
                Ok(()) => format!("task {what} ended"),
                Err(panic) => format!("task {what} panicked: {}", message(&*panic)),
            };
            error!(%said, "a vital task has ended: the process must be restarted");
            let _ = tasks.failure.set(said);
            tasks.failed.cancel();
        });
    }

    /// Waits until a vital task has failed.
    pub async fn failed(&self) {
        self.failed.cancelled().await;
    }

    /// Which vital task has failed, and how.
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Runs a task for as long as the group lives: one that panics or returns is started again.
    pub fn supervise<F, M>(&self, name: impl Into<Cow<'static, str>>, make: M)
    where
        F: Future<Output = ()> + Send + 'static,
        M: Fn() -> F + Send + Sync + 'static,
    {
        let name = name.into();
        self.spawn(name, async move {
            loop {
                match AssertUnwindSafe(Box::pin(make())).catch_unwind().await {
                    Ok(()) => error!("a task that should run for ever returned"),
                    Err(panic) => error!(panic = %message(&*panic), "a task panicked"),
                }
                tokio::time::sleep(RESTART_AFTER).await;
            }
        });
    }

    /// Asks every task to end and waits until they have.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}

fn message(panic: &(dyn Any + Send)) -> Cow<'_, str> {
    if let Some(text) = panic.downcast_ref::<&str>() {
        Cow::Borrowed(text)
    } else if let Some(text) = panic.downcast_ref::<String>() {
        Cow::Borrowed(text)
    } else {
        Cow::Borrowed("no message")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_supervised_task_that_panics_is_started_again() {
        let tasks = Tasks::new();
        let starts = Arc::new(AtomicU32::new(0));
        let seen = starts.clone();
        tasks.supervise("clumsy", move || {
            let starts = starts.clone();
            async move {
                assert!(starts.fetch_add(1, Ordering::SeqCst) >= 2, "stumbled");
                std::future::pending::<()>().await;
            }
        });
        tokio::time::sleep(RESTART_AFTER * 3).await;
        assert_eq!(seen.load(Ordering::SeqCst), 3);
        tasks.stop().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_vital_task_that_panics_fails_the_group_and_says_why() {
        let tasks = Tasks::new();
        tasks.vital("steady", std::future::pending());
        assert_eq!(tasks.failure(), None);
        tasks.vital("clumsy", async { panic!("stumbled") });
        tasks.failed().await;
        assert_eq!(tasks.failure(), Some("task clumsy panicked: stumbled"));
        tasks.stop().await;
    }

    #[tokio::test(start_paused = true)]
    async fn stopping_is_no_failure() {
        let tasks = Tasks::new();
        tasks.vital("steady", std::future::pending());
        tasks.stop().await;
        assert_eq!(tasks.failure(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn stopping_waits_for_every_task() {
        let tasks = Tasks::new();
        tasks.spawn("endless", std::future::pending());
        tasks.stop().await;
        assert!(tasks.tracker.is_empty());
    }
}
