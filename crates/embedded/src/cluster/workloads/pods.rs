//! What all workload controllers need to know about pods, and how they make them.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{Action, Event, World};
use crate::cluster::Key;
use crate::cluster::fields::{Fields as _, controller_ref, set};
use crate::selector::Selector;

/// Whether a pod has ended, well or badly.
pub(crate) fn finished(pod: &Value) -> bool {
    matches!(pod.text(&["status", "phase"]), "Succeeded" | "Failed")
}

/// Whether a pod counts as running or about to run.
pub(crate) fn active(pod: &Value) -> bool {
    !finished(pod) && !pod.deleting()
}

/// Whether a pod is ready.
pub(crate) fn ready(pod: &Value) -> bool {
    pod.condition_true("Ready")
}

/// Since when a pod has been ready.
pub(crate) fn ready_since(pod: &Value) -> Option<Timestamp> {
    pod.condition("Ready")
        .filter(|held| held.text(&["status"]) == "True")
        .map(|held| held.time(&["lastTransitionTime"]).unwrap_or_default())
}

/// Whether a pod has been ready for long enough.
pub(crate) fn available(pod: &Value, min_ready_seconds: i64, now: Timestamp) -> bool {
    ready_since(pod).is_some_and(|since| {
        min_ready_seconds == 0 || since.as_second() + min_ready_seconds <= now.as_second()
    })
}

/// How long until the first pod that is ready becomes available.
pub(crate) fn until_available(
    pods: &[Arc<Value>],
    min_ready_seconds: i64,
    now: Timestamp,
) -> Option<Duration> {
    if min_ready_seconds == 0 {
        return None;
    }
    pods.iter()
        .filter_map(|pod| ready_since(pod))
        .map(|since| since.as_second() + min_ready_seconds - now.as_second())
        .filter(|left| *left > 0)
        .min()
        .map(|left| Duration::from_secs(u64::try_from(left).unwrap_or_default()))
}

/// A pod made from a template, controlled by an owner.
pub(crate) fn from_template(
    template: &Value,
    owner: &Value,
    api_version: &str,
    kind: &str,
    name: &PodName<'_>,
) -> Value {
    let mut metadata = Map::new();
    match name {
        PodName::Generated => {
            metadata.insert(
                "generateName".to_owned(),
                json!(format!("{}-", owner.name())),
            );
        }
        PodName::Fixed(name) => {
            metadata.insert("name".to_owned(), json!(name));
        }
        PodName::Prefix(prefix) => {
            metadata.insert("generateName".to_owned(), json!(prefix));
        }
    }
    metadata.insert("namespace".to_owned(), json!(owner.namespace()));
    for field in ["labels", "annotations", "finalizers"] {
        let value = template.at(&["metadata", field]);
        if !value.is_null() {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    metadata.insert(
        "ownerReferences".to_owned(),
        json!([controller_ref(owner, api_version, kind)]),
    );
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.at(&["spec"])})
}

/// How a pod is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PodName<'a> {
    /// After its owner, with a random end.
    Generated,
    /// Exactly so.
    Fixed(&'a str),
    /// With this beginning and a random end.
    Prefix(&'a str),
}

/// Who controls what: objects to adopt and to let go of, so that selector and ownership agree.
pub(crate) struct Claimed {
    /// What is the owner's after the actions.
    pub(crate) own: Vec<Arc<Value>>,
    pub(crate) actions: Vec<Action>,
}

/// Adopts what matches the owner's selector and releases what does not any more.
pub(crate) fn claim(
    owner: &Value,
    (api_version, kind): (&str, &str),
    resource: &str,
    world: &World,
) -> Claimed {
    let selector = Selector::read(owner.at(&["spec", "selector"]));
    let mut out = Claimed {
        own: Vec::new(),
        actions: Vec::new(),
    };
    for object in world.controlled(owner.uid(), resource) {
        if selector.matches(object.labels()) || owner.deleting() {
            out.own.push(object);
        } else if !object.deleting() {
            let mut released = Value::clone(&object);
            let left: Vec<Value> = object
                .owners()
                .iter()
                .filter(|held| held.text(&["uid"]) != owner.uid())
                .cloned()
                .collect();
            set(&mut released, &["metadata", "ownerReferences"], left);
            out.actions.push(Action::Update {
                resource: resource.to_owned(),
                object: released,
            });
        }
    }
    if owner.deleting() || selector.is_empty() {
        return out;
    }
    for object in world.orphans(resource, owner.namespace()) {
        if selector.matches(object.labels()) && !object.deleting() && !finished(&object) {
            let mut adopted = Value::clone(&object);
            let mut owners = object.owners().to_vec();
            owners.push(controller_ref(owner, api_version, kind));
            set(&mut adopted, &["metadata", "ownerReferences"], owners);
            out.actions.push(Action::Update {
                resource: resource.to_owned(),
                object: adopted,
            });
            out.own.push(object);
        }
    }
    out
}

/// The owners that a change of a pod (or replica set) concerns: its controller before and after, and, where it has
/// none, every owner of that kind whose selector matches.
pub(crate) fn concerned_owners(
    event: &Event<'_>,
    kind: &str,
    resource: &str,
    world: &World,
    keys: &mut Vec<Key>,
) {
    for object in event.old.into_iter().chain(event.new) {
        match object.controller() {
            Some(owner) if owner.text(&["kind"]) == kind => {
                keys.push(Key::new(object.namespace(), owner.text(&["name"])));
            }
            Some(_) => {}
            None => {
                for owner in world.in_namespace(resource, object.namespace()) {
                    let selector = Selector::read(owner.at(&["spec", "selector"]));
                    if selector.matches(object.labels()) {
                        keys.push(Key::of(owner));
                    }
                }
            }
        }
    }
}

/// An integer or percentage of a total.
pub(crate) fn portion(value: &Value, total: i64, up: bool) -> Option<i64> {
    if let Some(number) = value.as_i64() {
        return Some(number);
    }
    let percent = value.as_str()?.strip_suffix('%')?.parse::<i64>().ok()?;
    let product = percent * total;
    Some(if up {
        product.div_euclid(100) + i64::from(product.rem_euclid(100) != 0)
    } else {
        product.div_euclid(100)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_round_as_they_are_told() {
        assert_eq!(portion(&json!("25%"), 10, true), Some(3));
        assert_eq!(portion(&json!("25%"), 10, false), Some(2));
        assert_eq!(portion(&json!(4), 10, false), Some(4));
        assert_eq!(portion(&json!("x"), 10, false), None);
    }

    #[test]
    fn a_pod_is_available_once_it_has_been_ready_long_enough() {
        let pod = json!({"status": {"conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:00:10Z"},
        ]}});
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        assert!(available(&pod, 0, at(10)));
        assert!(!available(&pod, 5, at(14)));
        assert!(available(&pod, 5, at(15)));
        let pods = [Arc::new(pod)];
        assert_eq!(
            until_available(&pods, 5, at(12)),
            Some(Duration::from_secs(3))
        );
        assert_eq!(until_available(&pods, 5, at(15)), None);
    }
}
