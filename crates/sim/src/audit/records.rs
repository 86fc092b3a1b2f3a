//! Machines of clouds whose wire carries no marks: they are made by the group, and which of them is whose stands in the
//! ledger that the provider keeps in the API server. Entries are orders: there is one before a machine is made, and until
//! it is gone.

use std::collections::{BTreeMap, BTreeSet};

use joiner_providers::MachineId;
use serde_json::Value;

use super::journal::subject;
use super::ledger::{Bought, Ledger};
use super::purchases::over_limits;
use super::writes::LEDGER;
use super::{Finding, Invariant};
use crate::clouds::watched::{CloudEvent, GroupEvent, ReadRecord, Record};
use joiner_embedded::api::{ChangeKind, Commit};
use joiner_embedded::cluster::fields::Fields as _;

/// An order on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Order {
    /// UID of the machine object that it is for.
    pub(super) uid: String,
    pub(super) record: Record,
}

/// What is on record, and the groups that it is about.
#[derive(Debug, Default)]
pub(super) struct Records {
    readers: Vec<ReadRecord>,
    /// By key of their ConfigMap.
    orders: BTreeMap<String, Order>,
    /// How many machines each group was told to have.
    groups: BTreeMap<String, u32>,
    /// The group of every machine that has one.
    of: BTreeMap<MachineId, String>,
}

impl Records {
    /// Understands the entries of one more kind of cloud.
    pub(super) fn understand(&mut self, reader: ReadRecord) {
        if !self.readers.contains(&reader) {
            self.readers.push(reader);
        }
    }

    /// What an entry of a ledger says, if it is one that a reader knows.
    pub(super) fn read(&self, map: &Value) -> Option<Order> {
        map.label(LEDGER)?;
        let value: Value = serde_json::from_str(map.text(&["data", "value"])).ok()?;
        let record = self.readers.iter().find_map(|read| read(&value))?;
        let uid = map.text(&["data", "key"]).to_owned();
        Some(Order { uid, record })
    }

    /// Takes over a change of an entry. Says what is on record now.
    pub(super) fn commit(&mut self, commit: &Commit<'_>) -> Option<Order> {
        if commit.kind == ChangeKind::Deleted {
            self.orders.remove(commit.key);
            return None;
        }
        let order = self.read(commit.object)?;
        self.orders.insert(commit.key.to_owned(), order.clone());
        Some(order)
    }

    pub(super) fn event(&mut self, group: &str, event: &GroupEvent) {
        match event {
            GroupEvent::Made => {
                self.groups.insert(group.to_owned(), 0);
            }
            GroupEvent::Told { wanted, .. } => {
                self.groups.insert(group.to_owned(), *wanted);
            }
            GroupEvent::Added(machine) => {
                self.of.insert(machine.id.clone(), group.to_owned());
            }
            GroupEvent::Ended => {}
            GroupEvent::Gone => {
                self.groups.remove(group);
            }
        }
    }

    /// A machine is gone.
    pub(super) fn gone(&mut self, id: &MachineId) {
        self.of.remove(id);
    }

    /// Everything on record.
    pub(super) fn orders(&self) -> impl Iterator<Item = &Order> {
        self.orders.values()
    }

    fn orders_in<'a>(&'a self, group: &'a str) -> impl Iterator<Item = &'a Order> {
        self.orders().filter(move |one| one.record.group == group)
    }

    fn given(&self) -> BTreeSet<&MachineId> {
        self.orders()
            .filter_map(|one| one.record.machine.as_ref())
            .collect()
    }

    /// Machines of a group that are on no record.
    fn strays<'a>(&'a self, group: &'a str) -> Vec<&'a MachineId> {
        let given = self.given();
        let own = self.of.iter().filter(|(_, of)| *of == group);
        own.map(|(id, _)| id)
            .filter(|id| !given.contains(id))
            .collect()
    }

    /// Orders of a group that have no machine yet, those first that are to stay.
    fn waiting<'a>(&'a self, group: &'a str) -> Vec<&'a Order> {
        let mut waiting: Vec<&Order> = self
            .orders_in(group)
            .filter(|one| one.record.machine.is_none())
            .collect();
        waiting.sort_by_key(|one| one.record.leaving);
        waiting
    }

    /// For whom machines were made that are on no record yet: one for each order that waits.
    pub(super) fn presumed(&self) -> Vec<(&MachineId, &str)> {
        let pairs = |group| self.strays(group).into_iter().zip(self.waiting(group));
        let groups = self.groups.keys().map(String::as_str);
        groups
            .flat_map(pairs)
            .map(|(id, order)| (id, order.uid.as_str()))
            .collect()
    }

    /// Machines of groups that are on no record, and groups that nothing is in.
    pub(super) fn left(&self) -> (Vec<&MachineId>, Vec<&str>) {
        let given = self.given();
        let strays = self.of.keys().filter(|id| !given.contains(id)).collect();
        let used: BTreeSet<&str> = self
            .of
            .values()
            .map(String::as_str)
            .chain(self.orders().map(|one| one.record.group.as_str()))
            .collect();
        let groups = self.groups.keys().map(String::as_str);
        (strays, groups.filter(|one| !used.contains(one)).collect())
    }
}

/// Whether a machine is there and stays.
fn stays(bought: Option<&Bought>) -> bool {
    bought.is_some_and(|one| !one.stopping && !one.announced && !one.taken)
}

/// Judges what is put on record, and what is struck off.
pub(super) fn judge_commit(ledger: &Ledger, commit: &Commit<'_>) -> Vec<Finding> {
    if commit.resource != "configmaps" || commit.asked.is_none() {
        return Vec::new();
    }
    let Some(order) = ledger.records.read(commit.object) else {
        return Vec::new();
    };
    let before = ledger.records.orders.get(commit.key);
    let machine = order.record.machine.as_ref();
    let claim = ledger.claim_by_uid(&order.uid);
    let mut about = claim.map(|claim| ledger.circle(claim)).unwrap_or_default();
    about.push(subject("group", &order.record.group));
    about.extend(machine.map(|id| subject("machine", &id.0)));
    let mut findings = Vec::new();
    let mut found = |invariant, message: String| {
        findings.push(Finding::new(invariant, message, about.clone()));
    };
    if commit.kind == ChangeKind::Deleted {
        // It may be struck off only once the machine is gone, or about to go with nobody left who pays for it.
        if let Some(id) = machine.filter(|id| stays(ledger.machines.get(id))) {
            let message = format!("machine {id} is struck off the record and still there");
            found(Invariant::MachineFirst, message);
        }
        return findings;
    }
    let leaves = order.record.leaving;
    match claim {
        None if before.is_none() && !leaves => {
            let message = format!(
                "a machine of {} was ordered for an object that is gone",
                order.record.group
            );
            found(Invariant::OneMachine, message);
        }
        Some(claim) if leaves && !claim.deleting() => {
            let message = format!(
                "the machine of {} is to go, and the object is not",
                claim.uid()
            );
            found(Invariant::Drained, message);
        }
        _ => {}
    }
    let former = before.and_then(|one| one.record.machine.as_ref());
    if let Some(former) = former.filter(|one| Some(*one) != machine)
        && stays(ledger.machines.get(former))
    {
        let message = format!(
            "object {} has {former} and was given {machine:?}",
            order.uid
        );
        found(Invariant::OneMachine, message);
    }
    if let Some(id) = machine {
        let mut others = ledger.records.orders();
        if let Some(other) =
            others.find(|one| one.uid != order.uid && one.record.machine.as_ref() == Some(id))
        {
            let message = format!(
                "machine {id} of {} was given to {} too",
                other.uid, order.uid
            );
            found(Invariant::OneMachine, message);
        }
    }
    findings
}

/// Judges what a group is told, and what is made in it.
pub(super) fn judge_event(ledger: &Ledger, event: &CloudEvent) -> Vec<Finding> {
    let CloudEvent::Group(group, event) = event else {
        return Vec::new();
    };
    match event {
        GroupEvent::Told { before, wanted } => {
            told(ledger, group, *before, *wanted).into_iter().collect()
        }
        GroupEvent::Added(machine) => {
            // Whose it will be stands on record later; that somebody waits for it does now.
            let records = &ledger.records;
            let made = records.strays(group).len();
            let order = records.waiting(group).into_iter().nth(made);
            let claim = order.and_then(|order| ledger.claim_by_uid(&order.uid));
            claim.map_or_else(Vec::new, |claim| over_limits(ledger, claim, machine))
        }
        GroupEvent::Made | GroupEvent::Ended | GroupEvent::Gone => Vec::new(),
    }
}

/// A group may grow to what is on record, and shrink to what stays.
fn told(ledger: &Ledger, group: &str, before: u32, wanted: u32) -> Option<Finding> {
    let records = &ledger.records;
    let count = usize::try_from(wanted).unwrap_or(usize::MAX);
    // Machines on no record are those that orders wait for, as far as there are any.
    let waiting = records.waiting(group).len();
    let given = records.orders_in(group).count() - waiting;
    let ordered = given + waiting.max(records.strays(group).len());
    let staying = |one: &&Order| {
        let machine = one.record.machine.as_ref();
        !one.record.leaving && machine.is_none_or(|id| stays(ledger.machines.get(id)))
    };
    let staying = records.orders_in(group).filter(staying).count();
    let (invariant, message) = if wanted > before && count > ordered {
        let message =
            format!("group {group} is to have {wanted} machines, and {ordered} are on record");
        (Invariant::OneMachine, message)
    } else if wanted < before && count < staying {
        let message = format!("group {group} is to have {wanted} machines, and {staying} stay");
        (Invariant::Drained, message)
    } else {
        return None;
    };
    let uids = records.orders_in(group).map(|one| one.uid.as_str());
    let mut about = vec![subject("group", group)];
    for claim in uids.filter_map(|uid| ledger.claim_by_uid(uid)) {
        about.extend(ledger.circle(claim));
    }
    Some(Finding::new(invariant, message, about))
}
