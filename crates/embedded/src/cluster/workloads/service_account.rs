//! Every namespace has a service account `default`.

use serde_json::json;

use super::{Action, Controller, Event, Moment, Plan, World};
use crate::cluster::Key;
use crate::cluster::fields::Fields as _;

/// The controller.
#[derive(Debug)]
pub(crate) struct ServiceAccounts;

impl Controller for ServiceAccounts {
    fn name(&self) -> &'static str {
        "serviceaccount"
    }

    fn concerned(&mut self, event: &Event<'_>, _: &World, keys: &mut Vec<Key>) {
        let Some(object) = event.object() else { return };
        match event.resource {
            "namespaces" => keys.push(Key::new("", object.name())),
            "serviceaccounts" if event.new.is_none() && object.name() == "default" => {
                keys.push(Key::new("", object.namespace()));
            }
            _ => {}
        }
    }

    fn plan(&mut self, key: &Key, world: &World, _: Moment) -> Plan {
        let alive = world
            .get("namespaces", key)
            .is_some_and(|namespace| !namespace.deleting());
        let held = world
            .get("serviceaccounts", &Key::new(&key.name, "default"))
            .is_some();
        if !alive || held {
            return Plan::default();
        }
        let object = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": key.name},
        });
        let create = Action::Create {
            resource: "serviceaccounts",
            namespace: key.name.clone(),
            object,
        };
        vec![create].into()
    }
}
