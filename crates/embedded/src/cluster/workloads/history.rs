//! Revisions: hashes of pod templates, and `ControllerRevision`s for stateful and daemon sets.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Action, World};
use crate::cluster::fields::{Fields as _, controller_ref, unset};

/// The resource of `ControllerRevision`s.
pub(crate) const REVISIONS: &str = "controllerrevisions.apps";
/// The label that tells which revision a pod was made from.
pub(crate) const REVISION_LABEL: &str = "controller-revision-hash";

/// The alphabet of upstream's `SafeEncodeString`: no vowels, so no words.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// A short name for a value: equal values have equal ones, on every machine.
pub(crate) fn fingerprint(value: &Value, salt: i64) -> String {
    // FNV-1a, as upstream hashes templates; what is hashed differs, so the names do too.
    let mut hash: u32 = 0x811c_9dc5;
    let mut eat = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
    };
    eat(value.to_string().as_bytes());
    if salt > 0 {
        eat(&salt.to_le_bytes());
    }
    hash.to_string()
        .bytes()
        .map(|digit| char::from(LETTERS[usize::from(digit) % LETTERS.len()]))
        .collect()
}

/// A pod template as its controller compares it: without the hash label that was added to it.
pub(crate) fn bare_template(template: &Value) -> Value {
    let mut bare = template.clone();
    unset(&mut bare, &["metadata", "labels", "pod-template-hash"]);
    unset(&mut bare, &["metadata", "creationTimestamp"]);
    let empty = |field: &Value| field.as_object().is_some_and(serde_json::Map::is_empty);
    if empty(bare.at(&["metadata", "labels"])) {
        unset(&mut bare, &["metadata", "labels"]);
    }
    if empty(bare.at(&["metadata"])) {
        unset(&mut bare, &["metadata"]);
    }
    bare
}

/// The revisions of an owner, oldest first.
pub(crate) fn revisions(owner: &Value, world: &World) -> Vec<Arc<Value>> {
    let mut found = world.controlled(owner.uid(), REVISIONS);
    found.sort_by_key(|revision| (revision.int(&["revision"]), revision.name().to_owned()));
    found
}

/// The revision that holds the owner's present template, made if there is none.
#[derive(Debug)]
pub(crate) struct Current {
    pub(crate) name: String,
    pub(crate) hash: String,
    pub(crate) actions: Vec<Action>,
}

/// Finds or makes the revision of the owner's present template.
pub(crate) fn current(
    owner: &Value,
    (api_version, kind): (&str, &str),
    held: &[Arc<Value>],
) -> Current {
    let data = json!({"spec": {"template": bare_template(owner.at(&["spec", "template"]))}});
    let newest = held
        .iter()
        .filter_map(|revision| revision.int(&["revision"]))
        .max();
    let next = newest.unwrap_or_default() + 1;
    let hash_of = |revision: &Value| {
        revision
            .label(REVISION_LABEL)
            .unwrap_or_default()
            .to_owned()
    };
    if let Some(same) = held.iter().find(|revision| *revision.at(&["data"]) == data) {
        let mut actions = Vec::new();
        // Going back to an old template makes its revision the newest again.
        if same.int(&["revision"]) != newest {
            let mut raised = Value::clone(same);
            raised["revision"] = json!(next);
            actions.push(Action::Update {
                resource: REVISIONS.to_owned(),
                object: raised,
            });
        }
        return Current {
            name: same.name().to_owned(),
            hash: hash_of(same),
            actions,
        };
    }
    let hash = fingerprint(
        &data,
        owner.int(&["status", "collisionCount"]).unwrap_or_default(),
    );
    let name = format!("{}-{hash}", owner.name());
    let mut labels = owner
        .at(&["spec", "template", "metadata", "labels"])
        .clone();
    if !labels.is_object() {
        labels = json!({});
    }
    labels[REVISION_LABEL] = json!(hash);
    let object = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {
            "name": name, "namespace": owner.namespace(), "labels": labels,
            "ownerReferences": [controller_ref(owner, api_version, kind)],
        },
        "data": data, "revision": next,
    });
    let create = Action::Create {
        resource: REVISIONS,
        namespace: owner.namespace().to_owned(),
        object,
    };
    Current {
        name,
        hash,
        actions: vec![create],
    }
}

/// Removes revisions that no pod is made from, beyond the number the owner keeps.
pub(crate) fn prune(
    owner: &Value,
    held: &[Arc<Value>],
    in_use: impl Fn(&Value) -> bool,
) -> Vec<Action> {
    let keep = owner.int(&["spec", "revisionHistoryLimit"]).unwrap_or(10);
    let idle: Vec<_> = held.iter().filter(|revision| !in_use(revision)).collect();
    let surplus = idle
        .len()
        .saturating_sub(usize::try_from(keep).unwrap_or_default());
    idle.into_iter()
        .take(surplus)
        .map(|revision| Action::delete(REVISIONS, revision))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_templates_have_equal_fingerprints_and_salt_changes_them() {
        let template = json!({"spec": {"a": 1}});
        assert_eq!(fingerprint(&template, 0), fingerprint(&template.clone(), 0));
        assert_ne!(fingerprint(&template, 0), fingerprint(&template, 1));
        assert_ne!(
            fingerprint(&template, 0),
            fingerprint(&json!({"spec": {"a": 2}}), 0)
        );
    }

    #[test]
    fn going_back_to_an_old_template_reuses_its_revision() {
        let owner = |image: &str| {
            json!({
                "metadata": {"name": "db", "namespace": "a", "uid": "u"},
                "spec": {"template": {"spec": {"image": image}}},
            })
        };
        let made = |owner: &Value, held: &[Arc<Value>]| {
            let current = current(owner, ("apps/v1", "StatefulSet"), held);
            match current.actions.into_iter().next() {
                Some(Action::Create { object, .. } | Action::Update { object, .. }) => {
                    Some(Arc::new(object))
                }
                _ => None,
            }
        };
        let first = made(&owner("1"), &[]).unwrap();
        let held = [Arc::clone(&first)];
        assert!(made(&owner("1"), &held).is_none());
        let second = made(&owner("2"), &held).unwrap();
        assert_eq!(second.int(&["revision"]), Some(2));
        let held = [first, second];
        let again = made(&owner("1"), &held).unwrap();
        assert_eq!(
            (again.name(), again.int(&["revision"])),
            (held[0].name(), Some(3))
        );
    }
}
