//! When pods with rules about domains could not all be packed, others may no longer find their rules met: the order of
//! binding is gone through again, and who has no turn loses its place.

use super::assign::{Assignment, Event, Place};
use super::bins::Packing;
use super::compile::Compiled;
use super::scenario::Scenario;
use super::sets::Sets;
use super::topology::Topology;

/// Puts the events in an order that holds for what was really packed.
pub(crate) fn settle(
    compiled: &Compiled<'_>,
    sets: &Sets,
    scenario: &Scenario,
    assignment: &mut Assignment,
    packing: &mut Packing,
) {
    let short = |lot: usize| {
        let class = assignment.lots[lot].class;
        packing.left[lot] > 0 && compiled.profile(class).anchored
    };
    if !(0..assignment.lots.len()).any(short) {
        return;
    }
    let mut open: Vec<u32> = assignment
        .lots
        .iter()
        .zip(&packing.left)
        .map(|(lot, left)| lot.count - left)
        .collect();
    let mut waiting: Vec<Event> = Vec::new();
    for event in &assignment.events {
        if let Place::Lot(lot) = event.place {
            if open[lot as usize] == 0 {
                continue;
            }
            open[lot as usize] -= 1;
        }
        waiting.push(*event);
    }
    let mut topology = Topology::new(compiled, &scenario.removed);
    let mut events = Vec::with_capacity(waiting.len());
    loop {
        let before = waiting.len();
        waiting.retain(|event| {
            !bind(
                compiled,
                sets,
                assignment,
                &mut topology,
                *event,
                &mut events,
            )
        });
        if waiting.is_empty() || waiting.len() == before {
            break;
        }
    }
    for event in waiting {
        unpack(assignment, packing, event);
    }
    assignment.events = events;
    assignment.topology = topology;
}

fn bind(
    compiled: &Compiled<'_>,
    sets: &Sets,
    assignment: &Assignment,
    topology: &mut Topology,
    event: Event,
    events: &mut Vec<Event>,
) -> bool {
    let profile = compiled.profile(event.class);
    let level = &profile.levels[event.level as usize];
    let cell = match event.place {
        Place::Host(host) => compiled.hosts[host as usize].cell,
        Place::Lot(lot) => assignment.lots[lot as usize].cell,
    };
    if !topology.allows(compiled, profile, level, cell) {
        return false;
    }
    let requests = &compiled.classes[event.class as usize].requests;
    let counted = |filter: u32| match event.place {
        Place::Host(host) => compiled.demand_nodes[filter as usize].contains(host as usize),
        // A lot that a filter counts was narrowed to columns that the filter admits.
        Place::Lot(lot) => sets
            .list(assignment.lots[lot as usize].set)
            .iter()
            .filter(|column| requests.fits(&compiled.columns[**column as usize].room))
            .any(|column| compiled.demand_columns[filter as usize].contains(*column as usize)),
    };
    topology.add(compiled, profile, level, cell, 1, counted);
    events.push(event);
    true
}

/// Takes one pod back from where it was put.
fn unpack(assignment: &mut Assignment, packing: &mut Packing, event: Event) {
    match event.place {
        Place::Lot(lot) => {
            let bins = packing.bins.iter_mut();
            let mut entries = bins.flat_map(|bin| bin.pods.iter_mut());
            if let Some(entry) = entries.find(|entry| entry.0 == lot && entry.1 > 0) {
                entry.1 -= 1;
                packing.left[lot as usize] += 1;
            }
        }
        Place::Host(host) => {
            let mut entries = assignment.on_hosts.iter_mut();
            let own = entries.find(|one| one.0 == host && one.1 == event.class && one.2 > 0);
            if let Some(entry) = own {
                entry.2 -= 1;
                assignment.failed.push((event.class, 1));
            }
        }
    }
}
