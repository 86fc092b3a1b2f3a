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

use super::simplex;

/// More kinds than this are not told apart: the smallest ones count as able to use every column.
pub(crate) const MAX_KINDS: usize = 24;
/// Rounds of adding violated columns to the program.
const MAX_ROUNDS: usize = 14;

/// A machine as the program sees it.
#[derive(Clone, Debug)]
pub(crate) struct Ware {
    pub(crate) price: f64,
    pub(crate) room: Vec<f64>,
    /// Kinds that may use it.
    pub(crate) admits: u32,
}

/// Values by kind and resource.
#[derive(Clone, Debug)]
pub(crate) struct Values {
    pub(crate) of: Vec<Vec<f64>>,
}

impl Values {
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
    pub(crate) fn potential(&self, ware: &Ware) -> f64 {
        let mut sum = 0.0;
        for (resource, room) in ware.room.iter().enumerate() {
            sum += room * self.top(ware.admits, resource);
        }
        if ware.price > 0.0 {
            sum / ware.price
        } else if sum > 0.0 {
            f64::INFINITY
        } else {
            0.0
        }
    }
}

/// Values for a demand (amounts by kind and resource) against wares. Scaled so that no ware is worth more than its
/// price, whatever the program came up with.
pub(crate) fn appraise(wares: &[Ware], need: &[Vec<f64>]) -> Values {
    let resources = need.first().map_or(0, Vec::len);
    let mut active = first_wares(wares, resources);
    let mut values = Values {
        of: vec![vec![0.0; resources]; need.len()],
    };
    // A ware that costs nothing makes everything it admits worthless.
    for _ in 0..MAX_ROUNDS {
        values = program(wares, &active, need, resources);
        let mut worst: Vec<(u32, f64, usize)> = Vec::new();
        for (index, ware) in wares.iter().enumerate() {
            let potential = values.potential(ware);
            if potential > 1.0 + 1e-9 {
                worst.push((ware.admits, potential, index));
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
            }
        }
    }
    scale(wares, &mut values);
    values
}

/// For each pattern and resource the ware that gives most of it for the money.
fn first_wares(wares: &[Ware], resources: usize) -> Vec<usize> {
    let mut patterns: Vec<u32> = wares.iter().map(|ware| ware.admits).collect();
    patterns.sort_unstable();
    patterns.dedup();
    let mut active = Vec::new();
    for pattern in patterns {
        for resource in 0..resources {
            let mut best: Option<(f64, usize)> = None;
            for (index, ware) in wares.iter().enumerate() {
                if ware.admits != pattern || ware.price <= 0.0 {
                    continue;
                }
                let yields = ware.room[resource] / ware.price;
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

fn scale(wares: &[Ware], values: &mut Values) {
    let mut worst = 1.0;
    for ware in wares {
        let potential = values.potential(ware);
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

/// One linear program over some wares: a variable for each value, and one for the top of each pattern's values.
fn program(wares: &[Ware], active: &[usize], need: &[Vec<f64>], resources: usize) -> Values {
    let kinds = need.len();
    let mut patterns: Vec<u32> = active.iter().map(|index| wares[*index].admits).collect();
    patterns.sort_unstable();
    patterns.dedup();
    let mut unit = vec![0.0_f64; resources];
    for index in active {
        for (top, room) in unit.iter_mut().zip(&wares[*index].room) {
            if *room > *top {
                *top = *room;
            }
        }
    }
    for top in &mut unit {
        if *top <= 0.0 {
            *top = 1.0;
        }
    }
    let mut largest = 0.0;
    for amounts in need {
        for (amount, unit) in amounts.iter().zip(&unit) {
            if amount / unit > largest {
                largest = amount / unit;
            }
        }
    }
    let largest = if largest > 0.0 { largest } else { 1.0 };
    let single = kinds == 1 && patterns.len() == 1;
    let values_at = kinds * resources;
    let width = if single {
        values_at
    } else {
        values_at + patterns.len() * resources
    };
    let mut rows: Vec<f64> = Vec::new();
    let mut limits: Vec<f64> = Vec::new();
    for index in active {
        let ware = &wares[*index];
        let pattern = patterns.binary_search(&ware.admits).unwrap_or(0);
        let mut row = vec![0.0; width];
        let start = if single {
            0
        } else {
            values_at + pattern * resources
        };
        for resource in 0..resources {
            row[start + resource] = ware.room[resource] / unit[resource];
        }
        rows.extend(row);
        limits.push(ware.price);
    }
    if !single {
        for (at, pattern) in patterns.iter().enumerate() {
            for kind in (0..kinds).filter(|kind| pattern >> kind & 1 == 1) {
                for resource in (0..resources).filter(|resource| need[kind][*resource] > 0.0) {
                    let mut row = vec![0.0; width];
                    row[kind * resources + resource] = 1.0;
                    row[values_at + at * resources + resource] = -1.0;
                    rows.extend(row);
                    limits.push(0.0);
                }
            }
        }
    }
    let mut objective = vec![0.0; width];
    for (kind, amounts) in need.iter().enumerate() {
        for (resource, amount) in amounts.iter().enumerate() {
            objective[kind * resources + resource] = amount / unit[resource] / largest;
        }
    }
    let solution = simplex::maximise(&rows, &limits, &objective);
    let of = (0..kinds)
        .map(|kind| {
            (0..resources)
                .map(|resource| {
                    let value = solution.point[kind * resources + resource] / unit[resource];
                    if value > 0.0 { value } else { 0.0 }
                })
                .collect()
        })
        .collect();
    Values { of }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_kind_and_two_wares_by_hand() {
        // 10 of each resource; wares (1, 0) for 1 and (0, 1) for 2 and (1, 1) for 2.5: two thirds of the way.
        let ware = |price: f64, a: f64, b: f64| Ware {
            price,
            room: vec![a, b],
            admits: 1,
        };
        let wares = [
            ware(1.0, 1.0, 0.0),
            ware(2.0, 0.0, 1.0),
            ware(2.5, 1.0, 1.0),
        ];
        let values = appraise(&wares, &[vec![10.0, 10.0]]);
        let worth = 10.0 * values.of[0][0] + 10.0 * values.of[0][1];
        assert!((worth - 25.0).abs() < 1e-6, "{worth}");
    }

    #[test]
    fn a_kind_that_only_dear_wares_admit_is_worth_more() {
        let wares = [
            Ware {
                price: 1.0,
                room: vec![1.0],
                admits: 0b01,
            },
            Ware {
                price: 3.0,
                room: vec![1.0],
                admits: 0b11,
            },
        ];
        let values = appraise(&wares, &[vec![5.0], vec![5.0]]);
        let worth = 5.0 * values.of[0][0] + 5.0 * values.of[1][0];
        assert!((worth - 20.0).abs() < 1e-6, "{worth}");
        assert!(
            wares
                .iter()
                .all(|ware| values.potential(ware) <= 1.0 + 1e-9)
        );
    }
}
