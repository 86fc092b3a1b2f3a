//! What lasts too long, and what has not settled yet.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::journal::subject;
use super::ledger::{INTENT, Ledger, MANAGED_BY, ended, is_work, keeps_away};
use super::writes::{is_marked, marks};
use super::{AuditOptions, Finding, Invariant, placeable};
use joiner_embedded::cluster::fields::Fields as _;

/// Since when something does not belong to anything.
#[derive(Debug, Default)]
pub(super) struct Waits(BTreeMap<String, Timestamp>);

impl Waits {
    /// What has not belonged to anything for longer than the bound, counted from a moment at the earliest.
    pub(super) fn look(
        &mut self,
        ledger: &Ledger,
        options: &AuditOptions,
        now: Timestamp,
        (bound, from): (Duration, Timestamp),
    ) -> Vec<Finding> {
        let bound = SignedDuration::try_from(bound).unwrap_or(SignedDuration::MAX);
        let strays = strays(ledger, options);
        self.0
            .retain(|message, _| strays.iter().any(|one| one.message == *message));
        let mut late = Vec::new();
        for mut stray in strays {
            let since = self.0.entry(stray.message.clone()).or_insert(now);
            if now.duration_since((*since).max(from)) > bound {
                // Said once.
                *since = Timestamp::MAX;
                stray.message = format!("{} for more than {bound:#}", stray.message);
                late.push(stray);
            }
        }
        late
    }
}

/// Machines without objects, objects without machines, nodes without either.
fn strays(ledger: &Ledger, options: &AuditOptions) -> Vec<Finding> {
    let mut all = Vec::new();
    let mut found = |message: String, about: Vec<String>| {
        all.push(Finding::new(Invariant::NothingLeaked, message, about));
    };
    for (id, bought) in &ledger.machines {
        let Some(uid) = &bought.machine.uid else {
            continue;
        };
        if ledger.claim_by_uid(&uid.0).is_none() {
            found(
                format!("machine {id} has no object"),
                vec![subject("machine", &id.0)],
            );
        }
    }
    let (unknown, empty) = ledger.records.left();
    for id in unknown {
        found(
            format!("machine {id} is on no record"),
            vec![subject("machine", &id.0)],
        );
    }
    for group in empty {
        found(
            format!("group {group} is empty and still there"),
            vec![subject("group", group)],
        );
    }
    for order in ledger.records.orders() {
        if ledger.claim_by_uid(&order.uid).is_none() {
            let group = &order.record.group;
            found(
                format!("the order of {} in group {group} has no object", order.uid),
                vec![subject("group", group)],
            );
        }
    }
    for ((_, name), claim) in &ledger.claims {
        let launched = claim.condition_true("Launched") && !options.is_foreign(claim);
        if launched && ledger.machines_of(claim.uid()).next().is_none() {
            found(
                format!("machine object {name} has no machine"),
                ledger.circle(claim),
            );
        }
    }
    for (name, node) in &ledger.nodes {
        if options.marks_as_ours(node) && ledger.claim_of_node(node).is_none() {
            found(
                format!("node {name} has no machine object"),
                vec![subject("nodes", name)],
            );
        }
    }
    all
}

/// Everything that has not settled.
pub(super) fn all(ledger: &Ledger, options: &AuditOptions) -> Vec<Finding> {
    let mut open = strays(ledger, options);
    let mut found = |invariant, message: String, about: Vec<String>| {
        open.push(Finding::new(invariant, message, about));
    };
    for ((_, name), claim) in &ledger.claims {
        let ours = !options.is_foreign(claim);
        if ours && !is_marked(claim, options) {
            found(
                Invariant::Marked,
                format!(
                    "machine object {name} does not say who looks after it but {:?}",
                    claim.annotation(MANAGED_BY)
                ),
                ledger.circle(claim),
            );
        }
        if claim.deleting() {
            found(
                Invariant::DeletionsEnd,
                format!("machine object {name} is still there"),
                ledger.circle(claim),
            );
        } else if ours && !claim.condition_true("Initialized") {
            found(
                Invariant::NothingLeaked,
                format!("machine object {name} is not in use yet"),
                ledger.circle(claim),
            );
        } else if claim.annotation(INTENT).is_some() {
            found(
                Invariant::MarksRemoved,
                format!("machine object {name} bears the mark of a disruption"),
                ledger.circle(claim),
            );
        }
    }
    for (name, node) in &ledger.nodes {
        if keeps_away(node) {
            found(
                Invariant::MarksRemoved,
                format!("node {name} keeps pods away"),
                ledger
                    .claim_of_node(node)
                    .map_or_else(|| vec![subject("nodes", name)], |one| ledger.circle(one)),
            );
        }
        if let Some(claim) = ledger.claim_of_node(node)
            && claim.condition_true("Initialized")
            && marks(node) != Some((options.manager(claim.family), claim.uid().to_owned()))
        {
            let message = format!(
                "node {name} of {} is marked {:?}",
                claim.name(),
                marks(node)
            );
            found(Invariant::Marked, message, ledger.circle(claim));
        }
    }
    open.extend(pods(ledger, options));
    open
}

/// Pods that have not settled.
fn pods(ledger: &Ledger, options: &AuditOptions) -> Vec<Finding> {
    let mut open = Vec::new();
    let mut found = |invariant, message: String, about: Vec<String>| {
        open.push(Finding::new(invariant, message, about));
    };
    for (key, pod) in ledger.pods.iter().filter(|(_, pod)| !ended(pod)) {
        let about = vec![subject("pods", key)];
        let bound = !pod.text(&["spec", "nodeName"]).is_empty();
        if pod.deleting() {
            let message = format!("pod {key} has not ended");
            found(Invariant::DeletionsEnd, message, about);
        } else if bound && of_job(pod) {
            let message = format!("pod {key} is still at its task");
            found(Invariant::PodsRun, message, about);
        } else if bound && !pod.condition_true("Ready") {
            let message = format!("pod {key} does not run on its node");
            found(Invariant::PodsRun, message, about);
        } else if !bound && !pod.text(&["status", "nominatedNodeName"]).is_empty() {
            let node = pod.text(&["status", "nominatedNodeName"]);
            let message = format!("pod {key} was promised node {node} and waits");
            found(Invariant::Promised, message, about);
        } else if !bound
            && is_work(pod)
            && let Some(pool) = placeable::pool_for(ledger, options, pod)
        {
            let message = format!("pod {key} waits although pool {pool} could buy it a machine");
            found(Invariant::PodsRun, message, about);
        }
    }
    open
}

/// Whether a pod ends by itself one day: until then the world is not at rest.
fn of_job(pod: &Value) -> bool {
    pod.controller()
        .is_some_and(|owner| owner.text(&["kind"]) == "Job")
}
