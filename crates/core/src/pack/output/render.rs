//! From dense numbers back to a plan that people and controllers read.

use std::collections::VecDeque;

use crate::money::Money;
use crate::name::Name;
use crate::pack::assign::{ANYWHERE, Assignment, LotId, Place};
use crate::pack::compile::Compiled;
use crate::pack::compile::ids::{ClassId, ColumnId, DemandId};
use crate::pack::compile::offers::{Offer, Sold};
use crate::pack::compile::sizing;
use crate::pack::dense::typed::IdVec;
use crate::pack::output::alternatives::{Alternatives, Machine};
use crate::pack::output::node_labels::node_labels;
use crate::pack::output::reasons;
use crate::pack::packing::{Bin, Packing};
use crate::plan::{Launch, Placement, Plan, PodRef, Reason, Unplaced};
use crate::problem::NodeId;
use crate::resources::Resources;

/// Writes a plan down; says beside it which column each launch is.
pub(crate) fn plan(
    compiled: &Compiled<'_>,
    assignment: &Assignment,
    packing: &Packing,
    lower_bound: Money,
) -> (Plan, Vec<ColumnId>) {
    let mut refs = References::new(assignment);
    let mut plan = Plan {
        lower_bound,
        ..Plan::default()
    };
    refs.anchored(assignment, packing, &mut plan.order);
    let mut on_nodes: IdVec<NodeId, Vec<PodRef>> = std::mem::take(&mut refs.on_nodes);
    on_nodes.resize(compiled.nodes.len(), Vec::new());
    for (node, class, count) in &assignment.on_nodes {
        if !compiled.profile(*class).anchored {
            let pods = refs.take(*class, *count);
            on_nodes[*node].extend(pods);
        }
    }
    refs.fill_lots(compiled, assignment, packing);
    let mut alternatives = Alternatives::new(compiled, packing.ledger.clone());
    let mut launches: Vec<(Launch, ColumnId)> = Vec::with_capacity(packing.bins.len());
    for bin in &packing.bins {
        let launch = launch(compiled, assignment, bin, &mut refs, &mut alternatives);
        plan.cost += launch.purchase.price + compiled.problem.settings.node_surcharge;
        launches.push((launch, bin.column));
    }
    launches.sort_by(|(a, _), (b, _)| {
        let key = |one: &Launch| (one.pods.first().copied(), one.purchase.price);
        key(a).cmp(&key(b))
    });
    let (launches, columns) = launches.into_iter().unzip();
    plan.launches = launches;
    let mut nodes: Vec<NodeId> = on_nodes.ids().collect();
    nodes.sort_by_key(|node| compiled.nodes[*node].order);
    for node in nodes {
        let pods = std::mem::take(&mut on_nodes[node]);
        if !pods.is_empty() {
            plan.placements.push(Placement {
                node: compiled.problem.node_at(node).name.clone(),
                pods,
            });
        }
    }
    plan.unplaced = unplaced(compiled, assignment, packing, &mut refs);
    refs.debug_check();
    if has_rules(compiled, assignment) {
        finish_order(compiled, &mut plan);
    } else {
        plan.order.clear();
    }
    (plan, columns)
}

/// Whether any pod of the plan has rules that depend on the order of binding.
fn has_rules(compiled: &Compiled<'_>, assignment: &Assignment) -> bool {
    assignment.queues.iter().any(|queue| {
        let profile = compiled.profile(queue.class);
        let ordered = |level: &crate::pack::compile::profile::Level| {
            !level.host_affinity.is_empty()
                || level
                    .caps
                    .iter()
                    .any(|cap| cap.most != crate::pack::compile::profile::NO_CAP)
        };
        profile.anchored || profile.levels.iter().any(ordered)
    })
}

/// Pods whose turn does not matter come after those whose turn does; those that must be near others come last of their
/// priority.
fn finish_order(compiled: &Compiled<'_>, plan: &mut Plan) {
    let mut seen: Vec<PodRef> = plan.order.clone();
    seen.sort_unstable();
    let mut rest: Vec<PodRef> = plan
        .placed()
        .filter(|pod| seen.binary_search(pod).is_err())
        .collect();
    let profile = |pod: &PodRef| compiled.profile(compiled.class_of(*pod));
    let host_affinity = |pod: &PodRef| {
        let last = profile(pod).levels.last();
        last.is_some_and(|level| !level.host_affinity.is_empty())
    };
    if rest.iter().any(host_affinity) {
        rest.sort_by_key(|pod| {
            (
                std::cmp::Reverse(profile(pod).spec.priority),
                host_affinity(pod),
            )
        });
    }
    plan.order.extend(rest);
}

/// Hands out the pods of each class, oldest first.
struct References {
    queues: Vec<VecDeque<PodRef>>,
    index: crate::pack::dense::intern::FixedMap<ClassId, usize>,
    on_nodes: IdVec<NodeId, Vec<PodRef>>,
    lots: IdVec<LotId, VecDeque<PodRef>>,
}

impl References {
    fn new(assignment: &Assignment) -> Self {
        let mut index = crate::pack::dense::intern::FixedMap::default();
        let mut queues: Vec<VecDeque<PodRef>> = Vec::new();
        for queue in &assignment.queues {
            let at = *index.entry(queue.class).or_insert_with(|| {
                queues.push(VecDeque::new());
                queues.len() - 1
            });
            queues[at].extend(queue.runs.iter().flat_map(|run| run.pods()));
        }
        References {
            queues,
            index,
            on_nodes: IdVec::default(),
            lots: IdVec::filled(VecDeque::new(), assignment.lots.len()),
        }
    }

    /// Every pod that waited is in the plan, with a place or a reason.
    fn debug_check(&self) {
        let mut queues = self.queues.iter().chain(&self.lots);
        debug_assert!(
            queues.all(VecDeque::is_empty),
            "pods were lost on the way from the packing to the plan"
        );
    }

    fn take(&mut self, class: ClassId, count: u32) -> Vec<PodRef> {
        let Some(at) = self.index.get(&class) else {
            debug_assert!(count == 0, "no pod of class {class} waits");
            return Vec::new();
        };
        drained(&mut self.queues[*at], count)
    }

    /// Anchored pods in order of binding.
    fn anchored(&mut self, assignment: &Assignment, packing: &Packing, order: &mut Vec<PodRef>) {
        let mut open: IdVec<LotId, u32> = assignment
            .lots
            .iter()
            .zip(&packing.left)
            .map(|(lot, left)| lot.count - left)
            .collect();
        for event in &assignment.events {
            if let Place::Lot(lot) = event.place {
                let open = &mut open[lot];
                if *open == 0 {
                    continue;
                }
                *open -= 1;
            }
            let pods = self.take(event.class, 1);
            order.extend(&pods);
            match event.place {
                Place::Node(node) => {
                    if self.on_nodes.find(node).is_none() {
                        self.on_nodes.resize(node.index() + 1, Vec::new());
                    }
                    self.on_nodes[node].extend(pods);
                }
                Place::Lot(lot) => self.lots[lot].extend(pods),
            }
        }
    }

    fn fill_lots(&mut self, compiled: &Compiled<'_>, assignment: &Assignment, packing: &Packing) {
        for (index, lot) in assignment.lots.pairs() {
            if !compiled.profile(lot.class).anchored {
                let pods = self.take(lot.class, lot.count - packing.left[index]);
                self.lots[index].extend(pods);
            }
        }
    }
}

/// The first pods of a queue. Nothing is placed that does not wait.
fn drained(queue: &mut VecDeque<PodRef>, count: u32) -> Vec<PodRef> {
    let known = queue.len();
    debug_assert!(
        count as usize <= known,
        "{count} of {known} pods are placed"
    );
    queue.drain(..known.min(count as usize)).collect()
}

fn launch(
    compiled: &Compiled<'_>,
    assignment: &Assignment,
    bin: &Bin,
    refs: &mut References,
    alternatives: &mut Alternatives<'_, '_>,
) -> Launch {
    let column = compiled.column(bin.column);
    let offer = &compiled.offers[column.offer];
    let mut pods = Vec::new();
    let mut requests = Resources::new();
    for (lot, count) in &bin.pods {
        for pod in drained(&mut refs.lots[*lot], *count) {
            requests.add(&compiled.pod(pod.home, pod.group).spec.requests);
            pods.push(pod);
        }
    }
    let custom = compiled.custom_types.of(bin.column);
    let daemons = match custom {
        Some(custom_type) => compiled.custom_types.all[custom_type as usize]
            .daemons
            .clone(),
        None => daemons(compiled, offer),
    };
    requests.add(&daemons);
    let (capacity, price) = size(compiled, offer, &requests);
    let mut allowed = compiled.demand_offers[demand_of(compiled, assignment, bin, 0)].clone();
    for position in 1..bin.pods.len() {
        allowed.intersect(&compiled.demand_offers[demand_of(compiled, assignment, bin, position)]);
    }
    let bound = |(lot, _): &(LotId, u32)| assignment.lots[*lot].cell != ANYWHERE;
    let bound = bin.pods.iter().any(bound);
    let exact = custom.and_then(|custom_type| compiled.fitted(custom_type, &bin.load));
    let uses = exact.as_ref().map_or(&offer.uses, |exact| &exact.uses);
    let (alternatives, reason) = alternatives.of(&Machine {
        offer,
        uses,
        load: &bin.load,
        allowed: &allowed,
        bound,
    });
    Launch {
        pool: compiled.problem.pool_at(offer.pool).name.clone(),
        purchase: offer.purchase(compiled.problem, price),
        alternatives,
        labels: node_labels(compiled, offer),
        capacity,
        requests,
        pods,
        reason,
    }
}

fn demand_of(
    compiled: &Compiled<'_>,
    assignment: &Assignment,
    bin: &Bin,
    position: usize,
) -> DemandId {
    let (lot, _) = bin.pods[position];
    let lot = &assignment.lots[lot];
    compiled.profile(lot.class).levels[lot.level].demand
}

fn daemons(compiled: &Compiled<'_>, offer: &Offer) -> Resources {
    let Sold::Fixed(one, _) = offer.sold(compiled.problem) else {
        return Resources::new();
    };
    let taken = compiled.table.vector(&one.allocatable()).minus(&offer.room);
    (0..compiled.table.width())
        .filter(|index| taken.0[*index] != 0)
        .map(|index| (Name::from(compiled.table.name(index)), taken.0[index]))
        .collect()
}

/// What the machine has and costs: one of custom size has what its pods and daemons need.
fn size(compiled: &Compiled<'_>, offer: &Offer, requests: &Resources) -> (Resources, Money) {
    match offer.sold(compiled.problem) {
        Sold::Fixed(one, _) => (one.capacity.clone(), offer.price),
        Sold::Custom(range, node) => {
            let Some(size) = sizing::fit(range, node, requests) else {
                return (range.max.clone(), offer.price);
            };
            let price = sizing::price(range, &size);
            (size, price)
        }
    }
}

fn unplaced(
    compiled: &Compiled<'_>,
    assignment: &Assignment,
    packing: &Packing,
    refs: &mut References,
) -> Vec<Unplaced> {
    let mut all: Vec<Unplaced> = Vec::new();
    let mut add = |pods: Vec<PodRef>, reason: Reason| {
        if pods.is_empty() {
            return;
        }
        match all.iter_mut().find(|one| one.reason == reason) {
            Some(same) => same.pods.extend(pods),
            None => all.push(Unplaced { pods, reason }),
        }
    };
    for (class, count) in &assignment.failed {
        let pods = refs.take(*class, *count);
        let reason = reasons::no_place(compiled, *class, &assignment.topology);
        add(pods, reason);
    }
    for (lot, left) in assignment.lots.iter().zip(&packing.left) {
        if *left > 0 {
            let pods = refs.take(lot.class, *left);
            let reason = reasons::not_packed(compiled, lot, &packing.ledger);
            add(pods, reason);
        }
    }
    all
}
