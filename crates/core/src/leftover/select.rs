//! From ranked quotes to the types and zones of a NodePool.

use std::collections::{BTreeMap, BTreeSet};

use super::{PerGpu, Ranked, Ranking, Verdict, Wanted};
use crate::money::Money;
use crate::name::Name;

/// Types and zones, the best first. A NodePool allows every one of the types in every one of the zones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Types.
    pub types: Vec<Name>,
    /// Zones.
    pub zones: Vec<Name>,
}

impl Choice {
    /// Whether nothing is chosen.
    pub fn is_empty(&self) -> bool {
        self.types.is_empty() || self.zones.is_empty()
    }

    /// Whether a quote is within it.
    pub fn allows(&self, one: &Ranked) -> bool {
        self.types.contains(&one.type_name) && self.zones.contains(&one.zone)
    }

    /// The best viable quote within it.
    pub fn best<'a>(&self, ranking: &'a Ranking) -> Option<&'a Ranked> {
        ranking.viable().find(|one| self.allows(one))
    }

    /// The best price per GPU within it.
    pub fn per_gpu(&self, ranking: &Ranking) -> Option<PerGpu> {
        self.best(ranking).map(|one| one.per_gpu)
    }

    /// The cheapest price of an instance within it, and the best score.
    pub fn figures(&self, ranking: &Ranking) -> (Option<Money>, Option<u8>) {
        let within = || ranking.viable().filter(|one| self.allows(one));
        let price = self.best(ranking).map(|one| one.price);
        (price, within().filter_map(|one| one.score).max())
    }
}

/// Walks the quotes in order and takes each whose type and zone there is still room for. Types that are dearer than their
/// own list price in a chosen zone are left out, because the NodePool would allow them there.
pub fn select(ranking: &Ranking, wanted: &Wanted) -> Choice {
    let mut dropped: BTreeSet<Name> = BTreeSet::new();
    loop {
        let choice = walk(ranking, wanted, &dropped);
        let dear = dear(ranking, &choice);
        if dear.is_empty() {
            return choice;
        }
        dropped.extend(dear);
    }
}

fn walk(ranking: &Ranking, wanted: &Wanted, dropped: &BTreeSet<Name>) -> Choice {
    let mut choice = Choice::default();
    for one in ranking.viable() {
        if dropped.contains(&one.type_name) {
            continue;
        }
        let new_type = !choice.types.contains(&one.type_name);
        let new_zone = !choice.zones.contains(&one.zone);
        let room = (!new_type || choice.types.len() < wanted.max_types)
            && (!new_zone || choice.zones.len() < wanted.max_zones);
        if !room {
            continue;
        }
        if new_type {
            choice.types.push(one.type_name.clone());
        }
        if new_zone {
            choice.zones.push(one.zone.clone());
        }
    }
    choice
}

fn dear(ranking: &Ranking, choice: &Choice) -> Vec<Name> {
    let mut worst: BTreeMap<&Name, bool> = BTreeMap::new();
    for one in ranking.quotes.iter().filter(|one| choice.allows(one)) {
        let dear = matches!(one.verdict, Verdict::DearerThanOnDemand(_));
        *worst.entry(&one.type_name).or_default() |= dear;
    }
    let dear = worst.into_iter().filter(|(_, dear)| *dear);
    dear.map(|(name, _)| name.clone()).collect()
}
