//! What may be taken away, and how: within budgets, pods first, replacements before.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::journal::subject;
use super::ledger::{
    Claim, DEADLINE, DO_NOT_DISRUPT, INTENT, Ledger, Pool, healthy, is_work, keeps_away,
};
use super::{Finding, Invariant};
use crate::clouds::watched::CloudEvent;
use joiner_embedded::api::{ChangeKind, Commit};
use joiner_embedded::cluster::fields::Fields as _;
use joiner_embedded::selector::Selector;

/// A pod that is this new to its node may be unknown to whoever read the node's pods just before.
const NEW: SignedDuration = SignedDuration::from_secs(30);
/// Whoever is being deleted for so long after its time is not coming back.
const STUCK: SignedDuration = SignedDuration::from_mins(1);
/// Times are written in whole seconds.
const ROUNDING: SignedDuration = SignedDuration::from_secs(1);

/// Judges disruptions as they begin and pods as they are sent away.
pub(super) fn judge_commit(ledger: &Ledger, commit: &Commit<'_>) -> Vec<Finding> {
    if commit.asked.is_none() {
        return Vec::new();
    }
    if let Some(family) = ledger.of_machines(commit.resource) {
        let claim = Claim::new(family, commit.object);
        let before = commit.previous.map(|object| Claim::new(family, object));
        let mut findings = begun(ledger, before.as_ref(), &claim);
        findings.extend(deleted(ledger, before, commit));
        return findings;
    }
    if commit.resource == "pods" {
        return sent_away(ledger, commit);
    }
    Vec::new()
}

fn intent(claim: &Value) -> Option<Value> {
    serde_json::from_str(claim.annotation(INTENT)?).ok()
}

/// Why a machine object is being disrupted, if it is: what replaces it is to come first, or it goes at once.
fn cause(claim: &Value) -> Option<String> {
    let written = intent(claim).map(|intent| intent.text(&["cause"]).to_owned());
    written.or_else(|| {
        let mark = claim.condition("DisruptionReason")?;
        (mark.text(&["status"]) == "True").then(|| mark.text(&["reason"]).to_owned())
    })
}

/// Whether a disruption of a machine object is under way. A mark on one whose node takes pods again was taken back.
fn disrupted(ledger: &Ledger, claim: &Claim) -> bool {
    let tainted = || {
        let node = ledger.nodes.get(claim.text(&["status", "nodeName"]));
        node.is_some_and(|node| keeps_away(node))
    };
    // karpenter: one whose machine is being stopped, or has been, counts no more.
    let runs = || ledger.machines_of(claim.uid()).any(|one| !one.stopping);
    cause(claim).is_some()
        && runs()
        && (claim.deleting() || claim.annotation(INTENT).is_some() || tainted())
}

/// A disruption begins: the pool's budgets must allow it.
fn begun(ledger: &Ledger, before: Option<&Claim>, claim: &Claim) -> Vec<Finding> {
    let (None, Some(cause)) = (before.and_then(|one| cause(one)), cause(claim)) else {
        return Vec::new();
    };
    let id = claim.pool();
    let Some(pool) = ledger.pools.get(&id) else {
        return Vec::new();
    };
    let others = || {
        let under_way = ledger.claims_of(&id).filter(|one| disrupted(ledger, one));
        under_way.filter(|one| one.uid() != claim.uid())
    };
    let disrupted = others().count() + 1;
    let all = ledger
        .claims_of(&id)
        .filter(|one| one.condition_true("Initialized"))
        .count()
        + ledger.lately_gone(&id);
    let Some(allowed) = allowed(pool, &cause, all) else {
        return Vec::new();
    };
    if disrupted <= allowed {
        return Vec::new();
    }
    let pool = &id.1;
    let message = format!(
        "pool {pool}: {disrupted} of {all} nodes are disrupted at once, {allowed} may be because they are {cause}"
    );
    let about = others()
        .flat_map(|one| ledger.circle(one))
        .chain(ledger.circle(claim));
    vec![Finding::new(Invariant::Budgets, message, about)]
}

/// The tightest budget for a cause; `None` where it cannot be told.
fn allowed(pool: &Pool, cause: &str, all: usize) -> Option<usize> {
    let budgets = pool.terms.budgets.iter();
    budgets
        .filter(|budget| {
            let reasons = budget.items(&["reasons"]);
            reasons.is_empty() || reasons.iter().any(|one| one == cause)
        })
        // A budget with a schedule may be out of force.
        .filter(|budget| budget.text(&["schedule"]).is_empty())
        .filter_map(|budget| {
            let nodes = budget.text(&["nodes"]);
            match nodes.strip_suffix('%') {
                Some(percent) => Some((all * percent.parse::<usize>().ok()?).div_ceil(100)),
                None => nodes.parse().ok(),
            }
        })
        .min()
}

/// A machine object is deleted to carry out a disruption.
fn deleted(ledger: &Ledger, before: Option<Claim>, commit: &Commit<'_>) -> Vec<Finding> {
    let before = before.filter(|claim| !claim.deleting());
    let goes = commit.object.deleting() || commit.kind == ChangeKind::Deleted;
    let Some(claim) = before.filter(|_| goes) else {
        return Vec::new();
    };
    let Some(cause) = cause(&claim).filter(|_| !must_go(ledger, &claim, commit.at)) else {
        return Vec::new();
    };
    let mut findings = replaced(ledger, &claim);
    let may_force =
        !claim.text(&["spec", "terminationGracePeriod"]).is_empty() && cause == "Drifted";
    for (key, pod) in ledger.pods_on(claim.text(&["status", "nodeName"])) {
        let settled = ledger
            .bound(key)
            .is_some_and(|at| commit.at.duration_since(at) > NEW);
        if protected(pod) && settled && !may_force && is_work(pod) && !pod.deleting() {
            let message = format!(
                "{} is disrupted although pod {key} must not be",
                claim.name()
            );
            findings.push(Finding::new(
                Invariant::Protected,
                message,
                ledger.circle(&claim),
            ));
        }
    }
    findings
}

/// Whether a machine object goes for a reason that nobody chose and that overtakes every disruption under way: somebody
/// deletes its node or its pool, the cloud takes its machine back, its node does not answer, or it is too old.
fn must_go(ledger: &Ledger, claim: &Claim, now: Timestamp) -> bool {
    let node = ledger.nodes.get(claim.text(&["status", "nodeName"]));
    let nodeless = node.is_none_or(|node| node.deleting());
    let given_up = deadline(claim).is_some_and(|at| at <= now);
    let poolless = ledger.pool_of(claim).is_none_or(|pool| pool.deleting());
    let mut machines = ledger.machines_of(claim.uid()).peekable();
    let taken = machines.peek().is_none() || machines.any(|one| one.announced || one.taken);
    nodeless || given_up || poolless || taken || too_old(claim, now)
}

fn too_old(claim: &Value, now: Timestamp) -> bool {
    let age = claim
        .text(&["spec", "expireAfter"])
        .parse::<SignedDuration>();
    let created = claim.time(&["metadata", "creationTimestamp"]);
    created
        .zip(age.ok())
        .and_then(|(created, age)| created.checked_add(age).ok())
        .is_some_and(|end| end <= now)
}

/// Whatever is to replace a machine object that goes is in use.
fn replaced(ledger: &Ledger, claim: &Claim) -> Vec<Finding> {
    let intent = intent(claim).unwrap_or_default();
    let mut findings = Vec::new();
    let names = intent.items(&["replacements"]).iter();
    for name in names.filter_map(Value::as_str) {
        let replacement = ledger.claims.values().find(|one| one.name() == name);
        let ready = replacement.is_some_and(|one| one.condition_true("Initialized"));
        // Where one of several went already, its replacements were in use then.
        let sibling_went = ledger.claims.values().any(|one| {
            one.deleting()
                && one
                    .annotation(INTENT)
                    .is_some_and(|text| text.contains(intent.text(&["id"])))
        });
        if !ready && !sibling_went {
            let message = format!(
                "{} is taken away and its replacement {name} is not in use",
                claim.name()
            );
            let mut about = ledger.circle(claim);
            about.extend(replacement.map(Claim::subject));
            findings.push(Finding::new(Invariant::ReplacementsFirst, message, about));
        }
    }
    findings
}

fn protected(pod: &Value) -> bool {
    pod.annotation(DO_NOT_DISRUPT) == Some("true")
}

/// When a drain's time is up.
fn deadline(claim: &Value) -> Option<Timestamp> {
    claim.annotation(DEADLINE)?.parse().ok()
}

/// A pod is told to go.
fn sent_away(ledger: &Ledger, commit: &Commit<'_>) -> Vec<Finding> {
    let Some(pod) = commit.previous.filter(|pod| !pod.deleting()) else {
        return Vec::new();
    };
    let goes = commit.object.deleting() || commit.kind == ChangeKind::Deleted;
    if !goes {
        return Vec::new();
    }
    let evicted = commit
        .asked
        .is_some_and(|asked| asked.subresource == "eviction");
    let node = ledger.nodes.get(pod.text(&["spec", "nodeName"]));
    let claim = node.and_then(|node| ledger.claim_of_node(node));
    let mut about = claim.map(|claim| ledger.circle(claim)).unwrap_or_default();
    about.push(subject("pods", commit.key));
    let mut findings = Vec::new();
    let mut found = |invariant, message: String| {
        findings.push(Finding::new(invariant, message, about.clone()));
    };
    let key = commit.key;
    let Some(claim) = claim else {
        found(
            Invariant::Foreign,
            format!("pod {key} was sent away from a node that is not Joiner's"),
        );
        return findings;
    };
    if !claim.deleting() {
        let message = format!(
            "pod {key} was sent away from {}, which is not to go",
            claim.name()
        );
        found(Invariant::Protected, message);
    }
    let due = deadline(claim).is_some_and(|at| {
        let grace = pod
            .int(&["spec", "terminationGracePeriodSeconds"])
            .unwrap_or(30);
        let soonest = at.checked_sub(SignedDuration::from_secs(grace) + ROUNDING);
        soonest.is_ok_and(|soonest| commit.at >= soonest)
    });
    if !evicted && !due {
        found(
            Invariant::Evictions,
            format!("pod {key} was deleted without an eviction, and no deadline has come"),
        );
    }
    if evicted && protected(pod) {
        found(
            Invariant::Protected,
            format!("pod {key} was evicted although it must not be disrupted"),
        );
    }
    if evicted && let Some(message) = over_budget(ledger, key, pod) {
        found(Invariant::Evictions, message);
    }
    findings
}

/// Which disruption budget an eviction breaks. Pods that were lost in this very moment do not count against it: the
/// budget's own controller has not seen them go.
fn over_budget(ledger: &Ledger, key: &str, pod: &Value) -> Option<String> {
    if !healthy(pod) {
        return None;
    }
    for (name, budget) in &ledger.budgets {
        let selector = Selector::read(budget.at(&["spec", "selector"]));
        let covers =
            |one: &Value| one.namespace() == budget.namespace() && selector.matches(one.labels());
        if !covers(pod) {
            continue;
        }
        let others = ledger
            .pods
            .values()
            .filter(|one| covers(one) && healthy(one) && one.uid() != pod.uid())
            .count();
        let lately = ledger.lately_lost().filter(|one| covers(one)).count();
        let wanted = budget.int(&["status", "desiredHealthy"]).unwrap_or(0);
        if i64::try_from(others + lately).unwrap_or(i64::MAX) < wanted {
            return Some(format!(
                "evicting pod {key} leaves {others} healthy, budget {name} wants {wanted}"
            ));
        }
    }
    None
}

/// A machine is stopped.
pub(super) fn judge_event(ledger: &Ledger, event: &CloudEvent, now: Timestamp) -> Vec<Finding> {
    let CloudEvent::Terminating(id) = event else {
        return Vec::new();
    };
    let about = subject("machine", &id.0);
    let Some(bought) = ledger.machines.get(id) else {
        let message = format!("machine {id} of somebody else was stopped");
        return vec![Finding::new(Invariant::Foreign, message, [about])];
    };
    let uid = bought.machine.uid.as_ref().map_or("", |uid| &*uid.0);
    let Some(claim) = ledger.claim_by_uid(uid) else {
        return Vec::new();
    };
    let circle = ledger.circle(claim);
    if !claim.deleting() {
        let message = format!("machine {id} was stopped and {} is not to go", claim.name());
        return vec![Finding::new(Invariant::Drained, message, circle)];
    }
    // What the cloud has taken away runs nothing any more, whatever its node still says.
    if bought.taken || deadline(claim).is_some_and(|at| now >= at) {
        return Vec::new();
    }
    let Some(node) = ledger
        .node_of(id)
        .filter(|node| node.condition_true("Ready"))
    else {
        return Vec::new();
    };
    let running: Vec<&String> = ledger
        .pods_on(node.name())
        .filter(|(_, pod)| is_work(pod) && !stuck(pod, now))
        .map(|(key, _)| key)
        .collect();
    if running.is_empty() {
        return Vec::new();
    }
    let message = format!("machine {id} was stopped under pods {running:?}");
    vec![Finding::new(Invariant::Drained, message, circle)]
}

fn stuck(pod: &Value, now: Timestamp) -> bool {
    pod.time(&["metadata", "deletionTimestamp"])
        .is_some_and(|end| now.duration_since(end) > STUCK)
}
