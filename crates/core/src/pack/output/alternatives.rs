//! What else could be bought in a machine's place when it is sold out.

use crate::pack::compile::ids::OfferId;
use crate::pack::dense::typed::Id as _;
use std::sync::Arc;

use crate::pack::compile::Compiled;
use crate::pack::compile::custom;
use crate::pack::compile::offers::{Item, Offer};
use crate::pack::compile::supply::{Ledger, Uses};
use crate::pack::dense::bits::Bits;
use crate::pack::dense::intern::FixedMap;
use crate::pack::dense::vector::Vector;
use crate::pack::output::node_labels::node_labels;
use crate::plan::{Code, Launch, Plan, PodRef, Purchase, Reason, Shortfall};
use crate::problem::PoolId;

/// How many alternatives a machine carries, unless its pool has `minValues`.
const ALTERNATIVES: usize = 24;
/// How many it carries at most.
///
/// karpenter: pkg/controllers/provisioning/scheduling/nodeclaimtemplate.go, `MaxInstanceTypes`
const MAX_ALTERNATIVES: usize = 600;

/// A machine that is bought.
pub(crate) struct Machine<'a> {
    pub(crate) offer: &'a Offer,
    /// What it uses up of what is scarce.
    pub(crate) uses: &'a Uses,
    /// What its pods request.
    pub(crate) load: &'a Vector,
    /// Offers that all its pods may use.
    pub(crate) allowed: &'a Bits,
    /// Its pods must stay in their domain.
    pub(crate) bound: bool,
}

/// Finds alternatives for the machines of a plan, one after the other.
pub(crate) struct Alternatives<'c, 'p> {
    compiled: &'c Compiled<'p>,
    /// Offers, the cheapest first.
    by_cost: Vec<OfferId>,
    /// What is scarce and is left whichever alternatives are bought.
    slack: Ledger,
    /// By offers: thousands of machines have the same alternatives, and share one list of them.
    lists: FixedMap<Vec<OfferId>, Arc<[Purchase]>>,
}

impl<'c, 'p> Alternatives<'c, 'p> {
    /// For machines that have taken their part of what is scarce.
    pub(crate) fn new(compiled: &'c Compiled<'p>, slack: Ledger) -> Self {
        let mut by_cost: Vec<OfferId> = compiled.offers.ids().collect();
        by_cost.sort_by_key(|index| compiled.offers[*index].cost);
        Alternatives {
            compiled,
            by_cost,
            slack,
            lists: FixedMap::default(),
        }
    }

    /// What could be bought instead of a machine, best first, and why it is the one to buy.
    pub(crate) fn of(&mut self, machine: &Machine<'_>) -> (Arc<[Purchase]>, Reason) {
        let chosen = self.choose(machine);
        self.reserve(machine.uses, &chosen);
        let considered = self.types_among(machine.offer, &chosen);
        let compiled = self.compiled;
        let listed = |at: &OfferId| {
            let offer = &compiled.offers[*at];
            offer.purchase(compiled.problem, offer.price)
        };
        let list = self.lists.entry(chosen);
        let list = list.or_insert_with_key(|chosen| chosen.iter().map(listed).collect());
        let own = machine.offer.sold(compiled.problem).name();
        let other = list.iter().find(|other| other.instance_type != *own);
        let reason = Reason::Cheapest {
            considered,
            runner_up: other.map(|other| (other.instance_type.clone(), other.price)),
        };
        (list.clone(), reason)
    }

    /// Offers of the same pool, and domain where pods are bound to theirs, that hold the same pods. Together with all
    /// other machines of the plan none of them may exceed what is scarce.
    fn choose(&self, machine: &Machine<'_>) -> Vec<OfferId> {
        let compiled = self.compiled;
        let own = machine.offer;
        let picky = compiled
            .pools
            .iter()
            .any(|pool| pool.pool == own.pool && !pool.min_values.is_empty());
        let most = if picky {
            MAX_ALTERNATIVES
        } else {
            ALTERNATIVES
        };
        let fits = |offer: &Offer| {
            offer.pool == own.pool
                && offer.variant == own.variant
                && machine.load.fits(&offer.room)
                && !std::ptr::eq(offer, own)
                && (!machine.bound || same_cell(compiled, offer, own))
                && matches!(offer.item, Item::Fixed { .. })
                && self.slack.can_swap(machine.uses, &offer.uses)
        };
        let allowed = self
            .by_cost
            .iter()
            .filter(|at| machine.allowed.contains(at.index()));
        allowed
            .filter(|at| fits(&compiled.offers[**at]))
            .take(most)
            .copied()
            .collect()
    }

    /// Sets aside what the greediest alternative takes beyond the first choice.
    fn reserve(&mut self, own: &Uses, chosen: &[OfferId]) {
        let mut extra = Uses::new();
        for at in chosen {
            for (counter, amount) in &self.compiled.offers[*at].uses {
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

    fn types_among(&self, own: &Offer, chosen: &[OfferId]) -> u32 {
        let key = |offer: &Offer| match offer.item {
            Item::Fixed { instance_type, .. } => (offer.catalog, 0, instance_type),
            Item::Custom { range, .. } => (offer.catalog, 1, range),
        };
        let chosen = chosen.iter();
        let mut keys: Vec<_> = chosen.map(|at| key(&self.compiled.offers[*at])).collect();
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

/// Finds alternatives for a plan whose machines carry other pods than when they were chosen.
pub(crate) fn renew(compiled: &Compiled<'_>, plan: &mut Plan) {
    let mut slack = compiled.supply.ledger();
    if let Some(percent) = compiled.problem.settings.spot_share {
        let most = (plan.launches.len() as i64 * i64::from(percent) / 100).max(1);
        for counter in compiled.supply.spot() {
            slack.set(counter, most);
        }
    }
    let bought: Vec<Option<BoughtMachine<'_>>> = plan
        .launches
        .iter()
        .map(|launch| BoughtMachine::find(compiled, launch))
        .collect();
    for one in bought.iter().flatten() {
        slack.take(&one.uses);
    }
    let mut alternatives = Alternatives::new(compiled, slack);
    for (launch, bought) in plan.launches.iter_mut().zip(&bought) {
        launch.alternatives = Arc::default();
        if let Some(bought) = bought {
            (launch.alternatives, launch.reason) = alternatives.of(&bought.machine());
        }
    }
}

/// Pods of launches whose alternatives do not meet `minValues` after all: what is scarce may forbid alternatives that
/// packing counted on.
pub(crate) fn below_min_values(compiled: &Compiled<'_>, plan: &Plan) -> Vec<(PodRef, Reason)> {
    let mut lost = Vec::new();
    let poor = plan.launches.iter();
    for launch in poor.filter(|launch| !compiled.meets_min_values(launch)) {
        let mut pools = compiled.problem.pools.iter();
        let pool = pools.position(|one| one.name == launch.pool);
        debug_assert!(pool.is_some(), "a launch of no pool: {}", launch.pool);
        let reason = Reason::NoMachine {
            pools: vec![Shortfall {
                pool: launch.pool.clone(),
                ended_by: pool
                    .map(PoolId::at)
                    .map_or_else(String::new, |pool| compiled.min_values.describe(pool)),
                code: Code::MinValues,
                ..Shortfall::default()
            }],
        };
        lost.extend(launch.pods.iter().map(|pod| (*pod, reason.clone())));
    }
    lost
}

/// A launch in dense form.
struct BoughtMachine<'c> {
    offer: &'c Offer,
    uses: Uses,
    load: Vector,
    allowed: Bits,
    bound: bool,
}

impl<'c> BoughtMachine<'c> {
    fn find(compiled: &'c Compiled<'_>, launch: &Launch) -> Option<Self> {
        let at = compiled
            .offers
            .ids()
            .find(|at| is_sold(compiled, *at, launch))?;
        let offer = &compiled.offers[at];
        let mut load = Vector::ZERO;
        let mut allowed: Option<Bits> = None;
        let mut bound = false;
        for pod in &launch.pods {
            let class = compiled.class_of(*pod);
            let profile = compiled.profile(class);
            load.add(&compiled.class(class).requests);
            bound |= profile.anchored;
            // The preferences that this machine meets, others should meet too.
            let mut demands = profile.levels.iter().map(|level| level.demand);
            let granted =
                demands.find(|demand| compiled.demand_offers[*demand].contains(at.index()))?;
            let granted = &compiled.demand_offers[granted];
            match &mut allowed {
                Some(allowed) => allowed.intersect(granted),
                None => allowed = Some(granted.clone()),
            }
        }
        let mut custom_types = compiled.custom_types.all.iter();
        let custom_type = custom_types.position(|custom_type| {
            let one = &compiled.offers[custom_type.offer];
            custom::alike(one, offer)
        });
        let exact = custom_type.and_then(|custom_type| compiled.fitted(custom_type as u32, &load));
        Some(BoughtMachine {
            offer,
            uses: exact.map_or_else(|| offer.uses.clone(), |exact| exact.uses),
            load,
            allowed: allowed?,
            bound,
        })
    }

    fn machine(&self) -> Machine<'_> {
        Machine {
            offer: self.offer,
            uses: &self.uses,
            load: &self.load,
            allowed: &self.allowed,
            bound: self.bound,
        }
    }
}

/// Whether a launch buys this offer, of whatever size.
fn is_sold(compiled: &Compiled<'_>, at: OfferId, launch: &Launch) -> bool {
    let problem = compiled.problem;
    let offer = &compiled.offers[at];
    let bought = &launch.purchase;
    *offer.sold(problem).name() == bought.instance_type
        && problem.pool_at(offer.pool).name == launch.pool
        && offer.purchase(problem, bought.price) == *bought
        && node_labels(compiled, offer) == launch.labels
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
