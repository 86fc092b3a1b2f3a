//! Equal things get one number. Numbers are given in order of arrival, so that nothing depends on a hash.

use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::marker::PhantomData;

use indexmap::{Equivalent, IndexSet};

use super::typed::Id;

/// A fixed multiplicative hash: fast on short keys, the same on every run.
#[derive(Clone, Copy, Default)]
pub(crate) struct FixedHasher(u64);

const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

impl Hasher for FixedHasher {
    fn finish(&self) -> u64 {
        // The map uses the top bits and the bottom bits; the multiplication leaves the bottom ones poor.
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, word: u8) {
        self.write_u64(u64::from(word));
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(FACTOR);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
}

pub(crate) type FixedState = BuildHasherDefault<FixedHasher>;

/// A map whose order is that of insertion.
pub(crate) type FixedMap<K, V> = indexmap::IndexMap<K, V, FixedState>;

/// Distinct things and their numbers.
#[derive(Clone, Debug)]
pub(crate) struct Interner<T, I = u32> {
    items: IndexSet<T, FixedState>,
    ids: PhantomData<fn(I) -> I>,
}

impl<T, I> Default for Interner<T, I> {
    fn default() -> Self {
        Interner {
            items: IndexSet::default(),
            ids: PhantomData,
        }
    }
}

impl<T: Hash + Eq, I: Id> Interner<T, I> {
    /// The number of a thing, new if need be.
    pub(crate) fn id(&mut self, item: T) -> I {
        I::at(self.items.insert_full(item).0)
    }

    /// The number of a thing that is there.
    pub(crate) fn find<Q: Hash + Equivalent<T> + ?Sized>(&self, item: &Q) -> Option<I> {
        self.items.get_index_of(item).map(I::at)
    }

    pub(crate) fn get(&self, id: I) -> &T {
        &self.items[id.index()]
    }

    /// All numbers, in order.
    pub(crate) fn ids(&self) -> impl DoubleEndedIterator<Item = I> + Clone + use<T, I> {
        (0..self.items.len()).map(I::at)
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_the_order_of_arrival() {
        let mut names: Interner<String, u32> = Interner::default();
        assert_eq!(names.id("b".into()), 0);
        assert_eq!(names.id("a".into()), 1);
        assert_eq!(names.id("b".into()), 0);
        assert_eq!(names.find("a"), Some(1));
        assert_eq!((names.get(1).as_str(), names.len()), ("a", 2));
    }
}
