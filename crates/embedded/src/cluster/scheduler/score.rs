//! Which of the nodes that would do is best. The real scheduler's weights; the arithmetic is plainer than upstream's.

use std::collections::BTreeMap;

use super::cache::{NodeInfo, Slot};
use super::filter::Cycle;
use super::pod::Unsatisfiable;
use super::taints::{Effect, tolerated};

const FULL: i64 = 100;
const TAINT_WEIGHT: i64 = 3;
const AFFINITY_WEIGHT: i64 = 2;
const SPREAD_WEIGHT: i64 = 2;
const NEIGHBOUR_WEIGHT: i64 = 2;

/// What speaks for and against one node, before the nodes are compared.
#[derive(Debug, Clone, Copy, Default)]
struct Raw {
    preference: i64,
    neighbours: i64,
    crowding: i64,
    avoided_taints: i64,
    room: i64,
}

/// The best of the nodes that the pod may stand on; the first by name among equals.
pub(crate) fn best(cycle: &Cycle<'_>, feasible: &[usize]) -> Option<usize> {
    if let [only] = feasible {
        return Some(*only);
    }
    let neighbours = Neighbours::sum(cycle);
    let raw: Vec<(usize, Raw)> = feasible
        .iter()
        .filter_map(|&slot| {
            let here = cycle.cache.slot(slot);
            let node = here.node.as_ref()?;
            Some((slot, rate(cycle, here, node, &neighbours)))
        })
        .collect();
    let range = |of: fn(&Raw) -> i64| {
        let values = raw.iter().map(|(_, raw)| of(raw));
        (
            values.clone().min().unwrap_or_default(),
            values.max().unwrap_or_default(),
        )
    };
    let preference = range(|raw| raw.preference);
    let around = range(|raw| raw.neighbours);
    let crowding = range(|raw| raw.crowding);
    let taints = range(|raw| raw.avoided_taints);
    let total = |raw: &Raw| {
        AFFINITY_WEIGHT * share(raw.preference, (0, preference.1))
            + NEIGHBOUR_WEIGHT * share(raw.neighbours, around)
            + SPREAD_WEIGHT * (FULL - share(raw.crowding, crowding))
            + TAINT_WEIGHT * (FULL - share(raw.avoided_taints, (0, taints.1)))
            + raw.room
    };
    let name = |slot: usize| cycle.cache.slot(slot).name.as_str();
    raw.iter()
        .map(|(slot, raw)| (total(raw), *slot))
        .max_by(|a, b| a.0.cmp(&b.0).then_with(|| name(b.1).cmp(name(a.1))))
        .map(|(_, slot)| slot)
}

/// Where a value lies in a range, from 0 to 100.
fn share(value: i64, (least, most): (i64, i64)) -> i64 {
    if most == least {
        0
    } else {
        FULL * (value - least) / (most - least)
    }
}

fn rate(cycle: &Cycle<'_>, here: &Slot, node: &NodeInfo, neighbours: &Neighbours<'_>) -> Raw {
    let pod = cycle.pod;
    let free = |total: i64, used: i64, asked: i64| {
        if total <= 0 {
            0
        } else {
            ((total - used - asked).max(0)) * FULL / total
        }
    };
    let cpu = free(node.allocatable.cpu_millis, here.assumed.0, pod.assumed.0);
    let memory = free(node.allocatable.memory_bytes, here.assumed.1, pod.assumed.1);
    let avoided = node.taints.iter().filter(|taint| {
        taint.effect == Effect::PreferNoSchedule && !tolerated(taint, &pod.tolerations)
    });
    Raw {
        preference: pod.node_affinity.preference(&here.name, &node.labels),
        neighbours: neighbours.attraction(node),
        crowding: neighbours.crowding(node),
        avoided_taints: i64::try_from(avoided.count()).unwrap_or(i64::MAX),
        // Least allocated, plus balance between the two resources: one weight each, as upstream.
        room: i64::midpoint(cpu, memory) + (FULL - (cpu - memory).abs() / 2),
    }
}

/// Preferred pod affinity and soft spread, summed over topology values.
struct Neighbours<'a> {
    wanted: Vec<(i64, &'a str, BTreeMap<&'a str, i64>)>,
    spread: Vec<(&'a str, BTreeMap<&'a str, i64>)>,
}

impl<'a> Neighbours<'a> {
    fn sum(cycle: &Cycle<'a>) -> Self {
        let by_value = |query, key: &'a str| {
            let mut sums: BTreeMap<&'a str, i64> = BTreeMap::new();
            let Some(counter) = cycle.cache.count(query).filter(|counter| counter.total > 0) else {
                return sums;
            };
            for &slot in cycle.cache.nodes() {
                let node = cycle.cache.slot(slot).node.as_ref();
                if let Some(value) = node.and_then(|node| node.labels.get(key)) {
                    *sums.entry(value.as_str()).or_default() += i64::from(counter.at(slot));
                }
            }
            sums
        };
        let soft = cycle
            .pod
            .spread
            .iter()
            .filter(|constraint| constraint.unsatisfiable == Unsatisfiable::ScheduleAnyway);
        Self {
            wanted: cycle
                .pod
                .preferred
                .iter()
                .map(|(weight, term)| {
                    let key = term.topology_key.as_str();
                    (*weight, key, by_value(&term.query, key))
                })
                .collect(),
            spread: soft
                .map(|constraint| {
                    let key = constraint.topology_key.as_str();
                    (key, by_value(&constraint.query, key))
                })
                .collect(),
        }
    }

    fn attraction(&self, node: &NodeInfo) -> i64 {
        let held = |key: &str, sums: &BTreeMap<&str, i64>| {
            let value = node.labels.get(key);
            value
                .and_then(|value| sums.get(value.as_str()))
                .copied()
                .unwrap_or_default()
        };
        self.wanted
            .iter()
            .map(|(weight, key, sums)| weight * held(key, sums))
            .sum()
    }

    fn crowding(&self, node: &NodeInfo) -> i64 {
        self.spread
            .iter()
            .map(|(key, sums)| match node.labels.get(*key) {
                Some(value) => sums.get(value.as_str()).copied().unwrap_or_default(),
                // A node outside the topology is the worst place, as upstream ignores it.
                None => sums.values().max().copied().unwrap_or_default() + 1,
            })
            .sum()
    }
}
