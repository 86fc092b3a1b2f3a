//! A mirror of the cluster with the indexes that controllers ask for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::api::{Change, ChangeKind, ResourceInfo};
use crate::cluster::Key;
use crate::cluster::fields::Fields as _;

/// A change with what was there before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event<'a> {
    pub(crate) resource: &'a str,
    pub(crate) old: Option<&'a Arc<Value>>,
    /// Nothing when the object is gone.
    pub(crate) new: Option<&'a Arc<Value>>,
}

impl Event<'_> {
    /// The object, as it is or as it last was.
    pub(crate) fn object(&self) -> Option<&Value> {
        self.new.or(self.old).map(|object| &**object)
    }
}

/// Where an object is found.
pub(crate) type Place = (String, Key);

/// Everything the controllers know.
#[derive(Debug, Default)]
pub(crate) struct World {
    tables: BTreeMap<String, BTreeMap<Key, Arc<Value>>>,
    by_uid: BTreeMap<String, Place>,
    owned: BTreeMap<String, BTreeSet<Place>>,
    pods_on: BTreeMap<String, BTreeSet<Key>>,
    orphans: BTreeMap<(String, String), BTreeSet<Key>>,
    resources: BTreeMap<(String, String), ResourceInfo>,
}

impl World {
    /// Takes in a change and returns what was there before.
    pub(crate) fn take_in(&mut self, resource: &str, change: &Change) -> Option<Arc<Value>> {
        let key = Key::of(&change.object);
        let old = self
            .tables
            .get(resource)
            .and_then(|table| table.get(&key))
            .map(Arc::clone);
        if let Some(old) = &old {
            self.unindex(resource, &key, old);
        }
        if !self.tables.contains_key(resource) {
            self.tables.insert(resource.to_owned(), BTreeMap::new());
        }
        let Some(table) = self.tables.get_mut(resource) else {
            return old;
        };
        if change.kind == ChangeKind::Deleted {
            table.remove(&key);
        } else {
            table.insert(key.clone(), Arc::clone(&change.object));
            self.index(resource, &key, &change.object);
        }
        old
    }

    /// Takes note of what the server serves, to find owners by their kind.
    pub(crate) fn set_resources(&mut self, served: &[ResourceInfo]) {
        self.resources = served
            .iter()
            .map(|info| ((info.group.clone(), info.kind.clone()), info.clone()))
            .collect();
    }

    /// The resource whose objects have this API version and kind.
    pub(crate) fn resource_of(&self, api_version: &str, kind: &str) -> Option<&ResourceInfo> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        self.resources.get(&(group.to_owned(), kind.to_owned()))
    }

    /// All resources that the server serves.
    pub(crate) fn resources(&self) -> impl Iterator<Item = &ResourceInfo> {
        self.resources.values()
    }

    /// An object.
    pub(crate) fn get(&self, resource: &str, key: &Key) -> Option<&Arc<Value>> {
        self.tables.get(resource)?.get(key)
    }

    /// All objects of a resource, by key.
    pub(crate) fn list(&self, resource: &str) -> impl Iterator<Item = &Arc<Value>> {
        self.tables
            .get(resource)
            .into_iter()
            .flat_map(BTreeMap::values)
    }

    /// The objects of a resource in one namespace, by name.
    pub(crate) fn in_namespace<'a>(
        &'a self,
        resource: &str,
        namespace: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Value>> {
        let from = Key::new(namespace, "");
        self.tables
            .get(resource)
            .into_iter()
            .flat_map(move |table| table.range(from.clone()..))
            .take_while(move |(key, _)| key.namespace == namespace)
            .map(|(_, object)| object)
    }

    /// The object of that uid.
    pub(crate) fn by_uid(&self, uid: &str) -> Option<(&Place, &Arc<Value>)> {
        let place = self.by_uid.get(uid)?;
        Some((place, self.get(&place.0, &place.1)?))
    }

    /// Where the objects are that name this owner.
    pub(crate) fn dependents(&self, uid: &str) -> impl Iterator<Item = &Place> {
        self.owned.get(uid).into_iter().flatten()
    }

    /// The objects of a resource that this owner controls.
    pub(crate) fn controlled(&self, uid: &str, resource: &str) -> Vec<Arc<Value>> {
        self.dependents(uid)
            .filter(|(name, _)| name == resource)
            .filter_map(|(name, key)| self.get(name, key))
            .filter(|object| {
                object
                    .controller()
                    .is_some_and(|owner| owner.text(&["uid"]) == uid)
            })
            .map(Arc::clone)
            .collect()
    }

    /// The pods and replica sets of a namespace that nobody controls.
    pub(crate) fn orphans(&self, resource: &str, namespace: &str) -> Vec<Arc<Value>> {
        self.orphans
            .get(&(resource.to_owned(), namespace.to_owned()))
            .into_iter()
            .flatten()
            .filter_map(|key| self.get(resource, key))
            .map(Arc::clone)
            .collect()
    }

    /// The pods bound to a node.
    pub(crate) fn pods_on(&self, node: &str) -> impl Iterator<Item = &Arc<Value>> {
        let keys = self.pods_on.get(node).into_iter().flatten();
        keys.filter_map(|key| self.get("pods", key))
    }

    /// Names of nodes that have pods, whether they exist or not.
    pub(crate) fn nodes_with_pods(&self) -> impl Iterator<Item = &str> {
        self.pods_on.keys().map(String::as_str)
    }

    fn index(&mut self, resource: &str, key: &Key, object: &Value) {
        let place = || (resource.to_owned(), key.clone());
        self.by_uid.insert(object.uid().to_owned(), place());
        for owner in object.owners() {
            self.owned
                .entry(owner.text(&["uid"]).to_owned())
                .or_default()
                .insert(place());
        }
        if is_adoptable(resource) && object.controller().is_none() {
            let shelf = (resource.to_owned(), key.namespace.clone());
            self.orphans.entry(shelf).or_default().insert(key.clone());
        }
        let node = object.text(&["spec", "nodeName"]);
        if resource == "pods" && !node.is_empty() {
            self.pods_on
                .entry(node.to_owned())
                .or_default()
                .insert(key.clone());
        }
    }

    fn unindex(&mut self, resource: &str, key: &Key, object: &Value) {
        // A new object of the same name may have taken the key by now; its uid is its own.
        self.by_uid.remove(object.uid());
        let place = (resource.to_owned(), key.clone());
        for owner in object.owners() {
            remove_from(&mut self.owned, owner.text(&["uid"]), &place);
        }
        if is_adoptable(resource) {
            let shelf = (resource.to_owned(), key.namespace.clone());
            remove_from(&mut self.orphans, &shelf, key);
        }
        if resource == "pods" {
            remove_from(&mut self.pods_on, object.text(&["spec", "nodeName"]), key);
        }
    }
}

fn is_adoptable(resource: &str) -> bool {
    matches!(resource, "pods" | "replicasets.apps")
}

fn remove_from<K, Q, V>(index: &mut BTreeMap<K, BTreeSet<V>>, key: &Q, value: &V)
where
    K: Ord + std::borrow::Borrow<Q>,
    Q: Ord + ?Sized,
    V: Ord,
{
    if let Some(held) = index.get_mut(key) {
        held.remove(value);
        if held.is_empty() {
            index.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn change(kind: ChangeKind, object: Value) -> Change {
        Change {
            kind,
            object: Arc::new(object),
        }
    }

    #[test]
    fn indexes_follow_every_change() {
        let mut world = World::default();
        let pod = |node: &str, owners: Value| {
            json!({
                "metadata": {"name": "p", "namespace": "a", "uid": "1", "ownerReferences": owners},
                "spec": {"nodeName": node},
            })
        };
        world.take_in("pods", &change(ChangeKind::Added, pod("", json!([]))));
        assert_eq!(world.orphans("pods", "a").len(), 1);
        let owner = json!([{"uid": "o", "controller": true}]);
        world.take_in(
            "pods",
            &change(ChangeKind::Modified, pod("n", owner.clone())),
        );
        assert!(world.orphans("pods", "a").is_empty());
        assert_eq!(world.controlled("o", "pods").len(), 1);
        assert_eq!(world.pods_on("n").count(), 1);
        let old = world.take_in("pods", &change(ChangeKind::Deleted, pod("n", owner)));
        assert!(old.is_some());
        assert_eq!(world.pods_on("n").count(), 0);
        assert_eq!(world.dependents("o").count(), 0);
        assert!(world.by_uid("1").is_none());
    }
}
