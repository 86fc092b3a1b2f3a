//! What machines turn out to be: a catalogue promises, a node tells.
//!
//! Where nodes of a type have less for pods than their catalogue says, pods planned for them would not fit, and the same
//! too small machine would be bought again and again. So what nodes of a type really offer is what the next plan counts
//! with. It is read off the nodes that are there; what was learned from nodes that are gone is kept as long as the
//! process lives.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use joiner_core::labels;
use joiner_core::name::Name;
use joiner_core::problem::Catalog;
use joiner_core::resources::{PODS, Resources};

use crate::view::World;

/// What nodes of a type offer pods, by catalogue and type.
#[derive(Debug, Default)]
pub struct ObservedAllocatable(
    Mutex<BTreeMap<(Name, Name), Resources>>,
    /// What nodes of a range keep for themselves, the most of each resource: their sizes differ, so that what they offer
    /// says nothing about the next one.
    Mutex<BTreeMap<(Name, Name), Resources>>,
);

impl ObservedAllocatable {
    /// Reads off what the nodes that are there tell.
    pub(crate) fn look(&self, world: &World) {
        let mut seen: BTreeMap<(Name, Name), Resources> = BTreeMap::new();
        let mut kept: BTreeMap<(Name, Name), Resources> = BTreeMap::new();
        for machine in world.machines.iter().filter(|one| one.initialized()) {
            let node = machine
                .status
                .node
                .as_ref()
                .and_then(|name| world.nodes.get(name));
            let (Some(node), Some(kind)) = (node, machine.labels.get(labels::INSTANCE_TYPE)) else {
                continue;
            };
            let entry = seen
                .entry((machine.class.catalog(), kind.clone()))
                .or_insert_with(|| node.allocatable.clone());
            *entry = least(entry, &node.allocatable);
            let entry = kept
                .entry((machine.class.catalog(), kind.clone()))
                .or_default();
            for (name, amount) in machine.status.capacity.iter() {
                // What a node does not mention at all is not there yet: drivers report late.
                let real = node.allocatable.get(name);
                if real > 0 && &**name != PODS {
                    entry.set(name, entry.get(name).max(amount - real));
                }
            }
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(seen);
        let mut known = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(kept);
    }

    /// Corrects a catalogue: a type whose nodes offer something else than it says offers that.
    pub(crate) fn correct(&self, base: &Name, catalog: &mut Catalog) {
        self.correct_ranges(base, catalog);
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_empty() {
            return;
        }
        for kind in &mut catalog.types {
            let Some(real) = known.get(&(base.clone(), kind.name.clone())) else {
                continue;
            };
            // Huge pages are cut out of memory by the kubelet: there nothing can be told from the sums alone.
            if kind
                .capacity
                .iter()
                .any(|(name, _)| name.starts_with("hugepages-"))
            {
                continue;
            }
            let promised = kind.allocatable();
            for (name, amount) in promised.iter() {
                // What a node does not mention at all is not there yet: drivers report late.
                if real.get(name) == 0
                    || real.get(name) == amount
                    || &**name == PODS && real.get(name) > amount
                {
                    continue;
                }
                kind.overhead
                    .set(name, kind.capacity.get(name) - real.get(name));
            }
        }
    }

    /// Machines made to measure keep as much for themselves as those that are there do.
    fn correct_ranges(&self, base: &Name, catalog: &mut Catalog) {
        let kept = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        for range in &mut catalog.ranges {
            let Some(real) = kept.get(&(base.clone(), range.name.clone())) else {
                continue;
            };
            for (name, amount) in real.iter() {
                // The smallest machine must still hold something.
                let most = range.min.get(name) - 1;
                if amount > range.overhead.get(name) && amount <= most {
                    range.overhead.set(name, amount);
                }
            }
        }
    }

    /// Forgets types that nobody sells any more.
    pub(crate) fn retain(&self, keep: impl Fn(&Name, &Name) -> bool) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(catalog, kind), _| keep(catalog, kind));
        let mut known = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(catalog, kind), _| keep(catalog, kind));
    }
}

fn least(one: &Resources, other: &Resources) -> Resources {
    one.iter()
        .map(|(name, amount)| (name.clone(), amount.min(other.get(name))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use joiner_core::problem::InstanceType;

    #[test]
    fn machines_made_to_measure_keep_what_those_that_are_there_keep() {
        use joiner_core::problem::{CapacityType, Range, UnitPrices};
        let learned = ObservedAllocatable::default();
        let catalog: Name = "c".into();
        let kept = Resources::new().with("cpu", 100).with("memory", 700);
        let key = (catalog.clone(), Name::from("vm"));
        learned.1.lock().unwrap().insert(key, kept);
        let size = |cpu, memory| Resources::new().with("cpu", cpu).with("memory", memory);
        let mut sold = Catalog {
            ranges: vec![Range {
                name: "vm".into(),
                labels: joiner_core::name::Labels::new(),
                region: "".into(),
                capacity_type: CapacityType::OnDemand,
                min: size(1000, 500),
                max: size(8000, 8_000),
                step: size(1000, 100),
                overhead: size(0, 200),
                prices: UnitPrices::default(),
                hosts: Vec::new(),
                left: None,
            }],
            ..Catalog::default()
        };
        learned.correct(&catalog, &mut sold);
        let overhead = &sold.ranges[0].overhead;
        assert_eq!(overhead.get("cpu"), 100);
        assert_eq!(
            overhead.get("memory"),
            200,
            "more than the smallest machine has is not believed"
        );
    }

    #[test]
    fn a_type_offers_what_its_nodes_offer() {
        let learned = ObservedAllocatable::default();
        let catalog: Name = "c".into();
        let real = Resources::new().with("cpu", 1900).with("memory", 3_000);
        learned
            .0
            .lock()
            .unwrap()
            .insert((catalog.clone(), "small".into()), real);
        let kind = |name: &str| InstanceType {
            name: name.into(),
            capacity: Resources::new()
                .with("cpu", 2000)
                .with("memory", 4_000)
                .with("nvidia.com/gpu", 1),
            labels: joiner_core::name::Labels::new(),
            overhead: Resources::new(),
            offerings: Vec::new(),
            quotas: Vec::new(),
        };
        let mut sold = Catalog {
            types: vec![kind("small"), kind("large")],
            ..Catalog::default()
        };
        learned.correct(&catalog, &mut sold);
        let small = sold.types[0].allocatable();
        assert_eq!((small.get("cpu"), small.get("memory")), (1900, 3_000));
        assert_eq!(small.get("nvidia.com/gpu"), 1);
        assert_eq!(sold.types[1].allocatable().get("memory"), 4_000);
    }
}
