//! Pods as they are read off the wire: what decisions need, and nothing else.
//!
//! Most of a pod's text says who wrote which field, how containers are started and what became of them. To read all of
//! it a thousand times a second costs more than everything that is decided from it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use kube::Resource;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::json;

use super::NOMINATOR;

/// A pod with those fields only that [`super::lower_pod`] looks at.
#[derive(Clone, Debug)]
pub struct LeanPod(pub core::Pod);

impl Resource for LeanPod {
    type DynamicType = ();
    type Scope = k8s_openapi::NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        core::Pod::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        core::Pod::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        core::Pod::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        core::Pod::plural(&())
    }

    fn meta(&self) -> &meta::ObjectMeta {
        &self.0.metadata
    }

    fn meta_mut(&mut self) -> &mut meta::ObjectMeta {
        &mut self.0.metadata
    }
}

impl<'de> Deserialize<'de> for LeanPod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let pod = Pod::deserialize(deserializer)?;
        Ok(LeanPod(core::Pod {
            metadata: pod.metadata.into(),
            spec: pod.spec.map(Into::into),
            status: pod.status.map(Into::into),
        }))
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Pod {
    metadata: Metadata,
    spec: Option<Spec>,
    status: Option<Status>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    creation_timestamp: Option<meta::Time>,
    deletion_timestamp: Option<meta::Time>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<meta::OwnerReference>>,
    managed_fields: Option<Vec<Manager>>,
}

/// Who wrote what: of interest is only whether we said where a pod should go.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Manager {
    manager: Option<String>,
    fields_v1: Option<Fields>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Fields {
    #[serde(rename = "f:status")]
    status: Option<StatusFields>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StatusFields {
    #[serde(rename = "f:nominatedNodeName")]
    nominated_node_name: Option<IgnoredAny>,
}

impl Manager {
    fn nominates(&self) -> bool {
        let status = self.fields_v1.as_ref().and_then(|all| all.status.as_ref());
        self.manager.as_deref() == Some(NOMINATOR)
            && status.is_some_and(|status| status.nominated_node_name.is_some())
    }
}

impl From<Metadata> for meta::ObjectMeta {
    fn from(given: Metadata) -> Self {
        let mut managers = given.managed_fields.iter().flatten();
        let nominated = managers.any(Manager::nominates);
        let nominator = || meta::ManagedFieldsEntry {
            manager: Some(NOMINATOR.to_owned()),
            fields_v1: Some(meta::FieldsV1(
                json!({"f:status": {"f:nominatedNodeName": {}}}),
            )),
            ..Default::default()
        };
        meta::ObjectMeta {
            name: given.name,
            namespace: given.namespace,
            uid: given.uid,
            resource_version: given.resource_version,
            creation_timestamp: given.creation_timestamp,
            deletion_timestamp: given.deletion_timestamp,
            labels: given.labels,
            annotations: given.annotations,
            owner_references: given.owner_references,
            managed_fields: nominated.then(|| vec![nominator()]),
            ..Default::default()
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    affinity: Option<core::Affinity>,
    containers: Vec<Container>,
    init_containers: Option<Vec<Container>>,
    node_name: Option<String>,
    node_selector: Option<BTreeMap<String, String>>,
    overhead: Option<BTreeMap<String, Quantity>>,
    priority: Option<i32>,
    priority_class_name: Option<String>,
    resource_claims: Option<Vec<core::PodResourceClaim>>,
    resources: Option<core::ResourceRequirements>,
    scheduler_name: Option<String>,
    scheduling_gates: Option<Vec<core::PodSchedulingGate>>,
    termination_grace_period_seconds: Option<i64>,
    tolerations: Option<Vec<core::Toleration>>,
    topology_spread_constraints: Option<Vec<core::TopologySpreadConstraint>>,
    volumes: Option<Vec<Volume>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Container {
    name: String,
    ports: Option<Vec<core::ContainerPort>>,
    resources: Option<core::ResourceRequirements>,
    restart_policy: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Volume {
    name: String,
    ephemeral: Option<IgnoredAny>,
    persistent_volume_claim: Option<core::PersistentVolumeClaimVolumeSource>,
}

fn all<T, U: From<T>>(given: Vec<T>) -> Vec<U> {
    given.into_iter().map(Into::into).collect()
}

impl From<Spec> for core::PodSpec {
    fn from(given: Spec) -> Self {
        core::PodSpec {
            affinity: given.affinity,
            containers: all(given.containers),
            init_containers: given.init_containers.map(all),
            node_name: given.node_name,
            node_selector: given.node_selector,
            overhead: given.overhead,
            priority: given.priority,
            priority_class_name: given.priority_class_name,
            resource_claims: given.resource_claims,
            resources: given.resources,
            scheduler_name: given.scheduler_name,
            scheduling_gates: given.scheduling_gates,
            termination_grace_period_seconds: given.termination_grace_period_seconds,
            tolerations: given.tolerations,
            topology_spread_constraints: given.topology_spread_constraints,
            volumes: given.volumes.map(all),
            ..Default::default()
        }
    }
}

impl From<Container> for core::Container {
    fn from(given: Container) -> Self {
        core::Container {
            name: given.name,
            ports: given.ports,
            resources: given.resources,
            restart_policy: given.restart_policy,
            ..Default::default()
        }
    }
}

impl From<Volume> for core::Volume {
    fn from(given: Volume) -> Self {
        core::Volume {
            name: given.name,
            ephemeral: given
                .ephemeral
                .map(|_| core::EphemeralVolumeSource::default()),
            persistent_volume_claim: given.persistent_volume_claim,
            ..Default::default()
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    phase: Option<String>,
    start_time: Option<meta::Time>,
    conditions: Option<Vec<core::PodCondition>>,
    nominated_node_name: Option<String>,
    container_statuses: Option<Vec<ContainerStatus>>,
    init_container_statuses: Option<Vec<ContainerStatus>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ContainerStatus {
    name: String,
    resources: Option<core::ResourceRequirements>,
    allocated_resources: Option<BTreeMap<String, Quantity>>,
}

impl From<Status> for core::PodStatus {
    fn from(given: Status) -> Self {
        core::PodStatus {
            phase: given.phase,
            start_time: given.start_time,
            conditions: given.conditions,
            nominated_node_name: given.nominated_node_name,
            container_statuses: given.container_statuses.map(all),
            init_container_statuses: given.init_container_statuses.map(all),
            ..Default::default()
        }
    }
}

impl From<ContainerStatus> for core::ContainerStatus {
    fn from(given: ContainerStatus) -> Self {
        core::ContainerStatus {
            name: given.name,
            resources: given.resources,
            allocated_resources: given.allocated_resources,
            ..Default::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Specs, lower_pod};
    use super::*;

    /// A pod with everything that the API server may say about one.
    fn pod() -> serde_json::Value {
        let term = json!({"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"});
        let amounts = json!({"cpu": "700m", "memory": "1Gi"});
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "web-0", "namespace": "shop", "uid": "u-1", "resourceVersion": "77", "generation": 3,
                "creationTimestamp": "2026-11-13T12:00:00Z", "deletionTimestamp": "2026-11-13T13:00:00Z",
                "labels": {"app": "web"},
                "annotations": {
                    "karpenter.sh/do-not-disrupt": "10m", "controller.kubernetes.io/pod-deletion-cost": "9",
                },
                "ownerReferences": [
                    {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "u-0", "controller": true},
                ],
                "managedFields": [
                    {"manager": "kubelet", "operation": "Update", "fieldsV1": {"f:status": {"f:phase": {}}}},
                    {"manager": NOMINATOR, "fieldsV1": {"f:status": {"f:nominatedNodeName": {}}}},
                ],
            },
            "spec": {
                "nodeName": "node-1", "nodeSelector": {"disk": "fast"}, "priority": 7,
                "priorityClassName": "system-node-critical", "terminationGracePeriodSeconds": 5,
                "overhead": {"cpu": "10m"}, "resources": {"requests": {"cpu": "3"}},
                "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}],
                "affinity": {
                    "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
                    "podAntiAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "podAffinityTerm": term}],
                    },
                },
                "tolerations": [{"key": "gpu", "operator": "Exists"}],
                "topologySpreadConstraints": [
                    {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"},
                ],
                "initContainers": [
                    {"name": "mesh", "image": "mesh", "restartPolicy": "Always", "resources": {"requests": amounts}},
                ],
                "containers": [{
                    "name": "web", "image": "web", "env": [{"name": "A", "value": "b"}],
                    "ports": [{"containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.1", "protocol": "UDP"}],
                    "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"nvidia.com/gpu": 1}},
                }],
                "volumes": [
                    {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}},
                    {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
                    {"name": "token", "projected": {"sources": []}},
                ],
            },
            "status": {
                "phase": "Running", "startTime": "2026-11-13T12:00:05Z", "nominatedNodeName": "node-1",
                "conditions": [
                    {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-13T12:00:09Z"},
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                     "message": "0/3 nodes are available: 3 Insufficient cpu."},
                ],
                "containerStatuses": [{
                    "name": "web", "image": "web", "imageID": "web@1", "ready": true, "restartCount": 0,
                    "allocatedResources": amounts, "resources": {"requests": amounts},
                }],
            },
        })
    }

    #[test]
    fn nothing_that_matters_is_left_out() {
        let whole: core::Pod = serde_json::from_value(pod()).unwrap();
        let lean: LeanPod = serde_json::from_value(pod()).unwrap();
        let mut specs = Specs::default();
        let whole = lower_pod(whole, &mut specs);
        assert!(whole.nominated && whole.resource_claims && whole.critical);
        assert_eq!(lower_pod(lean.0, &mut specs), whole);
    }

    #[test]
    fn every_part_of_a_pod_may_be_missing() {
        let lean: LeanPod = serde_json::from_value(json!({})).unwrap();
        assert_eq!(lean.0, core::Pod::default());
    }
}
