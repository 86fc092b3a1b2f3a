//! What a pool has, and whether more would be too much. Everything counts that exists or was asked for.

use joiner_core::money::Money;
use joiner_core::problem::Limits;
use joiner_core::resources::Resources;

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
            return Some(format!("nodes: {} of {most}", self.nodes));
        }
        if let Some(most) = limits.cost
            && self.cost > most
        {
            return Some(format!(
                "cost: {:.4} of {:.4} dollars an hour",
                self.cost.dollars(),
                most.dollars()
            ));
        }
        limits
            .resources
            .iter()
            .find(|(name, most)| self.resources.get(name) > *most)
            .map(|(name, most)| format!("{name}: {} of {most}", self.resources.get(name)))
    }
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
        usage.add(&Resources::new().with("cpu", 1), Money::ZERO);
        assert_eq!(usage.exceeds(&limits).as_deref(), Some("cpu: 4001 of 4000"));
        usage.add(&Resources::new(), Money::ZERO);
        assert_eq!(usage.exceeds(&limits).as_deref(), Some("nodes: 3 of 2"));
    }
}
