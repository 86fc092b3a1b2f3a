//! Before anything is packed: pods onto nodes that are there, and a domain for every pod that has rules about domains.
//!
//! Pods come in order of priority, size and age. Each goes to the first node that can take it, or with others that suit
//! it to a node that has the room for just these ([`mix`]); a pod with rules about
//! domains that finds no node is given the cheapest domain that its rules allow now. What is left are *lots*: pods of
//! one class that may all use the same columns.

mod company;
pub(crate) mod mix;

use super::bits::Bits;
use super::caps;
use super::compile::{Compiled, Run};
use super::ledger::Ledger;
use super::nodes::Host;
use super::profile::Level;
use super::scenario::Scenario;
use super::sets::{NOTHING, Sets};
use super::topology::Topology;
use super::vector::Vector;

/// Any cell will do.
pub(crate) const ANYWHERE: u32 = u32::MAX;

/// Pods of one class that need a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lot {
    pub(crate) class: u32,
    pub(crate) level: u32,
    pub(crate) set: u32,
    pub(crate) cell: u32,
    pub(crate) count: u32,
}

/// Where an anchored pod goes, in order of binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Host(u32),
    Lot(u32),
}

/// An anchored pod takes its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) class: u32,
    pub(crate) level: u32,
    pub(crate) place: Place,
}

/// Pods of one class that wait.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    pub(crate) class: u32,
    pub(crate) runs: Vec<Run>,
    pub(crate) count: u32,
    /// They run somewhere now.
    pub(crate) running: bool,
}

/// Pods of one class whose turn it is.
#[derive(Clone, Copy, Debug)]
struct Turn {
    class: u32,
    count: u32,
    running: bool,
}

/// How nodes that are there are filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dealing {
    /// Class by class.
    InTurn,
    /// With pods that go well together.
    Mixed,
}

/// What was decided before packing.
#[derive(Clone, Debug)]
pub(crate) struct Assignment {
    /// All pods, in order of priority, size and age.
    pub(crate) queues: Vec<Queue>,
    pub(crate) lots: Vec<Lot>,
    /// Pods put on nodes: node, class, count.
    pub(crate) on_hosts: Vec<(u32, u32, u32)>,
    /// Anchored pods in order of binding.
    pub(crate) events: Vec<Event>,
    /// Pods that find no place at all: class and count.
    pub(crate) failed: Vec<(u32, u32)>,
    pub(crate) topology: Topology,
}

impl Assignment {
    /// Whether the order found here may not hold for what was packed: pods that others count on have no machine, or
    /// pods must share a host that only packing gave them.
    pub(crate) fn needs_rehearsal(&self, compiled: &Compiled<'_>, left: &[u32]) -> bool {
        let short = |(lot, left): (&Lot, &u32)| *left > 0 && compiled.profile(lot.class).anchored;
        let near = |queue: &Queue| {
            let levels = &compiled.profile(queue.class).levels;
            levels.last().is_some_and(|level| !level.near.is_empty())
        };
        self.lots.iter().zip(left).any(short) || self.queues.iter().any(near)
    }
}

/// State while pods are assigned.
pub(crate) struct Assigner<'a, 'p> {
    compiled: &'a Compiled<'p>,
    sets: &'a mut Sets,
    mask: Option<&'a Bits>,
    hosts: Vec<Host>,
    /// Usable hosts in order.
    order: Vec<u32>,
    /// Hosts closed to pods that already run somewhere.
    closed_to_running: &'a Bits,
    /// Hosts whose pods look for another place.
    removed: &'a Bits,
    out: Assignment,
    lot_index: super::intern::FixedMap<(u32, u32, u32), u32>,
    /// Cheapest share of a machine by class, level and cell.
    shares: super::intern::FixedMap<(u32, u32, u32), (u32, i64)>,
    buys: bool,
    /// The pods at hand run somewhere now.
    running: bool,
}

impl<'a, 'p> Assigner<'a, 'p> {
    pub(crate) fn new(
        compiled: &'a Compiled<'p>,
        sets: &'a mut Sets,
        scenario: &'a Scenario,
        mask: Option<&'a Bits>,
    ) -> Self {
        let removed = &scenario.removed;
        let mut order: Vec<u32> = (0..compiled.hosts.len() as u32)
            .filter(|index| {
                let at = *index as usize;
                !removed.contains(at)
                    && !scenario.closed.contains(at)
                    && !compiled.problem.nodes[at].deleting
            })
            .collect();
        order.sort_by_key(|index| compiled.hosts[*index as usize].order);
        Assigner {
            compiled,
            sets,
            mask,
            hosts: compiled.hosts.clone(),
            order,
            closed_to_running: &scenario.closed_to_running,
            removed,
            out: Assignment {
                queues: scenario.queues(compiled),
                lots: Vec::new(),
                on_hosts: Vec::new(),
                events: Vec::new(),
                failed: Vec::new(),
                topology: Topology::new(compiled, removed),
            },
            lot_index: super::intern::FixedMap::default(),
            shares: super::intern::FixedMap::default(),
            buys: scenario.buys,
            running: false,
        }
    }

    pub(crate) fn run(mut self, dealing: Dealing) -> Assignment {
        let queues = self.out.queues.iter();
        let turn = |queue: &Queue| Turn {
            class: queue.class,
            count: queue.count,
            running: queue.running,
        };
        let mut turns: Vec<Turn> = queues.map(turn).collect();
        if dealing == Dealing::Mixed {
            self.mix(&mut turns);
        }
        // Pods that must be near others come after those others, within one priority.
        let mut waiting: Vec<Turn> = Vec::new();
        for turn in turns {
            let profile = self.compiled.profile(turn.class);
            let sociable = profile
                .levels
                .first()
                .is_some_and(|level| !level.near.is_empty() || self.seeks(level));
            if sociable {
                waiting.push(turn);
            } else {
                self.running = turn.running;
                let left = self.place(turn.class, turn.count);
                if left > 0 {
                    self.out.failed.push((turn.class, left));
                }
            }
        }
        // A pod may wait for one that itself waits: go round until nobody finds a place any more.
        loop {
            let before: u32 = waiting.iter().map(|turn| turn.count).sum();
            let round = std::mem::take(&mut waiting);
            for mut turn in round {
                self.running = turn.running;
                turn.count = self.place(turn.class, turn.count);
                if turn.count > 0 {
                    waiting.push(turn);
                }
            }
            let after: u32 = waiting.iter().map(|turn| turn.count).sum();
            if after == 0 || after == before {
                break;
            }
        }
        let stranded = waiting.into_iter().map(|turn| (turn.class, turn.count));
        self.out.failed.extend(stranded);
        self.out
    }

    fn seeks(&self, level: &Level) -> bool {
        level.rules.iter().any(|rule| {
            self.compiled.groups.all.get(rule.group).kind == super::groups::Kind::Affinity
        })
    }

    /// Finds places for pods of a class; returns how many have none.
    fn place(&mut self, class: u32, count: u32) -> u32 {
        let compiled = self.compiled;
        let profile = compiled.profile(class);
        if profile.invalid.is_some() || compiled.classes[class as usize].uncounted.is_some() {
            return count;
        }
        let mut left = count;
        if profile.anchored {
            while left > 0 && self.place_anchored(class, left) {
                left -= 1;
            }
            return left;
        }
        for index in 0..profile.levels.len() {
            left = self.fill_hosts(class, index, left);
            if left == 0 {
                return 0;
            }
            let set = self.base(class, index, None);
            if profile.levels[index].near.is_empty() {
                if set != NOTHING {
                    self.lot(class, index as u32, set, ANYWHERE, left);
                    return 0;
                }
                continue;
            }
            left -= self.begin(class, index, set, left);
            if left > 0 && set != NOTHING {
                left -= self.near(class, index, set, left);
            }
            if left == 0 {
                return 0;
            }
        }
        left
    }

    fn base(&mut self, class: u32, level: usize, cell: Option<u32>) -> u32 {
        if !self.buys {
            return NOTHING;
        }
        self.sets.base(self.compiled, class, level, cell, self.mask)
    }

    fn lot(&mut self, class: u32, level: u32, set: u32, cell: u32, count: u32) -> u32 {
        let next = self.out.lots.len() as u32;
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
        self.out.lots[index as usize].count += count;
        index
    }

    /// Puts as many pods of a class as possible on nodes, first fit.
    fn fill_hosts(&mut self, class: u32, position: usize, count: u32) -> u32 {
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
    fn room_on(&self, class: u32, level: &Level, index: u32) -> u32 {
        let rules = || level.near.iter().map(|rule| rule.group);
        if rules().all(|group| self.has_neighbour(index, group)) {
            self.space_on(class, level, index)
        } else {
            0
        }
    }

    /// The same if it does not matter who is there already.
    fn space_on(&self, class: u32, level: &Level, index: u32) -> u32 {
        let compiled = self.compiled;
        let host = &self.hosts[index as usize];
        let requests = &compiled.classes[class as usize].requests;
        if !requests.fits(&host.room)
            || !compiled.demand_nodes[level.demand as usize].contains(index as usize)
            || (self.running && self.closed_to_running.contains(index as usize))
        {
            return 0;
        }
        let copies = requests.copies_in(&host.room).min(i64::from(u32::MAX)) as u32;
        // Pods of one class share their claims: what the first has attached serves them all.
        if self.volumes_fit(class, host) {
            copies.min(caps::room(&host.caps, &level.caps))
        } else {
            0
        }
    }

    fn has_neighbour(&self, index: u32, group: u32) -> bool {
        let host = &self.hosts[index as usize];
        caps::carries(&host.caps, group)
    }

    fn volumes_fit(&self, class: u32, host: &Host) -> bool {
        let volumes = &self.compiled.profile(class).spec.volumes;
        host.attached.iter().all(|(driver, (most, claims))| {
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

    fn put(&mut self, class: u32, position: usize, index: u32, count: u32) {
        let compiled = self.compiled;
        let level = &compiled.profile(class).levels[position];
        let host = &mut self.hosts[index as usize];
        let requests = &compiled.classes[class as usize].requests;
        host.room.subtract(&requests.times(i64::from(count)));
        for cap in &level.caps {
            caps::hold(&mut host.caps, *cap, count);
        }
        let profile = compiled.profile(class);
        for volume in &profile.spec.volumes {
            if let Some((_, claims)) = host.attached.get_mut(&volume.driver) {
                claims.insert(volume.claim.clone());
            }
        }
        self.out.on_hosts.push((index, class, count));
        if profile.anchored {
            let counted =
                |filter: u32| compiled.demand_nodes[filter as usize].contains(index as usize);
            let cell = compiled.hosts[index as usize].cell;
            let topology = &mut self.out.topology;
            topology.add(compiled, profile, level, cell, count as i32, counted);
            for _ in 0..count {
                self.out.events.push(Event {
                    class,
                    level: position as u32,
                    place: Place::Host(index),
                });
            }
        }
    }

    /// Finds a place for one of `count` pods with rules about domains.
    fn place_anchored(&mut self, class: u32, count: u32) -> bool {
        let compiled = self.compiled;
        let profile = compiled.profile(class);
        for (index, level) in profile.levels.iter().enumerate() {
            let mut allowed: Vec<bool> = (0..compiled.cells.len() as u32)
                .map(|cell| self.out.topology.allows(compiled, profile, level, cell))
                .collect();
            let host = self.order.iter().copied().find(|host| {
                allowed[compiled.hosts[*host as usize].cell as usize]
                    && self.room_on(class, level, *host) > 0
            });
            if let Some(host) = host {
                self.put(class, index, host, 1);
                return true;
            }
            if !self.may_buy(level) {
                continue;
            }
            if !level.near.is_empty() {
                if self.begin_within(class, index, &allowed, count) {
                    return true;
                }
                self.keep_to_company(level, &mut allowed);
            }
            let best = (0..compiled.cells.len() as u32)
                .filter(|cell| allowed[*cell as usize])
                .filter_map(|cell| {
                    let (set, share) = self.share(class, index, cell)?;
                    let crowd = self.out.topology.crowd(compiled, level, cell);
                    Some((share, crowd, cell, set))
                })
                .min();
            if let Some((_, _, cell, set)) = best {
                self.send(class, index, cell, set);
                return true;
            }
        }
        false
    }

    /// What a pod of a class costs at least in a cell, as a share of the machine that suits it best.
    fn share(&mut self, class: u32, level: usize, cell: u32) -> Option<(u32, i64)> {
        let key = (class, level as u32, cell);
        if let Some(known) = self.shares.get(&key) {
            return (known.0 != NOTHING).then_some(*known);
        }
        let set = self.base(class, level, Some(cell));
        let compiled = self.compiled;
        let requests = &compiled.classes[class as usize].requests;
        let share = self
            .sets
            .list(set)
            .iter()
            .map(|column| &compiled.columns[*column as usize])
            .filter(|column| requests.fits(&column.room))
            .map(|column| share_of(column.cost, requests, &column.room))
            .min();
        let known = share.map_or((NOTHING, 0), |share| (set, share));
        self.shares.insert(key, known);
        (known.0 != NOTHING).then_some(known)
    }

    /// Sends a pod to a new machine in a cell. Where another group counts the pod only on some nodes, it is sent to
    /// those, so that the count is certain.
    fn send(&mut self, class: u32, level: usize, cell: u32, set: u32) {
        let compiled = self.compiled;
        let profile = compiled.profile(class);
        let requests = &compiled.classes[class as usize].requests;
        let mut set = set;
        let mut uncounted: Vec<u32> = Vec::new();
        for group in &profile.matched {
            let super::groups::Kind::Spread { filter, .. } = compiled.groups.all.get(*group).kind
            else {
                continue;
            };
            let bits = &compiled.demand_columns[filter as usize];
            let narrowed = self.sets.within(compiled, set, bits);
            let fits = |column: &u32| requests.fits(&compiled.columns[*column as usize].room);
            if self.sets.list(narrowed).iter().any(fits) {
                set = narrowed;
            } else {
                uncounted.push(filter);
            }
        }
        let lot = self.lot(class, level as u32, set, cell, 1);
        let rules = &profile.levels[level];
        let counted = |filter: u32| !uncounted.contains(&filter);
        self.out
            .topology
            .add(compiled, profile, rules, cell, 1, counted);
        self.out.events.push(Event {
            class,
            level: level as u32,
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

/// Which columns can still be had.
pub(crate) fn affordable(compiled: &Compiled<'_>, ledger: &Ledger) -> Bits {
    let mut bits = Bits::empty(compiled.columns.len());
    for (index, column) in compiled.columns.iter().enumerate() {
        if ledger.can(&column.uses) {
            bits.insert(index);
        }
    }
    bits
}
