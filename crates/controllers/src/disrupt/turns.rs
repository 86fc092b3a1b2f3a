//! Pools that replace many nodes at once, but drain few of them at a time.
//!
//! Where a server takes half an hour to come, a budget that counts from the first bid lets a price pass by before its
//! turn comes. What must not happen at once is that pods move: so that is what is counted.

use std::collections::BTreeMap;

use joiner_core::name::Name;

use crate::record::{MachineRecord, PoolRecord, kinds};
use crate::view::World;

/// How many nodes of each pool may begin to be drained now; pools that do not ask are not in it.
pub(super) struct Turns(BTreeMap<Name, usize>);

impl Turns {
    pub(super) fn new(world: &World) -> Self {
        let asking = world.pools.iter().filter_map(|pool| {
            let percent = pool.drained_at_once?;
            Some((pool.id().clone(), left(world, pool, percent)))
        });
        Turns(asking.collect())
    }

    /// Whether the machine's pool asks for it.
    pub(super) fn applies(&self, machine: &MachineRecord) -> bool {
        let pool = machine.pool.as_ref();
        pool.is_some_and(|pool| self.0.contains_key(pool))
    }

    /// Whether it is this machine's turn; then it is taken.
    pub(super) fn take(&mut self, machine: &MachineRecord) -> bool {
        let pool = machine.pool.as_ref();
        let Some(left) = pool.and_then(|pool| self.0.get_mut(pool)) else {
            return true;
        };
        let may = *left > 0;
        *left = left.saturating_sub(1);
        may
    }
}

fn left(world: &World, pool: &PoolRecord, percent: u8) -> usize {
    let own = |one: &&MachineRecord| one.pool.as_ref() == Some(pool.id()) && one.initialized();
    let machines: Vec<&MachineRecord> = world
        .machines
        .iter()
        .map(AsRef::as_ref)
        .filter(own)
        .collect();
    let draining = machines
        .iter()
        .filter(|one| one.deleting.is_some() && !one.status.conditions.is_true(kinds::DRAINED))
        .count();
    let most = (machines.len() * usize::from(percent)).div_ceil(100);
    most.saturating_sub(draining)
}
