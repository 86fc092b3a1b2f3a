//! Before anything is packed: pods onto nodes that are there, and a domain for every pod that has rules about domains.
//!
//! Pods come in order of priority, size and age. Each goes to the first node that can take it, or with others that suit
//! it to a node that has the room for just these ([`mix`]); a pod with rules about
//! domains that finds no node is given the cheapest domain that its rules allow now. What is left are *lots*: pods of
//! one class that may all use the same columns. If packing runs out of something scarce, pods are assigned once more
//! with what it has shown ([`LotLimits`]).

mod host_affinity;
mod lot_limits;
pub(crate) mod mix;
#[cfg(test)]
mod tests;
pub(crate) mod topology;

use crate::pack::assign::topology::Topology;
use crate::pack::compile::Compiled;
use crate::pack::compile::caps;
use crate::pack::compile::column_sets::{NOTHING, SetId, Sets};
use crate::pack::compile::groups::GroupKind;
use crate::pack::compile::ids::{CellId, ClassId, ColumnId, DemandId, GroupId, LevelId};
use crate::pack::compile::nodes::ExistingNode;
use crate::pack::compile::profile::Level;
use crate::pack::dense::bits::Bits;
use crate::pack::dense::intern::FixedMap;
use crate::pack::dense::typed::{Id as _, IdVec, ids};
use crate::pack::dense::vector::Vector;
use crate::pack::scenario::{Queue, Scenario};
use crate::problem::NodeId;

pub(crate) use lot_limits::LotLimits;

ids! {
    /// The number of a lot.
    LotId;
}

/// Any cell will do.
pub(crate) const ANYWHERE: CellId = CellId(u32::MAX);

/// Pods of one class that need a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lot {
    pub(crate) class: ClassId,
    pub(crate) level: LevelId,
    pub(crate) set: SetId,
    pub(crate) cell: CellId,
    pub(crate) count: u32,
}

/// Where an anchored pod goes, in order of binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Node(NodeId),
    Lot(LotId),
}

/// An anchored pod takes its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) class: ClassId,
    pub(crate) level: LevelId,
    pub(crate) place: Place,
}

/// Pods of one class whose turn it is.
#[derive(Clone, Copy, Debug)]
struct Turn {
    class: ClassId,
    count: u32,
    running: bool,
}

/// How nodes that are there are filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeFilling {
    /// Class by class.
    ByClass,
    /// With pods that go well together.
    Mixed,
}

/// What was decided before packing.
#[derive(Clone, Debug)]
pub(crate) struct Assignment {
    /// All pods, in order of priority, size and age.
    pub(crate) queues: Vec<Queue>,
    pub(crate) lots: IdVec<LotId, Lot>,
    /// Pods put on nodes: node, class, count.
    pub(crate) on_nodes: Vec<(NodeId, ClassId, u32)>,
    /// Anchored pods in order of binding.
    pub(crate) events: Vec<Event>,
    /// Pods that find no place at all: class and count.
    pub(crate) failed: Vec<(ClassId, u32)>,
    /// Pods of each lot for which no machine was found so far. They come last and no rule counts on them.
    pub(crate) surplus: IdVec<LotId, u32>,
    pub(crate) topology: Topology,
}

impl Assignment {
    /// What assigning promises to packing, in debug builds: every pod that waits is on a node, in a lot or has failed.
    fn debug_check(&self) {
        let queues: u64 = self.queues.iter().map(|one| u64::from(one.count)).sum();
        let lots: u64 = self.lots.iter().map(|one| u64::from(one.count)).sum();
        let nodes: u64 = self.on_nodes.iter().map(|one| u64::from(one.2)).sum();
        let failed: u64 = self.failed.iter().map(|one| u64::from(one.1)).sum();
        debug_assert_eq!(queues, lots + nodes + failed, "pods were lost or doubled");
    }

    /// Whether the order found here may not hold for what was packed: pods that others count on have no machine, or
    /// pods must share a host that only packing gave them.
    pub(crate) fn needs_bind_simulation(
        &self,
        compiled: &Compiled<'_>,
        left: &IdVec<LotId, u32>,
    ) -> bool {
        let short = |((id, lot), left): ((LotId, &Lot), &u32)| {
            let surplus = self.surplus.find(id).is_some_and(|count| *count > 0);
            (*left > 0 || surplus) && compiled.profile(lot.class).anchored
        };
        let host_affinity = |queue: &Queue| {
            let levels = &compiled.profile(queue.class).levels;
            levels
                .last()
                .is_some_and(|level| !level.host_affinity.is_empty())
        };
        let mut lots = self.lots.pairs().zip(left);
        lots.any(short) || self.queues.iter().any(host_affinity)
    }
}

/// State while pods are assigned.
pub(crate) struct Assigner<'a, 'p> {
    compiled: &'a Compiled<'p>,
    sets: &'a mut Sets,
    lot_limits: &'a LotLimits,
    nodes: IdVec<NodeId, ExistingNode>,
    /// Usable hosts in order.
    order: Vec<NodeId>,
    /// Hosts closed to pods that already run somewhere.
    closed_to_running: &'a Bits,
    /// Hosts whose pods look for another place.
    removed: &'a Bits,
    out: Assignment,
    lot_index: FixedMap<(ClassId, LevelId, SetId), LotId>,
    /// Cheapest share of a machine by class, level, cell and tier of pools.
    shares: FixedMap<(ClassId, LevelId, CellId, usize), (SetId, i64)>,
    buys: bool,
    /// Less important pods have not had their turn yet.
    others_come: bool,
    /// The pods at hand run somewhere now.
    running: bool,
}

impl<'a, 'p> Assigner<'a, 'p> {
    pub(crate) fn new(
        compiled: &'a Compiled<'p>,
        sets: &'a mut Sets,
        scenario: &'a Scenario,
        lot_limits: &'a LotLimits,
    ) -> Self {
        let removed = &scenario.removed;
        let usable = |node: &NodeId| {
            !removed.contains(node.index())
                && !scenario.closed.contains(node.index())
                && !compiled.problem.node_at(*node).deleting
        };
        let mut order: Vec<NodeId> = compiled.nodes.ids().filter(usable).collect();
        order.sort_by_key(|node| compiled.nodes[*node].order);
        Assigner {
            compiled,
            sets,
            lot_limits,
            nodes: compiled.nodes.clone(),
            order,
            closed_to_running: &scenario.closed_to_running,
            removed,
            out: Assignment {
                queues: scenario.queues(compiled),
                lots: IdVec::default(),
                on_nodes: Vec::new(),
                events: Vec::new(),
                failed: Vec::new(),
                surplus: IdVec::default(),
                topology: Topology::new(compiled, removed),
            },
            lot_index: FixedMap::default(),
            shares: FixedMap::default(),
            buys: scenario.buys,
            others_come: false,
            running: false,
        }
    }

    pub(crate) fn run(mut self, node_filling: NodeFilling) -> Assignment {
        let queues = self.out.queues.iter();
        let turn = |queue: &Queue| Turn {
            class: queue.class,
            count: queue.count,
            running: queue.running,
        };
        let mut turns: Vec<Turn> = queues.map(turn).collect();
        if node_filling == NodeFilling::Mixed {
            self.mix(&mut turns);
        }
        // Pods with affinity come after the pods that they need, within one priority.
        let mut waiting: Vec<Turn> = Vec::new();
        let compiled = self.compiled;
        let priority = |turn: &Turn| compiled.profile(turn.class).spec.priority;
        for alike in turns.chunk_by(|a, b| priority(a) == priority(b)) {
            let last = alike.last().zip(turns.last());
            self.others_come = last.is_some_and(|(own, all)| priority(own) > priority(all));
            for turn in alike {
                if self.has_affinity(turn.class) {
                    waiting.push(*turn);
                    continue;
                }
                self.running = turn.running;
                let left = self.place(turn.class, turn.count);
                if left > 0 {
                    self.out.failed.push((turn.class, left));
                }
            }
            self.retry_waiting(&mut waiting);
        }
        let stranded = waiting.into_iter().map(|turn| (turn.class, turn.count));
        self.out.failed.extend(stranded);
        if !self.lot_limits.is_empty() {
            let failed = std::mem::take(&mut self.out.failed);
            for (class, count) in failed {
                if !self.place_surplus(class, count) {
                    self.out.failed.push((class, count));
                }
            }
        }
        self.out.debug_check();
        self.out
    }

    /// A pod may wait for one that itself waits: tries again until no pod finds a place any more.
    fn retry_waiting(&mut self, waiting: &mut Vec<Turn>) {
        loop {
            let before: u32 = waiting.iter().map(|turn| turn.count).sum();
            for turn in waiting.iter_mut() {
                self.running = turn.running;
                turn.count = self.place(turn.class, turn.count);
            }
            waiting.retain(|turn| turn.count > 0);
            let after: u32 = waiting.iter().map(|turn| turn.count).sum();
            if after == 0 || after == before {
                break;
            }
        }
    }

    fn has_affinity(&self, class: ClassId) -> bool {
        let profile = self.compiled.profile(class);
        let first = profile.levels.find(self.lot_limits.first_level(profile));
        first
            .is_some_and(|level| !level.host_affinity.is_empty() || self.has_domain_affinity(level))
    }

    fn has_domain_affinity(&self, level: &Level) -> bool {
        level
            .rules
            .iter()
            .any(|rule| self.compiled.groups.all.get(rule.group).kind == GroupKind::Affinity)
    }

    /// Finds places for pods of a class; returns how many have none.
    fn place(&mut self, class: ClassId, count: u32) -> u32 {
        let compiled = self.compiled;
        let profile = compiled.profile(class);
        if profile.invalid.is_some() || compiled.class(class).uncounted.is_some() {
            return count;
        }
        let mut left = count;
        if profile.anchored {
            while left > 0 && self.place_anchored(class, left) {
                left -= 1;
            }
            return left;
        }
        let first = self.lot_limits.first_level(profile).index();
        for (index, level) in profile.levels.pairs().skip(first) {
            left = self.fill_nodes(class, index, left);
            if left == 0 {
                return 0;
            }
            if !level.host_affinity.is_empty() {
                let set = self.base(class, index, None, 0);
                left -= self.start_group(class, index, set, left);
            }
            left = self.buy(class, index, left);
            if left == 0 {
                return 0;
            }
        }
        left
    }

    /// Puts pods into lots, those of the heaviest pools first; returns how many can have no machine.
    fn buy(&mut self, class: ClassId, level: LevelId, count: u32) -> u32 {
        if !self.may_buy(&self.compiled.profile(class).levels[level]) {
            return count;
        }
        let mut left = count;
        for tier in 0.. {
            let set = self.base(class, level, None, tier);
            if left == 0 || set == NOTHING {
                break;
            }
            let take = left.min(self.limit_left(class, level, set));
            if take > 0 {
                self.lot(class, level, set, ANYWHERE, take);
                left -= take;
            }
        }
        left
    }

    /// Pods for which packing has found no machine so far may still find one: they are sent where machines would suit
    /// them, whether or not there are any left, and no rule counts on them.
    fn place_surplus(&mut self, class: ClassId, count: u32) -> bool {
        let compiled = self.compiled;
        let profile = compiled.profile(class);
        let Some(level) = profile.levels.ids().next_back() else {
            return false;
        };
        let uncounted = compiled.class(class).uncounted.is_some();
        if uncounted || !self.may_buy(&profile.levels[level]) {
            return false;
        }
        let lot = if profile.anchored {
            let mut allowed = self.allowed(class, level);
            self.keep_to_host_affinity(&profile.levels[level], &mut allowed);
            let cells = compiled.cells.ids().filter(|cell| allowed[*cell]);
            let sold = cells.filter_map(|cell| {
                let (set, share) = self.share(class, level, cell, 0)?;
                Some((share, cell, set))
            });
            let Some((_, cell, set)) = sold.min() else {
                return false;
            };
            let (set, _) = self.counted(class, set);
            self.lot(class, level, set, cell, count)
        } else {
            let set = self.base(class, level, None, 0);
            if set == NOTHING {
                return false;
            }
            self.lot(class, level, set, ANYWHERE, count)
        };
        if profile.anchored {
            let event = Event {
                class,
                level,
                place: Place::Lot(lot),
            };
            let again = std::iter::repeat_n(event, count as usize);
            self.out.events.extend(again);
        }
        self.out.surplus.resize(self.out.lots.len(), 0);
        self.out.surplus[lot] += count;
        true
    }

    fn base(&mut self, class: ClassId, level: LevelId, cell: Option<CellId>, tier: usize) -> SetId {
        if !self.buys {
            return NOTHING;
        }
        self.sets.base(self.compiled, class, level, cell, tier)
    }

    /// How many more pods of a lot can have a machine.
    fn limit_left(&self, class: ClassId, level: LevelId, set: SetId) -> u32 {
        let most = self.lot_limits.of(class, level, set);
        let lot = self.lot_index.get(&(class, level, set));
        let present = lot.map_or(0, |lot| self.out.lots[*lot].count);
        most.saturating_sub(present)
    }

    fn lot(
        &mut self,
        class: ClassId,
        level: LevelId,
        set: SetId,
        cell: CellId,
        count: u32,
    ) -> LotId {
        let next = LotId::at(self.out.lots.len());
        let index = *self.lot_index.entry((class, level, set)).or_insert(next);
        if index == next {
            self.out.lots.push(Lot {
                class,
                level,
                set,
                cell,
                count: 0,
            });
        }
        self.out.lots[index].count += count;
        index
    }

    /// Puts as many pods of a class as possible on nodes, first fit.
    fn fill_nodes(&mut self, class: ClassId, position: LevelId, count: u32) -> u32 {
        let compiled = self.compiled;
        let level = &compiled.profile(class).levels[position];
        let mut left = count;
        for turn in 0..self.order.len() {
            if left == 0 {
                break;
            }
            let index = self.order[turn];
            let room = self.room_on(class, level, index);
            let take = room.min(left);
            if take > 0 {
                self.put(class, position, index, take);
                left -= take;
            }
        }
        left
    }

    /// How many pods of a class a node takes, rules about domains aside.
    fn room_on(&self, class: ClassId, level: &Level, node: NodeId) -> u32 {
        let rules = || level.host_affinity.iter().map(|rule| rule.group);
        if rules().all(|group| self.has_neighbour(node, group)) {
            self.space_on(class, level, node)
        } else {
            0
        }
    }

    /// The same, whichever pods are there already.
    fn space_on(&self, class: ClassId, level: &Level, node: NodeId) -> u32 {
        let compiled = self.compiled;
        let requests = &compiled.class(class).requests;
        let barred = !compiled.demand_nodes[level.demand].contains(node.index())
            || (self.running && self.closed_to_running.contains(node.index()));
        let node = &self.nodes[node];
        if barred || !requests.fits(&node.room) {
            return 0;
        }
        let copies = requests.copies_in(&node.room).min(i64::from(u32::MAX)) as u32;
        // Pods of one class share their claims: what the first has attached serves them all.
        if self.volumes_fit(class, node) {
            copies.min(caps::room(&node.caps, &level.caps))
        } else {
            0
        }
    }

    fn has_neighbour(&self, node: NodeId, group: GroupId) -> bool {
        caps::carries(&self.nodes[node].caps, group)
    }

    fn volumes_fit(&self, class: ClassId, node: &ExistingNode) -> bool {
        let volumes = &self.compiled.profile(class).spec.volumes;
        node.attached.iter().all(|(driver, (most, claims))| {
            let mut new: Vec<&str> = volumes
                .iter()
                .filter(|volume| volume.driver == *driver && !claims.contains(&volume.claim))
                .map(|volume| &*volume.claim)
                .collect();
            new.sort_unstable();
            new.dedup();
            new.is_empty() || claims.len() + new.len() <= *most as usize
        })
    }

    fn put(&mut self, class: ClassId, position: LevelId, id: NodeId, count: u32) {
        let compiled = self.compiled;
        let level = &compiled.profile(class).levels[position];
        let node = &mut self.nodes[id];
        let requests = &compiled.class(class).requests;
        node.room.subtract(&requests.times(i64::from(count)));
        for cap in &level.caps {
            caps::hold(&mut node.caps, *cap, count);
        }
        let profile = compiled.profile(class);
        for volume in &profile.spec.volumes {
            if let Some((_, claims)) = node.attached.get_mut(&volume.driver) {
                claims.insert(volume.claim.clone());
            }
        }
        self.out.on_nodes.push((id, class, count));
        if profile.anchored {
            let counted = |filter: DemandId| compiled.demand_nodes[filter].contains(id.index());
            let cell = compiled.nodes[id].cell;
            let topology = &mut self.out.topology;
            topology.add(compiled, profile, level, cell, count as i32, counted);
            for _ in 0..count {
                self.out.events.push(Event {
                    class,
                    level: position,
                    place: Place::Node(id),
                });
            }
        }
    }

    /// Finds a place for one of `count` pods with rules about domains.
    fn place_anchored(&mut self, class: ClassId, count: u32) -> bool {
        let compiled = self.compiled;
        let profile = compiled.profile(class);
        let levels = profile.levels.pairs();
        for (index, level) in levels.skip(self.lot_limits.first_level(profile).index()) {
            let mut allowed = self.allowed(class, index);
            let node = self.order.iter().copied().find(|node| {
                allowed[compiled.nodes[*node].cell] && self.room_on(class, level, *node) > 0
            });
            if let Some(node) = node {
                self.put(class, index, node, 1);
                return true;
            }
            if !self.may_buy(level) {
                continue;
            }
            if !level.host_affinity.is_empty() {
                if self.start_group_within(class, index, &allowed, count) {
                    return true;
                }
                self.keep_to_host_affinity(level, &mut allowed);
            }
            let best = compiled
                .cells
                .ids()
                .filter(|cell| allowed[*cell])
                .filter_map(|cell| {
                    let (tier, set, share) = self.opening(class, index, cell)?;
                    let crowd = self.out.topology.crowd(compiled, level, cell);
                    Some((tier, share, crowd, cell, set))
                })
                .min();
            if let Some((_, _, _, cell, set)) = best {
                self.send(class, index, cell, set);
                return true;
            }
        }
        false
    }

    /// Cells that the rules of a level about domains allow now.
    fn allowed(&self, class: ClassId, level: LevelId) -> IdVec<CellId, bool> {
        let compiled = self.compiled;
        let profile = compiled.profile(class);
        let cells = compiled.cells.ids();
        let level = &profile.levels[level];
        let allows = |cell| self.out.topology.allows(compiled, profile, level, cell);
        cells.map(allows).collect()
    }

    /// The heaviest pools that have a machine left for a pod in a cell: how many tiers of pools have none, the set, and
    /// what the pod costs there.
    fn opening(
        &mut self,
        class: ClassId,
        level: LevelId,
        cell: CellId,
    ) -> Option<(usize, SetId, i64)> {
        for tier in 0.. {
            let (set, share) = self.share(class, level, cell, tier)?;
            if self.lot_limits.is_empty() {
                return Some((tier, set, share));
            }
            let (counted, _) = self.counted(class, set);
            if self.limit_left(class, level, counted) > 0 {
                return Some((tier, set, share));
            }
        }
        None
    }

    /// What a pod of a class costs at least in a cell, as a share of the machine that suits it best.
    fn share(
        &mut self,
        class: ClassId,
        level: LevelId,
        cell: CellId,
        tier: usize,
    ) -> Option<(SetId, i64)> {
        let key = (class, level, cell, tier);
        if let Some(known) = self.shares.get(&key) {
            return (known.0 != NOTHING).then_some(*known);
        }
        let set = self.base(class, level, Some(cell), tier);
        let compiled = self.compiled;
        let requests = &compiled.class(class).requests;
        let share = self
            .sets
            .list(set)
            .iter()
            .map(|column| compiled.column(*column))
            .filter(|column| requests.fits(&column.room))
            .map(|column| share_of(column.cost, requests, &column.room))
            .min();
        let known = share.map_or((NOTHING, 0), |share| (set, share));
        self.shares.insert(key, known);
        (known.0 != NOTHING).then_some(known)
    }

    /// Where a group counts a pod only on some nodes, those of a set, so that the count is certain; and the filters of
    /// groups that will not count it.
    fn counted(&mut self, class: ClassId, set: SetId) -> (SetId, Vec<DemandId>) {
        let compiled = self.compiled;
        let requests = &compiled.class(class).requests;
        let mut set = set;
        let mut uncounted: Vec<DemandId> = Vec::new();
        for group in &compiled.profile(class).matched {
            let GroupKind::Spread { filter, .. } = compiled.groups.all.get(*group).kind else {
                continue;
            };
            let bits = &compiled.demand_columns[filter];
            let narrowed = self.sets.within(compiled, set, bits);
            let fits = |column: &ColumnId| requests.fits(&compiled.column(*column).room);
            if self.sets.list(narrowed).iter().any(fits) {
                set = narrowed;
            } else {
                uncounted.push(filter);
            }
        }
        (set, uncounted)
    }

    /// Sends a pod to a new machine in a cell.
    fn send(&mut self, class: ClassId, level: LevelId, cell: CellId, set: SetId) {
        let compiled = self.compiled;
        let profile = compiled.profile(class);
        let (set, uncounted) = self.counted(class, set);
        let lot = self.lot(class, level, set, cell, 1);
        let rules = &profile.levels[level];
        let counted = |filter: DemandId| !uncounted.contains(&filter);
        self.out
            .topology
            .add(compiled, profile, rules, cell, 1, counted);
        self.out.events.push(Event {
            class,
            level,
            place: Place::Lot(lot),
        });
    }
}

/// The part of a machine's cost that falls to a pod by the resource it takes most of.
pub(crate) fn share_of(cost: i64, requests: &Vector, room: &Vector) -> i64 {
    let mut most = 0.0;
    for (need, have) in requests.0.iter().zip(&room.0) {
        if *need > 0 && *have > 0 {
            let part = *need as f64 / *have as f64;
            if part > most {
                most = part;
            }
        }
    }
    (cost as f64 * most) as i64
}
