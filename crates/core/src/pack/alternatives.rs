//! What else could be bought in a machine's place when it is sold out.

use std::sync::Arc;

use crate::plan::Purchase;

use super::bins::Bin;
use super::bits::Bits;
use super::compile::Compiled;
use super::intern::FixedMap;
use super::ledger::{Ledger, Uses};
use super::offers::{Item, Offer};

/// How many alternatives a machine carries, unless its pool asks for a choice.
const ALTERNATIVES: usize = 24;
/// How many it carries at most.
///
/// karpenter: pkg/controllers/provisioning/scheduling/nodeclaimtemplate.go, `MaxInstanceTypes`
const MAX_ALTERNATIVES: usize = 600;

/// Finds alternatives for the machines of a plan, one after the other.
pub(crate) struct Alternatives<'c, 'p> {
    compiled: &'c Compiled<'p>,
    /// Offers, the cheapest first.
    by_cost: Vec<u32>,
    /// What is scarce and is left whichever alternatives are bought.
    slack: Ledger,
    /// By offers: thousands of machines have the same alternatives, and share one list of them.
    lists: FixedMap<Vec<u32>, Arc<[Purchase]>>,
}

impl<'c, 'p> Alternatives<'c, 'p> {
    /// For machines that have taken their part of what is scarce.
    pub(crate) fn new(compiled: &'c Compiled<'p>, slack: Ledger) -> Self {
        let mut by_cost: Vec<u32> = (0..compiled.offers.len() as u32).collect();
        by_cost.sort_by_key(|index| compiled.offers[*index as usize].cost);
        Alternatives {
            compiled,
            by_cost,
            slack,
            lists: FixedMap::default(),
        }
    }

    /// What could be bought instead of `own`, which uses up so much, best first, and among how many types there is a choice then.
    pub(crate) fn of(
        &mut self,
        bin: &Bin,
        (own, uses): (&Offer, &Uses),
        allowed: &Bits,
        bound: bool,
    ) -> (u32, Arc<[Purchase]>) {
        let chosen = self.choose(bin, (own, uses), allowed, bound);
        self.reserve(uses, &chosen);
        let considered = self.types_among(own, &chosen);
        let compiled = self.compiled;
        let list = self.lists.entry(chosen).or_insert_with_key(|chosen| {
            let offers = chosen.iter().map(|at| &compiled.offers[*at as usize]);
            offers
                .map(|offer| offer.purchase(compiled.problem, offer.price))
                .collect()
        });
        (considered, list.clone())
    }

    /// Offers of the same pool, and domain where pods are `bound` to theirs, that hold the same pods. Together with all
    /// other machines of the plan none of them may exceed what is scarce.
    fn choose(
        &self,
        bin: &Bin,
        (own, uses): (&Offer, &Uses),
        allowed: &Bits,
        bound: bool,
    ) -> Vec<u32> {
        let compiled = self.compiled;
        let picky = compiled
            .pools
            .iter()
            .any(|pool| pool.index == own.pool && !pool.min_values.is_empty());
        let most = if picky {
            MAX_ALTERNATIVES
        } else {
            ALTERNATIVES
        };
        let fits = |offer: &Offer| {
            offer.pool == own.pool
                && offer.variant == own.variant
                && bin.load.fits(&offer.room)
                && !std::ptr::eq(offer, own)
                && (!bound || same_cell(compiled, offer, own))
                && matches!(offer.item, Item::Fixed { .. })
                && self.slack.can_swap(uses, &offer.uses)
        };
        let allowed = self
            .by_cost
            .iter()
            .filter(|at| allowed.contains(**at as usize));
        allowed
            .filter(|at| fits(&compiled.offers[**at as usize]))
            .take(most)
            .copied()
            .collect()
    }

    /// Sets aside what the greediest alternative takes beyond the first choice.
    fn reserve(&mut self, own: &Uses, chosen: &[u32]) {
        let mut extra = Uses::new();
        for at in chosen {
            for (counter, amount) in &self.compiled.offers[*at as usize].uses {
                let had: i64 = own
                    .iter()
                    .filter(|(other, _)| other == counter)
                    .map(|(_, amount)| amount)
                    .sum();
                let more = (amount - had).max(0);
                match extra.iter_mut().find(|(other, _)| other == counter) {
                    Some((_, most)) => *most = (*most).max(more),
                    None => extra.push((*counter, more)),
                }
            }
        }
        self.slack.take(&extra);
    }

    fn types_among(&self, own: &Offer, chosen: &[u32]) -> u32 {
        let key = |offer: &Offer| match offer.item {
            Item::Fixed { instance_type, .. } => (offer.catalog, 0, instance_type),
            Item::Made { range, .. } => (offer.catalog, 1, range),
        };
        let chosen = chosen.iter();
        let mut keys: Vec<_> = chosen
            .map(|at| key(&self.compiled.offers[*at as usize]))
            .collect();
        keys.push(key(own));
        keys.sort_unstable();
        keys.dedup();
        keys.len() as u32
    }
}

fn same_cell(compiled: &Compiled<'_>, a: &Offer, b: &Offer) -> bool {
    let mut keys = compiled.topology_keys.iter().map(|key| *key as usize);
    keys.all(|key| a.values[key] == b.values[key])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::{Options, solve};
    use crate::problem::Problem;
    use serde_json::json;

    #[test]
    fn machines_with_the_same_alternatives_share_one_list() {
        let kinds = [(2, 0.2), (3, 0.3), (4, 0.5)].map(|(cores, price)| {
            json!({
                "name": format!("c{cores}"), "arch": "amd64", "cpuMilli": cores * 1000,
                "memoryMiB": 8192, "pods": 10, "zones": ["a"],
                "offerings": [{"zone": "a", "capacityType": "on-demand", "price": price}],
            })
        });
        let problem = json!({
            "instanceTypes": kinds,
            "nodePools": [{"name": "main"}],
            "pods": [
                {"name": "small", "count": 4, "cpuMilli": 1900, "memoryMiB": 100},
                {"name": "large", "cpuMilli": 2500, "memoryMiB": 100},
            ],
        });
        let problem = Problem::from_json(&problem.to_string()).unwrap();
        let plan = solve(&problem, &Options::default());
        let of = |kind: &str| {
            let launches = plan.launches.iter();
            let bought = launches.filter(|launch| &*launch.purchase.instance_type == kind);
            bought
                .map(|launch| launch.alternatives.clone())
                .collect::<Vec<_>>()
        };
        let (small, large) = (of("c2"), of("c3"));
        let names = |list: &[Purchase]| -> Vec<String> {
            list.iter()
                .map(|one| one.instance_type.to_string())
                .collect()
        };
        assert_eq!(names(&small[0]), ["c3", "c4"]);
        assert_eq!(names(&large[0]), ["c4"]);
        assert_eq!(small.len(), 4);
        assert!(small.iter().all(|list| Arc::ptr_eq(list, &small[0])));
    }
}
