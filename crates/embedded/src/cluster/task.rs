//! Tasks with names, that are stopped together and whose panics are not lost.

use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A set of running tasks.
#[derive(Debug)]
pub(crate) struct Tasks {
    stop: watch::Sender<bool>,
    running: Vec<(&'static str, JoinHandle<()>)>,
}

impl Default for Tasks {
    fn default() -> Self {
        Self {
            stop: watch::Sender::new(false),
            running: Vec::new(),
        }
    }
}

impl Tasks {
    /// Starts a task. It ends when the set is stopped, at the next point where it waits.
    pub(crate) fn start(
        &mut self,
        name: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let mut stopped = self.stop.subscribe();
        let guarded = async move {
            let work = AssertUnwindSafe(work).catch_unwind();
            tokio::select! {
                biased;
                _ = stopped.wait_for(|stop| *stop) => tracing::debug!(task = name, "stopped"),
                ended = work => match ended {
                    Ok(()) => tracing::debug!(task = name, "ended"),
                    Err(panic) => {
                        let what = panic
                            .downcast_ref::<&str>()
                            .map(ToString::to_string)
                            .or_else(|| panic.downcast_ref::<String>().cloned())
                            .unwrap_or_default();
                        tracing::error!(task = name, panic = what, "task panicked");
                    }
                },
            }
        };
        self.running.push((name, tokio::spawn(guarded)));
    }

    /// Names of the tasks that have ended by themselves; in a healthy cluster there are none.
    pub(crate) fn ended(&self) -> Vec<&'static str> {
        let ended = self.running.iter().filter(|(_, task)| task.is_finished());
        ended.map(|(name, _)| *name).collect()
    }

    /// Stops all tasks and waits until they have ended.
    pub(crate) async fn stop(&mut self) {
        self.stop.send_replace(true);
        for (name, task) in self.running.drain(..) {
            if task.await.is_err() {
                tracing::error!(task = name, "task was lost");
            }
        }
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_panic_ends_one_task_and_not_the_others() {
        let mut tasks = Tasks::default();
        tasks.start("bad", async { panic!("on purpose") });
        tasks.start("good", std::future::pending());
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(tasks.ended(), ["bad"]);
        tasks.stop().await;
        assert!(tasks.ended().is_empty());
    }
}
