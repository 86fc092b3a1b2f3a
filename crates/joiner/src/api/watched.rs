//! What is shown of an engine: its fleet, looked at once a second at most however many look on, and its history.

use std::sync::{Arc, Mutex, PoisonError};

use joiner_controllers::context::Context;
use tokio::time::{Duration, Instant};

use super::fleet::Fleet;
use super::history::History;

/// How old a look at the nodes may be.
const FRESH: Duration = Duration::from_secs(1);

/// The nodes as they stood at some moment.
type Look = (Instant, Arc<Fleet>);

/// Cheap to clone; clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Watched {
    last: Arc<Mutex<Option<Look>>>,
    history: History,
}

impl Watched {
    /// The nodes, as they stood a second ago at most.
    pub(crate) fn fleet(&self, context: &Context) -> Arc<Fleet> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, fleet)) = &*last
            && at.elapsed() < FRESH
        {
            return fleet.clone();
        }
        let fleet = Arc::new(Fleet::look(context));
        *last = Some((Instant::now(), fleet.clone()));
        fleet
    }

    /// What was measured so far.
    pub(crate) fn history(&self) -> &History {
        &self.history
    }
}
