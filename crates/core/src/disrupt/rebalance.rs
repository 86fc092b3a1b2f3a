//! What a move of pods is about: another way of paying, another zone, or just fewer machines.

use std::collections::BTreeMap;

use crate::labels;
use crate::money::Money;
use crate::name::Name;
use crate::plan::{Home, Launch, Plan};
use crate::problem::{CapacityType, Node, NodeId, Problem};

/// What takes the place of one node.
#[derive(Default)]
struct Trade<'a> {
    launches: Vec<&'a Launch>,
    /// Pods go to nodes that stay.
    fills: bool,
}

/// What is said about the going of each node whose pods make another way of paying or another zone worth it.
pub(super) fn told(problem: &Problem, plan: &Plan) -> BTreeMap<NodeId, String> {
    let mut all: BTreeMap<NodeId, Trade<'_>> = BTreeMap::new();
    for launch in &plan.launches {
        for pod in &launch.pods {
            if let Home::Node(node) = pod.home {
                let trade = all.entry(node).or_default();
                let known = trade.launches.last();
                if !known.is_some_and(|last| std::ptr::eq(*last, launch)) {
                    trade.launches.push(launch);
                }
            }
        }
    }
    for pod in plan.placements.iter().flat_map(|one| &one.pods) {
        if let Home::Node(node) = pod.home {
            all.entry(node).or_default().fills = true;
        }
    }
    all.into_iter()
        .filter_map(|(node, trade)| {
            let told = trade.told(problem.node_at(node), problem)?;
            Some((node, told))
        })
        .collect()
}

impl Trade<'_> {
    /// In words, if it is about a way of paying or a zone.
    fn told(&self, node: &Node, problem: &Problem) -> Option<String> {
        let new = |test: &dyn Fn(&Launch) -> bool| {
            !self.fills && !self.launches.is_empty() && self.launches.iter().all(|one| test(one))
        };
        let paid = |launch: &Launch| launch.purchase.capacity_type;
        let spot = |launch: &Launch| paid(launch) == CapacityType::Spot;
        if node.capacity_type != CapacityType::Spot && new(&spot) {
            return Some(format!("{} is replaced by spot", node.capacity_type));
        }
        let reserved = |launch: &Launch| paid(launch) == CapacityType::Reserved;
        if node.capacity_type != CapacityType::Reserved && new(&reserved) {
            return Some("a reservation that is already paid for has capacity".to_owned());
        }
        let zone = node.labels.get(labels::ZONE)?;
        let elsewhere = |launch: &Launch| launch.purchase.zone != *zone;
        if !new(&elsewhere) {
            return None;
        }
        let target = &self.launches[0].purchase.zone;
        Some(match price_in(problem, node, zone) {
            None => format!(
                "{} is no longer sold in zone {zone}, but in zone {target}",
                node.instance_type
            ),
            Some(_) => format!("zone {target} is cheaper than zone {zone}"),
        })
    }
}

/// What another machine of the node's type costs in a zone today, if it is for sale there.
fn price_in(problem: &Problem, node: &Node, zone: &Name) -> Option<Money> {
    let types = problem.catalogs.iter().flat_map(|catalog| &catalog.types);
    types
        .filter(|kind| kind.name == node.instance_type)
        .flat_map(|kind| &kind.offerings)
        .filter(|one| one.zone == *zone && one.capacity_type == node.capacity_type)
        .filter(|one| one.available && one.left != Some(0))
        .map(|one| one.price)
        .min()
}
