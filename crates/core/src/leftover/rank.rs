//! The order of quotes, and why a type is no candidate.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use super::{Capacity, GpuType, Market, PerGpu, Wanted};
use crate::money::Money;
use crate::name::Name;

/// Why a type cannot be chosen at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its family is not asked for.
    Family,
    /// Too few GPUs.
    FewGpus(u32),
    /// Another architecture than amd64, and its family is not named in full.
    Architecture(Name),
    /// GPUs of another maker than NVIDIA, and its family is not named in full.
    Manufacturer(Name),
    /// Parts of GPUs, and its family is not named in full.
    Fractional,
    /// A whole server.
    BareMetal,
    /// Not sold in this way.
    NotSold(Capacity),
    /// In no zone of the region.
    NotOffered,
    /// Offered, but in no zone with a subnet for the nodes.
    NoSubnet,
    /// No price is known anywhere.
    NoPrice,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Family => f.write_str("its family is not in spec.families"),
            Refusal::FewGpus(has) => write!(f, "it has {has} GPUs, fewer than spec.minGPUs"),
            Refusal::Architecture(arch) => write!(
                f,
                "its architecture is {arch}: name its family in full in spec.families to allow it"
            ),
            Refusal::Manufacturer(who) => write!(
                f,
                "its GPUs are made by {who}: name its family in full in spec.families to allow it"
            ),
            Refusal::Fractional => f.write_str(
                "it has a fraction of a GPU: name its family in full in spec.families to allow it",
            ),
            Refusal::BareMetal => f.write_str("it is a bare-metal type"),
            Refusal::NotSold(how) => write!(f, "it is not sold as {how}"),
            Refusal::NotOffered => f.write_str("it is offered in no zone of the region"),
            Refusal::NoSubnet => f.write_str("no zone that offers it has a subnet for the nodes"),
            Refusal::NoPrice => f.write_str("there is no price for it"),
        }
    }
}

/// Whether a quote may be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may.
    Viable,
    /// The placement score of its zone is too low.
    LowScore(u8),
    /// Spot costs more than the list price.
    DearerThanOnDemand(Money),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Viable => f.write_str("viable"),
            Verdict::LowScore(score) => {
                write!(f, "placement score {score} is below spec.minSpotScore")
            }
            Verdict::DearerThanOnDemand(list) => {
                write!(f, "spot costs more than on-demand ({:.4})", list.dollars())
            }
        }
    }
}

/// A type in a zone at a price.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranked {
    /// Type.
    pub type_name: Name,
    /// Zone, by name.
    pub zone: Name,
    /// Price of the instance.
    pub price: Money,
    /// Price of each GPU.
    pub per_gpu: PerGpu,
    /// Placement score of the zone, where known.
    pub score: Option<u8>,
    /// Whether it may be chosen.
    pub verdict: Verdict,
}

impl Ranked {
    /// Price per GPU, then score, then price, then names. No two quotes are equal in all of them. A score that is not
    /// known is the worst: nothing is known of its odds.
    fn key(&self) -> (PerGpu, Reverse<Option<u8>>, Money, &Name, &Name) {
        (
            self.per_gpu,
            Reverse(self.score),
            self.price,
            &self.type_name,
            &self.zone,
        )
    }

    /// Whether it may be chosen.
    pub fn is_viable(&self) -> bool {
        self.verdict == Verdict::Viable
    }
}

/// Every quote in order, and every type that has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranking {
    /// How instances are paid for.
    pub capacity: Capacity,
    /// Quotes, the best first.
    pub quotes: Vec<Ranked>,
    /// Types that cannot be chosen, and why.
    pub refused: BTreeMap<Name, Refusal>,
    /// Types that fit the pool, whether they have a quote or not.
    pub fitting: Vec<Name>,
}

impl Ranking {
    /// Quotes that may be chosen, the best first.
    pub fn viable(&self) -> impl Iterator<Item = &Ranked> {
        self.quotes.iter().filter(|one| one.is_viable())
    }
}

/// Ranks what a market sells for a pool, in one way of paying.
pub fn rank(market: &Market, wanted: &Wanted, capacity: Capacity) -> Ranking {
    let mut ranking = Ranking {
        capacity,
        quotes: Vec::new(),
        refused: BTreeMap::new(),
        fitting: Vec::new(),
    };
    for one in market.types.values() {
        let quotes = if let Some(why) = unfit(one, wanted, capacity) {
            Err(why)
        } else {
            ranking.fitting.push(one.name.clone());
            quotes(market, wanted, one, capacity)
        };
        match quotes {
            Ok(quotes) => ranking.quotes.extend(quotes),
            Err(why) => {
                ranking.refused.insert(one.name.clone(), why);
            }
        }
    }
    ranking.quotes.sort_by(|a, b| a.key().cmp(&b.key()));
    ranking
}

/// Why a type does not fit a pool, whatever the market does.
fn unfit(one: &GpuType, wanted: &Wanted, capacity: Capacity) -> Option<Refusal> {
    let family = one.family();
    let named = wanted.families.iter().any(|name| &**name == family);
    let begins = |name: &Name| one.name.starts_with(&**name);
    if !wanted.families.is_empty() && !wanted.families.iter().any(begins) {
        return Some(Refusal::Family);
    }
    if !named {
        // `g5` is also the beginning of g5g, whose processors are Arm: nothing that was built for amd64 runs there.
        if &*one.arch != "amd64" {
            return Some(Refusal::Architecture(one.arch.clone()));
        }
        if !one.manufacturer.eq_ignore_ascii_case("nvidia") {
            return Some(Refusal::Manufacturer(one.manufacturer.clone()));
        }
        if one.is_fractional() {
            return Some(Refusal::Fractional);
        }
    }
    if one.bare_metal {
        return Some(Refusal::BareMetal);
    }
    if one.devices < wanted.min_gpus || one.gpu_millis == 0 {
        return Some(Refusal::FewGpus(one.devices));
    }
    let sold = match capacity {
        Capacity::Spot => one.spot,
        Capacity::OnDemand => one.on_demand,
    };
    (!sold).then_some(Refusal::NotSold(capacity))
}

fn quotes(
    market: &Market,
    wanted: &Wanted,
    one: &GpuType,
    capacity: Capacity,
) -> Result<Vec<Ranked>, Refusal> {
    let of_type = (one.name.clone(), Name::from(""))..;
    let offered = market.offered.range(of_type);
    let zones: Vec<&Name> = offered
        .take_while(|(name, _)| *name == one.name)
        .map(|(_, zone)| zone)
        .collect();
    if zones.is_empty() {
        return Err(Refusal::NotOffered);
    }
    let has_subnet = |zone: &&Name| {
        let subnets = market.subnets.as_ref();
        subnets.is_none_or(|zones| zones.contains(&**zone))
    };
    let zones: Vec<&Name> = zones.into_iter().filter(has_subnet).collect();
    if zones.is_empty() {
        return Err(Refusal::NoSubnet);
    }
    let quotes: Vec<Ranked> = zones
        .into_iter()
        .filter_map(|zone| quote(market, wanted, one, zone, capacity))
        .collect();
    if quotes.is_empty() {
        return Err(Refusal::NoPrice);
    }
    Ok(quotes)
}

fn quote(
    market: &Market,
    wanted: &Wanted,
    one: &GpuType,
    zone: &Name,
    capacity: Capacity,
) -> Option<Ranked> {
    let price = match capacity {
        Capacity::Spot => *market.spot.get(&(one.name.clone(), zone.clone()))?,
        // Without list prices any order will do, as long as it is always the same: a fallback must not fail for that.
        Capacity::OnDemand => one.list_price.unwrap_or(Money::MAX),
    };
    // Nothing is sold for nothing: a price of zero is a row that went wrong.
    if price <= Money::ZERO {
        return None;
    }
    let scores = market.scores.as_ref();
    // AWS answers with the ten best zones: one that is missing has the lowest score.
    let score = match capacity {
        Capacity::Spot => scores.map(|scores| scores.get(zone).copied().unwrap_or(1)),
        Capacity::OnDemand => None,
    };
    let verdict = match (capacity, score, one.list_price) {
        (Capacity::Spot, Some(score), _) if score < wanted.min_score => Verdict::LowScore(score),
        (Capacity::Spot, _, Some(list)) if price > list => Verdict::DearerThanOnDemand(list),
        _ => Verdict::Viable,
    };
    Some(Ranked {
        type_name: one.name.clone(),
        zone: zone.clone(),
        price,
        per_gpu: PerGpu::new(price, one.gpu_millis),
        score,
        verdict,
    })
}
