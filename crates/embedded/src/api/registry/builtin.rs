//! The table of built-in resources.

use super::{Resource, table_name};

/// One row: plural, kind, scope, short names, what it can do.
struct Row(
    &'static str,
    &'static str,
    Scope,
    &'static [&'static str],
    &'static [Trait],
);

#[derive(Clone, Copy, PartialEq)]
enum Scope {
    Namespaced,
    Cluster,
}
use Scope::{Cluster, Namespaced};

#[derive(Clone, Copy, PartialEq)]
enum Trait {
    /// `status` is a subresource.
    Status,
    /// Changes of the desired state are counted.
    Generation,
    /// Part of `kubectl get all`.
    All,
    /// Another subresource.
    Sub(&'static str),
}
use Trait::{All, Generation, Status, Sub};

const CORE: &[Row] = &[
    Row("configmaps", "ConfigMap", Namespaced, &["cm"], &[]),
    Row("endpoints", "Endpoints", Namespaced, &["ep"], &[]),
    Row("events", "Event", Namespaced, &["ev"], &[]),
    Row("limitranges", "LimitRange", Namespaced, &["limits"], &[]),
    Row(
        "namespaces",
        "Namespace",
        Cluster,
        &["ns"],
        &[Status, Sub("finalize")],
    ),
    Row("nodes", "Node", Cluster, &["no"], &[Status]),
    Row(
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        Namespaced,
        &["pvc"],
        &[Status],
    ),
    Row(
        "persistentvolumes",
        "PersistentVolume",
        Cluster,
        &["pv"],
        &[Status],
    ),
    Row(
        "pods",
        "Pod",
        Namespaced,
        &["po"],
        &[
            Status,
            Generation,
            All,
            Sub("binding"),
            Sub("eviction"),
            Sub("log"),
            Sub("ephemeralcontainers"),
            Sub("resize"),
        ],
    ),
    Row("podtemplates", "PodTemplate", Namespaced, &[], &[]),
    Row(
        "replicationcontrollers",
        "ReplicationController",
        Namespaced,
        &["rc"],
        &[Status, Generation, All, Sub("scale")],
    ),
    Row(
        "resourcequotas",
        "ResourceQuota",
        Namespaced,
        &["quota"],
        &[Status],
    ),
    Row("secrets", "Secret", Namespaced, &[], &[]),
    Row(
        "serviceaccounts",
        "ServiceAccount",
        Namespaced,
        &["sa"],
        &[Sub("token")],
    ),
    Row("services", "Service", Namespaced, &["svc"], &[Status, All]),
];

const APPS: &[Row] = &[
    Row(
        "controllerrevisions",
        "ControllerRevision",
        Namespaced,
        &[],
        &[],
    ),
    Row(
        "daemonsets",
        "DaemonSet",
        Namespaced,
        &["ds"],
        &[Status, Generation, All],
    ),
    Row(
        "deployments",
        "Deployment",
        Namespaced,
        &["deploy"],
        &[Status, Generation, All, Sub("scale")],
    ),
    Row(
        "replicasets",
        "ReplicaSet",
        Namespaced,
        &["rs"],
        &[Status, Generation, All, Sub("scale")],
    ),
    Row(
        "statefulsets",
        "StatefulSet",
        Namespaced,
        &["sts"],
        &[Status, Generation, All, Sub("scale")],
    ),
];

const BATCH: &[Row] = &[
    Row(
        "cronjobs",
        "CronJob",
        Namespaced,
        &["cj"],
        &[Status, Generation, All],
    ),
    Row("jobs", "Job", Namespaced, &[], &[Status, Generation, All]),
];

const POLICY: &[Row] = &[Row(
    "poddisruptionbudgets",
    "PodDisruptionBudget",
    Namespaced,
    &["pdb"],
    &[Status, Generation],
)];

const STORAGE: &[Row] = &[
    Row("csidrivers", "CSIDriver", Cluster, &[], &[]),
    Row("csinodes", "CSINode", Cluster, &[], &[]),
    Row(
        "csistoragecapacities",
        "CSIStorageCapacity",
        Namespaced,
        &[],
        &[],
    ),
    Row("storageclasses", "StorageClass", Cluster, &["sc"], &[]),
    Row(
        "volumeattachments",
        "VolumeAttachment",
        Cluster,
        &[],
        &[Status],
    ),
];

const RBAC: &[Row] = &[
    Row(
        "clusterrolebindings",
        "ClusterRoleBinding",
        Cluster,
        &[],
        &[],
    ),
    Row("clusterroles", "ClusterRole", Cluster, &[], &[]),
    Row("rolebindings", "RoleBinding", Namespaced, &[], &[]),
    Row("roles", "Role", Namespaced, &[], &[]),
];

const NETWORKING: &[Row] = &[
    Row(
        "ingressclasses",
        "IngressClass",
        Cluster,
        &[],
        &[Generation],
    ),
    Row(
        "ingresses",
        "Ingress",
        Namespaced,
        &["ing"],
        &[Status, Generation],
    ),
    Row(
        "networkpolicies",
        "NetworkPolicy",
        Namespaced,
        &["netpol"],
        &[Generation],
    ),
];

const EXTENSIONS: &[Row] = &[Row(
    "customresourcedefinitions",
    "CustomResourceDefinition",
    Cluster,
    &["crd", "crds"],
    &[Status, Generation],
)];

const ADMISSION: &[Row] = &[
    Row(
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        Cluster,
        &[],
        &[Generation],
    ),
    Row(
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
        Cluster,
        &[],
        &[Status, Generation],
    ),
    Row(
        "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
        Cluster,
        &[],
        &[Generation],
    ),
    Row(
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        Cluster,
        &[],
        &[Generation],
    ),
];

const GROUPS: &[(&str, &str, &[Row])] = &[
    ("", "v1", CORE),
    ("apps", "v1", APPS),
    ("batch", "v1", BATCH),
    (
        "autoscaling",
        "v2",
        &[Row(
            "horizontalpodautoscalers",
            "HorizontalPodAutoscaler",
            Namespaced,
            &["hpa"],
            &[Status, All],
        )],
    ),
    ("policy", "v1", POLICY),
    (
        "coordination.k8s.io",
        "v1",
        &[Row("leases", "Lease", Namespaced, &[], &[])],
    ),
    ("storage.k8s.io", "v1", STORAGE),
    (
        "events.k8s.io",
        "v1",
        &[Row("events", "Event", Namespaced, &["ev"], &[])],
    ),
    (
        "discovery.k8s.io",
        "v1",
        &[Row(
            "endpointslices",
            "EndpointSlice",
            Namespaced,
            &[],
            &[Generation],
        )],
    ),
    ("rbac.authorization.k8s.io", "v1", RBAC),
    (
        "scheduling.k8s.io",
        "v1",
        &[Row(
            "priorityclasses",
            "PriorityClass",
            Cluster,
            &["pc"],
            &[Generation],
        )],
    ),
    ("networking.k8s.io", "v1", NETWORKING),
    (
        "node.k8s.io",
        "v1",
        &[Row("runtimeclasses", "RuntimeClass", Cluster, &[], &[])],
    ),
    ("apiextensions.k8s.io", "v1", EXTENSIONS),
    ("admissionregistration.k8s.io", "v1", ADMISSION),
    (
        "apiregistration.k8s.io",
        "v1",
        &[Row("apiservices", "APIService", Cluster, &[], &[Status])],
    ),
];

/// Every built-in resource.
pub(super) fn resources() -> impl Iterator<Item = Resource> {
    GROUPS
        .iter()
        .flat_map(|(group, version, rows)| rows.iter().map(|row| resource(group, version, row)))
}

fn resource(group: &str, version: &str, row: &Row) -> Resource {
    let Row(plural, kind, scope, short, traits) = *row;
    // The two event APIs are two views of the same objects.
    let table = if group == "events.k8s.io" {
        plural.to_owned()
    } else {
        table_name(group, plural)
    };
    Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: plural.to_owned(),
        singular: kind.to_lowercase(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        short_names: short.iter().map(ToString::to_string).collect(),
        categories: if traits.contains(&All) {
            vec!["all".to_owned()]
        } else {
            Vec::new()
        },
        namespaced: scope == Namespaced,
        table,
        has_status: traits.contains(&Status),
        has_generation: traits.contains(&Generation),
        subresources: traits
            .iter()
            .filter_map(|one| {
                if let Sub(name) = one {
                    Some((*name).to_owned())
                } else {
                    None
                }
            })
            .collect(),
        custom: None,
    }
}
