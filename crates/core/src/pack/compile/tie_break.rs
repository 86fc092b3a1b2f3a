//! Tie-break: of two plans that cost the same the one with fewer machines wins, because each machine counts a hundred
//! thousandth of the cheapest one more than its price.
//!
//! Where prices grow in step with size, any number of small machines costs what one large machine does. Fewer are better
//! all the same: less to boot, to watch and to fall to pieces, and more room in one place for what comes next.

use crate::pack::compile::offers::Offer;

/// What the cheapest machine costs, divided by what a machine more counts.
const SHARE: i64 = 100_000;

/// What each machine counts beyond its price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TieBreak {
    each: i64,
    /// The cheapest machine that costs anything.
    least: i64,
}

impl TieBreak {
    /// Adds it to what costs anything.
    pub(crate) fn weigh(offers: &mut [Offer]) -> Self {
        let priced = offers.iter().map(|offer| offer.cost);
        let least = priced.filter(|cost| *cost > 0).min().unwrap_or(0);
        let each = least / SHARE;
        for offer in offers.iter_mut().filter(|offer| offer.cost > 0) {
            offer.cost = offer.cost.saturating_add(each);
        }
        TieBreak { each, least }
    }

    /// What so many machines of a weighed cost really cost, at most.
    pub(crate) fn price(self, cost: i64, machines: usize) -> i64 {
        let machines = i64::try_from(machines).unwrap_or(i64::MAX);
        cost - self.each.saturating_mul(machines).min(cost)
    }

    /// A bound on weighed costs as one on prices: no machine weighs more, in parts of its price, than the cheapest.
    pub(crate) fn bound(self, weighed: f64) -> f64 {
        if self.each == 0 {
            return weighed;
        }
        weighed * (self.least as f64 / (self.least + self.each) as f64)
    }
}
