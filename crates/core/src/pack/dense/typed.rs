//! Numbers of different things are of different types, and a list that is indexed by one kind of number takes no other.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Index, IndexMut};

use crate::problem::{NodeId, PoolId};

/// The number of a thing, which is its place in a list.
pub(crate) trait Id: Copy {
    /// The number of what is at a place.
    fn at(index: usize) -> Self;

    /// The place.
    fn index(self) -> usize;
}

/// Of things that nothing else is numbered beside.
impl Id for u32 {
    fn at(index: usize) -> Self {
        index as u32
    }

    fn index(self) -> usize {
        self as usize
    }
}

impl Id for NodeId {
    fn at(index: usize) -> Self {
        NodeId::at(index)
    }

    fn index(self) -> usize {
        NodeId::index(self)
    }
}

impl Id for PoolId {
    fn at(index: usize) -> Self {
        PoolId::at(index)
    }

    fn index(self) -> usize {
        PoolId::index(self)
    }
}

impl Id for usize {
    fn at(index: usize) -> Self {
        index
    }

    fn index(self) -> usize {
        self
    }
}

/// Types of numbers.
macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) struct $name(pub(crate) u32);

        impl $crate::pack::dense::typed::Id for $name {
            fn at(index: usize) -> Self {
                $name(index as u32)
            }

            fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

pub(crate) use ids;

/// A list indexed by numbers of one type.
pub(crate) struct IdVec<I, T> {
    items: Vec<T>,
    ids: PhantomData<fn(I) -> I>,
}

impl<I: Id, T> IdVec<I, T> {
    /// Adds a thing and says its number.
    pub(crate) fn push(&mut self, item: T) -> I {
        self.items.push(item);
        I::at(self.items.len() - 1)
    }

    /// All numbers, in order.
    pub(crate) fn ids(
        &self,
    ) -> impl DoubleEndedIterator<Item = I> + ExactSizeIterator + Clone + use<I, T> {
        (0..self.items.len()).map(I::at)
    }

    /// Things with their numbers.
    pub(crate) fn pairs(
        &self,
    ) -> impl DoubleEndedIterator<Item = (I, &T)> + ExactSizeIterator + Clone {
        let items = self.items.iter().enumerate();
        items.map(|(index, item)| (I::at(index), item))
    }

    /// What has a number, if there is anything.
    pub(crate) fn find(&self, id: I) -> Option<&T> {
        self.items.get(id.index())
    }
}

impl<I: Id, T: Clone> IdVec<I, T> {
    /// The same for each of so many numbers.
    pub(crate) fn filled(item: T, count: usize) -> Self {
        vec![item; count].into()
    }

    /// At least so many, those that are new all the same.
    pub(crate) fn resize(&mut self, count: usize, item: T) {
        self.items.resize(count, item);
    }
}

impl<I, T> From<Vec<T>> for IdVec<I, T> {
    fn from(items: Vec<T>) -> Self {
        IdVec {
            items,
            ids: PhantomData,
        }
    }
}

impl<I, T> FromIterator<T> for IdVec<I, T> {
    fn from_iter<S: IntoIterator<Item = T>>(items: S) -> Self {
        Vec::from_iter(items).into()
    }
}

impl<I, T> Default for IdVec<I, T> {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl<I, T: Clone> Clone for IdVec<I, T> {
    fn clone(&self) -> Self {
        self.items.clone().into()
    }

    fn clone_from(&mut self, other: &Self) {
        self.items.clone_from(&other.items);
    }
}

impl<I, T: std::fmt::Debug> std::fmt::Debug for IdVec<I, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.items.fmt(f)
    }
}

impl<I, T: PartialEq> PartialEq for IdVec<I, T> {
    fn eq(&self, other: &Self) -> bool {
        self.items == other.items
    }
}

impl<I: Id, T> Index<I> for IdVec<I, T> {
    type Output = T;

    fn index(&self, id: I) -> &T {
        &self.items[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for IdVec<I, T> {
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.items[id.index()]
    }
}

/// Everything that does not index.
impl<I, T> Deref for IdVec<I, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.items
    }
}

impl<I, T> DerefMut for IdVec<I, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.items
    }
}

impl<'a, I, T> IntoIterator for &'a IdVec<I, T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    ids! {
        /// Of the tests.
        ThingId;
    }

    #[test]
    fn things_are_found_by_the_number_that_they_got() {
        let mut things: IdVec<ThingId, &str> = IdVec::default();
        let (first, second) = (things.push("a"), things.push("b"));
        things[first] = "c";
        assert_eq!((things[first], things[second]), ("c", "b"));
        assert_eq!(things.ids().collect::<Vec<_>>(), [first, second]);
        assert_eq!(things.find(ThingId(2)), None);
        assert_eq!(things.pairs().next_back(), Some((second, &"b")));
    }
}
