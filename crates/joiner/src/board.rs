//! What can be asked about a running engine; nothing before it has started.

use std::sync::{Arc, PoisonError, RwLock};

use joiner_controllers::context::Context;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

/// A place for the running engine. Cheap to clone; clones are the same board.
#[derive(Clone, Default)]
pub(crate) struct Board(Arc<RwLock<Option<Shown>>>);

struct Shown {
    context: Arc<Context>,
    registry: Registry,
}

impl Board {
    /// Shows a running engine.
    pub(crate) fn show(&self, context: Arc<Context>, registry: Registry) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Shown { context, registry });
    }

    /// The engine has ended.
    pub(crate) fn clear(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Everything that the engine works with.
    pub(crate) fn context(&self) -> Option<Arc<Context>> {
        let shown = self.0.read().unwrap_or_else(PoisonError::into_inner);
        shown.as_ref().map(|one| one.context.clone())
    }

    /// Whether the process does its work: every task that cannot be started again runs.
    pub(crate) fn healthy(&self) -> Result<(), String> {
        let shown = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let failure = shown
            .as_ref()
            .and_then(|one| one.context.edge.tasks.failure());
        failure.map_or(Ok(()), |said| Err(said.to_owned()))
    }

    /// Whether everything that is watched has been listed.
    pub(crate) fn ready(&self) -> Result<(), String> {
        let shown = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let Some(shown) = shown.as_ref() else {
            return Err("not started: no family of custom resources is installed yet".to_owned());
        };
        let missing = shown.context.view.read().missing().join(", ");
        if shown.context.dialects.is_empty() || shown.context.view.synced() {
            Ok(())
        } else {
            Err(format!("not everything is listed yet: {missing}"))
        }
    }

    /// What is counted, as text.
    pub(crate) fn metrics(&self) -> Result<String, std::fmt::Error> {
        let shown = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        match shown.as_ref() {
            Some(shown) => encode(&mut text, &shown.registry)?,
            None => encode(&mut text, &Registry::default())?,
        }
        Ok(text)
    }
}
