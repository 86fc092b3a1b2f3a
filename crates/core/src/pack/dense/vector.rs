//! Amounts of the resources of one problem as a fixed array, so that a fit is a few additions without a branch.

use indexmap::IndexSet;

use crate::resources::{self, Resources};

/// How many different resources the pods of one problem may request. A cluster with more device plugins than that
/// has not been seen; pods that request a resource beyond it are reported, not mispacked.
pub(crate) const WIDTH: usize = 16;

/// Processor, memory, slots and the first kind of device: what decides most fits.
pub(crate) const LEAD: usize = 4;

/// Amounts of those alone.
pub(crate) type Lead = [i64; LEAD];

/// No machine has more of anything; keeps sums of a few vectors far from overflow.
const CEILING: i64 = 1 << 58;

/// Whether `need` fits into `room`, as far as the first few resources go.
#[inline]
pub(crate) fn lead_fits(need: &Lead, room: &Lead) -> bool {
    let mut sign = 0;
    for (have, need) in room.iter().zip(need) {
        sign |= have - need;
    }
    sign >= 0
}

/// Amounts by resource index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Vector(pub(crate) [i64; WIDTH]);

impl Vector {
    pub(crate) const ZERO: Vector = Vector([0; WIDTH]);

    /// The first few amounts alone.
    #[inline]
    pub(crate) fn lead(&self) -> Lead {
        std::array::from_fn(|index| self.0[index])
    }

    /// Whether `self` fits into `room`. Room that is overdrawn anywhere takes nothing.
    #[inline]
    pub(crate) fn fits(&self, room: &Vector) -> bool {
        // Most that do not fit lack one of the first few.
        let mut sign = 0;
        for index in 0..LEAD {
            sign |= room.0[index] - self.0[index];
        }
        if sign < 0 {
            return false;
        }
        for index in LEAD..WIDTH {
            sign |= room.0[index] - self.0[index];
        }
        sign >= 0
    }

    /// Whether `self` beside `load` fits into `room`.
    #[inline]
    pub(crate) fn fits_beside(&self, load: &Vector, room: &Vector) -> bool {
        let mut sign = 0;
        for index in 0..LEAD {
            sign |= room.0[index] - load.0[index] - self.0[index];
        }
        if sign < 0 {
            return false;
        }
        for index in LEAD..WIDTH {
            sign |= room.0[index] - load.0[index] - self.0[index];
        }
        sign >= 0
    }

    pub(crate) fn add(&mut self, other: &Vector) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine += theirs;
        }
    }

    pub(crate) fn subtract(&mut self, other: &Vector) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine -= theirs;
        }
    }

    pub(crate) fn plus(mut self, other: &Vector) -> Vector {
        self.add(other);
        self
    }

    pub(crate) fn minus(mut self, other: &Vector) -> Vector {
        self.subtract(other);
        self
    }

    /// `self` so many times.
    pub(crate) fn times(mut self, count: i64) -> Vector {
        for mine in &mut self.0 {
            *mine *= count;
        }
        self
    }

    /// How many of `self` fit into `room`.
    pub(crate) fn copies_in(&self, room: &Vector) -> i64 {
        let mut copies = i64::MAX;
        for (need, have) in self.0.iter().zip(&room.0) {
            if *have < 0 {
                return 0;
            }
            if *need > 0 {
                copies = copies.min(have / need);
            }
        }
        copies
    }
}

/// Which resource has which index. Processor, memory and pod slots always come first.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    names: IndexSet<crate::name::Name>,
}

pub(crate) const CPU: usize = 0;
pub(crate) const MEMORY: usize = 1;
pub(crate) const PODS: usize = 2;

impl Table {
    pub(crate) fn new() -> Self {
        let names = [resources::CPU, resources::MEMORY, resources::PODS]
            .into_iter()
            .map(Into::into)
            .collect();
        Table { names }
    }

    /// Makes sure that what is requested can be counted.
    pub(crate) fn cover(&mut self, requests: &Resources) {
        for (name, amount) in requests.iter() {
            if amount != 0 && self.names.len() < WIDTH && !self.names.contains(name) {
                self.names.insert(name.clone());
            }
        }
    }

    /// A resource that is requested and cannot be counted.
    pub(crate) fn uncovered<'a>(&self, requests: &'a Resources) -> Option<&'a str> {
        requests
            .iter()
            .find(|(name, amount)| *amount != 0 && !self.names.contains(*name))
            .map(|(name, _)| &**name)
    }

    /// How many resources are counted.
    pub(crate) fn width(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn name(&self, index: usize) -> &str {
        self.names.get_index(index).map_or("", |name| name)
    }

    pub(crate) fn vector(&self, amounts: &Resources) -> Vector {
        let mut vector = Vector::ZERO;
        for (slot, name) in vector.0.iter_mut().zip(&self.names) {
            *slot = amounts.get(name).clamp(-CEILING, CEILING);
        }
        vector
    }
}

/// So much of processors and memory, and nothing else.
#[cfg(test)]
pub(crate) fn vector(cpu: i64, memory: i64) -> Vector {
    let mut vector = Vector::ZERO;
    (vector.0[CPU], vector.0[MEMORY]) = (cpu, memory);
    vector
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fit_needs_room_in_every_resource() {
        let room = vector(4, 8);
        assert!(vector(4, 8).fits(&room));
        assert!(!vector(5, 1).fits(&room));
        assert!(!Vector::ZERO.fits(&vector(4, -1)));
        assert!(vector(2, 2).fits_beside(&vector(2, 6), &room));
        assert!(!vector(2, 3).fits_beside(&vector(2, 6), &room));
    }

    #[test]
    fn copies_are_bounded_by_the_scarcest_resource() {
        assert_eq!(vector(1, 3).copies_in(&vector(4, 8)), 2);
        assert_eq!(vector(1, 0).copies_in(&vector(4, -1)), 0);
    }

    #[test]
    fn resources_beyond_the_table_are_named() {
        let mut table = Table::new();
        for index in 0..WIDTH {
            table.cover(&Resources::new().with(&format!("example.com/device-{index}"), 1));
        }
        assert_eq!(table.width(), WIDTH);
        let beyond = Resources::new().with("example.com/device-15", 1);
        assert_eq!(table.uncovered(&beyond), Some("example.com/device-15"));
        assert_eq!(table.uncovered(&Resources::new().with("cpu", 1)), None);
    }
}
