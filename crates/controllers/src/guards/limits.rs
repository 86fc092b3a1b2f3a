//! What a pool has, and whether more would be too much. Everything counts that exists or was asked for.

use joiner_core::money::Money;
use joiner_core::name::Name;
use joiner_core::problem::{Limits, Node, Pool};
use joiner_core::resources::{Resources, figure};

use crate::record::Key;
use crate::view::World;

/// What a pool has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// Sum of what its machines have.
    pub resources: Resources,
    /// How many there are.
    pub nodes: u32,
    /// Dollars per hour that were agreed.
    pub cost: Money,
}

impl Usage {
    /// With one machine more.
    pub fn add(&mut self, capacity: &Resources, price: Money) {
        self.resources.add(capacity);
        self.nodes += 1;
        self.cost = self.cost.saturating_add(price);
    }

    /// The first limit that is exceeded, in words.
    pub fn exceeds(&self, limits: &Limits) -> Option<String> {
        if let Some(most) = limits.nodes
            && self.nodes > most
        {
            return Some(format!("limits.nodes ({} of {most})", self.nodes));
        }
        if let Some(most) = limits.cost
            && self.cost > most
        {
            return Some(format!("limits.cost ({} of {most} an hour)", self.cost));
        }
        limits
            .resources
            .iter()
            .find(|(name, most)| self.resources.get(name) > *most)
            .map(|(name, most)| resource(name, self.resources.get(name), most))
    }

    /// The first limit that leaves no room at all, in words.
    pub fn reaches(&self, limits: &Limits) -> Option<String> {
        if let Some(most) = limits.nodes
            && self.nodes >= most
        {
            return Some(format!("limits.nodes ({} of {most})", self.nodes));
        }
        let mut all = limits.resources.iter();
        all.find(|(name, most)| self.resources.get(name) >= *most)
            .map(|(name, most)| resource(name, self.resources.get(name), most))
    }
}

fn resource(name: &str, used: i64, most: i64) -> String {
    format!(
        "limits.{name} ({} of {})",
        figure(name, used),
        figure(name, most)
    )
}

/// What a pool has, one machine perhaps left out.
pub fn usage(world: &World, pool: &str, except: Option<&Key>) -> Usage {
    let mut usage = Usage::default();
    for machine in world.machines.iter() {
        if machine.pool.as_deref() != Some(pool) || Some(&machine.key) == except {
            continue;
        }
        let agreed = machine.offer().map(|offer| offer.purchase.price);
        let price = machine.status.price.or(agreed).unwrap_or_default();
        usage.add(machine.capacity(), price);
    }
    usage
}

/// A pool's limits for a plan. Plans do not count nodes that are on their way out, as Karpenter has it; what they have is
/// paid for until they are gone, so that no more may be bought: it is taken off beforehand.
pub(crate) fn for_plans(world: &World, pool: &Pool, nodes: &[Node]) -> Limits {
    let mut limits = pool.limits.clone();
    let unlimited = limits.nodes.is_none() && limits.cost.is_none();
    if unlimited && limits.resources.iter().next().is_none() {
        return limits;
    }
    let used = usage(world, &pool.name, None);
    let mut counted = Usage::default();
    let present = nodes
        .iter()
        .filter(|node| node.pool.as_ref() == Some(&pool.name) && !node.deleting);
    for node in present {
        counted.add(&node.capacity, node.price.unwrap_or_default());
    }
    let names: Vec<Name> = limits
        .resources
        .iter()
        .map(|(name, _)| name.clone())
        .collect();
    for name in names {
        let hidden = used.resources.get(&name) - counted.resources.get(&name);
        let left = limits.resources.get(&name).saturating_sub(hidden);
        limits.resources.set(&name, left);
    }
    limits.nodes = limits
        .nodes
        .map(|most| most.saturating_sub(used.nodes.saturating_sub(counted.nodes)));
    limits.cost = limits.cost.map(|most| most + counted.cost - used.cost);
    limits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_limit_that_is_exceeded_is_named() {
        let mut usage = Usage::default();
        let limits = Limits {
            resources: Resources::new().with("cpu", 4000),
            nodes: Some(2),
            cost: None,
        };
        usage.add(&Resources::new().with("cpu", 4000), Money::ZERO);
        assert_eq!(usage.exceeds(&limits), None);
        assert_eq!(
            usage.reaches(&limits).as_deref(),
            Some("limits.cpu (4 of 4)")
        );
        usage.add(&Resources::new().with("cpu", 500), Money::ZERO);
        assert_eq!(
            usage.exceeds(&limits).as_deref(),
            Some("limits.cpu (4.5 of 4)")
        );
        usage.add(&Resources::new(), Money::ZERO);
        assert_eq!(
            usage.exceeds(&limits).as_deref(),
            Some("limits.nodes (3 of 2)")
        );
    }
}
