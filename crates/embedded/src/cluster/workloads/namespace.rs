//! Namespaces that are being deleted: everything in them goes first.
//!
//! kubernetes: `pkg/controller/namespace/deletion`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::{Action, Controller, Event, Moment, Plan, World};
use crate::cluster::Key;
use crate::cluster::fields::{Condition, Fields as _, set, set_condition};

/// The controller.
#[derive(Debug)]
pub(crate) struct Namespaces;

impl Controller for Namespaces {
    fn name(&self) -> &'static str {
        "namespace"
    }

    fn concerned(&mut self, event: &Event<'_>, world: &World, keys: &mut Vec<Key>) {
        let Some(object) = event.object() else { return };
        let name = if event.resource == "namespaces" {
            object.name()
        } else {
            object.namespace()
        };
        let key = Key::new("", name);
        if world
            .get("namespaces", &key)
            .is_some_and(|namespace| namespace.deleting())
        {
            keys.push(key);
        }
    }

    fn plan(&mut self, key: &Key, world: &World, now: Moment) -> Plan {
        let Some(namespace) = world.get("namespaces", key) else {
            return Plan::default();
        };
        if !namespace.deleting() {
            return Plan::default();
        }
        let mut content = Vec::new();
        for resource in world.resources().filter(|resource| resource.namespaced) {
            let found = world.in_namespace(&resource.name, &key.name);
            content.extend(found.map(|object| (resource.name.as_str(), Arc::clone(object))));
        }
        reconcile(namespace, &content, &now).into()
    }
}

/// What to do about a namespace that is going, with what is still in it.
fn reconcile(namespace: &Value, content: &[(&str, Arc<Value>)], now: &Moment) -> Vec<Action> {
    let mut actions: Vec<Action> = content
        .iter()
        .filter(|(_, object)| !object.deleting())
        .map(|(resource, object)| Action::delete(resource, object))
        .collect();
    if content.is_empty() {
        let mut finalized = namespace.clone();
        set(&mut finalized, &["spec", "finalizers"], Vec::<Value>::new());
        actions.push(Action::Finalize {
            namespace: finalized,
        });
        return actions;
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (resource, _) in content {
        *counts.entry(resource).or_default() += 1;
    }
    let left: Vec<_> = counts
        .iter()
        .map(|(name, count)| format!("{name}. has {count} resource instances"))
        .collect();
    let message = format!("Some resources are remaining: {}", left.join(", "));
    let mut object = namespace.clone();
    set(&mut object, &["status", "phase"], "Terminating");
    let condition = Condition {
        kind: "NamespaceContentRemaining",
        status: "True",
        reason: "SomeResourcesRemain",
        message: &message,
    };
    set_condition(&mut object, condition, &now.stamp);
    if object.at(&["status"]) != namespace.at(&["status"]) {
        actions.push(Action::UpdateStatus {
            resource: "namespaces",
            object,
        });
    }
    actions
}
