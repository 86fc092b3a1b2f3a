//! Kubernetes pods as the core reads them.

use jiff::Timestamp;
use joiner_api::text::Duration;
use joiner_core::name::{Labels, Name};
use joiner_core::problem::{
    AffinityTerm, DaemonSet, HostPort, NodeAffinityTerm, PodSpec, Policy, Protocol, Spread,
    Weighted, WhenUnsatisfiable,
};
use joiner_core::requirement::{Expression, Operator};
use joiner_core::selector::LabelSelector;
use joiner_core::taints::{Taint, Toleration, TolerationOperator, untolerated};
use k8s_openapi::api::apps::v1 as apps;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;

use super::{DoNotDisrupt, NOMINATOR, Owner, PodKey, PodRecord, Specs, Tried, pod_requests};
use crate::record::annotations;
use crate::view::version;

/// Key of the taint on nodes that are being drained.
pub const DISRUPTED: &str = "karpenter.sh/disrupted";

/// The scheduler of every cluster.
const SCHEDULER: &str = "default-scheduler";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Labels and names as shared strings.
pub fn labels(given: Option<std::collections::BTreeMap<String, String>>) -> Labels {
    given
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.into(), value.into()))
        .collect()
}

/// A pod as the engine keeps it.
pub fn lower_pod(pod: core::Pod, specs: &mut Specs) -> PodRecord {
    let status = pod.status.unwrap_or_default();
    let spec = pod.spec.unwrap_or_default();
    let metadata = pod.metadata;
    let given = metadata.annotations.unwrap_or_default();
    let condition = |kind: &str| {
        status
            .conditions
            .iter()
            .flatten()
            .find(|one| one.type_ == kind)
    };
    let phase = status.phase.as_deref().unwrap_or_default();
    let started = status.start_time.as_ref().map(|time| time.0);
    let namespace: Name = metadata.namespace.as_deref().unwrap_or_default().into();
    let name: Name = metadata.name.as_deref().unwrap_or_default().into();
    let requests = pod_requests(&spec, Some(&status));
    let claims = claims(&spec, &name);
    let lowered = lower_spec(&spec, namespace.clone(), labels(metadata.labels), requests);
    let key = PodKey { namespace, name };
    let disrupted = Taint::no_schedule(DISRUPTED);
    let class = spec.priority_class_name.as_deref().unwrap_or_default();
    let nominated = status
        .nominated_node_name
        .is_some_and(|name| !name.is_empty());
    let by_us = nominated && by_us(metadata.managed_fields.as_deref().unwrap_or_default());
    let unschedulable =
        condition("PodScheduled").filter(|one| one.reason.as_deref() == Some("Unschedulable"));
    // Other schedulers may mean something by saying nothing.
    let scheduler = spec.scheduler_name.as_deref().unwrap_or(SCHEDULER);
    let gated = spec.scheduling_gates.as_ref();
    let untried = scheduler == SCHEDULER && gated.is_none_or(Vec::is_empty);
    PodRecord {
        tolerates_disruption: untolerated([&disrupted], &lowered.tolerations).is_none(),
        spec: specs.share(lowered),
        key: key.clone(),
        uid: metadata.uid.unwrap_or_default().into(),
        version: version(metadata.resource_version.as_deref()),
        created: metadata
            .creation_timestamp
            .map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        deleting: metadata.deletion_timestamp.map(|time| time.0),
        grace_seconds: spec
            .termination_grace_period_seconds
            .and_then(|seconds| u32::try_from(seconds).ok())
            .unwrap_or(30),
        node: spec
            .node_name
            .as_deref()
            .filter(|name| !name.is_empty())
            .map(Into::into),
        claims,
        terminal: matches!(phase, "Failed" | "Succeeded"),
        unschedulable: unschedulable.is_some(),
        untried: untried && condition("PodScheduled").is_none(),
        tried: unschedulable.and_then(|one| tried(one.message.as_deref()?)),
        preempting: nominated && !by_us,
        nominated: nominated && by_us,
        daemon_set: made_by_daemon_set(
            metadata.owner_references.as_deref().unwrap_or_default(),
            &key.namespace,
        ),
        owner: owner(metadata.owner_references.as_deref().unwrap_or_default()),
        do_not_disrupt: do_not_disrupt(
            given.get(annotations::DO_NOT_DISRUPT).map(String::as_str),
            started,
        ),
        unready: phase == "Running" && condition("Ready").is_some_and(|one| one.status == "False"),
        ready: condition("Ready")
            .filter(|one| one.status == "True")
            .and_then(|one| one.last_transition_time.as_ref())
            .map(|since| since.0),
        deletion_cost: given
            .get(DELETION_COST)
            .and_then(|text| text.parse().ok())
            .unwrap_or(0),
        critical: matches!(class, "system-cluster-critical" | "system-node-critical"),
        resource_claims: spec
            .resource_claims
            .is_some_and(|claims| !claims.is_empty()),
    }
}

/// Reads "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s). …".
fn tried(message: &str) -> Option<Tried> {
    let (nodes, why) = message
        .strip_prefix("0/")?
        .split_once(" nodes are available")?;
    let tainted = why
        .trim_start_matches(':')
        .split(", ")
        .filter(|one| one.contains("untolerated taint"))
        .filter_map(|one| one.split_whitespace().next()?.parse::<usize>().ok());
    Some(Tried {
        nodes: nodes.parse().ok()?,
        tainted: tainted.sum(),
    })
}

/// Whether it was us who wrote where a pod should go.
fn by_us(managers: &[meta::ManagedFieldsEntry]) -> bool {
    managers.iter().any(|one| {
        let fields = one.fields_v1.as_ref().map(|fields| &fields.0);
        one.manager.as_deref() == Some(NOMINATOR)
            && fields.is_some_and(|all| !all["f:status"]["f:nominatedNodeName"].is_null())
    })
}

/// A daemon set's pods, as its template describes them.
pub fn daemon_set(set: &apps::DaemonSet) -> Option<DaemonSet> {
    let spec = set.spec.as_ref()?;
    let namespace: Name = set.metadata.namespace.as_deref().unwrap_or_default().into();
    let mut spec = lower_template(&spec.template, namespace, Limits::StandIn)?;
    spec.spread.clear();
    Some(DaemonSet {
        name: format!(
            "{}/{}",
            spec.namespace,
            set.metadata.name.as_deref().unwrap_or_default()
        )
        .into(),
        spec: std::sync::Arc::new(spec),
    })
}

/// Whether limits stand in for requests that are missing: the API server fills them in when it makes the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limits {
    /// They do.
    StandIn,
    /// They do not.
    Ignored,
}

/// A pod template's pods.
pub fn lower_template(
    template: &core::PodTemplateSpec,
    namespace: Name,
    limits: Limits,
) -> Option<PodSpec> {
    let mut spec = template.spec.clone()?;
    if limits == Limits::StandIn {
        let all = spec
            .containers
            .iter_mut()
            .chain(spec.init_containers.iter_mut().flatten());
        for resources in all.filter_map(|container| container.resources.as_mut()) {
            for (name, amount) in resources.limits.clone().unwrap_or_default() {
                resources
                    .requests
                    .get_or_insert_default()
                    .entry(name)
                    .or_insert(amount);
            }
        }
    }
    let own = template
        .metadata
        .as_ref()
        .and_then(|meta| meta.labels.clone());
    let requests = pod_requests(&spec, None);
    Some(lower_spec(&spec, namespace, labels(own), requests))
}

fn lower_spec(
    spec: &core::PodSpec,
    namespace: Name,
    labels: Labels,
    requests: joiner_core::resources::Resources,
) -> PodSpec {
    let affinity = spec.affinity.as_ref();
    let node = affinity.and_then(|one| one.node_affinity.as_ref());
    let near = affinity.and_then(|one| one.pod_affinity.as_ref());
    let apart = affinity.and_then(|one| one.pod_anti_affinity.as_ref());
    let weighted = |terms: Option<&Vec<core::WeightedPodAffinityTerm>>| {
        terms
            .into_iter()
            .flatten()
            .map(|one| Weighted {
                weight: one.weight,
                term: lower_affinity(&one.pod_affinity_term),
            })
            .collect()
    };
    let plain = |terms: Option<&Vec<core::PodAffinityTerm>>| {
        terms.into_iter().flatten().map(lower_affinity).collect()
    };
    PodSpec {
        namespace,
        labels,
        requests,
        node_selector: self::labels(spec.node_selector.clone()),
        required_affinity: node
            .and_then(|one| {
                one.required_during_scheduling_ignored_during_execution
                    .as_ref()
            })
            .map(|one| {
                one.node_selector_terms
                    .iter()
                    .map(lower_node_term)
                    .collect()
            })
            .unwrap_or_default(),
        preferred_affinity: node
            .and_then(|one| {
                one.preferred_during_scheduling_ignored_during_execution
                    .as_ref()
            })
            .into_iter()
            .flatten()
            .map(|one| Weighted {
                weight: one.weight,
                term: lower_node_term(&one.preference),
            })
            .collect(),
        tolerations: spec
            .tolerations
            .iter()
            .flatten()
            .map(lower_toleration)
            .collect(),
        spread: spec
            .topology_spread_constraints
            .iter()
            .flatten()
            .map(lower_spread)
            .collect(),
        affinity: plain(near.and_then(|one| {
            one.required_during_scheduling_ignored_during_execution
                .as_ref()
        })),
        anti_affinity: plain(apart.and_then(|one| {
            one.required_during_scheduling_ignored_during_execution
                .as_ref()
        })),
        preferred_pod_affinity: weighted(near.and_then(|one| {
            one.preferred_during_scheduling_ignored_during_execution
                .as_ref()
        })),
        preferred_pod_anti_affinity: weighted(apart.and_then(|one| {
            one.preferred_during_scheduling_ignored_during_execution
                .as_ref()
        })),
        host_ports: host_ports(spec),
        volumes: Vec::new(),
        priority: spec.priority.unwrap_or(0),
    }
}

/// The daemon set that made a pod, called as [`daemon_set`] calls it.
fn made_by_daemon_set(owners: &[meta::OwnerReference], namespace: &Name) -> Option<Name> {
    let mut owners = owners.iter();
    let set = owners.find(|one| one.api_version == "apps/v1" && one.kind == "DaemonSet")?;
    Some(format!("{namespace}/{}", set.name).into())
}

fn owner(owners: &[meta::OwnerReference]) -> Owner {
    let is = |api: &str, kind: &str| {
        owners
            .iter()
            .any(|one| one.api_version == api && one.kind == kind)
    };
    if is("apps/v1", "DaemonSet") {
        Owner::DaemonSet
    } else if is("v1", "Node") {
        Owner::Node
    } else if is("apps/v1", "StatefulSet") {
        Owner::StatefulSet
    } else {
        Owner::Other
    }
}

/// `"true"`, or for how long from its start; what cannot be read forbids nothing.
fn do_not_disrupt(text: Option<&str>, started: Option<Timestamp>) -> DoNotDisrupt {
    match text {
        None => DoNotDisrupt::No,
        Some("true") => DoNotDisrupt::Always,
        Some(text) => match (Duration::from(text).get().ok(), started) {
            (Some(length), None) if length.is_positive() => DoNotDisrupt::Always,
            (Some(length), Some(started)) if length.is_positive() => {
                DoNotDisrupt::Until(started.checked_add(length).unwrap_or(Timestamp::MAX))
            }
            _ => DoNotDisrupt::No,
        },
    }
}

fn claims(spec: &core::PodSpec, pod: &str) -> Vec<Name> {
    spec.volumes
        .iter()
        .flatten()
        .filter_map(|volume| {
            if let Some(claim) = &volume.persistent_volume_claim {
                return Some(claim.claim_name.as_str().into());
            }
            volume
                .ephemeral
                .as_ref()
                .map(|_| format!("{pod}-{}", volume.name).into())
        })
        .collect()
}

fn host_ports(spec: &core::PodSpec) -> Vec<HostPort> {
    spec.containers
        .iter()
        .flat_map(|container| container.ports.iter().flatten())
        .filter_map(|port| {
            let number = port.host_port.and_then(|one| u16::try_from(one).ok())?;
            (number != 0).then(|| HostPort {
                port: number,
                protocol: match port.protocol.as_deref() {
                    Some("UDP") => Protocol::Udp,
                    Some("SCTP") => Protocol::Sctp,
                    _ => Protocol::Tcp,
                },
                ip: port.host_ip.as_deref().unwrap_or_default().into(),
            })
        })
        .collect()
}

/// An expression over labels; one with an unknown operator can never hold.
fn expression(key: &str, operator: &str, values: Option<&Vec<String>>) -> Expression {
    Expression {
        key: key.into(),
        operator: operator.parse().unwrap_or(Operator::In),
        values: values
            .into_iter()
            .flatten()
            .map(|one| one.as_str().into())
            .collect(),
        min_values: None,
    }
}

pub(crate) fn lower_node_term(term: &core::NodeSelectorTerm) -> NodeAffinityTerm {
    let labels = term.match_expressions.iter().flatten();
    // A term over fields names a node: those that are there have their name among their labels, as `NAME_FIELD` says.
    let fields = term.match_fields.iter().flatten();
    labels
        .map(|one| expression(&one.key, &one.operator, one.values.as_ref()))
        .chain(fields.map(|one| expression(&one.key, &one.operator, one.values.as_ref())))
        .collect()
}

/// A selector as the core reads it.
pub fn lower_selector(selector: &meta::LabelSelector) -> LabelSelector {
    LabelSelector {
        match_labels: labels(selector.match_labels.clone()),
        match_expressions: selector
            .match_expressions
            .iter()
            .flatten()
            .map(|one| expression(&one.key, &one.operator, one.values.as_ref()))
            .collect(),
    }
}

fn lower_affinity(term: &core::PodAffinityTerm) -> AffinityTerm {
    AffinityTerm {
        topology_key: term.topology_key.as_str().into(),
        selector: term.label_selector.as_ref().map(lower_selector),
        namespaces: term
            .namespaces
            .iter()
            .flatten()
            .map(|one| one.as_str().into())
            .collect(),
        namespace_selector: term.namespace_selector.as_ref().map(lower_selector),
    }
}

fn lower_spread(spread: &core::TopologySpreadConstraint) -> Spread {
    let policy = |text: Option<&str>, otherwise| match text {
        Some("Honor") => Policy::Honor,
        Some("Ignore") => Policy::Ignore,
        _ => otherwise,
    };
    Spread {
        topology_key: spread.topology_key.as_str().into(),
        max_skew: spread.max_skew,
        selector: spread.label_selector.as_ref().map(lower_selector),
        match_label_keys: spread
            .match_label_keys
            .iter()
            .flatten()
            .map(|one| one.as_str().into())
            .collect(),
        min_domains: spread.min_domains.and_then(|one| u32::try_from(one).ok()),
        when_unsatisfiable: match spread.when_unsatisfiable.as_str() {
            "ScheduleAnyway" => WhenUnsatisfiable::ScheduleAnyway,
            _ => WhenUnsatisfiable::DoNotSchedule,
        },
        node_affinity_policy: policy(spread.node_affinity_policy.as_deref(), Policy::Honor),
        node_taints_policy: policy(spread.node_taints_policy.as_deref(), Policy::Ignore),
    }
}

fn lower_toleration(toleration: &core::Toleration) -> Toleration {
    let text = |one: Option<&String>| Name::from(one.map(String::as_str).unwrap_or_default());
    Toleration {
        key: text(toleration.key.as_ref()),
        operator: match toleration.operator.as_deref() {
            Some("Exists") => TolerationOperator::Exists,
            Some("Gt") => TolerationOperator::Gt,
            Some("Lt") => TolerationOperator::Lt,
            _ => TolerationOperator::Equal,
        },
        value: text(toleration.value.as_ref()),
        effect: toleration
            .effect
            .as_deref()
            .and_then(|one| one.parse().ok()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lower(value: serde_json::Value) -> PodRecord {
        lower_pod(
            serde_json::from_value(value).unwrap(),
            &mut Specs::default(),
        )
    }

    #[test]
    fn what_the_scheduler_has_tried_is_read_from_its_words() {
        let all = |nodes, tainted| Some(Tried { nodes, tainted });
        for (said, expected) in [
            (
                "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: none.",
                all(2, 0),
            ),
            (
                "0/9 nodes are available: 3 Insufficient cpu, 6 node(s) had untolerated taint(s).",
                all(9, 6),
            ),
            (
                "0/4 nodes are available: 1 node(s) had untolerated taint {a: b}, 2 node(s) had untolerated taint {c: }.",
                all(4, 3),
            ),
            ("no nodes available to schedule pods", None),
        ] {
            assert_eq!(tried(said), expected, "{said}");
        }
    }

    fn pending(extra: &serde_json::Value) -> PodRecord {
        let mut pod = json!({
            "metadata": {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "7"},
            "spec": {"containers": [{"name": "c"}]},
            "status": {"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
            ]}
        });
        for (path, value) in extra.as_object().unwrap() {
            *pod.pointer_mut(path).unwrap() = value.clone();
        }
        lower(pod)
    }

    #[test]
    fn a_pod_that_nobody_has_tried_is_told_from_one_that_nobody_should() {
        let fresh = json!({"/status/conditions": []});
        assert!(pending(&fresh).untried);
        assert!(pending(&fresh).waits());
        assert!(!pending(&json!({})).untried);
        for spec in [
            json!({"schedulingGates": [{"name": "quota"}]}),
            json!({"schedulerName": "volcano"}),
        ] {
            let pod = json!({"/status/conditions": [], "/spec": spec});
            assert!(!pending(&pod).waits(), "{pod}");
        }
    }

    #[test]
    fn machines_are_bought_for_pods_that_the_scheduler_gave_up_on() {
        assert!(pending(&json!({})).provisionable());
        assert!(!pending(&json!({"/status/conditions": []})).provisionable());
        let gated = json!({"/status/conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
        ]});
        assert!(!pending(&gated).provisionable());
        let daemon = json!({"/metadata": {"name": "a", "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "x"}
        ]}});
        assert!(!pending(&daemon).provisionable());
    }

    #[test]
    fn do_not_disrupt_may_have_an_end() {
        let start = Timestamp::from_second(0).unwrap();
        let end = |text| do_not_disrupt(Some(text), Some(start));
        assert_eq!(end("true"), DoNotDisrupt::Always);
        assert_eq!(
            end("1h30m"),
            DoNotDisrupt::Until(Timestamp::from_second(5400).unwrap())
        );
        for nonsense in ["", "-5m", "false", "5", "1d", "0s"] {
            assert_eq!(end(nonsense), DoNotDisrupt::No, "{nonsense:?}");
        }
    }

    #[test]
    fn ephemeral_volumes_have_claims_named_after_the_pod() {
        let pod = pending(&json!({"/spec": {"containers": [], "volumes": [
            {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
            {"name": "data", "persistentVolumeClaim": {"claimName": "data-0"}}
        ]}}));
        let claims: Vec<&str> = pod.claims.iter().map(AsRef::as_ref).collect();
        assert_eq!(claims, ["a-scratch", "data-0"]);
    }

    #[test]
    fn pods_that_tolerate_everything_are_not_drained() {
        let pod =
            pending(&json!({"/spec": {"containers": [], "tolerations": [{"operator": "Exists"}]}}));
        assert!(pod.tolerates_disruption);
        assert!(!pod.awaits_eviction(Timestamp::UNIX_EPOCH));
    }
}
