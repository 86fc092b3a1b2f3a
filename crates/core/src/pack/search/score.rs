//! Which of two plans, or of two packings, is the better one.

use std::collections::BTreeMap;

use crate::money::Money;
use crate::pack::assign::Assignment;
use crate::pack::compile::Compiled;
use crate::pack::packing::Packing;
use crate::plan::Plan;

/// Less is better: pods without a place, those of high priority first; then cost; then machines.
pub(crate) fn standing(compiled: &Compiled<'_>, plan: &Plan) -> (Vec<(i32, u32)>, Money, usize) {
    (missing(compiled, plan), plan.cost, plan.launches.len())
}

/// Pods without a place, those of high priority first: less is better.
pub(crate) fn missing(compiled: &Compiled<'_>, plan: &Plan) -> Vec<(i32, u32)> {
    let mut missing: BTreeMap<i32, u32> = BTreeMap::new();
    for pod in plan.waiting() {
        let priority = compiled.pod(pod.home, pod.group).spec.priority;
        *missing.entry(priority).or_insert(0) += 1;
    }
    missing.into_iter().rev().collect()
}

/// Less is better: pods without a place, those of high priority first; then cost; then machines. `lost` are pods that
/// were packed in vain: class and count.
pub(crate) fn merit(
    compiled: &Compiled<'_>,
    assignment: &Assignment,
    packing: &Packing,
    lost: &[(u32, u32)],
) -> (Vec<(i32, u32)>, i64, usize) {
    let mut missing: BTreeMap<i32, u32> = BTreeMap::new();
    let lots = assignment.lots.iter().map(|lot| lot.class);
    let left = lots.zip(packing.left.iter().copied());
    let without = assignment.failed.iter().chain(lost).copied();
    for (class, left) in left.chain(without) {
        if left > 0 {
            let priority = compiled.profile(class).spec.priority;
            *missing.entry(priority).or_insert(0) += left;
        }
    }
    // From the highest priority down: the list that ends first, or has the lower entry first, is the better one.
    let missing = missing.into_iter().rev().collect();
    (missing, packing.cost, packing.bins.len())
}
