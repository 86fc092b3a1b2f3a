//! What holds a decision back although it is right: too many sick nodes, prices of yesterday, a change that nobody has
//! tried yet, and what was done a moment ago.

use std::collections::BTreeMap;

use jiff::Timestamp;
use joiner_core::money::Money;
use joiner_core::name::Name;
use joiner_core::problem::{DisruptionReason, Problem};

use super::command::Command;
use super::past;
use crate::clock;
use crate::context::Context;
use crate::record::{Key, MachineRecord, kinds};
use crate::view::World;

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
        .or_else(|| again(context, problem, command, now))
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
        because: "pods came or went a moment ago".to_owned(),
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
    for machine in own {
        let read = context
            .classes
            .slot(&machine.class)
            .and_then(|slot| slot.read());
        if read.is_none_or(|read| clock::since(now, read) > most) {
            let since = read.map_or_else(|| "never".to_owned(), |read| format!("last at {read}"));
            let class = &machine.class;
            return Some(held(format!(
                "the prices of {class} are too old: read {since}"
            )));
        }
    }
    let mut before = Money::ZERO;
    for removal in &command.removals {
        let node = problem.nodes.iter().find(|node| node.name == removal.node);
        let Some(price) = node.and_then(|node| node.price) else {
            return Some(held(format!(
                "what node {} costs is not known",
                removal.node
            )));
        };
        before = before.saturating_add(price);
    }
    let after = command.launches.iter().fold(Money::ZERO, |sum, one| {
        sum.saturating_add(one.purchase.price)
    });
    (after >= before).then(|| {
        held(format!(
            "its replacement costs {after} an hour and not less than {before}"
        ))
    })
}

/// A pool whose template has changed replaces one node first: only when a machine made after the new template is in use
/// do the others follow. Until then they do not count as drifted.
pub(super) fn only_canaries(world: &World, problem: &mut Problem, machines: &BTreeMap<Name, Key>) {
    let drifted = |one: &MachineRecord| one.status.conditions.is_true(kinds::DRIFTED);
    let mut first: BTreeMap<Name, Option<(Timestamp, usize)>> = BTreeMap::new();
    for (position, node) in problem.nodes.iter().enumerate() {
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
            if node.pool.as_ref() == Some(&pool) && Some(position) != canary {
                node.drifted = None;
            }
        }
    }
}

/// The same has been done a moment ago and has not lasted.
fn again(
    context: &Context,
    problem: &Problem,
    command: &Command<'_>,
    now: Timestamp,
) -> Option<Held> {
    if command.launches.is_empty() {
        return None;
    }
    let window = context.settings.cycle_window;
    let when = context
        .past
        .when(&past::essence(problem, command), window, now)?;
    Some(Held {
        because: format!("the very same was done at {when} and has not lasted"),
        until: Some(clock::after(when, window)),
    })
}
