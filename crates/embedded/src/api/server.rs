//! The server as its users hold it.

use super::{
    local::Local,
    state::{Commit, Observer, Options, Shared},
};
use crate::{clock::Clock, faults::FaultPlan};

/// The embedded Kubernetes API server. Cheap to clone; clones are the same server.
#[derive(Debug, Clone)]
pub struct ApiServer {
    shared: Shared,
    faults: FaultPlan,
}

impl ApiServer {
    /// A fresh cluster: the standard namespaces and priority classes, nothing else.
    pub fn new(clock: Clock, options: &Options) -> Self {
        Self {
            shared: Shared::new(clock, options),
            faults: FaultPlan::new(options.seed),
        }
    }

    /// The interface for code in this process.
    pub fn local(&self) -> Local {
        Local::new(self.shared.clone())
    }

    /// Hash over every change committed so far.
    pub fn event_log_hash(&self) -> String {
        self.shared.lock().log.hash()
    }

    /// What goes wrong with requests over HTTP; nothing until it is told.
    pub fn faults(&self) -> &FaultPlan {
        &self.faults
    }

    /// Shows every change to `observer` in the moment of its commit, with the server locked: the observer must not ask
    /// the server anything.
    pub fn observe(&self, observer: impl FnMut(&Commit<'_>) + Send + 'static) {
        self.shared
            .lock()
            .observers
            .push(Observer(Box::new(observer)));
    }

    /// Ends every open watch, as a restart of the server would.
    pub fn cut_watches(&self) {
        self.shared.lock().store.cut_watches(None);
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Forgets the history, so that every watch that resumes is told to list again.
    pub fn compact(&self) {
        self.shared.lock().store.compact();
    }
}
