//! Amounts of resources by name.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::name::Name;
use crate::quantity::{self, QuantityError};

/// Processor time; counted in thousandths of a core.
pub const CPU: &str = "cpu";
/// Memory; counted in bytes.
pub const MEMORY: &str = "memory";
/// Pod slots.
pub const PODS: &str = "pods";
/// Scratch space; counted in bytes.
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// NVIDIA GPUs.
pub const NVIDIA_GPU: &str = "nvidia.com/gpu";

/// Amounts by resource name: `cpu` in thousandths, everything else in whole units (bytes, devices, slots).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Resources(BTreeMap<Name, i64>);

impl Resources {
    /// No resources.
    pub const fn new() -> Self {
        Resources(BTreeMap::new())
    }

    /// Reads one amount in Kubernetes notation, in the unit that this resource is counted in.
    pub fn parse_amount(resource: &str, text: &str) -> Result<i64, QuantityError> {
        if resource == CPU {
            quantity::parse_milli(text)
        } else {
            quantity::parse(text)
        }
    }

    /// The amount of a resource; what is not listed is zero.
    pub fn get(&self, resource: &str) -> i64 {
        self.0.get(resource).copied().unwrap_or(0)
    }

    /// Whether the resource is listed, be it with zero.
    pub fn contains(&self, resource: &str) -> bool {
        self.0.contains_key(resource)
    }

    /// Sets an amount.
    pub fn set(&mut self, resource: &str, amount: i64) {
        if let Some(slot) = self.0.get_mut(resource) {
            *slot = amount;
        } else {
            self.0.insert(resource.into(), amount);
        }
    }

    /// The same with one amount set.
    #[must_use]
    pub fn with(mut self, resource: &str, amount: i64) -> Self {
        self.set(resource, amount);
        self
    }

    /// Names and amounts, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, i64)> {
        self.0.iter().map(|(name, amount)| (name, *amount))
    }

    /// Whether nothing is listed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds every amount of `other`.
    pub fn add(&mut self, other: &Resources) {
        self.merge(other, i64::saturating_add);
    }

    /// Takes off every amount of `other`; amounts may become negative.
    pub fn subtract(&mut self, other: &Resources) {
        self.merge(other, i64::saturating_sub);
    }

    /// Raises every amount to that of `other`.
    pub fn raise_to(&mut self, other: &Resources) {
        self.merge(other, i64::max);
    }

    fn merge(&mut self, other: &Resources, combine: impl Fn(i64, i64) -> i64) {
        for (name, amount) in &other.0 {
            if let Some(slot) = self.0.get_mut(name) {
                *slot = combine(*slot, *amount);
            } else {
                self.0.insert(name.clone(), combine(0, *amount));
            }
        }
    }

    /// Whether `requests` fit into these amounts. Room that is overdrawn anywhere takes nothing.
    ///
    /// karpenter: pkg/utils/resources/resources.go, `Fits`
    pub fn fits(&self, requests: &Resources) -> bool {
        self.0.values().all(|amount| *amount >= 0)
            && requests
                .0
                .iter()
                .all(|(name, amount)| *amount <= self.get(name))
    }
}

impl FromIterator<(Name, i64)> for Resources {
    fn from_iter<I: IntoIterator<Item = (Name, i64)>>(amounts: I) -> Self {
        Resources(amounts.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_the_node_lacks_counts_as_none() {
        let node = Resources::new().with(CPU, 2000);
        assert!(node.fits(&Resources::new().with(CPU, 2000)));
        assert!(!node.fits(&Resources::new().with(NVIDIA_GPU, 1)));
        assert!(node.fits(&Resources::new().with(NVIDIA_GPU, 0)));
    }

    #[test]
    fn overdrawn_room_takes_nothing() {
        let node = Resources::new().with(CPU, 2000).with(MEMORY, -1);
        assert!(!node.fits(&Resources::new().with(CPU, 1)));
    }

    #[test]
    fn cpu_is_counted_in_thousandths_and_memory_in_bytes() {
        assert_eq!(Resources::parse_amount(CPU, "1.5"), Ok(1500));
        assert_eq!(Resources::parse_amount(MEMORY, "1Ki"), Ok(1024));
        assert_eq!(Resources::parse_amount(NVIDIA_GPU, "4"), Ok(4));
    }
}
