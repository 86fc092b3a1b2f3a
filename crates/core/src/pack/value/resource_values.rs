//! What a unit of each resource is worth to each kind of pod: values so chosen that no machine's room is worth more
//! than its price. They bound the cost of every plan from below, and tell which machines are bargains.
//!
//! Pods of one *kind* may use the same columns. With `v[kind][resource]` the values and `A[k]` the room of column `k`,
//!
//! ```text
//! sum over r of  A[k][r] * max over kinds that k admits of v[kind][r]   <=  price[k]
//! ```
//!
//! The pods on a machine use at most its room, so their values add up to at most its price; over all machines of any
//! plan, the values of all pods add up to at most its cost. Beside real resources there is one for each group of pods
//! of which a host takes only so many.

use crate::pack::value::simplex::Tableau;

/// More kinds than this are not told apart: the smallest ones count as able to use every column. With half, bounds of web are
/// 0.25% lower; twice raises them by 0.04%. Plans stay the same.
pub(crate) const MAX_KINDS: usize = 24;
/// Rounds of adding violated columns to the program. Half or twice changes nothing.
const MAX_ROUNDS: usize = 14;

/// A machine as the program sees it.
#[derive(Clone, Debug)]
pub(crate) struct PricedMachine {
    pub(crate) price: f64,
    pub(crate) room: Vec<f64>,
    /// Kinds that may use it.
    pub(crate) admits: u32,
}

/// Values by kind and resource.
#[derive(Clone, Debug)]
pub(crate) struct ResourceValues {
    pub(crate) of: Vec<Vec<f64>>,
}

impl ResourceValues {
    /// The highest value that any of `kinds` gives to a resource.
    fn top(&self, kinds: u32, resource: usize) -> f64 {
        let mut top = 0.0;
        for (kind, values) in self.of.iter().enumerate() {
            if kinds >> kind & 1 == 1 && values[resource] > top {
                top = values[resource];
            }
        }
        top
    }

    /// What the whole room of a ware is worth, as a share of its price.
    pub(crate) fn potential(&self, machine: &PricedMachine) -> f64 {
        let mut sum = 0.0;
        for (resource, room) in machine.room.iter().enumerate() {
            sum += room * self.top(machine.admits, resource);
        }
        if machine.price > 0.0 {
            sum / machine.price
        } else if sum > 0.0 {
            f64::INFINITY
        } else {
            0.0
        }
    }
}

/// Values for a demand (amounts by kind and resource) against wares. Scaled so that no ware is worth more than its
/// price, whatever the program came up with.
pub(crate) fn appraise(machines: &[PricedMachine], need: &[Vec<f64>]) -> ResourceValues {
    let resources = need.first().map_or(0, Vec::len);
    let mut active = first_machines(machines, resources);
    let mut program = ResourceProgram::new(machines, need, resources);
    for index in &active {
        program.add(&machines[*index]);
    }
    program.tableau.ascend();
    let mut values = program.values();
    for _ in 0..MAX_ROUNDS {
        let mut worst: Vec<(u32, f64, usize)> = Vec::new();
        for (index, machine) in machines.iter().enumerate() {
            let potential = values.potential(machine);
            if potential > 1.0 + 1e-6 {
                worst.push((machine.admits, potential, index));
            }
        }
        if worst.is_empty() {
            break;
        }
        // The worst few of each pattern, so that no pattern starves the others.
        worst.sort_by(|a, b| {
            (a.0.cmp(&b.0))
                .then(b.1.total_cmp(&a.1))
                .then(a.2.cmp(&b.2))
        });
        let mut taken = (u32::MAX, 0);
        for (pattern, _, index) in worst {
            taken = if taken.0 == pattern {
                (pattern, taken.1 + 1)
            } else {
                (pattern, 1)
            };
            if taken.1 <= 3 && !active.contains(&index) {
                active.push(index);
                program.add(&machines[index]);
            }
        }
        program.tableau.descend();
        values = program.values();
    }
    scale(machines, &mut values);
    values
}

/// For each pattern and resource the ware that gives most of it for the money.
fn first_machines(machines: &[PricedMachine], resources: usize) -> Vec<usize> {
    let mut patterns: Vec<u32> = machines.iter().map(|machine| machine.admits).collect();
    patterns.sort_unstable();
    patterns.dedup();
    let mut active = Vec::new();
    for pattern in patterns {
        for resource in 0..resources {
            let mut best: Option<(f64, usize)> = None;
            for (index, machine) in machines.iter().enumerate() {
                if machine.admits != pattern || machine.price <= 0.0 {
                    continue;
                }
                let yields = machine.room[resource] / machine.price;
                if best.is_none_or(|(most, _)| yields > most) {
                    best = Some((yields, index));
                }
            }
            if let Some((_, index)) = best
                && !active.contains(&index)
            {
                active.push(index);
            }
        }
    }
    active
}

fn scale(machines: &[PricedMachine], values: &mut ResourceValues) {
    let mut worst = 1.0;
    for machine in machines {
        let potential = values.potential(machine);
        if potential > worst {
            worst = potential;
        }
    }
    // A hair more than needed pays for rounding in the sums.
    let factor = 1.0 / (worst * (1.0 + 1e-12));
    for value in values.of.iter_mut().flatten() {
        *value *= factor;
    }
}

/// The linear program: a variable for each value that is asked for, and one for the top of each pattern's values. Rows
/// that tie tops to values are there from the start, those of wares come as they are needed.
struct ResourceProgram {
    tableau: Tableau,
    kinds: usize,
    resources: usize,
    patterns: Vec<u32>,
    /// Where the value of a kind and resource is, if a pod asks for it.
    value_at: Vec<Option<usize>>,
    /// Where the top of a pattern and resource is; if there is but one kind, its value.
    top_at: Vec<Option<usize>>,
    /// The most of each resource that one ware has, and the highest price, so that numbers are of one size.
    units: Vec<f64>,
    price: f64,
}

impl ResourceProgram {
    fn new(machines: &[PricedMachine], need: &[Vec<f64>], resources: usize) -> Self {
        let kinds = need.len();
        let mut patterns: Vec<u32> = machines.iter().map(|machine| machine.admits).collect();
        patterns.sort_unstable();
        patterns.dedup();
        let units = units(machines, resources);
        let mut objective = Vec::new();
        let mut value_at = vec![None; kinds * resources];
        for (kind, amounts) in need.iter().enumerate() {
            for (resource, amount) in amounts.iter().enumerate() {
                if *amount > 0.0 {
                    value_at[kind * resources + resource] = Some(objective.len());
                    objective.push(amount / units[resource]);
                }
            }
        }
        let mut ties = Vec::new();
        let mut top_at = vec![None; patterns.len() * resources];
        for (at, pattern) in patterns.iter().enumerate() {
            for resource in 0..resources {
                let values = (0..kinds)
                    .filter(|kind| pattern >> kind & 1 == 1)
                    .filter_map(|kind| value_at[kind * resources + resource]);
                let values: Vec<usize> = values.collect();
                let top = &mut top_at[at * resources + resource];
                if let [only] = values[..] {
                    *top = Some(only);
                } else if !values.is_empty() {
                    *top = Some(objective.len());
                    ties.extend(values.iter().map(|value| (*value, objective.len())));
                    objective.push(0.0);
                }
            }
        }
        let largest = objective.iter().copied().fold(0.0, f64::max);
        if largest > 0.0 {
            for amount in &mut objective {
                *amount /= largest;
            }
        }
        let mut tableau = Tableau::new(&objective);
        let mut row = vec![0.0; objective.len()];
        for (value, top) in ties {
            (row[value], row[top]) = (1.0, -1.0);
            tableau.add(&row, 0.0);
            (row[value], row[top]) = (0.0, 0.0);
        }
        let price = machines
            .iter()
            .map(|machine| machine.price)
            .fold(0.0, f64::max);
        ResourceProgram {
            tableau,
            kinds,
            resources,
            patterns,
            value_at,
            top_at,
            units,
            price: if price > 0.0 { price } else { 1.0 },
        }
    }

    /// The room of a ware must not be worth more than its price.
    fn add(&mut self, machine: &PricedMachine) {
        let Ok(at) = self.patterns.binary_search(&machine.admits) else {
            return;
        };
        let mut row = vec![0.0; self.tableau.width()];
        for (resource, room) in machine.room.iter().enumerate() {
            if let Some(top) = self.top_at[at * self.resources + resource] {
                row[top] += room / self.units[resource];
            }
        }
        self.tableau.add(&row, machine.price / self.price);
    }

    fn values(&self) -> ResourceValues {
        let point = self.tableau.solution().point;
        let value = |(index, at): (usize, &Option<usize>)| {
            let value = at.map_or(0.0, |at| point[at]);
            let unit = self.units[index % self.resources];
            if value > 0.0 {
                value * self.price / unit
            } else {
                0.0
            }
        };
        let all: Vec<f64> = self.value_at.iter().enumerate().map(value).collect();
        let of = (0..self.kinds).map(|kind| {
            let start = kind * self.resources;
            all[start..start + self.resources].to_vec()
        });
        ResourceValues { of: of.collect() }
    }
}

fn units(machines: &[PricedMachine], resources: usize) -> Vec<f64> {
    let mut units = vec![0.0_f64; resources];
    for machine in machines {
        for (top, room) in units.iter_mut().zip(&machine.room) {
            if *room > *top {
                *top = *room;
            }
        }
    }
    for top in &mut units {
        if *top <= 0.0 {
            *top = 1.0;
        }
    }
    units
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_kind_and_two_wares_by_hand() {
        // 10 of each resource; wares (1, 0) for 1 and (0, 1) for 2 and (1, 1) for 2.5: two thirds of the way.
        let machine = |price: f64, a: f64, b: f64| PricedMachine {
            price,
            room: vec![a, b],
            admits: 1,
        };
        let machines = [
            machine(1.0, 1.0, 0.0),
            machine(2.0, 0.0, 1.0),
            machine(2.5, 1.0, 1.0),
        ];
        let values = appraise(&machines, &[vec![10.0, 10.0]]);
        let worth = 10.0 * values.of[0][0] + 10.0 * values.of[0][1];
        assert!((worth - 25.0).abs() < 1e-6, "{worth}");
    }

    #[test]
    fn a_kind_that_only_dear_wares_admit_is_worth_more() {
        let machines = [
            PricedMachine {
                price: 1.0,
                room: vec![1.0],
                admits: 0b01,
            },
            PricedMachine {
                price: 3.0,
                room: vec![1.0],
                admits: 0b11,
            },
        ];
        let values = appraise(&machines, &[vec![5.0], vec![5.0]]);
        let worth = 5.0 * values.of[0][0] + 5.0 * values.of[1][0];
        assert!((worth - 20.0).abs() < 1e-6, "{worth}");
        assert!(
            machines
                .iter()
                .all(|machine| values.potential(machine) <= 1.0 + 1e-9)
        );
    }
}
