//! A problem in dense form: numbers instead of names, sets of bits instead of comparisons, made once and solved often.

pub(crate) mod caps;
pub(crate) mod column_sets;
pub(crate) mod columns;
pub(crate) mod custom;
pub(crate) mod demand;
pub(crate) mod drain;
pub(crate) mod groups;
pub(crate) mod ids;
pub(crate) mod labels;
pub(crate) mod min_values;
pub(crate) mod nodes;
pub(crate) mod offers;
pub(crate) mod profile;
pub(crate) mod sizing;
pub(crate) mod supply;
pub(crate) mod tie_break;
pub(crate) mod variants;

use crate::labels::HOSTNAME;
use crate::name::Name;
use crate::pack::compile::columns::Column;
use crate::pack::compile::custom::CustomTypes;
use crate::pack::compile::demand::Demand;
use crate::pack::compile::groups::{GroupKind, Groups};
use crate::pack::compile::ids::{CellId, ClassId, ColumnId, DemandId, GroupId, OfferId};
use crate::pack::compile::labels::Keys;
use crate::pack::compile::min_values::MinValues;
use crate::pack::compile::nodes::ExistingNode;
use crate::pack::compile::offers::{Offer, OfferBuilder, PoolTerms};
use crate::pack::compile::profile::{Profile, Profiler, Shape};
use crate::pack::compile::supply::Supply;
use crate::pack::compile::tie_break::TieBreak;
use crate::pack::dense::bits::Bits;
use crate::pack::dense::intern::{FixedMap, Interner};
use crate::pack::dense::typed::{Id as _, IdVec};
use crate::pack::dense::vector::{Table, Vector};
use crate::plan::{Home, PodRef};
use crate::problem::{NodeId, Pod, PoolId, Problem};
use crate::taints::Effect;

/// Pods that are alike, size included.
#[derive(Clone, Debug)]
pub(crate) struct Class {
    pub(crate) profile: u32,
    pub(crate) requests: Vector,
    /// A resource that is requested and cannot be counted.
    pub(crate) uncounted: Option<Name>,
}

/// Consecutive pods of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) home: Home,
    pub(crate) group: u32,
    pub(crate) first: u32,
    pub(crate) count: u32,
}

impl Run {
    pub(crate) fn pods(self) -> impl Iterator<Item = PodRef> {
        (self.first..self.first + self.count).map(move |position| PodRef {
            home: self.home,
            group: self.group,
            position,
        })
    }
}

/// A problem, ready to be solved any number of times: as it stands, or with nodes taken away.
#[derive(Clone, Debug)]
pub(crate) struct Compiled<'p> {
    pub(crate) problem: &'p Problem,
    pub(crate) table: Table,
    pub(crate) keys: Keys,
    pub(crate) demands: Interner<Demand, DemandId>,
    pub(crate) groups: Groups,
    pub(crate) profiles: Vec<Profile<'p>>,
    pub(crate) classes: IdVec<ClassId, Class>,
    /// Class of each group of pending pods.
    pub(crate) pending: Vec<ClassId>,
    /// Class of each group of pods on each node; daemons have one too.
    pub(crate) bound: IdVec<NodeId, Vec<ClassId>>,
    pub(crate) offers: IdVec<OfferId, Offer>,
    pub(crate) tie_break: TieBreak,
    pub(crate) pools: Vec<PoolTerms>,
    /// Pools with `minValues`.
    pub(crate) min_values: MinValues,
    pub(crate) supply: Supply,
    /// Offers worth looking at, cheapest first.
    pub(crate) columns: IdVec<ColumnId, Column>,
    /// Machines of custom size.
    pub(crate) custom_types: CustomTypes,
    /// Columns that meet a demand.
    pub(crate) demand_columns: IdVec<DemandId, Bits>,
    /// Offers that meet a demand.
    pub(crate) demand_offers: IdVec<DemandId, Bits>,
    /// Nodes that meet a demand.
    pub(crate) demand_nodes: IdVec<DemandId, Bits>,
    /// Tracked keys that some rule spreads or gathers over, hosts aside.
    pub(crate) topology_keys: Vec<u32>,
    /// Distinct values of those keys.
    pub(crate) cells: Interner<Box<[u32]>, CellId>,
    pub(crate) cell_columns: IdVec<CellId, Bits>,
    /// Columns by weight of their pool, heaviest first.
    pub(crate) tiers: Vec<Bits>,
    pub(crate) nodes: IdVec<NodeId, ExistingNode>,
}

impl<'p> Compiled<'p> {
    /// Reads a problem.
    pub(crate) fn new(problem: &'p Problem) -> Self {
        Self::respecting(problem, i32::MIN)
    }

    /// Reads a problem; preferences that weigh less than `least_weight` are ignored.
    pub(crate) fn respecting(problem: &'p Problem, least_weight: i32) -> Self {
        let (table, shapes) = survey(problem);
        let daemons = || problem.daemon_sets.iter().map(|one| &*one.spec);
        let mut keys = Keys::collect(shapes.iter().map(|shape| shape.0).chain(daemons()));
        let mut groups = Groups::default();
        groups.learn_ports(shapes.iter().map(|shape| shape.0).chain(daemons()));
        let mut demands = Interner::default();
        let profiles = profile_all(problem, &shapes, &mut demands, &mut groups, least_weight);

        let mut builder = OfferBuilder::new(problem, &mut keys, &table, &demands, &groups);
        builder.build();
        let (mut offers, pools, supply) = (builder.offers, builder.pools, builder.supply);
        let tie_break = TieBreak::weigh(&mut offers);
        let mut classes = Classes::new(&shapes, &table);
        let pending = classes.of_all(&problem.pods);
        let nodes = problem.nodes.iter();
        let bound: IdVec<NodeId, Vec<ClassId>> =
            nodes.map(|node| classes.of_all(&node.pods)).collect();
        let classes = classes.list;

        let mut min_values = MinValues::new(problem, &pools);
        min_values.learn(problem, &offers);
        let topology_keys = topology_keys(&keys, &groups);
        let mut cells = Interner::default();
        let mut nodes = nodes::compile(
            problem, &mut keys, &table, &groups, &profiles, &classes, &bound,
        );
        let demand_offers = columns::admit_offers(problem, &keys, &demands, &offers);
        let admitted = |demand: &Demand| nodes::admit(demand, &keys, &nodes);
        let demand_nodes: IdVec<DemandId, Bits> = demands.iter().map(admitted).collect();
        let ports = columns::take_daemons(problem, &keys, &table, &mut groups, &mut offers);
        nodes::withhold_daemons(problem, &keys, &table, &mut groups, &mut nodes);
        for node in &mut nodes {
            node.cell = cells.id(pick(&topology_keys, &node.values));
        }
        let mut cell_of = |offer: &Offer| cells.id(pick(&topology_keys, &offer.values));
        let columns = columns::choose(
            problem,
            &min_values,
            &offers,
            &demand_offers,
            &ports,
            &mut cell_of,
        );
        let admitted =
            |offers: &Bits| over_columns(&columns, |column| offers.contains(column.offer.index()));
        let demand_columns = demand_offers.iter().map(admitted).collect();
        let cell_columns = cells
            .ids()
            .map(|cell| over_columns(&columns, |column| column.cell == cell))
            .collect();
        let tiers = tiers(problem, &pools, &columns);
        let custom_types = CustomTypes::collect(problem, &keys, &offers, &columns);
        Compiled {
            problem,
            table,
            keys,
            demands,
            groups,
            profiles,
            classes,
            pending,
            bound,
            offers: offers.into(),
            tie_break,
            pools,
            min_values,
            supply,
            columns: columns.into(),
            custom_types,
            demand_columns,
            demand_offers,
            demand_nodes,
            topology_keys,
            cells,
            cell_columns,
            tiers,
            nodes: nodes.into(),
        }
    }

    pub(crate) fn profile(&self, class: ClassId) -> &Profile<'p> {
        &self.profiles[self.classes[class].profile as usize]
    }

    /// A class by number.
    pub(crate) fn class(&self, class: ClassId) -> &Class {
        &self.classes[class]
    }

    /// A column by number.
    pub(crate) fn column(&self, column: ColumnId) -> &Column {
        &self.columns[column]
    }

    /// The class of a pod.
    pub(crate) fn class_of(&self, pod: PodRef) -> ClassId {
        match pod.home {
            Home::Pending => self.pending[pod.group as usize],
            Home::Node(node) => self.bound[node][pod.group as usize],
        }
    }

    /// A pod of the problem.
    pub(crate) fn pod(&self, home: Home, group: u32) -> &'p Pod {
        match home {
            Home::Pending => &self.problem.pods[group as usize],
            Home::Node(node) => &self.problem.node_at(node).pods[group as usize],
        }
    }
}

/// Resources and shapes of pods, bound ones included.
fn survey(problem: &Problem) -> (Table, Interner<Shape<'_>>) {
    let mut table = Table::new();
    let mut shapes = Interner::default();
    let bound = problem.nodes.iter().flat_map(|node| &node.pods);
    for pod in problem.pods.iter().chain(bound) {
        table.cover(&pod.spec.requests);
        shapes.id(Shape(&pod.spec));
    }
    for daemon in &problem.daemon_sets {
        table.cover(&daemon.spec.requests);
    }
    (table, shapes)
}

fn over_columns(columns: &[Column], test: impl Fn(&Column) -> bool) -> Bits {
    let mut bits = Bits::empty(columns.len());
    for (index, column) in columns.iter().enumerate() {
        if test(column) {
            bits.insert(index);
        }
    }
    bits
}

/// Columns by weight of their pool, heaviest first.
fn tiers(problem: &Problem, pools: &[PoolTerms], columns: &[Column]) -> Vec<Bits> {
    let weight = |pool: PoolId| problem.pool_at(pool).weight;
    let mut weights: Vec<i32> = pools.iter().map(|pool| weight(pool.pool)).collect();
    weights.sort_unstable_by(|a, b| b.cmp(a));
    weights.dedup();
    weights
        .iter()
        .map(|tier| over_columns(columns, |column| weight(column.pool) == *tier))
        .collect()
}

fn profile_all<'p>(
    problem: &'p Problem,
    shapes: &Interner<Shape<'p>>,
    demands: &mut Interner<Demand, DemandId>,
    groups: &mut Groups,
    least_weight: i32,
) -> Vec<Profile<'p>> {
    let pools = problem.pools.iter().flat_map(|pool| &pool.taints);
    let nodes = problem.nodes.iter().flat_map(|node| &node.taints);
    let prefer_taints = pools
        .chain(nodes)
        .any(|taint| taint.effect == Effect::PreferNoSchedule);
    let mut profiler = Profiler {
        problem,
        demands,
        groups,
        prefer_taints,
        least_weight,
    };
    let mut profiles: Vec<Profile<'p>> = shapes
        .iter()
        .map(|shape| profiler.profile(shape.0))
        .collect();
    groups.index();
    let tangled: Vec<GroupId> = profiles
        .iter()
        .flat_map(|profile| &profile.levels)
        .filter(|level| !level.rules.is_empty())
        .flat_map(|level| level.host_affinity.iter().map(|rule| rule.group))
        .collect();
    for profile in &mut profiles {
        profile.complete(groups, &tangled);
    }
    profiles
}

/// Numbers classes.
struct Classes<'a, 'p> {
    shapes: &'a Interner<Shape<'p>>,
    table: &'a Table,
    ids: FixedMap<(u32, Vector), ClassId>,
    list: IdVec<ClassId, Class>,
}

impl<'a, 'p> Classes<'a, 'p> {
    fn new(shapes: &'a Interner<Shape<'p>>, table: &'a Table) -> Self {
        Classes {
            shapes,
            table,
            ids: FixedMap::default(),
            list: IdVec::default(),
        }
    }

    fn of_all(&mut self, pods: &'p [Pod]) -> Vec<ClassId> {
        pods.iter().map(|pod| self.of(pod)).collect()
    }

    fn of(&mut self, pod: &'p Pod) -> ClassId {
        let known = self.shapes.find(&Shape(&pod.spec));
        debug_assert!(known.is_some(), "a pod that was not surveyed: {}", pod.name);
        let profile = known.unwrap_or(0);
        let requests = self.table.vector(&pod.spec.requests);
        let next = ClassId::at(self.list.len());
        let id = *self.ids.entry((profile, requests)).or_insert(next);
        if id == next {
            let uncounted = self.table.uncovered(&pod.spec.requests).map(Name::from);
            self.list.push(Class {
                profile,
                requests,
                uncounted,
            });
        }
        id
    }
}

/// Keys over which some pod's rule spreads, gathers or separates, hosts aside.
fn topology_keys(keys: &Keys, groups: &Groups) -> Vec<u32> {
    let mut found: Vec<u32> = groups
        .all
        .iter()
        .filter(|group| !group.is_host() && group.kind != GroupKind::Port)
        .filter_map(|group| keys.find(&group.key))
        .collect();
    found.sort_unstable();
    found.dedup();
    debug_assert!(keys.find(HOSTNAME).is_none_or(|id| !found.contains(&id)));
    found
}

fn pick(topology_keys: &[u32], values: &[u32]) -> Box<[u32]> {
    topology_keys
        .iter()
        .map(|key| values[*key as usize])
        .collect()
}
