//! Sets of small integers, one bit each.

/// A set of integers below a size fixed at creation.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Bits(Box<[u64]>);

impl Bits {
    /// No member, room for `size`.
    pub(crate) fn empty(size: usize) -> Self {
        Bits(vec![0; size.div_ceil(64)].into_boxed_slice())
    }

    pub(crate) fn insert(&mut self, index: usize) {
        self.0[index / 64] |= 1 << (index % 64);
    }

    pub(crate) fn remove(&mut self, index: usize) {
        self.0[index / 64] &= !(1 << (index % 64));
    }

    pub(crate) fn contains(&self, index: usize) -> bool {
        self.0[index / 64] >> (index % 64) & 1 == 1
    }

    pub(crate) fn intersect(&mut self, other: &Bits) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine &= theirs;
        }
    }

    pub(crate) fn unite(&mut self, other: &Bits) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine |= theirs;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Members in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(position, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                (rest != 0).then(|| {
                    let bit = rest.trailing_zeros() as usize;
                    rest &= rest - 1;
                    position * 64 + bit
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_come_back_in_order() {
        let mut bits = Bits::empty(130);
        for index in [129, 0, 64, 63] {
            bits.insert(index);
        }
        bits.remove(63);
        assert_eq!(bits.iter().collect::<Vec<_>>(), [0, 64, 129]);
        assert!(bits.contains(64) && !bits.contains(63));
    }

    #[test]
    fn sets_intersect() {
        let (mut a, mut b) = (Bits::empty(70), Bits::empty(70));
        a.insert(1);
        a.insert(69);
        b.insert(69);
        let mut both = a.clone();
        both.intersect(&b);
        assert_eq!(both.iter().collect::<Vec<_>>(), [69]);
        both.unite(&a);
        assert_eq!(both, a);
        assert!(Bits::empty(70).is_empty());
    }
}
