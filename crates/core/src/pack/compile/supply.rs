//! What there is only so much of: limits of pools, reservations, offerings with few left, room on hosts, new nodes.

use smallvec::SmallVec;

use crate::name::Name;
use crate::pack::dense::intern::Interner;
use crate::problem::PoolId;

/// Something that machines use up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Scarce {
    /// A limited resource of a pool.
    PoolResource(PoolId, Name),
    /// The number of nodes of a pool.
    PoolNodes(PoolId),
    /// Dollars per hour of a pool.
    PoolCost(PoolId),
    /// An offering of a type of a catalogue.
    Offering(u32, u32, u32),
    /// A reservation.
    Reservation(Name),
    /// A stock that offerings of several catalogues share.
    Stock(Name),
    /// A resource of a host: of a catalogue, or a stock by itself.
    Host(Option<u32>, Name, Name),
    /// A resource of a quota.
    Quota(Name, Name),
    /// Machines of a range.
    Range(u32, u32),
    /// New nodes altogether.
    Nodes,
    /// Machines of one spot offering: catalogue, type or range, zone.
    SpotShare(u32, Name, Name),
}

/// The number of a counter of something scarce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CounterId(u32);

impl CounterId {
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// Which counters a machine takes how much of.
pub(crate) type Uses = SmallVec<[(CounterId, i64); 2]>;

/// What is scarce, and how much of it there is before anything is bought.
#[derive(Clone, Debug, Default)]
pub(crate) struct Supply {
    names: Interner<Scarce>,
    left: Vec<i64>,
}

impl Supply {
    /// The counter of something scarce. Where two say how much there is, the lower figure holds.
    pub(crate) fn counter(&mut self, scarce: Scarce, left: i64) -> CounterId {
        let id = CounterId(self.names.id(scarce));
        if id.index() == self.left.len() {
            self.left.push(left);
        } else {
            let known = &mut self.left[id.index()];
            *known = (*known).min(left);
        }
        id
    }

    pub(crate) fn name(&self, counter: CounterId) -> &Scarce {
        self.names.get(counter.0)
    }

    /// The counter of something scarce, if anything uses it.
    pub(crate) fn find(&self, scarce: &Scarce) -> Option<CounterId> {
        self.names.find(scarce).map(CounterId)
    }

    /// Counters of spot offerings.
    pub(crate) fn spot(&self) -> impl Iterator<Item = CounterId> + '_ {
        let all = self.names.iter().enumerate();
        all.filter(|(_, scarce)| matches!(scarce, Scarce::SpotShare(..)))
            .map(|(id, _)| CounterId(id as u32))
    }

    /// Whether a pool or a plan is limited in what it may buy, beyond single offerings.
    pub(crate) fn limited(&self) -> bool {
        self.names
            .iter()
            .any(|scarce| !matches!(scarce, Scarce::SpotShare(..)))
    }

    pub(crate) fn ledger(&self) -> Ledger {
        Ledger(self.left.clone())
    }
}

/// What is left while a plan is made.
#[derive(Clone, Debug)]
pub(crate) struct Ledger(Vec<i64>);

impl Ledger {
    pub(crate) fn can(&self, uses: &Uses) -> bool {
        uses.iter()
            .all(|(counter, amount)| self.0[counter.index()] >= *amount)
    }

    /// Whether `new` can be had in exchange for `old`.
    pub(crate) fn can_swap(&self, old: &Uses, new: &Uses) -> bool {
        new.iter().all(|(counter, amount)| {
            let back: i64 = old
                .iter()
                .filter(|(other, _)| other == counter)
                .map(|(_, amount)| amount)
                .sum();
            self.0[counter.index()] + back >= *amount
        })
    }

    /// How many times `uses` can be had.
    pub(crate) fn copies(&self, uses: &Uses) -> i64 {
        uses.iter()
            .filter(|(_, amount)| *amount > 0)
            .map(|(counter, amount)| (self.0[counter.index()] / amount).max(0))
            .min()
            .unwrap_or(i64::MAX)
    }

    /// How many times `amount` is in what is left of a counter, parts included.
    pub(crate) fn shares(&self, counter: CounterId, amount: i64) -> f64 {
        (self.0[counter.index()] as f64 / amount as f64).max(0.0)
    }

    pub(crate) fn take(&mut self, uses: &Uses) {
        for (counter, amount) in uses {
            self.0[counter.index()] -= amount;
        }
    }

    pub(crate) fn give(&mut self, uses: &Uses) {
        for (counter, amount) in uses {
            self.0[counter.index()] += amount;
        }
    }

    /// The first counter that does not suffice, and what it has left.
    pub(crate) fn short(&self, uses: &Uses) -> Option<(CounterId, i64)> {
        uses.iter()
            .find(|(counter, amount)| self.0[counter.index()] < *amount)
            .map(|(counter, _)| (*counter, self.0[counter.index()]))
    }

    pub(crate) fn set(&mut self, counter: CounterId, left: i64) {
        self.0[counter.index()] = left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_shared_by_two_offerings_has_the_lower_figure() {
        let mut supply = Supply::default();
        let first = supply.counter(Scarce::Reservation("r".into()), 3);
        assert_eq!(supply.counter(Scarce::Reservation("r".into()), 2), first);
        let mut ledger = supply.ledger();
        let uses = Uses::from_slice(&[(first, 1)]);
        assert_eq!(ledger.copies(&uses), 2);
        ledger.take(&uses);
        ledger.take(&uses);
        assert!(!ledger.can(&uses) && ledger.can_swap(&uses, &uses));
        assert_eq!(ledger.short(&uses), Some((first, 0)));
        ledger.give(&uses);
        assert!(ledger.can(&uses));
    }
}
