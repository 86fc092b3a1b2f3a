//! Volumes: where a pod can be because of what it mounts.

use std::collections::BTreeMap;

use joiner_core::labels::{HOSTNAME, ZONE};
use joiner_core::name::Name;
use joiner_core::problem::{NodeAffinityTerm, Volume};
use joiner_core::requirement::{Expression, Operator};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1 as storage;
use kube::ResourceExt as _;

use super::pods::PodKey;
use super::store::Stored;
use super::{World, version};

/// Anything whose details are looked at only when a pod mounts it.
#[derive(Clone, Debug, PartialEq)]
pub struct Named<T> {
    /// Namespace and name; the namespace is empty for what has none.
    pub key: PodKey,
    /// Its identity.
    pub uid: Name,
    /// Version of the object.
    pub version: u64,
    /// What is known of it.
    pub value: T,
}

impl<T> Stored for Named<T> {
    type Key = PodKey;
    fn key(&self) -> PodKey {
        self.key.clone()
    }
    fn uid(&self) -> &Name {
        &self.uid
    }
    fn version(&self) -> u64 {
        self.version
    }
}

/// The same object with a value taken from it.
pub fn named<K: kube::Resource, T>(object: &K, value: T) -> Named<T> {
    Named {
        key: PodKey {
            namespace: object.namespace().unwrap_or_default().into(),
            name: object.name_any().into(),
        },
        uid: object.uid().unwrap_or_default().into(),
        version: version(object.resource_version().as_deref()),
        value,
    }
}

/// A volume claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Volume that it is bound to.
    pub volume: Option<Name>,
    /// Storage class.
    pub class: Option<Name>,
    /// It is to go, or lost its volume.
    pub unusable: bool,
}

/// A volume claim as the engine keeps it.
pub fn lower_claim(claim: &core::PersistentVolumeClaim) -> Named<Claim> {
    let spec = claim.spec.clone().unwrap_or_default();
    let lost = claim
        .status
        .as_ref()
        .is_some_and(|status| status.phase.as_deref() == Some("Lost"));
    let unusable = lost || claim.metadata.deletion_timestamp.is_some();
    named(
        claim,
        Claim {
            volume: spec
                .volume_name
                .filter(|name| !name.is_empty())
                .map(Into::into),
            class: spec
                .storage_class_name
                .filter(|name| !name.is_empty())
                .map(Into::into),
            unusable,
        },
    )
}

/// A volume.
#[derive(Clone, Debug, PartialEq)]
pub struct Persistent {
    /// Driver that attaches it.
    pub driver: Name,
    /// Where it can be used; empty for anywhere.
    pub topology: Vec<NodeAffinityTerm>,
}

/// A volume as the engine keeps it.
pub fn lower_volume(volume: &core::PersistentVolume) -> Named<Persistent> {
    let spec = volume.spec.clone().unwrap_or_default();
    // A volume on a host's own disk says on which host; that host may be gone, and then so is the volume.
    let local = spec.local.is_some() || spec.host_path.is_some();
    let topology = spec
        .node_affinity
        .and_then(|affinity| affinity.required)
        .map(|required| {
            required
                .node_selector_terms
                .iter()
                .map(super::pods::lower_node_term)
                .map(|mut term| {
                    if local {
                        term.retain(|one| &*one.key != HOSTNAME);
                    }
                    term
                })
                .collect::<Vec<_>>()
        })
        .unwrap_or_default();
    let topology = with_zones(topology);
    let anywhere = topology.iter().any(Vec::is_empty);
    let driver = match (&spec.csi, &spec.aws_elastic_block_store) {
        (Some(csi), _) => csi.driver.as_str(),
        (None, Some(_)) => "ebs.csi.aws.com",
        (None, None) => "",
    };
    let value = Persistent {
        driver: driver.into(),
        topology: if anywhere { Vec::new() } else { topology },
    };
    named(volume, value)
}

/// A storage class.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// Driver.
    pub driver: Name,
    /// Volumes are made at once, wherever; pods must wait until that is done.
    pub immediate: bool,
    /// Where volumes can be made; empty for anywhere.
    pub topology: Vec<NodeAffinityTerm>,
}

/// A storage class as the engine keeps it.
pub fn lower_class(class: &storage::StorageClass) -> Named<Class> {
    let topology: Vec<NodeAffinityTerm> = class
        .allowed_topologies
        .iter()
        .flatten()
        .map(|term| {
            term.match_label_expressions
                .iter()
                .flatten()
                .map(|one| Expression {
                    key: one.key.as_str().into(),
                    operator: Operator::In,
                    values: one
                        .values
                        .iter()
                        .map(|value| value.as_str().into())
                        .collect(),
                    min_values: None,
                })
                .collect()
        })
        .collect();
    let value = Class {
        driver: migrated(&class.provisioner).into(),
        immediate: class.volume_binding_mode.as_deref() != Some("WaitForFirstConsumer"),
        topology: with_zones(topology),
    };
    named(class, value)
}

/// What the Cinder driver calls the zone of a node.
const CINDER_ZONE: &str = "topology.cinder.csi.openstack.org/zone";

/// Places of volumes of the Cinder driver by its own label, or by the zone of that name: machines that are still to be
/// bought have only the latter.
fn with_zones(mut terms: Vec<NodeAffinityTerm>) -> Vec<NodeAffinityTerm> {
    let own = |one: &Expression| &*one.key == CINDER_ZONE;
    let zoned = terms.iter().filter(|term| term.iter().any(own)).cloned();
    let zoned = zoned.map(|mut term: NodeAffinityTerm| {
        for one in term.iter_mut().filter(|one| own(one)) {
            one.key = ZONE.into();
        }
        term
    });
    let zoned: Vec<NodeAffinityTerm> = zoned.collect();
    terms.extend(zoned);
    terms
}

/// The driver that took over from one that was built into Kubernetes.
fn migrated(provisioner: &str) -> &str {
    match provisioner {
        "kubernetes.io/aws-ebs" => "ebs.csi.aws.com",
        "kubernetes.io/gce-pd" => "pd.csi.storage.gke.io",
        "kubernetes.io/azure-disk" => "disk.csi.azure.com",
        "kubernetes.io/cinder" => "cinder.csi.openstack.org",
        "kubernetes.io/vsphere-volume" => "csi.vsphere.vmware.com",
        other => other,
    }
}

/// How many volumes of each driver a node takes.
pub fn lower_csi_node(node: &storage::CSINode) -> Named<BTreeMap<Name, u32>> {
    let limits = node
        .spec
        .drivers
        .iter()
        .filter_map(|driver| {
            let count = driver.allocatable.as_ref()?.count?;
            Some((driver.name.as_str().into(), u32::try_from(count).ok()?))
        })
        .collect();
    named(node, limits)
}

/// A volume that is attached to a node, or on its way.
#[derive(Clone, Debug, PartialEq)]
pub struct Attachment {
    /// Node.
    pub node: Name,
    /// Volume.
    pub volume: Option<Name>,
}

/// An attachment as the engine keeps it.
pub fn lower_attachment(attachment: &storage::VolumeAttachment) -> Named<Attachment> {
    let value = Attachment {
        node: attachment.spec.node_name.as_str().into(),
        volume: attachment
            .spec
            .source
            .persistent_volume_name
            .as_deref()
            .map(Into::into),
    };
    named(attachment, value)
}

impl World {
    /// The volumes of a pod, or why it cannot be placed yet.
    ///
    /// karpenter: pkg/controllers/provisioning/scheduling/volumetopology.go
    pub fn volumes(&self, namespace: &Name, claims: &[Name]) -> Result<Vec<Volume>, String> {
        claims
            .iter()
            .map(|claim| self.volume(namespace, claim))
            .collect()
    }

    fn volume(&self, namespace: &Name, claim: &Name) -> Result<Volume, String> {
        let key = |namespace: &Name, name: &Name| PodKey {
            namespace: namespace.clone(),
            name: name.clone(),
        };
        let nowhere: Name = "".into();
        let known = self
            .claims
            .get(&key(namespace, claim))
            .ok_or_else(|| format!("volume claim {claim:?} does not exist"))?;
        if known.value.unusable {
            return Err(format!("volume claim {claim:?} is lost or being deleted"));
        }
        let name: Name = format!("{namespace}/{claim}").into();
        if let Some(volume) = &known.value.volume {
            let volume = self
                .volumes
                .get(&key(&nowhere, volume))
                .ok_or_else(|| format!("volume {volume:?} of claim {claim:?} does not exist"))?;
            return Ok(Volume {
                claim: name,
                driver: volume.value.driver.clone(),
                topology: volume.value.topology.clone(),
            });
        }
        let class = known.value.class.as_ref().ok_or_else(|| {
            format!("volume claim {claim:?} is not bound and names no storage class")
        })?;
        let class = self
            .storage_classes
            .get(&key(&nowhere, class))
            .ok_or_else(|| {
                format!("storage class {class:?} of volume claim {claim:?} does not exist")
            })?;
        if class.value.immediate {
            return Err(format!(
                "volume claim {claim:?} is to be bound at once and is not bound yet"
            ));
        }
        Ok(Volume {
            claim: name,
            driver: class.value.driver.clone(),
            topology: class.value.topology.clone(),
        })
    }
}
