//! SpotNodes: one server each.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use joiner_api::karpetrack::{NodeResources, Phase, SpotNode, SpotNodeSpec, keys};
use joiner_api::text::Price;
use joiner_core::labels as well_known;
use joiner_core::money::Money;
use joiner_core::name::{Labels, Name};
use joiner_core::requirement::{Expression, Operator};
use joiner_core::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, NVIDIA_GPU, Resources};
use joiner_providers::rackspace::catalog::CATEGORY_LABEL;
use joiner_providers::{MachineId, Uid};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube::api::ObjectMeta;
use serde_json::{Value, json};

use super::pool::{id, name_of, price_text};
use super::terms::{TERMS, Terms};
use super::{API_VERSION, NAME, class};
use crate::dialects::convert::{
    key, lower_conditions, lower_resources, render_conditions, render_resources, text,
};
use crate::record::{
    ClassKey, Condition, Conditions, MachineRecord, MachineStatus, MetadataChange, NewMachine,
    Offer, Truth, annotations, kinds,
};
use crate::view::pods::quantity_map;
use crate::view::{labels, version};

/// Prefix of annotations that are for the SpotNode only.
const OWN: [&str; 3] = ["joiner.dev/", "karpetrack.io/", "karpenter.sh/nodeclaim-"];
/// Why a SpotNode stands in for another, as the family's label has it.
const PRICE_OPTIMIZATION: &str = "price-optimization";

/// A SpotNode as the engine keeps it.
pub(super) fn lower(node: &SpotNode, class: &ClassKey) -> Result<MachineRecord, String> {
    let metadata = &node.metadata;
    let given = labels(metadata.annotations.clone());
    let offers: Vec<Offer> = match given.get(annotations::OFFERS) {
        None => Vec::new(),
        Some(text) => serde_json::from_str(text)
            .map_err(|error| format!("metadata.annotations[{}]: {error}", annotations::OFFERS))?,
    };
    let terms = Terms::read(&given)?;
    let spec = &node.spec;
    let inherited = |key: &Name| !OWN.iter().any(|prefix| key.starts_with(prefix));
    let created = metadata
        .creation_timestamp
        .as_ref()
        .map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    Ok(MachineRecord {
        key: key(NAME, metadata),
        uid: Uid(text(metadata.uid.as_ref())),
        version: version(metadata.resource_version.as_deref()),
        generation: metadata.generation.unwrap_or(0),
        created,
        deleting: metadata.deletion_timestamp.as_ref().map(|time| time.0),
        finalizer: metadata
            .finalizers
            .iter()
            .flatten()
            .any(|one| one == keys::SPOTNODE_FINALIZER),
        pool: Some(id(&spec.node_pool_ref)),
        class: class.clone(),
        labels: labels(metadata.labels.clone()),
        node_annotations: given
            .iter()
            .filter(|(key, _)| inherited(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
        requirements: vec![
            Expression::new(
                well_known::INSTANCE_TYPE,
                Operator::In,
                &[&spec.instance_type],
            ),
            Expression::new(well_known::ZONE, Operator::In, &[&spec.region]),
        ],
        requests: terms.requests,
        taints: terms.taints,
        startup_taints: Vec::new(),
        expire_after: terms.expire_after,
        registration_timeout: None,
        termination_grace: None,
        max_price: spec.bid_price.as_ref().and_then(read_price),
        offers: Arc::new(offers),
        status: lower_status(node, &given, created),
        annotations: given,
    })
}

fn read_price(price: &Price) -> Option<Money> {
    price.get().ok().filter(|price| *price > Money::ZERO)
}

fn lower_status(node: &SpotNode, given: &Labels, created: Timestamp) -> MachineStatus {
    let status = node.status.clone().unwrap_or_default();
    let provider_id: Option<Name> = status.provider_id.as_deref().map(Into::into);
    let own_id = given.get(annotations::MACHINE_ID).cloned();
    let generation = node.metadata.generation.unwrap_or(0);
    MachineStatus {
        machine_id: provider_id
            .as_ref()
            .map(|id| MachineId(own_id.unwrap_or_else(|| id.clone()))),
        provider_id,
        node: status.node_name.as_deref().map(Into::into),
        price: status.price_per_hour.as_ref().and_then(read_price),
        capacity: lower_resources(status.capacity.as_ref()).unwrap_or_default(),
        allocatable: lower_resources(status.allocatable.as_ref()).unwrap_or_default(),
        conditions: plain(lower_conditions(&status.conditions), generation, created),
        last_pod_event: status.last_pod_event_time.as_ref().map(|time| time.0),
        price_checked: status.last_price_check.as_ref().map(|time| time.0),
        pods: status
            .allocated_pods
            .and_then(|count| u32::try_from(count).ok()),
    }
}

/// Conditions with `Ready` in the engine's words again.
fn plain(mut conditions: Conditions, generation: i64, created: Timestamp) -> Conditions {
    let Some(since) = conditions.get(kinds::READY).map(|one| one.since) else {
        return conditions;
    };
    conditions.ensure_absent(kinds::READY);
    let since = since.max(created);
    conditions.ensure_ready(&kinds::LIFECYCLE, generation, since);
    conditions
}

/// Conditions with `Ready` in the family's words: it is not ready while it is being provisioned, and says so.
fn told(conditions: &Conditions) -> Conditions {
    let say = |one: &Condition| {
        if &*one.kind != kinds::READY {
            return one.clone();
        }
        let (status, reason, message) = match one.status {
            Truth::True => (
                Truth::True,
                "NodeReady",
                "Node is running and ready".to_owned(),
            ),
            Truth::False => (Truth::False, "ProvisioningFailed", one.message.clone()),
            Truth::Unknown => (
                Truth::False,
                "Provisioning",
                format!("Node is being provisioned ({})", one.message),
            ),
        };
        Condition {
            status,
            reason: reason.into(),
            message,
            ..one.clone()
        }
    };
    conditions.sorted().into_iter().map(say).collect()
}

/// How far a server has come, in the family's words.
pub(super) fn phase(machine: &MachineRecord, status: &MachineStatus) -> Phase {
    let is = |kind: &str| status.conditions.is_true(kind);
    if machine.deleting.is_some() {
        let emptied = is(kinds::DRAINED) || is(kinds::INSTANCE_TERMINATING);
        if is(kinds::REGISTERED) && !emptied {
            Phase::Draining
        } else {
            Phase::Terminating
        }
    } else if is(kinds::INITIALIZED) {
        Phase::Running
    } else if status.machine_id.is_some() || is(kinds::LAUNCHED) {
        Phase::Provisioning
    } else {
        Phase::Pending
    }
}

/// Labels that only this family puts on nodes.
pub(super) fn node_labels(machine: &MachineRecord) -> Labels {
    let label = |key: &str| {
        machine
            .labels
            .get(key)
            .map(AsRef::as_ref)
            .unwrap_or_default()
    };
    let mut all = class::labels(
        label(well_known::INSTANCE_TYPE),
        label(well_known::REGION),
        label(CATEGORY_LABEL),
    );
    all.insert(keys::MANAGED_LABEL.into(), "true".into());
    if let Some(pool) = machine.pool.as_deref().map(name_of) {
        all.insert(well_known::NODEPOOL.into(), pool.clone());
        all.insert(keys::NODEPOOL_LABEL.into(), pool);
    }
    all
}

/// The object for a new machine.
pub(super) fn render(machine: &NewMachine) -> Result<SpotNode, String> {
    let pool = &machine.pool;
    let offers = serde_json::to_string(&machine.offers).map_err(|error| error.to_string())?;
    let first = machine
        .offers
        .first()
        .ok_or_else(|| "there is nothing to buy".to_owned())?;
    let mut terms: Terms =
        serde_json::from_value((*pool.template).clone()).map_err(|error| error.to_string())?;
    let mut own: BTreeMap<String, String> = BTreeMap::new();
    for (key, value) in terms
        .labels
        .iter()
        .chain(&machine.labels)
        .chain(&first.labels)
    {
        own.insert(key.to_string(), value.to_string());
    }
    own.insert(keys::NODEPOOL_LABEL.into(), pool.key.name.to_string());
    own.remove(well_known::HOSTNAME);
    if machine.annotations.contains_key(annotations::REPLACES) {
        own.insert(keys::REASON_LABEL.into(), PRICE_OPTIMIZATION.into());
    }
    terms.requests = machine.requests.clone();
    let terms = serde_json::to_string(&terms).map_err(|error| error.to_string())?;
    let mut notes: BTreeMap<String, String> = machine
        .annotations
        .iter()
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .collect();
    notes.insert(annotations::OFFERS.into(), offers);
    notes.insert(TERMS.into(), terms);
    Ok(SpotNode {
        metadata: ObjectMeta {
            name: Some(machine.name.to_string()),
            labels: Some(own),
            annotations: Some(notes),
            finalizers: Some(vec![keys::SPOTNODE_FINALIZER.to_owned()]),
            owner_references: Some(vec![OwnerReference {
                api_version: API_VERSION.into(),
                kind: "SpotNodePool".into(),
                name: pool.key.name.to_string(),
                uid: pool.uid.to_string(),
                controller: None,
                block_owner_deletion: Some(true),
            }]),
            ..ObjectMeta::default()
        },
        spec: SpotNodeSpec {
            node_pool_ref: pool.key.name.to_string(),
            instance_type: first.purchase.instance_type.to_string(),
            region: first.purchase.zone.to_string(),
            bid_price: pool
                .max_price
                .map(|most| format!("{:.3}", most.dollars()).into()),
            resources: Some(resources(&first.capacity)),
        },
        status: None,
    })
}

fn resources(capacity: &Resources) -> NodeResources {
    let mut amounts = quantity_map(capacity);
    let mut amount = |name: &str| amounts.remove(name).map(|text| text.as_str().into());
    NodeResources {
        cpu: amount(CPU),
        memory: amount(MEMORY),
        ephemeral_storage: amount(EPHEMERAL_STORAGE),
        gpu: amount(NVIDIA_GPU),
    }
}

/// What a change of the metadata means for the spec: another offer is tried, or another server came than was planned.
pub(super) fn spec_change(machine: &MachineRecord, change: &MetadataChange) -> Option<Value> {
    let told = |key: &str| change.labels.get(key).cloned().flatten();
    let tried = change
        .annotations
        .get(annotations::TRIED)
        .cloned()
        .flatten();
    let offer = match tried {
        Some(tried) => machine.offers.get(tried.parse::<usize>().ok()?),
        None => None,
    };
    if let Some(offer) = offer {
        return Some(json!({
            "instanceType": &*offer.purchase.instance_type,
            "region": &*offer.purchase.zone,
            "resources": resources(&offer.capacity),
        }));
    }
    let kind = told(well_known::INSTANCE_TYPE)?;
    Some(json!({ "instanceType": &*kind }))
}

/// The status as a merge patch that is refused if the object has changed meanwhile.
pub(super) fn status_patch(machine: &MachineRecord, status: &MachineStatus) -> Value {
    let amounts =
        |resources: &Resources| (!resources.is_empty()).then(|| render_resources(resources));
    let bought = status.conditions.true_since(kinds::LAUNCHED).map(Time);
    json!({
        "metadata": {"uid": &*machine.uid.0, "resourceVersion": machine.version.to_string()},
        "status": {
            "phase": phase(machine, status),
            "providerID": status.provider_id.as_deref(),
            "nodeName": status.node.as_deref(),
            "pricePerHour": status.price.map(price_text),
            "provisionedAt": bought,
            "lastPriceCheck": status.price_checked.map(Time),
            "allocatedPods": status.pods,
            "lastPodEventTime": status.last_pod_event.map(Time),
            "capacity": amounts(&status.capacity),
            "allocatable": amounts(&status.allocatable),
            "conditions": render_conditions(&told(&status.conditions)),
        }
    })
}
