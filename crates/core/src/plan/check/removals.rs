//! Nodes that go: may they, and may so many go at once.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::site::World;
use super::{Findings, Rule};
use crate::plan::{Home, Removal};
use crate::problem::{
    Budget, BudgetAmount, ConsolidationPolicy, DisruptionReason, Node, NodeId, NodePhase, Offering,
    Pod, Pool, Problem, UnhealthyPodEvictionPolicy,
};
use crate::resources::{CPU, MEMORY};
use crate::schedule::Schedule;

/// Dollars that sums of prices may be off by.
const ROUNDING: f64 = 1e-9;

/// Why a node goes, if the plan takes it away.
pub(super) fn cause(world: &World<'_>, node: usize) -> Option<DisruptionReason> {
    let name = &world.problem.nodes.get(node)?.name;
    let removals = world.plan.removals.iter();
    removals
        .filter(|removal| world.removed.contains(&node) && removal.node == *name)
        .map(|removal| removal.cause)
        .next()
}

/// Until when a node must be left alone because pods came or went, if it must.
pub(super) fn quiet_until(problem: &Problem, pool: &Pool, node: &Node) -> Option<Timestamp> {
    let after = pool.disruption.consolidate_after?;
    let last = node.last_pod_event.or(node.created)?;
    let until = last.checked_add(after).unwrap_or(Timestamp::MAX);
    problem.now.filter(|now| until > *now).map(|_| until)
}

pub(super) fn check(world: &World<'_>, findings: &mut Findings) {
    let mut seen = BTreeSet::new();
    for removal in &world.plan.removals {
        let Some(index) = world.node_index.get(&*removal.node).copied() else {
            let text = format!("node {} is taken away, but there is none", removal.node);
            findings.add(Rule::Bookkeeping, text);
            continue;
        };
        if !seen.insert(index) {
            let text = format!("node {} is taken away twice", removal.node);
            findings.add(Rule::Bookkeeping, text);
        }
        let node = &world.problem.nodes[index];
        let pool = node.pool.as_deref().and_then(|pool| world.pools.get(pool));
        let Some(pool) = pool else {
            let text = format!("node {} is not ours and must stay", node.name);
            findings.add(Rule::Disruption, text);
            continue;
        };
        if let Err(why) = may_go(world, removal, node, pool) {
            let text = format!("node {} must not go as {}: {why}", node.name, removal.cause);
            findings.add(Rule::Disruption, text);
        }
        if removal.cause != DisruptionReason::Expired {
            settled(world, index, findings);
        }
    }
    budgets(world, findings);
    pod_budgets(world, findings);
}

/// Every pod of a node that need not go has a place to go to.
fn settled(world: &World<'_>, index: usize, findings: &mut Findings) {
    let home = Home::Node(NodeId::at(index));
    for pod in world.plan.unplaced.iter().flat_map(|one| &one.pods) {
        if pod.home == home {
            let name = world.problem.pod_name(*pod).unwrap_or_default();
            let text = format!(
                "node {} goes and pod {name} of it has no place",
                world.problem.nodes[index].name
            );
            findings.add(Rule::Disruption, text);
        }
    }
}

fn may_go(world: &World<'_>, removal: &Removal, node: &Node, pool: &Pool) -> Result<(), String> {
    let now = world.problem.now;
    let said = |text: &str| Err(text.to_owned());
    if node.deleting {
        return said("it is going already");
    }
    if removal.cause == DisruptionReason::Expired {
        let expires = node
            .created
            .zip(pool.expire_after)
            .and_then(|(created, after)| created.checked_add(after).ok());
        return match (expires, now) {
            (Some(expires), Some(now)) if expires <= now => Ok(()),
            _ => said("it is not old enough"),
        };
    }
    if node.phase != NodePhase::Ready {
        return said("it is not in use yet");
    }
    if node.do_not_disrupt {
        return said("it must not be disturbed");
    }
    if node.nominated {
        return said("pods were promised it");
    }
    if let Some(pod) = node.pods.iter().find(|pod| pod.do_not_disrupt) {
        return Err(format!("pod {} on it must not be moved", pod.name));
    }
    if removal.cause == DisruptionReason::Drifted {
        return match node.drifted {
            Some(_) => Ok(()),
            None => said("it is what its pool asks for"),
        };
    }
    if pool.replicas.is_some() {
        return said("its pool keeps a fixed number of nodes");
    }
    if removal.cause == DisruptionReason::Underutilized && overpriced(world.problem, pool, node) {
        return grown(pool, node, now);
    }
    if pool.disruption.consolidate_after.is_none() {
        return said("its pool never consolidates");
    }
    if let Some(until) = quiet_until(world.problem, pool, node) {
        return Err(format!("it must be left alone until {until}"));
    }
    let burdened = node
        .pods
        .iter()
        .any(|pod| pod.reschedulable() && eviction_cost(pod) > 0.0);
    if removal.cause == DisruptionReason::Empty {
        return if burdened {
            said("pods run on it")
        } else {
            Ok(())
        };
    }
    if pool.disruption.policy == ConsolidationPolicy::WhenEmpty {
        return said("its pool takes away empty nodes only");
    }
    grown(pool, node, now)
}

fn grown(pool: &Pool, node: &Node, now: Option<Timestamp>) -> Result<(), String> {
    let old_enough = node
        .created
        .zip(now)
        .is_none_or(|(created, now)| now.duration_since(created) >= pool.disruption.min_age);
    if old_enough {
        Ok(())
    } else {
        Err("it is too young".to_owned())
    }
}

/// Whether the pool lets nodes go for their price alone, and its catalogue has as much cpu and memory, as whole machines
/// or as a part of one, for less by what the pool asks to save.
#[expect(clippy::cast_precision_loss, reason = "a share of a price")]
fn overpriced(problem: &Problem, pool: &Pool, node: &Node) -> bool {
    let (true, Some(price), Some(catalog)) = (
        pool.disruption.price_replacement,
        node.price,
        problem.catalog(&pool.catalog),
    ) else {
        return false;
    };
    let own = catalog
        .types
        .iter()
        .find(|one| one.name == node.instance_type);
    let size = own.map_or(&node.capacity, |one| &one.capacity);
    let most = price - price.percent(pool.disruption.min_savings);
    catalog.types.iter().any(|kind| {
        let times = |name: &&str| size.get(name) as f64 / kind.capacity.get(name) as f64;
        let times = [CPU, MEMORY].iter().map(times).fold(0.0, f64::max);
        let machines = if times > 1.0 { times.ceil() } else { times };
        let cheap = |one: &Offering| {
            let cost = one.price.dollars() * machines;
            one.available && cost < price.dollars() && cost <= most.dollars() + ROUNDING
        };
        kind.offerings.iter().any(cheap)
    })
}

/// What moving a pod costs beside moving others.
///
/// karpenter: pkg/utils/disruption/disruption.go, `EvictionCost`
pub(super) fn eviction_cost(pod: &Pod) -> f64 {
    let deletion = f64::from(pod.deletion_cost) / f64::from(1 << 27);
    let priority = f64::from(pod.spec.priority) / f64::from(1 << 25);
    (1.0 + deletion + priority).clamp(-10.0, 10.0)
}

/// How many nodes of a pool may be away for a reason; `None` for as many as there are.
fn allowed(world: &World<'_>, pool: &Pool, reason: DisruptionReason, total: u32) -> Option<u32> {
    let active = |budget: &Budget| -> Option<bool> {
        let Some(text) = &budget.schedule else {
            return Some(true);
        };
        let schedule = Schedule::parse(text).ok()?;
        let length = budget.duration.unwrap_or_default();
        let open = world
            .problem
            .now
            .and_then(|now| schedule.open_until(now, length));
        Some(open.is_some())
    };
    let mut least = None;
    for budget in &pool.disruption.budgets {
        // A schedule that cannot be read holds everything back.
        let Some(active) = active(budget) else {
            return Some(0);
        };
        let applies = budget.reasons.is_empty() || budget.reasons.contains(&reason);
        if active && applies {
            let nodes = match budget.amount {
                BudgetAmount::Nodes(nodes) => nodes,
                BudgetAmount::Percent(percent) => (total * u32::from(percent)).div_ceil(100),
            };
            least = Some(least.map_or(nodes, |least: u32| least.min(nodes)));
        }
    }
    least
}

fn budgets(world: &World<'_>, findings: &mut Findings) {
    let reasons = [
        DisruptionReason::Empty,
        DisruptionReason::Drifted,
        DisruptionReason::Underutilized,
    ];
    for pool in world.pools.values() {
        let own = |node: &&Node| node.pool.as_ref() == Some(&pool.name);
        let nodes = world.problem.nodes.iter().filter(own);
        let in_use: Vec<&Node> = nodes
            .filter(|node| node.phase == NodePhase::Ready)
            .collect();
        let total = u32::try_from(in_use.len()).unwrap_or(u32::MAX);
        let expires = |node: &Node| {
            let own = |removal: &&Removal| removal.node == node.name;
            let removal = world.plan.removals.iter().find(own);
            removal.is_some_and(|removal| removal.cause == DisruptionReason::Expired)
        };
        let away = |node: &&&Node| node.unready || node.deleting || expires(node);
        let away = in_use.iter().filter(away);
        let mut away = u32::try_from(away.count()).unwrap_or(u32::MAX);
        for reason in reasons {
            let going = world
                .plan
                .removals
                .iter()
                .filter(|removal| removal.cause == reason)
                .filter_map(|removal| world.problem.node(&removal.node))
                .filter(own)
                .filter(|node| !node.unready);
            let going = u32::try_from(going.count()).unwrap_or(u32::MAX);
            away += going;
            if let Some(most) = allowed(world, pool, reason, total)
                && going > 0
                && away > most
            {
                let text = format!(
                    "{away} of {total} nodes of pool {} would be away, its budgets allow {most} as {reason}",
                    pool.name
                );
                findings.add(Rule::Budgets, text);
            }
        }
    }
}

fn pod_budgets(world: &World<'_>, findings: &mut Findings) {
    let budgets = &world.problem.pod_disruption_budgets;
    if budgets.is_empty() {
        return;
    }
    // All that go of each budget, and the most on one node: a drain that was begun while its budget let a pod go waits for
    // the others, so the last node to begin may have more pods than are allowed.
    let mut evicted: BTreeMap<usize, (u32, u32)> = BTreeMap::new();
    for index in &world.removed {
        if cause(world, *index) == Some(DisruptionReason::Expired) {
            continue;
        }
        let mut here: BTreeMap<usize, u32> = BTreeMap::new();
        for pod in &world.problem.nodes[*index].pods {
            if pod.stays_behind {
                continue;
            }
            let holding: Vec<usize> = (0..budgets.len())
                .filter(|at| {
                    budgets[*at].namespace == pod.spec.namespace
                        && budgets[*at]
                            .selector
                            .as_ref()
                            .is_some_and(|selector| selector.matches(&pod.spec.labels))
                })
                .collect();
            if holding.len() > 1 {
                let text = format!(
                    "pod {} has {} disruption budgets, so it cannot be evicted",
                    pod.name,
                    holding.len()
                );
                findings.add(Rule::Budgets, text);
            }
            for at in holding {
                let always = budgets[at].unhealthy_pod_eviction_policy
                    == UnhealthyPodEvictionPolicy::AlwaysAllow;
                if !(always && pod.unready) {
                    *here.entry(at).or_default() += pod.count;
                }
            }
        }
        for (at, count) in here {
            let (all, most) = evicted.entry(at).or_default();
            *all += count;
            *most = count.max(*most);
        }
    }
    for (at, (count, most)) in evicted {
        let budget = &budgets[at];
        let allowed = if budget.never {
            0
        } else {
            budget.disruptions_allowed
        };
        if count > 0 && count - most >= allowed {
            let text = format!(
                "{count} pods of disruption budget {}/{} are evicted at once, it allows {allowed}",
                budget.namespace, budget.name
            );
            findings.add(Rule::Budgets, text);
        }
    }
}
