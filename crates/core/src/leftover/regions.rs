//! The same pool in several regions: which of them is the best, and whether one region should leave new nodes to another.
//!
//! Every region is measured in the same way, by its cheapest viable quote and one placement score for the whole region, so
//! that clusters in different regions that compare the same regions come to the same order.

use std::cmp::Reverse;
use std::fmt;

use super::{Market, PerGpu, Policy, Ranked, Wanted, rank};
use crate::money::Money;
use crate::name::Name;

/// What is known of a region.
#[derive(Clone, Debug, PartialEq)]
pub struct RegionMarket {
    /// Name of the region.
    pub region: Name,
    /// What it sells, without scores of zones; or why that is not known.
    pub market: Result<Market, String>,
    /// Whether prices were read at the last attempt.
    pub fresh: bool,
    /// Placement score of the region as a whole, where known.
    pub score: Option<u8>,
}

/// Whether a region can be recommended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegionVerdict {
    /// It can.
    Viable,
    /// Its placement score is too low.
    LowScore(u8),
    /// It sells nothing that fits.
    NoQuote(String),
    /// It cannot be read.
    Unread(String),
}

impl fmt::Display for RegionVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegionVerdict::Viable => f.write_str("viable"),
            RegionVerdict::LowScore(score) => {
                write!(f, "placement score {score} is below spec.minSpotScore")
            }
            RegionVerdict::NoQuote(why) => write!(f, "nothing viable is sold: {why}"),
            RegionVerdict::Unread(why) => write!(f, "cannot be read: {why}"),
        }
    }
}

/// A region in the order of regions.
#[derive(Clone, Debug, PartialEq)]
pub struct RegionQuote {
    /// Name of the region.
    pub region: Name,
    /// Its best quote.
    pub best: Option<Ranked>,
    /// Placement score of the region as a whole, where known.
    pub score: Option<u8>,
    /// Whether its prices were read at the last attempt.
    pub fresh: bool,
    /// Whether it can be recommended.
    pub verdict: RegionVerdict,
}

impl RegionQuote {
    /// Whether it can be recommended.
    pub fn is_viable(&self) -> bool {
        self.verdict == RegionVerdict::Viable
    }

    fn cost(&self) -> Option<(PerGpu, Reverse<Option<u8>>, Money)> {
        let best = self.best.as_ref()?;
        Some((best.per_gpu, Reverse(self.score), best.price))
    }

    /// Whether it is cheaper per GPU by more than the policy asks for, or the other is not viable at all.
    fn is_clearly_better(&self, other: Option<&RegionQuote>, policy: &Policy) -> bool {
        let Some(own) = self.best.as_ref().filter(|_| self.is_viable()) else {
            return false;
        };
        let other = other.filter(|one| one.is_viable());
        let Some(other) = other.and_then(|one| one.best.as_ref()) else {
            return true;
        };
        let below = 100_u32.saturating_sub(policy.saving_percent);
        own.per_gpu.is_below(other.per_gpu, below)
    }
}

/// How the regions of a pool compare.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// Every region, the best first.
    pub quotes: Vec<RegionQuote>,
    /// The one to prefer: the same until another is clearly better.
    pub recommended: Option<Name>,
    /// Looks in a row in which another region was clearly better than the one the cluster is in.
    pub behind: u32,
    /// The region that is clearly better, once that has been so for long enough.
    pub better: Option<Name>,
}

/// Compares regions for a pool whose cluster is in `home`. `held` is what was recommended before, `behind` what the last
/// comparison counted.
pub fn compare_regions(
    markets: &[RegionMarket],
    wanted: &Wanted,
    home: &str,
    held: Option<&str>,
    policy: &Policy,
    behind: u32,
) -> Comparison {
    let mut quotes: Vec<RegionQuote> = markets.iter().map(|one| measure(one, wanted)).collect();
    quotes.sort_by(|a, b| {
        let viable = b.is_viable().cmp(&a.is_viable());
        let cost = || a.cost().cmp(&b.cost());
        viable.then_with(cost).then_with(|| a.region.cmp(&b.region))
    });
    let find = |name: &str| quotes.iter().find(|one| &*one.region == name);
    let best = quotes.first().filter(|one| one.is_viable());
    let recommended = best.map(|best| {
        let kept = held
            .and_then(find)
            .filter(|held| held.is_viable() && !best.is_clearly_better(Some(held), policy));
        // Where all cost the same there is no reason to leave.
        let level = find(home).filter(|home| home.is_viable() && home.cost() == best.cost());
        kept.or(level).unwrap_or(best).region.clone()
    });
    // Only what was read just now is a reason to turn pods away.
    let better = quotes
        .iter()
        .find(|one| one.fresh && &*one.region != home && one.is_clearly_better(find(home), policy));
    let behind = match (better, find(home)) {
        (Some(_), Some(own)) if own.fresh => behind.saturating_add(1),
        _ => 0,
    };
    let better = better
        .filter(|_| behind >= policy.patience.max(1))
        .map(|one| one.region.clone());
    Comparison {
        quotes,
        recommended,
        behind,
        better,
    }
}

fn measure(one: &RegionMarket, wanted: &Wanted) -> RegionQuote {
    let mut quote = RegionQuote {
        region: one.region.clone(),
        best: None,
        score: one.score,
        fresh: one.fresh,
        verdict: RegionVerdict::Viable,
    };
    let market = match &one.market {
        Ok(market) => market,
        Err(why) => {
            quote.verdict = RegionVerdict::Unread(why.clone());
            return quote;
        }
    };
    let ranking = rank(market, wanted, wanted.capacity);
    quote.best = ranking.viable().next().cloned();
    if quote.best.is_none() {
        let dear = ranking.quotes.first();
        let dear = dear.map(|one| format!("{}: {}", one.type_name, one.verdict));
        let refused = || {
            let (name, why) = ranking.refused.iter().next()?;
            Some(format!("{name}: {why}"))
        };
        let why = dear.or_else(refused);
        let none = || "it has no GPU instance type of spec.families".to_owned();
        quote.verdict = RegionVerdict::NoQuote(why.unwrap_or_else(none));
    } else if let Some(score) = one.score.filter(|score| *score < wanted.min_score) {
        quote.verdict = RegionVerdict::LowScore(score);
    }
    quote
}
