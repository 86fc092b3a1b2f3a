//! `NodeSmithClaims`: one machine each.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use joiner_api::nodesmith::{ClaimRequirements, NodeSmithClaim, NodeSmithClaimSpec, keys};
use joiner_core::labels as well_known;
use joiner_core::name::{Labels, Name};
use joiner_core::resources::{CPU, MEMORY, Resources};
use joiner_providers::{MachineId, Uid};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube::api::ObjectMeta;
use serde_json::{Value, json};

use super::pool::{MIB, class_key, id};
use super::terms::{TERMS, Terms};
use super::{API_VERSION, NAME};
use crate::dialects::convert::{
    key, lower_conditions, lower_resources, render_conditions, render_resources, text,
};
use crate::record::{
    Condition, Conditions, MachineRecord, MachineStatus, MetadataChange, NewMachine, Offer, Truth,
    annotations, kinds,
};
use crate::view::{labels, version};

/// Labels that other families read and that would say something wrong here.
const FOREIGN: [&str; 2] = [well_known::NODEPOOL, well_known::HOSTNAME];

/// A claim as the engine keeps it.
pub(super) fn lower(claim: &NodeSmithClaim) -> Result<MachineRecord, String> {
    let metadata = &claim.metadata;
    let given = labels(metadata.annotations.clone());
    let offers: Vec<Offer> = match given.get(annotations::OFFERS) {
        None => Vec::new(),
        Some(text) => serde_json::from_str(text)
            .map_err(|error| format!("metadata.annotations[{}]: {error}", annotations::OFFERS))?,
    };
    let terms = Terms::read(&given)?;
    let spec = &claim.spec;
    let grace = spec.termination_grace_period.as_ref();
    let grace = grace.map(joiner_api::text::Duration::get).transpose();
    let key = key(NAME, metadata);
    let finalizers = metadata.finalizers.iter().flatten();
    Ok(MachineRecord {
        uid: Uid(text(metadata.uid.as_ref())),
        version: version(metadata.resource_version.as_deref()),
        generation: metadata.generation.unwrap_or(0),
        created: metadata
            .creation_timestamp
            .as_ref()
            .map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        deleting: metadata.deletion_timestamp.as_ref().map(|time| time.0),
        finalizer: finalizers.clone().any(|one| one == keys::CLAIM_FINALIZER),
        pool: Some(id(&key.namespace, &spec.pool_ref)),
        class: class_key(&key.namespace, &terms.provider),
        labels: labels(metadata.labels.clone()),
        node_annotations: terms.annotations,
        requirements: Vec::new(),
        requests: if terms.requests.is_empty() {
            size(spec.requirements.unwrap_or_default())
        } else {
            terms.requests
        },
        taints: terms.taints,
        startup_taints: terms.startup_taints,
        expire_after: None,
        termination_grace: grace
            .map_err(|error| format!("spec.terminationGracePeriod: {error}"))?,
        registration_timeout: terms.registration_timeout,
        max_price: None,
        offers: Arc::new(offers),
        status: lower_status(claim, &given),
        annotations: given,
        key,
    })
}

fn size(wanted: ClaimRequirements) -> Resources {
    let mut all = Resources::new();
    if let Some(cores) = wanted.cpu_cores {
        all.set(CPU, cores.saturating_mul(1000));
    }
    if let Some(memory) = wanted.memory_mib {
        all.set(MEMORY, memory.saturating_mul(MIB));
    }
    all
}

/// How large a machine is, in whole cores and MiB.
fn requirements(capacity: &Resources) -> ClaimRequirements {
    let up = |amount: i64, unit: i64| (amount > 0).then(|| (amount + unit - 1) / unit);
    ClaimRequirements {
        cpu_cores: up(capacity.get(CPU), 1000),
        memory_mib: up(capacity.get(MEMORY), MIB),
    }
}

fn lower_status(claim: &NodeSmithClaim, given: &Labels) -> MachineStatus {
    let status = claim.status.clone().unwrap_or_default();
    let provider_id: Option<Name> = status.provider_id.as_deref().map(Into::into);
    let own_id = given.get(annotations::MACHINE_ID).cloned();
    MachineStatus {
        machine_id: provider_id
            .as_ref()
            .map(|id| MachineId(own_id.unwrap_or_else(|| id.clone()))),
        provider_id,
        node: status.node_name.as_deref().map(Into::into),
        capacity: lower_resources(status.capacity.as_ref()).unwrap_or_default(),
        allocatable: lower_resources(status.allocatable.as_ref()).unwrap_or_default(),
        conditions: plain(&lower_conditions(&status.conditions)),
        last_pod_event: status.last_pod_event_time.as_ref().map(|time| time.0),
        ..MachineStatus::default()
    }
}

/// Conditions in the engine's words: those that hold say nothing more.
fn plain(conditions: &Conditions) -> Conditions {
    conditions
        .sorted()
        .into_iter()
        .map(|one| Condition {
            message: if told_about(&one.kind) && one.status == Truth::True {
                String::new()
            } else {
                one.message.clone()
            },
            ..one.clone()
        })
        .collect()
}

fn told_about(kind: &str) -> bool {
    kinds::LIFECYCLE.contains(&kind) || kind == kinds::READY
}

/// Conditions in the family's words.
fn told(status: &MachineStatus) -> Conditions {
    let say = |one: &Condition| {
        if one.status != Truth::True {
            return one.clone();
        }
        let id = status.provider_id.as_deref().unwrap_or_default();
        let node = status.node.as_deref().unwrap_or_default();
        let message = match &*one.kind {
            kinds::LAUNCHED => format!("Machine provisioned: {id}"),
            kinds::REGISTERED => format!("Node {node} joined cluster"),
            kinds::INITIALIZED => "Node is ready".to_owned(),
            kinds::READY => "Claim is fully operational".to_owned(),
            _ => one.message.clone(),
        };
        Condition {
            message,
            ..one.clone()
        }
    };
    status.conditions.sorted().into_iter().map(say).collect()
}

/// Labels that only this family puts on nodes.
pub(super) fn node_labels(machine: &MachineRecord) -> Labels {
    let mut all = Terms::read(&machine.annotations)
        .map(|terms| terms.labels)
        .unwrap_or_default();
    all.insert(keys::CLAIM_LABEL.into(), machine.key.name.clone());
    all
}

/// The object for a new machine.
pub(super) fn render(machine: &NewMachine) -> Result<NodeSmithClaim, String> {
    let pool = &machine.pool;
    let offers = serde_json::to_string(&machine.offers).map_err(|error| error.to_string())?;
    let first = machine
        .offers
        .first()
        .ok_or_else(|| "there is nothing to buy".to_owned())?;
    let mut terms = Terms::of_record(pool).ok_or_else(|| "the pool has no template".to_owned())?;
    let own: BTreeMap<String, String> = machine
        .labels
        .iter()
        .chain(&first.labels)
        .chain(&terms.labels)
        .filter(|(key, _)| !FOREIGN.contains(&&***key))
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .collect();
    terms.requests = machine.requests.clone();
    let terms = serde_json::to_string(&terms).map_err(|error| error.to_string())?;
    let mut notes: BTreeMap<String, String> = machine
        .annotations
        .iter()
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .collect();
    notes.insert(annotations::OFFERS.into(), offers);
    notes.insert(TERMS.into(), terms);
    Ok(NodeSmithClaim {
        metadata: ObjectMeta {
            name: Some(machine.name.to_string()),
            namespace: Some(pool.key.namespace.to_string()),
            labels: Some(own),
            annotations: Some(notes),
            finalizers: Some(vec![keys::CLAIM_FINALIZER.to_owned()]),
            owner_references: Some(vec![OwnerReference {
                api_version: API_VERSION.into(),
                kind: "NodeSmithPool".into(),
                name: pool.key.name.to_string(),
                uid: pool.uid.to_string(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            }]),
            ..ObjectMeta::default()
        },
        spec: NodeSmithClaimSpec {
            pool_ref: pool.key.name.to_string(),
            requirements: Some(requirements(&first.capacity)),
            idempotency_key: None,
            termination_grace_period: None,
        },
        status: None,
    })
}

/// What a change of the metadata means for the spec: another offer is tried, or the first one is chosen.
pub(super) fn spec_change(machine: &MachineRecord, change: &MetadataChange) -> Option<Value> {
    let told = |key: &str| change.annotations.get(key).cloned().flatten();
    let chosen: Option<Vec<Offer>> =
        told(annotations::OFFERS).and_then(|text| serde_json::from_str(&text).ok());
    let offer = match (told(annotations::TRIED), &chosen) {
        (Some(tried), _) => machine.offers.get(tried.parse::<usize>().ok()?),
        (None, Some(chosen)) => chosen.first(),
        (None, None) => None,
    }?;
    Some(json!({ "requirements": requirements(&offer.capacity) }))
}

/// The status as a merge patch that is refused if the object has changed meanwhile.
pub(super) fn status_patch(machine: &MachineRecord, status: &MachineStatus) -> Value {
    let amounts =
        |resources: &Resources| (!resources.is_empty()).then(|| render_resources(resources));
    let provider = (!machine.class.name.is_empty()).then(|| machine.class.name.to_string());
    json!({
        "metadata": {"uid": &*machine.uid.0, "resourceVersion": machine.version.to_string()},
        "status": {
            "providerID": status.provider_id.as_deref(),
            "providerRef": provider,
            "nodeName": status.node.as_deref(),
            "launchAttempts": machine.tried() + 1,
            "capacity": amounts(&status.capacity),
            "allocatable": amounts(&status.allocatable),
            "lastPodEventTime": status.last_pod_event.map(Time),
            "conditions": render_conditions(&told(status)),
        }
    })
}
