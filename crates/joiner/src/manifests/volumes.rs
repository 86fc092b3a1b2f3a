//! Where volumes can be: bound ones where they are, others where their class can make them.

use std::collections::BTreeMap;

use joiner_core::name::Name;
use joiner_core::problem::{NodeAffinityTerm, Volume};
use joiner_core::requirement::{Expression, Operator};
use serde::Deserialize;

use super::Object;
use super::objects::{Claim, ClaimSpec, NodeTerms};
use crate::failure::Failure;

#[derive(Deserialize)]
struct PersistentVolume {
    spec: PersistentVolumeSpec,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PersistentVolumeSpec {
    node_affinity: VolumeAffinity,
    csi: Option<Csi>,
    storage_class_name: Option<Name>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct VolumeAffinity {
    required: NodeTerms,
}

#[derive(Deserialize)]
struct Csi {
    driver: Name,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StorageClass {
    #[serde(default)]
    provisioner: Name,
    #[serde(default)]
    allowed_topologies: Vec<AllowedTopology>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AllowedTopology {
    match_label_expressions: Vec<AllowedLabel>,
}

#[derive(Deserialize)]
struct AllowedLabel {
    key: Name,
    values: Vec<Name>,
}

/// Claims, volumes and classes.
pub(super) struct Storage {
    claims: BTreeMap<(Name, Name), ClaimSpec>,
    volumes: BTreeMap<Name, PersistentVolumeSpec>,
    classes: BTreeMap<Name, StorageClass>,
    default_class: Option<Name>,
}

impl Storage {
    pub(super) fn collect(objects: &[Object]) -> Result<Self, Failure> {
        let mut storage = Storage {
            claims: BTreeMap::new(),
            volumes: BTreeMap::new(),
            classes: BTreeMap::new(),
            default_class: None,
        };
        for object in objects {
            let name = object.meta.name.clone();
            match object.kind.as_str() {
                "PersistentVolumeClaim" => {
                    let claim: Claim = object.read()?;
                    let key = (object.meta.namespace(), name);
                    storage.claims.insert(key, claim.spec);
                }
                "PersistentVolume" => {
                    let volume: PersistentVolume = object.read()?;
                    storage.volumes.insert(name, volume.spec);
                }
                "StorageClass" => {
                    let key = "storageclass.kubernetes.io/is-default-class";
                    if object.meta.annotations.get(key).map(String::as_str) == Some("true") {
                        storage.default_class = Some(name.clone());
                    }
                    storage.classes.insert(name, object.read()?);
                }
                _ => {}
            }
        }
        Ok(storage)
    }

    /// A claim as the pods that mount it see it; `None` if nothing is known about it, and it binds nobody.
    pub(super) fn volume(
        &self,
        namespace: &Name,
        claim: &str,
        template: Option<&ClaimSpec>,
    ) -> Option<Volume> {
        let key = (namespace.clone(), Name::from(claim));
        let spec = self.claims.get(&key).or(template)?;
        let bound = spec
            .volume_name
            .as_ref()
            .and_then(|name| self.volumes.get(name));
        let class_name = spec
            .storage_class_name
            .as_ref()
            .or_else(|| bound.and_then(|volume| volume.storage_class_name.as_ref()))
            .or(self.default_class.as_ref());
        let class = class_name.and_then(|name| self.classes.get(name));
        let driver = bound
            .and_then(|volume| volume.csi.as_ref())
            .map(|csi| csi.driver.clone())
            .or_else(|| class.map(|class| class.provisioner.clone()));
        let topology = match (bound, class) {
            (Some(volume), _) => where_it_is(volume),
            (None, Some(class)) => where_it_can_be(class),
            (None, None) => Vec::new(),
        };
        Some(Volume {
            claim: format!("{namespace}/{claim}").into(),
            driver: driver.unwrap_or_default(),
            topology,
        })
    }
}

fn where_it_is(volume: &PersistentVolumeSpec) -> Vec<NodeAffinityTerm> {
    let terms = volume.node_affinity.required.node_selector_terms.iter();
    terms.map(|term| term.match_expressions.clone()).collect()
}

fn where_it_can_be(class: &StorageClass) -> Vec<NodeAffinityTerm> {
    let terms = class.allowed_topologies.iter();
    terms
        .map(|term| {
            let labels = term.match_label_expressions.iter();
            labels
                .map(|label| Expression {
                    key: label.key.clone(),
                    operator: Operator::In,
                    values: label.values.clone(),
                    min_values: None,
                })
                .collect()
        })
        .collect()
}
