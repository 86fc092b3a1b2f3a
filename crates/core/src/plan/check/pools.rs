//! Limits of pools and of the plan as a whole.

use std::collections::BTreeMap;

use super::site::World;
use super::{Findings, Rule};
use crate::money::Money;
use crate::problem::CapacityType;
use crate::resources::Resources;

pub(super) fn check(world: &World<'_>, findings: &mut Findings) {
    for pool in world.pools.values() {
        let launches: Vec<_> = world
            .plan
            .launches
            .iter()
            .filter(|launch| launch.pool == pool.name)
            .collect();
        // A limit that was lowered below what is there forbids growth and nothing else.
        if launches.is_empty() {
            continue;
        }
        let mut used = Resources::new();
        let mut count = launches.len();
        let mut cost: Money = launches.iter().map(|launch| launch.purchase.price).sum();
        for launch in &launches {
            used.add(&launch.capacity);
        }
        // A node that goes is there until what takes its place is ready, so it counts.
        let present = world.problem.nodes.iter().filter(|node| !node.deleting);
        for node in present.filter(|node| node.pool.as_ref() == Some(&pool.name)) {
            used.add(&node.capacity);
            count += 1;
            cost += node.price.unwrap_or_default();
        }
        let over = |what: &str, has: String, limit: String| {
            format!(
                "pool {} would have {has} {what}, its limit is {limit}",
                pool.name
            )
        };
        for (name, limit) in pool.limits.resources.iter() {
            let has = used.get(name);
            if has > limit {
                findings.add(Rule::Limits, over(name, has.to_string(), limit.to_string()));
            }
        }
        if let Some(limit) = pool.limits.nodes
            && count > limit as usize
        {
            findings.add(
                Rule::Limits,
                over("nodes", count.to_string(), limit.to_string()),
            );
        }
        if let Some(limit) = pool.limits.cost
            && cost > limit
        {
            findings.add(
                Rule::Limits,
                over("an hour to pay", cost.to_string(), limit.to_string()),
            );
        }
    }
    settings(world, findings);
}

fn settings(world: &World<'_>, findings: &mut Findings) {
    let launches = &world.plan.launches;
    let settings = &world.problem.settings;
    if let Some(most) = settings.max_new_nodes
        && launches.len() > most as usize
    {
        let text = format!(
            "{} machines are bought, at most {most} may be",
            launches.len()
        );
        findings.add(Rule::Limits, text);
    }
    let Some(share) = settings.spot_share else {
        return;
    };
    let mut spot: BTreeMap<_, usize> = BTreeMap::new();
    for launch in launches {
        let purchase = &launch.purchase;
        if purchase.capacity_type == CapacityType::Spot {
            let offering = (&purchase.catalog, &purchase.instance_type, &purchase.zone);
            *spot.entry(offering).or_default() += 1;
        }
    }
    // One machine is always allowed, or nothing small could be bought.
    let most = (launches.len() * share as usize / 100).max(1);
    for ((_, kind, zone), count) in spot {
        if count > most {
            let text = format!(
                "{count} of {} machines are spot {kind} in {zone}, at most {share}% may be",
                launches.len()
            );
            findings.add(Rule::Limits, text);
        }
    }
}
