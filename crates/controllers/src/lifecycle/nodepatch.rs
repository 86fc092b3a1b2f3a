//! Changes to a node: only our own fields, and only if the node is still as it was when we looked.

use std::collections::BTreeMap;

use jiff::Timestamp;
use joiner_core::name::{Labels, Name};
use joiner_core::taints::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, json};

use super::Observed;
use crate::view::nodes::{NodeRecord, TaintTime};

/// Keeps load balancers away from a node that goes.
const NO_LOAD_BALANCER: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// Who did so, as Karpenter has it.
const BY: &str = "karpenter";

/// What is to change on a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeChange {
    /// Name.
    pub name: Name,
    /// This very one.
    pub uid: Name,
    /// As it was when we looked.
    pub version: u64,
    /// Labels to set.
    pub labels: Labels,
    /// Labels to take off.
    pub unlabelled: Vec<Name>,
    /// Annotations to set.
    pub annotations: Labels,
    /// All its taints from now on; `None` leaves them alone.
    pub taints: Option<Vec<Taint>>,
    /// When taints were added, as far as that is known.
    pub taint_times: Vec<TaintTime>,
    /// When taints that the node does not have yet are added; `None` if that does not matter.
    pub taint_time: Option<Timestamp>,
    /// Taints that we do not understand and keep.
    pub strange_taints: Vec<(Name, Name, Name)>,
    /// All its finalizers from now on; `None` leaves them alone.
    pub finalizers: Option<Vec<Name>>,
    /// Owner to add.
    pub owner: Option<OwnerReference>,
    /// Whether it is to be cordoned.
    pub cordon: bool,
}

impl NodeChange {
    /// Nothing yet.
    pub fn of(node: &NodeRecord) -> Self {
        NodeChange {
            name: node.name.clone(),
            uid: node.uid.clone(),
            version: node.version,
            strange_taints: node.strange_taints.clone(),
            taint_times: node.taint_times.clone(),
            ..Self::default()
        }
    }

    /// Whether nothing is to change.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
            && self.unlabelled.is_empty()
            && self.annotations.is_empty()
            && self.taints.is_none()
            && self.finalizers.is_none()
            && self.owner.is_none()
            && !self.cordon
    }

    /// Sees to it that the node has these labels.
    pub fn ensure_labels<'a>(
        &mut self,
        node: &NodeRecord,
        wanted: impl IntoIterator<Item = (&'a Name, &'a Name)>,
    ) {
        for (key, value) in wanted {
            if node.labels.get(key) != Some(value) {
                self.labels.insert(key.clone(), value.clone());
            }
        }
    }

    /// Keeps load balancers away from the node.
    pub fn ensure_unbalanced(&mut self, node: &NodeRecord) {
        let label: (Name, Name) = (NO_LOAD_BALANCER.into(), BY.into());
        self.ensure_labels(node, [(&label.0, &label.1)]);
    }

    /// Takes back what [`NodeChange::ensure_unbalanced`] did.
    pub fn ensure_balanced(&mut self, node: &NodeRecord) {
        let ours = node.labels.get(NO_LOAD_BALANCER);
        if ours.is_some_and(|by| &**by == BY) {
            self.unlabelled.push(NO_LOAD_BALANCER.into());
        }
    }

    /// Sees to it that the node has and lacks these taints; one with the same key and effect counts as the same.
    pub fn ensure_taints(
        &mut self,
        node: &NodeRecord,
        add: &[Taint],
        remove: &[(&str, joiner_core::taints::Effect)],
    ) {
        let mut taints = self.taints.clone().unwrap_or_else(|| node.taints.clone());
        taints.retain(|taint| {
            !remove
                .iter()
                .any(|(key, effect)| &*taint.key == *key && taint.effect == *effect)
        });
        for taint in add {
            let there = |one: &Taint| one.key == taint.key && one.effect == taint.effect;
            if !taints.iter().any(there) {
                taints.push(taint.clone());
            }
        }
        if taints != node.taints {
            self.taints = Some(taints);
        }
    }

    /// Sees to it that the node says whose it is: by our mark, and by the owner that other tools read.
    pub fn ensure_owned(&mut self, node: &NodeRecord, observed: &Observed) {
        if node.mark.as_ref() != Some(&observed.mark) {
            self.annotations.extend(observed.mark.annotations());
        }
        if let Some(owner) = &observed.owner
            && !node.owners.iter().any(|uid| **uid == *owner.uid)
        {
            self.owner = Some(owner.clone());
        }
    }

    /// Sees to it that the node has, or lacks, a finalizer.
    pub fn ensure_finalizer(&mut self, node: &NodeRecord, finalizer: &str, wanted: bool) {
        let there = node.finalizers.iter().any(|one| &**one == finalizer);
        if there != wanted {
            let mut all = node.finalizers.clone();
            all.retain(|one| &**one != finalizer);
            if wanted {
                all.push(finalizer.into());
            }
            self.finalizers = Some(all);
        }
    }

    /// When a taint was added, in whole seconds as the API server keeps them, rounded up: nothing happens too early.
    fn time_of(&self, taint: &Taint) -> Option<Timestamp> {
        let known = self.taint_times.iter().find(|one| one.is_of(taint));
        let time = known.map(|one| one.time).or(self.taint_time)?;
        let up = i64::from(time.subsec_nanosecond() > 0);
        Timestamp::from_second(time.as_second() + up).ok()
    }

    /// As a JSON merge patch. It carries the version, so that lists are never replaced blindly.
    pub fn patch(&self, owners: &[OwnerReference]) -> Value {
        let mut metadata = json!({"uid": &*self.uid, "resourceVersion": self.version.to_string()});
        let off = self.unlabelled.iter();
        let off = off.map(|key| (key.to_string(), Value::Null));
        let map = |labels: &Labels| -> BTreeMap<String, String> {
            labels
                .iter()
                .map(|(key, value)| (key.to_string(), value.to_string()))
                .collect()
        };
        if !(self.labels.is_empty() && self.unlabelled.is_empty()) {
            let on = map(&self.labels).into_iter();
            let on = on.map(|(key, value)| (key, Value::String(value)));
            metadata["labels"] = Value::Object(on.chain(off).collect());
        }
        if !self.annotations.is_empty() {
            metadata["annotations"] = json!(map(&self.annotations));
        }
        if let Some(finalizers) = &self.finalizers {
            metadata["finalizers"] =
                json!(finalizers.iter().map(AsRef::as_ref).collect::<Vec<&str>>());
        }
        if let Some(owner) = &self.owner {
            let others = owners.iter().filter(|one| one.uid != owner.uid).cloned();
            metadata["ownerReferences"] = json!(others.chain([owner.clone()]).collect::<Vec<_>>());
        }
        let mut patch = json!({ "metadata": metadata });
        if let Some(taints) = &self.taints {
            let known = taints.iter().map(|taint| {
                let mut one = json!({"key": &*taint.key, "value": &*taint.value, "effect": taint.effect.to_string()});
                if let Some(time) = self.time_of(taint) {
                    one["timeAdded"] = json!(time.to_string());
                }
                one
            });
            let strange = self
                .strange_taints
                .iter()
                .map(|(key, value, effect)| json!({"key": &**key, "value": &**value, "effect": &**effect}));
            patch["spec"] = json!({"taints": known.chain(strange).collect::<Vec<_>>()});
        }
        if self.cordon {
            patch["spec"]["unschedulable"] = json!(true);
        }
        patch
    }
}
