//! What every plan for the same pods costs at least.

mod custom;
mod spread;

use crate::pack::compile::ids::ClassId;
use crate::problem::NodeId;
use std::collections::BTreeMap;

use crate::money::Money;
use crate::pack::assign::{Assignment, Lot, LotId};
use crate::pack::compile::Compiled;
use crate::pack::compile::column_sets::{NOTHING, Sets};
use crate::pack::compile::supply::CounterId;
use crate::pack::dense::intern::FixedMap;
use crate::pack::dense::typed::IdVec;
use crate::pack::packing::{Bin, Context, Packing};
use crate::pack::parts::{Part, Without};
use crate::pack::scenario::Scenario;
use crate::pack::strategy::column_generation;
use crate::pack::value::appraisal::{Appraisal, SCARCE_COPIES};
use crate::pack::value::machine_prices::Prices;

/// How much work a bound is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Effort {
    /// Not from resources alone, but also from fillings of whole machines, and from what spreads send to every domain.
    pub(crate) thorough: bool,
    pub(crate) without: Without,
}

/// The largest of four bounds: what all pods are worth at values that no machine's room exceeds, less what room on nodes
/// may be worth; the same at values that no filling of a machine exceeds, of whole pods where there are few kinds of them
/// or of pods that keep their shape; and the cheapest machine for the most demanding single pod.
pub(crate) fn lower_bound(
    compiled: &Compiled<'_>,
    scenario: &Scenario,
    assignment: &Assignment,
    packing: &Packing,
    effort: Effort,
    lot_values: Option<&IdVec<LotId, f64>>,
) -> Money {
    let mut sets = Sets::new(compiled);
    let lots = placed(compiled, &mut sets, assignment, packing);
    if lots.is_empty() || !scenario.buys {
        return Money::ZERO;
    }
    let stays = |node: &NodeId| {
        !scenario.removed.contains(node.index()) && !compiled.problem.node_at(*node).deleting
    };
    let nodes: Vec<NodeId> = compiled.nodes.ids().filter(stays).collect();
    // A domain that sells no more machines holds no spread back: pods may then all be in the others.
    let open = compiled.nodes.is_empty() && !compiled.supply.limited();
    let without = effort.without;
    let lots = if effort.thorough && open && without.keeps(Part::SpreadBound) {
        spread::confined(compiled, &mut sets, &assignment.topology, &lots)
    } else {
        lots
    };
    let ledger = compiled.supply.ledger();
    let counts: IdVec<LotId, u32> = lots.iter().map(|lot| lot.count).collect();
    let context = Context {
        compiled,
        sets: &mut sets,
        lots: &lots,
        ledger: &ledger,
        without,
    };
    // A node that is there can take some of every group that keeps apart: with nodes, groups are left out.
    let appraisal = if nodes.is_empty() {
        Appraisal::fine(&context, &counts)
    } else {
        Appraisal::plain(&context, &counts)
    };
    let mut total = worth(&appraisal, &counts);
    for node in &nodes {
        total -= appraisal.most(&compiled.nodes[*node].room);
    }
    total -= scarce_bargains(&context, &appraisal);
    let fixed = compiled.custom_types.is_empty();
    if !fixed {
        total = custom::hold(&context, &appraisal, total);
    }
    let whole = effort.thorough && !compiled.supply.limited() && nodes.is_empty() && fixed;
    if whole && without.keeps(Part::FillingBound) {
        let lot_values = lot_values.and_then(|lot_values| by_class(lot_values, assignment, &lots));
        total = total.max(column_generation::bound(&context, lot_values));
    }
    if whole && without.keeps(Part::ShapeBound) {
        let mut shaped = appraisal.clone();
        if let Some(prices) = Prices::find(&context, &counts, &shaped) {
            prices.refine(&context, &counts, &mut shaped);
        }
        total = total.max(worth(&shaped, &counts));
    }
    // Sums of a hundred thousand terms may be off in the last digits.
    total = compiled.tie_break.bound(total) * (1.0 - 1e-9);
    let mut nanos = if total > 0.0 { total as i64 } else { 0 };
    if nodes.is_empty() {
        nanos = nanos.max(compiled.tie_break.price(most_demanding(&context), 1));
    }
    let priced = |bin: &&Bin| compiled.column(bin.column).cost > 0;
    let machines = packing.bins.iter().filter(priced).count();
    let cost = compiled.tie_break.price(packing.cost, machines);
    below(nanos, cost)
}

/// A bound on all plans for the same pods bounds this one too: one above its cost is a mistake in the bound, which tests
/// must see and a caller must not.
fn below(bound: i64, cost: i64) -> Money {
    debug_assert!(
        bound <= cost.max(0),
        "the bound {bound} is above the cost {cost} of a plan"
    );
    Money::from_nanos(bound.min(cost.max(0)))
}

/// What all pods are worth together.
fn worth(appraisal: &Appraisal, counts: &IdVec<LotId, u32>) -> f64 {
    let mut total = 0.0;
    for (worth, count) in appraisal.worth.iter().zip(counts) {
        total += worth * f64::from(*count);
    }
    total
}

/// Pods that the plan places, by class, free to use every column that they would ever accept.
fn placed(
    compiled: &Compiled<'_>,
    sets: &mut Sets,
    assignment: &Assignment,
    packing: &Packing,
) -> IdVec<LotId, Lot> {
    let mut missing: FixedMap<ClassId, u32> = FixedMap::default();
    for (class, count) in &assignment.failed {
        *missing.entry(*class).or_insert(0) += count;
    }
    for (lot, left) in assignment.lots.iter().zip(&packing.left) {
        *missing.entry(lot.class).or_insert(0) += left;
    }
    let mut lots = IdVec::default();
    for queue in &assignment.queues {
        let missing = missing.get_mut(&queue.class);
        let gone = missing.map_or(0, |left| {
            let gone = (*left).min(queue.count);
            *left -= gone;
            gone
        });
        let profile = compiled.profile(queue.class);
        let Some(level) = profile.levels.ids().next_back() else {
            continue;
        };
        if gone == queue.count {
            continue;
        }
        let set = sets.demanded(compiled, profile.levels[level].demand);
        if set != NOTHING {
            lots.push(Lot {
                class: queue.class,
                level,
                set,
                cell: crate::pack::assign::ANYWHERE,
                count: queue.count - gone,
            });
        }
    }
    lots
}

/// What a pod of each lot is worth by column generation, if that knows all their classes.
fn by_class(
    lot_values: &IdVec<LotId, f64>,
    assignment: &Assignment,
    lots: &IdVec<LotId, Lot>,
) -> Option<Vec<f64>> {
    let mut known: FixedMap<ClassId, f64> = FixedMap::default();
    for (lot, worth) in assignment.lots.iter().zip(lot_values) {
        let least = known.entry(lot.class).or_insert(*worth);
        *least = least.min(*worth);
    }
    lots.iter()
        .map(|lot| known.get(&lot.class).copied())
        .collect()
}

/// What the few machines that were left out when values were set may carry beyond their price. Of custom types
/// not only these sizes can be had: [`custom`] judges them.
fn scarce_bargains(context: &Context<'_, '_>, appraisal: &Appraisal) -> f64 {
    let mut by_counter: BTreeMap<CounterId, f64> = BTreeMap::new();
    for (potential, index) in &appraisal.bargains {
        let column = context.compiled.column(*index);
        let copies = context.ledger.copies(&column.uses);
        let custom = context.compiled.custom_types.of(*index).is_some();
        if custom || copies >= SCARCE_COPIES || *potential <= 1.0 {
            continue;
        }
        let worth = if column.cost > 0 {
            column.cost as f64 * (potential - 1.0)
        } else {
            appraisal.most(&column.room)
        };
        // The counter that runs out first answers for all columns that draw on it.
        let uses = column.uses.iter().filter(|(_, amount)| *amount > 0);
        let scarcest = uses
            .map(|(counter, amount)| (context.ledger.shares(*counter, *amount), *counter))
            .min_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((shares, counter)) = scarcest {
            let most = by_counter.entry(counter).or_insert(0.0);
            // Beside whole machines of one kind there may be room for another kind.
            let all = worth * shares;
            if all > *most {
                *most = all;
            }
        }
    }
    by_counter.values().sum()
}

fn most_demanding(context: &Context<'_, '_>) -> i64 {
    let alone = |lot: LotId| {
        let set = context.lot(lot).set;
        let requests = context.requests(lot);
        let compiled = context.compiled;
        let columns = context.sets.list(set).iter();
        let fixed = columns
            .filter(|index| compiled.custom_types.of(**index).is_none())
            .map(|index| compiled.column(*index))
            .find(|column| requests.fits(&column.room))
            .map(|column| column.cost);
        let custom_types = (0..compiled.custom_types.all.len() as u32).filter(|custom_type| {
            let columns = &compiled.custom_types.all[*custom_type as usize].columns;
            columns
                .iter()
                .any(|column| context.sets.contains(set, *column))
        });
        let custom = custom_types
            .filter_map(|custom_type| Some(compiled.fitted(custom_type, requests)?.cost));
        custom.chain(fixed).min()
    };
    context.lots.ids().filter_map(alone).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::money::Money;
    use crate::pack::{Options, solve};
    use crate::problem::Problem;

    /// Types of six and of four cores at so much a core.
    fn catalog(name: &str, price: f64) -> Value {
        let kind = |cores: u32| {
            json!({
                "name": format!("c{cores}"), "capacity": {"cpu": cores * 1000, "pods": 10},
                "offerings": [{
                    "zone": "a", "capacityType": "on-demand", "price": f64::from(cores) * price,
                }],
            })
        };
        json!({"name": name, "types": [kind(6), kind(4)]})
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "the bound 3 is above the cost 2 of a plan")]
    fn a_bound_above_the_cost_of_a_plan_is_not_hidden() {
        super::below(3, 2);
    }

    #[test]
    fn a_zone_that_runs_out_of_machines_does_not_raise_the_bound() {
        let offering = |zone: &str, price: f64| json!({"zone": zone, "capacityType": "on-demand", "price": price});
        let mut scarce = offering("a", 9.0);
        scarce["left"] = 1.into();
        let catalog = json!({"name": "shop", "types": [{
            "name": "c4", "capacity": {"cpu": 4000, "pods": 10},
            "offerings": [scarce, offering("b", 1.0)],
        }]});
        let first = json!({
            "name": "first",
            "spec": {
                "requests": {"cpu": 4000, "pods": 1}, "priority": 100,
                "nodeSelector": {"topology.kubernetes.io/zone": "a"},
            },
        });
        let web = json!({
            "name": "web", "count": 2,
            "spec": {
                "requests": {"cpu": 1000, "pods": 1}, "labels": {"app": "web"},
                "spread": [{
                    "topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1,
                    "selector": {"matchLabels": {"app": "web"}},
                }],
            },
        });
        let problem = json!({
            "catalogs": [catalog], "pools": [{"name": "main", "catalog": "shop"}],
            "pods": [first, web],
        });
        let problem = Problem::from_json(&problem.to_string()).unwrap();
        let plan = solve(&problem, &Options::default());
        // The bound is asserted against the cost before it is clamped.
        assert_eq!(plan.cost, Money::from_dollars(10.0));
        assert!(plan.lower_bound <= plan.cost);
    }

    #[test]
    fn what_one_kind_of_machine_leaves_of_a_limit_another_kind_may_use() {
        let pod = |cores: u32| {
            json!({
                "name": format!("p{cores}"),
                "spec": {"requests": {"cpu": cores * 1000, "pods": 1}},
            })
        };
        let problem = json!({
            "catalogs": [catalog("dear", 1.0), catalog("cheap", 0.1)],
            // The pool that is asked first is the dear one; the bound is about both.
            "pools": [
                {"name": "dear", "catalog": "dear", "weight": 10},
                {"name": "cheap", "catalog": "cheap", "limits": {"resources": {"cpu": 10_000}}},
            ],
            "pods": [pod(6), pod(4)],
        });
        let problem = Problem::from_json(&problem.to_string()).unwrap();
        let plan = solve(&problem, &Options::default());
        assert_eq!(plan.cost, Money::from_dollars(10.0));
        assert!(
            plan.lower_bound <= Money::from_dollars(1.0),
            "{}",
            plan.lower_bound
        );
    }
}
