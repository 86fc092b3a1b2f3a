//! Events: what components tell people about objects. Repeated events count up, as client-go's correlator makes them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::fields::{Fields as _, set};
use crate::api::Local;
use crate::clock::rfc3339;

/// The events whose count goes up when they come again; more are forgotten, oldest first.
const REMEMBERED: usize = 4096;

/// Whether an event tells of something good or bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Normal,
    Warning,
}

/// An event that was written and may come again.
#[derive(Debug)]
struct Seen {
    namespace: String,
    name: String,
    used: u64,
}

/// Writes events in the name of one component.
#[derive(Debug)]
pub(crate) struct Recorder {
    api: Local,
    component: &'static str,
    enabled: bool,
    seen: BTreeMap<String, Seen>,
    /// The identities of `seen`, by when they last came.
    by_use: BTreeMap<u64, String>,
    written: u64,
}

impl Recorder {
    /// A recorder for a component; a disabled one writes nothing.
    pub(crate) fn new(api: &Local, component: &'static str, enabled: bool) -> Self {
        Self {
            api: api.clone(),
            component,
            enabled,
            seen: BTreeMap::new(),
            by_use: BTreeMap::new(),
            written: 0,
        }
    }

    /// Tells something about an object. Events are a courtesy: one that cannot be written is only logged.
    pub(crate) fn tell(&mut self, about: &Value, tone: Tone, reason: &str, message: &str) {
        if !self.enabled {
            return;
        }
        let namespace = match about.namespace() {
            "" => "default",
            namespace => namespace,
        };
        let identity = format!("{}\0{reason}\0{message}", about.uid());
        self.written += 1;
        if let Some(mut seen) = self.seen.remove(&identity) {
            self.by_use.remove(&seen.used);
            if self.count_up(&seen.namespace, &seen.name) {
                seen.used = self.written;
                self.by_use.insert(seen.used, identity.clone());
                self.seen.insert(identity, seen);
                return;
            }
        }
        let name = format!("{}.{:016x}", about.name(), self.stamp());
        let event = self.event(about, namespace, &name, tone, reason, message);
        match self.api.create("events", namespace, event) {
            Ok(_) => self.remember(identity, namespace, name),
            Err(error) => tracing::debug!(%error, reason, "event not written"),
        }
    }

    fn event(
        &self,
        about: &Value,
        namespace: &str,
        name: &str,
        tone: Tone,
        reason: &str,
        message: &str,
    ) -> Value {
        let now = rfc3339(self.api.clock().now());
        let mut involved = json!({
            "apiVersion": about.text(&["apiVersion"]), "kind": about.text(&["kind"]),
            "name": about.name(), "uid": about.uid(),
            "resourceVersion": about.text(&["metadata", "resourceVersion"]),
        });
        if !about.namespace().is_empty() {
            set(&mut involved, &["namespace"], about.namespace());
        }
        json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": involved,
            "reason": reason, "message": message,
            "type": match tone { Tone::Normal => "Normal", Tone::Warning => "Warning" },
            "source": {"component": self.component},
            "reportingComponent": self.component, "reportingInstance": "",
            "firstTimestamp": now, "lastTimestamp": now, "count": 1,
        })
    }

    /// Unique within a component and the same in every equal run: the time, and how many came before.
    fn stamp(&self) -> u64 {
        let nanos = self.api.clock().now().as_nanosecond();
        u64::try_from(nanos)
            .unwrap_or_default()
            .wrapping_add(self.written)
    }

    fn count_up(&self, namespace: &str, name: &str) -> bool {
        let Ok(held) = self.api.get("events", namespace, name) else {
            return false;
        };
        let mut event = Value::clone(&held);
        let count = event.int(&["count"]).unwrap_or(1) + 1;
        set(&mut event, &["count"], count);
        set(
            &mut event,
            &["lastTimestamp"],
            rfc3339(self.api.clock().now()),
        );
        self.api.update("events", event).is_ok()
    }

    fn remember(&mut self, identity: String, namespace: &str, name: String) {
        if self.seen.len() >= REMEMBERED
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.seen.remove(&oldest);
        }
        let used = self.written;
        self.by_use.insert(used, identity.clone());
        self.seen.insert(
            identity,
            Seen {
                namespace: namespace.to_owned(),
                name,
                used,
            },
        );
    }
}
