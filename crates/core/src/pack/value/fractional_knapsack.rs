//! The fractional knapsack: the best filling of a machine if pods were divisible, and what room is worth then.

use crate::pack::value::simplex;

/// A filling with parts of pods.
pub(crate) struct FractionalFilling {
    /// What a unit of each resource is worth: whole pods or parts, none is worth more than the room it takes.
    pub(crate) prices: Vec<f64>,
    /// How many of each there are in it.
    pub(crate) parts: Vec<f64>,
}

/// Fills a room with pods of so much value each.
pub(crate) fn solve(pods: &[(&[i64], f64)], room: &[i64]) -> FractionalFilling {
    let mut rows = Vec::new();
    let mut limits = Vec::new();
    let mut asked: Vec<usize> = Vec::new();
    for (resource, amount) in room.iter().enumerate() {
        let requests = || pods.iter().map(|(requests, _)| requests[resource]);
        if requests().all(|amount| amount == 0) {
            continue;
        }
        // Shares of the room instead of amounts, so that numbers are of one size.
        let whole = (*amount).max(1) as f64;
        rows.extend(requests().map(|amount| amount as f64 / whole));
        limits.push(if *amount > 0 { 1.0 } else { 0.0 });
        asked.push(resource);
    }
    let objective: Vec<f64> = pods.iter().map(|(_, value)| *value).collect();
    let solution = simplex::maximise(&rows, &limits, &objective);
    let mut prices = vec![0.0; room.len()];
    for (resource, share) in asked.into_iter().zip(&solution.worth) {
        prices[resource] = share.max(0.0) / room[resource].max(1) as f64;
    }
    FractionalFilling {
        prices,
        parts: solution.point,
    }
}
