//! Several watches as one: what a component with more than one kind of input reads.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::select_all;
use tokio::time::Instant;

use crate::api::{Change, Local, Watch};

/// A component that has nothing to do still looks up this often; only a bound for the timer.
const LONGEST_SLEEP: Duration = Duration::from_hours(1);

/// Watches on some resources, always read in the same order so that equal runs stay equal.
#[derive(Debug, Default)]
pub(crate) struct Feed {
    watches: Vec<(String, Watch)>,
}

impl Feed {
    /// Watches these resources.
    pub(crate) fn new(api: &Local, resources: &[&str]) -> Self {
        let mut feed = Self::default();
        for resource in resources {
            feed.add(api, resource);
        }
        feed
    }

    /// Watches one resource more.
    pub(crate) fn add(&mut self, api: &Local, resource: &str) {
        self.watches
            .push((resource.to_owned(), api.watch(resource)));
    }

    /// Whether a resource is watched.
    pub(crate) fn has(&self, resource: &str) -> bool {
        self.watches.iter().any(|(name, _)| name == resource)
    }

    /// Everything that happened up to now.
    pub(crate) fn drain(&mut self) -> Vec<(String, Change)> {
        let mut out = Vec::new();
        for (resource, watch) in &mut self.watches {
            while let Some(change) = watch.try_next() {
                out.push((resource.clone(), change));
            }
        }
        out
    }

    /// Waits for the next change, or until a time; nothing means that the time has come.
    pub(crate) async fn wait(&mut self, until: Option<Instant>) -> Option<(String, Change)> {
        let until = until.unwrap_or_else(|| Instant::now() + LONGEST_SLEEP);
        let changes = self
            .watches
            .iter_mut()
            .map(|(resource, watch)| async move { (resource.clone(), watch.next().await) }.boxed());
        tokio::select! {
            biased;
            (found, _, _) = select_all(changes) => Some(found),
            () = tokio::time::sleep_until(until) => None,
        }
    }
}
