//! What may be bought: one machine for one object, within the pool's limits.

use joiner_core::resources::{CPU, Resources};
use joiner_providers::Machine;
use serde_json::Value;

use super::journal::subject;
use super::ledger::{Claim, Id, Ledger};
use super::{Finding, Invariant};
use crate::clouds::watched::CloudEvent;
use joiner_embedded::api::{ChangeKind, Commit};
use joiner_embedded::cluster::fields::Fields as _;
use joiner_embedded::cluster::quantity;

/// Judges machine objects as they come and go.
pub(super) fn judge_commit(ledger: &Ledger, commit: &Commit<'_>) -> Vec<Finding> {
    let Some(family) = ledger.of_machines(commit.resource) else {
        return Vec::new();
    };
    let claim = Claim::new(family, commit.object);
    match commit.kind {
        ChangeKind::Added if commit.asked.is_some() => too_many(ledger, &claim),
        ChangeKind::Deleted => left_behind(ledger, &claim),
        _ => Vec::new(),
    }
}

/// More machine objects than the pool may have nodes.
fn too_many(ledger: &Ledger, claim: &Claim) -> Vec<Finding> {
    let id = claim.pool();
    let Some(limit) =
        limits(ledger, &id).and_then(|limits| limits.get("nodes").map(quantity::units))
    else {
        return Vec::new();
    };
    let held = i64::try_from(ledger.claims_of(&id).count()).unwrap_or(i64::MAX) + 1;
    if held <= limit {
        return Vec::new();
    }
    let pool = &id.1;
    let message = format!("pool {pool} has {held} machine objects, its limit is {limit} nodes");
    vec![Finding::new(
        Invariant::Limits,
        message,
        ledger.circle(claim),
    )]
}

/// The object went before its machine did: whoever pays for it cannot find it any more.
fn left_behind(ledger: &Ledger, claim: &Claim) -> Vec<Finding> {
    let uid = claim.uid();
    let machines = ledger.machines_of(uid).map(|one| {
        let id = &one.machine.id;
        format!("its machine {id}")
    });
    let orders = ledger.records.orders().filter(|one| one.uid == uid);
    let orders = orders.map(|one| format!("its order in group {}", one.record.group));
    machines
        .chain(orders)
        .map(|what| {
            let message = format!("machine object {} is gone and {what} is not", claim.name());
            Finding::new(Invariant::MachineFirst, message, ledger.circle(claim))
        })
        .collect()
}

/// Judges a purchase.
pub(super) fn judge_event(ledger: &Ledger, event: &CloudEvent) -> Vec<Finding> {
    let CloudEvent::Launched(machine) = event else {
        return Vec::new();
    };
    let id = subject("machine", &machine.id.0);
    let Some(uid) = &machine.uid else {
        return Vec::new();
    };
    let Some(claim) = ledger.claim_by_uid(&uid.0) else {
        let message = format!(
            "machine {} was bought for an object that is gone",
            machine.id
        );
        return vec![Finding::new(Invariant::OneMachine, message, [id])];
    };
    let mut findings = Vec::new();
    let mut about = ledger.circle(claim);
    about.push(id);
    if let Some(first) = ledger.machines_of(&uid.0).find(|one| !one.stopping) {
        let message = format!(
            "machine object {} has {} and was sold {} too",
            claim.name(),
            first.machine.id,
            machine.id
        );
        findings.push(Finding::new(Invariant::OneMachine, message, about));
    }
    findings.extend(over_limits(ledger, claim, machine));
    findings
}

/// Which limits of its pool a machine breaks that is sold for an object.
pub(super) fn over_limits(ledger: &Ledger, claim: &Claim, machine: &Machine) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut about = ledger.circle(claim);
    about.push(subject("machine", &machine.id.0));
    let pool_id = claim.pool();
    let pool = &pool_id.1;
    let mut used = used(ledger, &pool_id);
    used.add(&machine.capacity);
    for (name, most) in limits(ledger, &pool_id).into_iter().flatten() {
        let (most, used) = if name == CPU {
            (quantity::millis(most), used.get(CPU))
        } else {
            (quantity::units(most), used.get(name))
        };
        if name != "nodes" && used > most {
            let message = format!("pool {pool} has {used} of {name}, its limit is {most}");
            let others = ledger.claims_of(&pool_id);
            let mut about = about.clone();
            about.extend(others.map(Claim::subject));
            findings.push(Finding::new(Invariant::Limits, message, about));
        }
    }
    findings
}

fn limits<'a>(ledger: &'a Ledger, pool: &Id) -> Option<&'a serde_json::Map<String, Value>> {
    Some(&ledger.pools.get(pool)?.terms.limits)
}

/// What the machines of a pool have.
pub(super) fn used(ledger: &Ledger, pool: &Id) -> Resources {
    let mut used = Resources::new();
    for (bought, uid) in ledger.owned() {
        let claim = ledger.claim_by_uid(uid);
        if claim.is_some_and(|claim| claim.pool() == *pool) {
            used.add(&bought.machine.capacity);
        }
    }
    used
}
