//! Buying: the offers of the object in their order, one request a step, the same machine for the same object.

use std::time::Duration;

use joiner_core::labels;
use joiner_core::name::{Labels, Name};
use joiner_providers::{LaunchRequest, Machine, MachineState, NodeLink};

use super::{Cause, Observed, ProviderAnswer, Step, Wake, status_or_wait, with_conditions};
use crate::edge::clock;
use crate::record::{
    MachineRecord, MachineStatus, MetadataChange, Truth, annotations, kinds, price_text,
};

/// The longest that the words of a cloud may be in a condition.
const WORDS: usize = 300;

/// How often the cloud is asked about a machine whose node has joined already.
const JOINED: Duration = Duration::from_secs(1);

pub(super) fn step(machine: &MachineRecord, observed: &Observed) -> Step {
    let now = observed.now;
    let Some(timeouts) = observed.timeouts else {
        return no_provider(machine, observed);
    };
    if let Some(ProviderAnswer::Absent { .. }) = observed.memory.cloud {
        return Step::Delete(Cause::LaunchFailed("it was made and is gone again".into()));
    }
    if let Some(bought) = observed.memory.machine() {
        return arrived(
            machine,
            observed,
            bought,
            clock::after(machine.created, timeouts.launch),
        );
    }
    if machine.offers.is_empty() {
        return if observed.unmet {
            let said = "no offering meets the requirements of the machine".to_owned();
            Step::Delete(Cause::InsufficientCapacity(said))
        } else if observed.catalog_read {
            Step::AskForOffers
        } else {
            no_provider(machine, observed)
        };
    }
    let trouble = || observed.memory.trouble.clone().unwrap_or_default();
    let tried = machine.tried();
    let next = |tried: usize| Step::Metadata(next_offer(machine, tried + 1));
    let Some(offer) = machine.offer() else {
        return Step::Delete(Cause::InsufficientCapacity(trouble()));
    };
    if observed.memory.refused == Some(tried) {
        return next(tried);
    }
    let deadline = clock::after(machine.created, timeouts.launch);
    if now >= deadline && !observed.memory.undecided {
        return Step::Delete(Cause::LaunchTimeout(trouble()));
    }
    if let Some(at) = observed.memory.must_wait(now) {
        let status = with_conditions(
            machine,
            now,
            [(
                kinds::LAUNCHED,
                Truth::Unknown,
                "LaunchFailed",
                shorten(&trouble()),
            )],
        );
        return status_or_wait(status, Wake::At(at));
    }
    if !observed.within_limits {
        return next(tried);
    }
    let mut labels = machine.labels.clone();
    labels.extend(observed.node_labels.clone());
    Step::Launch(Box::new(LaunchRequest {
        uid: machine.uid.clone(),
        name: machine.key.name.clone(),
        purchase: offer.purchase.clone(),
        capacity: offer.capacity.clone(),
        labels,
        taints: machine.taints.clone(),
        startup_taints: machine.startup_taints.clone(),
        max_price: machine.max_price,
    }))
}

/// Goes on to another offer. Where the object says what its machine costs, that is the price of this one from now on.
fn next_offer(machine: &MachineRecord, tried: usize) -> MetadataChange {
    let mut change = MetadataChange::annotation(annotations::TRIED, Some(tried.to_string().into()));
    if machine.annotations.contains_key(annotations::PRICE)
        && let Some(offer) = machine.offers.get(tried)
    {
        let price = Some(price_text(offer.purchase.price));
        let price = (annotations::PRICE.into(), price);
        change.annotations.extend([price]);
    }
    change
}

/// The cloud has a machine for us: write down what it is.
fn arrived(
    machine: &MachineRecord,
    observed: &Observed,
    bought: &Machine,
    deadline: jiff::Timestamp,
) -> Step {
    let now = observed.now;
    if let MachineState::Failed(said) = &bought.state {
        return Step::Delete(Cause::LaunchFailed(shorten(said)));
    }
    let missing: Vec<(Name, Name)> = facts(bought)
        .into_iter()
        .filter(|(key, value)| machine.labels.get(key) != Some(value))
        .collect();
    let provider_id = provider_id(bought);
    let own_id = (*provider_id != *bought.id.0).then(|| bought.id.0.clone());
    let id_written = machine.annotations.get(annotations::MACHINE_ID) == own_id.as_ref();
    if !missing.is_empty() || !id_written {
        let mut change = MetadataChange {
            labels: missing
                .into_iter()
                .map(|(key, value)| (key, Some(value)))
                .collect(),
            ..MetadataChange::default()
        };
        if !id_written {
            change
                .annotations
                .insert(annotations::MACHINE_ID.into(), own_id);
        }
        return Step::Metadata(change);
    }
    let (truth, reason, message) = match &bought.state {
        MachineState::Running => (Truth::True, "Launched", String::new()),
        MachineState::Stopping => (
            Truth::Unknown,
            "Stopping",
            "the cloud is stopping it".to_owned(),
        ),
        MachineState::Pending(said) | MachineState::Failed(said) => {
            (Truth::Unknown, "Pending", shorten(said))
        }
    };
    let mut copy = machine.clone();
    copy.status.machine_id = Some(bought.id.clone());
    copy.status.provider_id = Some(provider_id);
    copy.status.capacity = bought.capacity.clone();
    copy.status.allocatable = bought.allocatable.clone();
    copy.status.price = bought.price;
    let mut changes = vec![(kinds::LAUNCHED, truth, reason, message)];
    // What comes next is known already: that no node is there yet need not be a write of its own.
    if truth == Truth::True && !machine.launched() {
        let said = super::register::NO_NODE.to_owned();
        changes.push((kinds::REGISTERED, Truth::Unknown, "NodeNotFound", said));
    }
    let status = with_conditions(&copy, now, changes).unwrap_or(copy.status);
    // Not every dialect has a place for the price: it alone is no reason to write.
    let comparable = MachineStatus {
        price: machine.status.price,
        ..status.clone()
    };
    if comparable != machine.status {
        return Step::Status(Box::new(status));
    }
    if now >= deadline {
        let said = machine.status.conditions.get(kinds::LAUNCHED);
        return Step::Delete(Cause::LaunchTimeout(
            said.map(|one| one.message.clone()).unwrap_or_default(),
        ));
    }
    if let Some(at) = observed.memory.must_wait(now) {
        return Step::Wait(Wake::At(at));
    }
    // Once its node has joined, what the cloud said about a machine that comes is out of date.
    let poll = match (observed.memory.joined, observed.memory.asked) {
        (Some(joined), Some(asked)) if joined >= asked => None,
        (Some(_), Some(asked)) => Some(clock::after(asked, JOINED)),
        _ => observed.memory.next_poll(),
    };
    match poll {
        Some(at) if at > now => Step::Wait(Wake::At(at.min(deadline))),
        _ => Step::Get(bought.id.clone()),
    }
}

/// How long a machine object may be there before its node class: whoever creates both may begin with either.
const CLASS_EXPECTED: Duration = Duration::from_secs(15);

/// karpenter: pkg/controllers/nodeclaim/lifecycle/launch.go deletes what names a class that is not there.
fn no_provider(machine: &MachineRecord, observed: &Observed) -> Step {
    let mut wake = Wake::OnChange;
    if observed.class_missing && never_bought(machine) {
        let late = clock::after(machine.created, CLASS_EXPECTED);
        if observed.now >= late {
            return Step::Delete(Cause::NoClass(machine.class.to_string()));
        }
        wake = Wake::At(late);
    }
    let message = format!(
        "node class {} does not exist, has not been read yet or cannot be used",
        machine.class
    );
    let change = (
        kinds::LAUNCHED,
        Truth::Unknown,
        "NodeClassNotReady",
        message,
    );
    status_or_wait(with_conditions(machine, observed.now, [change]), wake)
}

/// Whether nobody can ever have bought this machine: what to buy is written on the object first.
pub(super) fn never_bought(machine: &MachineRecord) -> bool {
    machine.offers.is_empty()
        && machine.status.machine_id.is_none()
        && machine.status.provider_id.is_none()
}

/// What its node will call it.
pub(super) fn provider_id(machine: &Machine) -> Name {
    let by_id = machine.links.iter().find_map(|link| match link {
        NodeLink::ProviderId(id) => Some(id.clone()),
        _ => None,
    });
    by_id.unwrap_or_else(|| machine.id.0.clone())
}

/// Labels that follow from what was bought.
pub(super) fn facts(machine: &Machine) -> Labels {
    let capacity_type: &str = machine.capacity_type.into();
    let mut facts = machine.labels.clone();
    for (key, value) in [
        (labels::INSTANCE_TYPE, &*machine.instance_type),
        (labels::ZONE, &*machine.zone),
        (labels::REGION, &*machine.region),
        (labels::CAPACITY_TYPE, capacity_type),
    ] {
        if !value.is_empty() {
            facts.insert(key.into(), value.into());
        }
    }
    facts
}

/// At most so many characters of what a cloud said.
pub(super) fn shorten(said: &str) -> String {
    said.chars().take(WORDS).collect()
}
