//! How fast a pool may ask for machines: a mistake that buys without end is slow enough to be noticed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::name::Name;

use crate::edge::clock;
use crate::view::World;

/// What counts as lately.
const LATELY: Duration = Duration::from_mins(1);

/// When pools asked for machines, a minute back.
#[derive(Debug, Default)]
pub struct LaunchRate(Mutex<BTreeMap<Name, VecDeque<Timestamp>>>);

impl LaunchRate {
    /// Takes one of the pool's machines for this minute; when to come back if there is none left. What an earlier
    /// process asked for stands on the machine objects and counts too.
    pub fn take(
        &self,
        world: &World,
        pool: &Name,
        most: u32,
        now: Timestamp,
    ) -> Result<(), Timestamp> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = all.entry(pool.clone()).or_insert_with(|| {
            let own = world
                .machines
                .iter()
                .filter(|one| one.pool.as_ref() == Some(pool));
            let mut before: Vec<Timestamp> = own.map(|one| one.created).collect();
            before.sort_unstable();
            before.into()
        });
        recent.retain(|at| clock::since(now, *at) < LATELY);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        match recent.front() {
            Some(first) if recent.len() >= most => Err(clock::after(*first, LATELY)),
            _ => {
                recent.push_back(now);
                Ok(())
            }
        }
    }

    /// Forgets pools that are gone.
    pub fn retain(&self, keep: impl Fn(&Name) -> bool) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|pool, _| keep(pool));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_that_asks_too_often_is_told_when_to_come_back() {
        let pace = LaunchRate::default();
        let world = World::default();
        let at = |second| Timestamp::from_second(second).unwrap();
        let pool: Name = "a".into();
        assert_eq!(pace.take(&world, &pool, 2, at(0)), Ok(()));
        assert_eq!(pace.take(&world, &pool, 2, at(10)), Ok(()));
        assert_eq!(pace.take(&world, &pool, 2, at(20)), Err(at(60)));
        assert_eq!(pace.take(&world, &"b".into(), 2, at(20)), Ok(()));
        assert_eq!(pace.take(&world, &pool, 2, at(60)), Ok(()));
        assert_eq!(pace.take(&world, &pool, 2, at(61)), Err(at(70)));
    }
}
