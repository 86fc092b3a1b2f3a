//! Typed reading of Kubernetes objects held as JSON values.
//!
//! Every component of the cluster reads objects through this one trait, so that "absent", "null" and "wrong type" mean
//! the same everywhere: the zero value of what was asked for, as in the Go types of the real components.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

static NULL: Value = Value::Null;

/// Reading access to a Kubernetes object or a part of one.
pub trait Fields {
    /// The value at a path of field names; `null` where the path ends early.
    fn at(&self, path: &[&str]) -> &Value;

    /// The string at a path, or "".
    fn text(&self, path: &[&str]) -> &str {
        self.at(path).as_str().unwrap_or_default()
    }

    /// The integer at a path.
    fn int(&self, path: &[&str]) -> Option<i64> {
        self.at(path).as_i64()
    }

    /// The boolean at a path, or false.
    fn flag(&self, path: &[&str]) -> bool {
        self.at(path).as_bool().unwrap_or_default()
    }

    /// The array at a path, or an empty one.
    fn items(&self, path: &[&str]) -> &[Value] {
        self.at(path).as_array().map_or(&[], Vec::as_slice)
    }

    /// The time at a path.
    fn time(&self, path: &[&str]) -> Option<Timestamp> {
        self.at(path).as_str().and_then(|text| text.parse().ok())
    }

    /// `metadata.name`.
    fn name(&self) -> &str {
        self.text(&["metadata", "name"])
    }

    /// `metadata.namespace`, "" for cluster-scoped objects.
    fn namespace(&self) -> &str {
        self.text(&["metadata", "namespace"])
    }

    /// `metadata.uid`.
    fn uid(&self) -> &str {
        self.text(&["metadata", "uid"])
    }

    /// `metadata.generation`.
    fn generation(&self) -> i64 {
        self.int(&["metadata", "generation"]).unwrap_or_default()
    }

    /// `metadata.labels`.
    fn labels(&self) -> &Value {
        self.at(&["metadata", "labels"])
    }

    /// One label.
    fn label(&self, key: &str) -> Option<&str> {
        self.at(&["metadata", "labels", key]).as_str()
    }

    /// One annotation.
    fn annotation(&self, key: &str) -> Option<&str> {
        self.at(&["metadata", "annotations", key]).as_str()
    }

    /// Whether a deletion has begun.
    fn deleting(&self) -> bool {
        !self.at(&["metadata", "deletionTimestamp"]).is_null()
    }

    /// When the object was created.
    fn created(&self) -> Timestamp {
        self.time(&["metadata", "creationTimestamp"])
            .unwrap_or_default()
    }

    /// The owner references.
    fn owners(&self) -> &[Value] {
        self.items(&["metadata", "ownerReferences"])
    }

    /// The reference to the owner that manages this object.
    fn controller(&self) -> Option<&Value> {
        self.owners()
            .iter()
            .find(|owner| owner.flag(&["controller"]))
    }

    /// Whether `metadata.finalizers` holds this one.
    fn has_finalizer(&self, finalizer: &str) -> bool {
        self.items(&["metadata", "finalizers"])
            .iter()
            .any(|held| held.as_str() == Some(finalizer))
    }

    /// A condition of `status.conditions` by its type.
    fn condition(&self, kind: &str) -> Option<&Value> {
        self.items(&["status", "conditions"])
            .iter()
            .find(|held| held.text(&["type"]) == kind)
    }

    /// Whether a condition is `True`.
    fn condition_true(&self, kind: &str) -> bool {
        self.condition(kind)
            .is_some_and(|held| held.text(&["status"]) == "True")
    }
}

impl Fields for Value {
    fn at(&self, path: &[&str]) -> &Value {
        let mut here = self;
        for field in path {
            match here {
                Value::Object(map) => match map.get(*field) {
                    Some(next) => here = next,
                    None => return &NULL,
                },
                _ => return &NULL,
            }
        }
        here
    }
}

/// A mutable place inside an object, made on the way where it is missing.
pub(crate) fn place<'a>(object: &'a mut Value, path: &[&str]) -> &'a mut Value {
    let mut here = object;
    for field in path {
        if !here.is_object() {
            *here = Value::Object(Map::new());
        }
        here = match here {
            Value::Object(map) => map.entry(*field).or_insert(Value::Null),
            other => other,
        };
    }
    here
}

/// Sets the value at a path, making what is missing on the way.
pub(crate) fn set(object: &mut Value, path: &[&str], value: impl Into<Value>) {
    *place(object, path) = value.into();
}

/// Removes the field at the end of a path; nothing happens where it is not there.
pub(crate) fn unset(object: &mut Value, path: &[&str]) {
    let Some((last, parents)) = path.split_last() else {
        return;
    };
    let mut here = object;
    for field in parents {
        match here.get_mut(*field) {
            Some(next) => here = next,
            None => return,
        }
    }
    if let Value::Object(map) = here {
        map.remove(*last);
    }
}

/// Removes a finalizer and says whether it was there.
pub(crate) fn remove_finalizer(object: &mut Value, finalizer: &str) -> bool {
    let Some(held) = place(object, &["metadata", "finalizers"]).as_array_mut() else {
        return false;
    };
    let before = held.len();
    held.retain(|name| name.as_str() != Some(finalizer));
    let removed = held.len() != before;
    if held.is_empty() {
        unset(object, &["metadata", "finalizers"]);
    }
    removed
}

/// A condition as `set_condition` writes it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Condition<'a> {
    pub(crate) kind: &'a str,
    pub(crate) status: &'a str,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
}

/// Writes a condition into `status.conditions` and says whether anything changed.
/// The transition time moves only with the status, as in every upstream controller.
pub(crate) fn set_condition(object: &mut Value, new: Condition<'_>, now: &str) -> bool {
    let list = place(object, &["status", "conditions"]);
    if !list.is_array() {
        *list = Value::Array(Vec::new());
    }
    let Some(list) = list.as_array_mut() else {
        return false;
    };
    let mut written = json!({
        "type": new.kind, "status": new.status, "lastTransitionTime": now,
    });
    for (field, text) in [("reason", new.reason), ("message", new.message)] {
        if !text.is_empty() {
            set(&mut written, &[field], text);
        }
    }
    let Some(held) = list
        .iter_mut()
        .find(|held| held.text(&["type"]) == new.kind)
    else {
        list.push(written);
        return true;
    };
    let same = held.text(&["status"]) == new.status
        && held.text(&["reason"]) == new.reason
        && held.text(&["message"]) == new.message;
    if same {
        return false;
    }
    if held.text(&["status"]) == new.status {
        let since = held.at(&["lastTransitionTime"]).clone();
        set(&mut written, &["lastTransitionTime"], since);
    }
    *held = written;
    true
}

/// Removes a condition and says whether it was there.
pub(crate) fn remove_condition(object: &mut Value, kind: &str) -> bool {
    let Some(list) = place(object, &["status", "conditions"]).as_array_mut() else {
        return false;
    };
    let before = list.len();
    list.retain(|held| held.text(&["type"]) != kind);
    list.len() != before
}

/// An owner reference that makes `owner` the controller of what carries it.
pub(crate) fn controller_ref(owner: &Value, api_version: &str, kind: &str) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind, "name": owner.name(), "uid": owner.uid(),
        "controller": true, "blockOwnerDeletion": true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_null_and_wrong_types_read_as_zero_values() {
        let object = json!({"metadata": {"name": "a", "labels": null}, "spec": {"replicas": "3"}});
        assert_eq!(object.name(), "a");
        assert_eq!(object.namespace(), "");
        assert_eq!(object.label("x"), None);
        assert_eq!(object.int(&["spec", "replicas"]), None);
        assert!(object.items(&["spec", "replicas"]).is_empty());
    }

    #[test]
    fn a_condition_keeps_its_transition_time_until_its_status_changes() {
        let mut object = json!({});
        let ready = |status, message| Condition {
            kind: "Ready",
            status,
            reason: "R",
            message,
        };
        assert!(set_condition(&mut object, ready("True", "one"), "t1"));
        assert!(!set_condition(&mut object, ready("True", "one"), "t2"));
        assert!(set_condition(&mut object, ready("True", "two"), "t3"));
        assert_eq!(
            object
                .condition("Ready")
                .unwrap()
                .text(&["lastTransitionTime"]),
            "t1"
        );
        assert!(set_condition(&mut object, ready("False", "two"), "t4"));
        assert_eq!(
            object
                .condition("Ready")
                .unwrap()
                .text(&["lastTransitionTime"]),
            "t4"
        );
    }

    #[test]
    fn the_last_finalizer_takes_the_list_with_it() {
        let mut object = json!({"metadata": {"finalizers": ["a", "b"]}});
        assert!(remove_finalizer(&mut object, "a"));
        assert!(!remove_finalizer(&mut object, "a"));
        assert!(remove_finalizer(&mut object, "b"));
        assert!(object.at(&["metadata", "finalizers"]).is_null());
    }
}
