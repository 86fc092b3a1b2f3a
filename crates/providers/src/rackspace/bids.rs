//! What to bid, and what a winner pays.
//!
//! The highest bids win and all of them pay the market price, so a high bid costs nothing until the market rises. Not
//! every number is a bid, though: the market takes the rungs of a ladder only, and has changed its mind about them
//! three times. So bids are computed here, and whatever a refusal says is learned.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::money::Money;
use joiner_core::name::Name;

use super::types::dollars;

const NANOS_PER_MILL: i64 = 1_000_000;
/// Where the regular part of the ladder begins, and its step from there on.
const REGULAR: (u32, u32) = (220, 50);
/// The ladder below that.
const RUNGS: [u32; 10] = [10, 20, 30, 40, 60, 80, 100, 130, 160, 190];
/// A market price that a refusal named is soon history.
const MARKET_MEMORY: Duration = Duration::from_mins(10);
/// Reserve prices change by decree, not by trade; and a class that cannot be bid on may come back.
const FLOOR_MEMORY: Duration = Duration::from_hours(6);

/// A bid in thousandths of a dollar per hour: the finest the API takes, and no float to round wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bid(u32);

impl Bid {
    /// From thousandths of a dollar.
    pub const fn mills(mills: u32) -> Self {
        Bid(mills)
    }

    /// The smallest bid that is not below an amount.
    pub fn at_least(amount: Money) -> Self {
        let mills = amount.nanos().max(0).div_euclid(NANOS_PER_MILL);
        let more = amount.nanos().rem_euclid(NANOS_PER_MILL) > 0;
        Bid(u32::try_from(mills)
            .unwrap_or(u32::MAX - 1)
            .saturating_add(u32::from(more)))
    }

    /// The largest bid that is not above an amount.
    pub fn at_most(amount: Money) -> Self {
        let mills = amount.nanos().max(0) / NANOS_PER_MILL;
        Bid(u32::try_from(mills).unwrap_or(u32::MAX))
    }

    /// Reads a bid as pools carry it; old pools may have bids that are on no ladder.
    pub fn parse(text: &str) -> Option<Self> {
        dollars(text).map(Bid::at_most)
    }

    /// As money.
    pub fn money(self) -> Money {
        Money::from_nanos(i64::from(self.0) * NANOS_PER_MILL)
    }

    /// The lowest rung not below this.
    #[must_use]
    pub fn rung_up(self) -> Self {
        if let Some(rung) = RUNGS.into_iter().find(|rung| *rung >= self.0) {
            return Bid(rung);
        }
        let (start, step) = REGULAR;
        let steps = self.0.saturating_sub(start).div_ceil(step);
        Bid(start.saturating_add(steps.saturating_mul(step)))
    }

    /// The highest rung not above this, if there is one so low.
    pub fn rung_down(self) -> Option<Self> {
        let (start, step) = REGULAR;
        if self.0 >= start {
            return Some(Bid(start + (self.0 - start) / step * step));
        }
        RUNGS
            .into_iter()
            .rev()
            .find(|rung| *rung <= self.0)
            .map(Bid)
    }

    /// The lowest multiple of `step` not below this.
    fn multiple_up(self, step: Bid) -> Self {
        Bid(self.0.div_ceil(step.0.max(1)).saturating_mul(step.0.max(1)))
    }
}

impl fmt::Display for Bid {
    /// As the API wants it: `0.02`, `0.035`, `1.27`; at most three decimals, and no dollar sign.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:03}", self.0 / 1000, self.0 % 1000);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// Which past price a bid is made from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Percentile {
    /// The price was below this a fifth of the time.
    P20,
    /// Half of the time.
    P50,
    /// Four fifths of the time.
    #[default]
    P80,
}

/// How bids are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BidPolicy {
    /// Which past price to bid at least.
    pub percentile: Percentile,
    /// How much to bid above that, in percent.
    pub headroom_percent: u32,
    /// What a server may cost at most per hour; `None` for no limit.
    pub max_price: Option<Money>,
}

impl Default for BidPolicy {
    fn default() -> Self {
        BidPolicy {
            percentile: Percentile::P80,
            headroom_percent: 100,
            max_price: None,
        }
    }
}

/// What is known about the market of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quote {
    /// Where the market stands.
    pub market: Money,
    /// The reserve price.
    pub reserve: Money,
    /// The past price that the policy asks for, if known.
    pub past: Option<Money>,
    /// What the same server costs without bidding, if it can be had so.
    pub on_demand: Option<Money>,
}

impl Quote {
    /// What a winner pays: the market price, but never less than the reserve.
    pub fn cost(&self) -> Money {
        self.market.max(self.reserve)
    }
}

impl BidPolicy {
    /// The same, and no more than this.
    #[must_use]
    pub fn within(&self, most: Option<Money>) -> Self {
        let max_price = match (self.max_price, most) {
            (Some(own), Some(most)) => Some(own.min(most)),
            (own, most) => own.or(most),
        };
        BidPolicy { max_price, ..*self }
    }

    /// The bid for a class, or `None` where no bid within the limit can win and stay.
    pub fn bid(&self, quote: &Quote) -> Option<Bid> {
        let floor = quote.cost();
        let base = floor.max(quote.past.unwrap_or(floor));
        let want = base.percent(100 + self.headroom_percent);
        // Past prices can be absurd (a hundred times the market); above the price of certainty nobody needs to bid.
        let want = match quote.on_demand {
            Some(certain) if certain > floor => want.min(certain),
            _ => want,
        };
        // A bid that the market has reached already is as good as lost.
        let safe = Bid(Bid::at_most(quote.market).0.saturating_add(1));
        let bid = Bid::at_least(want).max(safe).rung_up();
        match self.max_price {
            Some(limit) if bid.money() > limit => {
                let lower = Bid::at_most(limit).rung_down()?;
                (lower.money() >= floor && lower.money() > quote.market).then_some(lower)
            }
            _ => Some(bid),
        }
    }
}

/// Why a bid was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The market stands higher.
    BelowMarket(Money),
    /// The reserve price is higher.
    BelowReserve(Money),
    /// It must be a multiple of this.
    NotAMultiple(Bid),
    /// It is not on the ladder.
    OffTheLadder,
    /// This class cannot be bid on at all.
    NotBiddable,
}

impl Refusal {
    /// Reads the text of a refusal; `None` if it is about something else.
    pub fn parse(message: &str) -> Option<Self> {
        let after = |words: &str| -> Option<Money> {
            let (_, rest) = message.split_once(words)?;
            let end = rest
                .find(|c: char| !c.is_ascii_digit() && c != '.')
                .unwrap_or(rest.len());
            dollars(rest.get(..end)?.trim_end_matches('.'))
        };
        if message.contains("failed to parse serverclass min bid price") {
            return Some(Refusal::NotBiddable);
        }
        if message.contains("not on the bid ladder") {
            return Some(Refusal::OffTheLadder);
        }
        if let Some(market) = after("market price of ") {
            return Some(Refusal::BelowMarket(market));
        }
        if let Some(reserve) = after("minimum bid price of ") {
            return Some(Refusal::BelowReserve(reserve));
        }
        after("multiple of ").map(|step| Refusal::NotAMultiple(Bid::at_least(step)))
    }
}

#[derive(Clone, Copy, Debug)]
struct Lesson {
    amount: Money,
    until: Timestamp,
}

/// What refusals have taught. Everything in it expires: the market forgets too.
#[derive(Debug, Default)]
pub struct Lessons {
    markets: BTreeMap<Name, Lesson>,
    reserves: BTreeMap<Name, Lesson>,
    closed: BTreeMap<Name, Timestamp>,
}

impl Lessons {
    /// Learns from a refusal, and says what to bid instead; `None` if there is nothing to bid.
    pub fn learn(
        &mut self,
        class: &Name,
        refused: Bid,
        refusal: Refusal,
        now: Timestamp,
    ) -> Option<Bid> {
        let end = |memory: Duration| now.checked_add(memory).unwrap_or(Timestamp::MAX);
        match refusal {
            Refusal::BelowMarket(amount) => {
                let until = end(MARKET_MEMORY);
                self.markets.insert(class.clone(), Lesson { amount, until });
                let above = Bid(Bid::at_least(amount).0.saturating_add(1));
                Some(above.max(refused).rung_up())
            }
            Refusal::BelowReserve(amount) => {
                let until = end(FLOOR_MEMORY);
                self.reserves
                    .insert(class.clone(), Lesson { amount, until });
                Some(Bid::at_least(amount).max(refused).rung_up())
            }
            Refusal::NotAMultiple(step) => {
                let other = refused.multiple_up(step);
                // A bid that is a multiple already and was refused all the same: the rule is not what it says.
                (other > refused).then_some(other)
            }
            Refusal::OffTheLadder => {
                let other = refused.rung_up();
                (other > refused).then_some(other)
            }
            Refusal::NotBiddable => {
                self.closed.insert(class.clone(), end(FLOOR_MEMORY));
                None
            }
        }
    }

    /// Whether bids on this class have been found to be pointless.
    pub fn is_closed(&self, class: &str, now: Timestamp) -> bool {
        self.closed.get(class).is_some_and(|until| *until > now)
    }

    /// A quote with what was learned since it was made.
    #[must_use]
    pub fn correct(&self, class: &str, mut quote: Quote, now: Timestamp) -> Quote {
        let known = |lessons: &BTreeMap<Name, Lesson>| {
            lessons
                .get(class)
                .filter(|lesson| lesson.until > now)
                .map(|lesson| lesson.amount)
        };
        if let Some(market) = known(&self.markets) {
            quote.market = quote.market.max(market);
        }
        if let Some(reserve) = known(&self.reserves) {
            quote.reserve = quote.reserve.max(reserve);
        }
        quote
    }

    /// Forgets what has expired.
    pub fn tidy(&mut self, now: Timestamp) {
        self.markets.retain(|_, lesson| lesson.until > now);
        self.reserves.retain(|_, lesson| lesson.until > now);
        self.closed.retain(|_, until| *until > now);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn money(dollars: f64) -> Money {
        Money::from_dollars(dollars)
    }

    fn quote(market: f64, reserve: f64, past: f64) -> Quote {
        Quote {
            market: money(market),
            reserve: money(reserve),
            past: Some(money(past)),
            on_demand: None,
        }
    }

    #[test]
    fn bids_are_rounded_up_to_the_ladder() {
        for (from, to) in [
            (0.0012, "0.01"),
            (0.005, "0.01"),
            (0.011, "0.02"),
            (0.041, "0.06"),
            (0.101, "0.13"),
            (0.191, "0.22"),
            (0.221, "0.27"),
            (0.32, "0.32"),
            (0.97, "0.97"),
            (0.99, "1.02"),
        ] {
            let bid = Bid::at_least(money(from)).rung_up();
            assert_eq!(bid.to_string(), to, "{from}");
        }
        // What float arithmetic used to push up a step.
        for exact in [0.035, 0.07, 0.14, 0.28, 0.56] {
            assert_eq!(Bid::at_least(money(exact)).money(), money(exact));
        }
    }

    #[test]
    fn bids_are_written_with_at_most_three_decimals() {
        assert_eq!(Bid(20).to_string(), "0.02");
        assert_eq!(Bid(35).to_string(), "0.035");
        assert_eq!(Bid(1000).to_string(), "1");
        assert_eq!(Bid(0).to_string(), "0");
        assert_eq!(Bid::parse("$0.02"), Some(Bid(20)));
    }

    #[test]
    fn a_winner_pays_the_market_but_never_less_than_the_reserve() {
        assert_eq!(quote(0.002, 0.01, 0.0).cost(), money(0.01));
        assert_eq!(quote(0.05, 0.01, 0.0).cost(), money(0.05));
    }

    #[test]
    fn a_bid_keeps_to_its_limit_or_is_not_made() {
        let policy = |limit: f64| BidPolicy {
            max_price: Some(money(limit)),
            ..BidPolicy::default()
        };
        let market = quote(0.05, 0.01, 0.15);
        assert_eq!(BidPolicy::default().bid(&market), Some(Bid(320)));
        assert_eq!(policy(0.11).bid(&market), Some(Bid(100)));
        assert_eq!(
            policy(0.05).bid(&market),
            None,
            "the market is there already"
        );
        assert_eq!(policy(0.005).bid(&market), None);
    }

    #[test]
    fn an_absurd_past_is_no_reason_to_bid_more_than_certainty_costs() {
        let mut market = quote(0.01, 0.01, 1.92);
        market.on_demand = Some(money(0.11));
        assert_eq!(BidPolicy::default().bid(&market), Some(Bid(130)));
    }

    #[test]
    fn every_known_refusal_is_understood() {
        let webhook = "admission webhook \"vspotnodepool.ngpc.rxt.io\" denied the request: \
                       BidPrice validation failed: BidPrice must be ";
        for (text, expected) in [
            (
                format!(
                    "{webhook}greater than or equal to the market price of 0.010000, but got 0.001000"
                ),
                Some(Refusal::BelowMarket(money(0.01))),
            ),
            (
                format!(
                    "{webhook}greater than or equal to the minimum bid price of 0.040000, but got 0.010000"
                ),
                Some(Refusal::BelowReserve(money(0.04))),
            ),
            (
                format!("{webhook}a multiple of 0.01 when greater than 0.05, but got 0.086000"),
                Some(Refusal::NotAMultiple(Bid(10))),
            ),
            (
                format!("{webhook}a multiple of 0.005 between 0.001 and 0.05"),
                Some(Refusal::NotAMultiple(Bid(5))),
            ),
            (
                "bid price 0.05 is not on the bid ladder".into(),
                Some(Refusal::OffTheLadder),
            ),
            (
                "failed to parse serverclass min bid price while validating bid price: \
                 strconv.ParseFloat: parsing \"\": invalid syntax"
                    .into(),
                Some(Refusal::NotBiddable),
            ),
            ("billing is not enabled".into(), None),
        ] {
            assert_eq!(Refusal::parse(&text), expected, "{text}");
        }
    }

    #[test]
    fn what_a_refusal_taught_is_known_for_a_while() {
        let class: Name = "gp.vs1.large-ord".into();
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut lessons = Lessons::default();
        let next = lessons.learn(&class, Bid(10), Refusal::BelowMarket(money(0.04)), at(0));
        assert_eq!(next, Some(Bid(60)), "strictly above the market");
        let stale = quote(0.01, 0.01, 0.01);
        assert_eq!(lessons.correct(&class, stale, at(60)).market, money(0.04));
        assert_eq!(lessons.correct(&class, stale, at(3600)).market, money(0.01));
        assert_eq!(
            lessons.learn(&class, Bid(10), Refusal::NotBiddable, at(0)),
            None
        );
        assert!(lessons.is_closed(&class, at(60)));
        lessons.tidy(at(86_400));
        assert!(!lessons.is_closed(&class, at(60)));
    }

    proptest! {
        #[test]
        fn a_rung_is_its_own_rung(mills in 0_u32..100_000) {
            let up = Bid(mills).rung_up();
            prop_assert!(up.0 >= mills && up.rung_up() == up && up.rung_down() == Some(up));
            if let Some(down) = Bid(mills).rung_down() {
                prop_assert!(down.0 <= mills && down.rung_up() == down);
            }
        }

        #[test]
        fn a_bid_beats_the_market_and_keeps_the_limit(
            market in 1_u32..2000, reserve in 1_u32..500, past in 1_u32..3000, limit in 1_u32..3000,
        ) {
            let quote = Quote {
                market: Bid(market).money(),
                reserve: Bid(reserve).money(),
                past: Some(Bid(past).money()),
                on_demand: None,
            };
            let policy = BidPolicy { max_price: Some(Bid(limit).money()), ..BidPolicy::default() };
            if let Some(bid) = policy.bid(&quote) {
                prop_assert!(bid.0 > market && bid.0 >= reserve && bid.0 <= limit);
                prop_assert_eq!(bid.rung_up(), bid);
            }
        }
    }
}
