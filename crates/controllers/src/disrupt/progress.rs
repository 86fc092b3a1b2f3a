//! Disruptions under way: finished when their replacements are in use, undone when that cannot be.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::name::Name;
use joiner_core::problem::DisruptionReason;
use joiner_core::resources::{CPU, MEMORY};
use joiner_core::taints::Effect;
use joiner_providers::Timeouts;
use tracing::{info, warn};

use super::begin::word;
use super::drain_slots::DrainSlots;
use super::places;
use super::taint::{Taintedness, is_work, live_pods, taint};
use crate::context::Context;
use crate::edge::clock;
use crate::edge::events::Severity;
use crate::edge::metrics::{Decision, consolidation_type};
use crate::lifecycle::{RemovalReason, delete};
use crate::record::{Intent, MachineRecord, MetadataChange, annotations};
use crate::view::World;
use crate::view::pods::DISRUPTED;

/// From when a replacement has to have joined until it has to be in use.
const TAKEN_INTO_USE: Duration = Duration::from_mins(5);

/// What becomes of a disruption.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fate {
    /// Everything that replaces the old is in use: the old go.
    Finish,
    /// Not yet.
    Wait,
    /// It cannot be, and why.
    Undo(String),
}

/// What becomes of a disruption, given what has become of its replacements: `None` for one that is not there,
/// otherwise whether it is in use and whether it is on its way out.
fn fate(replacements: &[Option<(bool, bool)>], now: Timestamp, deadline: Timestamp) -> Fate {
    if replacements
        .iter()
        .any(|one| matches!(one, None | Some((_, true))))
    {
        return Fate::Undo("a replacement could not be launched".to_owned());
    }
    if replacements
        .iter()
        .all(|one| matches!(one, Some((true, false))))
    {
        return Fate::Finish;
    }
    if now >= deadline {
        return Fate::Undo("replacements were not ready in time".to_owned());
    }
    Fate::Wait
}

type Group = (Intent, Vec<Arc<MachineRecord>>);

/// Machines that are to go, and what is written on them.
fn intended(world: &World) -> impl Iterator<Item = (Intent, &Arc<MachineRecord>)> {
    let machines = world.machines.iter();
    machines.filter_map(|machine| Some((machine.intent()?, machine)))
}

/// Those that go in one disruption.
pub(super) fn members<'w>(
    world: &'w World,
    id: &Name,
) -> impl Iterator<Item = (Intent, &'w Arc<MachineRecord>)> {
    intended(world).filter(move |(intent, _)| intent.id == *id)
}

/// Disruptions under way, by id.
fn groups(world: &World) -> BTreeMap<Name, Group> {
    let mut all: BTreeMap<Name, Group> = BTreeMap::new();
    for (intent, machine) in intended(world) {
        all.entry(intent.id.clone())
            .or_insert_with(|| (intent, Vec::new()))
            .1
            .push(machine.clone());
    }
    all
}

/// Moves every disruption on, and takes off taints that belong to none.
pub(super) async fn progress(context: &Context) {
    let (groups, stale) = {
        let world = context.view.read();
        // A drain that ends is noticed even if no other node waits for its turn.
        DrainSlots::new(context, &world);
        (groups(&world), stale(&world))
    };
    let now = context.now();
    context
        .provision
        .served
        .keep_reservations(|id| groups.contains_key(id));
    for (id, (intent, machines)) in groups {
        let open: Vec<&Arc<MachineRecord>> = machines
            .iter()
            .filter(|one| one.deleting.is_none())
            .collect();
        if open.is_empty() {
            continue;
        }
        // Once one has gone the others follow: what replaces them was in use.
        let begun = open.len() < machines.len();
        let replacements: Vec<Option<Arc<MachineRecord>>> = {
            let world = context.view.read();
            let find = |name: &Name| world.machines.iter().find(|one| one.key.name == *name);
            let names = intent.replacements.iter();
            names.map(|name| find(name).cloned()).collect()
        };
        let deadline = deadline(context, &intent, replacements.iter().flatten());
        let states: Vec<Option<(bool, bool)>> = replacements
            .iter()
            .map(|one| {
                let one = one.as_ref()?;
                Some((one.initialized(), one.deleting.is_some()))
            })
            .collect();
        match fate(&states, now, deadline) {
            _ if begun => finish(context, &intent, &open).await,
            Fate::Finish => finish(context, &intent, &open).await,
            Fate::Wait => {}
            Fate::Undo(why) => {
                info!(%id, %why, "disruption is cancelled");
                for machine in &open {
                    context.tell_machine(machine, Severity::Warning, "DisruptionUndone", &why);
                }
                let kind = consolidation_type(intent.cause, machines.len()).to_owned();
                let decision = Decision {
                    decision: "replace".to_owned(),
                    reason: word(intent.cause).to_owned(),
                    consolidation_type: kind,
                };
                context
                    .edge
                    .metrics
                    .rollbacks
                    .get_or_create(&decision)
                    .inc();
                let uids = machines.iter().map(|one| &one.uid.0);
                context.disruptions.replacement_failed(uids, now);
                undo(context, &id).await;
            }
        }
    }
    for name in stale {
        let node = context.view.read().nodes.get(&name).cloned();
        if let Some(node) = node {
            info!(node = %name, "taint is removed: no disruption is under way");
            if let Err(error) = taint(context, &node, Taintedness::Clean).await {
                warn!(node = %name, %error, "taint could not be removed");
            }
        }
    }
}

/// Until when a disruption may take: as long as the slowest cloud that replaces something may.
fn deadline<'m>(
    context: &Context,
    intent: &Intent,
    replacements: impl Iterator<Item = &'m Arc<MachineRecord>>,
) -> Timestamp {
    let slowest = replacements
        .filter_map(|one| {
            let slot = context.market.classes.slot(&one.class)?;
            Some(one.timeouts(&*slot.provider).registration)
        })
        .max();
    let joined = slowest.unwrap_or_else(|| Timeouts::default().registration);
    clock::after(intent.since, joined + TAKEN_INTO_USE)
}

/// Nodes of ours that keep pods away although nothing is to happen to them.
fn stale(world: &World) -> Vec<Name> {
    world
        .nodes
        .iter()
        .filter(|node| node.tainted(DISRUPTED, Effect::NoSchedule) && !node.deleting)
        .filter(|node| {
            world.machine_of(&node.name).is_some_and(|one| {
                one.deleting.is_none() && one.intent().is_none() && node.belongs_to(&one.uid)
            })
        })
        .map(|node| node.name.clone())
        .collect()
}

async fn finish(context: &Context, intent: &Intent, open: &[&Arc<MachineRecord>]) {
    for machine in open {
        if let Some(why) = obstacle(context, machine, intent.cause).await {
            info!(machine = %machine.key, %why, "disruption is cancelled: the node is needed");
            undo(context, &intent.id).await;
            return;
        }
    }
    let (turns, next) = {
        let world = context.view.read();
        let mut turns = DrainSlots::new(context, &world);
        // What is hard to place goes while there is most room; small pods fill the gaps.
        let mut next = open.to_vec();
        next.sort_by_key(|machine| Reverse(hardest(&world, machine)));
        next.retain(|machine| turns.take(machine));
        (turns, next)
    };
    for machine in next {
        let lacking = if turns.applies(machine) {
            places::lacking(context, machine).await
        } else {
            Some(0)
        };
        // It is asked again when the next second comes.
        let Some(lacking) = lacking else { return };
        if lacking > 0 {
            let why = format!("{lacking} of its pods fit on no other node any more");
            info!(machine = %machine.key, %why, "disruption is cancelled");
            context.tell_machine(machine, Severity::Normal, "DisruptionBlocked", &why);
            undo(context, &intent.id).await;
            return;
        }
        delete(context, machine, intent.cause.into()).await;
    }
    DrainSlots::new(context, &context.view.read());
}

/// The most that a pod of a machine asks for.
fn hardest(world: &World, machine: &MachineRecord) -> (i64, i64) {
    let Some(node) = &machine.status.node else {
        return (0, 0);
    };
    let asks = world.pods_on(node).filter(|pod| is_work(pod)).map(|pod| {
        let requests = &pod.spec.requests;
        (requests.get(CPU), requests.get(MEMORY))
    });
    asks.max().unwrap_or_default()
}

/// What forbids to disrupt a machine, looked up after the taint is on, so that nothing can slip in afterwards.
pub(super) async fn obstacle(
    context: &Context,
    machine: &MachineRecord,
    cause: DisruptionReason,
) -> Option<String> {
    let node = machine.status.node.as_ref()?;
    let pods = match live_pods(context, node).await {
        Ok(pods) => pods,
        Err(error) => return Some(format!("pods of the node could not be read: {error}")),
    };
    let now = context.now();
    if cause == DisruptionReason::Empty
        && let Some(pod) = pods.iter().find(|pod| is_work(pod))
    {
        return Some(format!("pod {} was scheduled to it", pod.key));
    }
    // A drain that has a deadline may disturb anybody in the end.
    let eventual = machine.termination_grace.is_some() && cause == DisruptionReason::Drifted;
    let held = pods
        .iter()
        .find(|pod| pod.active() && pod.do_not_disrupt.active(now));
    match held {
        Some(pod) if !eventual => Some(format!(
            "pod {} has annotation karpenter.sh/do-not-disrupt",
            pod.key
        )),
        _ => None,
    }
}

/// Takes back a disruption: what was bought for it and has not become a node goes, then taints come off, then the note
/// that explains them. A node that has joined stays, as it does with Karpenter: it serves pods that wait, or is removed
/// as any other node of its pool.
pub(super) async fn undo(context: &Context, id: &Name) {
    let (machines, unneeded) = {
        let world = context.view.read();
        let bought = world.machines.iter().filter(|one| {
            one.annotations.get(annotations::REPLACES) == Some(id)
                && one.deleting.is_none()
                && !one.registered()
        });
        let unneeded: Vec<Arc<MachineRecord>> = bought.cloned().collect();
        let machines = members(&world, id).map(|(_, machine)| machine.clone());
        let machines: Vec<Arc<MachineRecord>> = machines.collect();
        (machines, unneeded)
    };
    for machine in &unneeded {
        info!(machine = %machine.key, %id, "replacement is no longer needed");
        delete(context, machine, RemovalReason::Unneeded).await;
    }
    for machine in machines.iter().filter(|one| one.deleting.is_none()) {
        let node = machine
            .status
            .node
            .as_ref()
            .and_then(|name| context.view.read().nodes.get(name).cloned());
        if let Some(node) = node
            && let Err(error) = taint(context, &node, Taintedness::Clean).await
        {
            warn!(machine = %machine.key, %error, "taint could not be removed; it is tried again");
            continue;
        }
        let Some(dialect) = context.dialect(&machine.key) else {
            continue;
        };
        let current = context.view.read().machines.get(&machine.key).cloned();
        let Some(current) = current else { continue };
        let change = MetadataChange::annotation(annotations::INTENT, None);
        match dialect.patch_machine(&current, &change).await {
            Ok(written) => context.view.note_machine(written),
            Err(error) => {
                warn!(machine = %machine.key, %error, "disruption could not be cancelled yet");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_go_only_when_every_replacement_is_in_use() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let ready = Some((true, false));
        let starting = Some((false, false));
        let failed = Some((true, true));
        assert_eq!(fate(&[], at(0), at(9)), Fate::Finish);
        assert_eq!(fate(&[ready, ready], at(0), at(9)), Fate::Finish);
        assert_eq!(fate(&[ready, starting], at(0), at(9)), Fate::Wait);
        assert!(matches!(
            fate(&[ready, starting], at(9), at(9)),
            Fate::Undo(_)
        ));
        assert!(matches!(fate(&[ready, None], at(0), at(9)), Fate::Undo(_)));
        assert!(matches!(
            fate(&[ready, failed], at(0), at(9)),
            Fate::Undo(_)
        ));
    }
}
