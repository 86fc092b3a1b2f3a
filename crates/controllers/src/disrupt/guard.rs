//! What holds a decision back although it is right: too many sick nodes, prices of yesterday, a change that nobody has
//! tried yet, and what was done a moment ago.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use joiner_core::money::Money;
use joiner_core::name::Name;
use joiner_core::problem::{DisruptionReason, Node, Problem};
use joiner_core::taints::Taint;

use super::command::Command;
use super::drain_slots::DrainSlots;
use super::recent;
use crate::context::Context;
use crate::edge::clock;
use crate::record::{Key, MachineRecord, kinds};
use crate::view::World;
use crate::view::pods::{DISRUPTED, PodKey};

/// What share of a pool's nodes may be sick, in percent, before nothing is taken away from it voluntarily.
const PLAUSIBLE: usize = 20;

/// Why a command is not begun, and when that changes if time alone changes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) because: String,
    pub(super) until: Option<Timestamp>,
}

fn held(because: String) -> Held {
    Held {
        because,
        until: None,
    }
}

/// What speaks against beginning a command now.
pub(super) fn against(
    context: &Context,
    world: &World,
    problem: &Problem,
    command: &Command<'_>,
    machines: &BTreeMap<Name, Key>,
) -> Option<Held> {
    let now = context.now();
    let own: Vec<&MachineRecord> = command
        .removals
        .iter()
        .filter_map(|removal| machines.get(&removal.node))
        .filter_map(|key| world.machines.get(key))
        .map(AsRef::as_ref)
        .collect();
    own.iter()
        .find_map(|machine| sick(world, machine))
        .or_else(|| unsettled(context, world, command, now))
        .or_else(|| dear(context, problem, command, &own, now))
        .or_else(|| failed(context, &own, now))
        .or_else(|| again(context, world, problem, command, &own, now))
}

/// Nodes that nothing need be bought for are drained at once, so it must be their turn.
pub(super) fn out_of_turn<'m>(
    turns: &mut DrainSlots,
    command: &Command<'_>,
    mut machines: impl Iterator<Item = &'m Arc<MachineRecord>>,
) -> Option<Held> {
    let waits = command.launches.is_empty() && command.cause() != DisruptionReason::Empty;
    let waiting = machines.find(|machine| waits && !turns.take(machine))?;
    Some(Held {
        because: "other nodes of its NodePool are being drained".to_owned(),
        until: turns.until(waiting),
    })
}

/// Where many nodes are sick at once the sickness is elsewhere, and taking nodes away does not cure it.
fn sick(world: &World, machine: &MachineRecord) -> Option<Held> {
    let pool = machine.pool.as_ref()?;
    let nodes = world.machines.iter().filter(|one| {
        one.pool.as_ref() == Some(pool) && one.initialized() && one.deleting.is_none()
    });
    let (mut all, mut sick) = (0, 0);
    for one in nodes {
        let node = one
            .status
            .node
            .as_ref()
            .and_then(|name| world.nodes.get(name));
        all += 1;
        sick += usize::from(node.is_none_or(|node| !node.ready()));
    }
    let many = sick > 1 && sick * 100 > all * PLAUSIBLE;
    many.then(|| {
        held(format!(
            "{sick} of {all} nodes of pool {pool} are not ready, more than {PLAUSIBLE}%"
        ))
    })
}

/// A node on which pods came or went just now may be wanted again in a moment.
fn unsettled(
    context: &Context,
    world: &World,
    command: &Command<'_>,
    now: Timestamp,
) -> Option<Held> {
    if command.cause() == DisruptionReason::Drifted {
        return None;
    }
    let quiet = |removal: &&joiner_core::plan::Removal| {
        let event = world.last_pod_event(&removal.node)?;
        let until = clock::after(event, context.settings.settle);
        (until > now).then_some(until)
    };
    let until = command.removals.iter().filter_map(quiet).max()?;
    Some(Held {
        because: "pods were added or removed a moment ago".to_owned(),
        until: Some(until),
    })
}

/// To save money one must know what things cost, as of now; and it must be less.
fn dear(
    context: &Context,
    problem: &Problem,
    command: &Command<'_>,
    own: &[&MachineRecord],
    now: Timestamp,
) -> Option<Held> {
    if command.cause() != DisruptionReason::Underutilized || command.launches.is_empty() {
        return None;
    }
    let most = context.settings.price_max_age;
    let stale = own.iter().find_map(|machine| {
        let slot = context.market.classes.slot(&machine.class);
        let said = outdated(slot.and_then(|slot| slot.read()), most, now)?;
        Some(format!(
            "prices of {} are outdated (read {said})",
            machine.class
        ))
    });
    let prices: Vec<(&Name, Option<Money>)> = command
        .removals
        .iter()
        .map(|removal| {
            let node = problem.nodes.iter().find(|node| node.name == removal.node);
            (&removal.node, node.and_then(|node| node.price))
        })
        .collect();
    let after = command.launches.iter().map(|one| one.purchase.price);
    stale.or_else(|| no_saving(&prices, after)).map(held)
}

/// When prices were last read, in words, if that is too long ago.
fn outdated(read: Option<Timestamp>, most: Duration, now: Timestamp) -> Option<String> {
    match read {
        None => Some("never".to_owned()),
        Some(read) if clock::since(now, read) > most => Some(format!("last at {read}")),
        Some(_) => None,
    }
}

/// Why replacing nodes does not save anything, if so. What is not known is not free.
fn no_saving(
    before: &[(&Name, Option<Money>)],
    after: impl Iterator<Item = Money>,
) -> Option<String> {
    let mut present = Money::ZERO;
    for (node, price) in before {
        let Some(price) = price else {
            return Some(format!("price of node {node} is unknown"));
        };
        present = present.saturating_add(*price);
    }
    let after = after.fold(Money::ZERO, Money::saturating_add);
    (after >= present)
        .then(|| format!("its replacement would cost {after} an hour, not less than {present}"))
}

/// Nodes on which pods come and go are not weighed at all: deciding is work, and they would be held back anyway.
pub(super) fn let_settle(settle: Duration, problem: &mut Problem) {
    let settle = SignedDuration::try_from(settle).unwrap_or(SignedDuration::MAX);
    for pool in &mut problem.pools {
        let terms = &mut pool.disruption;
        terms.consolidate_after = terms.consolidate_after.map(|after| after.max(settle));
    }
}

/// Room for buffers is not looked for on drifted nodes that nothing else is on: it would keep them for ever. It is made
/// again on what replaces them.
pub(super) fn let_buffers_move(problem: &mut Problem, pending: &[Option<PodKey>]) {
    if pending.iter().all(Option::is_some) {
        return;
    }
    for node in &mut problem.nodes {
        if node.drifted.is_some() && node.pods.iter().all(|pod| !pod.reschedulable()) {
            node.taints.push(Taint::no_schedule(DISRUPTED));
        }
    }
}

/// A pool whose template has changed replaces one node first: only when a machine made after the new template is in use
/// do the others follow. Until then they do not count as drifted. Empty nodes need no replacement and so prove nothing:
/// they go at once.
pub(super) fn only_canaries(world: &World, problem: &mut Problem, machines: &BTreeMap<Name, Key>) {
    let drifted = |one: &MachineRecord| one.status.conditions.is_true(kinds::DRIFTED);
    let mut first: BTreeMap<Name, Option<(Timestamp, usize)>> = BTreeMap::new();
    let empty = |node: &Node| node.pods.iter().all(|pod| !pod.reschedulable());
    for (position, node) in problem.nodes.iter().enumerate() {
        // One whose pods are promised to its replacement looks empty, and is the one that goes first.
        if empty(node) && !node.deleting {
            continue;
        }
        let machine = machines
            .get(&node.name)
            .and_then(|key| world.machines.get(key));
        let (Some(machine), Some(pool)) = (machine.filter(|one| drifted(one)), &node.pool) else {
            continue;
        };
        let entry = (machine.created, position);
        let known = first.entry(pool.clone()).or_insert(Some(entry));
        // One is on its way already: none is the next.
        *known = known
            .map(|known| known.min(entry))
            .filter(|_| !node.deleting);
    }
    for (pool, canary) in first {
        let proven = world.machines.iter().any(|one| {
            one.pool.as_ref() == Some(&pool)
                && one.initialized()
                && one.deleting.is_none()
                && !drifted(one)
        });
        if proven {
            continue;
        }
        let canary = canary.map(|(_, position)| position);
        for (position, node) in problem.nodes.iter_mut().enumerate() {
            let waits = node.pool.as_ref() == Some(&pool) && !empty(node);
            if waits && Some(position) != canary {
                node.drifted = None;
            }
        }
    }
}

/// Replacements for these machines could not be had or never came into use: the next attempt waits, longer each time.
fn failed(context: &Context, own: &[&MachineRecord], now: Timestamp) -> Option<Held> {
    let uids = own.iter().map(|machine| &machine.uid.0);
    let until = context.disruptions.replacement_retry(uids, now)?;
    Some(Held {
        because: format!("its replacement failed; next attempt at {until}"),
        until: Some(until),
    })
}

/// The same was done a moment ago and did not last: a node that would go now was made since. Look-alike nodes that
/// were there before are the rest of a rollout and no repetition.
fn again(
    context: &Context,
    world: &World,
    problem: &Problem,
    command: &Command<'_>,
    own: &[&MachineRecord],
    now: Timestamp,
) -> Option<Held> {
    if command.launches.is_empty() {
        return None;
    }
    let window = context.settings.cycle_window;
    let when = context
        .disruptions
        .when(&recent::essence(world, problem, command), window, now)?;
    if !repeats(when, own.iter().map(|machine| machine.created)) {
        return None;
    }
    Some(Held {
        because: format!("the same replacement was made at {when} and did not last"),
        until: Some(clock::after(when, window)),
    })
}

/// Whether one of the nodes that go was made after the same was first done. Objects carry whole seconds.
fn repeats(first: Timestamp, mut created: impl Iterator<Item = Timestamp>) -> bool {
    created.any(|created| created.as_second() >= first.as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn look_alike_nodes_of_one_rollout_are_no_repetition() {
        let at = |second| Timestamp::from_second(second).unwrap();
        assert!(!repeats(at(100), [at(10), at(20)].into_iter()));
        assert!(repeats(at(100), [at(10), at(130)].into_iter()));
    }

    #[test]
    fn nothing_is_replaced_by_prices_of_yesterday() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let hour = Duration::from_hours(1);
        assert_eq!(outdated(Some(at(0)), hour, at(3600)), None);
        assert_eq!(
            outdated(Some(at(0)), hour, at(3601)).as_deref(),
            Some("last at 1970-01-01T00:00:00Z")
        );
        assert_eq!(outdated(None, hour, at(0)).as_deref(), Some("never"));
    }

    #[test]
    fn what_is_replaced_gets_cheaper_and_an_unknown_price_is_not_nothing() {
        let (a, b): (Name, Name) = ("a".into(), "b".into());
        let dollars = Money::from_dollars;
        let known = [(&a, Some(dollars(0.3))), (&b, Some(dollars(0.2)))];
        assert_eq!(no_saving(&known, [dollars(0.4)].into_iter()), None);
        assert!(no_saving(&known, [dollars(0.5)].into_iter()).is_some());
        let unknown = [(&a, Some(dollars(0.3))), (&b, None)];
        let said = no_saving(&unknown, [dollars(0.1)].into_iter());
        assert_eq!(said.as_deref(), Some("price of node b is unknown"));
    }
}
