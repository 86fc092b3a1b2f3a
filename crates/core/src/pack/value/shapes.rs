//! Lots whose pods ask for resources in much the same proportion, sorted into classes.

use crate::pack::assign::LotId;

/// A lot, and what its pods ask for.
pub(crate) struct Shaped {
    pub(crate) lot: LotId,
    /// Of all its pods.
    pub(crate) worth: f64,
    /// By resource, for a unit of its worth.
    pub(crate) asks: Vec<f64>,
}

/// Parts lots in two where their shapes differ most, and each half again, until what is together is worth no more than
/// `each`.
pub(crate) fn part(lots: &mut [Shaped], each: f64, classes: &mut Vec<Vec<LotId>>) {
    let worth = sum(lots, |one| one.worth);
    let Some(resource) = telling(lots).filter(|_| worth > each) else {
        classes.push(lots.iter().map(|one| one.lot).collect());
        return;
    };
    lots.sort_by(|a, b| {
        let asks = a.asks[resource].total_cmp(&b.asks[resource]);
        asks.then(a.lot.cmp(&b.lot))
    });
    let mut below = 0.0;
    let half = lots.iter().take_while(|one| {
        below += one.worth;
        below <= worth / 2.0
    });
    let half = half.count().clamp(1, lots.len() - 1);
    let (low, high) = lots.split_at_mut(half);
    part(low, each, classes);
    part(high, each, classes);
}

/// The resource by which lots can best be told apart, if there is one.
fn telling(lots: &[Shaped]) -> Option<usize> {
    let worth = sum(lots, |one| one.worth);
    let mut best = None;
    let mut most = 0.0;
    for resource in 0..lots.first()?.asks.len() {
        let mean = sum(lots, |one| one.worth * one.asks[resource]) / worth;
        let spread = sum(lots, |one| {
            let apart = one.asks[resource] - mean;
            one.worth * apart * apart
        });
        if spread > most {
            (best, most) = (Some(resource), spread);
        }
    }
    best.filter(|_| lots.len() > 1)
}

fn sum(lots: &[Shaped], of: impl Fn(&Shaped) -> f64) -> f64 {
    let mut sum = 0.0;
    for one in lots {
        sum += of(one);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes(asks: &[[f64; 3]], each: f64) -> Vec<Vec<u32>> {
        let mut lots: Vec<Shaped> = (0..)
            .zip(asks)
            .map(|(lot, asks)| Shaped {
                lot: LotId(lot),
                worth: 1.0,
                asks: asks.to_vec(),
            })
            .collect();
        let mut classes = Vec::new();
        part(&mut lots, each, &mut classes);
        let number = |lots: &Vec<LotId>| lots.iter().map(|lot| lot.0).collect();
        classes.iter().map(number).collect()
    }

    #[test]
    fn lots_are_parted_by_the_resource_that_tells_them_apart() {
        let asks = [
            [1.0, 1.1, 5.0],
            [1.1, 1.0, 0.5],
            [1.0, 1.0, 5.1],
            [1.1, 1.1, 0.4],
        ];
        assert_eq!(classes(&asks, 2.0), [[3, 1], [0, 2]]);
    }

    #[test]
    fn what_has_one_shape_stays_together_whatever_it_is_worth() {
        assert_eq!(classes(&[[1.0, 2.0, 3.0]; 5], 1.0).len(), 1);
    }

    #[test]
    fn classes_become_finer_until_each_is_worth_little_enough() {
        let asks: Vec<[f64; 3]> = (0..16).map(|at| [f64::from(at), 1.0, 1.0]).collect();
        for (each, count) in [(16.0, 1), (8.0, 2), (4.0, 4), (1.0, 16), (0.1, 16)] {
            assert_eq!(classes(&asks, each).len(), count, "each worth {each}");
        }
    }
}
