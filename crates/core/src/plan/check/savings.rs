//! What is taken away to save money saves money.
//!
//! Nodes whose pods meet on one new machine are judged together: what they cost against what takes their place.

use std::collections::{BTreeMap, BTreeSet};

use super::removals::{cause, eviction_cost};
use super::site::World;
use super::{Findings, Rule};
use crate::money::Money;
use crate::plan::{Home, Launch};
use crate::problem::{CapacityType, ConsolidationPolicy, DisruptionReason, Node, Pool, Problem};

/// A spot machine is only worth another one if there is this much to choose from, or it will soon be taken away.
///
/// karpenter: pkg/controllers/disruption/consolidation.go, `MinInstanceTypesForSpotToSpotConsolidation`
const SPOT_CHOICE: usize = 15;

pub(super) fn check(world: &World<'_>, findings: &mut Findings) {
    let saving: BTreeSet<usize> = world
        .removed
        .iter()
        .copied()
        .filter(|index| cause(world, *index) == Some(DisruptionReason::Underutilized))
        .collect();
    // A machine may also take pods of nodes that go for other reasons; what those cost is set against it too.
    for (nodes, launches) in components(world, &world.removed) {
        if !nodes.iter().any(|node| saving.contains(node)) {
            continue;
        }
        let before: Money = nodes
            .iter()
            .map(|node| cost(world.problem, &world.problem.nodes[*node]))
            .sum();
        let surcharge = world.problem.settings.node_surcharge;
        let prices = launches
            .iter()
            .map(|launch| launch.purchase.price + surcharge);
        let after: Money = prices.sum();
        balanced(world, &saving, &nodes, before, after, findings);
        if launches.is_empty() {
            continue;
        }
        let pools = nodes.iter().filter_map(|node| pool(world, *node));
        let percent = pools
            .map(|pool| pool.disruption.min_savings)
            .max()
            .unwrap_or(0);
        let names = names(world, &nodes);
        if after >= before {
            let text = format!("{names} cost {before} an hour and are replaced for {after}");
            findings.add(Rule::Savings, text);
        } else if after > before - before.percent(percent) {
            let text = format!(
                "{names} cost {before} an hour and are replaced for {after}, which saves less than {percent}%"
            );
            findings.add(Rule::Savings, text);
        }
        spot_to_spot(world, &nodes, &launches, &names, findings);
    }
}

fn cost(problem: &Problem, node: &Node) -> Money {
    node.price.unwrap_or_default() + problem.settings.node_surcharge
}

fn pool<'a>(world: &World<'a>, node: usize) -> Option<&'a Pool> {
    let name = world.problem.nodes[node].pool.as_deref()?;
    world.pools.get(name).copied()
}

fn names(world: &World<'_>, nodes: &[usize]) -> String {
    let shown: Vec<&str> = nodes
        .iter()
        .take(3)
        .map(|node| &*world.problem.nodes[*node].name)
        .collect();
    let more = nodes.len().saturating_sub(3);
    let rest = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    format!("{}{rest}", shown.join(", "))
}

fn find(leader: &BTreeMap<usize, usize>, node: usize) -> usize {
    let up = leader.get(&node).copied().unwrap_or(node);
    if up == node { node } else { find(leader, up) }
}

/// Nodes taken away to save money, joined where their pods meet on a launch, with these launches.
fn components<'a>(
    world: &World<'a>,
    saving: &BTreeSet<usize>,
) -> Vec<(Vec<usize>, Vec<&'a Launch>)> {
    let mut leader: BTreeMap<usize, usize> = saving.iter().map(|node| (*node, *node)).collect();
    let sources = |launch: &Launch| -> Vec<usize> {
        let homes = launch.pods.iter().filter_map(|pod| match pod.home {
            Home::Node(node) => Some(node.index()),
            Home::Pending => None,
        });
        homes.filter(|node| saving.contains(node)).collect()
    };
    for launch in &world.plan.launches {
        let nodes = sources(launch);
        for pair in nodes.windows(2) {
            let (a, b) = (find(&leader, pair[0]), find(&leader, pair[1]));
            leader.insert(a.max(b), a.min(b));
        }
    }
    let mut parts: BTreeMap<usize, (Vec<usize>, Vec<&Launch>)> = BTreeMap::new();
    for node in saving {
        parts.entry(find(&leader, *node)).or_default().0.push(*node);
    }
    for launch in &world.plan.launches {
        if let Some(first) = sources(launch).first() {
            parts
                .entry(find(&leader, *first))
                .or_default()
                .1
                .push(launch);
        }
    }
    parts.into_values().collect()
}

fn spot_to_spot(
    world: &World<'_>,
    nodes: &[usize],
    launches: &[&Launch],
    names: &str,
    findings: &mut Findings,
) {
    let spot = |node: &usize| world.problem.nodes[*node].capacity_type == CapacityType::Spot;
    let new_spot = launches
        .iter()
        .find(|launch| launch.purchase.capacity_type == CapacityType::Spot);
    let Some(launch) = new_spot.filter(|_| nodes.iter().all(spot)) else {
        return;
    };
    let forbids =
        |node: &usize| pool(world, *node).is_some_and(|pool| !pool.disruption.spot_to_spot);
    if nodes.iter().any(forbids) {
        let text = format!("{names} are spot and must not be replaced by spot");
        findings.add(Rule::Savings, text);
        return;
    }
    let types: BTreeSet<_> = launch
        .alternatives
        .iter()
        .chain([&launch.purchase])
        .map(|purchase| &purchase.instance_type)
        .collect();
    let asks =
        |node: &usize| pool(world, *node).is_some_and(|pool| pool.disruption.min_savings > 0);
    if nodes.len() == 1 && types.len() < SPOT_CHOICE && !nodes.iter().all(asks) {
        let text = format!(
            "{names} is spot and replaced by spot with {} types to choose from, fewer than {SPOT_CHOICE}",
            types.len()
        );
        findings.add(Rule::Savings, text);
    }
}

/// Balanced pools want savings in proportion to the pods that move: at least half of what is usual. Every move is judged
/// by itself.
///
/// karpenter: pkg/controllers/disruption/balanced.go
fn balanced(
    world: &World<'_>,
    saving: &BTreeSet<usize>,
    nodes: &[usize],
    before: Money,
    after: Money,
    findings: &mut Findings,
) {
    let cost = |nodes: &[&Node]| -> f64 {
        let prices = nodes.iter().map(|node| cost(world.problem, node));
        prices.sum::<Money>().dollars()
    };
    let burden = |nodes: &[&Node]| -> f64 { nodes.iter().map(|node| burden(node)).sum() };
    for pool in world.pools.values() {
        if pool.disruption.policy != ConsolidationPolicy::Balanced {
            continue;
        }
        let own = |node: &&Node| node.pool.as_ref() == Some(&pool.name) && !node.deleting;
        let going: Vec<&Node> = nodes
            .iter()
            .filter(|index| saving.contains(index))
            .map(|index| &world.problem.nodes[*index])
            .filter(own)
            .collect();
        if going.is_empty() {
            continue;
        }
        let all: Vec<&Node> = world.problem.nodes.iter().filter(own).collect();
        // What takes the place of nodes of several pools is charged to each by its share.
        let share = cost(&going) / before.dollars();
        let savings = (before.dollars() - after.dollars()) * share;
        let score = (savings / cost(&all)) / (burden(&going) / burden(&all));
        if !(savings > 0.0 && score >= 0.5) {
            let text = format!(
                "pool {} is to be balanced, and saving ${savings:.4} an hour is not worth moving so many pods \
                 (score {score:.2}, at least 0.50)",
                pool.name
            );
            findings.add(Rule::Savings, text);
        }
    }
}

fn burden(node: &Node) -> f64 {
    let pods = node.pods.iter().filter(|pod| pod.reschedulable());
    1.0 + pods
        .map(|pod| eviction_cost(pod).max(0.0) * f64::from(pod.count))
        .sum::<f64>()
}
