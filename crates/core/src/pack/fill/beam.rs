//! The most valuable filling of a machine: kind by kind, going on from the beginnings that can become worth most.
//!
//! Room has a price at which few pods are worth more than what they take. What a beginning can become worth at most is
//! what it is worth, the room that is left at its price, and what the pods to come are worth beyond that.

use crate::pack::dense::vector::{CPU, LEAD, Lead, MEMORY, lead_fits};
use crate::pack::value::fractional_knapsack;

// Half or twice of the numbers below moves no mean price by more than 0.01%.

/// GPUs, wherever there are any.
const DEVICES: usize = LEAD - 1;
/// Rounds in which kinds that are used up are taken out before room is priced.
const PRICINGS: usize = 8;
/// So many times the width may be alive before some are given up.
const SLACK: usize = 2;
/// Beginnings that most fillings are found with.
const MANY: usize = 1024;
/// The kind after the last.
const NONE: u32 = u32::MAX;

/// A kind of pod that may go in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodKind {
    /// Its number for the caller.
    pub(crate) name: u32,
    pub(crate) requests: Lead,
    pub(crate) value: f64,
    /// How many there are.
    pub(crate) most: u32,
}

/// A filling that is not finished.
#[derive(Clone, Copy, Debug)]
struct Beginning {
    left: Lead,
    value: f64,
    /// What it can become worth.
    most: f64,
    /// The one it goes on from, and the pods that were added.
    parent: u32,
    kind: u32,
    count: u32,
    /// The next kind that fits.
    next: u32,
}

/// A filling, as kinds with counts, and how many looks it took to find it.
#[derive(Debug)]
pub(crate) struct BeamFilling {
    pub(crate) value: f64,
    pub(crate) picks: Vec<(u32, u32)>,
    pub(crate) looked_at: u32,
}

/// The most valuable filling found that is worth more than `least`, or an empty one. Of all beginnings `width` are kept
/// from kind to kind.
pub(crate) fn search(kinds: Vec<PodKind>, room: Lead, least: f64, width: usize) -> BeamFilling {
    let mut search = BeamSearch::new(kinds, room, least);
    search.begin(room);
    for index in search.few..search.kinds.len() {
        if search.alive.is_empty() {
            break;
        }
        search.go_on(index);
        if search.alive.len() > width.saturating_mul(SLACK) {
            search.give_up_dominated();
            search.give_up_beyond(width);
        }
    }
    search.finish()
}

struct BeamSearch {
    /// Pods that take more than half of a resource, then the others, most valuable for their room first.
    kinds: Vec<PodKind>,
    /// How many of the former there are.
    few: usize,
    prices: [f64; LEAD],
    /// Value for room at these prices, by kind.
    density: Vec<f64>,
    /// What all pods from a kind on are worth beyond the room they take.
    surplus: Vec<f64>,
    /// The first from a kind on that asks for no device.
    without_devices: Vec<usize>,
    all: Vec<Beginning>,
    alive: Vec<u32>,
    /// Those that were alive before a kind was looked at.
    before: Vec<u32>,
    /// What beginnings leave and are worth, for telling which are dominated.
    stairs: Vec<(i64, f64)>,
    /// What the best is worth, and which it is.
    best: (f64, usize),
    looked_at: u32,
}

impl BeamSearch {
    fn new(mut kinds: Vec<PodKind>, room: Lead, least: f64) -> Self {
        for kind in &mut kinds {
            kind.most = kind.most.min(copies(&kind.requests, &room));
        }
        let large = |kind: &PodKind, at: usize| kind.requests[at] * 2 > room[at];
        let scarce = (0..LEAD).max_by_key(|at| kinds.iter().filter(|one| large(one, *at)).count());
        let (mut few, mut others): (Vec<PodKind>, Vec<PodKind>) = kinds
            .into_iter()
            .partition(|kind| scarce.is_some_and(|at| large(kind, at)));
        // Where most pods are large, they are what room is for.
        if few.len() > others.len() {
            others.append(&mut few);
        }
        let prices = prices(&others, room);
        let density = |kind: &PodKind| {
            let takes = worth(&prices, &kind.requests);
            if takes > 0.0 {
                kind.value / takes
            } else {
                f64::INFINITY
            }
        };
        others.sort_by(|a, b| {
            let order = density(b).total_cmp(&density(a));
            order.then(a.name.cmp(&b.name))
        });
        let mut kinds = few;
        let few = kinds.len();
        kinds.append(&mut others);
        let density = kinds.iter().map(density).collect();
        let mut surplus = vec![0.0; kinds.len() + 1];
        for index in (few..kinds.len()).rev() {
            let kind = &kinds[index];
            let beyond = (kind.value - worth(&prices, &kind.requests)).max(0.0);
            surplus[index] = surplus[index + 1] + beyond * f64::from(kind.most);
        }
        let mut without_devices = vec![kinds.len(); kinds.len() + 1];
        for index in (0..kinds.len()).rev() {
            let without = kinds[index].requests[DEVICES] == 0;
            without_devices[index] = if without {
                index
            } else {
                without_devices[index + 1]
            };
        }
        BeamSearch {
            kinds,
            few,
            prices,
            density,
            surplus,
            without_devices,
            all: Vec::with_capacity(MANY),
            alive: Vec::new(),
            before: Vec::new(),
            stairs: Vec::new(),
            best: (least, 0),
            looked_at: 0,
        }
    }

    /// Nothing, and each of the large pods alone: two of them have no room together.
    fn begin(&mut self, room: Lead) {
        let empty = Beginning {
            left: room,
            value: 0.0,
            most: 0.0,
            parent: 0,
            kind: 0,
            count: 0,
            next: 0,
        };
        let start = self.few as u32;
        let empty = self.ahead(empty, start);
        self.all.push(empty);
        if empty.next != NONE {
            self.alive.push(0);
        }
        for index in 0..start {
            let one = self.with_one(&empty, index);
            self.consider(one, start);
        }
    }

    /// Adds pods of one kind to all beginnings that have room for them.
    fn go_on(&mut self, index: usize) {
        let (own, after) = (index as u32, index as u32 + 1);
        let most = self.kinds[index].most;
        let mut before = std::mem::replace(&mut self.alive, std::mem::take(&mut self.before));
        for at in before.drain(..) {
            let from = self.all[at as usize];
            if from.most <= self.best.0 {
                continue;
            }
            if from.next > own {
                self.alive.push(at);
                continue;
            }
            let without = self.ahead(from, after);
            self.all[at as usize] = without;
            if without.next != NONE {
                self.alive.push(at);
            }
            let mut with = Beginning {
                parent: at,
                count: 0,
                ..from
            };
            while with.count < most && lead_fits(&self.kinds[index].requests, &with.left) {
                with = self.with_one(&with, own);
                self.consider(with, after);
            }
        }
        self.before = before;
    }

    /// One pod more.
    fn with_one(&self, from: &Beginning, index: u32) -> Beginning {
        let kind = &self.kinds[index as usize];
        Beginning {
            left: std::array::from_fn(|at| from.left[at] - kind.requests[at]),
            value: from.value + kind.value,
            kind: index,
            count: from.count + 1,
            ..*from
        }
    }

    /// Keeps a beginning that is the best or may become it, with the kinds from an index on.
    fn consider(&mut self, one: Beginning, from: u32) {
        let one = self.ahead(one, from);
        let better = one.value > self.best.0;
        if better {
            self.best = (one.value, self.all.len());
        }
        if one.next != NONE {
            self.alive.push(self.all.len() as u32);
        }
        if better || one.next != NONE {
            self.all.push(one);
        }
    }

    /// Finds the next kind that fits and what can become of a beginning then; `NONE` if that is not the best.
    fn ahead(&mut self, mut one: Beginning, from: u32) -> Beginning {
        one.next = NONE;
        one.most = one.value;
        let room = worth(&self.prices, &one.left);
        let full = one.left[DEVICES] == 0;
        let mut index = from as usize;
        loop {
            if full {
                index = self.without_devices[index];
            }
            let Some(kind) = self.kinds.get(index) else {
                break;
            };
            self.looked_at += 1;
            let most = one.value + self.surplus[index] + self.density[index].min(1.0) * room;
            if most <= self.best.0 {
                break;
            }
            if lead_fits(&kind.requests, &one.left) {
                one.next = index as u32;
                one.most = most;
                break;
            }
            index += 1;
        }
        one
    }

    /// Gives up beginnings that are worth no more than another that leaves as much room. Slots for pods do not count:
    /// they hardly ever run out first.
    fn give_up_dominated(&mut self) {
        let (all, stairs) = (&self.all, &mut self.stairs);
        self.alive.sort_unstable_by(|a, b| {
            let (one, other) = (&all[*a as usize], &all[*b as usize]);
            let room = |one: &Beginning| (one.left[DEVICES], one.left[CPU], one.left[MEMORY]);
            let order = room(other).cmp(&room(one));
            order.then(other.value.total_cmp(&one.value))
        });
        // Of those with the same number of devices left and at least as many processors: the less memory they leave, the
        // more they are worth.
        stairs.clear();
        let mut devices = None;
        self.alive.retain(|at| {
            let one = &all[*at as usize];
            if devices.replace(one.left[DEVICES]) != Some(one.left[DEVICES]) {
                stairs.clear();
            }
            let above = stairs.partition_point(|(memory, _)| *memory >= one.left[MEMORY]);
            if above > 0 && stairs[above - 1].1 >= one.value {
                return false;
            }
            let below = stairs[above..].iter();
            let beaten = below.take_while(|(_, value)| *value <= one.value).count();
            stairs.splice(above..above + beaten, [(one.left[MEMORY], one.value)]);
            true
        });
    }

    /// Keeps those that can become worth most.
    fn give_up_beyond(&mut self, width: usize) {
        if self.alive.len() > width {
            let all = &self.all;
            self.alive.select_nth_unstable_by(width, |a, b| {
                let order = all[*b as usize].most.total_cmp(&all[*a as usize].most);
                order.then(a.cmp(b))
            });
            self.alive.truncate(width);
        }
    }

    fn finish(self) -> BeamFilling {
        let mut picks = Vec::new();
        let (value, mut at) = self.best;
        while at > 0 {
            let one = &self.all[at];
            picks.push((self.kinds[one.kind as usize].name, one.count));
            at = one.parent as usize;
        }
        BeamFilling {
            value: if picks.is_empty() { 0.0 } else { value },
            picks,
            looked_at: self.looked_at,
        }
    }
}

/// How many of a kind fit.
fn copies(requests: &Lead, room: &Lead) -> u32 {
    let asked = requests.iter().zip(room).filter(|(need, _)| **need > 0);
    let copies = asked.map(|(need, have)| have / need).min();
    copies.map_or(u32::MAX, |copies| {
        copies.clamp(0, i64::from(u32::MAX)) as u32
    })
}

/// What room is worth.
fn worth(prices: &[f64; LEAD], room: &Lead) -> f64 {
    let mut worth = 0.0;
    for (price, amount) in prices.iter().zip(room) {
        worth += price * *amount as f64;
    }
    worth
}

/// What a unit of each resource is worth when kinds of which all are taken no longer count: pods of which there are only a
/// few may be worth more than their room.
fn prices(kinds: &[PodKind], mut room: Lead) -> [f64; LEAD] {
    let mut free: Vec<&PodKind> = kinds.iter().collect();
    let mut prices = [0.0; LEAD];
    for _ in 0..PRICINGS {
        let pods: Vec<(&[i64], f64)> = free
            .iter()
            .map(|kind| (kind.requests.as_slice(), kind.value))
            .collect();
        let fractional = fractional_knapsack::solve(&pods, &room);
        prices.copy_from_slice(&fractional.prices);
        let mut parts = fractional.parts.iter();
        let before = free.len();
        free.retain(|kind| {
            let wanted = parts
                .next()
                .is_some_and(|part| *part > f64::from(kind.most));
            let all: Lead = kind.requests.map(|need| need * i64::from(kind.most));
            let used_up = wanted && lead_fits(&all, &room);
            if used_up {
                for (have, need) in room.iter_mut().zip(all) {
                    *have -= need;
                }
            }
            !used_up
        });
        if free.len() == before || free.is_empty() {
            break;
        }
    }
    prices
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: u32, cpu: i64, value: f64, most: u32) -> PodKind {
        PodKind {
            name,
            requests: [cpu, 0, 1, 0],
            value,
            most,
        }
    }

    fn filled(kinds: Vec<PodKind>, cpu: i64, width: usize) -> Vec<(u32, u32)> {
        let mut picks = search(kinds, [cpu, 0, 99, 0], 0.0, width).picks;
        picks.sort_unstable();
        picks
    }

    #[test]
    fn pods_that_fill_the_room_exactly_are_found() {
        // Sevens are worth most for their room, and leave room that no other pod can use; fives and threes fill it.
        let kinds = vec![kind(0, 7, 6.9, 9), kind(1, 5, 4.8, 9), kind(2, 3, 2.8, 1)];
        assert_eq!(filled(kinds, 13, 8), [(1, 2), (2, 1)]);
    }

    #[test]
    fn a_pod_that_is_larger_than_half_the_room_is_weighed_against_all_others() {
        let kinds = |value| {
            let small = (1..4).map(|name| kind(name, i64::from(name) + 1, f64::from(name), 9));
            small.chain([kind(0, 9, value, 1)]).collect()
        };
        assert_eq!(filled(kinds(7.6), 12, 8), [(0, 1), (2, 1)]);
        assert_eq!(filled(kinds(6.0), 12, 8), [(3, 3)]);
    }

    #[test]
    fn no_more_pods_are_taken_than_there_are() {
        let kinds = vec![kind(0, 2, 2.0, 2), kind(1, 3, 2.5, 1)];
        assert_eq!(filled(kinds, 20, 8), [(0, 2), (1, 1)]);
    }

    #[test]
    fn what_is_worth_no_more_than_asked_for_is_not_found() {
        let kinds = vec![kind(0, 2, 2.0, 9)];
        assert_eq!(search(kinds, [5, 0, 9, 0], 4.0, 8).picks, []);
    }

    #[test]
    fn with_enough_width_nothing_is_better() {
        let mut generator = crate::pack::dense::seeded::SeededGenerator::new(7, 0);
        for _ in 0..200 {
            let kinds: Vec<PodKind> = (0..6)
                .map(|name| {
                    let mut roll = |sides| generator.below(sides) as u32;
                    let (cpu, gib) = (1 + i64::from(roll(9)), 1 + i64::from(roll(12)));
                    let gpus = i64::from(roll(2));
                    PodKind {
                        name,
                        requests: [cpu, gib, 1, gpus],
                        value: 0.5 + f64::from(roll(100)) / 10.0,
                        most: 1 + roll(3),
                    }
                })
                .collect();
            let room = [16, 18, 30, 3];
            let value = search(kinds.clone(), room, 0.0, usize::MAX).value;
            let best = by_trying(&kinds, room);
            assert!((value - best).abs() < 1e-9, "{value} {best} {kinds:?}");
        }
    }

    fn by_trying(kinds: &[PodKind], room: Lead) -> f64 {
        let Some((first, rest)) = kinds.split_first() else {
            return 0.0;
        };
        let mut left = room;
        let mut best = by_trying(rest, left);
        for count in 1..=first.most {
            if !lead_fits(&first.requests, &left) {
                break;
            }
            for (have, need) in left.iter_mut().zip(&first.requests) {
                *have -= need;
            }
            best = best.max(first.value * f64::from(count) + by_trying(rest, left));
        }
        best
    }
}
