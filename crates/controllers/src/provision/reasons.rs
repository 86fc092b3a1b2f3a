//! What is said to users about their pods: where one goes, or why it cannot.

use std::collections::BTreeMap;

use joiner_core::name::Name;
use joiner_core::plan::{Home, Plan, PodRef};

use crate::context::Context;
use crate::dialect::ObjectRef;
use crate::edge::events::Severity;
use crate::record::{Key, MachineRecord};
use crate::view::pods::PodKey;
use crate::view::problem::Snapshot;

/// How many pods are told where they go; the scheduler tells the others when they are there.
const NOMINATIONS: usize = 50;

/// The waiting pod behind a reference; `None` for room that is kept free and for pods on nodes.
pub(super) fn pod_key(pod: &PodRef, pending: &[Option<PodKey>]) -> Option<PodKey> {
    match pod.home {
        Home::Pending => pending.get(usize::try_from(pod.group).ok()?)?.clone(),
        Home::Node(_) => None,
    }
}

/// Pods that wait, and whether a plan has a place for them.
pub(super) fn verdicts(
    plan: &Plan,
    pending: &[Option<PodKey>],
) -> impl Iterator<Item = (PodKey, bool)> {
    let bought = plan.launches.iter().flat_map(|one| &one.pods);
    let placed = plan.placements.iter().flat_map(|one| &one.pods);
    let unplaced = plan.unplaced.iter().flat_map(|one| &one.pods);
    let placed = bought.chain(placed).map(|pod| (pod, true));
    let all = placed.chain(unplaced.map(|pod| (pod, false)));
    all.filter_map(|(pod, placed)| Some((pod_key(pod, pending)?, placed)))
}

fn tell(context: &Context, pod: &PodKey, severity: Severity, reason: &'static str, message: &str) {
    let uid = context
        .view
        .read()
        .pods
        .get(pod)
        .map(|record| record.uid.clone());
    let Some(uid) = uid else { return };
    let about = ObjectRef {
        api_version: "v1".into(),
        kind: "Pod".into(),
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        uid,
    };
    // A pod belongs to no family; whoever has pools speaks.
    context.speaker().say(&about, severity, reason, message);
}

/// Pods that are left out of plans, and how many they are.
pub(super) fn ignored(context: &Context, snapshot: &Snapshot) {
    let count = i64::try_from(snapshot.ignored.len()).unwrap_or(i64::MAX);
    context.edge.metrics.ignored.set(count);
    for (pod, why) in &snapshot.ignored {
        tell(
            context,
            pod,
            Severity::Warning,
            "FailedScheduling",
            &format!("Failed to schedule pod, {why}"),
        );
    }
}

/// Pods that fit nowhere.
pub(super) fn unplaced(context: &Context, plan: &Plan, pending: &[Option<PodKey>]) {
    for one in &plan.unplaced {
        let message = format!("Failed to schedule pod, {}", one.reason);
        for pod in one.pods.iter().filter_map(|pod| pod_key(pod, pending)) {
            tell(
                context,
                &pod,
                Severity::Warning,
                "FailedScheduling",
                &message,
            );
        }
    }
}

/// What the family of a machine object calls it, as kubectl has it.
fn machine_kind(context: &Context, key: &Key) -> String {
    let machine = context.view.read().machines.get(key).cloned();
    let told = machine.and_then(|one| Some(context.dialect(key)?.machine_ref(&one).kind));
    told.map_or_else(|| "machine".to_owned(), |kind| kind.to_lowercase())
}

/// Pods that have a place.
pub(super) fn nominations(
    context: &Context,
    plan: &Plan,
    pending: &[Option<PodKey>],
    made: &BTreeMap<usize, MachineRecord>,
    machines: &BTreeMap<Name, Key>,
) {
    let new = plan
        .launches
        .iter()
        .enumerate()
        .filter_map(|(position, launch)| {
            let machine = made.get(&position)?;
            let kind = machine_kind(context, &machine.key);
            Some((format!("{kind}/{}", machine.key), &launch.pods))
        });
    let there = plan.placements.iter().map(|placement| {
        let place = match machines.get(&placement.node) {
            Some(key) if *key.to_string() != *placement.node => {
                let kind = machine_kind(context, key);
                format!("{kind}/{key}, node/{}", placement.node)
            }
            Some(key) => format!("{}/{key}", machine_kind(context, key)),
            None => format!("node/{}", placement.node),
        };
        (place, &placement.pods)
    });
    let pods = new.chain(there).flat_map(|(place, pods)| {
        pods.iter()
            .filter_map(|pod| pod_key(pod, pending))
            .map(move |pod| (place.clone(), pod))
    });
    for (place, pod) in pods.take(NOMINATIONS) {
        tell(
            context,
            &pod,
            Severity::Normal,
            "Nominated",
            &format!("Pod should schedule on: {place}"),
        );
    }
}
