//! Pods and what makes them, read by the code that reads them from a cluster.

use joiner_controllers::view::pods::{
    DoNotDisrupt, Limits, Owner, Specs, lower_pod, lower_template,
};
use joiner_core::labels;
use joiner_core::name::Name;
use joiner_core::problem::{Pod, PodSpec, Problem, Volume};
use joiner_core::requirement::Operator;
use joiner_core::resources::Resources;
use k8s_openapi::api::core::v1 as core;
use serde::Deserialize as _;
use serde_json::Value;

use super::Object;
use super::objects::{Amounts, ClaimSpec, Workload};
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
    let shared = spec(object, &template(object, &wanted.template)?, storage);
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
    storage: &Storage,
    problem: &mut Problem,
) -> Result<(), Failure> {
    let template = template(object, &object.value)?;
    let mut whole: core::Pod = object.read_as(&without_spec(&object.value))?;
    whole.spec.clone_from(&template.spec);
    let record = lower_pod(whole, &mut Specs::default());
    let daemon = record.owner == Owner::DaemonSet;
    let ending = record.deleting.is_some();
    if record.terminal || record.node.is_none() && (ending || daemon) {
        return Ok(());
    }
    let mut made = Pod::new(&object.meta.name, spec(object, &template, storage));
    // Without a clock, what forbids it for a while forbids it.
    made.do_not_disrupt = record.active() && record.do_not_disrupt != DoNotDisrupt::No;
    made.deletion_cost = record.deletion_cost;
    made.daemon = daemon;
    made.unready = record.unready;
    made.ending = ending;
    made.stays_behind = !record.reschedulable();
    let Some(name) = &record.node else {
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

/// A pod's object without its spec, which is read on its own.
fn without_spec(pod: &Value) -> Value {
    let mut rest = pod.clone();
    if let Some(fields) = rest.as_object_mut() {
        fields.remove("spec");
    }
    rest
}

/// What a pod made from a template needs.
pub(super) fn spec(
    object: &Object,
    template: &core::PodTemplateSpec,
    storage: &Storage,
) -> PodSpec {
    let namespace = object.meta.namespace();
    // The API server copies limits into requests that are not there.
    let lowered = lower_template(template, namespace.clone(), Limits::StandIn);
    let given = template.spec.as_ref();
    let volumes = given.map(|given| volumes(&namespace, &object.meta.name, given, storage));
    PodSpec {
        volumes: volumes.unwrap_or_default(),
        ..lowered.unwrap_or_default()
    }
}

/// The metadata and the spec of a pod, or of a template of pods. What a cluster would refuse, or read as something that
/// was not meant, is refused.
pub(super) fn template(object: &Object, value: &Value) -> Result<core::PodTemplateSpec, Failure> {
    let mut value = value.clone();
    if value["spec"].is_null() {
        value["spec"] = Value::Object(serde_json::Map::default());
    }
    let spec = &mut value["spec"];
    for list in ["containers", "initContainers"] {
        for container in spec[list].as_array_mut().into_iter().flatten() {
            for amounts in ["requests", "limits"] {
                as_text(
                    object,
                    container.pointer_mut(&format!("/resources/{amounts}")),
                )?;
            }
        }
    }
    for amounts in ["/resources/requests", "/resources/limits", "/overhead"] {
        as_text(object, spec.pointer_mut(amounts))?;
    }
    let read = core::PodTemplateSpec {
        metadata: object.read_as(&value["metadata"])?,
        spec: Some(object.read_as(&value["spec"])?),
    };
    let affinity = read.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
    if let Some(node) = affinity.and_then(|one| one.node_affinity.as_ref()) {
        let required = &node.required_during_scheduling_ignored_during_execution;
        let required = required.iter().flat_map(|one| &one.node_selector_terms);
        let preferred = &node.preferred_during_scheduling_ignored_during_execution;
        let preferred = preferred.iter().flatten().map(|one| &one.preference);
        for term in required.chain(preferred) {
            known_operators(object, term)?;
        }
    }
    Ok(read)
}

/// Amounts may be written as numbers; the API server keeps them as texts.
pub(super) fn as_text(object: &Object, amounts: Option<&mut Value>) -> Result<(), Failure> {
    let Some(amounts) = amounts.filter(|amounts| !amounts.is_null()) else {
        return Ok(());
    };
    let given =
        Amounts::deserialize(&*amounts).map_err(|error| object.fault(&error.to_string()))?;
    self::amounts(object, &given)?;
    for value in amounts
        .as_object_mut()
        .into_iter()
        .flat_map(serde_json::Map::values_mut)
    {
        if value.is_number() {
            *value = Value::String(value.to_string());
        }
    }
    Ok(())
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

fn known_operators(object: &Object, term: &core::NodeSelectorTerm) -> Result<(), Failure> {
    for one in term.match_expressions.iter().flatten() {
        one.operator.parse::<Operator>().map_err(|_| {
            object.fault(&format!(
                "matchExpressions: {} has no operator {:?}: write In, NotIn, Exists, DoesNotExist, Gt or Lt",
                one.key, one.operator
            ))
        })?;
    }
    for one in term.match_fields.iter().flatten() {
        let values = one.values.as_deref().unwrap_or_default();
        let known = matches!(one.operator.as_str(), "In" | "NotIn");
        if one.key != labels::NAME_FIELD || !known || values.len() != 1 {
            return Err(object.fault(&format!(
                "matchFields: {} {} {values:?}: Kubernetes knows metadata.name with In or NotIn and one value; \
                 write that, or a label in matchExpressions",
                one.key, one.operator
            )));
        }
    }
    Ok(())
}

fn volumes(namespace: &Name, pod: &str, given: &core::PodSpec, storage: &Storage) -> Vec<Volume> {
    let found = given.volumes.iter().flatten().filter_map(|volume| {
        if let Some(source) = &volume.persistent_volume_claim {
            return storage.volume(namespace, &source.claim_name, None);
        }
        let template = volume.ephemeral.as_ref()?.volume_claim_template.as_ref()?;
        let spec = ClaimSpec {
            storage_class_name: template.spec.storage_class_name.as_deref().map(Into::into),
            volume_name: template.spec.volume_name.as_deref().map(Into::into),
        };
        storage.volume(namespace, &format!("{pod}-{}", volume.name), Some(&spec))
    });
    found.collect()
}
