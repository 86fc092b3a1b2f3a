//! Claims: one machine each.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use joiner_api::karpenter::{NodeClaim, NodeClaimSpec, NodeClaimTemplate, ResourceRequirements};
use joiner_api::scheduling::NodeSelectorRequirement;
use joiner_core::labels as well_known;
use joiner_core::money::Money;
use joiner_core::name::{Labels, Name};
use joiner_core::requirement::Operator;
use joiner_providers::{MachineId, Uid};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube::api::ObjectMeta;
use serde_json::{Value, json};

use super::{FINALIZER, hash};
use crate::dialect::{Event, Sighting};
use crate::dialects::convert::{
    key, lower_conditions, lower_resources, render_conditions, render_resources, text,
};
use crate::edge::clients::WriteError;
use crate::record::{
    ClassKey, MachineRecord, MachineStatus, MetadataChange, NewMachine, Offer, annotations,
    price_text,
};
use crate::view::{labels, version};

/// Prefix of annotations that are for the machine object only.
const OWN: [&str; 2] = ["joiner.dev/", "karpenter.sh/nodeclaim-"];

/// A claim that was seen.
#[derive(Clone, Debug)]
pub(super) enum Seen {
    /// Of a class that is served here.
    Own(MachineRecord),
    /// Another controller's; `None` if it cannot be read, which is for that controller to say.
    Foreign(Option<MachineRecord>),
}

/// A claim as the engine keeps it.
pub(super) fn lower(claim: &NodeClaim, supported: bool) -> Result<Seen, String> {
    if supported {
        record(claim).map(Seen::Own)
    } else {
        Ok(Seen::Foreign(record(claim).ok().map(foreign)))
    }
}

/// Another controller's claim. Until its machine is launched it says only what it must be and hold.
fn foreign(mut machine: MachineRecord) -> MachineRecord {
    for expression in &machine.requirements {
        if expression.operator == Operator::In
            && let [value] = expression.values.as_slice()
        {
            let entry = machine.labels.entry(expression.key.clone());
            entry.or_insert_with(|| value.clone());
        }
    }
    if machine.status.allocatable.is_empty() {
        machine.status.allocatable = machine.requests.clone();
        machine.status.capacity = machine.requests.clone();
    }
    machine
}

/// What the engine is told of a claim. The list of one kind begins and ends for own and foreign claims alike.
pub(super) fn sightings(event: Event<Seen>) -> Vec<Sighting> {
    let one = |seen: Seen, event: fn(MachineRecord) -> Event<MachineRecord>| match seen {
        Seen::Own(machine) => vec![Sighting::Machine(event(machine))],
        Seen::Foreign(machine) => {
            let machine = machine.map(|machine| Sighting::Foreign(event(machine)));
            machine.into_iter().collect()
        }
    };
    match event {
        Event::Started => vec![
            Sighting::Foreign(Event::Started),
            Sighting::Machine(Event::Started),
        ],
        Event::Complete => vec![
            Sighting::Foreign(Event::Complete),
            Sighting::Machine(Event::Complete),
        ],
        Event::Listed(seen) => one(seen, Event::Listed),
        Event::Changed(seen) => one(seen, Event::Changed),
        Event::Gone(seen) => one(seen, Event::Gone),
        Event::Malformed(malformed) => vec![Sighting::Machine(Event::Malformed(malformed))],
    }
}

/// A claim that the API server gave back.
pub(super) fn read(claim: &NodeClaim) -> Result<MachineRecord, WriteError> {
    record(claim).map_err(WriteError::Refused)
}

fn record(claim: &NodeClaim) -> Result<MachineRecord, String> {
    let metadata = &claim.metadata;
    let own = labels(metadata.labels.clone());
    let given = labels(metadata.annotations.clone());
    let offers: Vec<Offer> = match given.get(annotations::OFFERS) {
        None => Vec::new(),
        Some(text) => serde_json::from_str(text)
            .map_err(|error| format!("metadata.annotations[{}]: {error}", annotations::OFFERS))?,
    };
    let spec = &claim.spec;
    let grace = spec
        .termination_grace_period
        .as_ref()
        .map(joiner_api::text::Duration::get)
        .transpose();
    let requests = spec
        .resources
        .as_ref()
        .and_then(|one| one.requests.as_ref());
    let inherited = |key: &Name| !OWN.iter().any(|prefix| key.starts_with(prefix));
    Ok(MachineRecord {
        key: key(super::NAME, metadata),
        uid: Uid(text(metadata.uid.as_ref())),
        version: version(metadata.resource_version.as_deref()),
        generation: metadata.generation.unwrap_or(0),
        created: metadata
            .creation_timestamp
            .as_ref()
            .map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        deleting: metadata.deletion_timestamp.as_ref().map(|time| time.0),
        finalizer: metadata
            .finalizers
            .iter()
            .flatten()
            .any(|one| one == FINALIZER),
        pool: own.get(well_known::NODEPOOL).cloned(),
        class: ClassKey {
            group: spec.node_class_ref.group.as_str().into(),
            kind: spec.node_class_ref.kind.as_str().into(),
            namespace: "".into(),
            name: spec.node_class_ref.name.as_str().into(),
        },
        node_annotations: given
            .iter()
            .filter(|(key, _)| inherited(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
        requirements: spec
            .requirements
            .iter()
            .map(joiner_api::scheduling::NodeSelectorRequirement::to_expression)
            .collect(),
        requests: lower_resources(requests)
            .map_err(|error| format!("spec.resources.requests.{error}"))?,
        taints: spec
            .taints
            .iter()
            .map(joiner_api::scheduling::Taint::to_core)
            .collect(),
        startup_taints: spec
            .startup_taints
            .iter()
            .map(joiner_api::scheduling::Taint::to_core)
            .collect(),
        expire_after: spec
            .expire_after()
            .get()
            .map_err(|error| format!("spec.expireAfter: {error}"))?,
        registration_timeout: None,
        termination_grace: grace
            .map_err(|error| format!("spec.terminationGracePeriod: {error}"))?,
        max_price: None,
        offers: Arc::new(offers),
        status: lower_status(claim, &given),
        labels: own,
        annotations: given,
    })
}

fn lower_status(claim: &NodeClaim, given: &Labels) -> MachineStatus {
    let status = claim.status.clone().unwrap_or_default();
    let provider_id: Option<Name> = status.provider_id.as_deref().map(Into::into);
    let own_id = given.get(annotations::MACHINE_ID).cloned();
    MachineStatus {
        machine_id: provider_id
            .as_ref()
            .map(|id| MachineId(own_id.unwrap_or_else(|| id.clone()))),
        provider_id,
        node: status.node_name.as_deref().map(Into::into),
        price: given.get(annotations::PRICE).and_then(read_price),
        capacity: lower_resources(status.capacity.as_ref()).unwrap_or_default(),
        allocatable: lower_resources(status.allocatable.as_ref()).unwrap_or_default(),
        conditions: lower_conditions(&status.conditions),
        last_pod_event: status.last_pod_event_time.as_ref().map(|time| time.0),
        price_checked: None,
        pods: None,
    }
}

/// Labels that only Karpenter puts on nodes.
pub(super) fn node_labels(machine: &MachineRecord) -> Labels {
    let class = class_label(&machine.class);
    let mut all = Labels::from([class]);
    if let Some(pool) = &machine.pool {
        all.insert(well_known::NODEPOOL.into(), pool.clone());
    }
    let agreed = || machine.offer().map(|offer| offer.purchase.price);
    if let Some(price) = machine.status.price.or_else(agreed) {
        all.insert(annotations::INSTANCE_PRICE.into(), price_text(price));
    }
    all
}

fn read_price(text: &Name) -> Option<Money> {
    let dollars: f64 = text.parse().ok()?;
    (dollars.is_finite() && dollars >= 0.0).then(|| Money::from_dollars(dollars))
}

/// The annotation with the price of today, unless it is there.
pub(super) fn price_change(machine: &MachineRecord, price: Money) -> Option<MetadataChange> {
    let text = price_text(price);
    let known = machine.annotations.get(annotations::PRICE) == Some(&text);
    (!known).then(|| MetadataChange::annotation(annotations::PRICE, Some(text)))
}

fn class_label(class: &ClassKey) -> (Name, Name) {
    let key = format!("{}/{}", class.group, class.kind.to_lowercase());
    (key.into(), class.name.clone())
}

/// The object for a new machine.
pub(super) fn render(machine: &NewMachine) -> Result<NodeClaim, String> {
    let template: NodeClaimTemplate = serde_json::from_value((*machine.pool.template).clone())
        .map_err(|error| error.to_string())?;
    let metadata = template.metadata.unwrap_or_default();
    let offers = serde_json::to_string(&machine.offers).map_err(|error| error.to_string())?;
    let mut own: BTreeMap<String, String> = metadata.labels;
    own.extend(
        machine
            .labels
            .iter()
            .map(|(key, value)| (key.to_string(), value.to_string())),
    );
    let first = machine.offers.first();
    for (key, value) in first.iter().flat_map(|offer| &offer.labels) {
        own.insert(key.to_string(), value.to_string());
    }
    let class = class_label(&machine.pool.class);
    own.insert(class.0.to_string(), class.1.to_string());
    own.remove(well_known::HOSTNAME);
    let mut notes: BTreeMap<String, String> = metadata.annotations;
    notes.extend(
        machine
            .annotations
            .iter()
            .map(|(key, value)| (key.to_string(), value.to_string())),
    );
    notes.extend(
        hash::annotations(&machine.pool).map(|(key, value)| (key.to_string(), value.to_string())),
    );
    notes.insert(annotations::OFFERS.into(), offers);
    if let Some(offer) = first {
        let price = price_text(offer.purchase.price);
        notes.insert(annotations::PRICE.into(), price.to_string());
    }
    let spec = template.spec;
    Ok(NodeClaim {
        metadata: ObjectMeta {
            name: Some(machine.name.to_string()),
            labels: Some(own),
            annotations: Some(notes),
            finalizers: Some(vec![FINALIZER.to_owned()]),
            owner_references: Some(vec![OwnerReference {
                api_version: "karpenter.sh/v1".into(),
                kind: "NodePool".into(),
                name: machine.pool.key.name.to_string(),
                uid: machine.pool.uid.to_string(),
                controller: None,
                block_owner_deletion: Some(true),
            }]),
            ..ObjectMeta::default()
        },
        spec: NodeClaimSpec {
            node_class_ref: spec.node_class_ref,
            requirements: requirements(spec.requirements, machine),
            resources: Some(ResourceRequirements {
                requests: Some(render_resources(&machine.requests)),
            }),
            taints: spec.taints,
            startup_taints: spec.startup_taints,
            expire_after: spec.expire_after,
            termination_grace_period: spec.termination_grace_period,
        },
        status: None,
    })
}

/// The pool's requirements, narrowed to what may be bought.
fn requirements(
    mut pool: Vec<NodeSelectorRequirement>,
    machine: &NewMachine,
) -> Vec<NodeSelectorRequirement> {
    let mut narrow = |key: &str, values: Vec<String>| {
        let mut values = values;
        values.sort();
        values.dedup();
        let least = pool
            .iter()
            .filter(|one| one.key == key)
            .filter_map(|one| one.min_values)
            .max();
        pool.retain(|one| one.key != key);
        let mut requirement = NodeSelectorRequirement::one_of(key, values);
        // A promise of variety is kept only as far as what is left to choose from goes.
        requirement.min_values = least
            .filter(|least| usize::try_from(*least).is_ok_and(|n| n <= requirement.values.len()));
        pool.push(requirement);
    };
    let all = || machine.offers.iter().map(|offer| &offer.purchase);
    narrow(
        well_known::INSTANCE_TYPE,
        all().map(|one| one.instance_type.to_string()).collect(),
    );
    narrow(
        well_known::ZONE,
        all().map(|one| one.zone.to_string()).collect(),
    );
    narrow(
        well_known::CAPACITY_TYPE,
        all().map(|one| one.capacity_type.to_string()).collect(),
    );
    pool.push(NodeSelectorRequirement::one_of(
        well_known::NODEPOOL,
        [machine.pool.key.name.to_string()],
    ));
    pool
}

/// The status as a merge patch that is refused if the object has changed meanwhile.
pub(super) fn status_patch(machine: &MachineRecord, status: &MachineStatus) -> Value {
    let amounts = |resources: &joiner_core::resources::Resources| {
        (!resources.is_empty()).then(|| render_resources(resources))
    };
    json!({
        "metadata": {"uid": &*machine.uid.0, "resourceVersion": machine.version.to_string()},
        "status": {
            "nodeName": status.node.as_deref(),
            "providerID": status.provider_id.as_deref(),
            "capacity": amounts(&status.capacity),
            "allocatable": amounts(&status.allocatable),
            "lastPodEventTime": status.last_pod_event.map(Time),
            "conditions": render_conditions(&status.conditions),
        }
    })
}
