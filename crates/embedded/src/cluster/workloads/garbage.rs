//! Garbage collection by owner.
//!
//! kubernetes: `pkg/controller/garbagecollector`. An object goes when none of its owners is left. An owner that is being
//! deleted in the foreground waits for the dependents that block it; one that orphans cuts them loose first.
//!
//! Keys are uids: names can be taken over by other objects.

use std::sync::Arc;

use serde_json::Value;

use super::{Action, Controller, Event, Moment, Plan, World};
use crate::api::{DeleteOptions, Propagation};
use crate::cluster::Key;
use crate::cluster::fields::{Fields as _, remove_finalizer, set};

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// The controller.
#[derive(Debug)]
pub(crate) struct Garbage;

impl Controller for Garbage {
    fn name(&self) -> &'static str {
        "garbage"
    }

    fn concerned(&mut self, event: &Event<'_>, world: &World, keys: &mut Vec<Key>) {
        let uid_key = |uid: &str| Key::new("", uid);
        let owners =
            |object: Option<&Arc<Value>>| object.map_or(&[][..], |object| object.owners()).to_vec();
        if let Some(new) = event.new {
            let news = event.old.is_none_or(|old| old.owners() != new.owners());
            if news && !new.owners().is_empty() || new.deleting() {
                keys.push(uid_key(new.uid()));
            }
            // The uid of a deleted object whose name was taken over at once is never seen to go.
            if let Some(old) = event.old.filter(|old| old.uid() != new.uid()) {
                keys.extend(dependents(world, old.uid()));
            }
            if new.deleting() && new.has_finalizer(FOREGROUND) {
                keys.extend(dependents(world, new.uid()));
            }
        } else if let Some(old) = event.old {
            keys.extend(dependents(world, old.uid()));
            // An owner may have been waiting for this one.
            for owner in owners(event.old) {
                let uid = owner.text(&["uid"]);
                if world.by_uid(uid).is_some_and(|(_, owner)| owner.deleting()) {
                    keys.push(uid_key(uid));
                }
            }
        }
    }

    fn plan(&mut self, key: &Key, world: &World, _: Moment) -> Plan {
        match world.by_uid(&key.name) {
            Some(((resource, _), object)) => reconcile(resource, object, world).into(),
            None => Plan::default(),
        }
    }
}

fn dependents(world: &World, uid: &str) -> Vec<Key> {
    world
        .dependents(uid)
        .filter_map(|(resource, key)| world.get(resource, key))
        .map(|object| Key::new("", object.uid()))
        .collect()
}

/// What to do about one object.
fn reconcile(resource: &str, object: &Arc<Value>, world: &World) -> Vec<Action> {
    if object.deleting() {
        if object.has_finalizer(ORPHAN) {
            return orphan_dependents(resource, object, world);
        }
        if object.has_finalizer(FOREGROUND) {
            return finish_foreground(resource, object, world);
        }
        return Vec::new();
    }
    collect(resource, object, world)
}

/// How an owner stands.
enum Owner {
    /// It is there and stays.
    Solid,
    /// It is not there.
    Gone,
    /// It is being deleted and waits for this dependent.
    Waiting,
    /// It cannot be told, as for a kind that is not served.
    Unknown,
}

fn standing(owner: &Value, object: &Value, world: &World) -> Owner {
    let Some(info) = world.resource_of(owner.text(&["apiVersion"]), owner.text(&["kind"])) else {
        return Owner::Unknown;
    };
    // A cluster-scoped object cannot be owned by a namespaced one; upstream leaves it alone.
    if info.namespaced && object.namespace().is_empty() {
        return Owner::Unknown;
    }
    let namespace = if info.namespaced {
        object.namespace()
    } else {
        ""
    };
    let found = world
        .get(&info.name, &Key::new(namespace, owner.text(&["name"])))
        .filter(|found| found.uid() == owner.text(&["uid"]));
    match found {
        None => Owner::Gone,
        Some(found)
            if found.deleting()
                && found.has_finalizer(FOREGROUND)
                && owner.flag(&["blockOwnerDeletion"]) =>
        {
            Owner::Waiting
        }
        Some(_) => Owner::Solid,
    }
}

/// Deletes an object that nobody owns any more, or cuts references to owners that are gone.
fn collect(resource: &str, object: &Arc<Value>, world: &World) -> Vec<Action> {
    let (mut solid, mut waiting) = (0, 0);
    let mut left = Vec::new();
    for owner in object.owners() {
        match standing(owner, object, world) {
            Owner::Solid | Owner::Unknown => {
                solid += 1;
                left.push(owner.clone());
            }
            Owner::Waiting => waiting += 1,
            Owner::Gone => {}
        }
    }
    if left.len() == object.owners().len() {
        return Vec::new();
    }
    if solid > 0 {
        let mut kept = Value::clone(object);
        set(&mut kept, &["metadata", "ownerReferences"], left);
        return vec![Action::Update {
            resource: resource.to_owned(),
            object: kept,
        }];
    }
    let has_dependents = world.dependents(object.uid()).next().is_some();
    let propagation = if object.has_finalizer(ORPHAN) {
        Propagation::Orphan
    } else if object.has_finalizer(FOREGROUND) || (waiting > 0 && has_dependents) {
        // Its owner waits for it, so it waits for its own dependents.
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    vec![Action::Delete {
        resource: resource.to_owned(),
        key: Key::of(object),
        uid: object.uid().to_owned(),
        options: DeleteOptions {
            propagation: Some(propagation),
            ..DeleteOptions::default()
        },
    }]
}

fn orphan_dependents(resource: &str, owner: &Arc<Value>, world: &World) -> Vec<Action> {
    let mut actions = Vec::new();
    for (dependent_resource, key) in world.dependents(owner.uid()) {
        let Some(dependent) = world.get(dependent_resource, key) else {
            continue;
        };
        let mut freed = Value::clone(dependent);
        let left: Vec<Value> = dependent
            .owners()
            .iter()
            .filter(|held| held.text(&["uid"]) != owner.uid())
            .cloned()
            .collect();
        set(&mut freed, &["metadata", "ownerReferences"], left);
        actions.push(Action::Update {
            resource: dependent_resource.clone(),
            object: freed,
        });
    }
    actions.push(without_finalizer(resource, owner, ORPHAN));
    actions
}

fn finish_foreground(resource: &str, owner: &Arc<Value>, world: &World) -> Vec<Action> {
    let blocked = world
        .dependents(owner.uid())
        .any(|(dependent_resource, key)| {
            world.get(dependent_resource, key).is_some_and(|dependent| {
                dependent.owners().iter().any(|held| {
                    held.text(&["uid"]) == owner.uid() && held.flag(&["blockOwnerDeletion"])
                })
            })
        });
    if blocked {
        Vec::new()
    } else {
        vec![without_finalizer(resource, owner, FOREGROUND)]
    }
}

fn without_finalizer(resource: &str, object: &Arc<Value>, finalizer: &str) -> Action {
    let mut object = Value::clone(object);
    remove_finalizer(&mut object, finalizer);
    Action::Update {
        resource: resource.to_owned(),
        object,
    }
}
