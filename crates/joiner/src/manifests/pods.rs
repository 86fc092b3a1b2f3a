//! Pods and what makes them.

use joiner_core::labels;
use joiner_core::name::Name;
use joiner_core::problem::{
    AffinityTerm, HostPort, Pod, PodSpec, Policy, Problem, Spread, Volume, Weighted,
};
use joiner_core::requests::{
    Container, InitContainer, PodResources, pod_requests, with_limits_as_requests,
};
use joiner_core::requirement::{Expression, Operator};
use joiner_core::resources::Resources;
use joiner_core::taints::Toleration;
use serde_json::Value;

use super::Object;
use super::objects::{self, Amounts, NodeTerm, PodTerm, Template, Workload};
use super::volumes::Storage;
use crate::failure::Failure;

/// The pods that a workload makes.
pub(super) fn of_workload(
    object: &Object,
    workload: &Workload,
    storage: &Storage,
) -> Result<Vec<Pod>, Failure> {
    let wanted = &workload.spec;
    let count = if object.kind == "Job" {
        let parallel = wanted.parallelism.unwrap_or(1);
        parallel.min(wanted.completions.unwrap_or(parallel))
    } else {
        wanted.replicas.unwrap_or(1)
    };
    let shared = spec(object, &wanted.template, storage)?;
    if wanted.volume_claim_templates.is_empty() {
        return Ok(group(&object.meta.name, count, shared));
    }
    // Each pod of a stateful set has claims of its own, which may already be somewhere.
    let mut pods = Vec::new();
    for number in 0..count {
        let name = format!("{}-{number}", object.meta.name);
        let mut own = shared.clone();
        for template in &wanted.volume_claim_templates {
            let claim = format!("{}-{name}", template.metadata.name);
            let volume = storage.volume(&object.meta.namespace(), &claim, Some(&template.spec));
            own.volumes.extend(volume);
        }
        pods.extend(group(&name, 1, own));
    }
    Ok(pods)
}

fn group(name: &str, count: u32, spec: PodSpec) -> Vec<Pod> {
    if count == 0 {
        return Vec::new();
    }
    vec![Pod {
        count,
        ..Pod::new(name, spec)
    }]
}

/// A pod by itself: on the node that it names, or waiting.
pub(super) fn place(
    object: &Object,
    pod: &objects::Pod,
    storage: &Storage,
    problem: &mut Problem,
) -> Result<(), Failure> {
    let ending = object.meta.deletion_timestamp.is_some();
    let daemon = object.meta.is_owned_by("DaemonSet");
    let waits = pod.spec.node_name.is_none();
    if pod.is_done() || waits && (ending || daemon) {
        return Ok(());
    }
    let template = Template {
        metadata: object.meta.clone(),
        spec: pod.spec.clone(),
    };
    let spec = spec(object, &template, storage)?;
    let mut made = Pod::new(&object.meta.name, spec);
    let annotation = |key: &str| object.meta.annotations.get(key).map(String::as_str);
    made.do_not_disrupt = annotation("karpenter.sh/do-not-disrupt") == Some("true");
    made.deletion_cost = annotation("controller.kubernetes.io/pod-deletion-cost")
        .and_then(|cost| cost.parse().ok())
        .unwrap_or_default();
    made.daemon = daemon;
    made.ending = ending;
    // A pod of a stateful set comes again under its name.
    let gone = ending && !object.meta.is_owned_by("StatefulSet");
    made.stays_behind = gone || object.meta.is_owned_by("Node");
    let Some(name) = &pod.spec.node_name else {
        problem.pods.push(made);
        return Ok(());
    };
    let node = problem.nodes.iter_mut().find(|node| node.name == *name);
    let node = node.ok_or_else(|| {
        object.fault(&format!(
            "there is no node {name}; add it, or leave nodeName out"
        ))
    })?;
    node.pods.push(made);
    Ok(())
}

/// What a pod made from a template needs.
pub(super) fn spec(
    object: &Object,
    template: &Template,
    storage: &Storage,
) -> Result<PodSpec, Failure> {
    let given = &template.spec;
    let namespace = object.meta.namespace();
    let affinity = &given.affinity;
    let node_terms = &affinity.node;
    let weighted = |terms: &[objects::PreferredPodTerm]| {
        let terms = terms.iter();
        terms
            .map(|one| Weighted {
                weight: one.weight,
                term: term(&one.pod_affinity_term),
            })
            .collect()
    };
    Ok(PodSpec {
        requests: requests(object, given)?,
        labels: template.metadata.labels.clone(),
        node_selector: given.node_selector.clone(),
        required_affinity: node_terms
            .required
            .node_selector_terms
            .iter()
            .map(|term| expressions(object, term))
            .collect::<Result<_, _>>()?,
        preferred_affinity: node_terms
            .preferred
            .iter()
            .map(|one| {
                Ok(Weighted {
                    weight: one.weight,
                    term: expressions(object, &one.preference)?,
                })
            })
            .collect::<Result<_, Failure>>()?,
        tolerations: given.tolerations.iter().map(toleration).collect(),
        spread: given
            .topology_spread_constraints
            .iter()
            .map(spread)
            .collect(),
        affinity: affinity.near.required.iter().map(term).collect(),
        anti_affinity: affinity.apart.required.iter().map(term).collect(),
        preferred_pod_affinity: weighted(&affinity.near.preferred),
        preferred_pod_anti_affinity: weighted(&affinity.apart.preferred),
        host_ports: host_ports(given),
        volumes: volumes(&namespace, &object.meta.name, given, storage),
        priority: given.priority,
        namespace,
    })
}

fn requests(object: &Object, given: &objects::PodSpec) -> Result<Resources, Failure> {
    let container = |one: &objects::Container| -> Result<Container, Failure> {
        let requests = amounts(object, &one.resources.requests)?;
        let most = amounts(object, &one.resources.limits)?;
        // The API server copies limits into requests that are not there; so does Karpenter for daemon sets.
        let requests = with_limits_as_requests(&requests, &most);
        Ok(Container {
            requests,
            ..Container::default()
        })
    };
    let containers = given.containers.iter().map(&container);
    let init_containers = given.init_containers.iter().map(|one| {
        Ok(InitContainer {
            container: container(one)?,
            sidecar: one.restart_policy.as_deref() == Some("Always"),
        })
    });
    let pod_level = match &given.resources {
        Some(resources) => Some(amounts(object, &resources.requests)?),
        None => None,
    };
    Ok(pod_requests(&PodResources {
        containers: containers.collect::<Result<_, Failure>>()?,
        init_containers: init_containers.collect::<Result<_, Failure>>()?,
        pod_level,
        overhead: amounts(object, &given.overhead)?,
        ..PodResources::default()
    }))
}

/// Amounts in the units that they are counted in.
pub(super) fn amounts(object: &Object, given: &Amounts) -> Result<Resources, Failure> {
    let mut read = Resources::new();
    for (name, value) in given {
        let text = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let amount = Resources::parse_amount(name, &text)
            .map_err(|error| object.fault(&format!("{name}: {error}")))?;
        read.set(name, amount);
    }
    Ok(read)
}

/// A term as conditions on labels: the name of a node is one.
fn expressions(object: &Object, term: &NodeTerm) -> Result<Vec<Expression>, Failure> {
    for field in &term.match_fields {
        let Expression { key, operator, .. } = field;
        let known = matches!(operator, Operator::In | Operator::NotIn);
        if &**key != labels::NAME_FIELD || !known || field.values.len() != 1 {
            return Err(object.fault(&format!(
                "matchFields: {key} {operator} {:?}: Kubernetes knows metadata.name with In or NotIn and one value; \
                 write that, or a label in matchExpressions",
                field.values
            )));
        }
    }
    let labels = term.match_expressions.iter();
    Ok(labels.chain(&term.match_fields).cloned().collect())
}

fn toleration(given: &objects::Toleration) -> Toleration {
    Toleration {
        key: given.key.clone(),
        operator: given.operator,
        value: given.value.clone(),
        effect: given.effect,
    }
}

fn term(given: &PodTerm) -> AffinityTerm {
    AffinityTerm {
        topology_key: given.topology_key.clone(),
        selector: given.label_selector.clone(),
        namespaces: given.namespaces.clone(),
        namespace_selector: given.namespace_selector.clone(),
    }
}

fn spread(given: &objects::SpreadConstraint) -> Spread {
    Spread {
        topology_key: given.topology_key.clone(),
        max_skew: given.max_skew,
        selector: given.label_selector.clone(),
        match_label_keys: given.match_label_keys.clone(),
        min_domains: given.min_domains,
        when_unsatisfiable: given.when_unsatisfiable,
        node_affinity_policy: given.node_affinity_policy.unwrap_or(Policy::Honor),
        node_taints_policy: given.node_taints_policy.unwrap_or(Policy::Ignore),
    }
}

fn host_ports(given: &objects::PodSpec) -> Vec<HostPort> {
    let ports = given.containers.iter().flat_map(|one| &one.ports);
    ports
        .filter(|port| port.of_host != 0)
        .map(|port| HostPort {
            port: port.of_host,
            protocol: port.protocol,
            ip: port.host_ip.clone(),
        })
        .collect()
}

fn volumes(
    namespace: &Name,
    pod: &str,
    given: &objects::PodSpec,
    storage: &Storage,
) -> Vec<Volume> {
    let found = given.volumes.iter().filter_map(|volume| {
        if let Some(source) = &volume.persistent_volume_claim {
            return storage.volume(namespace, &source.claim_name, None);
        }
        let ephemeral = volume.ephemeral.as_ref()?;
        let claim = format!("{pod}-{}", volume.name);
        storage.volume(
            namespace,
            &claim,
            Some(&ephemeral.volume_claim_template.spec),
        )
    });
    found.collect()
}
