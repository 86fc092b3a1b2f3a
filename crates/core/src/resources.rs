//! Amounts of resources by name.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::name::Name;
use crate::quantity::{self, QuantityError};

/// Processor time; counted in thousandths of a core.
pub const CPU: &str = "cpu";
/// Memory; counted in bytes.
pub const MEMORY: &str = "memory";
/// Pod slots.
pub const PODS: &str = "pods";
/// Machines, in limits and quotas.
pub const NODES: &str = "nodes";
/// Scratch space; counted in bytes.
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// NVIDIA GPUs.
pub const NVIDIA_GPU: &str = "nvidia.com/gpu";

/// Amounts by resource name: `cpu` in thousandths, everything else in whole units (bytes, devices, slots).
///
/// Ordered by name, in a list: there are three or four of them, and thousands of pods each have their own.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resources(Vec<(Name, i64)>);

impl Resources {
    /// No resources.
    pub const fn new() -> Self {
        Resources(Vec::new())
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
        self.find(resource).map_or(0, |at| self.0[at].1)
    }

    /// Whether the resource is listed, be it with zero.
    pub fn contains(&self, resource: &str) -> bool {
        self.find(resource).is_ok()
    }

    /// Where a resource is, or where it belongs.
    fn find(&self, resource: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(name, _)| (**name).cmp(resource))
    }

    /// Sets an amount.
    pub fn set(&mut self, resource: &str, amount: i64) {
        match self.find(resource) {
            Ok(at) => self.0[at].1 = amount,
            Err(at) => self.0.insert(at, (resource.into(), amount)),
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
            match self.find(name) {
                Ok(at) => self.0[at].1 = combine(self.0[at].1, *amount),
                Err(at) => self.0.insert(at, (name.clone(), combine(0, *amount))),
            }
        }
    }

    /// Whether `requests` fit into these amounts. Room that is overdrawn anywhere takes nothing.
    ///
    /// karpenter: pkg/utils/resources/resources.go, `Fits`
    pub fn fits(&self, requests: &Resources) -> bool {
        self.0.iter().all(|(_, amount)| *amount >= 0)
            && requests
                .0
                .iter()
                .all(|(name, amount)| *amount <= self.get(name))
    }
}

const GIB: f64 = 1_073_741_824.0;
const MIB: f64 = 1_048_576.0;

/// An amount as people write it: `95.92 CPU`, `64Gi memory`, `9 nvidia.com/gpu`. At most two decimals.
#[expect(clippy::cast_precision_loss, reason = "two decimals are shown")]
pub fn described(name: &str, amount: i64) -> String {
    match name {
        CPU => format!("{} CPU", decimal(amount as f64 / 1000.0)),
        _ => format!("{} {name}", figure(name, amount)),
    }
}

/// The same without the name of the resource.
#[expect(clippy::cast_precision_loss, reason = "two decimals are shown")]
pub fn figure(name: &str, amount: i64) -> String {
    let bytes = matches!(name, MEMORY | EPHEMERAL_STORAGE) || name.starts_with("hugepages-");
    let value = amount as f64;
    match name {
        CPU => decimal(value / 1000.0),
        _ if bytes && value.abs() >= GIB => format!("{}Gi", decimal(value / GIB)),
        _ if bytes && value.abs() >= MIB => format!("{}Mi", decimal(value / MIB)),
        _ => amount.to_string(),
    }
}

/// At most two decimals, and none that are nothing.
fn decimal(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl FromIterator<(Name, i64)> for Resources {
    fn from_iter<I: IntoIterator<Item = (Name, i64)>>(amounts: I) -> Self {
        let amounts = amounts.into_iter();
        let mut list: Vec<(Name, i64)> = Vec::with_capacity(amounts.size_hint().0);
        list.extend(amounts);
        // Of two amounts of one resource the last one counts.
        list.sort_by(|a, b| a.0.cmp(&b.0));
        list.dedup_by(|later, kept| {
            let again = later.0 == kept.0;
            if again {
                kept.1 = later.1;
            }
            again
        });
        Resources(list)
    }
}

impl Serialize for Resources {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Resources {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let amounts: BTreeMap<Name, i64> = Deserialize::deserialize(deserializer)?;
        Ok(amounts.into_iter().collect())
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
    fn amounts_are_ordered_by_name_and_the_last_of_one_resource_counts() {
        let amounts = [(MEMORY, 1), (CPU, 2), (MEMORY, 3)];
        let amounts: Resources = amounts
            .map(|(name, amount)| (name.into(), amount))
            .into_iter()
            .collect();
        assert_eq!(amounts, Resources::new().with(CPU, 2).with(MEMORY, 3));
        let text = serde_json::to_string(&amounts).expect("plain numbers");
        assert_eq!(text, r#"{"cpu":2,"memory":3}"#);
        assert_eq!(serde_json::from_str::<Resources>(&text).ok(), Some(amounts));
    }

    #[test]
    fn amounts_are_described_as_people_write_them() {
        for (name, amount, text) in [
            (CPU, 95_920, "95.92 CPU"),
            (CPU, 500_000, "500 CPU"),
            (MEMORY, 64 << 30, "64Gi memory"),
            (MEMORY, 1_610_612_736, "1.5Gi memory"),
            (MEMORY, 268_435_456, "256Mi memory"),
            (NVIDIA_GPU, 9, "9 nvidia.com/gpu"),
            (MEMORY, 100, "100 memory"),
        ] {
            assert_eq!(described(name, amount), text);
        }
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
