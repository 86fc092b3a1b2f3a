//! Loops over classes: each class is visited by itself, so that a slow cloud delays no other.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tracing::warn;

use crate::context::Context;
use crate::market::slots::Slot;
use crate::record::ClassKey;

/// The longest that one visit may take; several calls are made in one.
const VISIT_TIMEOUT: Duration = Duration::from_mins(10);

/// Classes that are being visited for one purpose.
#[derive(Clone)]
pub(crate) struct Visits {
    purpose: &'static str,
    under_way: Arc<Mutex<BTreeSet<ClassKey>>>,
}

/// Ends a visit however it ends.
struct Visit {
    visits: Visits,
    key: ClassKey,
}

impl Drop for Visit {
    fn drop(&mut self) {
        let under_way = &self.visits.under_way;
        let mut under_way = under_way.lock().unwrap_or_else(PoisonError::into_inner);
        under_way.remove(&self.key);
    }
}

impl Visits {
    /// None yet.
    pub(crate) fn new(purpose: &'static str) -> Self {
        Visits {
            purpose,
            under_way: Arc::default(),
        }
    }

    /// Visits every class whose last visit has ended, each in a task of its own, and waits for none of them.
    pub(crate) fn start<F>(
        &self,
        context: &Arc<Context>,
        visit: impl Fn(Arc<Context>, Arc<Slot>) -> F,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        for slot in context.market.classes.slots() {
            let Some(under_way) = self.begin(&slot.key) else {
                continue;
            };
            let name = format!("{} {}", self.purpose, slot.key);
            let key = slot.key.clone();
            let visit = visit(context.clone(), slot);
            context.edge.tasks.spawn(name, async move {
                let _under_way = under_way;
                if tokio::time::timeout(VISIT_TIMEOUT, visit).await.is_err() {
                    warn!(class = %key, "the visit took too long and is broken off");
                }
            });
        }
    }

    fn begin(&self, key: &ClassKey) -> Option<Visit> {
        let mut under_way = self
            .under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        under_way.insert(key.clone()).then(|| Visit {
            visits: self.clone(),
            key: key.clone(),
        })
    }
}
