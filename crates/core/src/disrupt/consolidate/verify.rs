//! Rules about money: what is taken away must save enough for what it disturbs.

use std::collections::{BTreeMap, BTreeSet};

use crate::disrupt::candidate::Candidate;
use crate::disrupt::explain::Obstacle;
use crate::disrupt::trial::{Trial, Trials};
use crate::disrupt::worth;
use crate::money::Money;
use crate::plan::{Home, Launch, Plan, PodRef, Purchase};
use crate::problem::{CapacityType, ConsolidationPolicy, NodeId, Problem};

/// What saves less than this, in percent of what it replaces, is not worth moving pods for: prices wobble by as much,
/// and a cluster that is as good as the solver can make it must come to rest.
const LEAST_GAIN: u32 = 5;

/// Types to choose from that make one spot machine worth another.
///
/// karpenter: pkg/controllers/disruption/consolidation.go, `MinInstanceTypesForSpotToSpotConsolidation`
const SPOT_CHOICE: usize = 15;

/// The least share of what is usual that a balanced pool must save for the pods that move.
///
/// karpenter: pkg/controllers/disruption/balanced.go
const BALANCE: f64 = 0.5;

/// Nodes that meet on machines, and these machines; or one node whose pods go where there is room.
struct Part<'a> {
    nodes: Vec<NodeId>,
    launches: Vec<&'a Launch>,
    at: Vec<usize>,
    /// Some of its pods go where there is room.
    spreads: bool,
}

fn top(leader: &mut [usize], mut at: usize) -> usize {
    while leader[at] != at {
        leader[at] = leader[leader[at]];
        at = leader[at];
    }
    at
}

fn parts<'a>(plan: &'a Plan, removed: &BTreeSet<NodeId>) -> Vec<Part<'a>> {
    let order: Vec<NodeId> = removed.iter().copied().collect();
    let position: BTreeMap<NodeId, usize> = order.iter().copied().zip(0..).collect();
    let mut leader: Vec<usize> = (0..order.len()).collect();
    let homes = |pods: &[PodRef]| -> Vec<usize> {
        let homes = pods.iter().filter_map(|pod| match pod.home {
            Home::Node(node) => position.get(&node).copied(),
            Home::Pending => None,
        });
        homes.collect()
    };
    for launch in &plan.launches {
        for pair in homes(&launch.pods).windows(2) {
            let (a, b) = (top(&mut leader, pair[0]), top(&mut leader, pair[1]));
            leader[a.max(b)] = a.min(b);
        }
    }
    let mut all: BTreeMap<usize, Part<'a>> = BTreeMap::new();
    let empty = || Part {
        nodes: Vec::new(),
        launches: Vec::new(),
        at: Vec::new(),
        spreads: false,
    };
    for (at, node) in order.iter().enumerate() {
        let lead = top(&mut leader, at);
        all.entry(lead).or_insert_with(empty).nodes.push(*node);
    }
    for (at, launch) in plan.launches.iter().enumerate() {
        if let Some(first) = homes(&launch.pods).first() {
            let part = all.entry(top(&mut leader, *first)).or_insert_with(empty);
            part.launches.push(launch);
            part.at.push(at);
        }
    }
    for placement in &plan.placements {
        for home in homes(&placement.pods) {
            let lead = top(&mut leader, home);
            all.entry(lead).or_insert_with(empty).spreads = true;
        }
    }
    all.into_values().collect()
}

fn cost(problem: &Problem, node: NodeId) -> Money {
    let price = problem.node_at(node).price.unwrap_or_default();
    price + problem.settings.node_surcharge
}

impl Part<'_> {
    fn before(&self, problem: &Problem) -> Money {
        self.nodes.iter().map(|node| cost(problem, *node)).sum()
    }

    fn after(&self, problem: &Problem) -> Money {
        let launches = self.launches.iter();
        launches
            .map(|launch| launch.purchase.price + problem.settings.node_surcharge)
            .sum()
    }

    fn min_savings(&self, problem: &Problem) -> u32 {
        let nodes = self.nodes.iter().map(|node| problem.node_at(*node));
        let pools = nodes.filter_map(|node| {
            let name = node.pool.as_ref()?;
            problem.pools.iter().find(|pool| pool.name == *name)
        });
        let asked = pools.map(|pool| pool.disruption.min_savings).max();
        asked.unwrap_or(0).max(LEAST_GAIN)
    }

    /// The least that makes it worth moving its pods.
    fn must_save(&self, problem: &Problem) -> Money {
        let share = self.before(problem).percent(self.min_savings(problem));
        share.max(self.risk(problem))
    }

    /// What pods cost that do not go where they should, if they can go to several places: the scheduler has the last
    /// word, and a tight plan has no room for a pod that another has pushed out of its place. That is one pod less than
    /// there are places. Where a pool says what a move must save, that is all it must.
    fn risk(&self, problem: &Problem) -> Money {
        let others = (self.launches.len() + usize::from(self.spreads)).saturating_sub(1);
        let buys = !self.launches.is_empty();
        if !buys || others == 0 || self.min_savings(problem) > LEAST_GAIN {
            return Money::ZERO;
        }
        let launches = self.launches.iter();
        let dearest = launches.map(|launch| worth::dearest(problem, launch)).max();
        let each = dearest.unwrap_or_default() + Money::from_nanos(1);
        each * i64::try_from(others).unwrap_or(i64::MAX)
    }

    fn spot_for_spot(&self, problem: &Problem) -> bool {
        let mut nodes = self.nodes.iter().map(|node| problem.node_at(*node));
        nodes.all(|node| node.capacity_type == CapacityType::Spot)
            && self
                .launches
                .iter()
                .any(|launch| launch.purchase.capacity_type == CapacityType::Spot)
    }
}

/// Nodes that have to stay for the rest to keep the rules, and which; empty if all is well.
pub(super) fn offenders(
    problem: &Problem,
    candidates: &[Candidate],
    forced: &Trial,
    trial: &Trial,
) -> BTreeMap<NodeId, Obstacle> {
    let by_node: BTreeMap<NodeId, &Candidate> =
        candidates.iter().map(|one| (one.node, one)).collect();
    let chosen = |nodes: &[NodeId]| -> Vec<NodeId> {
        let chosen = nodes.iter().filter(|node| !forced.removed.contains(node));
        chosen.copied().collect()
    };
    let mut back = BTreeMap::new();
    let mut moves: Vec<(Part<'_>, Vec<NodeId>)> = Vec::new();
    for part in parts(&trial.plan, &trial.removed) {
        let own = chosen(&part.nodes);
        if own.is_empty() {
            continue;
        }
        let (before, after) = (part.before(problem), part.after(problem));
        if after > before - part.must_save(problem) {
            let least = Obstacle::Saving(part.min_savings(problem));
            let poor = poorer_half(problem, &by_node, own);
            back.extend(poor.into_iter().map(|node| (node, least)));
        } else if part.spot_for_spot(problem)
            && let Some(obstacle) = spot_obstacle(problem, &by_node, &part)
        {
            back.extend(own.into_iter().map(|node| (node, obstacle)));
        } else {
            moves.push((part, own));
        }
    }
    if back.is_empty() {
        for (part, own) in moves {
            let poor = unbalanced(problem, &by_node, &part, &own);
            back.extend(poor.into_iter().map(|node| (node, Obstacle::Balanced)));
        }
    }
    back
}

/// Those that gain least for what they cost.
fn poorer_half(
    problem: &Problem,
    by_node: &BTreeMap<NodeId, &Candidate>,
    mut nodes: Vec<NodeId>,
) -> Vec<NodeId> {
    let ratio = |node: &NodeId| {
        let price = cost(problem, *node);
        let worth = by_node.get(node).map(|one| one.elsewhere.cost_or(price));
        price.dollars() / worth.unwrap_or_default().dollars().max(1e-9)
    };
    nodes.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)).then(a.cmp(b)));
    nodes.truncate(nodes.len().div_ceil(2));
    nodes
}

/// What keeps spot nodes from being replaced by spot.
fn spot_obstacle(
    problem: &Problem,
    by_node: &BTreeMap<NodeId, &Candidate>,
    part: &Part<'_>,
) -> Option<Obstacle> {
    let pools = part.nodes.iter().filter_map(|node| by_node.get(node));
    let mut pools = pools.map(|candidate| &problem.pools[candidate.pool]);
    if !pools.all(|pool| pool.disruption.spot_to_spot) {
        return Some(Obstacle::SpotToSpot);
    }
    let mut pools = part.nodes.iter().filter_map(|node| by_node.get(node));
    if pools.all(|one| problem.pools[one.pool].disruption.min_savings > 0) {
        return None;
    }
    let choice = |launch: &Launch| {
        let bought = launch.alternatives.iter().chain([&launch.purchase]);
        let types: BTreeSet<_> = bought.map(|purchase| &purchase.instance_type).collect();
        types.len()
    };
    let enough = part.nodes.len() > 1 || part.launches.iter().all(|one| choice(one) >= SPOT_CHOICE);
    (!enough).then_some(Obstacle::SpotChoice(SPOT_CHOICE))
}

/// Nodes whose pods go to machines that leave too little choice now that dear alternatives are left out.
///
/// karpenter: pkg/controllers/disruption/consolidation.go, `RemoveInstanceTypeOptionsByPriceAndMinValues`
pub(super) fn below_min_values(
    trials: &Trials<'_, '_>,
    forced: &Trial,
    trial: &Trial,
) -> BTreeSet<NodeId> {
    let launches = trial.plan.launches.iter();
    let poor = launches.filter(|launch| !trials.meets_min_values(launch));
    poor.flat_map(|launch| &launch.pods)
        .filter_map(|pod| match pod.home {
            Home::Node(node) => Some(node),
            Home::Pending => None,
        })
        .filter(|node| !forced.removed.contains(node))
        .collect()
}

/// Of each balanced pool for which a move does not save enough for the pods that it disturbs, half of the nodes. Every
/// move is judged by itself, and each pool by its share of it: what is saved elsewhere makes no other move worth more.
fn unbalanced(
    problem: &Problem,
    by_node: &BTreeMap<NodeId, &Candidate>,
    part: &Part<'_>,
    chosen: &[NodeId],
) -> Vec<NodeId> {
    let before = part.before(problem).dollars();
    let saved = before - part.after(problem).dollars();
    let mut pools: BTreeMap<usize, Vec<&Candidate>> = BTreeMap::new();
    for candidate in chosen.iter().filter_map(|node| by_node.get(node)) {
        pools.entry(candidate.pool).or_default().push(candidate);
    }
    let mut back = Vec::new();
    for (pool, own) in pools {
        if problem.pools[pool].disruption.policy != ConsolidationPolicy::Balanced {
            continue;
        }
        let all = by_node.values().filter(|one| one.pool == pool).copied();
        let (total, burden) = weight(problem, all);
        let (own_total, own_burden) = weight(problem, own.iter().copied());
        let savings = saved * own_total / before;
        let score = (savings / total) / (own_burden / burden);
        if !(savings > 0.0 && score >= BALANCE) {
            let nodes = own.iter().map(|one| one.node).collect();
            back.extend(poorer_half(problem, by_node, nodes));
        }
    }
    back
}

/// What nodes cost, and what moving their pods costs beside moving others.
fn weight<'a>(problem: &Problem, nodes: impl Iterator<Item = &'a Candidate>) -> (f64, f64) {
    nodes.fold((0.0, 0.0), |(total, burden), one| {
        let price = cost(problem, one.node).dollars();
        (total + price, burden + one.burden)
    })
}

/// Leaves out alternatives that would eat the saving up.
pub(super) fn trim_alternatives(problem: &Problem, forced: &Trial, trial: &mut Trial) {
    let mut most: BTreeMap<usize, Money> = BTreeMap::new();
    for part in parts(&trial.plan, &trial.removed) {
        // What must go may cost more afterwards.
        if part.nodes.iter().all(|node| forced.removed.contains(node)) {
            continue;
        }
        let (before, after) = (part.before(problem), part.after(problem));
        let slack = before - part.must_save(problem) - after;
        let count = i64::try_from(part.launches.len()).unwrap_or(i64::MAX);
        let each = Money::from_nanos(slack.nanos().max(0) / count.max(1));
        for (at, launch) in part.at.iter().zip(&part.launches) {
            most.insert(*at, launch.purchase.price + each);
        }
    }
    for (at, most) in most {
        let alternatives = &mut trial.plan.launches[at].alternatives;
        let cheap = |purchase: &&Purchase| purchase.price <= most;
        *alternatives = alternatives.iter().filter(cheap).cloned().collect();
    }
}
