//! Binding simulated: pods of a plan take their places one by one, and a pod that never finds its rules met becomes
//! unplaced.
//!
//! Domains were chosen pod by pod, so their order holds by itself, with two exceptions: pods that were counted on and
//! found no machine, and pods that must share a host with others, whose host is known only now.

use std::collections::VecDeque;

use crate::pack::assign::topology::Topology;
use crate::pack::compile::Compiled;
use crate::pack::compile::drain::is_counted;
use crate::pack::compile::groups::GroupKind;
use crate::pack::compile::ids::{CellId, ClassId, ColumnId, DemandId, GroupId};
use crate::pack::dense::intern::{FixedMap, Interner};
use crate::pack::dense::typed::Id as _;
use crate::pack::output::reasons;
use crate::pack::scenario::Scenario;
use crate::plan::{Plan, PodRef, Reason, Unplaced};

/// Where a pod of the plan goes: a node by index, or a launch by index beyond the nodes.
type SiteId = usize;

/// Gives the plan an order of binding that holds; pods without a turn become unplaced. `columns` are those of the
/// launches; `lost` are pods whose machine cannot be had. Says how many have no place in the end.
pub(crate) fn order_bindings(
    compiled: &Compiled<'_>,
    scenario: &Scenario,
    plan: &mut Plan,
    columns: &[ColumnId],
    mut lost: Vec<(PodRef, Reason)>,
) -> usize {
    let mut simulation = BindSimulation::new(compiled, scenario, columns);
    let gone: FixedMap<PodRef, ()> = lost.iter().map(|(pod, _)| (*pod, ())).collect();
    for (pod, site) in given_order(compiled, plan) {
        if !gone.contains_key(&pod) {
            simulation.call(pod, site);
        }
    }
    lost.extend(simulation.lost());
    if !plan.order.is_empty() {
        plan.order = std::mem::take(&mut simulation.bound);
    }
    let count = lost.len();
    unplace(compiled, plan, lost);
    count
}

/// Pods in the plan's order, each with its site.
fn given_order(compiled: &Compiled<'_>, plan: &Plan) -> Vec<(PodRef, SiteId)> {
    let nodes = compiled.problem.nodes.iter().enumerate();
    let by_name: FixedMap<&str, SiteId> = nodes.map(|(index, node)| (&*node.name, index)).collect();
    let mut sites: FixedMap<PodRef, SiteId> = FixedMap::default();
    for placement in &plan.placements {
        if let Some(site) = by_name.get(&*placement.node) {
            sites.extend(placement.pods.iter().map(|pod| (*pod, *site)));
        }
    }
    for (index, launch) in plan.launches.iter().enumerate() {
        let site = compiled.nodes.len() + index;
        sites.extend(launch.pods.iter().map(|pod| (*pod, site)));
    }
    let order = plan.order.iter();
    order
        .filter_map(|pod| Some((*pod, *sites.get(pod)?)))
        .collect()
}

/// The cluster while pods are bound.
struct BindSimulation<'a, 'p> {
    compiled: &'a Compiled<'p>,
    /// Columns of the launches.
    columns: &'a [ColumnId],
    topology: Topology,
    /// Pods that a group about hosts counts, by group and site.
    neighbours: FixedMap<(GroupId, SiteId), u32>,
    /// The same, by group.
    anywhere: FixedMap<GroupId, u32>,
    /// Pods that were called in vain, alike ones together.
    kinds: Interner<(ClassId, SiteId), usize>,
    waiting: Vec<VecDeque<PodRef>>,
    bound: Vec<PodRef>,
}

impl<'a, 'p> BindSimulation<'a, 'p> {
    fn new(compiled: &'a Compiled<'p>, scenario: &Scenario, columns: &'a [ColumnId]) -> Self {
        let mut simulation = BindSimulation {
            compiled,
            columns,
            topology: Topology::new(compiled, &scenario.removed),
            neighbours: FixedMap::default(),
            anywhere: FixedMap::default(),
            kinds: Interner::default(),
            waiting: Vec::new(),
            bound: Vec::new(),
        };
        for (node, classes) in compiled.bound.pairs() {
            let pods = &compiled.problem.node_at(node).pods;
            for (pod, class) in pods.iter().zip(classes) {
                if is_counted(compiled.problem, &scenario.removed, node, pod) {
                    simulation.count_neighbour(*class, node.index(), pod.count);
                }
            }
        }
        simulation
    }

    /// Records pods as neighbours of others on their host.
    fn count_neighbour(&mut self, class: ClassId, site: SiteId, count: u32) {
        let compiled = self.compiled;
        for group in &compiled.profile(class).matched {
            let known = compiled.groups.all.get(*group);
            if known.is_host() && known.kind == GroupKind::Affinity {
                *self.neighbours.entry((*group, site)).or_insert(0) += count;
                *self.anywhere.entry(*group).or_insert(0) += count;
            }
        }
    }

    fn cell(&self, site: SiteId) -> CellId {
        let nodes = &self.compiled.nodes;
        if let Some(node) = nodes.get(site) {
            return node.cell;
        }
        let column = self.columns[site - nodes.len()];
        self.compiled.column(column).cell
    }

    fn may_come(&self, class: ClassId, site: SiteId) -> bool {
        let profile = self.compiled.profile(class);
        // Preferences were respected when the place was chosen; only rules can still keep a pod away.
        let Some(level) = profile.levels.last() else {
            return true;
        };
        level.host_affinity.iter().all(|rule| {
            self.neighbours.contains_key(&(rule.group, site))
                || (rule.own && !self.anywhere.contains_key(&rule.group))
        }) && (!profile.anchored
            || self
                .topology
                .allows(self.compiled, profile, level, self.cell(site)))
    }

    /// A pod's turn: it is bound, or waits. Whenever a pod was bound, those that wait are tried again.
    fn call(&mut self, pod: PodRef, site: SiteId) {
        let class = self.compiled.class_of(pod);
        if !self.may_come(class, site) {
            let kind = self.kinds.id((class, site));
            if kind == self.waiting.len() {
                self.waiting.push(VecDeque::new());
            }
            self.waiting[kind].push_back(pod);
            return;
        }
        self.bind(pod, class, site);
        let mut kind = 0;
        while kind < self.waiting.len() {
            let (class, site) = *self.kinds.get(kind);
            match self.waiting[kind].front().copied() {
                Some(first) if self.may_come(class, site) => {
                    self.waiting[kind].pop_front();
                    self.bind(first, class, site);
                    kind = 0;
                }
                _ => kind += 1,
            }
        }
    }

    fn bind(&mut self, pod: PodRef, class: ClassId, site: SiteId) {
        let compiled = self.compiled;
        self.count_neighbour(class, site, 1);
        self.bound.push(pod);
        let profile = compiled.profile(class);
        if let Some(level) = profile.levels.last() {
            let cell = self.cell(site);
            let nodes = compiled.nodes.len();
            let columns = self.columns;
            let counted = |filter: DemandId| match site.checked_sub(nodes) {
                None => compiled.demand_nodes[filter].contains(site),
                Some(launch) => compiled.demand_columns[filter].contains(columns[launch].index()),
            };
            self.topology
                .add(compiled, profile, level, cell, 1, counted);
        }
    }

    /// Pods that still wait, and why.
    fn lost(&mut self) -> Vec<(PodRef, Reason)> {
        let waiting: Vec<PodRef> = self.waiting.iter_mut().flat_map(std::mem::take).collect();
        let reason =
            |pod| reasons::no_place(self.compiled, self.compiled.class_of(pod), &self.topology);
        waiting.into_iter().map(|pod| (pod, reason(pod))).collect()
    }
}

/// Takes pods out of the plan, and machines that no pod is left for.
fn unplace(compiled: &Compiled<'_>, plan: &mut Plan, lost: Vec<(PodRef, Reason)>) {
    if lost.is_empty() {
        return;
    }
    let mut gone: Vec<PodRef> = lost.iter().map(|(pod, _)| *pod).collect();
    gone.sort_unstable();
    let stays = |pod: &PodRef| gone.binary_search(pod).is_err();
    for placement in &mut plan.placements {
        placement.pods.retain(stays);
    }
    plan.placements.retain(|one| !one.pods.is_empty());
    for launch in &mut plan.launches {
        for pod in launch.pods.iter().filter(|pod| !stays(pod)) {
            let spec = &compiled.pod(pod.home, pod.group).spec;
            launch.requests.subtract(&spec.requests);
        }
        launch.pods.retain(stays);
    }
    let surcharge = compiled.problem.settings.node_surcharge;
    plan.launches.retain(|launch| {
        if launch.pods.is_empty() {
            plan.cost = plan.cost - launch.purchase.price - surcharge;
        }
        !launch.pods.is_empty()
    });
    plan.lower_bound = plan.lower_bound.min(plan.cost);
    for (pod, reason) in lost {
        match plan.unplaced.iter_mut().find(|one| one.reason == reason) {
            Some(same) => same.pods.push(pod),
            None => plan.unplaced.push(Unplaced {
                pods: vec![pod],
                reason,
            }),
        }
    }
}
