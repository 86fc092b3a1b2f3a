//! What controllers decide, as data, and the one place that carries it out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::api::{DeleteOptions, Local, Preconditions, Status};
use crate::cluster::Key;
use crate::cluster::fields::{Fields as _, set};
use crate::cluster::recorder::{Recorder, Tone};

/// One thing to do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    /// Create an object; one of the same name that is already there is as good.
    Create {
        resource: &'static str,
        namespace: String,
        object: Value,
    },
    /// Replace an object.
    Update { resource: String, object: Value },
    /// Replace the status of an object.
    UpdateStatus {
        resource: &'static str,
        object: Value,
    },
    /// Replace the finalizers in a namespace's spec.
    Finalize { namespace: Value },
    /// Delete the object of this key if it still is the one of this uid.
    Delete {
        resource: String,
        key: Key,
        uid: String,
        options: DeleteOptions,
    },
    /// Tell people.
    Tell {
        about: Arc<Value>,
        tone: Tone,
        reason: &'static str,
        message: String,
    },
}

impl Action {
    /// Deletes an object in the ordinary way.
    pub(crate) fn delete(resource: &str, object: &Value) -> Self {
        Self::Delete {
            resource: resource.to_owned(),
            key: Key::of(object),
            uid: object.uid().to_owned(),
            options: DeleteOptions::default(),
        }
    }

    /// Removes an object at once.
    pub(crate) fn remove(resource: &str, object: &Value) -> Self {
        Self::Delete {
            resource: resource.to_owned(),
            key: Key::of(object),
            uid: object.uid().to_owned(),
            options: DeleteOptions {
                grace_period_seconds: Some(0),
                ..DeleteOptions::default()
            },
        }
    }

    /// Tells something good.
    pub(crate) fn note(about: &Arc<Value>, reason: &'static str, message: String) -> Self {
        Self::Tell {
            about: Arc::clone(about),
            tone: Tone::Normal,
            reason,
            message,
        }
    }

    /// Tells something bad.
    pub(crate) fn warn(about: &Arc<Value>, reason: &'static str, message: String) -> Self {
        Self::Tell {
            about: Arc::clone(about),
            tone: Tone::Warning,
            reason,
            message,
        }
    }
}

/// What to do now, and when to look again.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Plan {
    pub(crate) actions: Vec<Action>,
    pub(crate) again: Option<Duration>,
}

impl Plan {
    /// Adds something to do.
    pub(crate) fn push(&mut self, action: Action) {
        self.actions.push(action);
    }

    /// Asks to look again after a while; the shortest of several counts.
    pub(crate) fn look_again(&mut self, after: Duration) {
        self.again = Some(self.again.map_or(after, |held| held.min(after)));
    }
}

impl From<Vec<Action>> for Plan {
    fn from(actions: Vec<Action>) -> Self {
        Self {
            actions,
            again: None,
        }
    }
}

/// Carries actions out.
#[derive(Debug)]
pub(crate) struct Performer {
    api: Local,
    recorder: Recorder,
}

impl Performer {
    pub(crate) fn new(api: &Local, recorder: Recorder) -> Self {
        Self {
            api: api.clone(),
            recorder,
        }
    }

    /// Carries out a plan in its order, up to the first failure.
    pub(crate) fn perform(&mut self, actions: Vec<Action>) -> Result<(), Status> {
        // A plan that writes an object twice means the second write to follow the first, not to conflict with it.
        let mut versions: BTreeMap<String, Value> = BTreeMap::new();
        for action in actions {
            match action {
                Action::Create {
                    resource,
                    namespace,
                    object,
                } => {
                    let created = self.api.create(resource, &namespace, object);
                    created
                        .map(|_| ())
                        .or_else(|error| unless(&error, 409, error.clone()))?;
                }
                Action::Update {
                    resource,
                    mut object,
                } => {
                    let uid = object.uid().to_owned();
                    follow(&mut object, versions.get(&uid));
                    let written = self.api.update(&resource, object)?;
                    versions.insert(uid, written.at(&["metadata", "resourceVersion"]).clone());
                }
                Action::UpdateStatus {
                    resource,
                    mut object,
                } => {
                    let uid = object.uid().to_owned();
                    follow(&mut object, versions.get(&uid));
                    let written = self.api.update_status(resource, object)?;
                    versions.insert(uid, written.at(&["metadata", "resourceVersion"]).clone());
                }
                Action::Finalize { namespace } => {
                    self.api.finalize(namespace)?;
                }
                Action::Delete {
                    resource,
                    key,
                    uid,
                    mut options,
                } => {
                    options.preconditions = Preconditions {
                        uid: Some(uid),
                        resource_version: None,
                    };
                    let deleted = self
                        .api
                        .delete(&resource, &key.namespace, &key.name, options);
                    // Already gone, or another object by now: either way this one is deleted.
                    deleted.or_else(|error| match error.code {
                        404 | 409 => Ok(()),
                        _ => Err(error),
                    })?;
                }
                Action::Tell {
                    about,
                    tone,
                    reason,
                    message,
                } => {
                    self.recorder.tell(&about, tone, reason, &message);
                }
            }
        }
        Ok(())
    }
}

fn unless(error: &Status, code: u16, otherwise: Status) -> Result<(), Status> {
    if error.code == code {
        Ok(())
    } else {
        Err(otherwise)
    }
}

fn follow(object: &mut Value, version: Option<&Value>) {
    if let Some(version) = version {
        set(object, &["metadata", "resourceVersion"], version.clone());
    }
}
