//! Which pods machines were bought for: if a pod still waits although its machine is in use, buying the same again will
//! not help it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::name::Name;

use crate::clock;
use crate::record::{Key, MachineRecord};

/// How long after its machine came into use a pod must have been bound.
const GRACE: Duration = Duration::from_secs(15);
/// How many machines may turn out to be of no use to a pod before its pool waits.
pub(super) const PATIENCE: usize = 2;

#[derive(Clone, Debug)]
struct Sale {
    pool: Name,
    pods: BTreeSet<Name>,
    in_use: Option<Timestamp>,
}

/// Machines that were bought for pods that still wait, by machine.
#[derive(Debug, Default)]
pub struct Served(Mutex<BTreeMap<Key, Sale>>);

/// Pods that machines of a pool did not help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Miss {
    pub(super) pool: Name,
    /// How many machines were of no use to one of its pods.
    pub(super) machines: usize,
    /// Identity of that pod.
    pub(super) pod: Name,
}

impl Served {
    /// A machine was bought for pods.
    pub(super) fn sold(&self, machine: &Key, pool: &Name, pods: BTreeSet<Name>) {
        let sale = Sale {
            pool: pool.clone(),
            pods,
            in_use: None,
        };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(machine.clone(), sale);
    }

    /// A machine has changed.
    pub(crate) fn saw(&self, machine: &MachineRecord, now: Timestamp) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sale) = all.get_mut(&machine.key)
            && machine.initialized()
        {
            sale.in_use.get_or_insert(now);
        }
    }

    /// Forgets pods that wait no longer; tells which pools do not help theirs.
    pub(super) fn misses(&self, waiting: &BTreeSet<Name>, now: Timestamp) -> Vec<Miss> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, sale| {
            sale.pods.retain(|pod| waiting.contains(pod));
            !sale.pods.is_empty()
        });
        let mut counts: BTreeMap<(Name, Name), usize> = BTreeMap::new();
        for sale in all.values() {
            let late = |since| clock::since(now, since) >= GRACE;
            if sale.in_use.is_some_and(late) {
                for pod in &sale.pods {
                    *counts.entry((sale.pool.clone(), pod.clone())).or_default() += 1;
                }
            }
        }
        let mut worst: BTreeMap<Name, Miss> = BTreeMap::new();
        for ((pool, pod), machines) in counts {
            let known = worst.get(&pool).map_or(0, |miss| miss.machines);
            if machines > known {
                let miss = Miss {
                    pool: pool.clone(),
                    machines,
                    pod,
                };
                worst.insert(pool, miss);
            }
        }
        worst.into_values().collect()
    }

    /// How many machines are remembered.
    pub fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
